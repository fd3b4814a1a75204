"""What fills a session's context window, as plain text: what `%context` says where nothing is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness_nb.context.fates import described
from harness_nb.context.mask import MARK
from harness_nb.jupyter.gauge import grouped, told
from harness_nb.jupyter.words import counted, one_line, visible
from harness_nb.messages import Message

if TYPE_CHECKING:
    from harness_nb.jupyter.session import Session

LAST_MESSAGES, LAST_DECISIONS, LAST_TURNS = 40, 20, 10
"""Most lines of each list, the newest."""
WIDTH = 72
"""Most characters of a message's description and of a decision's reason."""


def context_told(session: Session) -> str:
    """Say what fills the window, which decisions were taken, and what each message costs, with the numbers to undo and pin by."""
    if not session.transcript.messages:
        return f"Session `{session.name}` has no conversation yet, so nothing fills its context window: %agent begins one."
    fill = session.context.fill
    lines = [told(fill), ""]
    lines += [f"  {name:<15}{tokens:>10,}{_share(tokens, fill.total)}" for name, tokens in grouped(fill)]
    lines += _decisions(session) + _turns(session) + _messages(session)
    return "\n".join(lines)


def _share(tokens: int, total: int) -> str:
    return f"{tokens / total:>6.0%} of it" if total else ""


def _decisions(session: Session) -> list[str]:
    decisions = session.context.decisions
    if not decisions:
        return ["", "No decision about the context was taken."]
    holding = {decision.id for decision in session.context.transcript.standing()}
    lines = ["", "Decisions (%context undo NUMBER takes one back):"]
    for number, decision in list(enumerate(decisions, 1))[-LAST_DECISIONS:]:
        gone = "" if decision.id in holding else " (taken back)"
        size = f" {decision.before:,} → {counted(decision.after, 'token')}." if decision.before else ""
        lines.append(f"  {number:>4}  {one_line(visible(decision.why), 2 * WIDTH)}{size}{gone}")
    return lines


def _turns(session: Session) -> list[str]:
    turns = session.context.turns[-LAST_TURNS:]
    lines = ["", f"The last {counted(len(turns), 'turn')}:"] if turns else []
    for turn in turns:
        counted_by = "counted" if not turn.usage.estimated else "estimated"
        share = f", {turn.fill.share:.0%} full" if turn.fill.window else ""
        lines.append(
            f"  turn {turn.turn}: {turn.fill.total:,} tokens before{share}; {turn.usage.input:,} in, {turn.usage.output:,} out, {counted_by}"
        )
    return lines


def _messages(session: Session) -> list[str]:
    transcript, counter = session.context.transcript, session.context.account.counter
    known = {call.id: call for message in transcript.messages for call in message.calls}
    pinned = transcript.pinned()
    slots = list(enumerate(transcript.shown(), 1))
    lines = [
        "",
        f"Messages (%context pin NUMBER keeps one word for word), the last {min(len(slots), LAST_MESSAGES):,} of {len(slots):,}:",
    ]
    for number, (message, shown) in slots[-LAST_MESSAGES:]:
        size = sum(counter.message(one) for one in shown)
        now = f", {fate}" if (fate := _now(message, shown)) else ""
        kept = ", pinned" if message.id in pinned else ""
        what = one_line(visible(described(message, known)), WIDTH)
        lines.append(f"  {number:>4}  {what}: {counted(size, 'token')}{now}{kept}")
    return lines


def _now(message: Message, shown: tuple[Message, ...]) -> str:
    """Say how the model sees the message; empty where it sees it as it is."""
    if message in shown:
        return ""
    if not any(one.id == message.id for one in shown):
        return "replaced by what follows" if not shown else "a summary stands here"
    return "masked" if any(r.text.startswith(MARK) for one in shown for r in one.results) else "shortened"
