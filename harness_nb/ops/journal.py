"""Keeps what happens in a session's runs, each thing before the next one; fits the listener socket. Book chapter 21.

    journal = Journal(store.open("main"))
    await agent.run("...", Run(journal.history.transcript(), journal))

Theory of operation. A listener is called before the run goes on, so the order on disk is the order of events: the
model's calls before any tool runs, `tool_started` before a tool's body, its result before the model hears of it.
A body that may have an effect begins only when its record is on disk for good; nothing else waits for the disk.
What can't be kept ends the run. It stays here, and is kept before anything that comes later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any, cast

from harness_nb.encoding import encode
from harness_nb.events import (
    ApprovalAsked,
    ApprovalDecided,
    Charged,
    DecisionMade,
    Event,
    LimitMet,
    MessageAdded,
    ModelChosen,
    ModelSwitched,
    Notice,
    RetryWaiting,
    RunEnded,
    RunStarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnRestarted,
)
from harness_nb.messages import Decision, Entry, Message, ToolResult, Usage
from harness_nb.ops.history import RECORDED, History
from harness_nb.ops.records import Record
from harness_nb.ops.store import Log

PLAIN: dict[type[Event], str] = {
    TurnEnded: "turn_ended",
    Charged: "charge",
    TurnRestarted: "restarted",
    RetryWaiting: "retry",
    ModelSwitched: "switched",
    ModelChosen: "chosen",
    LimitMet: "limit",
    Notice: "notice",
}
"""Events that are kept as they are, and the kind of record that each becomes."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the next run comes from. `parent` None is the head; see ops/history.py for the rest."""

    prompt: str = ""
    cell: str = ""
    execution: str = ""
    parent: str | None = None
    fork: bool = False
    count: int = 0
    limits: Mapping[str, str] = field(default_factory=dict)
    """What this run may spend, where that was said for it alone: the amounts as text."""


class Journal:
    """The record of one session: call it with each event. Without a log it keeps its history in memory alone."""

    def __init__(self, log: Log | None = None, history: History | None = None) -> None:
        """Go on from what the log holds, unless its history is given."""
        self.log = log
        self.history = history if history is not None else History(log.read() if log is not None else ())
        self.origin = Origin()
        """Set it before a run begins: said of that run, and then forgotten."""
        self._run = ""
        self._at_work = False
        self._writing = threading.Lock()
        self._unkept: list[Record] = []
        self._began = 0.0
        self._before = 0.0

    def __call__(self, event: Event) -> None:
        """Keep an event. Raises StoreError if that can't be done."""
        match event:
            case MessageAdded(message):
                self._write("message", self._written(message), message)
            case DecisionMade(decision):
                self._write("decision", encode(decision), decision)
            case ToolStarted(call, key, repeatable):
                data = {"call": call.id, "name": call.name, "arguments": call.raw, "key": key}
                self._write("tool_started", data, sync=not repeatable)
            case ToolFinished(call, result, seconds):
                written = cast("list[object]", encode(Message("tool", (result,)))["parts"])[0]
                self._write(
                    "tool_finished", {"call": call.id, "result": written, "seconds": round(seconds, 3)}
                )
            case RunStarted():
                self._begin(event)
            case RunEnded():
                self._end(event)
            case ApprovalAsked():
                self._ask(event)
            case ApprovalDecided():
                self._decided(event)
            case _ if type(event) in PLAIN:
                self._write(PLAIN[type(event)], _fields(event))
            case _:
                pass

    def decide(self, decision: Decision) -> None:
        """Keep a decision that was taken between runs: with the run before, or as a step of its own if others follow that."""
        head = self.history.runs.get(self.history.head)
        if head is None or head.children:
            self._run = f"decision-{decision.id[:12]}"
            self._write("run_started", {"parent": self.history.head})
            ended: dict[str, object] = {"reason": "done", "detail": "", "turns": 0, "seconds": 0, "waited": 0}
            self._write("run_ended", ended)
        else:
            self._run = head.id
        self._write("decision", encode(decision), decision)

    def charge(self, event: Charged) -> None:
        """Keep what was paid between runs, e.g. for a summary: it counts for the run before."""
        self._run = self.history.head
        self(event)

    def settle(self, message: Message) -> None:
        """Keep the results of calls that the run at the head had left open."""
        self._run = self.history.head
        self(MessageAdded(message))

    def take_up(self, run: str, model: str, reopened: Iterable[str] = ()) -> None:
        """Say that a run goes on that had ended or was cut off; its next events are part of it.

        `reopened` are ids of calls that a stop had kept from being begun: they wait again, see `KeptRun.unbegun`.
        """
        self._run, self._at_work = run, True
        self._began, self._before = time.monotonic(), self.history.runs[run].seconds
        again = list(reopened)
        self._write("resumed", {"model": model} | ({"reopened": again} if again else {}))

    def go_to(self, run: str) -> None:
        """Have the conversation go on from another run, or from the beginning if that is empty."""
        self._run = ""
        self._write("head", {"to": run}, sync=True)

    def close(self) -> None:
        """Let others write the log."""
        if self.log is not None:
            self.log.close()

    # -- what takes more than a line

    def _begin(self, event: RunStarted) -> None:
        origin, self.origin = self.origin, Origin()
        if event.run in self.history.runs:
            if not self._at_work or self._run != event.run:
                self.take_up(event.run, event.model)
            return
        self._run, self._at_work = event.run, True
        self._began, self._before = time.monotonic(), 0.0
        parent = self.history.head if origin.parent is None else origin.parent
        data: dict[str, object] = {"parent": parent, "cell": origin.cell, "execution": origin.execution}
        data |= {"prompt": origin.prompt, "model": event.model, "limit": event.limit}
        data |= {"count": origin.count} if origin.count else {}
        data |= {"limits": dict(origin.limits)} if origin.limits else {}
        self._write("run_started", data | ({"fork": True} if origin.fork else {}))

    def _end(self, event: RunEnded) -> None:
        self._at_work = False
        seconds = self._before + time.monotonic() - self._began
        data = {"reason": event.reason, "detail": event.detail, "turns": event.turns}
        self._write(
            "run_ended", data | {"seconds": round(seconds, 3), "waited": round(event.waited, 3)}, sync=True
        )

    def _ask(self, event: ApprovalAsked) -> None:
        data: dict[str, object] = {"question": event.id, "call": event.call.id, "name": event.call.name}
        data |= {"arguments": event.call.raw, "why": event.why, "again": event.again}
        preview = None if event.preview is None else asdict(event.preview)
        lists = {"effects": list(event.effects), "scopes": list(event.scopes)}
        self._write("approval_asked", {**data, **lists, "preview": preview})

    def _decided(self, event: ApprovalDecided) -> None:
        data: dict[str, object] = {"question": event.id, "call": event.call.id, "allowed": event.allowed}
        data |= {"by": event.by, "scope": event.scope, "reason": event.reason, "edited": event.edited}
        self._write("approval_decided", data)

    def _written(self, message: Message) -> dict[str, object]:
        """Write a message; results that their own records hold already are only named."""
        data = encode(message)
        run = self.history.runs.get(self._run)
        if run is None or message.role != "tool":
            return data
        parts = cast("list[Mapping[str, Any]]", data["parts"])
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolResult) and run.finished.get(part.call_id) == part:
                parts[place] = {"kind": RECORDED, "call_id": part.call_id}
        return data

    def _write(
        self, kind: str, data: Mapping[str, object], entry: Entry | None = None, *, sync: bool = False
    ) -> None:
        with self._writing:  # a tool in a thread may have something to tell, too
            record = Record(kind, data, self._run)
            self.history.add(record, entry)
            if self.log is None:
                return
            self._unkept.append(record)
            while self._unkept:
                self.log.append(self._unkept[0], sync=sync and len(self._unkept) == 1)
                self._unkept.pop(0)


def _fields(value: Event | Usage) -> dict[str, object]:
    """Write an event's fields as they are; `asdict` does it too, in ten times the time."""
    return {name: _plain(getattr(value, name)) for name in type(value).__slots__}


def _plain(value: object) -> object:
    match value:
        case Decimal():
            return str(value)
        case Usage():
            return _fields(value)
        case _:
            return value
