"""What `%agent permissions` tells: the mode, the rules, what a person has allowed, and what became of the calls."""

from __future__ import annotations

from harness_nb.jupyter.session import Session, defaults
from harness_nb.jupyter.words import counted, one_line, visible
from harness_nb.safety.permission import MODES
from harness_nb.safety.rulefile import NAME, permissions

LAST = 20
"""Most calls that are told of."""

SHOWN = 100
"""Most characters of each."""


def permissions_told(session: Session) -> str:
    """Say in plain text what may run in this session, and why its calls did or did not. Raises UsageError."""
    file = permissions()
    mode = session.mode or defaults.mode or file.mode or "ask"
    lines = [f"Mode `{mode}`. {MODES[mode]}"]
    rules = [*(f"{rule}   ({NAME})" for rule in file.rules), *defaults.rules, *session.rules]
    lines += ["", "Rules:", *(f"  {rule}" for rule in rules)] if rules else ["There are no rules."]
    held = session.approvals
    if held.granted:
        lines += [
            "",
            "You allowed for this session:",
            *(f"  {visible(scope.text)}" for scope in held.granted),
        ]
    recent = list(held.history)[-LAST:]
    if recent:
        lines += ["", f"The last {counted(len(recent), 'call')}:"]
    for past in recent:
        fate = "allowed" if past.allowed else "denied"
        call = one_line(visible(f"{past.tool} {past.arguments}"), SHOWN)
        said = f" {visible(past.reason)}" if past.reason else ""
        lines.append(f"  {fate} by {past.by}: {call}\n    {visible(past.why)}{said}")
    return "\n".join(lines)
