"""Keeps what happens in a session's runs, each thing before the next one; fits the listener socket. Book chapter 21.

    journal = Journal(store.open("main"))
    await agent.run("...", Run(journal.history.transcript(), journal))

Theory of operation. A listener is called before the run goes on, so the order on disk is the order of events: the
model's calls before any tool runs, `tool_started` before a tool's body, its result before the model hears of it.
A body that may have an effect begins only when its record is on disk for good; nothing else waits for the disk.
What can't be kept ends the run. It stays here, and is kept before anything that comes later.

Where many processes may write one session, a run is still one process's: who takes one up that another has gone on with
since is refused, and who finds at its next record that another took its run up stops there. A tool's body begins after
its record, so it doesn't run in both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any, NoReturn, cast

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
from harness_nb.ops.store import Log, StoreError

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

TAKEN = (
    "Another process has gone on with this run, so it was left to that one. `%resume` shows how it stands."
)


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
    chosen: str = ""
    """The name by which a model was chosen for this run alone."""


class Journal:
    """The record of one session: call it with each event. Without a log it keeps its history in memory alone."""

    def __init__(self, log: Log | None = None, history: History | None = None) -> None:
        """Go on from what the log holds, unless its history is given."""
        self.log = log
        self._shared = log is not None and log.shared
        records = log.read() if log is not None and (history is None or self._shared) else []
        self.history = history if history is not None else History(records)
        self._read = self._last = max((record.seq for record in records), default=0)
        self._own: set[int] = set()
        self._lost = ""
        """The run that another process has gone on with: nothing more of it is written here."""
        self._taken = 0
        """The number of the record by which the run at work became this process's."""
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
        data: dict[str, object] = {"model": model}
        data |= {"reopened": again} if (again := list(reopened)) else {}
        with self._writing:
            seen = self._see_to(run)
        self._write("resumed", data | ({"after": seen} if self._shared else {}))

    def go_to(self, run: str) -> None:
        """Have the conversation go on from another run, or from the beginning if that is empty."""
        self._run = ""
        self._write("head", {"to": run}, sync=True)

    @property
    def outdated(self) -> bool:
        """Whether other processes have written this session since it was read here."""
        with self._writing:
            return any(True for _ in self._others())

    def _others(self) -> Iterator[Record]:
        """Yield what other processes have written since."""
        if self._shared and self.log is not None:
            yield from (r for r in self.log.read() if r.seq > self._read and r.seq not in self._own)

    def _see_to(self, run: str) -> int:
        """Raise StoreError if another process has written of this run since; return the number of the last record there is."""
        last = self._last
        for record in self._others():
            # A message alone is one of results that were on record: whoever only looks what there is keeps those.
            if record.run == run and record.kind != "message":
                self._leave(run)
            last = max(last, record.seq)
        return last

    def _see_whose(self, run: str) -> None:
        """Raise StoreError if another process has taken this run up since it is at work here.

        One that did so in the same instant had not seen that this one was first, and leaves it by itself.
        """
        for record in self._others():
            if (
                record.run == run
                and record.kind == "resumed"
                and record.data.get("after") not in range(self._taken)
            ):
                self._leave(run)

    def _leave(self, run: str) -> NoReturn:
        self._lost = run
        raise StoreError(TAKEN)

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
        data |= {"chosen": origin.chosen} if origin.chosen else {}
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
            if self.log is None or (self._lost and record.run == self._lost):
                return
            self._unkept.append(record)
            while self._unkept:
                seq = self.log.append(self._unkept[0], sync=sync and len(self._unkept) == 1).seq
                self._unkept.pop(0)
                if self._shared:
                    self._follow(seq, record)

    def _follow(self, seq: int, record: Record) -> None:
        """Look whether a run at work is still this process's, where others have written between its records."""
        self._own.add(seq)
        last, self._last = self._last, seq
        if record.kind in {"run_started", "resumed"}:
            self._taken = seq
        if seq == last + 1 or not self._at_work:
            return
        if record.kind == "resumed":
            self._see_to(record.run)
        else:
            self._see_whose(record.run)


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
