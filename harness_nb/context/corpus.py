"""The text files and notebooks of a workspace as documents for the index, links not followed. Part of the search of book chapter 10."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from harness_nb.context.chunks import Chunk, of_file
from harness_nb.context.index import Document, PassedOver
from harness_nb.errors import ToolError
from harness_nb.strict import clean
from harness_nb.workspace import Folder, Place, Workspace, folder

SKIPPED = frozenset(
    {
        *(".git", ".hg", ".svn", ".ipynb_checkpoints", "node_modules", "__pycache__", ".harness_nb"),
        *(".venv", ".tox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"),
    }
)
"""Directories that are left out: not what a person wrote."""

INSTALLED = frozenset({"pyvenv.cfg", "conda-meta"})
"""What a directory of installed packages holds, whatever it is called: it is left out, too."""

VISITED = 10_000
"""Most files looked at."""

DEEPEST = 64
"""Most directories inside one another that are entered."""

LARGEST = 1_000_000
"""Largest text file in bytes that is searched."""

LARGEST_NOTEBOOK = 20_000_000
"""Largest notebook: most of one is pictures, which are passed over."""

MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
WIDE_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)

BINARY = "binary"
LARGE = f"above {LARGEST // 10**6} MB ({LARGEST_NOTEBOOK // 10**6} for a notebook)"
UNREADABLE = "unreadable"
UNKNOWN = "not UTF-8"
BROKEN = "broken as a notebook"

Hidden: TypeAlias = Callable[[str], bool]
"""Tells of a file's path, relative to the workspace, whether searches pass over it."""


def nothing(name: str) -> bool:
    """Hide no file."""
    return False


@dataclass(slots=True)
class Corpus:
    """What can be searched below a workspace's root. `complete` is False once a walk met more than `most` files."""

    workspace: Workspace = field(default_factory=Workspace)
    hidden: Hidden = nothing
    most: int = VISITED
    complete: bool = field(default=True, init=False)

    def documents(self) -> Iterator[Document]:
        """Go through the files in a stable order. Raises ToolError where the workspace can't be looked into."""
        top = self.workspace.locate(".")
        left, self.complete = self.most, True
        for place, state in _below(top):
            if left == 0:
                self.complete = False
                return
            left -= 1
            if not self.hidden(place.name):
                # The change time and the file's number tell of an edit that kept size and date.
                stamp = (state.st_mtime_ns, state.st_size, state.st_ctime_ns, state.st_ino)
                yield Document(str(place.real), stamp, _Reader(place))


def _below(top: Place) -> Iterator[tuple[Place, os.stat_result]]:
    todo = [top]
    while todo:
        here = todo.pop()
        try:
            with folder(here.root, here.parts) as inside:
                found = [(Place(here.root, (*here.parts, n)), state) for n, state in _states(inside)]
        except OSError as fault:
            if here is top:
                raise ToolError("The workspace can't be looked into.") from fault
            continue
        if here is not top and any(place.parts[-1] in INSTALLED for place, _ in found):
            continue
        yield from ((place, state) for place, state in found if stat.S_ISREG(state.st_mode))
        inner = [place for place, state in found if stat.S_ISDIR(state.st_mode)]
        if len(here.parts) < DEEPEST:
            todo += (place for place in reversed(inner) if place.parts[-1] not in SKIPPED)


def _states(inside: Folder) -> Iterable[tuple[str, os.stat_result]]:
    for entry in inside.entries():
        try:
            yield entry.name, entry.stat(follow_symlinks=False)
        except OSError:  # it is gone
            continue


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one file and cuts it into passages."""

    place: Place

    def __call__(self) -> tuple[Chunk, ...]:
        notebook = self.place.name.casefold().endswith(".ipynb")
        text = _text(self.place, LARGEST_NOTEBOOK if notebook else LARGEST)
        try:
            return of_file(self.place.name, text)
        except ValueError:
            raise PassedOver(BROKEN) from None


def _text(place: Place, largest: int) -> str:
    """Read a text file. Raises PassedOver for what is none."""
    try:
        with (
            folder(place.root, place.parts[:-1]) as inside,
            os.fdopen(inside.open(place.parts[-1]), "rb") as file,
        ):
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise PassedOver(UNREADABLE)
            data = file.read(largest + 1)
    except OSError:
        raise PassedOver(UNREADABLE) from None
    if data.startswith(WIDE_MARKS) or (b"\0" in data[:8_192] and not data.startswith(MARKS)):
        raise PassedOver(BINARY)
    if len(data) > largest:
        raise PassedOver(LARGE)
    try:
        text = data.decode("utf-16" if data.startswith(MARKS) else "utf-8-sig")
    except UnicodeDecodeError:
        raise PassedOver(UNKNOWN) from None
    return clean(text.replace("\r\n", "\n").replace("\r", "\n"))
