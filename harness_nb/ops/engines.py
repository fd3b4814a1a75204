"""SQLAlchemy set up for many writers and readers at once, on SQLite and on PostgreSQL. Book chapter 21.

SQLite is used in WAL mode, so that readers and a writer don't wait for each other, and a writer says so when it begins:
two that first read and then wrote would end in a deadlock. PostgreSQL's commits are always on disk: its server may
crash while we go on, and what it had only in memory would be a hole in a journal.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

PATIENCE = 30
"""Seconds to wait for another writer to finish, before that is an error."""

NO_WAL = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}
"""What SQLite says of a file in WAL mode where the files beside it can't be made."""


def postgres(url: URL) -> Engine:
    """Make what connects to a PostgreSQL server, and finds out by itself when it has to do so anew."""
    from sqlalchemy import create_engine, event

    # The ping finds a connection that a closed laptop or a restart has broken, before a record is lost to it.
    engine = create_engine(url, pool_pre_ping=True, isolation_level="READ COMMITTED", hide_parameters=True)

    def begun(connection: Connection) -> None:
        if connection.get_execution_options().get("harness_nb_write"):
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{PATIENCE}s'")

    event.listen(engine, "begin", begun)
    return engine


def sqlite(file: Path) -> Engine:
    """Make what opens an SQLite file."""
    from sqlalchemy import URL, create_engine, event

    url = URL.create("sqlite", database=str(file))
    engine = create_engine(url, creator=lambda: _opened(file), hide_parameters=True)

    def begun(connection: Connection) -> None:
        options = connection.get_execution_options()
        commit = "FULL" if options.get("harness_nb_sync") else "NORMAL"
        connection.exec_driver_sql(f"PRAGMA synchronous = {commit}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("harness_nb_write") else "BEGIN")

    event.listen(engine, "begin", begun)
    return engine


def _opened(file: Path) -> sqlite3.Connection:
    """Open the file; where nobody can write beside it, as one that doesn't change."""

    def connected(name: str) -> sqlite3.Connection:
        # No isolation level: it would begin transactions by itself, and too late.
        return sqlite3.connect(name, PATIENCE, isolation_level=None, check_same_thread=False, uri=True)

    connection = connected(file.as_uri())
    try:
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.Error as fault:
        connection.close()
        if fault.sqlite_errorcode & 0xFF not in NO_WAL or Path(f"{file}-wal").exists():
            raise
        connection = connected(f"{file.as_uri()}?immutable=1")
    connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
    # One text that is damaged must not hide the rest.
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def to_wal(file: Path) -> None:
    """Switch the file to WAL. SQLite doesn't wait for others who do so, too."""
    until = time.monotonic() + PATIENCE
    with contextlib.closing(_opened(file)) as connection:
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as fault:
                if fault.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
            time.sleep(0.02)
