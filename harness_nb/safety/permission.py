"""What a call may do: a policy is a plain function of a call that says allow, ask or deny, and why. Book chapter 14."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness_nb.seams import Call

Ruling = Literal["allow", "ask", "deny"]
"""What a rule or a policy says of a call."""

Mode = Literal["ask", "edits", "plan", "auto"]
"""What holds where no rule does: see MODES."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a policy says of one call. `rule` is what decided, as written; `why` is one sentence that names it."""

    answer: Ruling
    why: str
    rule: str


Policy: TypeAlias = Callable[[Call], Verdict]
"""Judges a call without running anything. It must be quick, and may raise nothing."""
