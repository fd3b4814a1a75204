"""Where files are changed: one at a time, whole or not at all, and only as they were when last read.

    the file's bytes -> unchanged since read? -> the change's place -> the new bytes -> a file beside it -> its name

A new file is written beside the old one, made durable, and takes its name in one step. So a reader sees the old
text or the new, a crash leaves one of them, and a hard link elsewhere keeps what it had.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import threading
from dataclasses import dataclass

from harness_nb.errors import ToolError
from harness_nb.seams import Run
from harness_nb.toolkit.changes import Change, Lines
from harness_nb.toolkit.document import Document, Splice
from harness_nb.toolkit.seen import REMEMBERED, Seen, digest
from harness_nb.workspace import Folder, Place, Workspace, folder, opened, reason

PREVIEWS = 100
"""Most previews whose files are remembered."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A change that was worked out and not yet done: `before` is None where there is no file."""

    place: Place
    before: bytes | None
    state: os.stat_result | None
    document: Document
    splice: Splice
    after: bytes


class Desk:
    """The files of one workspace in one session, and the only way they are changed."""

    def __init__(self, workspace: Workspace, seen: Seen) -> None:
        """Share `seen` with what reads the files."""
        self.workspace = workspace
        self.seen = seen
        self._previews: dict[tuple[str, Change], bytes] = {}
        self._moved: dict[str, tuple[tuple[str, int], int]] = {}
        self._locks: dict[str, threading.Lock] = {}

    def change(self, path: str, change: Change, run: Run) -> Draft:
        """Do a change and return what it was. Raises ToolError, with nothing changed, where it can't be done."""
        place = self._place(path)
        with self._locks.setdefault(place.key, threading.Lock()):
            self._still_there(place, change, (run.id, run.turn))
            draft = self._drafted(place, change)
            shown = self._previews.pop((place.key, change), None)
            if shown is not None and shown != digest(draft.before or b""):
                raise ToolError(
                    f"`{place.name}` was changed after this edit was shown for approval. Read it again."
                )
            write(place, draft.after, draft.state)
            self.seen.note(place, draft.after)
            self._note_moved(draft, (run.id, run.turn))
            return draft

    def draft(self, path: str, change: Change) -> Draft:
        """Work a change out without doing it; if it is done later, the file must still be as it was now."""
        draft = self._drafted(self._place(path), change)
        previews = self._previews
        while len(previews) >= PREVIEWS:
            del previews[next(iter(previews))]
        previews[draft.place.key, change] = digest(draft.before or b"")
        return draft

    def _place(self, path: str) -> Place:
        place = self.workspace.locate(path)
        if not place.parts or path.endswith(("/", os.sep)):
            raise ToolError(f"`{place.name}` is a directory; give the path of a file.")
        return place

    def _still_there(self, place: Place, change: Change, turn: tuple[str, int]) -> None:
        """Refuse line numbers that an edit of the same turn has made wrong."""
        when, line = self._moved.get(place.key, (None, 0))
        if isinstance(change, Lines) and when == turn and change.end_line >= line:
            raise ToolError(
                f"An edit before this one moved the lines of `{place.name}` from line {line} on. Read it again."
            )

    def _note_moved(self, draft: Draft, turn: tuple[str, int]) -> None:
        splice, text = draft.splice, draft.document.text
        if splice.new.count("\n") != text.count("\n", splice.start, splice.end):
            line = text.count("\n", 0, splice.start) + 1
            when, before = self._moved.get(draft.place.key, (None, line))
            self._moved[draft.place.key] = turn, min(line, before) if when == turn else line

    def _drafted(self, place: Place, change: Change) -> Draft:
        before, state = read(place)
        known = self.seen.digests.get(place.key)
        if before is None and not change.creates:
            raise ToolError(f"There is no `{place.name}`. To make it, use write_file.")
        if known is not None and known != digest(before or b""):
            raise ToolError(f"`{place.name}` was changed since it was read. Read it again, then edit.")
        if before is not None and known is None and not change.blind:
            raise ToolError(f"`{place.name}` exists and was not read yet. Read it first, then edit.")
        if before is None and not all(map(str.isprintable, place.parts)):
            raise ToolError("A new file's name can't hold characters that are not seen.")
        try:
            document = Document.read(before or b"")
            splice = change.find(document).trimmed(document.text)
            after = document.edited(splice)
            if after == before:
                raise ToolError("it reads so already, so nothing would change")
        except ToolError as fault:
            raise ToolError(f"`{place.name}` was not changed: {fault}.") from None
        return Draft(place, before, state, document, splice, after)


def read(place: Place) -> tuple[bytes | None, os.stat_result | None]:
    """Read a whole file and its state; None where there is none. Raises ToolError for what can't be edited."""
    try:
        with os.fdopen(opened(place), "rb") as stream:
            state = os.fstat(stream.fileno())
            if state.st_size > REMEMBERED:
                raise ToolError(f"`{place.name}` is too large to edit ({state.st_size:,} bytes).")
            if not state.st_mode & 0o222:
                raise ToolError(f"`{place.name}` is write-protected.")
            return stream.read(REMEMBERED + 1), state
    except FileNotFoundError:
        return None, None
    except IsADirectoryError:
        raise ToolError(f"`{place.name}` is a directory; give the path of a file.") from None
    except OSError as fault:
        raise ToolError(f"`{place.name}` can't be read: {reason(fault)}.") from None


def write(place: Place, data: bytes, state: os.stat_result | None) -> None:
    """Put a file in the place of the one in this state (None: of none), in one step. Raises ToolError."""
    *above, name = place.parts
    beside = f".{name[:40]}.{secrets.token_hex(6)}~"
    try:
        with folder(place.root, above, make=state is None) as parent:
            if state is not None:
                os.close(parent.open(name, os.O_WRONLY))  # the rename would not ask whether we may
            try:
                _written(parent.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL), data, state)
                if _state(parent, name) != (state and _essence(state)):
                    raise ToolError(
                        f"`{place.name}` was changed in this very moment. Read it again, then edit."
                    )
                parent.replace(beside, name)
            except BaseException:
                with contextlib.suppress(OSError):
                    parent.remove(beside)
                raise
    except OSError as fault:
        raise ToolError(f"`{place.name}` can't be written: {reason(fault)}. Nothing was changed.") from None


def _written(descriptor: int, data: bytes, state: os.stat_result | None) -> None:
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        if state is not None and hasattr(os, "fchmod"):
            with contextlib.suppress(OSError):  # only root may give a file away
                os.fchown(descriptor, state.st_uid, state.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(state.st_mode))
        stream.flush()
        os.fsync(descriptor)


def _essence(state: os.stat_result) -> tuple[int, ...]:
    return state.st_ino, state.st_dev, state.st_size, state.st_mtime_ns


def _state(parent: Folder, name: str) -> tuple[int, ...] | None:
    try:
        return _essence(parent.stat(name))
    except FileNotFoundError:
        return None
