"""A text file as bytes and as a model reads it, so that an edit of the one changes only its part of the other.

A model sees every line end as a newline and no byte order mark. Positions in that text are mapped back to
the file's own characters, bytes that are no text included, and whatever is outside an edit stays as it was.
"""

from __future__ import annotations

import bisect
import codecs
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from harness_nb.errors import ToolError

ENDS = re.compile(r"\r\n|\r|\n")

STRAY = re.compile("[\udc80-\udcff]")
"""A byte that is no text, as it is kept among the characters."""

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}

HANDLING = {"utf-8": "surrogateescape"}
"""How bytes that are no text come out, and go back as they were."""


@dataclass(frozen=True, slots=True)
class Splice:
    """An edit: from `start` to `end` of a document's text there is `new` instead."""

    start: int
    end: int
    new: str

    def trimmed(self, text: str) -> Splice:
        """Leave out what is the same at both ends."""
        old, new = text[self.start : self.end], self.new
        head = _common(min(len(old), len(new)), lambda start, end: old[start:end] == new[start:end])
        rest = min(len(old), len(new)) - head
        ends = len(old), len(new)
        tail = _common(
            rest,
            lambda start, end: old[ends[0] - end : ends[0] - start] == new[ends[1] - end : ends[1] - start],
        )
        return Splice(self.start + head, self.end - tail, new[head : len(new) - tail])


@dataclass(frozen=True)
class Document:
    """The text of a file: its mark, its encoding, and its characters with their own line ends."""

    mark: bytes
    encoding: str
    raw: str

    @classmethod
    def read(cls, data: bytes) -> Document:
        """Read a file's bytes. Raises ToolError for what is not text, or can't be put back as it was."""
        mark = next((known for known in MARKS if data.startswith(known)), b"")
        encoding = MARKS.get(mark, "utf-8")
        if is_binary(data):
            raise ToolError("it is not a text file")
        try:
            raw = data[len(mark) :].decode(encoding, HANDLING.get(encoding, "strict"))
        except UnicodeDecodeError:
            raise ToolError("it holds bytes that are no text, which an edit could damage") from None
        return cls(mark, encoding, raw)

    @cached_property
    def text(self) -> str:
        """What a model reads."""
        return plain(self.raw)

    @cached_property
    def lines(self) -> list[str]:
        """The text's lines, with their ends."""
        return io.StringIO(self.text, newline="\n").readlines()

    def edited(self, splice: Splice) -> bytes:
        """Give the file's bytes after an edit. Raises ToolError where its text can't be written in this file."""
        start, end = self._raw(splice.start), self._raw(splice.end)
        new = splice.new.replace("\n", self._end_near(start))
        self._check(new)
        after = Document(self.mark, self.encoding, self.raw[:start] + new + self.raw[end:])
        if after.text != self.text[: splice.start] + splice.new + self.text[splice.end :]:
            raise ToolError("its line ends are mixed just there; edit whole lines instead")
        return after.data

    @property
    def data(self) -> bytes:
        """The file's bytes."""
        return self.mark + self.raw.encode(self.encoding, HANDLING.get(self.encoding, "strict"))

    @cached_property
    def _pairs(self) -> list[int]:
        """Where in the text a line end is two characters of the file."""
        return [found.start() - n for n, found in enumerate(re.finditer(r"\r\n", self.raw))]

    def _raw(self, offset: int) -> int:
        return offset + bisect.bisect_left(self._pairs, offset)

    def _end_near(self, start: int) -> str:
        """The line end in use before this place, else after it."""
        before = max(self.raw.rfind("\n", 0, start), self.raw.rfind("\r", 0, start))
        if before < 0:
            found = ENDS.search(self.raw)
            return found[0] if found else "\n"
        return "\r\n" if self.raw[max(before - 1, 0) : before + 1] == "\r\n" else self.raw[before]

    def _check(self, new: str) -> None:
        if "\0" in new:
            raise ToolError("the new text holds a NUL, which no text file does")
        try:
            new.encode(self.encoding)
        except UnicodeEncodeError:
            raise ToolError("the new text holds half a character (a lone surrogate)") from None
        if not new.isascii() and STRAY.search(self.raw):
            raise ToolError("it is not UTF-8, so only ASCII can be written into it")


def _common(most: int, same: Callable[[int, int], bool]) -> int:
    """Find how far two texts are the same, by halves: a loop over characters would take seconds for a large file."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if same(least, middle):
            least = middle
        else:
            most = middle - 1
    return least


def plain(text: str) -> str:
    """Make every line end a newline."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_binary(start: bytes) -> bool:
    """Tell from a file's first bytes whether it is something else than text."""
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return True
    return not start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in start[:8_192]
