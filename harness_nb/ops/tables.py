"""The tables of a store in SQL: a row for each session, and one for each of its records. Book chapter 21."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Insert, MetaData, Table, Update


@dataclass(frozen=True, slots=True)
class Tables:
    """The two tables. Their names would change with their form, so that two versions can share a database."""

    every: MetaData
    sessions: Table
    records: Table
    taking: Update
    """Raises a session's counter and returns it; made once, since it is said for every record."""
    adding: Insert


@cache
def tables() -> Tables:
    """Describe them."""
    from sqlalchemy import BigInteger, Column, MetaData, String, Table, Text, bindparam

    every = MetaData()
    sessions = Table(
        "harness_nb_sessions",
        every,
        Column("id", String(32), primary_key=True),
        Column(
            "digest", String(64), nullable=False, unique=True
        ),  # of the name, which may be too long for an index
        Column("name", Text, nullable=False),  # with JSON's escapes, so that any text is one
        Column("records", BigInteger, nullable=False),
        Column("size", BigInteger, nullable=False),
        Column("began", Text, nullable=False),
        Column("changed", Text, nullable=False),
    )
    records = Table(
        "harness_nb_records",
        every,
        Column("session", String(32), primary_key=True),
        Column("seq", BigInteger, primary_key=True, autoincrement=False),
        Column("at", Text, nullable=False),
        Column("kind", Text, nullable=False),
        Column("run", Text, nullable=False),
        Column("data", Text, nullable=False),
    )
    count = sessions.c.records
    taking = (
        sessions.update()
        .where(sessions.c.id == bindparam("session"))
        .values(records=count + 1, size=sessions.c.size + bindparam("more"), changed=bindparam("now"))
        .returning(count)
    )
    return Tables(every, sessions, records, taking, records.insert())
