"""What a run that was cut off left open, and how it is taken up again. Book chapter 21.

    transcript = journal.history.transcript()
    settle(transcript, journal)                     # what had finished gets its result from the record
    run = Run(transcript, journal)
    take_up(run, journal.history.runs[journal.history.head])
    outcome = await agent.run(None, run)            # its outermost gate is `once`

Theory of operation. The journal says of each call that the conversation leaves open how far it got, and that decides
what becomes of it: its result is given, it is made now, it is checked first by `once`, or it is answered as not run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from harness_nb.messages import INTERRUPTED, Message, ToolCall, ToolResult, Transcript
from harness_nb.ops.history import History, KeptRun
from harness_nb.ops.journal import Journal
from harness_nb.ops.once import doubt, once
from harness_nb.ops.redacted import INSTEAD
from harness_nb.seams import Past, Run
from harness_nb.tools import refused


@dataclass(frozen=True, slots=True)
class Left:
    """What a run that was cut off left of its calls, each group in call order."""

    finished: tuple[ToolCall, ...] = ()
    """Whose results are recorded but not yet part of the conversation."""
    uncertain: tuple[ToolCall, ...] = ()
    """Whose bodies had begun: they may have had their effect."""
    waiting: tuple[ToolCall, ...] = ()
    """Which had not begun; some may have waited for a person."""
    unfit: tuple[ToolCall, ...] = ()
    """Which had not begun and must not: what is on record may not be all that the model sent."""
    passed: tuple[ToolCall, ...] = ()
    """Which the conversation has gone past, in a damaged journal or by a new prompt: nothing is known of them."""


def left(history: History) -> Left:
    """Say what the conversation at the head left open."""
    path, calls = history.path(), history.transcript().dangling()
    if not path or not calls:
        return Left()
    finished, run = results(history), path[-1]
    said = [message for message in run.messages if message.role != "tool"]
    last = {call.id for call in said[-1].calls} if said else set()
    groups: dict[str, list[ToolCall]] = {item.name: [] for item in fields(Left)}
    for call in calls:
        groups["finished" if call.id in finished else _open_group(call, run, last)].append(call)
    return Left(**{name: tuple(found) for name, found in groups.items()})


def _open_group(call: ToolCall, run: KeptRun, last: set[str]) -> str:
    if call.id not in last:
        return "passed"
    if call.id in run.started:
        return "uncertain"
    # Of a turn whose end is not on record, one whole JSON object was not cut; no arguments at all may have been.
    cut = run.stop == "length" or (run.stop is None and not call.raw.strip(" {}"))
    return "unfit" if cut or INSTEAD in call.raw else "waiting"


def results(history: History) -> dict[str, ToolResult]:
    """Give the recorded results of the calls on the way to the head, by call id."""
    found: dict[str, ToolResult] = {}
    for run in history.path():
        for message in run.messages:
            for call in message.calls:
                found.pop(call.id, None)
        found |= run.finished
    return found


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


def take_up(run: Run, kept: KeptRun) -> None:
    """Make a run that has not begun the continuation of one that was kept: give it with prompt None to `Agent.run`.

    Its transcript must be the conversation on the way to `kept`, with `settle` done. Where `kept` was cut off before
    its prompt was part of that, or before anything followed from the model's answer, it goes on from there.
    """
    run.id, run.turn, run.usage, run.waited = kept.id, kept.turns, kept.usage, kept.waited
    run.cost, run.charged = kept.cost, sum(record.kind == "charge" for record in kept.charges)
    cut_off = {identity: begun for identity, begun in kept.started.items() if identity not in kept.finished}
    run.state[once] = cut_off
    doubts = {identity: doubt(attempt) for identity, attempt in cut_off.items()}
    run.past = Past(kept.unsaid or _nudge(run.transcript, kept), kept.reply, doubts)
    run.waiting = bool(run.transcript.dangling())


def _nudge(transcript: Transcript, kept: KeptRun) -> str:
    """Return what to ask where the model spoke last, as when it was stopped amid an answer; else empty."""
    live = transcript.live()
    answered = bool(live) and live[-1].role == "assistant" and not live[-1].calls
    return GO_ON if answered and kept.reply is None else ""


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
