"""Asks a cheap model for easy turns and a dear one for hard ones; a model made of up to three. Book chapter 20.

    Router(economy=small, mid=usual, premium=large)
    Router(mid=usual, premium=large, choose=lambda request, run: Choice("premium", "Everything here is hard."))

The choice is an event and so stands in the record. A tier that is missing is stood in for by the next dearer one, else
by a cheaper; where a tier is out, the others take the turn over in the same order. Give it models that retry and are
metered each: `layered(model, retrying(), metered(...))`, and put no retrying round it. Before a dearer tier, try more
effort in the same one, and judge by what an accepted answer costs in all.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness_nb.errors import ProviderError, UsageError
from harness_nb.events import ModelChosen, ModelSwitched, TurnRestarted
from harness_nb.ops.meter import by_characters
from harness_nb.seams import Model, Reply, Request, Run
from harness_nb.tasks import settled

Tier = Literal["economy", "mid", "premium"]
TIERS: tuple[Tier, ...] = ("economy", "mid", "premium")
"""The tiers, cheapest first."""

LONG = 50_000
"""Tokens above which a request goes to the premium tier whatever it asks for."""

EASY = re.compile(
    r"(?i)\b(?:classif(?:y|ied|ies|ying|ication)|extract(?:s|ed|ing|ion)?|summar(?:y|ies|i[sz](?:e[sd]?|ing)))\b"
)
HARD = re.compile(r"(?i)\b(?:cod(?:e[sd]?|ing)|plan(?:s|ned|ning)?|reason(?:s|ed|ing)?)\b")

NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})
"""Codes of a provider that has no credit left for us: another one may have."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which tier is asked, and why, in one sentence."""

    tier: Tier
    why: str


Choose: TypeAlias = Callable[[Request, Run], Choice | Awaitable[Choice]]


def by_rule(request: Request, run: Run) -> Choice:
    """Choose by size, then by the first word of the person's request that says how hard it is, else the middle.

    The words that count are those that a run begins with: what the harness itself says later changes nothing.
    """
    tokens, _ = by_characters(request, run)
    if tokens > LONG:
        return Choice("premium", f"The request has about {tokens:,} tokens.")
    task = str(run.state.setdefault(by_rule, _asked(request)))
    easy, hard = EASY.search(task), HARD.search(task)
    if easy and (not hard or easy.start() < hard.start()):
        return Choice("economy", f"The request says `{easy[0]}`.")
    if hard:
        return Choice("premium", f"The request says `{hard[0]}`.")
    return Choice("mid", "Nothing in the request says that it is easy or hard.")


def _asked(request: Request) -> str:
    return next((message.text for message in reversed(request.messages) if message.role == "user"), "")


class Router:
    """A model that asks one of up to three. `tiers` are those given, cheapest first.

    `window` is in tokens, None for the smallest that a tier tells of itself. Raises UsageError without any tier.
    """

    def __init__(
        self,
        *,
        economy: Model | None = None,
        mid: Model | None = None,
        premium: Model | None = None,
        choose: Choose = by_rule,
        window: int | None = None,
    ) -> None:
        given = zip(TIERS, (economy, mid, premium), strict=True)
        self.tiers: dict[Tier, Model] = {tier: model for tier, model in given if model is not None}
        if not self.tiers:
            raise UsageError(
                "A router needs a model: Router(economy=..., mid=..., premium=...), any of them."
            )
        self.choose = choose
        self.name = f"router ({', '.join(dict.fromkeys(model.name for model in self.tiers.values()))})"
        self.window = window if window is not None else self._smallest()
        self.clears = self._all("clears")
        self.offers_clearing = self._all("offers_clearing")
        self.searches_tools = self._all("searches_tools")
        self.own_prompts = any(getattr(model, "own_prompts", False) for model in self.tiers.values())

    def __repr__(self) -> str:
        return f"Router({', '.join(f'{tier}={model.name!r}' for tier, model in self.tiers.items())})"

    def _smallest(self) -> int | None:
        told = [getattr(model, "window", None) for model in self.tiers.values()]
        known = [size for size in told if size]
        return min(known) if known else (None if None in told else 0)

    def _all(self, ability: str) -> bool:
        return all(getattr(model, ability, False) for model in self.tiers.values())

    async def __call__(self, request: Request, run: Run) -> Reply:
        """Ask the tier that is chosen, then the others while those before are out. Raises ProviderError where all are."""
        choice = await settled(self.choose(request, run))
        first, *others = self._order(choice.tier)
        run.emit(ModelChosen(self.tiers[first].name, first, choice.why))
        try:
            return await self.tiers[first](request, run)
        except ProviderError as fault:
            failed = fault
        for tier in others:
            if not _out(failed):
                raise failed
            if run.streamed:
                run.emit(TurnRestarted(str(failed)))
            run.emit(ModelSwitched(self.tiers[tier].name, str(failed)))
            try:
                return await self.tiers[tier](request, run)
            except ProviderError as fault:
                failed = fault
        raise failed

    def _order(self, tier: Tier) -> list[Tier]:
        """List the tiers that there are: the one wanted, dearer ones, then cheaper ones."""
        if tier not in TIERS:
            raise UsageError(f"No tier is called `{tier}`: choose from {', '.join(TIERS)}.")
        at = TIERS.index(tier)
        return [tier for tier in (*TIERS[at:], *reversed(TIERS[:at])) if tier in self.tiers]


def _out(fault: ProviderError) -> bool:
    """Tell whether another model may do better: not where the request or a key is at fault."""
    return fault.retryable or fault.status == 402 or fault.code in NO_CREDIT
