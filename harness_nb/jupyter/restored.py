"""What an earlier kernel left of a session, in sentences for the person who goes on with it: the banner of `%resume`."""

from __future__ import annotations

from dataclasses import dataclass

from harness_nb.jupyter.words import counted
from harness_nb.ops.history import History, KeptRun
from harness_nb.ops.resume import left


@dataclass(frozen=True, slots=True)
class Restored:
    """What an earlier kernel left of a session, taken up again. `told` says so in sentences for the person."""

    told: tuple[str, ...]
    run: KeptRun | None
    """The run that can go on, None where the last one was done."""


def found(history: History, last: KeptRun) -> str:
    """Say what there is, and how it ended."""
    path = [run for run in history.path() if run.prompt]
    messages = sum(len(run.messages) for run in path)
    ended = ENDED.get(last.reason or "", f"ended with reason `{last.reason}`")
    turn = last.turns + (not history.transcript().dangling())  # with calls open, the turn that made them
    where = f" in turn {turn}" if last.reason is None else ""
    return f"Restored {counted(len(path), 'run')} with {counted(messages, 'message')}. The last one {ended}{where}."


ENDED = {
    "": "was cut off",
    "done": "was done",
    "turns": "met its limit of turns",
    "budget": "met its budget",
    "interrupted": "was stopped",
    "suspended": "waited for you",
    "error": "failed",
}


def told(history: History, given: int) -> list[str]:
    """Say what becomes of the calls that were left open."""
    open_, run = left(history), history.runs[history.head]
    said = []
    if given:
        said.append(
            f"{counted(given, 'call')} had finished: the result on record is given, and nothing of it runs again."
        )
    said += [f"`{call.name}` was begun and cut off: it may have had its effect." for call in open_.uncertain]
    waiting = (*open_.waiting, *run.unbegun)
    asked = [call for call in waiting if call.id in run.asked]
    if asked:
        said.append(f"{counted(len(asked), 'call')} waited for your decision, and asks again.")
    if rest := len(waiting) - len(asked):
        said.append(f"{counted(rest, 'call')} had not begun.")
    return said
