"""What today may cost, and has: one budget for all runs of this process that are kept in one place. Book chapter 20."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from weakref import WeakSet

from harness_nb.events import LimitMet
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
        if allowance.dollars is None:
            self._budget.renew(allowance, Spent())
            return self._budget
        own, found = [one.history for one in list(self._sessions)], self._read(kept)
        self._budget.renew(allowance, Spent(dollars=self._dollars(own, found)))
        raises = {
            raised for history in (*own, *found) for raised in history.raises if raised[0] >= self._date
        }
        for _, met in sorted(raises, key=lambda raised: raised[0]):
            let_beyond(self._budget, met)
        return self._budget

    def _read(self, kept: Kept) -> list[History]:
        """Read what is kept of this day's sessions, those of other kernels too."""
        if not kept.place:
            return []
        try:
            store = open_store(where())
            names = [info.name for info in store.sessions() if info.changed >= self._date]
            return [History(store.open(name, write=False).read()) for name in names]
        except StoreError as fault:
            kept.notices.append(f"What was spent today could not be read: {fault}")
            return []

    def _dollars(self, own: Iterable[History], found: Iterable[History]) -> Decimal:
        """Add up what is kept here, and what this process paid and could keep in memory alone; each charge once."""
        here = Counter(_told(charge) for history in own for charge in self._of(history))
        kept = Counter(_told(charge) for history in found for charge in self._of(history))
        return sum((cost * times for (_, _, cost), times in (here | kept).items()), Decimal())

    def _of(self, history: History) -> Iterable[Charge]:
        runs = list(history.runs.values())
        return charges(record for run in runs for record in list(run.charges) if record.at >= self._date)


def let_beyond(budget: Budget, met: LimitMet) -> None:
    """Raise a limit that a person let be raised, where it is still the one that was met: one that was set since holds."""
    if limit_of(budget, met) == met.limit:
        budget.allow(met)


def limit_of(budget: Budget, met: LimitMet) -> Decimal | None:
    """Return the limit that was met, as it is now; None where there is none."""
    levels = (level for level in budget.levels if level.scope == met.scope)
    level = next(levels, None)
    limit = getattr(level.allowance, met.what, None) if level is not None else None
    return None if limit is None else Decimal(str(limit))


_days: dict[tuple[int, str, str], _Day] = {}
"""By process, place and date: sessions of one process share what is left of a day."""


def _place() -> str:
    place = where()
    return place if not place or "://" in place else str(Path(place).expanduser().absolute())


def _told(charge: Charge) -> tuple[str, datetime, Decimal]:
    """Know a charge again, whether it is remembered or was read."""
    return charge.run, charge.at, charge.cost or Decimal()
