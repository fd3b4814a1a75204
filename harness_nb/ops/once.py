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
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

from harness_nb.events import Notice
from harness_nb.messages import INTERRUPTED, Message, Text, ToolCall, ToolResult, Transcript
from harness_nb.ops.history import Attempt, History, KeptRun, left, results
from harness_nb.ops.journal import Journal
from harness_nb.ops.redacted import INSTEAD
from harness_nb.seams import Call, Past, Proceed, Run
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


def take_up(run: Run, kept: KeptRun) -> None:
    """Make a run that has not begun the continuation of one that was kept: give it with prompt None to `Agent.run`.

    Its transcript must be the conversation on the way to `kept`, with `settle` done. Where `kept` was cut off before
    its prompt was part of that, or before anything followed from the model's answer, it goes on from there.
    """
    run.id, run.turn, run.usage, run.waited = kept.id, kept.turns, kept.usage, kept.waited
    run.cost, run.charged = kept.cost, sum(record.kind == "charge" for record in kept.charges)
    open_ = {identity: kept.started[identity] for identity in kept.started if identity not in kept.finished}
    run.state[once] = open_
    begun = {identity: doubt(attempt) for identity, attempt in open_.items()}
    run.past = Past(kept.unsaid or _nudge(run.transcript, kept), kept.reply, begun)
    run.waiting = bool(run.transcript.dangling())


def _nudge(transcript: Transcript, kept: KeptRun) -> str:
    """Ask for more where the model spoke last, as when it was stopped in the middle of an answer: it can't be asked with nothing."""
    live = transcript.live()
    answered = bool(live) and live[-1].role == "assistant" and not live[-1].calls
    return GO_ON if answered and kept.reply is None else ""


def settle(transcript: Transcript, journal: Journal) -> tuple[ToolCall, ...]:
    """Give the open calls of the conversation at the head that have their result on record that result; return those calls.

    What must not run any more is answered, too: calls that are not whole, and calls that something else has followed.
    A second time there is nothing left to do.
    """
    history = journal.history
    open_, known = left(history), results(history)
    answers = {call.id: known[call.id] for call in open_.finished}
    answers |= {call.id: refused(call.id, UNFIT) for call in open_.unfit}
    answers |= {call.id: refused(call.id, INTERRUPTED) for call in open_.passed}
    if answers:
        in_order = (answers[call.id] for call in transcript.dangling() if call.id in answers)
        message = Message("tool", tuple(in_order))
        transcript.append(message)
        journal.settle(message)
    return open_.finished


def missing_tools(history: History, names: Iterable[str]) -> list[str]:
    """Name the tools that calls wait for and that are not among `names`: without them no call could go on as it was meant."""
    waiting, head = left(history), history.runs.get(history.head)
    again = head.unbegun if head is not None else ()
    return sorted({call.name for call in (*waiting.uncertain, *waiting.waiting, *again)} - set(names))


GO_ON = "Go on from where you were stopped."

UNFIT = (
    "This call did not run: the run was cut off before it was begun, and what is on record of it may not be all that "
    "was sent. Send it again, whole."
)
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
