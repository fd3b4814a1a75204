"""One level of a budget: what may be spent, what is spent, and what calls under way hold. Used by budget.py. Book chapter 20."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import ROUND_UP, Decimal, InvalidOperation

from harness_nb.errors import RunStop, UsageError
from harness_nb.events import LimitMet
from harness_nb.seams import Run

ALERTS = (80, 50)
"""Per cent of a limit at which a person is told, the last first."""

KINDS = ("turns", "seconds", "tokens", "dollars")

CENT = Decimal("0.01")
WHOSE = {"run": "This run's", "session": "This session's", "day": "Today's"}


@dataclass(frozen=True, slots=True)
class Allowance:
    """What may be spent at one level; None for any amount. Raises UsageError for a limit below zero.

    `children` and `depth` hold for the whole tree of agents that a run starts: how many there may be, and how many
    levels of them. With a depth of 1 children have no children.
    """

    turns: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    dollars: Decimal | None = None
    children: int = 8
    depth: int = 1

    def __post_init__(self) -> None:
        """Take dollars in any form of number, and refuse what can't be."""
        for kind in KINDS:
            limit = getattr(self, kind)
            try:
                number = Decimal(str(0 if limit is None else limit))
            except InvalidOperation:
                number = Decimal("NaN")
            if not number.is_finite() or number < 0:
                raise UsageError(f"A limit of {limit} {kind} can't be: give a number from 0 up.")
            if kind == "dollars" and limit is not None:
                object.__setattr__(self, kind, number)


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent, or is held."""

    turns: int = 0
    seconds: float = 0.0
    tokens: int = 0
    dollars: Decimal = Decimal()

    def __add__(self, other: Spent) -> Spent:
        """Sum field by field."""
        return Spent(
            self.turns + other.turns,
            self.seconds + other.seconds,
            self.tokens + other.tokens,
            self.dollars + other.dollars,
        )

    def __sub__(self, other: Spent) -> Spent:
        """Take away field by field."""
        return Spent(
            self.turns - other.turns,
            self.seconds - other.seconds,
            self.tokens - other.tokens,
            self.dollars - other.dollars,
        )


class LimitError(RunStop):
    """The next call could go beyond a limit, so it was not made; `met` says which."""

    def __init__(self, met: LimitMet, detail: str) -> None:
        """`detail` is one sentence for the person."""
        super().__init__("budget", detail)
        self.args = met, detail
        self.met = met


@dataclass(slots=True)
class Clock:
    """How long a run has been at work, as far as that was counted."""

    run: Run
    now: Callable[[], float]
    counted: float = field(init=False)

    def __post_init__(self) -> None:
        self.counted = self._reading()

    def _reading(self) -> float:
        return self.now() - self.run.waited_so_far()

    def more(self) -> float:
        """Return the seconds since it was last asked."""
        before, self.counted = self.counted, max(self.counted, self._reading())
        return self.counted - before


@dataclass(slots=True)
class Level:
    """The limits of one scope and what is used of them. Not safe between threads: the budget sees to that."""

    scope: str
    allowance: Allowance
    spent: Spent = field(default_factory=Spent)
    child: bool = False
    """Whether it is an agent's that another agent started: its time is that one's too."""
    held: Spent = field(default_factory=Spent)
    clock: Clock | None = None
    children: int = 0
    first: Allowance = field(init=False)
    """The limits as they were set, before anyone raised them."""
    told: dict[str, int] = field(init=False)
    """The last alert of each limit, in per cent."""

    def __post_init__(self) -> None:
        self.first = self.allowance
        self.told = {kind: self._threshold(kind) for kind in KINDS}

    def check(self, wanted: Spent) -> None:
        """Raise LimitError if this much more would be too much."""
        for kind in KINDS:
            limit, first, spent, held, more = (
                Decimal(str(getattr(amounts, kind) or 0))
                for amounts in (self.allowance, self.first, self.spent, self.held, wanted)
            )
            beyond = spent + held + more - limit
            over = beyond > 0 or (kind == "seconds" and beyond == 0)
            if over and getattr(self.allowance, kind) is not None:
                lacking = (
                    beyond.quantize(CENT, ROUND_UP)
                    if kind == "dollars"
                    else beyond.to_integral_value(ROUND_UP)
                )
                met = LimitMet(kind, self.scope, limit, spent, max(first, lacking))
                raise LimitError(met, sentence(met, held))

    def alerts(self) -> list[str]:
        """Say which limits have come near since they were last looked at, a sentence for each."""
        return [words for kind in KINDS if (words := self._alert(kind))]

    def _alert(self, kind: str) -> str:
        before, self.told[kind] = self.told[kind], max(self.told[kind], self._threshold(kind))
        if self.told[kind] == before:
            return ""
        limit, spent = (Decimal(str(getattr(amounts, kind))) for amounts in (self.allowance, self.spent))
        return f"{near(self.scope, kind, limit)} {spent / limit:.0%}."

    def _threshold(self, kind: str) -> int:
        limit, spent = getattr(self.allowance, kind), getattr(self.spent, kind)
        return next((share for share in ALERTS if limit and spent * 100 >= limit * share), 0)

    def renew(self, allowance: Allowance, spent: Spent) -> None:
        """Take in what was spent elsewhere, and limits that were set anew; limits as they were stay raised."""
        self.spent = Spent(*(max(getattr(self.spent, kind), getattr(spent, kind)) for kind in KINDS))
        if allowance != self.first:
            self.allowance = self.first = allowance
            self.told = {kind: self._threshold(kind) for kind in KINDS}

    def allow(self, more: LimitMet) -> None:
        """Raise a limit, where there is one."""
        limit = getattr(self.allowance, more.what, None)
        if limit is not None:
            self.allowance = replace(self.allowance, **{more.what: limit + type(limit)(more.more)})
            self.told[more.what] = self._threshold(more.what)


def near(scope: str, kind: str, limit: Decimal) -> str:
    """Begin the sentence that says how much of a limit is used; the share ends it."""
    return f"{whose(scope)} limit of {amount(kind, limit)} is used up to"


def sentence(met: LimitMet, held: Decimal = Decimal()) -> str:
    """Say which limit was met, for a person; `held` is what calls under way were expected to take."""
    limit, used = amount(met.what, met.limit), amount(met.what, met.spent)
    said = f"{whose(met.scope)} limit of {limit} is reached"
    if met.what == "seconds":
        return f"{said}; waiting for people is not counted."
    under_way = f", calls under way may take {amount(met.what, held)}" if held else ""
    return f"{said}: {used} used{under_way}, and the next call could go beyond it."


def amount(kind: str, value: Decimal) -> str:
    """Write an amount of turns, seconds, tokens or dollars as a person would: `$0.50`, `12,000 tokens`, `900 s`."""
    if kind == "dollars":
        return money(value)
    unit = "s" if kind == "seconds" else kind.removesuffix("s" if value == 1 else "")
    return f"{value:,.0f} {unit}"


def money(value: Decimal) -> str:
    """Write dollars to the cent, and smaller sums with two digits that say something: `$1,204.50`, `$0.0042`."""
    sign, size = "-" if value < 0 else "", abs(value)
    places = 2 if not size or size >= CENT else 1 - size.adjusted()
    return f"{sign}${size:,.{places}f}"


def whose(scope: str) -> str:
    """Name a scope as the owner of what follows."""
    return WHOSE.get(scope, f"The agent `{scope}`'s")
