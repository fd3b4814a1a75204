"""Looking at files: a tool that shows a window of lines, inside one workspace, and changes nothing. Book chapters 4 and 11.

A model gets numbered lines and a footer that says where it is and how to go on, so that a file of
any size costs only what is looked at.
"""

from __future__ import annotations

import codecs
import difflib
import io
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, TextIO

from harness_nb.errors import ToolError
from harness_nb.toolkit.document import is_binary
from harness_nb.toolkit.search import Hidden, nothing, searching
from harness_nb.toolkit.seen import REMEMBERED, Seen
from harness_nb.tools import Tool, tool
from harness_nb.workspace import Place, Workspace, folder, opened, reason

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
    """Make the file reader of a workspace alone; None is the current directory at the time of each call.

    `looking` makes all tools that look and change nothing, `editing` (edits.py) those that change files, too.
    """
    return (_reader(Workspace(workspace), Seen()),)


def looking(
    workspace: str | Path | None = None, seen: Seen | None = None, hidden: Hidden = nothing
) -> tuple[Tool, ...]:
    """Make the tools that look into a workspace: read, list, glob, grep. None is the current directory.

    `seen` remembers what was read, for the tools that change files; `hidden` as for `editing`.
    """
    place = Workspace(workspace)
    return (_reader(place, seen or Seen()), *searching(place, hidden))


def _reader(workspace: Workspace, seen: Seen) -> Tool:
    def read_file(
        path: Annotated[str, "relative to the workspace"],
        offset: Annotated[int, "how many lines to skip"] = 0,
        limit: Annotated[int, f"how many lines to show, 1 to {MOST_LINES}"] = LINES,
    ) -> str:
        return window(workspace.locate(path), max(offset, 0), min(max(limit, 1), MOST_LINES), seen)

    return tool(effects={"read"}, description=DESCRIPTION)(read_file)


def window(place: Place, offset: int, limit: int, seen: Seen) -> str:
    """Show `limit` lines of a text file after the first `offset`. Raises ToolError where there are none to show."""
    try:
        stream, size = _opened(place, seen)
        with stream:
            lines = _lines(stream)
            skipped = sum(1 for _ in itertools.islice(lines, offset))
            shown = _fitting(lines, skipped + 1, limit)
            last = skipped + len(shown)
            small = size <= COUNTED
            more = sum(1 for _ in (lines if small else itertools.islice(lines, 1)))
    except OSError as fault:
        raise ToolError(f"`{place.name}` can't be read: {reason(fault)}.") from None
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


def shortened(line: str) -> str:
    """Shorten a line to WIDTH, as this module's window does."""
    return next(_lines(io.StringIO(line)), "")


def _opened(place: Place, seen: Seen) -> tuple[TextIO, int]:
    """Open a text file in the encoding that its first bytes tell, and give its size. Raises ToolError for what is none."""
    try:
        raw: BinaryIO = os.fdopen(opened(place), "rb")
    except IsADirectoryError:
        raise ToolError(f"`{place.name}` is a directory. It {_listing(place)}") from None
    except (FileNotFoundError, NotADirectoryError):
        raise ToolError(f"There is no `{place.name}`. {_nearest(place)}") from None
    size = os.fstat(raw.fileno()).st_size
    if size <= REMEMBERED:
        with raw:
            data = raw.read()
        seen.note(place, data)
        raw = io.BytesIO(data)
    start = raw.read(8_192)
    raw.seek(0)
    if is_binary(start):
        raw.close()
        raise ToolError(f"`{place.name}` is not a text file ({size:,} bytes).")
    return io.TextIOWrapper(raw, _encoding(start), errors="replace"), size


def _encoding(start: bytes) -> str:
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    return "utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"


def _listing(place: Place) -> str:
    try:
        with folder(place.root, place.parts) as inside:
            names = [
                f"{item.name}/" if item.is_dir(follow_symlinks=False) else item.name
                for item in inside.entries()
            ]
    except OSError as fault:
        return f"can't be listed: {reason(fault)}."
    shown = ", ".join(f"`{name}`" for name in names[:NAMES])
    more = f" and {len(names) - NAMES:,} more" if len(names) > NAMES else ""
    return f"holds {shown}{more}." if names else "is empty."


def _nearest(place: Place) -> str:
    """Say what is there instead: the nearest name, or what the deepest directory on the way holds."""
    for depth in range(len(place.parts) - 1, -1, -1):
        above = Place(place.root, place.parts[:depth])
        try:
            with folder(above.root, above.parts) as inside:
                names = [item.name for item in inside.entries()]
        except FileNotFoundError:
            continue
        except OSError:
            return f"Did you mean `{above.name}`?"
        near = difflib.get_close_matches(place.parts[depth], names, n=1)
        if near:
            return f"Did you mean `{'/'.join((*above.parts, near[0]))}`?"
        return f"The directory `{above.name}` {_listing(above)}"
    return ""


(read_file,) = files()
