"""Journals in a database, for many processes and machines at once: a store in SQL. Book chapter 21.

    store = SqlStore("sqlite:///sessions.db")            # or "postgresql://USER:PASSWORD@HOST:PORT/NAME"

Theory of operation. A session is a row, a record another. Whoever appends first raises the session's counter: that
gives the record its number and holds the row until the commit, so that appends to one session come one after the
other, and numbers rise by one in the order of commits. A reader, however often it looks, sees a journal that only
grows at its end. A session may have many writers; one that is deleted takes no more records.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from harness_nb.ops.database import Database
from harness_nb.ops.lines import data_text, json_text, parsed
from harness_nb.ops.records import SCHEMA, Record, in_bulk
from harness_nb.ops.redacted import Redaction
from harness_nb.ops.store import Info, StoreError
from harness_nb.ops.tables import tables
from harness_nb.strict import clean

if TYPE_CHECKING:
    from sqlalchemy import Connection


class SqlStore:
    """Journals in the database at a URL; nothing is made before one is opened to be written."""

    def __init__(self, where: str, redaction: Redaction | None = None) -> None:
        """`redaction` takes out what must not be kept. Raises StoreError for a wrong URL and a missing package."""
        self._database = Database(where)
        self._redaction = redaction or Redaction()
        self._made = False

    def open(self, name: str, *, write: bool = True) -> SqlLog:
        """Open a session's journal, made where there is none if it is to be written; any number may write it."""
        name = clean(name)
        if not name.strip():
            raise StoreError("A session needs a name, such as `main`.")
        if write:
            self._make()
        with ExitStack() as stack:
            stack.enter_context(self._database.used())
            session = self._found(name) or (self._new(name) if write else "")
            if not session:
                raise StoreError(self._none(name))
            if write:
                self._check_writable(name, session)
            return SqlLog(self._database, name, session, self._redaction if write else None, stack.pop_all())

    def sessions(self) -> list[Info]:
        """List the sessions, the one that changed last first."""
        if not self._there():
            return []
        table = tables().sessions
        with self._database.transaction() as connection:
            rows = connection.execute(table.select().order_by(table.c.changed.desc())).all()
        return [Info(row.name, row.records, row.size, row.began, row.changed) for row in rows]

    def delete(self, name: str) -> None:
        """Remove a session for good, also while others write it: what they append then is a StoreError."""
        name = clean(name)
        session = self._found(name)
        if not session:
            raise StoreError(self._none(name))
        sessions, records = tables().sessions, tables().records
        with self._database.transaction(write=True, sync=True) as connection:
            connection.execute(sessions.delete().where(sessions.c.id == session))
            connection.execute(records.delete().where(records.c.session == session))

    def _make(self) -> None:
        """Make the tables where there are none."""
        self._database.prepare()
        if not self._there():
            with self._database.transaction(write=True, sync=True, alone=True) as connection:
                tables().every.create_all(connection)

    def _there(self) -> bool:
        """Tell whether there are tables, without making what isn't there."""
        from sqlalchemy import inspect

        if not self._made and not self._database.missing:
            with self._database.transaction() as connection:
                self._made = inspect(connection).has_table(tables().records.name)
        return self._made

    def _found(self, name: str) -> str:
        """Find a session's id, empty if there is none."""
        if not self._there():
            return ""
        with self._database.transaction() as connection:
            return _id(connection, name)

    def _new(self, name: str) -> str:
        """Add a session with its first record, unless another did so just before, and return its id."""
        session = uuid4().hex
        first = Record("session", {"name": name, "schema": SCHEMA, "id": session}, seq=1)
        data = json_text(first.data)
        row = {"id": session, "digest": _digest(name), "name": name, "records": 1, "size": len(data.encode())}
        with self._database.transaction(write=True, sync=True, alone=True) as connection:
            if there := _id(connection, name):
                return there
            connection.execute(tables().sessions.insert().values(**row, began=first.at, changed=first.at))
            _insert(connection, session, first, data)
        return session

    def _check_writable(self, name: str, session: str) -> None:
        sessions, records = tables().sessions, tables().records
        with self._database.transaction(write=True) as connection:
            connection.execute(sessions.update().where(sessions.c.id == session).values(id=session))
            first = records.select().where(records.c.session == session).order_by(records.c.seq).limit(1)
            rows = connection.execute(first).all()
        record = _record(*rows[0][1:]) if rows else None
        schema = record.data.get("schema") if record else None
        if isinstance(schema, int) and schema > SCHEMA:
            raise StoreError(
                f"The session `{name}` was written by a later version of harness_nb, and this one can only read it:"
                " update harness_nb, or go on under another name."
            )

    def _none(self, name: str) -> str:
        near = difflib.get_close_matches(name, [info.name for info in self.sessions()], n=3)
        there = f" Near it: {', '.join(f'`{other}`' for other in near)}." if near else ""
        return f"No session is called `{name}` here: {self._database.place} holds none of this name.{there}"


class SqlLog:
    """One session's records, open; made by `SqlStore.open`. Threads may share it."""

    def __init__(
        self, database: Database, name: str, session: str, redaction: Redaction | None, use: ExitStack
    ) -> None:
        self._database = database
        self._name = name
        self._session = session
        self._redaction = redaction
        self._use = use
        self._open = True
        self._doubtful: dict[tuple[str, ...], int] = {}
        self._warnings: list[str] = []

    @property
    def name(self) -> str:
        """The session's name."""
        return self._name

    @property
    def warnings(self) -> Sequence[str]:
        """What was wrong with the records when they were last read."""
        return tuple(self._warnings)

    @property
    def shared(self) -> bool:
        """It is."""
        return True

    @property
    def gone(self) -> bool:
        """Whether the session was deleted; one of the same name may have been made since."""
        table = tables().sessions
        with self._database.transaction() as connection:
            query = table.select().with_only_columns(table.c.id).where(table.c.id == self._session)
            return connection.scalar(query) is None

    @in_bulk()
    def read(self) -> list[Record]:
        """Return every record in order, as of one moment, whoever writes meanwhile."""
        table = tables().records
        with self._database.transaction() as connection:
            query = table.select().where(table.c.session == self._session).order_by(table.c.seq)
            rows = connection.execute(query).all()
        if not rows:
            raise StoreError(self._deleted())
        self._warnings = []
        read = [_record(*row[1:]) for row in rows]
        broken = [f"{row.seq:,}" for row, record in zip(rows, read, strict=True) if record is None]
        if broken:
            what = f"Record {broken[0]}" if len(broken) == 1 else f"Each of the records {', '.join(broken)}"
            self._warnings = [f"{self._database.place}: {what} of `{self._name}` is damaged."]
        return [record for record in read if record is not None]

    def append(self, record: Record, *, sync: bool = False) -> Record:
        """Keep a record, numbered one more than the last of the session, whoever wrote that.

        Where the connection breaks while it is kept, it may be there although this raises StoreError: only the server
        knows. The same record appended again is then found, and not kept twice.
        """
        if self._redaction is None:
            raise StoreError(f"The session `{self._name}` was opened only to be read.")
        if not self._open:
            raise StoreError(f"The session `{self._name}` is closed; open it again.")
        data = data_text(record, self._redaction)
        record = replace(record, kind=clean(record.kind), run=clean(record.run), at=clean(record.at))
        known = (record.at, record.kind, record.run, data)
        with self._database.transaction(write=True, sync=sync) as connection:
            seq = self._kept(connection, known)
            if not seq:
                seq = self._next(connection, len(data.encode()), record.at)
                _insert(connection, self._session, replace(record, seq=seq), data)
                self._doubtful[known] = seq
        self._doubtful.pop(known, None)
        return replace(record, seq=seq)

    def close(self) -> None:
        """Give back the connections; a second time does nothing."""
        self._open = False
        self._use.close()

    def _next(self, connection: Connection, size: int, at: str) -> int:
        """Take the next number; whoever wants one, too, waits for this transaction's end."""
        taken = {"session": self._session, "more": size, "now": at}
        seq = connection.scalar(tables().taking, taken)
        if seq is None:
            raise StoreError(self._deleted())
        return int(seq)

    def _kept(self, connection: Connection, known: tuple[str, ...]) -> int:
        """Tell the number of a record whose commit was never answered, if it was kept after all, else 0."""
        if known not in self._doubtful:
            return 0
        sessions, records = tables().sessions, tables().records
        # With the session's row held, no commit of an earlier connection can be under way.
        connection.execute(sessions.select().where(sessions.c.id == self._session).with_for_update())
        seq = self._doubtful[known]
        row = connection.execute(
            records.select().where(records.c.session == self._session, records.c.seq == seq)
        ).one_or_none()
        return seq if row is not None and tuple(row[2:]) == known else 0

    def _deleted(self) -> str:
        return f"The session `{self._name}` was deleted while it was open; the next time it is opened, it is begun anew."


def _record(seq: object, at: object, kind: object, run: object, data: object) -> Record | None:
    """Read a row; a database that others can write may hold anything."""
    try:
        found = {"seq": seq, "at": at, "kind": kind, "run": run, "data": parsed(str(data))}
    except ValueError:
        return None
    match found:
        case {"seq": int(seq), "at": str(at), "kind": str(kind), "run": str(run), "data": dict(data)}:
            return Record(kind, data, run, at, seq)
    return None


def _insert(connection: Connection, session: str, record: Record, data: str) -> None:
    row = {"seq": record.seq, "at": record.at, "kind": record.kind, "run": record.run, "data": data}
    connection.execute(tables().adding, {"session": session, **row})


def _id(connection: Connection, name: str) -> str:
    table = tables().sessions
    found = connection.scalar(
        table.select().with_only_columns(table.c.id).where(table.c.digest == _digest(name))
    )
    return str(found or "")


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
