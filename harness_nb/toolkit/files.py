"""Looking at files: a tool that shows a window of lines, inside one workspace, and changes nothing. Book chapters 4 and 11.

A model gets numbered lines and a footer that says where it is and how to go on, so that a file of
any size costs only what is looked at.
"""

from __future__ import annotations

import codecs
import difflib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TextIO

from harness_nb.errors import ToolError
from harness_nb.tools import Tool, tool

LINES = 100
"""Lines shown unless asked otherwise."""

MOST_LINES = 500

WIDTH = 500
"""Most characters shown of one line."""

ROOM = 15_000
"""Most characters shown at once; below what a result may hold, so that the footer is never cut off."""

COUNTED = 64_000_000
"""Size in bytes up to which all lines of a file are counted."""

NAMES = 50
"""Most names listed of a directory."""

DESCRIPTION = f"""Show part of a text file in the workspace, with line numbers.

Needs the path of a file that exists, relative to the workspace; give a directory to see its names. Does not
open pictures or other binary files, or anything outside the workspace. Changes nothing. Returns lines as
`12: text` (at most {WIDTH} characters of each), then a footer with the range, the number of lines, and the offset to go
on from. Prefer it to shell commands such as cat, head and sed."""


def files(workspace: str | Path | None = None) -> tuple[Tool, ...]:
    """Make the file tools of a workspace; None is the current directory at the time of each call."""

    def read_file(
        path: Annotated[str, "relative to the workspace"],
        offset: Annotated[int, "how many lines to skip"] = 0,
        limit: Annotated[int, f"how many lines to show, 1 to {MOST_LINES}"] = LINES,
    ) -> str:
        place = located(Path(workspace or "."), path)
        return window(place, max(offset, 0), min(max(limit, 1), MOST_LINES))

    return (tool(effects={"read"}, description=DESCRIPTION)(read_file),)


@dataclass(frozen=True, slots=True)
class Place:
    """A path in a workspace: where it really is, links followed, and how to speak of it."""

    real: Path
    name: str


def located(workspace: Path, path: str) -> Place:
    """Find a path in the workspace. Raises ToolError for one that leads out of it, through links too."""
    if not path.strip() or "\0" in path:
        raise ToolError("Give the path of a file, relative to the workspace.")
    if path.startswith("~"):
        raise ToolError("`~` is not expanded; give a path relative to the workspace.")
    try:
        root = workspace.resolve(strict=True)
        real = (root / path).resolve()
    except (OSError, RuntimeError) as fault:  # a circle of links, a name too long, no workspace
        raise ToolError(f"`{path}` can't be looked up: {_reason(fault)}.") from None
    if not real.is_relative_to(root):
        raise ToolError(f"`{path}` is outside the workspace; only files inside it can be used.")
    return Place(real, str(real.relative_to(root)))


def window(place: Place, offset: int, limit: int) -> str:
    """Show `limit` lines of a text file after the first `offset`. Raises ToolError where there are none to show."""
    try:
        with _opened(place) as stream:
            lines = _lines(stream)
            skipped = sum(1 for _ in itertools.islice(lines, offset))
            shown = _fitting(lines, skipped + 1, limit)
            last = skipped + len(shown)
            small = place.real.stat().st_size <= COUNTED
            more = sum(1 for _ in (lines if small else itertools.islice(lines, 1)))
    except OSError as fault:
        raise ToolError(f"`{place.name}` can't be read: {_reason(fault)}.") from None
    if not last:
        return f"[{place.name}: empty file]"
    if not shown:
        raise ToolError(f"`{place.name}` has {last:,} lines: give an offset from 0 to {last - 1}.")
    total = f"{last + more:,}" if small or not more else "many"
    footer = f"{place.name}: lines {skipped + 1:,}-{last:,} of {total}"
    if more:
        footer += f"; to go on, read_file(path={json.dumps(place.name, ensure_ascii=False)}, offset={last})"
    else:
        footer += "; end of file"
    odd = any("\N{REPLACEMENT CHARACTER}" in line for line in shown)
    note = "; \N{REPLACEMENT CHARACTER} stands for bytes that are not text" if odd else ""
    return "\n".join(shown) + f"\n[{footer}{note}]"


def _fitting(lines: Iterator[str], first: int, limit: int) -> list[str]:
    """Number lines until there are `limit` or no more room; at least one."""
    shown: list[str] = []
    room = ROOM
    for number, line in enumerate(itertools.islice(lines, limit), first):
        shown.append(f"{number}: {line}")
        room -= len(shown[-1]) + 1
        if room < WIDTH + 40:  # the next line might not fit
            break
    return shown


def _lines(stream: TextIO) -> Iterator[str]:
    """Give the lines without their ends, shortened to WIDTH and never held whole."""
    while piece := stream.readline(WIDTH + 1):
        line, left = piece, 0
        while not piece.endswith("\n") and (piece := stream.readline(65_536)):
            left += len(piece) - piece.endswith("\n")
        line = line.removesuffix("\n")
        left += max(len(line) - WIDTH, 0)
        yield line[:WIDTH] + (f" [+{left:,} characters]" if left else "")


def _opened(place: Place) -> TextIO:
    """Open a text file in the encoding that its first bytes tell. Raises ToolError for what is none."""
    if place.real.is_dir():
        raise ToolError(f"`{place.name}` is a directory. It {_listing(place.real)}")
    if not place.real.exists():
        raise ToolError(f"There is no `{place.name}`. {_nearest(place)}".strip())
    if not place.real.is_file():
        raise ToolError(f"`{place.name}` is a device or a pipe, not a file.")
    with place.real.open("rb") as raw:
        start = raw.read(8_192)
    encoding = _encoding(start)
    if encoding == "utf-8" and b"\0" in start:
        raise ToolError(f"`{place.name}` is not a text file ({place.real.stat().st_size:,} bytes).")
    return place.real.open(encoding=encoding, errors="replace")


def _encoding(start: bytes) -> str:
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    return "utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"


def _listing(directory: Path) -> str:
    try:
        names = sorted(f"{item.name}/" if item.is_dir() else item.name for item in directory.iterdir())
    except OSError as fault:
        return f"can't be listed: {_reason(fault)}."
    shown = ", ".join(f"`{name}`" for name in names[:NAMES])
    more = f" and {len(names) - NAMES:,} more" if len(names) > NAMES else ""
    return f"holds {shown}{more}." if names else "is empty."


def _nearest(place: Place) -> str:
    """Say what is there instead: the nearest name, or what the deepest directory on the way holds."""
    root = place.real.parents[len(Path(place.name).parts) - 1]
    there = next(above for above in place.real.parents if above.exists())
    shown = there.relative_to(root)
    if not there.is_dir():
        return f"Did you mean `{shown}`?"
    missing = place.real.relative_to(there).parts[0]
    near = difflib.get_close_matches(missing, [item.name for item in there.iterdir()], n=1)
    return f"Did you mean `{shown / near[0]}`?" if near else f"The directory `{shown}` {_listing(there)}"


def _reason(fault: BaseException) -> str:
    return str(getattr(fault, "strerror", None) or "its links go round in a circle").lower()


(read_file,) = files()
