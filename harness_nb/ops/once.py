"""Runs each call at most once, also over a crash: the gate `once`, outermost of all. Book chapter 21.

    agent = Agent(model, tools, gates=(once, permitted(...), unchanged))

Theory of operation. A call's idempotency key is made of the message that holds it and its place there, so a second
attempt at one call has the same key, while the same call made again later in the run is another call. The journal has
`tool_started` on disk before a body begins and `tool_finished` before the model hears of it. So after a crash a call
has its result, or had not begun, or is in doubt. One in doubt runs again by itself only if that does no harm, or if
the tool's own `verify` finds that it had no effect; else a person decides, and is told why they are asked.
"""

from __future__ import annotations

import functools
import hashlib
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

from harness_nb.events import Notice
from harness_nb.messages import Text, ToolCall, ToolResult, Transcript
from harness_nb.ops.history import Attempt
from harness_nb.ops.redacted import INSTEAD
from harness_nb.seams import Call, Proceed, Run
from harness_nb.strict import parse_arguments
from harness_nb.tasks import being_cancelled, off_loop, settled
from harness_nb.tools import refused


async def once(call: Call, run: Run, proceed: Proceed[Call, ToolResult]) -> ToolResult:
    """Give a call its key; one that was begun before a crash is checked first. Fits the gate socket."""
    before = cast("dict[str, Attempt]", run.state.get(once, {})).get(call.id)
    if before is None:
        return await proceed(replace(call, key=key(call, run.transcript)))
    call = _as_begun(call, before)
    if INSTEAD in before.arguments:  # what was taken out of the record is not there to run with
        return refused(call.id, REDACTED.format(call.spec.name))
    if call.spec.repeatable:
        run.emit(Notice(f"`{call.spec.name}` was cut off before. It runs again, which does no harm."))
        return await proceed(call)
    match await _had_its_effect(call):
        case True:
            run.past.begun.pop(call.id, None)
            return ToolResult(call.id, (Text(HAPPENED.format(call.spec.name)),))
        case False:
            run.past.begun.pop(call.id, None)
            run.emit(
                Notice(f"`{call.spec.name}` was cut off before it had an effect, as its own check finds.")
            )
            return await proceed(call)
        case _:
            return await proceed(replace(call, doubt=run.past.begun.get(call.id) or doubt(before)))


def key(call: Call | ToolCall, transcript: Transcript) -> str:
    """Make a call's idempotency key: the same for each attempt at it, in any process; another for any other call.

    A call that no message of the transcript holds has a new one each time.
    """
    holds = (m.id for m in reversed(transcript.messages) if any(c.id == call.id for c in m.calls))
    name = call.spec.name if isinstance(call, Call) else call.name
    words = "\0".join((next(holds, None) or uuid.uuid4().hex, call.id, name))
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def doubt(attempt: Attempt, now: datetime | None = None) -> str:
    """Say in a sentence why a call may have had its effect already."""
    try:
        ago = (now or datetime.now(UTC)) - datetime.fromisoformat(attempt.at)
        when = f" {_ago(ago.total_seconds())} ago"
    except (ValueError, TypeError):
        when = ""
    return f"It was begun{when} and cut off, so it may have had its effect already."


REDACTED = (
    "`{}` was not run again. It was begun and cut off, so it may have had its effect already. Its arguments held a "
    "secret, which is not kept, so nobody can run it again as it was: check, and send the call anew if it is needed."
)
HAPPENED = (
    "`{}` was begun before the run was cut off, and its own check finds that it had its effect. "
    "What it returned was not recorded. It was not run again."
)


def _as_begun(call: Call, before: Attempt) -> Call:
    """Make the call what was begun, to the letter: a person may have edited it."""
    try:
        return replace(call, arguments=parse_arguments(before.arguments), key=before.key)
    except ValueError:
        return replace(call, key=before.key)


async def _had_its_effect(call: Call) -> bool | None:
    """Ask the tool's own check; None where it has none, or fails."""
    if call.spec.verify is None:
        return None
    try:
        return await settled(await off_loop(functools.partial(call.spec.verify, call)))
    except BaseException as fault:
        if not isinstance(fault, Exception) and being_cancelled():
            raise
        return None  # it is the user's code: a check that fails has checked nothing


def _ago(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            number = int(seconds // length)
            return f"{number} {unit}{'' if number == 1 else 's'}"
    return f"{max(1, int(seconds))} s"
