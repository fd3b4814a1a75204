"""A kept run as it was heard: its records as the events that they were. Book chapter 21.

    for seconds, event in replayed(records):
        listener(event)

Theory of operation. A journal keeps what cannot be worked out, so what a listener heard beside that is worked out here:
a turn starts with the first thing that belongs to it, and words come whole. Times are seconds of the run, from the
records; while it was cut off, or waited after its end, no time goes by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Any, cast

from harness_nb.agent import STOPPED_TEXT
from harness_nb.encoding import decode_usage
from harness_nb.events import (
    ApprovalAsked,
    ApprovalDecided,
    CallDelta,
    Charged,
    DecisionMade,
    Event,
    LimitMet,
    MessageAdded,
    ModelChosen,
    ModelSwitched,
    Notice,
    Preview,
    RetryWaiting,
    RunEnded,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)
from harness_nb.messages import Decision, Entry, Message, Text, Thinking, ToolCall, ToolResult, Usage
from harness_nb.ops.history import History
from harness_nb.ops.records import Record

BEGINS_A_TURN = {"decision", "retry", "restarted", "switched", "chosen"}
"""Kinds of records that belong to a turn which may have no other sign of its start yet."""

Data = Mapping[str, Any]


def replayed(records: Iterable[Record]) -> Iterator[tuple[float, Event]]:
    """Yield what happened in one run, from its records in order, each event with the run's seconds by then."""
    replay = _Replay()
    for record in records:
        for event in replay.take(record):
            yield replay.seconds, event


class _Replay:
    """Turns one run's records into events, in order."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._told = History()
        """Reads the entries, as it does for everyone."""
        self._calls: dict[str, ToolCall] = {}
        self._open: set[str] = set()
        """Ids of the calls that no message answers yet."""
        self._in_turn = False
        self._over = False
        self._turns = self._limit = 0
        self._usage = Usage()
        self._last: datetime | None = None
        self._base = 0.0

    def take(self, record: Record) -> Sequence[Event]:
        """Return what a record tells; nothing for one that can't be read."""
        self._tick(record)
        before = len(self._entries(record))
        self._told.add(record)
        entry = entries[-1] if len(entries := self._entries(record)) > before else None
        events: list[Event] = []
        # A record of a later version, or one that somebody changed: the rest can be told without it.
        with suppress(KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
            events += self._events(record, cast("Data", record.data), entry)
        if self._starts_a_turn(record.kind, entry):
            self._in_turn = True
            events.insert(0, TurnStarted(self._turns + 1))
        self._follow(record.kind, entry)
        return events

    def _entries(self, record: Record) -> Sequence[Entry]:
        run = self._told.runs.get(record.run)
        return run.entries if run is not None else ()

    def _tick(self, record: Record) -> None:
        """Let the run's time go by up to this record."""
        with suppress(TypeError, ValueError):
            at = datetime.fromisoformat(record.at)
            if record.kind == "resumed":
                self._base = self._base if self._over else self.seconds
            elif self._last is not None and not self._over:
                self.seconds += max(0.0, (at - self._last).total_seconds())
            self._last = at

    def _starts_a_turn(self, kind: str, entry: Entry | None) -> bool:
        if self._in_turn or self._over:
            return False
        if isinstance(entry, Message):
            return entry.role == "assistant"
        by_person = isinstance(entry, Decision) and entry.by == "you"
        return kind in BEGINS_A_TURN and not self._open and not by_person

    def _follow(self, kind: str, entry: Entry | None) -> None:
        if isinstance(entry, Message):
            self._open |= {call.id for call in entry.calls}
            self._open -= {result.call_id for result in entry.results}
            self._in_turn = entry.role == "assistant"
        elif kind in {"turn_ended", "resumed", "run_ended"}:
            self._in_turn = False
        if kind in {"resumed", "run_ended"}:
            self._over = kind == "run_ended"

    def _events(self, record: Record, data: Data, entry: Entry | None) -> Iterator[Event]:
        match record.kind:
            case "run_started" | "resumed":
                self._limit = int(data.get("limit", self._limit))
                yield RunStarted(record.run, _text(data.get("model", "")), self._limit)
            case "message" if isinstance(entry, Message):
                yield from self._said(entry)
            case "decision" if isinstance(entry, Decision):
                yield DecisionMade(entry)
            case "turn_ended":
                usage = decode_usage(data["usage"])
                self._turns, self._usage = int(data["turn"]), self._usage + usage
                yield TurnEnded(self._turns, usage, _text(data["stop"]))
            case "tool_started":
                yield ToolStarted(self._call(data), _text(data["key"]))
            case "tool_finished":
                yield self._finished(record, data)
            case "approval_asked":
                yield self._asked(data)
            case "approval_decided":
                said = (_text(data[name]) for name in ("by", "scope", "reason", "edited"))
                yield ApprovalDecided(_text(data["question"]), self._call(data), bool(data["allowed"]), *said)
            case "run_ended":
                run = self._told.runs[record.run]
                self.seconds = self._base + run.seconds
                yield RunEnded(run.reason or "error", run.detail, run.turns, self._usage, run.waited)
            case kind:
                yield from _plain(kind, data)

    def _said(self, message: Message) -> Iterator[Event]:
        """Stream a message of the model, whole; what marks one that was cut short is for the model."""
        if message.role == "assistant":
            for part in message.parts:
                match part:
                    case Text(text):
                        yield TextDelta(text.removesuffix(f"\n\n{STOPPED_TEXT}"))
                    case Thinking(text=text) if text:
                        yield ThinkingDelta(text)
                    case ToolCall(identity, name, raw):
                        self._calls[identity] = part
                        yield CallDelta(identity, name)
                        yield CallDelta(identity, name, raw)
                    case _:
                        pass
        yield MessageAdded(message)

    def _call(self, data: Data) -> ToolCall:
        """Find the call that a record is about, as the model made it; a lost one is made of the record."""
        identity = _text(data["call"])
        found = ToolCall(identity, _text(data.get("name", "tool")), _text(data.get("arguments", "{}")))
        return self._calls.setdefault(identity, found)

    def _finished(self, record: Record, data: Data) -> Event:
        result: ToolResult = self._told.runs[record.run].finished[data["call"]]
        return ToolFinished(self._call(data), result, float(data["seconds"]))

    def _asked(self, data: Data) -> Event:
        self._call(data)
        call = ToolCall(_text(data["call"]), _text(data["name"]), _text(data["arguments"]))
        effects, scopes = (tuple(map(_text, data[name])) for name in ("effects", "scopes"))
        shown: Any = data.get("preview")
        known = isinstance(shown, Mapping) and shown.get("kind") in {"diff", "code", "command"}
        preview = Preview(shown["kind"], _text(shown["text"])) if known else None
        why, again = _text(data["why"]), bool(data.get("again"))
        return ApprovalAsked(_text(data["question"]), call, effects, why, scopes, preview, again)


def _plain(kind: str, data: Data) -> Iterator[Event]:
    """Make the event of a record that keeps its fields as they are."""
    match kind:
        case "notice":
            yield Notice(_text(data["text"]))
        case "retry":
            counts = int(data["attempt"]), int(data["attempts"])
            yield RetryWaiting(float(data["seconds"]), *counts, _text(data["why"]))
        case "restarted":
            yield TurnRestarted(_text(data["why"]))
        case "switched":
            yield ModelSwitched(_text(data["model"]), _text(data["why"]))
        case "chosen":
            yield ModelChosen(_text(data["model"]), _text(data["tier"]), _text(data["why"]))
        case "charge":
            cost = None if data["cost"] is None else Decimal(_text(data["cost"]))
            by = _text(data["agent"]), _text(data["purpose"])
            yield Charged(_text(data["model"]), decode_usage(data["usage"]), cost, *by)
        case "limit":
            numbers = (Decimal(_text(data[name])) for name in ("limit", "spent", "more"))
            yield LimitMet(_text(data["what"]), _text(data["scope"]), *numbers)
        case _:
            pass


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {type(value).__name__}")
    return value
