"""The pieces of a run as a person sees them: words, calls of tools, and what the harness says and decides. view.py folds events into them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from harness_nb.agent import NEVER_RAN, interrupted_text
from harness_nb.jupyter.asking import Asking
from harness_nb.jupyter.decision_card import DecisionCard
from harness_nb.jupyter.words import arguments, counted, one_line, size, took, visible, weight
from harness_nb.messages import Image, ToolCall, ToolResult

RESULT = 60
"""Longest one-line result (characters) that is shown in a call's own line."""

NoteKind = Literal["notice", "progress", "wait", "switch", "restart", "decision", "nudge", "prompt"]
CallState = Literal[
    "writing", "waiting", "asking", "running", "ok", "failed", "denied", "not run", "interrupted"
]


@dataclass(slots=True)
class Words:
    """Something the model said, or thought."""

    kind: Literal["text", "thinking"]
    began: float | None
    """When, in the view's seconds; None where nobody took the time."""
    ended: float | None = None
    tokens: int = 0
    """Tokens of thinking, where the provider reported them."""
    _pieces: list[str] = field(default_factory=list)

    def add(self, piece: str) -> None:
        """Append a piece."""
        self._pieces.append(piece)

    @property
    def text(self) -> str:
        """All of it so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @property
    def aside(self) -> str:
        """How long it took and how much it is, once that is known."""
        if self.ended is None:
            return ""
        amount = counted(self.tokens, "token") if self.tokens else counted(len(self.text), "character")
        return amount if self.began is None else f"{took(self.ended - self.began)} · {amount}"


@dataclass(slots=True)
class ToolUse:
    """One call of a tool and, in the end, its result."""

    id: str
    name: str
    state: CallState = "writing"
    seconds: float = 0.0
    waited: float = 0.0
    """How much of its time went by while a person was asked."""
    output: str = ""
    pictures: tuple[Image, ...] = ()
    asking: Asking | None = None
    """What a person was asked about it, if they were."""
    _pieces: list[str] = field(default_factory=list)

    def add(self, piece: str) -> None:
        """Append a piece of the argument text."""
        self._pieces.append(piece)

    @property
    def raw(self) -> str:
        """The argument text so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @raw.setter
    def raw(self, text: str) -> None:
        self._pieces = [text]

    @property
    def arguments(self) -> str:
        """The arguments on one line, as they are run; empty while they are still being written."""
        return "" if self.state == "writing" else arguments(self.edited or self.raw)

    @property
    def outcome(self) -> str:
        """What came of it: a short result as it stands, else its size; why, if it failed."""
        if self.state == "ok":
            return self._result()
        if self.state == "denied":
            return ""
        said = "" if self.state == "not run" and self.output == NEVER_RAN else self.output
        if self.state in {"failed", "not run"} and said:
            why = said.removeprefix(f"`{self.name}` failed: ").removeprefix(f"`{self.name}` was not run: ")
            return f"{self.state}: {one_line(visible(why), 2 * RESULT)}"
        return self.state

    @property
    def aside(self) -> str:
        """How long it took, if that is long enough to care."""
        return took(self.seconds) if self.seconds >= 0.95 else ""

    def _result(self) -> str:
        kinds = (f"{counted(1, 'picture')}, {weight(len(p.data))}" for p in self.pictures)
        text = visible(self.output.strip())
        if not text:
            return ", ".join(kinds) or "ok"
        return ", ".join(["ok, " + size(text) if "\n" in text or len(text) > RESULT else f"→ {text}", *kinds])

    def finish(self, call: ToolCall, result: ToolResult, seconds: float) -> None:
        """Take the call's result."""
        if self.state != "denied":
            self.state = _end_of_call(result, seconds, ran=self.state == "running")
        self.raw = call.raw
        self.seconds = max(0.0, seconds - self.waited)
        self.output = result.text
        self.pictures = tuple(part for part in result.content if isinstance(part, Image))

    @property
    def busy(self) -> bool:
        """Whether it has no result yet."""
        return self.state in {"writing", "waiting", "asking", "running"}

    @property
    def decision(self) -> str:
        """What a person, or nobody, decided about it; empty if nothing was asked."""
        return self.asking.decision if self.asking is not None else ""

    @property
    def edited(self) -> str:
        """The argument text as a person changed it; empty if they did not."""
        return self.asking.decided.edited if self.asking is not None and self.asking.decided else ""

    @property
    def told(self) -> bool:
        """Whether the one line already says all of the result."""
        return self.outcome.startswith("→")

    @property
    def upshot(self) -> str:
        """What came of it and how long it took, to follow the call: `→ 3` or `— ok, 42 lines, 1.1 kB · 2.1 s`."""
        outcome = self.outcome if self.told else f"— {self.outcome}"
        if self.state == "asking":
            outcome = "— waits for you"
        elif decision := self.decision:
            known = self.outcome not in {"", "waiting"}
            outcome = f"— {decision}{' ' if self.told else ', '}{self.outcome}" if known else f"— {decision}"
        return f"{outcome} · {self.aside}" if self.aside else outcome

    @property
    def line(self) -> str:
        """The call and its upshot: `add a=1, b=2 → 3`."""
        return " ".join(part for part in (visible(self.name), self.arguments, self.upshot) if part)


@dataclass(slots=True)
class Note:
    """One sentence that the harness says about the run; `share` is how much of something long is done."""

    kind: NoteKind
    text: str
    share: float | None = None


Segment: TypeAlias = Words | ToolUse | Note | DecisionCard


def _end_of_call(result: ToolResult, seconds: float, *, ran: bool) -> CallState:
    if not result.is_error:
        return "ok"
    if not ran:
        return "not run"
    return "interrupted" if result.text.startswith(interrupted_text(seconds)) else "failed"
