"""The four ways to change a text, each a value that finds its own place in a document or says why it can't.

Their fields are the parameters of the tools in `edits.py`. None of them touches a file: `desk.py` works out what
one would do, and does it.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from harness_nb.errors import ToolError
from harness_nb.toolkit.document import Document, Splice, plain

SHOWN = 160
"""Most characters quoted of a line in an error."""

COMPARED = 5_000
"""Most lines looked through for one that resembles a text that was not found."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Put `new` in the place of `old`, which must be there exactly once."""

    old: str
    new: str

    blind: ClassVar[bool] = True
    """Whether it makes sense in a file that was not read before."""
    creates: ClassVar[bool] = False
    """Whether it makes a file that is missing."""

    def find(self, document: Document) -> Splice:
        """Find the place. Raises ToolError for no match, for several, and where nothing would change."""
        old, new, text = plain(self.old), plain(self.new), document.text
        if not old:
            raise ToolError("`old` is empty: quote the text to replace, or use append_file or edit_lines")
        if old == new:
            raise ToolError("`old` and `new` are the same, so nothing would change")
        starts = list(itertools.islice(_starts(text, old), 6))
        if not starts:
            raise ToolError(f"`old` was not found in it. {_near(document, old)}")
        if len(starts) > 1:
            lines = dict.fromkeys(str(text.count("\n", 0, start) + 1) for start in starts[:5])
            more = " and more" if len(starts) > 5 else ""
            raise ToolError(
                f"`old` is there more than once (lines {', '.join(lines)}{more}). "
                "Quote more of what is around the place, or use edit_lines"
            )
        return Splice(starts[0], starts[0] + len(old), new)


@dataclass(frozen=True, slots=True)
class Lines:
    """Put `text` in the place of the lines `start_line` to `end_line`, counted from 1; `end_line = start_line - 1` inserts."""

    start_line: int
    end_line: int
    text: str

    blind: ClassVar[bool] = False
    creates: ClassVar[bool] = False

    def find(self, document: Document) -> Splice:
        """Find the place. Raises ToolError for lines that there are not."""
        lines, count = document.lines, len(document.lines)
        if not (1 <= self.start_line <= count + 1 and self.start_line - 1 <= self.end_line <= count):
            raise ToolError(
                f"it has {count:,} lines: give a start_line from 1 to {count + 1}, and an end_line from start_line - 1 "
                f"(to insert before start_line) to {count}"
            )
        new = plain(self.text)
        if new and not new.endswith("\n"):
            new += "\n"
        start = sum(map(len, lines[: self.start_line - 1]))
        end = start + sum(map(len, lines[self.start_line - 1 : self.end_line]))
        if (
            self.end_line == count and lines and not lines[-1].endswith("\n")
        ):  # a missing final newline stays missing
            new = new.removesuffix("\n")
            if new and self.start_line > count:
                new = f"\n{new}"
        return Splice(start, end, new)


@dataclass(frozen=True, slots=True)
class Whole:
    """Make `text` all that a file holds."""

    text: str

    blind: ClassVar[bool] = False
    creates: ClassVar[bool] = True

    def find(self, document: Document) -> Splice:
        """Take everything."""
        return Splice(0, len(document.text), plain(self.text))


@dataclass(frozen=True, slots=True)
class Added:
    """Put `text` at the end, on a line of its own."""

    text: str

    blind: ClassVar[bool] = True
    creates: ClassVar[bool] = True

    def find(self, document: Document) -> Splice:
        """Find the end."""
        glue = "\n" if self.text and document.text and not document.text.endswith("\n") else ""
        return Splice(len(document.text), len(document.text), glue + plain(self.text))


Change: TypeAlias = Exact | Lines | Whole | Added


def _starts(text: str, wanted: str) -> Iterator[int]:
    start = text.find(wanted)
    while start >= 0:
        yield start
        start = text.find(wanted, start + 1)  # one that overlaps is a second place, too


def _near(document: Document, old: str) -> str:
    """Say what is there instead: the same but for blanks, or the line most like the first."""
    wanted = [line.strip() for line in old.strip().splitlines() if line.strip()]
    if not wanted:
        return "It is blank: quote a line with something on it"
    if all(re.match(r"\d+: ", line) for line in wanted):
        return "Leave out the line numbers that read_file puts before the lines"
    lines = [line.strip() for line in document.lines[:COMPARED]]
    for n in range(len(lines)):
        if (
            lines[n] == wanted[0]
            and [line for line in lines[n : n + 2 * len(wanted)] if line][: len(wanted)] == wanted
        ):
            return f"It is there with other blanks or line breaks, from line {n + 1}: read it again and quote it exactly"
    near = difflib.get_close_matches(wanted[0][:SHOWN], [line[:SHOWN] for line in lines], n=1, cutoff=0.7)
    if not near:
        return "Read the file again and quote it exactly"
    number = next(n for n, line in enumerate(lines, 1) if line[:SHOWN] == near[0])
    return f"The line most like its first is line {number}: `{near[0]}`. Read it again and quote it exactly"
