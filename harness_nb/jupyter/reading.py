"""A kept session to look at: its runs in the order of their tree, each in a line, and each as it was seen live. Book chapter 21.

    session = read(store, "main")
    for step in session.steps:
        print(session.label(step.run), session.view(step).headline)

The runs on the way to the head stand one below the other. What was set aside stands further in, below the run that it
followed, so that it comes just before what took its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from harness_nb.jupyter.history_tree import numbers, title
from harness_nb.jupyter.told import CUT_OFF, by_run, is_set, view_of
from harness_nb.jupyter.view import HEADLINES, RunView
from harness_nb.jupyter.words import counted, one_line, visible
from harness_nb.messages import Decision
from harness_nb.ops.history import History, KeptRun
from harness_nb.ops.lock import Held, Lock
from harness_nb.ops.names import path_of
from harness_nb.ops.records import Record
from harness_nb.ops.store import Store

LABEL = 72
"""Most characters of a run's prompt in its line."""

AT_WORK, UNFINISHED = "at work", "not finished"
"""What a run without an end is, beside cut off: its process is there; or nobody can tell whether it is."""


@dataclass(frozen=True, slots=True)
class Step:
    """A run and its place: its `number` as `%history` has it, 0 for a decision between runs, which is none.

    `depth` is how far it was set aside, 0 on the way to the head.
    """

    run: KeptRun
    number: int = 0
    depth: int = 0

    @property
    def here(self) -> bool:
        """Whether it is on the way to the head."""
        return not self.depth


def steps(history: History) -> list[Step]:
    """List all runs of a session so that each comes after the one that it follows."""
    path, known = {run.id for run in history.path()}, numbers(history)

    def following(runs: Sequence[KeptRun], depth: int) -> Iterator[Step]:
        """Those that were set aside here, then the one that goes on."""
        on = next((run for run in runs if run.id in path), runs[-1] if depth and runs else None)
        yield from (Step(run, known.get(run.id, 0), depth + 1) for run in runs if run is not on)
        if on is not None:
            yield Step(on, known.get(on.id, 0), depth)

    found: list[Step] = []
    left = [*following([run for run in history.runs.values() if not run.parent], 0)][::-1]
    while left:  # not by recursion: a session may have a thousand runs
        found.append(step := left.pop())
        left += [*following([history.runs[child] for child in step.run.children], step.depth)][::-1]
    return found


@dataclass(frozen=True)
class Session:
    """What a journal tells. `open_run` says what the run at its head is if that has no end."""

    name: str
    records: Sequence[Record]
    warnings: Sequence[str] = ()
    open_run: str = CUT_OFF

    @cached_property
    def history(self) -> History:
        """Its runs as a tree."""
        return History(self.records)

    @cached_property
    def steps(self) -> list[Step]:
        """Its runs, each after the one that it follows."""
        return steps(self.history)

    @property
    def runs(self) -> list[Step]:
        """The same without the decisions between runs."""
        return [step for step in self.steps if step.number]

    @property
    def head(self) -> KeptRun | None:
        """The run that the next one follows; None at the beginning."""
        return self.history.runs.get(self.history.head)

    @property
    def ended(self) -> str:
        """How the last run on the way ended, in a few words."""
        if self.head is None:
            return "taken back to its beginning" if self.history.runs else "nothing yet"
        if self.head.reason is None:
            return self.open_run
        return "waits for you" if self.head.reason == "suspended" else HEADLINES[self.head.reason]

    @property
    def changed(self) -> str:
        """When its last record was written, UTC in ISO form."""
        return self.records[-1].at if self.records else ""

    @property
    def amount(self) -> str:
        """How much there is: `3 runs, 1 of them set aside, 12 messages`."""
        aside = sum(not step.here for step in self.runs)
        said = f", {aside:,} of them set aside" if aside else ""
        return f"{counted(len(self.runs), 'run')}{said}, {counted(self.messages, 'message')}"

    @property
    def messages(self) -> int:
        """Messages on the way to the head."""
        return sum(len(run.messages) for run in self.history.path())

    @property
    def unfinished(self) -> bool:
        """Whether the run at its head is at work, or may be."""
        return self.head is not None and self.head.reason is None and self.open_run != CUT_OFF

    def view(self, step: Step) -> RunView:
        """Return a run as it was seen; the same one each time. Only the one at the head can be gone on from."""
        run = step.run
        if run.id not in self._views:
            last = run is self.head
            records = self._by_run.get(run.id, ())
            view = view_of(run, records, self.history, at_work=last and self.unfinished)
            view.continues = last
            self._views[run.id] = view
        return self._views[run.id]

    def headline(self, step: Step) -> str:
        """Say how a run ended, in a few words."""
        return self.open_run if step.run is self.head and self.unfinished else self.view(step).headline

    @cached_property
    def _views(self) -> dict[str, RunView]:
        return {}

    @cached_property
    def _by_run(self) -> Mapping[str, Sequence[Record]]:
        return by_run(self.records)


def label(run: KeptRun) -> str:
    """Say in a line what a run was about: its prompt, or what it was instead."""
    if is_set(run):
        return title(run, LABEL)
    said = run.prompt or next((message.text for message in run.messages if message.role == "user"), "")
    decided = next((entry.why for entry in run.entries if isinstance(entry, Decision)), "")
    return one_line(visible(said or decided), LABEL) or "no prompt"


def which(step: Step) -> str:
    """Name a step: `run 3`, or `decision` for one between runs."""
    return f"run {step.number:,}" if step.number else "decision"


def read(store: Store, name: str, folder: Path | None = None) -> Session:
    """Read a session of a store that keeps files in `folder`, None for a database. Raises StoreError if there is none."""
    log = store.open(name, write=False)
    try:
        session = Session(log.name, log.read(), tuple(log.warnings))
    finally:
        log.close()
    if session.head is None or session.head.reason is not None:
        return session
    return replace(session, open_run=_state(session, folder))


RECENT = 86_400
"""Seconds within which a run that has no end may be at work in a store where nobody can tell."""


def _state(session: Session, folder: Path | None) -> str:
    if folder is None:
        return UNFINISHED if since(session.changed) < RECENT else CUT_OFF
    try:
        return AT_WORK if written(folder, session.name) else CUT_OFF
    except OSError:
        return UNFINISHED


def written(folder: Path, name: str) -> bool:
    """Tell whether a process has a session's file open to write it, which stays untouched. Raises OSError."""
    path = path_of(folder, name)
    try:
        Lock(path.with_name(f"{path.name}.lock")).release()
    except Held:
        return True
    return False


def since(at: str) -> float:
    """Return the seconds since a record's time; a time that can't be read is very long ago."""
    try:
        return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds())
    except (TypeError, ValueError):
        return float("inf")


def ago(at: str) -> str:
    """Say when a record was written: `3 hours ago`."""
    seconds = since(at)
    if seconds == float("inf"):
        return "at an unknown time"
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return f"{counted(int(seconds // length), unit)} ago"
    return "just now"


def moment(at: str) -> str:
    """Write a record's time to the minute, in UTC: `2026-01-31 09:57 UTC`."""
    try:
        return f"{datetime.fromisoformat(at).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except (TypeError, ValueError, OverflowError):
        return "at an unknown time"
