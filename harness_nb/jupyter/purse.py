"""What a session's run may spend: the limits that were set, and what was spent of them, in earlier kernels too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from harness_nb.events import LimitMet
from harness_nb.jupyter.defaults import defaults
from harness_nb.jupyter.kept import Kept, where
from harness_nb.ops.allowance import Allowance, Spent
from harness_nb.ops.budget import Budget
from harness_nb.ops.history import History, KeptRun
from harness_nb.ops.records import Record
from harness_nb.ops.spending import Spending, charges
from harness_nb.ops.store import StoreError, open_store


class Purse:
    """The limits of one session, and by how much a person raised them."""

    def __init__(self, kept: Kept) -> None:
        """Start with what is configured; what was spent is read from what is kept of the session."""
        self._kept = kept
        self._raised: dict[tuple[str, str], LimitMet] = {}

    def budget(self, limits: Allowance | None, goes_on: KeptRun | None) -> Budget:
        """Make the budget of the next run, within the session's and the day's.

        `limits` are the run's own, None for the usual ones. A limit that ended the run which now goes on is raised by as
        much again, unless it has other `limits` now.
        """
        usual = Allowance(
            seconds=defaults.seconds, tokens=defaults.tokens, dollars=_dollars(defaults.dollars)
        )
        own, met = limits or usual, goes_on.limit if goes_on is not None else None
        if goes_on is not None and goes_on.reason == "budget" and met is not None:
            if met.scope == "run":
                own = limits or _raised(usual, met)
            else:
                self._raised[met.scope, met.what] = met
        day = Budget("day", self._of("day", defaults.day_dollars), spent=_today(self._kept))
        records = [record for run in self._kept.history.runs.values() for record in run.charges]
        session = Budget(
            "session", self._of("session", defaults.session_dollars), day, spending(records).spent
        )
        return Budget("run", own, session, _before(goes_on) if goes_on is not None else None)

    def _of(self, scope: str, dollars: float | None) -> Allowance:
        allowance = Allowance(dollars=_dollars(dollars))
        for (raised, _), met in self._raised.items():
            allowance = _raised(allowance, met) if raised == scope else allowance
        return allowance


def _raised(allowance: Allowance, met: LimitMet) -> Allowance:
    """Raise a limit to what it was when it was met and as much again; where there is none any more, it stays so."""
    limit = getattr(allowance, met.what, None)
    if limit is None:
        return allowance
    return replace(allowance, **{met.what: max(limit, type(limit)(met.limit + met.more))})


def spending(records: Iterable[Record]) -> Spending:
    """Add up what these records say."""
    return Spending(charges(records))


def _before(run: KeptRun) -> Spent:
    spent = spending(run.charges).spent
    return Spent(spent.turns, max(0.0, run.seconds - run.waited), spent.tokens, spent.dollars)


def _today(kept: Kept) -> Spent:
    """Add up what all sessions in this place cost today; that is read only where there is a limit to it."""
    place = where()
    if defaults.day_dollars is None or not place:
        return Spent()
    day = datetime.now(UTC).date().isoformat()
    found: list[Record] = []
    try:
        store = open_store(place)
        for info in store.sessions():
            if info.changed >= day:
                history = History(store.open(info.name, write=False).read())
                found += [r for run in history.runs.values() for r in run.charges if r.at >= day]
    except StoreError as fault:
        kept.notices.append(f"What was spent today could not be read: {fault}")
    return spending(found).spent


def _dollars(amount: float | None) -> Decimal | None:
    return None if amount is None else Decimal(str(amount))
