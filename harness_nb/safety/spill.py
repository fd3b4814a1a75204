"""Long outputs kept whole in files, and the tool that reads on in them. Fits the tool gate socket; book chapters 6 and 9.

    outputs = Outputs()
    Agent(model, Toolbox([*tools, outputs.reader]), gates=(spilled(outputs), ...))

A model gets head and tail of a long result, and at both ends the call that shows the next part. The
same output of one tool is kept once, so that a repeated call has the same result.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import json
import os
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, BinaryIO

from harness_nb.errors import ToolError
from harness_nb.messages import Text, ToolResult
from harness_nb.results import fitted, opening
from harness_nb.seams import Call, Gate, Proceed, Run
from harness_nb.tasks import off_loop
from harness_nb.tools import tool

MOST = 500_000_000
"""Most bytes that the outputs of one session take on disk; the oldest go first."""

PIECE = 65_536
"""Characters written and read at once."""

SHOWN = 12_000
"""Most characters that `read_output` shows at once."""

PART = 0.75
"""What part of a result those may be, where its limit is lower: the rest is for titles and the footer."""

BEFORE = 200
"""Characters shown before a text that was looked for."""

LONGEST = 1_000
"""Most characters of a text that is looked for."""

ID = re.compile(r"out-[1-9][0-9]{0,8}")

DESCRIPTION = f"""Read on in a long output of an earlier tool call.

Needs the id that the shortened result names, such as `out-3`. `offset` is how many characters to skip; with `find`,
the part round the next place at or after `offset` that holds exactly this text. Changes nothing. Returns up to
{SHOWN:,} characters, then a footer with the range, the total, and the call that goes on. Prefer `find` to reading
all of it."""


@dataclass(slots=True)
class _Kept:
    """One output: what made it, None for an earlier session's; its length; and where in its file each piece begins, and it ends."""

    call: Call | None = None
    total: int = 0
    starts: list[int] = field(default_factory=lambda: [0])

    def grow(self, piece: str) -> bytes:
        """Take the next piece in, and return it as it is written."""
        data = piece.encode()
        self.total += len(piece)
        self.starts.append(self.starts[-1] + len(data))
        return data

    def read(self, file: BinaryIO, offset: int, count: int) -> str:
        """Return `count` characters from `offset` on, reading only the pieces that they are in."""
        first, last = offset // PIECE, min(-(-(offset + count) // PIECE), len(self.starts) - 1)
        file.seek(self.starts[first])
        text = file.read(self.starts[last] - self.starts[first]).decode()
        return text[offset - first * PIECE :][:count]

    def find(self, file: BinaryIO, text: str, offset: int) -> int:
        """Return where a text is next, at or after `offset`; -1 for nowhere."""
        while offset < self.total:
            found = self.read(file, offset, PIECE + len(text) - 1).find(text)
            if found >= 0:
                return offset + found
            offset += PIECE
        return -1


class Outputs:
    """The long outputs of a session, each a UTF-8 file `out-1.txt`, `out-2.txt`, ... in one folder.

    Without a folder they are in a temporary one, gone with the process. `most` is in bytes.
    """

    def __init__(self, folder: str | Path | None = None, most: int = MOST) -> None:
        """Touch nothing yet: the folder is made for the first long output."""
        self._folder = Path(folder) if folder is not None else None
        self._most = most
        self._lock = threading.RLock()
        self._last = 0
        self._kept: dict[str, _Kept] = {}
        self._known: dict[tuple[str, int, int], str] = {}
        self.reader = tool(name="read_output", effects={"read"}, description=DESCRIPTION)(self._show)
        """The tool `read_output` for these outputs."""

    def keep(self, text: str, call: Call) -> str:
        """Write a text to a file and return its id; that of the same text from the same tool if there is one. Raises OSError."""
        mark = (call.spec.name, len(text), hash(text))
        with self._lock:
            known = self._known.get(mark, "")
            if known in self._kept:
                return known
            kept, name, file = _Kept(self.maker(call)), *self._fresh()
            try:
                with file:
                    for start in range(0, len(text), PIECE):
                        file.write(kept.grow(text[start : start + PIECE]))
                        if kept.starts[-1] > self._most:
                            raise OSError(errno.EFBIG, f"it has more than {self._most:,} bytes")
            except OSError:
                self._path(name).unlink(missing_ok=True)
                raise
            self._kept[name] = kept
            self._known[mark] = name
            self._make_room()
            return name

    def text(self, id: str) -> str:  # noqa: A002 - the word that models use
        """Return the whole of an output. Raises ToolError where there is none."""
        with self._opened(id) as (file, kept):
            return kept.read(file, 0, kept.total)

    def maker(self, call: Call) -> Call | None:
        """Return the call whose output this one shows, itself where it names none; None for an earlier session's."""
        named = [text for text in call.arguments.values() if isinstance(text, str) and ID.fullmatch(text)]
        if not named:
            return call
        kept = self._kept.get(named[0])
        return kept.call if kept is not None else None

    def _show(
        self,
        call: Call,
        id: Annotated[str, "such as out-3"],  # noqa: A002
        offset: Annotated[int, "how many characters to skip"] = 0,
        find: Annotated[
            str, f"text to go to, at most {LONGEST} characters; empty to read from the offset"
        ] = "",
    ) -> str:
        if len(find) > LONGEST:
            raise ToolError(f"`find` takes at most {LONGEST} characters: give a part that is telling.")
        with self._opened(id) as (file, kept):
            offset = max(offset, 0)
            if offset >= kept.total:
                raise ToolError(
                    f"`{id}` has {kept.total:,} characters: give an offset from 0 to {kept.total - 1}."
                )
            found = kept.find(file, find, offset) if find else offset
            if found < 0:
                raise ToolError(f"`{id}` does not hold this text from character {offset:,} on.")
            start = max(found - BEFORE, 0) if find else offset
            most = min(SHOWN, int(PART * call.spec.limit))
            shown, count = opening(kept.read(file, start, most), most)
        end = start + count
        footer = f"{id}: characters {start:,} to {end:,} of {kept.total:,}"
        if find:
            footer += f"; found at {found:,}; for the next place, {_spelled(id, found + len(find), find)}"
        if end < kept.total:
            footer += f"; to go on, {_spelled(id, end)}"
        return f"{shown}\n[{footer}]"

    @contextlib.contextmanager
    def _opened(self, id: str) -> Iterator[tuple[BinaryIO, _Kept]]:  # noqa: A002
        if not ID.fullmatch(id):
            raise ToolError(f"`{id[:80]}` is not the id of an output: those look like `out-3`.")
        try:
            with open(self._path(id), "rb", opener=_private) as file:
                if id not in self._kept:
                    self._kept[id] = _measured(file)
                yield file, self._kept[id]
        except (OSError, UnicodeDecodeError):
            raise ToolError(
                f"There is no output `{id}`, or no longer: make the call that gave it again."
            ) from None

    def _path(self, name: str) -> Path:
        return (self._folder or Path(os.devnull)) / f"{name}.txt"

    def _fresh(self) -> tuple[str, BinaryIO]:
        """Open the next file that nobody has; one that is there, a link too, is never written to."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="harness-nb-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        if not self._last:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with contextlib.suppress(FileExistsError), (self._folder / ".gitignore").open("x") as ignore:
                ignore.write("*\n")
            self._last = max((_number(path) for path in self._folder.glob("out-*.txt")), default=0)
        while True:
            self._last += 1
            name = f"out-{self._last}"
            with contextlib.suppress(FileExistsError):
                return name, open(self._path(name), "xb", opener=_private)

    def _make_room(self) -> None:
        files = sorted(self._path("x").parent.glob("out-*.txt"), key=_number)
        sizes = [path.lstat().st_size for path in files]
        total = sum(sizes)
        for path, size in zip(files, sizes, strict=True):
            if total <= self._most:
                break
            path.unlink(missing_ok=True)
            self._kept.pop(path.stem, None)
            total -= size


def spilled(outputs: Outputs) -> Gate:
    """Make the gate that keeps what is too long for a model, and tells it how to read on.

    Put it outside of gates that add to a result or judge all of it. Where the disk is full, or the text
    too large for it, the result is shortened all the same and says why the rest is gone.
    """

    async def gate(call: Call, run: Run, proceed: Proceed[Call, ToolResult]) -> ToolResult:
        result = await proceed(call)
        if sum(len(part.text) + 1 for part in result.content if isinstance(part, Text)) <= call.spec.limit:
            return result

        def keep(text: str) -> str:
            try:
                return f"to go on, {_spelled(outputs.keep(text, call), '{offset}')}"
            except OSError as fault:
                return f"the rest could not be kept: {fault.strerror or fault}; ask for less, or for a part"

        content = await off_loop(functools.partial(fitted, result.content, call.spec.limit, keep))
        return result if content == result.content else replace(result, content=content)

    return gate


def _spelled(name: str, offset: int | str, find: str = "") -> str:
    looked_for = f", find={json.dumps(find, ensure_ascii=False)}" if find else ""
    return f'read_output(id="{name}", offset={offset}{looked_for})'


def _number(path: Path) -> int:
    return int(path.stem[4:]) if ID.fullmatch(path.stem) else 0


def _measured(file: BinaryIO) -> _Kept:
    """Find the pieces of an output that an earlier session wrote."""
    kept = _Kept()
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    while piece := text.read(PIECE):
        kept.grow(piece)
    text.detach()
    return kept


def _private(path: str, flags: int) -> int:
    """Open a file for its owner only, and never through a link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
