"""Texts cut into passages where their structure says: headings, functions, cells, paragraphs. Part of the search of book chapter 10.

Every passage is short enough for several to stand in one result, and knows where it came from. What has
no structure is cut into windows of lines that overlap, so that nothing is lost at a cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

ENOUGH = 900
"""Characters at which a passage made of small parts is closed."""

MOST = 1_300
"""Most characters of a passage: ten of them fit in one result."""

OVERLAP = 200
"""Characters that two windows share, at most."""

OUTPUT = 400
"""Characters kept of the text that a notebook's cell printed."""

DEEP = 6
"""Headings above one another that a passage names, at most."""

HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
DEFINED = re.compile(r"([ \t]*)(?:async[ \t]+def|def|class)[ \t]+(\w+)")
BEFORE = re.compile(r"[ \t]*[@#]")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage. `line` is its first line in the file, counted from 1, 0 where it has none."""

    source: str
    """A path, or nothing for the session's own messages."""
    part: str
    """Where in the source: `lines 3-9`, `cell 2`, `message 14`."""
    title: str
    """What it belongs to: headings, a function, who said it."""
    text: str
    line: int = 0
    fence: tuple[str, str] = ("", "")
    """What must stand round the text wherever it is shown: the marks of words from outside."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text: its first and last line, counted from 1."""

    first: int
    last: int
    title: str
    text: str


def of_file(path: str, text: str) -> tuple[Chunk, ...]:
    """Cut a file's text by what its name says it is. Raises ValueError for a notebook that is none."""
    kind = PurePosixPath(path).suffix.casefold()
    if kind == ".ipynb":
        return tuple(_notebook(path, text))
    cut = CUTTERS.get(kind, paragraphs)
    return tuple(
        Chunk(path, f"lines {piece.first}-{piece.last}", piece.title, piece.text, piece.first)
        for piece in cut(text)
    )


def markdown(text: str) -> Iterator[Piece]:
    """Cut at headings, except in fenced code; each passage is titled by the headings above it."""
    lines = text.split("\n")
    above: list[tuple[int, str]] = []
    fence = ""
    starts: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        if found := FENCE.match(line):
            if not fence:
                fence = found[1]
            elif found[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif not fence and (level := _level(line, lines[number + 1 : number + 2])):
            name = HEADING.fullmatch(line)
            above = [known for known in above if known[0] < level][: DEEP - 1]
            above.append((level, ((name[2] or "") if name else line).strip()))
            starts.append((number, " > ".join(words for _, words in above)))
    for (start, title), (end, _) in zip([(0, ""), *starts], [*starts, (len(lines), "")], strict=True):
        yield from _within(lines, start, end, title)


def _level(line: str, below: list[str]) -> int:
    """Tell the level of a heading, 0 for what is none."""
    if found := HEADING.fullmatch(line):
        return len(found[1])
    if below and line.strip() and not line.startswith((" ", "\t", "-", "=", ">", "|")):
        under = below[0].rstrip()
        return 1 if under and not under.strip("=") else 2 if len(under) > 2 and not under.strip("-") else 0
    return 0


def python(text: str) -> Iterator[Piece]:
    """Cut at functions and classes, a long class at its methods; decorators and comments go with what follows them.

    By lines, not by syntax trees: code that is broken, or for another Python, is cut as well.
    """
    lines = text.split("\n")
    yield from _defined(lines, 0, len(lines), "", indent=0)


def _defined(lines: list[str], start: int, end: int, title: str, indent: int) -> Iterator[Piece]:
    starts: list[tuple[int, str]] = []
    for number in range(start, end):
        found = DEFINED.match(lines[number])
        if found and len(found[1].expandtabs(4)) == indent:
            above = number
            while above > start and BEFORE.match(lines[above - 1]):
                above -= 1
            starts.append((above, f"{title}.{found[2]}" if title else found[2]))
    for (first, name), (last, _) in zip([(start, title), *starts], [*starts, (end, "")], strict=True):
        long = sum(map(len, lines[first:last])) + last - first > MOST
        deeper = indent + 4
        if long and name != title and any(_starts_at(line, deeper) for line in lines[first + 1 : last]):
            yield from _defined(lines, first, last, name, deeper)
        else:
            yield from _within(lines, first, last, name)


def _starts_at(line: str, indent: int) -> bool:
    found = DEFINED.match(line)
    return found is not None and len(found[1].expandtabs(4)) == indent


def paragraphs(text: str) -> Iterator[Piece]:
    """Cut at blank lines; short paragraphs stay together, a long one is cut into windows."""
    lines = text.split("\n")
    return _within(lines, 0, len(lines), "")


def _within(lines: list[str], start: int, end: int, title: str) -> Iterator[Piece]:
    """Cut the lines from `start` up to `end`."""
    while start < end and not lines[start].strip():
        start += 1
    while start < end and not lines[end - 1].strip():
        end -= 1
    if start == end:
        return
    whole = "\n".join(lines[start:end])
    if len(whole) <= MOST:
        yield Piece(start + 1, end, title, whole)
        return
    first, size = start, 0
    for block, stop in _blocks(lines, start, end):
        length = sum(map(len, lines[block:stop])) + stop - block
        if size and (size >= ENOUGH or size + length > MOST):
            yield from _windows(lines, first, block, title)
            first, size = block, 0
        size += length
    yield from _windows(lines, first, end, title)


def _blocks(lines: list[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Give the paragraphs, each with the blank lines after it."""
    first = start
    for number in range(start + 1, end):
        if lines[number].strip() and not lines[number - 1].strip():
            yield first, number
            first = number
    yield first, end


def _windows(lines: list[str], start: int, end: int, title: str) -> Iterator[Piece]:
    """Cut lines into windows of at most MOST characters, each beginning with the last few lines of the one before."""
    first = start
    while first < end:
        last, size = first, 0
        while last < end and size + len(lines[last]) <= MOST:
            size += len(lines[last]) + 1
            last += 1
        if last == first:
            yield from (Piece(first + 1, first + 1, title, part) for part in _slices(lines[first]))
            first += 1
            continue
        if text := "\n".join(lines[first:last]).strip("\n"):
            yield Piece(first + 1, last, title, text)
        if last == end:
            return
        back, shared = last, 0
        while back - 1 > first and shared + len(lines[back - 1]) < OVERLAP:
            back -= 1
            shared += len(lines[back]) + 1
        first = back if len(lines[last]) <= MOST - shared else last


def _slices(line: str) -> Iterator[str]:
    """Cut one long line."""
    for start in range(0, max(len(line) - OVERLAP, 1), MOST - OVERLAP):
        if part := line[start : start + MOST].strip():
            yield part


def _notebook(path: str, text: str) -> Iterator[Chunk]:
    for number, (kind, source, printed) in enumerate(_cells(text), 1):
        cut: Callable[[str], Iterable[Piece]] = markdown if kind == "markdown" else python
        pieces = [*cut(source)]
        if printed:
            pieces.append(Piece(0, 0, "output", printed))
        for piece in pieces:
            yield Chunk(path, f"cell {number}", piece.title, piece.text)


def _cells(text: str) -> Iterator[tuple[str, str, str]]:
    """Give each cell's kind, its source, and the beginning of what it printed."""
    try:
        data = json.loads(text)
        sheets = data.get("worksheets") or [data]  # the format up to version 3
        cells = [cell for sheet in sheets for cell in sheet["cells"]]
        for cell in cells:
            source = _joined(cell.get("source", cell.get("input", "")))
            printed = [_printed(output) for output in cell.get("outputs", ())]
            yield str(cell["cell_type"]), source, "\n".join(filter(None, printed))[:OUTPUT]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("it is no notebook") from None


def _printed(output: dict[str, object]) -> str:
    data = output.get("data")
    said = output.get("text", data.get("text/plain", "") if isinstance(data, dict) else "")
    return _joined(said).strip()


def _joined(source: object) -> str:
    return "".join(map(str, source)) if isinstance(source, list) else str(source)


def of_text(text: str, make: Chunk) -> Iterator[Chunk]:
    """Cut a text of no known kind into passages like `make`."""
    for piece in markdown(text):
        yield replace(make, text=piece.text)


CUTTERS: dict[str, Callable[[str], Iterator[Piece]]] = {
    ".md": markdown,
    ".markdown": markdown,
    ".rmd": markdown,
    ".qmd": markdown,
    ".py": python,
    ".pyi": python,
    ".pyw": python,
}
"""What cuts a file, by the end of its name; `paragraphs` where there is none."""
