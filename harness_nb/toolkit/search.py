"""Finding files and lines in them: list, glob and grep, inside one workspace, following no link. Book chapters 4 and 11."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Annotated, TypeAlias

from harness_nb.errors import ToolError
from harness_nb.toolkit.document import is_binary, plain
from harness_nb.toolkit.globs import fits, patterns
from harness_nb.toolkit.matching import matching, worth_opening
from harness_nb.tools import Tool, tool
from harness_nb.workspace import Folder, Place, Workspace, folder, reason

SKIPPED = frozenset(
    {
        *(".git", ".hg", ".svn", ".ipynb_checkpoints", "node_modules", "__pycache__"),
        *(".venv", ".tox", ".mypy_cache", ".ruff_cache", ".pytest_cache"),
    }
)
"""Directories that searches leave out: not what a person wrote."""

NAMES = 100
"""Most names shown at once."""

MATCHES = 100
"""Most matching lines shown at once."""

WIDTH = 240
"""Most characters shown of a matching line, or of a name."""

VISITED = 50_000
"""Most files looked at in one search."""

DEEPEST = 64
"""Most directories inside one another that a search enters."""

SEARCHED = 16_000_000
"""Largest file in bytes that is searched for lines."""

Hidden: TypeAlias = Callable[[str], bool]
"""Tells of a file's path, relative to the workspace, whether searches pass over it."""

LEFT_OUT = "Leaves out .git, .venv, node_modules and caches, and does not follow links."

LIST = f"""List the names in one directory of the workspace.

Needs the path of a directory, relative to the workspace. Does not look into directories below. Changes nothing.
Returns one name a line, `/` after directories, the size of files; at most {NAMES}, with the offset to go on from.
Prefer it to shell commands such as ls; glob finds names at any depth."""

GLOB = f"""Find files in the workspace by their names.

Needs a pattern: `*` and `?` stand for characters of one name, `**` for any directories, `{{py,md}}` for one or the other; without `/` it is tried on
names at every depth. {LEFT_OUT} Changes nothing. Returns paths relative to the workspace, one a line, at
most {NAMES}. Prefer it to shell commands such as find."""

GREP = f"""Find lines in the text files of the workspace by a regular expression.

Needs a pattern in Python's dialect, tried on each line alone. {LEFT_OUT} Passes over binary
files and files above {SEARCHED // 10**6} MB. Changes nothing. Returns `path:12: text`, one match a line, at most {MATCHES}.
Prefer it to shell commands such as grep and rg, and to reading whole files."""


def nothing(name: str) -> bool:
    """Hide no file."""
    return False


def searching(workspace: Workspace, hidden: Hidden = nothing) -> tuple[Tool, ...]:
    """Make the tools that find files and lines in a workspace, passing over what is hidden."""

    def list_files(
        path: Annotated[str, "a directory, relative to the workspace"] = ".",
        offset: Annotated[int, "how many names to skip"] = 0,
    ) -> str:
        return listed(workspace.locate(path), max(offset, 0))

    def glob(
        pattern: Annotated[str, "e.g. `*.py` or `src/**/test_*.py`"],
        path: Annotated[str, "the directory to search, relative to the workspace"] = ".",
    ) -> str:
        return named(Walk(workspace.locate(path), hidden), pattern)

    def grep(
        pattern: Annotated[str, "a regular expression"],
        path: Annotated[str, "the directory or file to search, relative to the workspace"] = ".",
        names: Annotated[str, "which files, as a pattern for glob"] = "**",
        ignore_case: Annotated[bool, "whether a and A are the same"] = False,  # noqa: FBT002 - a model's argument
    ) -> str:
        return matched(Walk(workspace.locate(path), hidden), pattern, names, ignore_case=ignore_case)

    return (
        tool(effects={"read"}, description=LIST)(list_files),
        tool(effects={"read"}, description=GLOB)(glob),
        tool(effects={"read"}, description=GREP)(grep),
    )


def listed(place: Place, offset: int) -> str:
    """List a directory's names from the offset on. Raises ToolError where there is none."""
    try:
        with folder(place.root, place.parts) as inside:
            entries = inside.entries()
            rows = [_described(inside, entry) for entry in entries[offset : offset + NAMES]]
    except OSError as fault:
        raise _no_directory(place, fault) from None
    if not rows and offset:
        raise ToolError(f"`{place.name}` holds {len(entries):,} names: give an offset below that.")
    if not rows:
        return f"[{place.name}: empty directory]"
    last = offset + len(rows)
    footer = f"{place.name}: names {offset + 1:,}-{last:,} of {len(entries):,}"
    if last < len(entries):
        footer += f"; to go on, list_files(path={json.dumps(place.name, ensure_ascii=False)}, offset={last})"
    return "\n".join([*rows, f"[{footer}]"])


def named(walk: Walk, pattern: str) -> str:
    """Find files by name below a directory. Raises ToolError where there is none, and for no pattern."""
    wanted, place = patterns(pattern), walk.top
    names = [found.name for found, _ in walk if fits(found.parts[len(place.parts) :], wanted)]
    more = "; give a narrower pattern to see the others" if len(names) > NAMES else ""
    count = (
        f"{min(len(names), NAMES):,} of {_of(len(names), 'file')}{more}"
        if names
        else "no file has such a name"
    )
    return "\n".join([*(_visible(name) for name in names[:NAMES]), f"[{place.name}: {count}{walk.note}]"])


def matched(walk: Walk, pattern: str, names: str, *, ignore_case: bool) -> str:
    """Find lines below a directory or in a file. Raises ToolError where there is none, and for no pattern."""
    if not pattern:
        raise ToolError("Give a pattern to search for.")
    wanted, place = patterns(names), walk.top
    rows: list[str] = []
    hits = 0
    candidates = worth_opening(pattern, place.real, ignore_case=ignore_case, largest=SEARCHED)
    with matching(pattern, ignore_case=ignore_case, most=MATCHES + 1) as matcher:
        for found, inside in walk:
            below = found.parts[len(place.parts) :]
            if not fits(below or found.parts[-1:], wanted):
                continue
            if candidates is not None and below and "/".join(below) not in candidates:
                continue
            if text := _text(inside, found.parts[-1]):
                numbers = matcher.lines(text, f"`{found.name}`")
                hits += bool(numbers)
                lines = text.split("\n") if numbers else []
                rows += [f"{_visible(found.name)}:{n}: {_shortened(lines[n - 1])}" for n in numbers]
                if len(rows) > MATCHES:
                    break
    more = len(rows) > MATCHES
    count = (
        f"{'first ' if more else ''}{_of(len(rows[:MATCHES]), 'match', 'es')} in {_of(hits, 'file')}"
        if rows
        else "no match"
    )
    hint = "; there are more: narrow the pattern, the path or the names" if more else ""
    return "\n".join([*rows[:MATCHES], f"[{place.name}: {count}{hint}{walk.note}]"])


@dataclass(slots=True)
class Walk:
    """The files below a directory in a stable order, each with its open folder; links are named, not followed."""

    top: Place
    hidden: Hidden = nothing
    most: int = VISITED
    visited: int = field(default=0, init=False)

    @property
    def note(self) -> str:
        """What was not looked at."""
        return (
            f"; stopped after {self.most:,} files: give a path to search less"
            if self.visited > self.most
            else ""
        )

    def __iter__(self) -> Iterator[tuple[Place, Folder]]:
        """Go through the files. Raises ToolError where there is no such directory or file."""
        root, parts = self.top.root, self.top.parts
        try:
            with folder(root, parts) as start:
                yield from self._below(start)
        except NotADirectoryError:
            with folder(root, parts[:-1]) as parent:
                self.visited += 1
                if not self.hidden(self.top.name):
                    yield self.top, parent
        except OSError as fault:
            raise _no_directory(self.top, fault) from None

    def _below(self, start: Folder) -> Iterator[tuple[Place, Folder]]:
        for path, folders, names, handle in _steps(start):
            parts = (*self.top.parts, *path.parts)
            folders[:] = sorted(set(folders) - SKIPPED) if len(path.parts) < DEEPEST else []
            inside = Folder(self.top.root.joinpath(*parts), handle)
            for name in sorted(names):
                self.visited += 1
                if self.visited > self.most:
                    return
                found = Place(self.top.root, (*parts, name))
                if not self.hidden(found.name):
                    yield found, inside


def _steps(start: Folder) -> Iterator[tuple[PurePath, list[str], list[str], int | None]]:
    if start.handle is None:
        for path, folders, names in os.walk(start.path):
            yield Path(path).relative_to(start.path), folders, names, None
        return
    for path, folders, names, handle in os.fwalk(".", dir_fd=start.handle):
        yield PurePath(path), folders, names, handle


def _described(inside: Folder, entry: os.DirEntry[str]) -> str:
    name = _visible(entry.name)
    try:
        state = inside.stat(entry.name)
    except OSError:
        return f"{name} (gone)"
    if stat.S_ISDIR(state.st_mode):
        return f"{name}/"
    if stat.S_ISLNK(state.st_mode):
        return f"{name} (link)"
    return f"{name} ({state.st_size:,} bytes)" if stat.S_ISREG(state.st_mode) else f"{name} (device or pipe)"


def _visible(name: str) -> str:
    """Keep a name to one line and to what can be seen of it."""
    return (name if name.isprintable() else json.dumps(name))[:WIDTH]


def _text(inside: Folder, name: str) -> str:
    """Read a text file; empty for a link, a large or binary file, and what can't be read."""
    try:
        with os.fdopen(inside.open(name), "rb") as stream:
            state = os.fstat(stream.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_size > SEARCHED:
                return ""
            data = stream.read(SEARCHED)
    except OSError:
        return ""
    if is_binary(data):
        return ""
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    return plain(data.decode("utf-16" if wide else "utf-8-sig", "replace")).removesuffix("\n")


def _shortened(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[:WIDTH]} [+{len(line) - WIDTH:,} characters]"


def _no_directory(place: Place, fault: OSError) -> ToolError:
    if isinstance(fault, FileNotFoundError):
        return ToolError(f"There is no `{place.name}`. Use list_files or glob to see what there is.")
    if isinstance(fault, NotADirectoryError):
        return ToolError(f"`{place.name}` is a file; use read_file.")
    return ToolError(f"`{place.name}` can't be listed: {reason(fault)}.")


def _of(count: int, what: str, many: str = "s") -> str:
    return f"{count:,} {what}{many * (count != 1)}"
