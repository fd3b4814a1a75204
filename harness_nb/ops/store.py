"""Where journals are kept: a store holds logs, one for each session, whatever lies beneath. Book chapter 21.

store = open_store(".harness_nb/sessions")           # a folder of JSONL files, one a session: ops/jsonl.py
store = open_store("sqlite:///sessions.db")          # or postgresql://...: ops/sql.py
log = store.open("main")
log.append(Record("notice", {"text": "hello"}))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness_nb.errors import HarnessError
from harness_nb.ops.records import Record
from harness_nb.ops.redacted import Redaction


class StoreError(HarnessError):
    """A record could not be kept, or a journal not be read; the message says why, and what to do."""


class BusyError(StoreError):
    """Another process writes this journal, and its kind of store has one writer at a time."""


@dataclass(frozen=True, slots=True)
class Info:
    """What a list of sessions says of one: `size` in bytes, 0 where the store can't tell; times are UTC in ISO form."""

    name: str
    records: int
    size: int
    began: str
    changed: str


class Log(Protocol):
    """One session's journal, open. It only grows."""

    @property
    def name(self) -> str:
        """The session's name."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """What was wrong with what was read, each in a sentence for a person, e.g. a line that was cut off."""
        ...

    @property
    def shared(self) -> bool:
        """Whether other processes may write it at the same time."""
        ...

    @property
    def gone(self) -> bool:
        """Whether the journal was deleted or replaced since it was opened, so that nothing can be kept in it any more."""
        ...

    def read(self) -> list[Record]:
        """Return every record in order, the `session` record first; what can't be read is passed over with a warning."""
        ...

    def append(self, record: Record, *, sync: bool = False) -> Record:
        """Keep a record and return it with its `seq`; with `sync` it is on disk, power cut or not, when this returns.

        Raises StoreError if it could not be kept: then nothing of it is left.
        """
        ...

    def close(self) -> None:
        """Let others write; a second time does nothing."""
        ...


class Store(Protocol):
    """A place with journals in it."""

    def open(self, name: str, *, write: bool = True) -> Log:
        """Open a session's journal, made on first writing; to read only, any number of readers may.

        Raises BusyError where another process writes it, and StoreError where it can't be had.
        """
        ...

    def sessions(self) -> list[Info]:
        """List the sessions, the one that changed last first."""
        ...

    def delete(self, name: str) -> None:
        """Remove a session for good. Raises BusyError while it is written, StoreError if there is none."""
        ...


def open_store(where: str | Path, redaction: Redaction | None = None) -> Store:
    """Open the store at a folder's path or a database's URL; nothing is made until something is kept.

    `redaction` says what is taken out of each record before it is kept, over and above keys; None takes out keys only.
    Raises StoreError, with the fix, for a URL of no known kind, and for a package that is missing.
    """
    where = str(where)
    if "://" in where:
        from harness_nb.ops.sql import SqlStore

        return SqlStore(where, redaction)
    from harness_nb.ops.jsonl import JsonlStore

    return JsonlStore(where, redaction)
