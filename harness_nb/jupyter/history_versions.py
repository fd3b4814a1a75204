"""The earlier versions of a cell that was run again: what its record keeps of them, as HTML, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from harness_nb.jupyter.folds import FAINT, ROW, fold, labelled
from harness_nb.jupyter.words import counted, named, one_line

TOLD = 3
"""Earlier versions that a record tells of, the newest."""
PROMPT, ANSWER, LINE = 600, 1_500, 90
"""Most characters of a prompt, an answer and a prompt's line."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """One earlier version: which, the number of its run in `%history`, what was asked, answered, and how it ended.

    The words of others are made visible already.
    """

    version: int
    run: int
    prompt: str
    answer: str
    ended: str

    @property
    def line(self) -> str:
        """All that one line has room for, before the prompt."""
        return f"Version {self.version} of this cell · run {self.run} · {self.ended}"


@dataclass(frozen=True, slots=True)
class Versions:
    """Which version of its cell a run is, and those before it, newest first."""

    version: int = 1
    earlier: Sequence[Earlier] = ()

    @property
    def words(self) -> str:
        """What the run's header says."""
        return f"version {self.version} of {self.version}" if self.earlier else ""


def versions_as_html(found: Versions) -> str:
    """Draw one fold for each, the newest first."""
    told = [_as_html(one) for one in found.earlier[:TOLD]]
    return "".join([*told, *_rest(found, _faint)])


def _faint(words: str) -> str:
    return f'<div style="{ROW};{FAINT}">{named(words)}</div>'


def _as_html(one: Earlier) -> str:
    line = f'<span style="{FAINT}">{escape(one.line)} ·</span> {escape(one_line(one.prompt, LINE))}'
    inside = labelled("Its prompt", one.prompt, PROMPT) + labelled("Its answer", one.answer, ANSWER)
    return fold(line, inside)


def versions_as_lines(found: Versions, written: Callable[[str], str]) -> list[str]:
    """Write a line for each; `written` makes text fit where it goes."""
    lines = [
        written(f"{one.line} · {one_line(one.prompt, LINE)} → {one_line(one.answer, LINE) or 'no answer'}")
        for one in found.earlier[:TOLD]
    ]
    return [*lines, *_rest(found, written)]


def _rest(found: Versions, written: Callable[[str], str]) -> Iterator[str]:
    if (more := len(found.earlier) - TOLD) > 0:
        yield written(f"{counted(more, 'earlier version')} more: `%history`.")
