"""A decision about the context as a person sees it: why, before and after, what became of each message, and how to take it back.

view.py makes one of each decision that changes what the model sees; every view draws it from the words here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness_nb.context.fates import Fate
from harness_nb.context.mask import MARK
from harness_nb.events import Fill
from harness_nb.jupyter.gauge import full
from harness_nb.jupyter.words import counted, one_line, tokens, visible
from harness_nb.messages import Decision, Summary

WHAT = 100
"""Most characters of a message's description."""

CardState: TypeAlias = Literal["asking", "taken", "undone", "declined"]

UNTOUCHED = ("pinned", "kept")


@dataclass(frozen=True, slots=True)
class Effect:
    """What a decision does: each message's fate, how the window is filled before and after, and its number in the record."""

    fates: tuple[Fate, ...] = ()
    before: Fill | None = None
    after: Fill | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a message that changed, by its number, or all that did not, without number and id."""

    number: str
    what: str
    fate: str
    before: int
    after: int
    id: str = ""


@dataclass(slots=True)
class DecisionCard:
    """One decision, asked about or taken."""

    decision: Decision
    effect: Effect
    state: CardState = "taken"

    @property
    def headline(self) -> str:
        """Why it was taken, in one sentence with numbers; what is asked while it isn't taken yet."""
        match self.state:
            case "asking":
                return self.question
            case "declined":
                return f"{self.question} You said no: the context stays as it was."
            case "undone":
                return f"{visible(self.decision.why)} You took this back."
            case _:
                return visible(self.decision.why)

    @property
    def question(self) -> str:
        """The decision as a question."""
        number = counted(len(self.decision.changes), "message")
        match self.decision.by:
            case "mask":
                new = (r for shown in self.decision.changes.values() for m in shown for r in m.results)
                old = sum(result.text.startswith(MARK) for result in new) or len(self.decision.changes)
                return f"Mask {'an old tool result' if old == 1 else f'{old:,} old tool results'}?"
            case "compact":
                return f"Put a summary in the place of {number}?"
            case _:
                return f"Change how the model sees {number}?"

    @property
    def because(self) -> str:
        """Why it is asked, and that nothing has happened."""
        cause = visible(self.decision.why).partition(", so ")[0].rstrip(".")
        return " ".join(part for part in (f"{cause}.", self.numbers, "Nothing has changed yet.") if part)

    @property
    def numbers(self) -> str:
        """The tokens before and after: `6,714 → 3,105 tokens.`; empty where nobody counted."""
        before, after = self.decision.before, self.decision.after
        return f"{before:,} → {counted(after, 'token')}." if before and after else ""

    @property
    def keeps(self) -> str:
        """What is not lost, and what it cost."""
        by, cost = self.decision.by, tokens(self.decision.usage)
        again = " and the model is told how to see each result again" if by == "mask" else ""
        spent = f" The summary cost {cost}." if cost else ""
        return f"The record keeps all of it{again}.{spent}"

    @property
    def bars(self) -> Iterator[tuple[str, str, Fill]]:
        """Yield before and after, each with how full the window is in words; nothing where that wasn't counted."""
        if self.effect.before is not None and self.effect.after is not None:
            yield "before", _amount(self.effect.before), self.effect.before
            yield "after", _amount(self.effect.after), self.effect.after

    @property
    def rows(self) -> list[Row]:
        """What became of each message, in order; those that stay as they are share a line at the end."""
        return list(_rows(self.effect.fates))

    @property
    def summary(self) -> str:
        """The summary that the model reads from now on; empty if there is none."""
        new = (message for shown in self.decision.changes.values() for message in shown)
        return visible("\n\n".join(p.text for m in new for p in m.parts if isinstance(p, Summary)))

    def commands(self, at: str) -> str:
        """How it is taken back from a cell; `at` is how the session's agent is spoken to. Empty if that is no use."""
        if self.state != "taken" or not self.effect.number:
            return ""
        context = at.replace("%agent", "%context", 1)
        return f"To take it back: `{context} undo {self.effect.number}`. To keep a message word for word: `{context} pin N`."


def bounded_rows(rows: Sequence[Row], most: int) -> tuple[Sequence[Row], str]:
    """Return the first rows, and a sentence on the rest; empty if there is none."""
    if len(rows) <= most:
        return rows, ""
    return rows[:most], f"{counted(len(rows) - most, 'more line')} not shown; the record has them."


def _rows(fates: Sequence[Fate]) -> Iterator[Row]:
    for fate in fates:
        if fate.fate not in UNTOUCHED:
            what = one_line(visible(fate.what), WHAT)
            yield Row(str(fate.number), what, fate.fate, fate.before, fate.after, fate.id)
    for kind in UNTOUCHED:
        if sizes := [fate.before for fate in fates if fate.fate == kind]:
            yield Row("", f"{counted(len(sizes), 'message')} as before", kind, sum(sizes), sum(sizes))


def _amount(fill: Fill) -> str:
    return f"{full(fill)}, {counted(fill.total, 'token')}" if fill.window > 0 else full(fill)
