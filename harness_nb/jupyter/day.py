"""What today may cost, and has: one budget for all runs of this process that are kept in one place. Book chapter 20."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from weakref import WeakSet

from harness_nb.jupyter.defaults import defaults
from harness_nb.jupyter.kept import Kept, where
from harness_nb.ops.allowance import Allowance, Spent
from harness_nb.ops.budget import Budget
from harness_nb.ops.history import History
from harness_nb.ops.spending import Charge, charges
from harness_nb.ops.store import StoreError, open_store


def today(kept: Kept) -> Budget:
    """Return the day's budget for a run of this session. Raises UsageError for a default that no limit can be.

    Runs side by side have the same one, so they can't all count on the same remainder. Where there is a limit, what
    other kernels spent meanwhile is read each time; what calls under way hold stays held. Days are those of UTC.
    """
    dollars = defaults.day_dollars
    allowance = Allowance(dollars=None if dollars is None else Decimal(str(dollars)))
    date = datetime.now(UTC).date().isoformat()
    # A process that was forked has days of its own: it never settles what its parent's calls hold.
    day = _days.setdefault((os.getpid(), _place(), date), _Day(date))
    return day.renewed(kept, allowance)


class _Day:
    """One day in one place."""

    def __init__(self, date: str) -> None:
        self._date = date
        self._budget = Budget("day")
        self._sessions: WeakSet[Kept] = WeakSet()

    def renewed(self, kept: Kept, allowance: Allowance) -> Budget:
        self._sessions.add(kept)
        spent = Spent() if allowance.dollars is None else Spent(dollars=self._dollars(kept))
        self._budget.renew(allowance, spent)
        return self._budget

    def _dollars(self, kept: Kept) -> Decimal:
        """Add up what is kept here, and what this process paid and could keep in memory alone; each charge once."""
        own = Counter(_told(charge) for one in list(self._sessions) for charge in self._of(one.history))
        found: Counter[tuple[str, datetime, Decimal]] = Counter()
        if kept.place:
            try:
                found.update(map(_told, self._read()))
            except StoreError as fault:
                kept.notices.append(f"What was spent today could not be read: {fault}")
        return sum((cost * times for (_, _, cost), times in (own | found).items()), Decimal())

    def _read(self) -> Iterator[Charge]:
        store = open_store(where())
        for info in store.sessions():
            if info.changed >= self._date:
                yield from self._of(History(store.open(info.name, write=False).read()))

    def _of(self, history: History) -> Iterable[Charge]:
        runs = list(history.runs.values())
        return charges(record for run in runs for record in list(run.charges) if record.at >= self._date)


_days: dict[tuple[int, str, str], _Day] = {}
"""By process, place and date: sessions of one process share what is left of a day."""


def _place() -> str:
    place = where()
    return place if not place or "://" in place else str(Path(place).expanduser().absolute())


def _told(charge: Charge) -> tuple[str, datetime, Decimal]:
    """Know a charge again, whether it is remembered or was read."""
    return charge.run, charge.at, charge.cost or Decimal()
