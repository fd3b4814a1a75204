"""What a journal keeps: one record for each thing that happened, as plain JSON data. Book chapter 21.

    session         what the journal is of: its name and the version of this form
    run_started     parent, cell, execution, prompt, model, chosen      a run is a step in a tree; `parent` is the one it follows
    message         a message joined the transcript                     as encoding.py writes it
    decision        a decision about the context joined it              the same
    tool_started    call, name, arguments, key                          on disk before the tool's body begins
    tool_finished   call, result, seconds                               the one answer to a call, as the model gets it
    approval_asked, approval_decided                                    a question to a person, and what became of it
    charge          model, usage, cost, agent, purpose                  one request that was paid for
    restarted, retry, switched, chosen, limit, notice                   why things went another way than usual
    turn_ended      turn, usage, stop                                   the model's reply is complete
    run_ended       reason, detail, turns, seconds, waited              a run without one was cut off
    resumed         model, reopened, after                              it goes on after all, with these calls open again
    head            to                                                  the conversation goes on from another run: undo, or a branch

A kind that is not known here is kept and passed over, so that a journal of a later version can be read and grown.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

SCHEMA = 1
"""Version of this form. It rises when an older reader would misread a journal, not when a kind is added."""


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that happened. `run` is the id of the run that it belongs to, empty for what belongs to none.

    `seq` is its place in the journal, counted from 1 and given by the store; 0 before that. `at` is UTC in ISO form.
    """

    kind: str
    data: Mapping[str, object]
    run: str = ""
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    seq: int = 0


@contextmanager
def in_bulk() -> Iterator[None]:
    """Read many records at once: none is in a cycle, and Python's collector would look through all of them again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
