"""Notes as tools: files beside the session that no compaction reaches and the next session finds again. Book chapter 9.

    notes = Scratchpad(".harness_nb/notes/main")
    Agent(model, Toolbox([*tools, *notes.tools]), f"{words} {GUIDANCE}")

Each note is a text file named by its key, so a person can write, change and remove notes with any editor.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Annotated

from harness_nb.errors import ToolError
from harness_nb.events import Preview
from harness_nb.results import readable
from harness_nb.strict import clean
from harness_nb.tools import Tool, tool
from harness_nb.workspace import Folder, folder, reason

LONGEST = 12_000
"""Most characters of a note that a model writes: one is read back whole in one result."""

MOST = 200
"""Most notes in one folder."""

LARGEST = 100_000
"""Most bytes read of a note; a person may have written a longer one."""

SHOWN = 100
"""Most characters shown of a note where all are listed."""

HEAD = ("note", "begins", "characters", "changed (UTC)")
LEFT = 'style="text-align:left"'

KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")

ENDINGS = (".txt", ".md")
"""How a note's file may end; the first is what new ones get."""

GUIDANCE = """\
You have a scratchpad: notes in files that outlast this conversation. Older messages may leave your sight; notes don't.
Call scratchpad_list when you begin a task of several steps: earlier work, and your person, may have left notes.
Write a note when you have a plan, a finding that was costly to get, a constraint your person gave, or a decision and
its reason; update it when it changes. Use short keys such as `plan` or `findings-db`. Don't note what is quick to look up."""
"""For the instructions of an agent with a scratchpad: when to write, and when to look. It never changes, so that prompt caches hold."""

WRITE = f"""Write a note that outlasts this conversation, in place of the one under the same key.

Needs a key of 1 to 64 letters, digits, `-` and `_`, and the whole text, at most {LONGEST:,} characters. Writes one small file in the session's
own folder, nothing else. Returns how long the note is. Use it for plans, costly findings, constraints and decisions;
use write_file for what your person asked for."""

READ = """Read a note in full.

Needs a key that scratchpad_list names. Changes nothing. Returns the text as it was written."""

LIST = """List the notes: the key, length and first line of each, and when it was last changed.

Changes nothing. Returns one note a line, by key, or says that there are none."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note as the list shows it: `size` in characters, when it was `changed` (UTC), and how it begins."""

    key: str
    size: int
    changed: datetime
    start: str


class Scratchpad:
    """The notes of one session, each a file `<key>.txt` or `<key>.md` in `folder`; one writer at a time.

    The folder is made at the first note, for its owner only and unseen by git. Links are not followed, neither in it
    nor, where it is given relative to the current directory, on the way from there.
    """

    def __init__(self, folder: str | Path) -> None:
        """Touch nothing yet."""
        self.folder = Path(folder).absolute()
        self._root = self.folder.parent if Path(folder).is_absolute() else Path.cwd()
        self._lock = threading.Lock()
        self.tools: tuple[Tool, ...] = (
            tool(name="scratchpad_write", effects={"write"}, description=WRITE, preview=self._preview)(
                self._write
            ),
            tool(name="scratchpad_read", effects={"read"}, description=READ)(self._read),
            tool(name="scratchpad_list", effects={"read"}, description=LIST)(self._list),
        )
        """`scratchpad_write`, `scratchpad_read` and `scratchpad_list`."""

    def write(self, key: str, text: str) -> int:
        """Put a note in the place of what was under its key, in one step, and return its length. Raises ToolError."""
        _checked(key)
        text = clean(text)
        if not text.strip():
            raise ToolError("The note is empty: give its text.")
        if len(text) > LONGEST:
            raise ToolError(
                f"The note has {len(text):,} characters and may have {LONGEST:,}: shorten it, or make two of it."
            )
        with self._lock, self._opened(f"`{key}` can't be written", make=True) as inside:
            assert inside is not None  # noqa: S101 - it was made
            names = _names(inside)
            if key not in names and len(names) >= MOST:
                raise ToolError(
                    f"There are {len(names)} notes, and no more are kept: write over one that is out of date."
                )
            _put(inside, names.get(key, key + ENDINGS[0]), text.encode())
        return len(text)

    def read(self, key: str) -> str:
        """Return a note's text. Raises ToolError where there is none."""
        _checked(key)
        with self._lock, self._opened(f"`{key}` can't be read") as inside:
            names = _names(inside)
            if inside is None or key not in names:
                known = f"The keys are: {', '.join(sorted(names))}." if names else "There are no notes yet."
                raise ToolError(f"There is no note `{key}`. {known}")
            return _got(inside, names[key])[0]

    def list(self) -> tuple[Note, ...]:
        """Return all notes by key, without those that can't be read. Raises ToolError for a folder that can't be."""
        found = []
        with self._lock, self._opened("The notes can't be listed") as inside:
            if inside is None:
                return ()
            for key, name in sorted(_names(inside).items()):
                with contextlib.suppress(OSError):
                    text, state = _got(inside, name)
                    begin = next((line.strip() for line in text.splitlines() if line.strip()), "")
                    changed = _time(state.st_mtime)
                    begin = begin if len(begin) <= SHOWN else f"{begin[: SHOWN - 1]}…"
                    found.append(Note(key, len(text), changed, begin))
        return tuple(found)

    def _write(
        self,
        key: Annotated[str, "such as `plan`"],
        text: Annotated[str, "all of the note, in place of what was there"],
    ) -> str:
        return f"Noted `{key}`: {self.write(key, text):,} characters."

    def _read(self, key: Annotated[str, "one that scratchpad_list names"]) -> str:
        return self.read(key)

    def _list(self) -> str:
        rows = [
            f"{note.key}: {readable(note.start)} ({note.size:,} characters, {note.changed:%Y-%m-%d %H:%M} UTC)"
            for note in self.list()
        ]
        return "\n".join(rows) or "There are no notes yet."

    def _preview(self, arguments: Mapping[str, object]) -> Preview | None:
        key, text = str(arguments.get("key")), str(arguments.get("text"))
        try:
            before = self.read(key)
        except ToolError:
            before = ""
        lines = (before.splitlines(), text.splitlines(), f"note {key}", f"note {key}")
        return Preview("diff", "\n".join(difflib.unified_diff(*lines, lineterm="")))

    @contextmanager
    def _opened(self, doing: str, *, make: bool = False) -> Iterator[Folder | None]:
        """Open the folder, None where there is none yet. What the system refuses inside becomes a ToolError."""
        try:
            with contextlib.ExitStack() as stack:
                try:
                    if make:
                        self._root.mkdir(parents=True, exist_ok=True)
                    parts = self.folder.relative_to(self._root).parts
                    root = self._root.resolve(strict=True)
                    above = stack.enter_context(folder(root, parts[:-1], make=make))
                    made = make and above.mkdir(parts[-1], 0o700)
                    inside = stack.enter_context(folder(root, parts))
                except FileNotFoundError:
                    if make:
                        raise
                    yield None
                    return
                if made:
                    _put(inside, ".gitignore", b"*\n")
                yield inside
        except OSError as fault:
            raise ToolError(f"{doing}: {reason(fault)}.") from None

    def __repr__(self) -> str:
        """Name the folder as seen from here: a notebook keeps what it shows, and a machine's paths are no one else's."""
        here = Path.cwd()
        shown = self.folder.relative_to(here) if self.folder.is_relative_to(here) else Path(self.folder.name)
        return f"Scratchpad({str(shown)!r})"

    def _repr_html_(self) -> str:
        """Show the notes as a table. What they hold is only ever text in it."""
        try:
            notes = self.list()
        except ToolError as fault:
            return f"<p>{_safe(str(fault))}</p>"
        if not notes:
            return "<p>No notes yet.</p>"
        cells = (
            (f"<code>{_safe(n.key)}</code>", _safe(n.start), f"{n.size:,}", f"{n.changed:%Y-%m-%d %H:%M}")
            for n in notes
        )
        head = "".join(f'<th style="text-align:left">{name}</th>' for name in HEAD)
        rows = (f"<tr>{''.join(f'<td {LEFT}>{cell}</td>' for cell in row)}</tr>" for row in cells)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _checked(key: str) -> None:
    if not KEY.fullmatch(key):
        raise ToolError(f"`{readable(key[:80])}` is no key: use 1 to 64 letters (a-z), digits, `-` and `_`.")


def _names(inside: Folder | None) -> dict[str, str]:
    """Find the notes' files by key; what is a link, or not named like a note, is none."""
    entries = inside.entries() if inside is not None else []
    files = {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}
    keys = {name[: -len(end)] for name in files for end in ENDINGS if name.endswith(end)}
    return {
        key: next(key + end for end in ENDINGS if key + end in files) for key in keys if KEY.fullmatch(key)
    }


def _put(inside: Folder, name: str, data: bytes) -> None:
    """Write a file of the owner's in one step: whoever reads meanwhile gets the old one or the new one."""
    fresh = f".{secrets.token_hex(8)}.tmp"
    with os.fdopen(inside.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            inside.replace(fresh, name)
        except BaseException:
            with contextlib.suppress(OSError):
                inside.remove(fresh)
            raise


def _got(inside: Folder, name: str) -> tuple[str, os.stat_result]:
    """Read a note. Raises OSError."""
    with os.fdopen(inside.open(name), "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise OSError("it is no file")
        data = file.read(LARGEST + 1)
    text = clean(data[:LARGEST].decode("utf-8-sig", "replace"))
    if len(data) > LARGEST:
        text += f"\n[the note is longer: these are its first {LARGEST:,} bytes of {state.st_size:,}]"
    return text, state


def _time(seconds: float) -> datetime:
    """Return the time of a file, the latest there is for one beyond: a file system keeps any number."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError):
        return datetime.max.replace(tzinfo=UTC)


def _safe(text: str) -> str:
    """Return text as HTML that shows all of it and does nothing."""
    shown = "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in text)
    return escape(shown)
