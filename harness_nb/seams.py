"""The five sockets: everything that plugs into a run has one of these shapes. Book chapter 2.

    model layer     (request, run, proceed) -> Reply        retry, fallback, budget, cache marks
    tool gate       (call, run, proceed) -> ToolResult      permission, repeats, idempotency, trust
    prepare step    (request, run) -> Request               accounting, masking, compaction
    accept check    (reply, run) -> str | None              None: done; text: what is missing
    listener        (event) -> None                         journal, view, tracer (see events.py)

A layer and a gate have the shape of what they wrap: they may look, change what they pass on, answer
themselves, or call `proceed` again. State of one run hangs on its `Run`, never on a layer, so that
one layer can serve many runs at once.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

from harness_nb.errors import HarnessError, Reason, RunStop
from harness_nb.events import (
    CallDelta,
    Charged,
    DecisionMade,
    Event,
    Listener,
    MessageAdded,
    Preview,
    TextDelta,
    ThinkingDelta,
    ToolStarted,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
    fan_out,
)
from harness_nb.messages import Decision, Entry, Message, ToolCall, ToolResult, Transcript, Usage

Effect = Literal["read", "write", "network", "mutate", "spend"]
"""What a tool may do: look, change the workspace, talk to the outside, change the outside, cost money."""

Stop = Literal["end", "calls", "length", "pause", "refusal", "other"]
"""Why a model stopped: finished, wants tools, output limit, paused by the provider, declined, something new."""


LIMIT = 16_000
"""Most characters of one result that a model gets by default."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool, and what gates know of it. No `effects` means undeclared, not harmless."""

    name: str
    description: str
    input_schema: Mapping[str, object]
    effects: frozenset[Effect] = frozenset()
    preview: Callable[[Mapping[str, object]], Preview | None] | None = field(default=None, compare=False)
    """Shows what a call with these arguments would do, without doing it."""
    limit: int = field(default=LIMIT, compare=False)
    """Most characters of its result that a model gets."""
    deferred: bool = False
    """Whether the model sees it only once it has searched for it, where the provider has a search (`searches_tools`)."""
    idempotent: bool = field(default=False, compare=False)
    """Whether a second run of the same call changes nothing more: then one that was cut off is simply run again."""
    verify: Callable[[Call], bool | Awaitable[bool | None] | None] | None = field(default=None, compare=False)
    """Looks whether a call that was cut off had its effect: True, False, or None where that can't be told."""

    @property
    def repeatable(self) -> bool:
        """Whether running the same call twice does no harm: declared, or it only reads."""
        return self.idempotent or self.effects == {"read"}


@dataclass(frozen=True, slots=True)
class Request:
    """All that a model sees this turn; `max_output` is in tokens, None for the provider's own limit."""

    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole turn of a model. `detail` holds the provider's words on why it stopped, if it had any."""

    message: Message
    usage: Usage = field(default_factory=Usage)
    stop: Stop = "end"
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call whose arguments have been read and found valid: what gates decide on, and exactly what runs."""

    id: str
    arguments: Mapping[str, object]
    spec: ToolSpec
    key: str = ""
    """Idempotency key: the same for each attempt at this call, another for any other call; empty where nobody keeps count."""
    doubt: str = ""
    """Why an earlier attempt may have had its effect already, in a sentence; then nothing but a person lets it run."""


@dataclass(frozen=True, slots=True)
class Past:
    """How far a run had come that was cut off by a crash, and is taken up again: see ops/resume.py."""

    prompt: str = ""
    """What it was asked, where that had not joined the transcript."""
    reply: Reply | None = None
    """The model's last answer, where nothing had followed from it."""
    begun: dict[str, str] = field(default_factory=dict)
    """The calls whose tool's body had begun: their ids, and a sentence that says so for whatever becomes of them."""


def _silent(_: Event) -> None:
    pass


class Run:
    """One run: its transcript, its listener, its counters, and a place for the state of layers.

    `Run(earlier.transcript)` continues a conversation. `stop()` ends the run with reason
    `interrupted` from anywhere on its event loop.
    """

    def __init__(self, transcript: Transcript | None = None, listener: Listener = _silent) -> None:
        """Start a new conversation unless a transcript is given."""
        self.id = uuid.uuid4().hex[:12]
        """A new one; set it to that of a run that is taken up again."""
        self.transcript = transcript if transcript is not None else Transcript()
        self.turn = 0
        self.usage = Usage()
        self.cost: Decimal | None = None
        """Dollars that its requests cost together, None while nobody has said, or as soon as one has no known price."""
        self.waited = 0.0
        """Seconds for which it waited for people."""
        self.streamed = False
        """Whether this turn has shown anything: a layer that asks again must then emit TurnRestarted first."""
        self.started: dict[str, float] = {}
        """The calls of this turn whose tool's body has begun: their ids, and when by `time.perf_counter`."""
        self.waiting = False
        """Whether calls are left open because they wait for a person's decision: none of them has run."""
        self.past = Past()
        self.charged = 0
        """How many requests have been paid for."""
        self.state: dict[object, object] = {}
        self.work: asyncio.Task[tuple[Reason, str]] | None = None
        self._listener = listener
        self._pieces: list[str] = []
        self._asking = 0
        self._asking_since = 0.0

    @property
    def partial(self) -> str:
        """The text streamed in a turn that is not complete yet."""
        return "".join(self._pieces)

    def emit(self, event: Event) -> None:
        """Tell the listener, and keep count of what an interrupt would cut off.

        A listener that raises ends the run with reason `error`: what it keeps would not be complete.
        """
        match event:
            case TextDelta(text):
                self._pieces.append(text)
                self.streamed = True
            case ThinkingDelta() | CallDelta():
                self.streamed = True
            case TurnStarted() | TurnRestarted() | TurnEnded():
                self._pieces.clear()
                self.streamed = False
            case ToolStarted(call):
                self.started[call.id] = time.perf_counter()
            case Charged(cost=cost):
                known = cost is not None and (self.cost is not None or not self.charged)
                self.cost = (self.cost or Decimal()) + cost if known and cost is not None else None
                self.charged += 1
            case _:
                pass
        try:
            self._listener(event)
        except RunStop:
            raise
        except HarnessError as fault:
            raise RunStop("error", str(fault)) from fault
        except Exception as fault:
            raise RunStop("error", f"A listener failed: {type(fault).__name__}: {fault}") from fault

    @contextmanager
    def for_people(self) -> Iterator[None]:
        """Count the time that this lasts as waiting for people, once where several wait side by side."""
        if not self._asking:
            self._asking_since = time.monotonic()
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                self.waited += time.monotonic() - self._asking_since

    def waited_so_far(self) -> float:
        """Return `waited`, with what is not over yet."""
        return self.waited + (time.monotonic() - self._asking_since if self._asking else 0.0)

    @contextmanager
    def overheard(self, listener: Listener) -> Iterator[None]:
        """Tell `listener` every event too while this lasts: how a layer hears what the model streams."""
        before = self._listener
        self._listener = fan_out(before, listener)
        try:
            yield
        finally:
            self._listener = before

    def append(self, entry: Entry) -> None:
        """Add to the transcript and say so: the only way the record of a run grows."""
        self.transcript.append(entry)
        self.emit(DecisionMade(entry) if isinstance(entry, Decision) else MessageAdded(entry))

    def stop(self) -> None:
        """End the run now; calls in flight are answered honestly. Does nothing when it is over."""
        if self.work is not None:
            self.work.cancel()


class Model(Protocol):
    """Answers a request: streams deltas to `run.emit`, returns the whole turn or raises ProviderError."""

    @property
    def name(self) -> str:
        """The model's name for people, e.g. `claude-sonnet-5-5` or `qwen2.5-coder-0.5b · local, small`."""
        ...

    def __call__(self, request: Request, run: Run, /) -> Awaitable[Reply]:
        """Ask once."""
        ...


Item = TypeVar("Item")
Answer = TypeVar("Answer")
Ask: TypeAlias = Callable[[Item, Run], Awaitable[Answer]]
Proceed: TypeAlias = Callable[[Item], Awaitable[Answer]]
Layer: TypeAlias = Callable[[Item, Run, Proceed[Item, Answer]], Awaitable[Answer]]

ModelLayer: TypeAlias = Layer[Request, Reply]
Gate: TypeAlias = Layer[Call, ToolResult]
Dispatch: TypeAlias = Callable[[ToolCall, Run], Awaitable[ToolResult]]
Prepare: TypeAlias = Callable[[Request, Run], Request | Awaitable[Request]]
Accept: TypeAlias = Callable[[Reply, Run], str | Awaitable[str | None] | None]


@dataclass(frozen=True, slots=True)
class Layered(Generic[Item, Answer]):
    """A model or a tool with layers round it, called like what it wraps; the first layer is outermost."""

    core: Ask[Item, Answer]
    layers: tuple[Layer[Item, Answer], ...]

    @property
    def name(self) -> str:
        """The name of what is inside."""
        return str(getattr(self.core, "name", "model"))

    @property
    def window(self) -> int | None:
        """The context window of what is inside, in tokens: 0 for none to speak of, None where it doesn't say."""
        found = getattr(self.core, "window", None)
        return found if found is None else int(found)

    @property
    def clears(self) -> bool:
        """Whether the provider of what is inside clears old tool results itself."""
        return bool(getattr(self.core, "clears", False))

    @property
    def searches_tools(self) -> bool:
        """Whether the provider of what is inside can search the tools that are `deferred`."""
        return bool(getattr(self.core, "searches_tools", False))

    def __call__(self, item: Item, run: Run) -> Awaitable[Answer]:
        """Give the item to the outermost layer, which proceeds inwards as it sees fit."""
        return self._enter(0, item, run)

    def _enter(self, depth: int, item: Item, run: Run) -> Awaitable[Answer]:
        if depth == len(self.layers):
            return self.core(item, run)
        return self.layers[depth](item, run, lambda inner: self._enter(depth + 1, inner, run))


def layered(core: Ask[Item, Answer], *layers: Layer[Item, Answer]) -> Layered[Item, Answer]:
    """Wrap `core` in layers: `layered(model, retrying(), budget)`."""
    return Layered(core, layers)
