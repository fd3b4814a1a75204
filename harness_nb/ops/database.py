"""A database by its URL, SQLite or PostgreSQL, through SQLAlchemy: what a store in SQL stands on. Book chapter 21.

Its failures are sentences for a person, in which no password stands.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness_nb.ops.disk import sentence, shown
from harness_nb.ops.engines import PATIENCE, postgres, sqlite, to_wal
from harness_nb.ops.store import StoreError

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

SERVER = {
    "connect_timeout": "10",
    "tcp_user_timeout": "30000",  # milliseconds until a server that fell silent counts as gone
    "client_encoding": "utf8",
    "application_name": "harness_nb",
}
"""How a PostgreSQL server is spoken to, unless the URL says otherwise."""

ALONE = 4_708_512
"""A number of our own: whoever holds PostgreSQL's lock of this number is alone."""

HOW = "write sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/NAME"

SQLITE_SAYS = {
    sqlite3.SQLITE_PERM: "it may not be opened; allow it, or name another file",
    sqlite3.SQLITE_BUSY: f"another process has held it for {PATIENCE} s; end that one, or try again",
    sqlite3.SQLITE_READONLY: "it is read-only; allow writing to it and its folder, or name another file",
    sqlite3.SQLITE_IOERR: "the disk can't be read or written; see whether it is full or broken",
    sqlite3.SQLITE_CORRUPT: "it is damaged; put a copy in its place, or save what is left with `sqlite3 FILE .recover`",
    sqlite3.SQLITE_FULL: "the disk is full; make room and try again",
    sqlite3.SQLITE_CANTOPEN: "it can't be opened; see whether its folder is there and may be written",
    sqlite3.SQLITE_TOOBIG: "the record is too large for SQLite",
    sqlite3.SQLITE_NOTADB: "it is no SQLite database; name another file",
}
"""What SQLite's codes of errors mean to a person, and what to do."""


class Database:
    """What lies at a URL; nothing is opened before it is used. Every failure is a StoreError that names no password."""

    def __init__(self, where: str) -> None:
        """Raises StoreError for a URL that can't be used, and for a missing package."""
        url = _parsed(where)
        self.file = Path(url.database or "").absolute() if url.drivername == "sqlite" else None
        self._url = url
        named = (url.password, url.query.get("password"), url.query.get("sslpassword"))
        self._secrets = [text for text in named if text and isinstance(text, str)]
        self._engine: Engine | None = None
        self._process = os.getpid()
        self._users = 0
        self._lock = threading.Lock()

    @property
    def place(self) -> str:
        """What to call it when speaking to a person."""
        if self.file is not None:
            return f"The database {shown(self.file)}"
        at = f"{self._url.host}:{self._url.port or 5432}" if self._url.host else "this machine"
        return f"The database `{self._url.database or self._url.username or 'postgres'}` at {at}"

    @property
    def missing(self) -> bool:
        """Whether it is a file that isn't there yet: reading would make it."""
        with self._told():
            return self.file is not None and not self.file.exists()

    @contextlib.contextmanager
    def used(self) -> Iterator[Engine]:
        """Keep connections for reuse until the last one who uses the database is done."""
        with self._lock:
            if self._engine is not None and self._process != os.getpid():
                self._engine.dispose(close=False)  # what we got by a fork is still the other process's
            self._process = os.getpid()
            if self._engine is None:
                self._engine = sqlite(self.file) if self.file else postgres(self._url)
            self._users += 1
        try:
            yield self._engine
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._engine.dispose()

    @contextlib.contextmanager
    def transaction(
        self, *, write: bool = False, sync: bool = False, alone: bool = False
    ) -> Iterator[Connection]:
        """Do everything inside or nothing.

        With `sync` it is on disk afterwards, else SQLite may still have it to write. With `alone`, what others do
        alone waits for the end of it.
        """
        with self._told(), self.used() as engine, engine.connect() as connection:
            connection.execution_options(harness_nb_write=write, harness_nb_sync=sync)
            with connection.begin():
                if alone and self.file is None:  # in SQLite, whoever writes is alone
                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ALONE})")
                yield connection

    def prepare(self) -> None:
        """Make an SQLite file, and the folder it lies in, ready for readers beside a writer."""
        if self.file is not None:
            with self._told():
                self.file.parent.mkdir(parents=True, exist_ok=True)
                to_wal(self.file)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, OSError) as fault:
            raise StoreError(self._sentence(fault)) from None

    def _sentence(self, fault: Exception) -> str:
        if isinstance(fault, OSError) and self.file is not None:
            return sentence(fault, self.file.parent, "used")
        cause = getattr(fault, "orig", None) or fault
        if isinstance(cause, sqlite3.Error):
            why = SQLITE_SAYS.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF)
            return f"{self.place} can't be used: {why or cause}."
        words = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        for secret in self._secrets:
            words = words.replace(secret, "***")
        words = words.removeprefix("connection failed: ").rstrip(".")[:300]
        if getattr(fault, "connection_invalidated", False):
            return f"{self.place} broke off: {words}. When it is back, try again."
        if getattr(cause, "sqlstate", None):
            return f"{self.place} refused: {words}."
        return f"{self.place} can't be reached: {words}. See whether it runs, and whether the URL is right."


def _parsed(where: str) -> URL:
    kind, _, driver = where.partition("://")[0].lower().partition("+")
    if kind not in {"sqlite", "postgresql", "postgres"}:
        raise StoreError(f"Sessions are kept in a folder or a database, not at `{kind[:40]}://`: {HOW}.")
    if driver not in {"", "pysqlite" if kind == "sqlite" else "psycopg"}:
        raise StoreError(f"Sessions are not kept through the driver `{driver[:40]}`: leave it out, {HOW}.")
    try:
        from sqlalchemy import make_url
        from sqlalchemy.exc import ArgumentError
    except ImportError:
        raise _no_package("A store at a URL", "sqlalchemy") from None
    wrong = StoreError(
        f"This URL of a database can't be read: {HOW}. In a password, @ is %40, : is %3A, / is %2F and % is %25."
    )
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):  # a port that is no number
        raise wrong from None
    if "@" in (url.host or "") or not 0 <= (url.port or 0) <= 65_535:
        raise wrong
    if kind == "sqlite":
        return _checked_file(url.set(drivername=kind))
    try:
        import psycopg  # noqa: F401 - SQLAlchemy would say less of what is missing
    except ImportError:  # the package, or the C library that it wraps
        raise _no_package("PostgreSQL", "psycopg") from None
    given = {name: value for name, value in SERVER.items() if name not in url.query}
    return url.set(drivername="postgresql+psycopg").update_query_dict(given)


def _checked_file(url: URL) -> URL:
    if url.host or url.query or (url.database or "").startswith("file:"):
        raise StoreError(
            "SQLite's file is named by its path alone: sqlite:///FILE, or sqlite:////FILE from the root."
        )
    if (url.database or ":memory:") == ":memory:":
        raise StoreError("A database in memory keeps nothing: name a file, such as sqlite:///sessions.db.")
    return url


def _no_package(who: str, package: str) -> StoreError:
    return StoreError(f"{who} needs the package {package}: pip install 'harness-nb[store]'.")
