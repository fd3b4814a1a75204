"""Estimates that are kept up from request to request and corrected by what providers count. Part of the accounting of book chapter 7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from harness_nb.context.count import Counter
from harness_nb.events import Component
from harness_nb.messages import Message
from harness_nb.seams import Request

COMPONENTS: tuple[Component, ...] = get_args(Component)
"""In the order in which they are shown."""

PRIOR = 300
"""Tokens of growth that weigh as much as the ratio seen in the first request."""
FADING = 0.8
"""How much of its weight what was learnt of the ratio keeps from turn to turn."""
LEAST_RATIO, MOST_RATIO = 0.25, 3.0
"""Bounds of the ratio: what seems beyond them has another cause, such as a provider that cuts the request."""
DOUBT = 2_000
"""Tokens of a first request that count for a ratio of 1: in a short one, most of a difference is what the provider adds."""


@dataclass(slots=True)
class Tally:
    """The estimated tokens of the messages last seen, kept up by what comes and goes at their end."""

    counter: Counter
    retrieved: frozenset[str]
    _messages: tuple[Message, ...] = ()
    _shares: list[Mapping[Component, int]] = field(default_factory=list)
    _sums: dict[Component, int] = field(default_factory=dict)
    _searches: set[str] = field(default_factory=set)

    def fresh(self, messages: tuple[Message, ...]) -> Sequence[Message]:
        """The messages that were not there the last time, and all after the first of them."""
        return messages[self._same(messages) :]

    def tokens(self, request: Request) -> dict[Component, int]:
        """Estimate the tokens of a request by component, in the order in which they are shown."""
        self._move(request.messages)
        sums = dict(self._sums)
        sums["system"] = sums.get("system", 0) + self.counter.instructions(request.instructions)
        sums["tools"] = self.counter.specs(request.tools)
        return {component: sums[component] for component in COMPONENTS if sums.get(component)}

    def _same(self, messages: tuple[Message, ...]) -> int:
        """Count the messages at the start that are those of the last time."""
        known = self._messages
        if messages is known or _begins(messages, known):
            return len(known)
        pairs = enumerate(zip(known, messages, strict=False))
        return next(
            (i for i, (old, new) in pairs if old is not new and old != new), min(len(known), len(messages))
        )

    def _move(self, messages: tuple[Message, ...]) -> None:
        same = self._same(messages)
        for share in self._shares[same:]:
            self._add(share, -1)
        del self._shares[same:]
        for message in messages[same:]:
            share = self._share(message)
            self._add(share, 1)
            self._shares.append(share)
        self._messages = messages

    def _add(self, share: Mapping[Component, int], sign: int) -> None:
        for component, tokens in share.items():
            self._sums[component] = self._sums.get(component, 0) + sign * tokens

    def _share(self, message: Message) -> Mapping[Component, int]:
        """The tokens of a message, those of a retrieving tool's results under a name of their own."""
        share = self.counter.parts(message)
        if not self.retrieved:
            return share
        self._searches.update(call.id for call in message.calls if call.name in self.retrieved)
        sizes = zip(message.results, self.counter.results(message), strict=True)
        found = sum(size for result, size in sizes if result.call_id in self._searches)
        return {**share, "results": share["results"] - found, "retrieved": found} if found else share


def _begins(messages: tuple[Message, ...], known: tuple[Message, ...]) -> bool:
    """Tell whether `known` is the start of `messages`, as fast as can be: it is asked of thousands at every turn.

    Tuples are compared by their first difference, by identity first and without a copy; two different messages have no
    order, so a difference is an error.
    """
    try:
        return known <= messages
    except TypeError:
        return False


@dataclass(slots=True)
class Anchor:
    """A request that the provider counted: our estimate of it and the true number, and the ratio learnt so far."""

    estimate: int
    actual: int
    ratio: float
    weight: float

    @classmethod
    def first(cls, estimate: int, actual: int) -> Anchor:
        """Make the first one: its ratio is what the two numbers suggest, with little weight."""
        return cls(estimate, actual, _bounded((actual + DOUBT) / (estimate + DOUBT)), float(PRIOR * PRIOR))

    def total(self, estimate: int) -> int:
        """Correct the estimate of another request."""
        total = self.actual + self.ratio * (estimate - self.estimate)
        return round(total) if total > 0 else round(self.actual * estimate / max(1, self.estimate))

    def moved(self, estimate: int, actual: int) -> Anchor:
        """Return the anchor at the next request that was counted, wiser by how both numbers moved."""
        grown, truly = estimate - self.estimate, actual - self.actual
        weight = self.weight * FADING
        ratio = (self.ratio * weight + truly * grown) / (weight + grown * grown) if grown else self.ratio
        return Anchor(estimate, actual, _bounded(ratio), weight + grown * grown)


def _bounded(ratio: float) -> float:
    return min(MOST_RATIO, max(LEAST_RATIO, ratio))


def scaled(tokens: Mapping[Component, int], total: int) -> dict[Component, int]:
    """Make the numbers larger or smaller alike, so that they sum up to `total` exactly; none becomes negative."""
    whole = sum(tokens.values())
    if whole <= 0:
        return {}
    found = {component: number * total // whole for component, number in tokens.items()}
    rests = sorted(tokens, key=lambda component: -(tokens[component] * total % whole))
    for component in rests[: total - sum(found.values())]:
        found[component] += 1
    return {component: number for component, number in found.items() if number}
