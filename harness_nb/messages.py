"""The transcript: parts, messages, and the append-only record that a run grows. Book chapter 3.

Theory of operation. Nothing here is ever rewritten. A `Message` is a role and a tuple of parts; a
`Transcript` is a list of messages and of `Decision`s about them. What a model sees is `live()`, a
view worked out from that record: each decision replaces some messages by others (a mask, a summary,
nothing at all), later ones win, and a decision can undo an earlier one. So every change to the
context can be shown, explained and taken back.

`live()` also keeps the one rule that all providers share: **each tool call is answered once, in call
order, right after the message that made it**. Calls without a result get one that says so.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import ClassVar, Literal, TypeAlias

from harness_nb.strict import clean, joined, parse_arguments

Role = Literal["system", "user", "assistant", "tool"]

REPLAY_LIMIT = 500_000
"""Longest argument text (characters) that is sent back to a model as it was; OpenAI refuses over 1,048,576."""


INTERRUPTED = "Interrupted before a result was recorded. The call may have run, in whole or in part: check before you repeat it."


@dataclass(frozen=True, slots=True)
class Text:
    """Words, from anyone."""

    kind: ClassVar[str] = "text"
    text: str

    def __post_init__(self) -> None:
        """Clean once, here, so that no later step has to."""
        object.__setattr__(self, "text", clean(self.text))


@dataclass(frozen=True, slots=True)
class Thinking:
    """A model's reasoning. `signature` is the vendor's proof or encrypted copy: sent back unchanged, to that vendor only."""

    kind: ClassVar[str] = "thinking"
    text: str
    signature: str = ""
    vendor: str = ""

    def __post_init__(self) -> None:
        """Join what the stream split, so that it reads back equal from any store."""
        object.__setattr__(self, "text", joined(self.text))


@dataclass(frozen=True, slots=True)
class Image:
    """A picture, e.g. `Image(png_bytes, "image/png")`."""

    kind: ClassVar[str] = "image"
    data: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to run a tool. `raw` is the argument text exactly as it came, good JSON or not."""

    kind: ClassVar[str] = "tool_call"
    id: str
    name: str
    raw: str = "{}"

    def __post_init__(self) -> None:
        """Join what the stream split, so that it reads back equal from any store."""
        object.__setattr__(self, "raw", joined(self.raw))

    def replayed(self) -> dict[str, object]:
        """Return the arguments as a JSON object that any provider accepts, whatever `raw` holds."""
        if len(self.raw) > REPLAY_LIMIT:
            return {
                "_omitted": f"{len(self.raw):,} characters of arguments",
                "_start": clean(self.raw[:1000]),
            }
        try:
            return parse_arguments(self.raw)
        except ValueError:
            return {"_invalid_json": clean(self.raw)}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one answer to a call, for the model: text and pictures, never empty."""

    kind: ClassVar[str] = "tool_result"
    call_id: str
    content: tuple[Text | Image, ...]
    is_error: bool = False

    @property
    def text(self) -> str:
        """The words of the result, pictures left out."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class Summary:
    """What stands in for messages that a compaction took out of the model's sight."""

    kind: ClassVar[str] = "summary"
    text: str
    replaced: int


@dataclass(frozen=True, slots=True)
class Opaque:
    """A vendor's block that we don't understand and must send back byte for byte; `block` is its JSON text."""

    kind: ClassVar[str] = "opaque"
    vendor: str
    block: str


Part: TypeAlias = Text | Thinking | Image | ToolCall | ToolResult | Summary | Opaque
PARTS: dict[str, type[Part]] = {
    c.kind: c for c in (Text, Thinking, Image, ToolCall, ToolResult, Summary, Opaque)
}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Message:
    """One entry of the conversation. `id` is unique, `at` is UTC; both are made when left out."""

    role: Role
    parts: tuple[Part, ...]
    id: str = field(default_factory=lambda: uuid.uuid4().hex, repr=False)
    at: datetime = field(default_factory=lambda: datetime.now(UTC), repr=False)

    def __hash__(self) -> int:
        """Hash by id: cheap, so that wire forms can be cached by message."""
        return hash(self.id)

    @property
    def text(self) -> str:
        """The words of the message; thinking, calls and results left out."""
        return "".join(part.text for part in self.parts if isinstance(part, Text | Summary))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the message, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results of the message, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


def user(text: str) -> Message:
    """Make a user message of one text."""
    return Message("user", (Text(text),))


def assistant(*parts: Part | str) -> Message:
    """Make an assistant message; strings become text parts."""
    return Message("assistant", tuple(Text(p) if isinstance(p, str) else p for p in parts))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request or of many. `input` includes `cache_read` and `cache_write`; `output` includes `reasoning`.

    `estimated` is true where the provider reported nothing and we guessed. `context` is what the model saw last, where
    one turn was several requests at the provider; 0 where that is `input`.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    estimated: bool = False
    context: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Sum field by field; a sum with a guess in it is a guess."""
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.reasoning + other.reasoning,
            self.estimated or other.estimated,
            other.context,
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """A change to what the model sees: each message named in `changes` is shown as the messages beside it.

    An empty tuple hides a message. `by` names who decided, `why` is one sentence for the person,
    `undoes` the id of a decision that no longer holds. `pins` are ids of messages that stay word for word
    from here on, `loads` names of tools that the model sees from here on. `before` and `after` are the
    tokens of the whole request, 0 where nobody counted; `usage` is what it cost to decide.
    """

    by: str
    why: str
    changes: Mapping[str, tuple[Message, ...]] = field(default_factory=dict)
    undoes: str = ""
    pins: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()
    before: int = 0
    after: int = 0
    usage: Usage = field(default_factory=Usage)
    id: str = field(default_factory=lambda: uuid.uuid4().hex, repr=False)


Entry: TypeAlias = Message | Decision


class Transcript:
    """The complete, append-only record of a conversation. One writer at a time."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        """Start from `entries` as loaded from a store, in order; even from a log that was cut short."""
        self._entries: list[Entry] = []
        self._messages: list[Message] = []
        self._decisions: list[Decision] = []
        self._decided_on: set[str] = set()
        self._open: list[ToolCall] = []
        self._call_ids: set[str] = set()
        self._view: list[Message] | None = []  # what `live` shows, kept while messages follow the rule
        for entry in entries:
            self.append(entry)

    def append(self, entry: Entry) -> None:
        """Add a message or a decision at the end; the only way to change a transcript."""
        self._entries.append(entry)
        if isinstance(entry, Decision):
            self._decisions.append(entry)
            self._decided_on.update(entry.changes)
            if entry.changes or entry.undoes:
                self._view = None
            return
        if self._view is not None and self._follows_the_rule(entry):
            self._view.append(entry)
        else:
            self._view = None
        self._messages.append(entry)
        for result in entry.results:
            answered = next((call for call in self._open if call.id == result.call_id), None)
            if answered is not None:
                self._open.remove(answered)
        if calls := entry.calls:  # as in `paired`, a call takes its id over from an earlier one
            ids = {call.id for call in calls}
            self._open = [*(call for call in self._open if call.id not in ids), *calls]
            self._call_ids |= ids

    def distinct(self, message: Message) -> Message:
        """Return the message with call ids that no other call has: servers leave them blank or repeat them."""
        return _distinct(message, self._call_ids)

    def _follows_the_rule(self, message: Message) -> bool:
        answered = [result.call_id for result in message.results]
        only_results = len(answered) == len(message.parts) > 0 and message.role == "tool"
        no_results = not answered and bool(message.parts) and message.role != "tool"
        fitting = answered == [call.id for call in self._open] and (only_results or no_results)
        foretold = message.id in self._decided_on
        return fitting and not foretold and self.distinct(message) is message

    def dangling(self) -> list[ToolCall]:
        """List the calls that no result answers yet, in order."""
        return list(self._open)

    def live(self) -> tuple[Message, ...]:
        """Return what the model will see: the record with its decisions applied and every call answered."""
        if self._view is not None and not self._open:
            return tuple(self._view)
        view = list(paired(message for _, shown in self.shown() for message in shown))
        if not self._open:
            self._view = view
            self._call_ids.update(call.id for message in view for call in message.calls)
        return tuple(view)

    def standing(self) -> list[Decision]:
        """List the decisions that hold, in order: those that nothing undid for good."""
        undone: set[str] = set()
        for decision in reversed(self._decisions):
            if decision.undoes and decision.id not in undone:
                undone.add(decision.undoes)
        return [decision for decision in self._decisions if decision.id not in undone]

    def pinned(self) -> frozenset[str]:
        """Return the ids of the messages that a decision keeps word for word."""
        return frozenset(identity for decision in self.standing() for identity in decision.pins)

    def loaded(self) -> tuple[str, ...]:
        """Name the tools that decisions put in the model's sight, in the order in which they came, once each."""
        return tuple(dict.fromkeys(name for decision in self.standing() for name in decision.loads))

    def shown(self) -> list[tuple[Message, tuple[Message, ...]]]:
        """List each recorded message with what stands in its place: itself, others, or nothing."""
        changes: dict[str, tuple[Message, ...]] = {}
        for decision in self.standing():
            changes.update(decision.changes)
        return [(message, changes.get(message.id, (message,))) for message in self._messages]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Everything ever appended, messages and decisions, in order."""
        return tuple(self._entries)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Every message ever appended, whether or not the model still sees it."""
        return tuple(self._messages)

    def __len__(self) -> int:
        """Count the entries."""
        return len(self._entries)


def paired(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages with each call answered once, in call order, right after the message that made it.

    A late result is moved up, a second one and one without a call are left out, a call id used before
    is made distinct, and a call that nothing answers gets an error result that doesn't claim to know
    whether it ran. Once every call has its result nothing that follows changes what stands, so the bytes
    of a request don't change from turn to turn.
    """
    record = list(messages)
    calls = [message.calls for message in record]
    results = [message.results for message in record]
    answers = _matched(calls, results)
    taken: set[str] = set()
    for index, recorded in enumerate(record):
        message = _distinct(recorded, taken) if calls[index] else recorded
        if results[index] or message.role == "tool":
            kept = tuple(part for part in message.parts if not isinstance(part, ToolResult))
            if kept:
                yield replace(message, parts=kept, role="user" if message.role == "tool" else message.role)
        elif message.parts:
            yield message
        if calls[index]:
            taken.update(call.id for call in message.calls)
            given = tuple(_answer(call, answers.get((index, n))) for n, call in enumerate(message.calls))
            following = record[index + 1] if index + 1 < len(record) else message
            as_recorded = following.role == "tool" and following.parts == given
            yield following if as_recorded else Message("tool", given, f"{message.id}-results", message.at)


def _matched(
    calls: list[tuple[ToolCall, ...]], results: list[tuple[ToolResult, ...]]
) -> dict[tuple[int, int], ToolResult]:
    """Find the result of each call, keyed by the index of its message and its place in it.

    It is the next one with the call's id, before another message's call takes that id over.
    """
    found: dict[tuple[int, int], ToolResult] = {}
    waiting: dict[str, deque[tuple[int, int]]] = {}
    for index, (asked, given) in enumerate(zip(calls, results, strict=True)):
        for result in given:
            if places := waiting.get(result.call_id):
                found[places.popleft()] = result
        fresh: dict[str, deque[tuple[int, int]]] = {}
        for place, call in enumerate(asked):
            fresh.setdefault(call.id, deque()).append((index, place))
        waiting |= fresh
    return found


def _answer(call: ToolCall, found: ToolResult | None) -> ToolResult:
    if found is None:
        return ToolResult(call.id, (Text(INTERRUPTED),), is_error=True)
    return found if found.call_id == call.id else replace(found, call_id=call.id)


def _distinct(message: Message, taken: set[str]) -> Message:
    """Return the message with every call id that is blank, taken or used twice in it made anew."""
    ids = [call.id for call in message.calls]
    if "" not in ids and taken.isdisjoint(ids) and len(set(ids)) == len(ids):
        return message
    own: set[str] = set()

    def fresh(part: Part) -> Part:
        if not isinstance(part, ToolCall):
            return part
        made, number = part.id, 2
        while not made or made in own or made in taken:
            made, number = f"{part.id or 'call'}_{number}", number + 1
        own.add(made)
        return part if made == part.id else replace(part, id=made)

    parts = tuple(fresh(part) for part in message.parts)
    return message if parts == message.parts else replace(message, parts=parts)
