"""What happens in a run, as values: the one stream that views, journals, tracers and meters listen to. Book chapter 5.

A listener is a plain function of an event. It is called synchronously, before the run goes on, so
that a journal is on disk by the time a tool runs. Names follow one grammar: the thing, then what
happened to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from harness_nb.errors import Reason
from harness_nb.messages import Decision, Message, ToolCall, ToolResult, Usage


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run began; `model` is the model's label for people, `limit` the most turns it may take."""

    run: str
    model: str
    limit: int


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The model is about to be asked; `turn` counts from 1."""

    turn: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """The next piece of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """The next piece of a tool call that is still being written; the first has no `text`."""

    id: str
    name: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class TurnRestarted:
    """What this turn has streamed so far is void: the model is asked again."""

    why: str


@dataclass(frozen=True, slots=True)
class RetryWaiting:
    """A request failed and will be sent again in `seconds`; `attempt` of `attempts` has just failed."""

    seconds: float
    attempt: int
    attempts: int
    why: str


@dataclass(frozen=True, slots=True)
class ModelSwitched:
    """A fallback model took over for the rest of this turn."""

    model: str
    why: str


@dataclass(frozen=True, slots=True)
class ModelChosen:
    """A router chose which model is asked in this turn: `tier` is its name for it, `why` one sentence."""

    model: str
    tier: str
    why: str


@dataclass(frozen=True, slots=True)
class Charged:
    """One request to a provider was answered, and is paid for: every one, those that a summary took too.

    `cost` is in dollars, None where no price is known. `agent` is who asked: empty for the run itself, else a child's
    name. `purpose` is `turn`, or what else it was for, e.g. `summary`.
    """

    model: str
    usage: Usage
    cost: Decimal | None
    agent: str = ""
    purpose: str = "turn"


@dataclass(frozen=True, slots=True)
class LimitMet:
    """A limit is reached and the run is about to end: `what` is `turns`, `seconds`, `tokens` or `dollars`.

    `scope` is whose limit it is: `run`, `session`, `day`, or a child's name. `limit` is in that unit, `spent` what is
    used up, `more` what going on could add: a person may allow it.
    """

    what: str
    scope: str
    limit: Decimal
    spent: Decimal
    more: Decimal


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The model's reply is complete; `usage` is that of this turn alone."""

    turn: int
    usage: Usage
    stop: str


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """A message joined the transcript. A journal that keeps these keeps everything."""

    message: Message


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """A decision about the context joined the transcript."""

    decision: Decision


Component = Literal[
    "system", "tools", "user", "assistant", "thinking", "results", "images", "summaries", "retrieved"
]
"""What a context window is filled with, in the order in which it is shown."""


@dataclass(frozen=True, slots=True)
class Fill:
    """What fills the context window in one request: tokens by component, components without any left out.

    `window` is the model's, 0 where nobody knows it; `headroom` what is kept free of it for the reply. `how`
    says how the tokens were counted, e.g. `provider` or `o200k_base`; `state` how full the window is.
    """

    tokens: Mapping[Component, int]
    window: int
    headroom: int
    how: str
    state: Literal["green", "yellow", "red"]

    @property
    def total(self) -> int:
        """Tokens of the whole request."""
        return sum(self.tokens.values())

    @property
    def share(self) -> float:
        """How much of what can be used is used, 1.0 for all of it; 0.0 where the window is unknown."""
        usable = self.window - self.headroom
        return self.total / usable if usable > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ContextMeasured:
    """The request about to be sent in this turn has been counted, after every decision about it."""

    turn: int
    fill: Fill


@dataclass(frozen=True, slots=True)
class Preview:
    """What a call would do, for a person to judge: a unified diff, code, or a command."""

    kind: Literal["diff", "code", "command"]
    text: str


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A call waits for a person's decision; nothing of it has run.

    `call.raw` holds the validated arguments, exactly as they would run. `why` says in one sentence
    which rule asks. `scopes` says what "for this session" could cover, narrowest first. `again` is whether an earlier
    attempt was cut off, so that the call may have had its effect already: then `why` says so.
    """

    id: str
    call: ToolCall
    effects: tuple[str, ...]
    why: str
    scopes: tuple[str, ...] = ()
    preview: Preview | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """A question is settled; `scope` is empty for once.

    `by` is `you`, `nobody` (no person to ask), `timeout`, `interrupted` (the run was stopped), `rule` (judged
    again, a rule denied it after all); of a suspended run also `superseded` (a new prompt came instead) or
    `moved` (asked again elsewhere).

    `edited` holds the arguments as the person changed them, empty if they did not.
    """

    id: str
    call: ToolCall
    allowed: bool
    by: str
    scope: str = ""
    reason: str = ""
    edited: str = ""


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool's body is about to run: from here on it may have had an effect.

    `key` is the call's idempotency key, `repeatable` whether running it twice does no harm.
    """

    call: ToolCall
    key: str = ""
    repeatable: bool = False


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call has its result, whether or not its body ran; `seconds` is how long that took."""

    call: ToolCall
    result: ToolResult
    seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """Something long has to come first, e.g. a download: `done` of `total` bytes are there."""

    what: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person should know, in one sentence, that changes nothing."""

    text: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over; `detail` is one sentence about the reason, empty for `done`; `waited` are its seconds for people."""

    reason: Reason
    detail: str
    turns: int
    usage: Usage
    waited: float = 0.0


Event: TypeAlias = (
    RunStarted
    | TurnStarted
    | TextDelta
    | ThinkingDelta
    | CallDelta
    | TurnRestarted
    | RetryWaiting
    | ModelSwitched
    | ModelChosen
    | Charged
    | LimitMet
    | TurnEnded
    | MessageAdded
    | DecisionMade
    | ContextMeasured
    | ApprovalAsked
    | ApprovalDecided
    | ToolStarted
    | ToolFinished
    | Progress
    | Notice
    | RunEnded
)

Listener: TypeAlias = Callable[[Event], None]
"""Hears every event of a run in order. It must be quick. If it raises, the run ends with reason `error`."""


def fan_out(*listeners: Listener) -> Listener:
    """Make one listener of many. All hear an event even if one raises; the first fault is raised then."""

    def tell(event: Event) -> None:
        faults = []
        for listener in listeners:
            try:
                listener(event)
            except Exception as fault:  # noqa: BLE001 - the others must hear the event too
                faults.append(fault)
        if faults:
            raise faults[0]

    return tell
