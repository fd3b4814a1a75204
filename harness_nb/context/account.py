"""What fills the context window, measured before every request; `measured` is a model layer. Book chapter 7.

    account = Account(window("claude-sonnet-5-5"), counter("claude-sonnet-5-5"))
    asked = layered(model, measured(account), retrying())         # outermost: it sees the request that is sent

Theory of operation. Only a provider knows how many tokens a request has, and tells it afterwards. So the last request
that it counted is an **anchor**: the next one has that many, plus our estimate of what came to it or left it since.
Estimate and count differ by something fixed (words that the provider adds) and by a ratio (another vocabulary); the
anchor holds the first, and the ratio is learnt from how both grow. An account is of one session and survives its runs.
A measure costs only what is new: what was counted in the request before is looked up, or not looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from harness_nb.context.count import Counter
from harness_nb.context.window import Window
from harness_nb.errors import UsageError
from harness_nb.events import Component, ContextMeasured, Event, Fill, ModelSwitched, Notice
from harness_nb.messages import Message, Transcript, Usage
from harness_nb.seams import ModelLayer, Proceed, Reply, Request, Run, ToolSpec

COMPONENTS: tuple[Component, ...] = get_args(Component)

PRIOR = 500
"""Tokens of growth that weigh as much as the ratio seen in the first request."""
FADING = 0.8
"""How much of its weight what was learnt of the ratio keeps from turn to turn."""
LEAST_RATIO, MOST_RATIO = 0.25, 3.0
LEAST_PRIOR, MOST_PRIOR = 0.7, 1.5
"""Bounds of the ratio taken from the first request: much of what is beyond them is words that the provider adds."""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What one turn saw and what it cost: `Transcript(entries[:n]).live()` with n = `entries` is what the model saw.

    `fill` is as measured before the model was asked, `usage` what the provider counted; `message_id` names the reply.
    """

    run: str
    turn: int
    entries: int
    instructions: str
    specs: tuple[ToolSpec, ...]
    fill: Fill
    usage: Usage
    model: str
    message_id: str


@dataclass(slots=True)
class _Anchor:
    """A request that the provider counted: our estimate of it and the true number, and the ratio learnt so far."""

    estimate: int
    actual: int
    ratio: float
    weight: float

    def total(self, estimate: int) -> int:
        """Correct the estimate of another request."""
        total = self.actual + self.ratio * (estimate - self.estimate)
        return round(total) if total > 0 else round(self.actual * estimate / max(1, self.estimate))

    def moved(self, estimate: int, actual: int) -> _Anchor:
        """Return the anchor at the next request that was counted, wiser by how both numbers moved."""
        grown, truly = estimate - self.estimate, actual - self.actual
        weight = self.weight * FADING
        ratio = (self.ratio * weight + truly * grown) / (weight + grown * grown) if grown else self.ratio
        return _Anchor(estimate, actual, min(MOST_RATIO, max(LEAST_RATIO, ratio)), weight + grown * grown)


class Account:
    """Measures the requests of one session and remembers what each turn was. `yellow` and `red` are shares of what is usable.

    `retrieved` names the tools whose results count as retrieved. Raises UsageError unless 0 < yellow < red <= 1.
    """

    def __init__(
        self,
        window: Window,
        counter: Counter,
        yellow: float = 0.60,
        red: float = 0.80,
        *,
        retrieved: Collection[str] = (),
    ) -> None:
        if not 0 < yellow < red <= 1:
            raise UsageError(
                f"The window can't turn yellow at {yellow:g} and red at {red:g}: both are shares of it, above 0, "
                "at most 1, and yellow comes first."
            )
        self.window = window
        self.counter = counter
        self.yellow, self.red = yellow, red
        self.turns: list[TurnRecord] = []
        self._tally = _Tally(counter, frozenset(retrieved))
        self._anchor: _Anchor | None = None
        self._told = False

    async def measure(self, request: Request) -> Fill:
        """Count what fills the window in this request; much text is counted off the event loop."""
        await self.counter.ready(self._tally.fresh(request.messages))
        return self.fill(request)

    def fill(self, request: Request) -> Fill:
        """Count as `measure` does, here and now: for a request that was measured, or a view that can wait."""
        estimate = self._tally.tokens(request)
        how = self.counter.name
        tokens = estimate
        if self._anchor is not None:
            tokens = scaled(estimate, self._anchor.total(sum(estimate.values())))
            how = f"provider + {how}"
        headroom = self.window.headroom
        if request.max_output is not None and headroom < request.max_output < self.window.size:
            headroom = request.max_output
        return self._judged(Fill(tokens, self.window.size, headroom, how, "green"))

    def _judged(self, fill: Fill) -> Fill:
        if fill.share < self.yellow:
            return fill
        return replace(fill, state="red" if fill.share >= self.red else "yellow")

    def anchor(self, request: Request, usage: Usage) -> None:
        """Hold on to what the provider counted for this request; a guess, or nothing, is passed over."""
        if usage.estimated or usage.input <= 0:
            return
        estimate = max(1, sum(self._tally.tokens(request).values()))
        if self._anchor is None:
            ratio = min(MOST_PRIOR, max(LEAST_PRIOR, usage.input / estimate))
            self._anchor = _Anchor(estimate, usage.input, ratio, float(PRIOR * PRIOR))
        else:
            self._anchor = self._anchor.moved(estimate, usage.input)

    def learn(self, window: int) -> None:
        """Take it from the provider that the window has so many tokens; what a person configured only becomes smaller."""
        known = self.window
        if window <= 0 or (known.source == "configuration" and known.size <= window):
            return
        self.window = Window(window, min(known.headroom, window // 4), min(known.output, window), "learnt")

    def change(self, window: Window, counter: Counter) -> None:
        """Go on with another model: its window and its counter; the anchor goes, the turns stay."""
        self.window, self.counter = window, counter
        self._tally = _Tally(counter, self._tally.retrieved)
        self._anchor = None

    def notice(self) -> str:
        """Say once that tokens are only guessed from characters, if so."""
        told, self._told = self._told, True
        return "" if told else self.counter.notice


def measured(account: Account, model: str = "") -> ModelLayer:
    """Make the layer that measures each request as it is sent, says so, and records the turn. Put it first.

    `model` is the name in the records. If a layer further in decided about the context and asked again, or the
    provider did, the record is of what was seen last.
    """

    async def layer(request: Request, run: Run, proceed: Proceed[Request, Reply]) -> Reply:
        fill = await account.measure(request)
        if words := account.notice():
            run.emit(Notice(words))
        run.emit(ContextMeasured(run.turn, fill))
        entries, others = len(run.transcript), list[str]()

        def hear(event: Event) -> None:
            if isinstance(event, ModelSwitched):
                others.append(event.model)

        with run.overheard(hear):
            reply = await proceed(request)
        if len(run.transcript) != entries:
            request = replace(request, messages=run.transcript.live())
            fill = await account.measure(request)
            run.emit(ContextMeasured(run.turn, fill))
        if not others:
            account.anchor(request, reply.usage)
        account.turns.append(
            TurnRecord(
                run.id,
                run.turn,
                len(run.transcript),
                request.instructions,
                request.tools,
                fill,
                reply.usage,
                others[-1] if others else model,
                reply.message.id,
            )
        )
        return reply

    return layer


def records_of(transcript: Transcript, account: Account) -> list[TurnRecord]:
    """Make the records of a transcript of which there are none, as far as it tells: no instructions, tools or usage."""
    records: list[TurnRecord] = []
    tally = _Tally(account.counter, account._tally.retrieved)  # noqa: SLF001 - the same module
    grown = Transcript()
    for number, entry in enumerate(transcript.entries):
        if isinstance(entry, Message) and entry.role == "assistant":
            tokens = tally.tokens(Request("", grown.live()))
            fill = Fill(tokens, account.window.size, account.window.headroom, account.counter.name, "green")
            fill = account._judged(fill)  # noqa: SLF001
            records.append(
                TurnRecord("", len(records) + 1, number, "", (), fill, Usage(estimated=True), "", entry.id)
            )
        grown.append(entry)
    return records


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


@dataclass(slots=True)
class _Tally:
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
        known = len(self._messages)
        if messages[:known] == self._messages:  # in C, and by identity first
            return known
        pairs = enumerate(zip(self._messages, messages, strict=False))
        return next(
            (i for i, (old, new) in pairs if old is not new and old != new), min(known, len(messages))
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
