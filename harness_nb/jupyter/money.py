"""What a run costs, and what going on beyond a limit would take, in words: the same for the live view, the record and the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from harness_nb.events import Charged, LimitMet
from harness_nb.jupyter.words import took
from harness_nb.ops.allowance import amount, money, whose


@dataclass(slots=True)
class Bill:
    """What has been charged so far. `known` is in dollars; `unknown` counts the requests that nobody can price."""

    requests: int = 0
    unknown: int = 0
    known: Decimal = Decimal()
    unlimited: bool = False
    """Whether it may cost money, and no limit in dollars holds it."""
    limited: bool = False
    """Whether a limit in dollars holds it."""

    def add(self, charged: Charged) -> None:
        """Take one more request."""
        self.requests += 1
        self.unknown += charged.cost is None
        self.known += charged.cost or Decimal()

    @property
    def words(self) -> str:
        """Say it in a few words; empty where nothing is paid and nobody asked about money."""
        return ", ".join(
            part for part in (self._cost, "no limit in dollars" if self.unlimited else "") if part
        )

    @property
    def _cost(self) -> str:
        if not self.known:
            free = "no cost" if self.limited and self.requests else ""
            return "price unknown" if self.unknown else free
        return cost(self.known, self.unknown)


def cost(known: Decimal | None, unknown: int = 0) -> str:
    """Write what requests cost of which `unknown` have no known price: `$0.0042`, `at least $0.0042`, `no cost`, `price unknown`."""
    if not known:
        return "price unknown" if unknown else "no cost"
    return f"at least {money(known)}" if unknown else money(known)


@dataclass(frozen=True, slots=True)
class Offer:
    """That a run goes on beyond the limit that ended it. `id` tells it from later offers of the same run; `waited` is in seconds."""

    id: str
    met: LimitMet
    waited: float = 0.0

    @property
    def more(self) -> str:
        """How much would be allowed: `$0.50`."""
        more = amount(self.met.what, self.met.more)
        return "turn" if more == "1 turn" else more

    @property
    def title(self) -> str:
        """Which limit it is, in a sentence."""
        return f"{whose(self.met.scope)} limit of {amount(self.met.what, self.met.limit)} is reached."

    @property
    def act(self) -> str:
        """What a button says."""
        return f"Allow another {self.more} and go on"

    @property
    def promise(self) -> str:
        """What going on would do, in a sentence."""
        where = {"session": "the session", "day": "today's work"}.get(self.met.scope, "it")
        then = amount(self.met.what, self.met.limit + self.met.more)
        return f"The run goes on from where it stopped; {where} then stops at {then}."

    def told(self, detail: str) -> str:
        """Say what happened: `detail`, which names the limit and what was spent, and that what was done stands."""
        waited = ""
        if self.met.what == "seconds" and self.waited >= 0.95:
            waited = f" It waited {took(self.waited)} for you besides."
        return f"{detail}{waited} What it did so far stands."

    def commands(self, at: str) -> str:
        """Say what to type; `at` is how the session is spoken to."""
        session = at.removeprefix("%agent").removeprefix(" --session")
        said = f"To go on, `%resume{session}` allows another {self.more}"
        if self.met.scope != "run":
            return f"{said}."
        total = self.met.limit + self.met.more
        number = money(total).lstrip("$").replace(",", "") if self.met.what == "dollars" else f"{total:.0f}"
        return f"{said}; `%resume --{self.met.what} {number}{session}` sets the limit that you say."
