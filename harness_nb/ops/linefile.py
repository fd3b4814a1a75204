"""One session's file of JSON lines, open: read by anyone, grown by one process. Book chapter 21.

Theory of operation. The file only grows, by one write of one whole line for each record. What a crash cuts off is thus
the end of the last line, and it is mended when the session is next opened to be written: the piece of a line goes to
a file beside it (`.torn`), so that the next record has a line of its own. Whole lines are never touched.
"""

from __future__ import annotations

import os
import stat
import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from weakref import finalize

from harness_nb.ops.disk import (
    ELSEWHERE,
    HalfWrittenError,
    folder_to_disk,
    keep_aside,
    sentence,
    shown,
    to_disk,
    told,
    write_whole,
)
from harness_nb.ops.lines import NOTHING, Found, data_text, found, json_text, line
from harness_nb.ops.lock import Held, Lock
from harness_nb.ops.records import SCHEMA, Record
from harness_nb.ops.redacted import Redaction
from harness_nb.ops.store import BusyError, StoreError

FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
"""Write wherever the end is, and don't wait for what is no file."""

BEGINNING = b'{"seq": 1, '
"""How a journal's first line begins."""


class JsonlLog:
    """One session's file, open to be read, also while somebody writes it."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._mended: list[str] = []
        self._faults: list[str] = []

    @property
    def name(self) -> str:
        """The session's name."""
        return self._name

    @property
    def warnings(self) -> Sequence[str]:
        """What was mended when the file was opened, and what was wrong with it when it was last read."""
        return (*self._mended, *self._faults)

    @property
    def shared(self) -> bool:
        """It is not: one process writes it at a time."""
        return False

    @property
    def gone(self) -> bool:
        """Whether there is no such file any more."""
        return not self._path.is_file()

    def read(self) -> list[Record]:
        """Return every whole record in the file's order, but for the session's own, which comes first."""
        return self._session_first(self._found())

    def append(self, record: Record, *, sync: bool = False) -> Record:
        """Raise StoreError: this one only reads."""
        raise StoreError(f"The session `{self._name}` was opened to be read only.")

    def close(self) -> None:
        """Do nothing: a reader holds nothing."""

    def _found(self) -> Found:
        with told(self._path, "read"):
            content = self._path.read_bytes()
        return self._found_in(content)

    def _found_in(self, content: bytes) -> Found:
        read = found(content)
        self._faults = [f"{shown(self._path)}: {warning}" for warning in read.warnings]
        return read

    def _session_first(self, read: Found) -> list[Record]:
        records = read.records
        place = next((place for place, record in enumerate(records) if record.kind == "session"), None)
        if place is None:
            self._faults.append(
                f"{shown(self._path)}: No line says which session this is; it is called as its file is."
            )
            made_up = _session(self._name, uuid.uuid5(uuid.NAMESPACE_URL, self._name))
            return [replace(made_up, at=records[0].at if records else ""), *records]
        return [records[place], *records[:place], *records[place + 1 :]]


class JsonlWriter(JsonlLog):
    """One session's file, open to be written by this process alone; its threads may share it.

    Raises BusyError where another process has it, and StoreError where it can't be written.
    """

    def __init__(self, path: Path, name: str, redaction: Redaction) -> None:
        super().__init__(path, name)
        self._redaction = redaction
        self._pid = os.getpid()
        self._turn = threading.Lock()
        self._half = False
        self._unread: Found | None = None
        self._next = 1
        with told(path, "written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = locked(path, name)
            try:
                self._fd = os.open(path, FLAGS | os.O_CREAT, 0o600)
            except BaseException:
                lock.release()
                raise
            self._end = finalize(self, _let_go, self._fd, lock)
            try:
                self._begin()
            except BaseException:
                there = os.fstat(self._fd)
                if stat.S_ISREG(there.st_mode) and not there.st_size:
                    path.unlink()
                self._end()
                raise

    @property
    def gone(self) -> bool:
        """Whether the open file was deleted or replaced."""
        return self._end.alive and not os.fstat(self._fd).st_nlink

    def read(self) -> list[Record]:
        """Return every whole record; the first time, as it was found on opening."""
        unread, self._unread = self._unread, None
        return self._session_first(unread or self._found())

    def append(self, record: Record, *, sync: bool = False) -> Record:
        """Keep a record as the file's last line, by one write; with `sync` it is on disk when this returns."""
        if self._pid != os.getpid():
            raise BusyError(
                f"The session `{self._name}` is written by the process that this one was forked from."
            )
        data = data_text(record, self._redaction)
        with self._turn:
            return self._write(record, data, sync=sync)

    def close(self) -> None:
        """Let others write; a second time does nothing."""
        if self._pid == os.getpid():
            with self._turn:
                self._end()

    def _write(self, record: Record, data: str, *, sync: bool) -> Record:
        kept = Record(record.kind, record.data, record.run, record.at, self._next)
        content = line(kept, data).encode()
        self._unread = None
        try:
            self._look()
            write_whole(self._fd, b"\n" + content if self._half else content, sync=sync)
        except OSError as fault:
            self._half |= isinstance(fault, HalfWrittenError)
            raise StoreError(sentence(fault, self._path, "written")) from None
        self._half = False
        self._next += 1
        return kept

    def _look(self) -> None:
        """See that the file is still ours to write, and still where it can be found again."""
        if not self._end.alive:
            raise StoreError(f"The session `{self._name}` is closed; open it again.")
        if self.gone:
            raise StoreError(
                f"{shown(self._path)} was deleted or replaced while it was open; the next time it is opened, it is begun anew."
            )

    def _begin(self) -> None:
        """Look at what is there, mend its end, and write the session's own record where there is none."""
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            raise StoreError(f"{shown(self._path)} is no plain file; move it away, {ELSEWHERE}.")
        content = self._path.read_bytes()
        read = self._found_in(content)
        session = next((record for record in read.records if record.kind == "session"), None)
        schema = session.data.get("schema") if session else None
        if isinstance(schema, int) and schema > SCHEMA:
            raise StoreError(
                f"The session `{self._name}` was written by a later version of harness_nb, so this one can only read it:"
                " update harness_nb, or use another name."
            )
        if read.missing_end or read.end < len(content):
            self._mend(content, read)
            read = self._found_in(content[: read.end])
        self._next = max((record.seq for record in read.records), default=0) + 1
        if session is None:
            session = _session(self._name, uuid.uuid4())
            self._write(session, json_text(session.data), sync=True)
            folder_to_disk(self._path.parent)
        else:
            self._unread = read

    def _mend(self, content: bytes, read: Found) -> None:
        rest = content[read.end :]
        if kept := rest.strip(NOTHING):
            begun = b"\n" not in kept and kept.startswith(BEGINNING[: len(kept)])
            if not read.records and not begun:
                raise StoreError(
                    f"{shown(self._path)} holds no session: move it away, or use another name than `{self._name}`."
                )
            aside = torn(self._path)
            keep_aside(aside, kept)
            number = content.count(b"\n", 0, read.end) + 1
            self._mended.append(
                f"{shown(self._path)}: From line {number:,} on it was damaged; what stood there is now in {shown(aside)}."
            )
        os.ftruncate(self._fd, read.end)
        if read.missing_end:
            write_whole(self._fd, b"\n")
        to_disk(self._fd)


def _session(name: str, number: uuid.UUID) -> Record:
    return Record("session", {"name": name, "schema": SCHEMA, "id": number.hex})


def locked(path: Path, name: str) -> Lock:
    """Take the lock of a session's file. Raises BusyError, with the process that has it."""
    try:
        return Lock(path.with_name(f"{path.name}.lock"))
    except Held as held:
        who = {0: "another process", os.getpid(): "this process already"}.get(
            held.pid, f"another process, {held.pid},"
        )
        raise BusyError(
            f"The session `{name}` is being written by {who}: end that one, use another name, or fork it."
        ) from None


def _let_go(fd: int, lock: Lock) -> None:
    os.close(fd)
    lock.release()


def torn(path: Path) -> Path:
    """Where what was cut off from a session's file is kept."""
    return path.with_name(f"{path.name}.torn")
