"""Writes a run's model calls to a file, and plays them back offline; `recording` is a model layer, `Recorded` a model. Book chapter 3.

    layered(model, recording("trip.jsonl"), retrying())    what the run saw, one line a call
    Recorded("trip.jsonl")                                  the same answers again, without network or key

Calls are found by what they ask, not by their number: a cell can be run again, and parallel runs can share a file.
"""

from __future__ import annotations

import asyncio
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import cast

from harness_nb.errors import ProviderError, UsageError
from harness_nb.events import CallDelta, Event, Notice, TextDelta, ThinkingDelta, TurnRestarted
from harness_nb.messages import Message
from harness_nb.providers.tape import HEADER, Asked, Delta, Mark, Take, line, load, marks, shared
from harness_nb.seams import ModelLayer, Proceed, Reply, Request, Run


def recording(path: str | Path) -> ModelLayer:
    """Make a layer that writes every model call to `path`, replacing the recording that was there.

    Put first, it records what the run saw; put last, each attempt of a retry. Values of environment
    variables that hold keys are blotted out. Raises UsageError if `path` can't be written to or
    holds something else. A fault of the disk is a Notice, and the run goes on.
    """
    tape = _Tape(Path(path).expanduser())

    async def layer(request: Request, run: Run, proceed: Proceed[Request, Reply]) -> Reply:
        streamed: list[Delta] = []

        def hear(event: Event) -> None:
            if isinstance(event, TurnRestarted):
                streamed.clear()
            elif isinstance(event, TextDelta | ThinkingDelta | CallDelta):
                streamed.append(event)

        try:
            with run.overheard(hear):
                reply = await proceed(request)
        except ProviderError as fault:
            tape.write(Take(marks(request), tuple(streamed), fault), run)
            raise
        tape.write(Take(marks(request), tuple(streamed), reply), run)
        return reply

    return layer


class _Tape:
    """A file that is being recorded; it begins anew with the first call."""

    def __init__(self, path: Path) -> None:
        if not path.parent.is_dir():
            raise UsageError(f"Can't record to {path}: there is no folder {path.parent}.")
        if path.exists() and (path.is_dir() or not _may_be_replaced(path)):
            raise UsageError(f"Can't record to {path}: something else is there, and it would be lost.")
        self.path = path
        self.begun = False
        self.before: Asked = ()

    def write(self, take: Take, run: Run) -> None:
        try:
            with self.path.open("a" if self.begun else "w", encoding="utf-8", newline="\n") as file:
                file.write(("" if self.begun else HEADER + "\n") + line(take, self.before) + "\n")
        except OSError as fault:
            run.emit(
                Notice(f"A model call was not recorded: {self.path} can't be written ({fault.strerror}).")
            )
        else:
            self.begun, self.before = True, take.asked


def _may_be_replaced(path: Path) -> bool:
    with path.open("rb") as file:
        return file.readline(200).rstrip() in {b"", HEADER.encode()}


class Recorded:
    """Plays a recording. `pace` is the time in seconds between pieces of a stream."""

    window = 0
    """A recording has no window: what it was asked was not too large."""
    free = True
    """It costs nothing."""

    def __init__(self, path: str | Path, pace: float = 0.0) -> None:
        """Read the file. Raises UsageError if there is none or it is damaged.

        A last line that was cut off is no fault until a run gets that far.
        """
        self.path = Path(path).expanduser()
        self.name = f"replay of {self.path.name}"
        self.pace = pace
        self._takes, self._cut = load(self.path)

    async def __call__(self, request: Request, run: Run) -> Reply:
        """Play the call that was recorded for this request; asked again in one run, play what came next.

        Raises ProviderError if there is none, saying what differs first.
        """
        asked = marks(request)
        fitting = [take for take in self._takes if take.asked == asked]
        if not fitting:
            raise ProviderError(self._misfit(asked))
        played = cast("dict[Asked, int]", run.state.setdefault(self, {}))
        take = fitting[min(played.get(asked, 0), len(fitting) - 1)]
        played[asked] = played.get(asked, 0) + 1
        for delta in take.stream:
            run.emit(delta)
            await asyncio.sleep(self.pace)
        if isinstance(take.end, ProviderError):
            raise copy(take.end)
        message = take.end.message
        return replace(take.end, message=Message(message.role, message.parts))

    def _misfit(self, asked: Asked) -> str:
        name, count = f"The recording {self.path.name}", len(self._takes)
        calls = f"{count} model call{'' if count == 1 else 's'}"
        nearest = max((take.asked for take in self._takes), key=lambda one: shared(one, asked), default=())
        same = shared(nearest, asked)
        if same == len(nearest) and self._cut:
            return f"{name} was cut off after {calls}, and this run goes on: record it again."
        if same == len(nearest):
            return f"{name} is over after {calls}, and this run asks for one more: record it again."
        where, differs = _difference(nearest[same], asked[same:])
        return (
            f"{name} doesn't fit this run at {where}: {differs}. Run what was recorded, or record it again."
        )


def _difference(was: Mark, rest: Asked) -> tuple[str, str]:
    """Say where a request leaves the recorded one, given what was recorded there and what it has from there on."""
    if was.what not in {mark.what for mark in rest}:
        return was.what, f"it was “{was.start}” and is not there"
    now = rest[0]
    if now.what != was.what:
        return now.what, f"it was not there and is “{now.start}”"
    if now.start == was.start:
        return now.what, f"it begins “{now.start}” as recorded and then differs"
    return now.what, f"it was “{was.start}” and is “{now.start}”"
