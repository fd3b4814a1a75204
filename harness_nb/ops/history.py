"""What a journal tells: the runs of a session as a tree, and the conversation on the way to any of them. Book chapter 21.

    history = History(log.read())
    history.transcript()                     # the conversation as it stands
    history.transcript(to=history.branches()[0].id)     # as it stood on another branch

Theory of operation. Each run follows another one, its parent, or none. The runs on the way from the first to the `head`
are the conversation; whatever else there is was set aside when a cell was run again, when the last run was undone, or
when another branch was chosen. Nothing is ever taken out, so each of these is one record, and can be taken back.
A pure fold: the same records give the same history, in this process or in the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, cast, get_args

from harness_nb.agent import NEVER_RAN, STOPPED_TEXT
from harness_nb.encoding import decode, decode_usage
from harness_nb.errors import Reason
from harness_nb.events import LimitMet
from harness_nb.messages import Entry, Message, Text, ToolCall, ToolResult, Transcript, Usage
from harness_nb.ops.records import Record, in_bulk
from harness_nb.seams import Reply, Stop

RECORDED = "recorded"
"""Stands in a recorded message for a result that its `tool_finished` record holds."""

LOST = "The result of this call was recorded, but the record is damaged. The call may have run: check before you repeat it."


@dataclass(frozen=True, slots=True)
class Attempt:
    """A tool's body that was begun: with which arguments, as JSON text, under which idempotency key, and when (UTC, ISO)."""

    name: str
    arguments: str
    key: str
    at: str


@dataclass(slots=True)
class KeptRun:
    """One run as its records tell it. `reason` is None while it goes on, and for ever if its process died."""

    id: str
    parent: str = ""
    cell: str = ""
    """The id of the notebook cell that began it, `execution` which execution of that cell; empty where not known."""
    execution: str = ""
    count: int = 0
    """The number that the cell shows for that execution; 0 where not known."""
    prompt: str = ""
    model: str = ""
    chosen: str = ""
    """The name by which its model was chosen for it alone; empty for the session's."""
    fork: bool = False
    """Whether it was begun as a branch of its own, so that what it follows stays a branch too."""
    at: str = ""
    entries: list[Entry] = field(default_factory=list)
    started: dict[str, Attempt] = field(default_factory=dict)
    """By call id: the last attempt at each call."""
    finished: dict[str, ToolResult] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    """Ids of the calls that a person was asked about and has not decided."""
    charges: list[Record] = field(default_factory=list)
    """Its `charge` and `turn_ended` records, which `ops/spending.py` reads."""
    most: int = 0
    """Turns that it could take when it began; 0 where that is not on record."""
    limits: Mapping[str, str] = field(default_factory=dict)
    """What it could spend, where that was said for it alone: see `Origin`."""
    limit: LimitMet | None = None
    """The limit that it met last."""
    met: dict[str, LimitMet] = field(default_factory=dict)
    """By what they limit: the limits of its own that it met, each the last time."""
    reason: Reason | None = None
    detail: str = ""
    stop: Stop | None = None
    """Why the model's last turn stopped; None while that is not on record."""
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    """How long it took up to its end, `waited` of that for people."""
    waited: float = 0.0
    children: list[str] = field(default_factory=list)

    @property
    def messages(self) -> list[Message]:
        """The messages that it added, in order."""
        return [entry for entry in self.entries if isinstance(entry, Message)]

    @property
    def text(self) -> str:
        """The last words of the model in it."""
        said = (message.text for message in reversed(self.messages) if message.role == "assistant")
        return next((text for text in said if text.strip()), "")

    @property
    def unsaid(self) -> str:
        """Its prompt, if it was cut off before that joined the conversation; else empty."""
        begun = any(message.role != "tool" for message in self.messages)
        return "" if begun or self.reason is not None else self.prompt

    @property
    def reply(self) -> Reply | None:
        """The model's last answer, if it was cut off before anything followed from that."""
        last = self.messages[-1] if self.messages else None
        if self.reason is not None or last is None or last.role != "assistant" or last.calls:
            return None
        if self.stop is None and last.text.endswith(STOPPED_TEXT):
            return None
        return Reply(last, stop=self.stop or "end")

    @property
    def unbegun(self) -> tuple[ToolCall, ...]:
        """The calls that a stop kept from being begun, if nothing has followed: when it goes on they are made after all."""
        said = next((message for message in reversed(self.messages) if message.role != "tool"), None)
        if self.reason != "interrupted" or self.children or said is None:
            return ()
        never = {call_id for call_id, result in self.finished.items() if result.text == NEVER_RAN}
        return tuple(call for call in said.calls if call.id in never and call.id not in self.started)

    @property
    def cost(self) -> Decimal | None:
        """Dollars that its requests cost together; None if there were none, or one has no known price."""
        costs = [record.data.get("cost") for record in self.charges if record.kind == "charge"]
        try:
            return sum((Decimal(str(cost)) for cost in costs), Decimal()) if costs else None
        except ArithmeticError:  # one of them says None
            return None


class History:
    """The tree of a session's runs. `add` each record in order, then read."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        """Start from the records of a journal, even of one that was cut short or damaged."""
        self.runs: dict[str, KeptRun] = {}
        self.head = ""
        """The run that the next one follows; empty at the very beginning."""
        self.raises: list[tuple[str, LimitMet]] = []
        """The limits beyond which a person let a run go on, in order, each with when (UTC, ISO)."""
        with in_bulk():
            for record in records:
                self.add(record)

    def add(self, record: Record, entry: Entry | None = None) -> None:
        """Fold a record in; `entry` is what it holds where that is at hand, so that it need not be read again."""
        # A record of a later version, or one that somebody changed: what it would have said is not known.
        with suppress(KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
            self._add(record, cast("Mapping[str, Any]", record.data), entry)

    def _add(self, record: Record, data: Mapping[str, Any], entry: Entry | None) -> None:
        if record.kind == "head":
            to = str(data["to"])
            self.head = to if to in self.runs else ""
            return
        if not record.run:
            return
        run = self._run(record, data)
        match record.kind:
            case "message" | "decision":
                self._join(run, entry or self._entry(run, data))
            case "resumed":
                if run.reason == "budget" and run.limit is not None:
                    self.raises.append((record.at, run.limit))
                run.reason, run.detail = None, ""
                _reopen(run, frozenset(data.get("reopened", ())))
                self.head = run.id
            case "tool_started":
                name, arguments, key = (str(data[name]) for name in ("name", "arguments", "key"))
                run.started[data["call"]] = Attempt(name, arguments, key, record.at)
            case "tool_finished":
                run.finished[data["call"]] = _result(data["result"])
            case "approval_asked":
                run.asked.add(data["call"])
            case "approval_decided" if data.get("by") != "interrupted":
                run.asked.discard(data["call"])
            case "charge":
                run.charges.append(record)
            case "limit":
                amounts = (Decimal(data[name]) for name in ("limit", "spent", "more"))
                run.limit = LimitMet(data["what"], data["scope"], *amounts)
                if run.limit.scope == "run":
                    run.met[run.limit.what] = run.limit
            case "turn_ended":
                run.charges.append(record)
                run.turns = max(run.turns, int(data["turn"]))
                run.stop = data["stop"] if data["stop"] in get_args(Stop) else "other"
                run.usage += decode_usage(data["usage"])
            case "run_ended":
                self._end(run, data)
            case _:
                pass

    def _run(self, record: Record, data: Mapping[str, Any]) -> KeptRun:
        """Find the run that a record is of; one whose beginning was lost follows what was there."""
        if record.run in self.runs:
            return self.runs[record.run]
        begun = data if record.kind == "run_started" else {}
        parent = str(begun.get("parent", self.head))
        if parent and parent not in self.runs:  # it is lost altogether
            parent = self.head
        run = KeptRun(record.run, parent, at=record.at)
        for name in ("cell", "execution", "prompt", "model", "chosen"):
            setattr(run, name, str(begun.get(name, "")))
        run.fork = bool(begun.get("fork"))
        most, limits = begun.get("limit"), begun.get("limits")
        run.most = most if isinstance(most, int) else 0
        run.limits = {str(k): str(v) for k, v in limits.items()} if isinstance(limits, Mapping) else {}
        run.count = count if isinstance(count := begun.get("count"), int) else 0
        self.runs[run.id] = run
        if run.parent:
            self.runs[run.parent].children.append(run.id)
        self.head = run.id
        return run

    def _join(self, run: KeptRun, entry: Entry) -> None:
        """Add an entry; as in a transcript, a call takes its id over from an earlier one."""
        run.entries.append(entry)
        if not isinstance(entry, Message) or entry.role != "assistant":
            return
        run.stop = None
        for call in entry.calls:
            run.started.pop(call.id, None)
            run.finished.pop(call.id, None)
            run.asked.discard(call.id)

    def _entry(self, run: KeptRun, data: Mapping[str, Any]) -> Entry:
        if data.get("kind") != "message" or data["role"] != "tool":
            return decode(data)
        named = [part["call_id"] if part["kind"] == RECORDED else None for part in data["parts"]]
        parts = [_STAND_IN if part["kind"] == RECORDED else part for part in data["parts"]]
        found = decode({**data, "parts": parts})
        assert isinstance(found, Message)  # noqa: S101 - its kind was read above
        real = (
            part if call is None else run.finished.get(call) or _lost(call)
            for call, part in zip(named, found.parts, strict=True)
        )
        return Message(found.role, tuple(real), found.id, found.at)

    def _end(self, run: KeptRun, data: Mapping[str, Any]) -> None:
        reason = data["reason"]
        run.reason = reason if reason in get_args(Reason) else "error"
        run.detail = str(data["detail"])
        run.turns = max(run.turns, int(data["turns"]))
        run.seconds, run.waited = float(data["seconds"]), float(data["waited"])

    # -- reading

    def path(self, to: str | None = None) -> list[KeptRun]:
        """List the runs on the way to one, the first first; None for the head."""
        found: list[KeptRun] = []
        at = self.head if to is None else to
        while at and (run := self.runs.get(at)) is not None:  # a parent is always older, so it ends
            found.append(run)
            at = run.parent
        return found[::-1]

    def transcript(self, to: str | None = None) -> Transcript:
        """Return the conversation on the way to a run, that run included; None for the head."""
        return Transcript(entry for run in self.path(to) for entry in run.entries)

    def branches(self) -> list[KeptRun]:
        """List the last run of each branch, in the order in which they were begun: leaves, what a fork left, and the head."""
        return [run for run in self.runs.values() if self._ends_a_branch(run)]

    def _ends_a_branch(self, run: KeptRun) -> bool:
        children = [self.runs[child] for child in run.children]
        return run.id == self.head or all(child.fork for child in children)

    def run_of_cell(self, cell: str, execution: str, to: str | None = None) -> KeptRun | None:
        """Find the run that a new execution of a cell takes the place of: the first on the path that an earlier one began.

        The path is that to the run `to`, None for the head.
        """
        if not cell:
            return None
        return next((r for r in self.path(to) if r.cell == cell and r.execution != execution), None)

    def versions(self, run: KeptRun) -> list[KeptRun]:
        """List the runs that one place in a cell began, oldest first: the first prompt of each execution, or the second.

        The run may be one that is about to begin.
        """
        if not run.cell:
            return [run] if run.id in self.runs else []
        found: dict[str, list[KeptRun]] = {}
        for one in self.runs.values():
            if one.cell == run.cell and one.prompt:
                found.setdefault(one.execution, []).append(one)
        same = found.get(run.execution, [])
        nth = next((n for n, one in enumerate(same) if one.id == run.id), len(same))
        return [runs[nth] for runs in found.values() if len(runs) > nth]


def _reopen(run: KeptRun, calls: frozenset[str]) -> None:
    """Have these calls wait again: what was said of them when the run was stopped does not hold any more."""
    for call in calls:
        run.finished.pop(call, None)
    entries = [_without(entry, calls) if isinstance(entry, Message) else entry for entry in run.entries]
    run.entries = [entry for entry in entries if entry is not None]


def _without(message: Message, calls: frozenset[str]) -> Message | None:
    parts = tuple(p for p in message.parts if not (isinstance(p, ToolResult) and p.call_id in calls))
    if len(parts) == len(message.parts):
        return message
    return replace(message, parts=parts) if parts else None


def _result(data: Mapping[str, Any]) -> ToolResult:
    message = decode(
        {"kind": "message", "role": "tool", "parts": [data], "id": "", "at": "2000-01-01T00:00:00+00:00"}
    )
    part = message.parts[0] if isinstance(message, Message) else None
    if not isinstance(part, ToolResult):
        raise ValueError(f"not a result: {json.dumps(data)[:80]}")  # noqa: TRY004 - it is the data that is wrong
    return part


def _lost(call: object) -> ToolResult:
    if not isinstance(call, str):
        raise TypeError(f"not a call's id: {call!r}")
    return ToolResult(call, (Text(LOST),), is_error=True)


_STAND_IN = {"kind": "text", "text": ""}
