"""The folder an agent works in: which paths are inside it, and how to open one so that it stays inside. Book chapter 14.

A path is first followed through all its links; where it ends must be in the workspace. That alone is a
check before a use, and a link put in between would undo it. So what is opened is the path without links
that came out, step by step from the root, and each step refuses to follow one.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness_nb.errors import ToolError

STEPWISE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
"""Whether this system opens step by step (Linux, macOS); elsewhere what was opened is checked once more."""

LONGEST = 4_096
"""Most characters of a path."""

FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY"))
"""With every opening: follow no link, don't wait for a pipe's other end, leave bytes as they are."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path in a workspace: the workspace's real root, and the names from there, links followed."""

    root: Path
    parts: tuple[str, ...]

    @property
    def real(self) -> Path:
        """Where it is."""
        return self.root.joinpath(*self.parts)

    @property
    def name(self) -> str:
        """How to speak of it: relative to the workspace."""
        return "/".join(self.parts) or "."

    @property
    def key(self) -> str:
        """The same for all spellings of one file, also where the system minds neither case nor accents' form."""
        return unicodedata.normalize("NFC", str(self.real)).casefold()


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder, None for the current directory at the time of each call."""

    folder: str | Path | None = None

    def locate(self, path: str | Path) -> Place:
        """Find a path, relative to the workspace or absolute. Raises ToolError for one that leads out, by links too."""
        path = str(path)
        if not path.strip() or "\0" in path:
            raise ToolError("Give the path of a file, relative to the workspace.")
        if len(path) > LONGEST:
            raise ToolError(f"The path is too long ({len(path):,} characters).")
        if path.startswith("~"):
            raise ToolError("`~` is not expanded; give a path relative to the workspace.")
        try:
            root = Path(self.folder or ".").resolve(strict=True)
            real = (root / path).resolve()
        except (OSError, RuntimeError, ValueError) as fault:  # a circle of links, half a character, no folder
            raise ToolError(f"`{path[:200]}` can't be looked up: {reason(fault)}.") from None
        if not real.is_relative_to(root):
            raise ToolError(f"`{path[:200]}` is outside the workspace; only files inside it can be used.")
        place = Place(root, real.relative_to(root).parts)
        steps = itertools.accumulate(place.parts, os.path.join, initial=str(root))
        if any(os.path.islink(step) for step in steps):  # noqa: PTH114 - Path's raises
            raise ToolError(f"`{path[:200]}` can't be looked up: its links go round in a circle.")
        return place

    def contains(self, path: str | Path) -> bool:
        """Tell whether a path, links followed, is inside; what can't be looked up is not."""
        try:
            self.locate(path)
        except ToolError:
            return False
        return True


class Folder:
    """An open directory; what is done through it happens in that very directory, whatever its path means by then."""

    def __init__(self, path: Path, handle: int | None = None) -> None:
        """Use `folder()`; `handle` is None where the system has no handles of directories."""
        self.path = path
        self.handle = handle

    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Open a file of it and return its descriptor. Raises OSError, also where the name is a link."""
        if self.handle is not None:
            return os.open(name, flags | FLAGS, mode, dir_fd=self.handle)
        descriptor = os.open(self.path / name, flags | FLAGS, mode)
        if (self.path / name).resolve() != self.path / name:
            os.close(descriptor)
            raise OSError("it has become a link")
        return descriptor

    def stat(self, name: str) -> os.stat_result:
        """Look at a name itself, not at what it may link to. Raises OSError."""
        return os.stat(self._at(name), dir_fd=self.handle, follow_symlinks=False)

    def mkdir(self, name: str, mode: int = 0o777) -> bool:
        """Make a directory in it, unless there is something; return whether it was made."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._at(name), mode, dir_fd=self.handle)
            return True
        return False

    def replace(self, old: str, new: str) -> None:
        """Rename in one step; a link called `new` is replaced, not followed."""
        os.replace(self._at(old), self._at(new), src_dir_fd=self.handle, dst_dir_fd=self.handle)
        if self.handle is not None:
            with contextlib.suppress(OSError):  # not every file system can
                os.fsync(self.handle)

    def remove(self, name: str) -> None:
        """Remove a file. Raises OSError."""
        os.unlink(self._at(name), dir_fd=self.handle)

    def entries(self) -> list[os.DirEntry[str]]:
        """List what it holds, by name."""
        with os.scandir(self.path if self.handle is None else self.handle) as found:
            return sorted(found, key=lambda entry: entry.name)

    def _at(self, name: str) -> str:
        return str(self.path / name) if self.handle is None else name


@contextlib.contextmanager
def folder(root: Path, parts: Sequence[str], *, make: bool = False) -> Iterator[Folder]:
    """Open the directory at these names below the root, following no link; `make` those that are missing.

    Raises OSError where there is none, or where a name has become a link since it was looked up.
    """
    if not STEPWISE:
        path = root.joinpath(*parts)
        if make:
            path.mkdir(parents=True, exist_ok=True)
        if path.resolve(strict=True) != path or not path.is_dir():
            raise NotADirectoryError("it is no directory any more")
        yield Folder(path)
        return
    flags = os.O_RDONLY | os.O_DIRECTORY | FLAGS
    handle = os.open(root, flags)
    try:
        for name in parts:
            if make:
                Folder(root, handle).mkdir(name)
            inner = os.open(name, flags, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield Folder(root.joinpath(*parts), handle)
    finally:
        os.close(handle)


def opened(place: Place) -> int:
    """Open a regular file for reading and return its descriptor. Raises OSError; IsADirectoryError for a directory."""
    directory = IsADirectoryError(errno.EISDIR, "it is a directory")
    if not place.parts:
        raise directory
    with folder(place.root, place.parts[:-1]) as parent:
        kind = parent.stat(place.parts[-1]).st_mode
        if stat.S_ISDIR(kind):
            raise directory
        if not stat.S_ISREG(kind) and not stat.S_ISLNK(kind):
            raise ToolError(f"`{place.name}` is a device or a pipe, not a file.")
        descriptor = parent.open(place.parts[-1])
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise ToolError(f"`{place.name}` was changed while it was being opened. Try again.")


def reason(fault: BaseException) -> str:
    """Put a system's fault in a few words."""
    match fault:
        case RuntimeError():
            return "its links go round in a circle"
        case ValueError():
            return "its name holds half a character (a lone surrogate)"
        case OSError(strerror=str(words)):
            return words.lower()
        case _:
            return str(fault) or "it was refused"
