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

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from harness_nb.context.count import Counter, counter
from harness_nb.context.tally import Anchor, Tally, scaled
from harness_nb.context.window import Window
from harness_nb.errors import UsageError
from harness_nb.events import Component, ContextMeasured, Event, Fill, ModelChosen, ModelSwitched, Notice
from harness_nb.messages import Message, Transcript, Usage
from harness_nb.seams import ModelLayer, Proceed, Reply, Request, Run, ToolSpec
from harness_nb.tasks import off_loop

BEYOND, ADDED = 20, 100_000
"""How many times our estimate, or what part of it, a count may be, and tokens that a provider may add besides. Beyond that
it is a count of something else: some servers leave out what was cached."""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What one turn saw and what it cost: `Transcript(entries[:n]).live()` with n = `entries` is what the model saw.

    `fill` is as measured before the model was asked, `usage` what was counted in the end; `message_id` names the reply.
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

    @property
    def error(self) -> float | None:
        """By how much of the provider's count the measure was too high, 0.1 for 10%; None where the provider gave none."""
        if self.usage.estimated or self.usage.input <= 0:
            return None
        return self.fill.total / (self.usage.context or self.usage.input) - 1


class Account:
    """Measures the requests of one session and remembers what each turn was. `yellow` and `red` are shares of what is usable.

    `window` is one, or a function that finds it: it is called at the first measure, off the event loop. `retrieved`
    names the tools whose results count as retrieved. Raises UsageError unless 0 < yellow < red <= 1.
    """

    def __init__(
        self,
        window: Window | Callable[[], Window],
        counter: Counter,
        yellow: float = 0.60,
        red: float = 0.80,
        *,
        retrieved: Collection[str] = (),
    ) -> None:
        if not 0 < yellow < red <= 1:
            raise UsageError(
                f"The window can't turn yellow at {yellow:g} and red at {red:g}: both are shares of it, above 0 and "
                "at most 1, and yellow comes first."
            )
        self.counter = counter
        self.yellow, self.red = yellow, red
        self.retrieved = frozenset(retrieved)
        self.turns: list[TurnRecord] = []
        self._window = window
        self._tally = Tally(counter, self.retrieved)
        self._anchor: Anchor | None = None
        self._told = False

    @property
    def window(self) -> Window:
        """The model's window, as far as it is known; set it to take back what was learnt of another one."""
        if not isinstance(self._window, Window):
            self._window = self._window()
        return self._window

    @window.setter
    def window(self, window: Window) -> None:
        self._window = window

    async def measure(self, request: Request) -> Fill:
        """Count what fills the window in this request; much text is counted off the event loop."""
        if not isinstance(self._window, Window):
            self._window = await off_loop(self._window)
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
        return self.judged(tokens, how, request.max_output or 0)

    def judged(self, tokens: Mapping[Component, int], how: str, output: int = 0) -> Fill:
        """Say how full the window is with so many tokens; `output` is what a reply may have, if it is known."""
        window = self.window
        headroom = output if window.headroom < output < window.size else window.headroom
        fill = Fill(tokens, window.size, headroom, how, "green")
        if fill.share < self.yellow:
            return fill
        return replace(fill, state="red" if fill.share >= self.red else "yellow")

    def anchor(self, request: Request, usage: Usage) -> None:
        """Hold on to what the provider counted for this request; a guess, nothing, and what can't be are passed over."""
        if usage.estimated or usage.input <= 0:
            return
        estimate = max(1, sum(self._tally.tokens(request).values()))
        before, counted = self._anchor, usage.context or usage.input
        if not estimate / BEYOND <= counted <= estimate * BEYOND + ADDED:
            return
        self._anchor = before.moved(estimate, counted) if before else Anchor.first(estimate, counted)

    def learn(self, window: int) -> None:
        """Take it from the provider that the window has so many tokens; what a person configured only becomes smaller."""
        known = self.window
        if window > 0 and not (known.source == "configuration" and known.size <= window):
            self._window = known.learnt(window)

    def change(self, window: Window | Callable[[], Window], counter: Counter) -> None:
        """Go on with another model: its window and its counter; the anchor goes, the turns stay."""
        self._window, self.counter = window, counter
        self._tally = Tally(counter, self.retrieved)
        self._anchor = None

    def notice(self) -> str:
        """Say once that tokens are only guessed from characters, if so."""
        told, self._told = self._told, True
        return "" if told else self.counter.notice


def measured(account: Account, model: str = "", *, counted: bool = True) -> ModelLayer:
    """Make the layer that measures each request as it is sent, says so, and records the turn. Put it first.

    `model` is the name in the records. `counted` is whether what the provider counts is this request; it isn't where a model
    sends prompts of its own, as the embedded one does, and then nothing is learnt from it. If a layer further in decided about the context and asked again, or the
    provider did, the record is of what was seen last.
    """

    async def layer(request: Request, run: Run, proceed: Proceed[Request, Reply]) -> Reply:
        fill = await account.measure(request)
        if words := account.notice():
            run.emit(Notice(words))
        run.emit(ContextMeasured(run.turn, fill))
        entries, others, chosen = len(run.transcript), list[str](), model

        def hear(event: Event) -> None:
            nonlocal chosen
            if isinstance(event, ModelSwitched):
                others.append(event.model)
            elif isinstance(event, ModelChosen):
                chosen = event.model

        with run.overheard(hear):
            reply = await proceed(request)
        if len(run.transcript) != entries:
            request = replace(request, messages=run.transcript.live())
            fill = await account.measure(request)
            run.emit(ContextMeasured(run.turn, fill))
        usage = reply.usage if counted else replace(reply.usage, estimated=True)
        if not others:
            account.anchor(request, usage)
        account.turns.append(
            TurnRecord(
                run.id,
                run.turn,
                len(run.transcript),
                request.instructions,
                request.tools,
                fill,
                usage,
                others[-1] if others else chosen,
                reply.message.id,
            )
        )
        return reply

    return layer


def records_of(transcript: Transcript, account: Account | None = None) -> list[TurnRecord]:
    """Make the records of a transcript that comes without: no instructions, tools or usage, for it doesn't tell them."""
    account = account or Account(Window(), counter())
    records: list[TurnRecord] = []
    tally, grown = Tally(account.counter, account.retrieved), Transcript()
    for number, entry in enumerate(transcript.entries):
        if isinstance(entry, Message) and entry.role == "assistant":
            fill = account.judged(tally.tokens(Request("", grown.live())), account.counter.name)
            usage = Usage(fill.total, account.counter.message(entry), estimated=True)
            records.append(TurnRecord("", len(records) + 1, number, "", (), fill, usage, "", entry.id))
        grown.append(entry)
    return records


def encode_turn(record: TurnRecord) -> dict[str, object]:
    """Turn a record into plain JSON data; `decode_turn` turns it back, equal."""
    data: dict[str, object] = {item.name: getattr(record, item.name) for item in fields(record)}
    fill = {item.name: getattr(record.fill, item.name) for item in fields(record.fill)}
    specs = [
        {
            "name": spec.name,
            "description": spec.description,
            "input_schema": dict(spec.input_schema),
            "effects": sorted(spec.effects),
            "limit": spec.limit,
            "deferred": spec.deferred,
        }
        for spec in record.specs
    ]
    return data | {
        "specs": specs,
        "fill": fill | {"tokens": dict(record.fill.tokens)},
        "usage": asdict(record.usage),
    }


def decode_turn(data: Mapping[str, Any]) -> TurnRecord:
    """Rebuild what `encode_turn` made. Raises ValueError for data that it did not make."""
    try:
        specs = tuple(
            ToolSpec(**{**spec, "effects": frozenset(spec["effects"])})  # its preview is code and not kept
            for spec in data["specs"]
        )
        rest = {"specs": specs, "fill": Fill(**data["fill"]), "usage": Usage(**data["usage"])}
        return TurnRecord(**{**data, **rest})
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"not a turn's record: {fault!r}") from fault
