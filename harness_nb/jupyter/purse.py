"""What a session's run may spend: the limits that were set, and what was spent of them, in earlier kernels too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from decimal import Decimal

from harness_nb.errors import UsageError
from harness_nb.events import LimitMet
from harness_nb.jupyter.day import let_beyond, limit_of, today
from harness_nb.jupyter.defaults import defaults
from harness_nb.jupyter.kept import Kept
from harness_nb.ops.allowance import KINDS, Allowance, Spent, amount, whose
from harness_nb.ops.budget import Budget
from harness_nb.ops.history import KeptRun
from harness_nb.ops.records import Record
from harness_nb.ops.spending import Spending, charges


class Purse:
    """The limits of one session."""

    def __init__(self, kept: Kept) -> None:
        """Start with what is configured; what was spent and allowed is read from what is kept of the session."""
        self._kept = kept
        self.last: Budget | None = None
        """The budget of the last run of this kernel."""

    def budget(self, limits: Allowance | None, goes_on: KeptRun | None) -> Budget:
        """Make the budget of the next run, within the session's and the day's.

        `limits` are the run's own, None for the usual ones. Those of a run that goes on are what they were, and each that
        it met is raised by as much again; what its `limits` name now comes first.
        """
        history, day = self._kept.history, today(self._kept)
        records = [record for run in history.runs.values() for record in run.charges]
        allowance = Allowance(dollars=_dollars(defaults.session_dollars))
        session = Budget("session", allowance, day, spending(records).spent)
        for _, met in history.raises:
            if met.scope == "session":
                let_beyond(session, met)
        if goes_on is not None and goes_on.reason == "budget" and goes_on.limit is not None:
            let_beyond(session, goes_on.limit)
        if goes_on is None:
            return Budget("run", limits or _usual(), session)
        own = _read(goes_on.limits) or _usual()
        run = Budget("run", _with(own, limits), session, _before(goes_on))
        for own_met in goes_on.met.values():  # whoever had it go on allowed each of them
            if getattr(limits, own_met.what, None) is None:
                _raise(run, own_met)
        return run


def written(limits: Allowance | None) -> dict[str, str]:
    """Write what a run may spend for its record; empty for the usual limits."""
    if limits is None:
        return {}
    said = ((item, getattr(limits, item.name)) for item in fields(limits))
    return {item.name: str(value) for item, value in said if value != item.default}


def _read(limits: Mapping[str, str]) -> Allowance | None:
    """Read what `written` wrote; None where there is nothing, or nothing that can be read."""
    types = {"turns": int, "seconds": float, "tokens": int, "dollars": Decimal, "children": int, "depth": int}
    with suppress(ValueError, ArithmeticError, UsageError):
        return Allowance(**{k: types[k](v) for k, v in limits.items() if k in types}) if limits else None
    return None


def _usual() -> Allowance:
    return Allowance(seconds=defaults.seconds, tokens=defaults.tokens, dollars=_dollars(defaults.dollars))


def _with(own: Allowance, limits: Allowance | None) -> Allowance:
    """Put the limits that are named in the place of those that were."""
    named = {kind: getattr(limits, kind, None) for kind in KINDS}
    return replace(own, **{kind: limit for kind, limit in named.items() if limit is not None})


def without(limits: Allowance, kind: str) -> Allowance:
    """Leave out one of the limits."""
    return Allowance(**{name: getattr(limits, name) for name in KINDS if name != kind})


def _raise(budget: Budget, met: LimitMet) -> None:
    """Raise a limit to what it was when it was met and as much again; where there is none any more, it stays so."""
    limit = limit_of(budget, met)
    if limit is not None and (more := met.limit + met.more - limit) > 0:
        budget.allow(replace(met, more=more))


def raised(met: LimitMet, now: Decimal | None) -> str:
    """Say in a sentence what became of a limit that a person let be raised."""
    allowed = "there is none now" if now is None else f"you made it {amount(met.what, now)}"
    return f"{whose(met.scope)} limit of {amount(met.what, met.limit)} was reached; {allowed}."


def spending(records: Iterable[Record]) -> Spending:
    """Add up what these records say."""
    return Spending(charges(records))


def _before(run: KeptRun) -> Spent:
    spent = spending(run.charges).spent
    return Spent(spent.turns, max(0.0, run.seconds - run.waited), spent.tokens, spent.dollars)


def _dollars(amount: float | None) -> Decimal | None:
    return None if amount is None else Decimal(str(amount))
