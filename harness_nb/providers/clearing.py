"""What Claude's API clears on its own side: asked for by `Clearing`, put on record as it is reported. Used by anthropic.py. Book chapter 8.

    Anthropic("claude-sonnet-5-5", clearing=Clearing(trigger=120_000))
    run.state[Clearing] = Clearing(trigger=120_000)                         # for one run

The whole conversation still goes out with each request. The API leaves old tool results out of what the model sees,
and says how many: no thinking becomes useless, as it does when we change the past ourselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness_nb.errors import UsageError
from harness_nb.messages import Decision
from harness_nb.providers.spelling import token
from harness_nb.seams import Run

BETA = "context-management-2025-06-27"
"""The beta that has to be asked for."""

BY = "provider"
"""Who decides, in the record."""


@dataclass(frozen=True, slots=True)
class Clearing:
    """From how many input tokens on old tool results are cleared, and how far. Raises UsageError for numbers that can't be."""

    trigger: int = 100_000
    """Input tokens of a request from which on the API clears."""
    keep: int = 3
    """Newest tool calls whose results stay."""
    least: int = 0
    """Fewest tokens worth a break of the prompt cache; 0 for any number."""
    exclude: tuple[str, ...] = ()
    """Tools whose results stay."""
    thoughts: int | None = None
    """Newest turns whose thinking stays, where the model thinks; None leaves it to the API."""

    def __post_init__(self) -> None:
        """Refuse what the API would refuse, before it is asked."""
        if (
            self.trigger < 1
            or self.keep < 0
            or self.least < 0
            or (self.thoughts is not None and self.thoughts < 1)
        ):
            raise UsageError(
                "Clearing takes a trigger and thoughts of 1 or more, and keep and least of 0 or more: "
                f"this is {self}."
            )

    def wanted(self, *, thinks: bool) -> dict[str, object]:
        """Write the field that asks for it."""
        edits: list[dict[str, object]] = []
        if thinks and self.thoughts is not None:  # the API wants it to come first
            kept = {"type": "thinking_turns", "value": self.thoughts}
            edits.append({"type": "clear_thinking_20251015", "keep": kept})
        results: dict[str, object] = {
            "type": "clear_tool_uses_20250919",
            "trigger": {"type": "input_tokens", "value": self.trigger},
            "keep": {"type": "tool_uses", "value": self.keep},
        }
        if self.least:
            results["clear_at_least"] = {"type": "input_tokens", "value": self.least}
        if self.exclude:
            results["exclude_tools"] = [token(name) for name in self.exclude]
        return {"context_management": {"edits": [*edits, results]}}


@dataclass(frozen=True, slots=True)
class Cleared:
    """What one answer says was cleared from its request."""

    tokens: int = 0
    results: int = 0
    thoughts: int = 0

    @classmethod
    def read(cls, management: object) -> Cleared | None:
        """Read the `context_management` of an answer; None where there is none."""
        edits = management.get("applied_edits") if isinstance(management, dict) else None
        if not isinstance(edits, list):
            return None
        found = [edit for edit in edits if isinstance(edit, dict)]
        keys = ("cleared_input_tokens", "cleared_tool_uses", "cleared_thinking_turns")
        return cls(*(sum(_counts(edit.get(key) for edit in found)) for key in keys))

    def tell(self, run: Run, sent: int) -> None:
        """Put it on record, unless the last such decision said the same; `sent` is the tokens that were left."""
        if not self.tokens:
            return
        last = next((d for d in reversed(run.transcript.standing()) if d.by == BY), None)
        if last is None or last.before - last.after != self.tokens:
            run.append(Decision(BY, self._words(), before=sent + self.tokens, after=sent))

    def _words(self) -> str:
        what = [_counted(self.results, "old tool result"), _counted(self.thoughts, "turn's thinking")]
        cleared = " and ".join(words for words in what if words) or "part of the conversation"
        return f"The provider cleared {cleared} from what the model sees, {self.tokens:,} tokens."


def _counts(values: Iterable[object]) -> list[int]:
    return [value for value in values if isinstance(value, int) and value > 0]


def _counted(number: int, what: str) -> str:
    if not number:
        return ""
    many = what.replace("turn's", "turns'") if "'" in what else f"{what}s"
    return f"1 {what}" if number == 1 else f"{number:,} {many}"
