"""How much of a small context window one result may take: a tool gate that lowers a tool's limit. Book chapter 8.

    Agent(model, box, gates=(portioned(account), spilled(outputs), ...))      # outermost

Where the window is large it changes nothing. In a small one a few long results would fill it, so that old ones had to
be masked every other turn, and each time the prompt cache would be lost. What is left out can be read on.
"""

from __future__ import annotations

from dataclasses import replace

from harness_nb.context.account import Account
from harness_nb.messages import ToolResult
from harness_nb.seams import Call, Gate, Proceed, Run

SHARE = 20
"""A result takes at most one part in this many of what can be used of the window."""

SMALLEST = 2_000
"""Characters that a result may always have."""

DENSE = 3
"""Characters of a token, at least, in what tools mostly give."""


def portion(account: Account) -> int | None:
    """Return the most characters of one result; None where the window is unknown."""
    usable = account.window.usable
    return max(SMALLEST, usable // SHARE * DENSE) if usable > 0 else None


def portioned(account: Account) -> Gate:
    """Make the gate. Put it outside of the one that keeps long outputs, which then has the smaller limit."""

    async def gate(call: Call, run: Run, proceed: Proceed[Call, ToolResult]) -> ToolResult:
        most = portion(account)
        if most is None or most >= call.spec.limit:
            return await proceed(call)
        return await proceed(replace(call, spec=replace(call.spec, limit=most)))

    return gate
