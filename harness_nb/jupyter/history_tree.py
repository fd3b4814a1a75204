"""The runs of a session as a person looks at them: numbered as they began, each with its place in the tree. Book chapter 21.

    tree = Tree(session.kept.history)
    for row in tree.rows:
        print(row.number, "  " * row.depth, row.title, row.ended)

The conversation as it stands is one straight line. What was set aside stands further in, before what took its place.
A number stays a run's own, since nothing is ever taken out. Decisions between runs are steps of the tree, too, and
belong to the run before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from harness_nb.errors import UsageError
from harness_nb.jupyter.history_versions import Earlier, Versions
from harness_nb.jupyter.told import CUT_OFF, is_set
from harness_nb.jupyter.view import HEADLINES
from harness_nb.jupyter.words import counted, one_line, visible
from harness_nb.ops.history import History, KeptRun

TITLE = 100
"""Most characters of a prompt in its line."""

LISTED = 40
"""Runs that are listed: the last ones of the conversation, and the newest of the others."""


@dataclass(frozen=True, slots=True)
class Row:
    """A run and its place in the tree."""

    run: KeptRun
    number: int
    depth: int
    """How far it was set aside, 0 for the conversation and for the first run of any other."""
    here: bool
    """Whether it is part of the conversation as it stands, `head` whether the next prompt follows it."""
    head: bool
    ends: bool
    """Whether it is the last run of a branch."""
    goal: str
    """What to follow to go on from its end: it, or the decisions on the context that came next."""
    ended: str
    """How it ended, in a few words."""
    version: tuple[int, int]
    """Which version it is of how many that its cell has run."""

    @property
    def title(self) -> str:
        """Its prompt on one line, safe for a terminal."""
        return title(self.run)

    @property
    def place(self) -> str:
        """When it began, and in which cell."""
        cell = f"In [{self.run.count}]" if self.run.count else ""
        at, of = self.version
        version = f"version {at} of {of}" if of > 1 else ""
        return ", ".join(part for part in (when(self.run.at), cell, version) if part)


def title(run: KeptRun, limit: int = TITLE) -> str:
    """Write a run's prompt on one line, safe for a terminal."""
    if run.prompt.strip():
        return one_line(visible(run.prompt), limit)
    if is_set(run):
        return f"Set from Python: {counted(len(run.messages), 'message')}"
    return "Its beginning is lost"


def is_step(run: KeptRun) -> bool:
    """Tell whether this is no run, but a decision between two."""
    return run.id.startswith("decision-")


def numbers(history: History) -> dict[str, int]:
    """Number the runs from 1, in the order in which they began."""
    runs = [run for run in list(history.runs.values()) if not is_step(run)]
    return {run.id: number for number, run in enumerate(runs, 1)}


def versions(history: History, run: KeptRun) -> Versions:
    """Find the earlier versions of the cell that a run which is about to begin is one of."""
    known, before = numbers(history), history.versions(run)
    told = [
        Earlier(version, known[one.id], visible(one.prompt), visible(one.text), ended(one))
        for version, one in enumerate(before, 1)
    ]
    return Versions(len(before) + 1, told[::-1])


class Tree:
    """The rows of a session, in an order in which each comes after the one that it follows."""

    def __init__(self, history: History, *, at_work: bool = False) -> None:
        """Look at a history as it stands; `at_work` says that the run at its head goes on."""
        self._history = history
        self._at_work = at_work
        self._numbers = numbers(history)
        self._path = {run.id for run in history.path()}
        self._here = [self._numbers[run.id] for run in history.path() if not is_step(run)]
        self._ends = {self._run_of(run.id) for run in history.branches()}
        self._head = self._run_of(history.head)
        self._versions = _versions(history)
        self.rows: Sequence[Row] = tuple(self._laid_out())
        self.branches = sum(row.ends for row in self.rows)

    @property
    def head(self) -> Row | None:
        """The run that the next prompt follows; None where that begins a new conversation."""
        return next((row for row in self.rows if row.head), None)

    def row(self, number: int) -> Row:
        """Find the run of this number. Raises UsageError."""
        found = next((row for row in self.rows if row.number == number), None)
        if found is None:
            there = f"runs are numbered 1 to {len(self.rows):,}" if self.rows else "there is no run yet"
            raise UsageError(f"There is no run {number}: {there}. Nothing has changed.")
        return found

    def aside(self, row: Row) -> list[int]:
        """Number the runs that are set aside when the conversation goes on from here."""
        way = {self._numbers.get(run.id) for run in self._history.path(row.goal)}
        return [number for number in self._here if number not in way]

    def listed(self) -> tuple[Sequence[Row], int]:
        """Choose the rows to show; return them, and how many are left out."""
        if len(self.rows) <= LISTED:
            return self.rows, 0
        newest = sorted((row.number for row in self.rows if not row.here), reverse=True)
        here = self._here[-(LISTED - min(len(newest), LISTED // 2)) :]
        chosen = {*here, *newest[: LISTED - len(here)]}
        return [row for row in self.rows if row.number in chosen], len(self.rows) - len(chosen)

    def _run_of(self, run: str) -> str:
        """Find the run that a step belongs to; empty for the very beginning."""
        while run and is_step(self._history.runs[run]):
            run = self._history.runs[run].parent
        return run

    def _laid_out(self) -> Iterator[Row]:
        following: dict[str, list[KeptRun]] = {}
        for run in self._history.runs.values():
            if not is_step(run):
                following.setdefault(self._run_of(run.parent), []).append(run)
        # The conversation as it stands comes last; it and each other one begin at the left.
        left = [(run, 0) for run in sorted(following.get("", ()), key=lambda run: run.id in self._path)][::-1]
        while left:  # not by recursion: a session may have thousands of runs
            run, depth = left.pop()
            yield self._row(run, depth)
            next_ = following.get(run.id, [])
            on = next((one for one in next_ if one.id in self._path), next_[-1] if next_ else None)
            left += [(one, depth) for one in next_ if one is on]
            left += [(one, depth + 1) for one in next_[::-1] if one is not on]

    def _row(self, run: KeptRun, depth: int) -> Row:
        return Row(
            run,
            self._numbers[run.id],
            depth,
            here=run.id in self._path,
            head=run.id == self._head,
            ends=run.id in self._ends,
            goal=self._goal(run),
            ended=self._ended(run),
            version=self._versions.get(run.id, (1, 1)),
        )

    def _goal(self, run: KeptRun) -> str:
        goal, runs = run, self._history.runs
        while steps := [runs[child] for child in goal.children if is_step(runs[child])]:
            goal = steps[-1]
        return goal.id

    def _ended(self, run: KeptRun) -> str:
        if is_set(run):
            return ""
        return "at work" if self._at_work and run.id == self._head else ended(run)


def _versions(history: History) -> dict[str, tuple[int, int]]:
    """Say of each run which version it is of how many: its place in a cell began them all."""
    seen: dict[tuple[str, str], int] = {}
    places: dict[tuple[str, int], list[str]] = {}
    for run in list(history.runs.values()):
        if run.cell and run.prompt:
            nth = seen[run.cell, run.execution] = seen.get((run.cell, run.execution), -1) + 1
            places.setdefault((run.cell, nth), []).append(run.id)
    return {run: (n, len(runs)) for runs in places.values() for n, run in enumerate(runs, 1)}


def ended(run: KeptRun) -> str:
    """Say how a run ended in a few words: `done in 2 turns`."""
    how = CUT_OFF if run.reason is None else HEADLINES[run.reason]
    return f"{how} in {counted(run.turns, 'turn')}" if run.reason == "done" and run.turns else how


def when(at: str) -> str:
    """Say a time of day here: `1 Dec 10:21`; empty for what is none."""
    try:
        there = datetime.fromisoformat(at).astimezone()
    except (ValueError, OverflowError):
        return ""
    return f"{there.day} {there:%b %H:%M}"


def spans(found: Sequence[int]) -> str:
    """Name runs by their numbers: `run 3`, `runs 3 and 5`, `runs 2 to 4 and 7`."""
    pieces: list[list[int]] = []
    for number in sorted(found):
        if pieces and pieces[-1][-1] == number - 1:
            pieces[-1].append(number)
        else:
            pieces.append([number])
    words = [
        part
        for piece in pieces
        for part in ([f"{piece[0]} to {piece[-1]}"] if len(piece) > 2 else [str(n) for n in piece])
    ]
    listed = " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)
    return f"run{'s' if len(found) > 1 else ''} {listed}"
