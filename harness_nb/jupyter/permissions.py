"""What `%agent permissions` tells: the mode, the rules, what a person has allowed, and what became of the calls."""

from __future__ import annotations

from harness_nb.jupyter.asking import ticket
from harness_nb.jupyter.defaults import defaults
from harness_nb.jupyter.session import Session
from harness_nb.jupyter.words import one_line, visible
from harness_nb.safety.grants import Judgement, canonical
from harness_nb.safety.permission import MODES, built_in
from harness_nb.safety.rulefile import NAME, permissions
from harness_nb.safety.rules import rules

NET = (
    "What is denied of commands is a net, not a wall: other code that may run, in Python say, can do the same, "
    "and a command that goes through whole folders, such as `grep -r`, meets what is denied below them."
)
"""What holds of every rule that denies commands or paths."""

LAST = 20
"""Most calls that are told of."""

SHOWN = 100
"""Most characters of each."""


def permissions_told(session: Session) -> str:
    """Say in plain text what may run in this session, and why its calls did or did not. Raises UsageError."""
    file = permissions()
    chosen = ((session.mode, "this session"), (defaults.mode, "%config"), (file.mode, NAME))
    mode, source = next(((mode, f" ({source})") for mode, source in chosen if mode), ("ask", ""))
    lines = [f"Mode `{mode}`{source}. {MODES[mode]}"]
    known = (
        *built_in(mode),
        *file.rules,
        *rules(defaults.rules, "%config"),
        *rules(session.rules, "this session"),
    )
    told = [f"  {visible(f'{rule}   ({rule.source})')}" for rule in known]
    lines += ["", "Rules:", *told] if told else ["There are no rules."]
    if any(rule.answer == "deny" and rule.pattern for rule in known):
        lines.append(NET)
    held = session.approvals
    if held.granted:
        lines += [
            "",
            "You allowed for this session:",
            *(f"  {visible(scope.text)}" for scope in held.granted),
        ]
    if session.pending:
        lines += ["", "Waiting for your decision (%agent approve, deny or edit):"]
        lines += [
            f"  {ticket(q.id)} {one_line(visible(f'{q.call.spec.name} {canonical(q.call.arguments)}'), SHOWN)}"
            for q in session.pending
        ]
    recent = list(held.history)[-LAST:]
    if recent:
        lines += ["", "The last call:" if len(recent) == 1 else f"The last {len(recent)} calls:"]
    for past in recent:
        lines += [f"  {one_line(visible(f'{past.tool} {past.arguments}'), SHOWN)}", f"    {_fate(past)}"]
    return "\n".join(lines)


def _fate(past: Judgement) -> str:
    """Say what became of a call, by whom, and why it was so."""
    reason, how = visible(past.reason), "Allowed" if past.allowed else "Denied"
    match past.by:
        case "you" if past.allowed:
            how += f" by you for this session: {visible(past.scope)}" if past.scope else " by you, once"
        case "you":
            how, reason = f"{how} by you{f': {reason}' if reason else ''}", ""
        case "granted":
            how += f", as you allowed for this session: {visible(past.scope)}"
        case "interrupted":
            how = "Stopped before it was decided"
        case "superseded":
            how = "Not decided, since a new prompt came instead"
        case "refused before":
            how += ", as it was refused before"
    return f"{how.removesuffix('.')}. {visible(past.why)} {reason}".rstrip()
