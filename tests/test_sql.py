"""What only stores in a database do: their URLs, their servers that go away, and rows that others wrote."""

import os
import select
import socket
import socketserver
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest
from cluster import fresh, schema

from harness_nb.ops.records import SCHEMA, Record
from harness_nb.ops.sql import SqlStore
from harness_nb.ops.store import StoreError, open_store

PASSWORD = "geheimnis"


@pytest.fixture(params=["sqlite", "postgres"])
def where(request, tmp_path):
    return sqlite(tmp_path) if request.param == "sqlite" else schema(tmp_path)


@pytest.fixture(scope="module")
def cluster():
    """A server that tests may kill; one of its users has a password."""
    started = fresh()
    rules = started.data / "pg_hba.conf"
    locked = "host all locked 127.0.0.1/32 scram-sha-256\n"
    rules.write_text(locked + rules.read_text(encoding="utf-8"), encoding="utf-8")
    in_sql(started.url, "SELECT pg_reload_conf()")
    in_sql(started.url, "CREATE ROLE locked LOGIN PASSWORD 'right'")
    yield started
    started.remove()


@pytest.fixture
def server(cluster):
    """That server, with a database for one test."""
    import psycopg

    own = copy(cluster)
    own.database = f"test_{uuid4().hex}"
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {own.database}")
    return own


def sqlite(folder):
    return f"sqlite:///{folder / 'sessions.db'}"


def said(text):
    return Record("notice", {"text": text}, "r")


def texts(log):
    return [record.data["text"] for record in log.read()[1:]]


def in_sql(where, command, *values):
    """Do something to the database that no store would."""
    if where.startswith("sqlite"):
        with closing(sqlite3.connect(where.removeprefix("sqlite:///"))) as connection, connection:
            return connection.execute(command, values).fetchall()
    import psycopg

    with psycopg.connect(where) as connection:
        connection.execute(command.replace("?", "%s"), values)
    return None


def sentence(action):
    """Return what a StoreError says, and see to it that it is for a person and tells no password."""
    with pytest.raises(StoreError) as caught:
        action()
    said = str(caught.value)
    assert PASSWORD not in said
    assert "\n" not in said
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return said


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mysql://me:geheimnis@here/db", "folder or a database, not at `mysql://`"),
        ("https://me:geheimnis@here/db", "sqlite:///FILE or postgresql://"),
        ("://", "not at `://`"),
        ("postgresql+asyncpg://me:geheimnis@here/db", "driver `asyncpg`: leave it out"),
        ("sqlite+aiosqlite:///x.db", "driver `aiosqlite`: leave it out"),
        ("postgresql://me:geheimnis@here:port/db", "can't be read"),
        ("postgresql://me:geheimnis@here:99999/db", "can't be read"),
        ("postgresql://me:other@geheimnis@here/db", "@ is %40"),
        ("sqlite:/x.db", "not at"),
        ("sqlite://x.db", "path alone"),
        ("sqlite:///x.db?mode=ro", "path alone"),
        ("sqlite:///file:x.db", "path alone"),
        ("sqlite://", "in memory keeps nothing"),
        ("sqlite:///:memory:", "in memory keeps nothing"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_in_a_sentence(url, why):
    assert why in sentence(lambda: SqlStore(url))


@pytest.mark.parametrize(
    ("url", "missing"),
    [
        ("sqlite:///x.db", "sqlalchemy"),
        ("postgresql://here/db", "sqlalchemy"),
        ("postgres://here/db", "psycopg"),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_brings_it(url, missing):
    program = f"""
import sys
sys.modules[{missing!r}] = None
from harness_nb.ops.store import StoreError, open_store
try:
    open_store({url!r})
except StoreError as fault:
    print(fault)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith(f" needs the package {missing}: pip install 'harness-nb[store]'.\n")


def test_a_server_that_is_not_there_is_told_in_a_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        store = open_store(f"postgres://me:{PASSWORD}@127.0.0.1:{port}/db")
        for action in (store.sessions, lambda: store.open("main"), lambda: store.delete("main")):
            said = sentence(action)
            assert said.startswith(f"The database `db` at 127.0.0.1:{port} can't be reached: ")
            assert "refused" in said


def test_a_wrong_password_database_or_option_is_told_in_a_sentence(server):
    at = f"127.0.0.1:{server.port}"
    assert "password" in sentence(SqlStore(f"postgresql://locked:{PASSWORD}@{at}/postgres").sessions)
    assert "password" in sentence(SqlStore(f"postgresql://locked@{at}/postgres?password={PASSWORD}").sessions)
    assert '"nowhere" does not exist' in sentence(SqlStore(f"postgresql://tests@{at}/nowhere").sessions)
    assert '"colour"' in sentence(SqlStore(f"postgresql://tests@{at}/postgres?colour=red").sessions)
    right = SqlStore(f"postgresql://locked:right@{at}/{server.database}")
    assert right.sessions() == []
    in_sql(server.url, "REVOKE CREATE ON SCHEMA public FROM public")
    refused = sentence(lambda: right.open("main"))
    assert "refused: permission denied" in refused


def test_a_server_that_is_killed_loses_nothing_it_kept_and_is_used_again(server):
    log = SqlStore(server.url).open("main")
    kept = [log.append(said(f"before {n}"), sync=n % 2 > 0) for n in range(20)]
    server.kill()
    lost = said("lost at first")
    assert "reached" in sentence(lambda: log.append(lost))
    assert "reached" in sentence(log.read)
    server.start()
    kept.append(log.append(lost))
    kept.append(log.append(said("after"), sync=True))
    assert log.read()[1:] == kept
    assert [record.seq for record in kept] == list(range(2, 24))
    log.close()


def test_killed_under_writers_it_has_every_record_that_was_told_kept_and_each_once(server):
    """Each writer tries a record until it is kept, as a journal does."""
    log, kept = SqlStore(server.url).open("main"), []

    def write(who):
        for n in range(60):
            record = said(f"{who} {n}")
            while record.seq == 0:
                try:
                    record = log.append(record)
                except StoreError:
                    time.sleep(0.05)
            kept.append(record)

    writers = [threading.Thread(target=write, args=(who,)) for who in range(3)]
    for writer in writers:
        writer.start()
    for _ in range(2):
        before = len(kept)
        while len(kept) < before + 10:
            time.sleep(0.001)
        server.kill()
        server.start()
    for writer in writers:
        writer.join()
    assert log.read()[1:] == sorted(kept, key=lambda record: record.seq)
    assert sorted(texts(log)) == sorted(f"{who} {n}" for who in range(3) for n in range(60))
    log.close()


@contextmanager
def losing_answers(cluster):
    """Stand before a server: once `lose` is set, the next commit is passed on, and its answer is not."""
    lose = threading.Event()

    class Carrier(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.create_connection(("127.0.0.1", cluster.port)) as upstream:
                other = {self.request: upstream, upstream: self.request}
                while True:
                    for end in select.select([*other], [], [])[0]:
                        if not (data := end.recv(65_536)):
                            return
                        other[end].sendall(data)
                        if lose.is_set() and end is self.request and b"COMMIT\0" in data:
                            lose.clear()
                            upstream.recv(65_536)
                            return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Carrier) as carriers:
        carriers.daemon_threads = True
        threading.Thread(target=carriers.serve_forever, daemon=True).start()
        try:
            yield cluster.url.replace(str(cluster.port), str(carriers.server_address[1])), lose
        finally:
            carriers.shutdown()


def test_a_record_whose_commit_was_not_answered_is_not_kept_twice(server):
    with losing_answers(server) as (url, lose):
        log = SqlStore(url).open("main")
        first = log.append(said("same"))
        lose.set()
        record = replace(said("same"), at=first.at)
        assert "broke off" in sentence(lambda: log.append(record))
        assert log.append(record).seq == 3
        assert log.append(record).seq == 4
        assert [one.seq for one in log.read()] == [1, 2, 3, 4]
        log.close()


def test_a_session_of_a_later_version_is_read_and_not_written(where):
    SqlStore(where).open("main").close()
    in_sql(where, "UPDATE harness_nb_records SET data = ?", f'{{"name": "main", "schema": {SCHEMA + 1}}}')
    assert "later version" in sentence(lambda: SqlStore(where).open("main"))
    assert SqlStore(where).open("main", write=False).read()[0].data["schema"] == SCHEMA + 1


def test_a_row_that_is_no_record_is_passed_over_with_a_warning(where):
    log = SqlStore(where).open("main")
    for text in ("a", "b", "c"):
        log.append(said(text))
    in_sql(where, "UPDATE harness_nb_records SET data = ? WHERE seq = 2", '{"text": "a')
    assert texts(log) == ["b", "c"]
    assert [warning.partition(": ")[2] for warning in log.warnings] == ["Record 2 of `main` is damaged."]
    in_sql(where, "UPDATE harness_nb_records SET data = ? WHERE seq = 4", "[]")
    assert texts(log) == ["b"]
    assert log.warnings[0].endswith("Each of the records 2, 4 of `main` is damaged.")
    assert log.append(said("d")).seq == 5
    log.close()


def test_a_text_that_is_no_text_hides_nothing_else(tmp_path):
    log = SqlStore(sqlite(tmp_path)).open("main")
    for text in ("a", "b"):
        log.append(said(text))
    in_sql(
        sqlite(tmp_path),
        "UPDATE harness_nb_records SET data = CAST(X'7BFF7D' AS TEXT), kind = X'FF00' WHERE seq = 2",
    )
    assert texts(log) == ["b"]
    log.close()


def test_odd_characters_in_a_records_other_fields_are_made_storable(where):
    log = SqlStore(where).open("main")
    kept = log.append(Record("a\0b", {}, "r\ud800", at="now\0"))
    assert (kept.kind, kept.run, kept.at) == ("a␀b", "r\ufffd", "now␀")
    assert log.read()[-1] == kept
    log.close()


def test_ten_megabytes_are_a_record_like_any_other(where):
    log = SqlStore(where).open("main")
    text = "é\0xy" * 2_500_000
    kept = log.append(said(text), sync=True)
    log.append(said("after"))
    assert log.read()[1] == kept
    assert SqlStore(where).sessions()[0].size > 10_000_000
    log.close()


def test_a_session_that_is_deleted_takes_no_more_records_and_its_successor_none_of_them(where):
    log, reader = SqlStore(where).open("main"), SqlStore(where).open("main", write=False)
    SqlStore(where).delete("main")
    assert "deleted while it was open" in sentence(lambda: log.append(said("x")))
    assert "deleted while it was open" in sentence(reader.read)
    again = SqlStore(where).open("main")
    sentence(lambda: log.append(said("x")))
    assert len(again.read()) == 1
    for opened in (log, reader, again):
        opened.close()


def test_what_is_deleted_is_not_left_in_the_file(tmp_path):
    store = SqlStore(sqlite(tmp_path))
    log = store.open("main")
    log.append(said("a secret of mine"))
    log.close()
    assert b"a secret of mine" in (tmp_path / "sessions.db").read_bytes()
    store.delete("main")
    assert [path.name for path in tmp_path.iterdir()] == ["sessions.db"]
    assert b"a secret of mine" not in (tmp_path / "sessions.db").read_bytes()


def test_looking_makes_nothing(tmp_path):
    store = SqlStore(f"sqlite:///{tmp_path / 'new' / 'sessions.db'}")
    assert store.sessions() == []
    sentence(lambda: store.open("main", write=False))
    sentence(lambda: store.delete("main"))
    assert list(tmp_path.iterdir()) == []


def test_the_file_stays_the_same_wherever_one_goes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = SqlStore("sqlite:///sessions.db")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    store.open("main").close()
    assert (tmp_path / "sessions.db").exists()


def test_a_file_that_is_no_database_is_left_alone_and_told(tmp_path):
    file = tmp_path / "sessions.db"
    file.write_bytes(b"Dear diary, " * 1000)
    for action in (SqlStore(sqlite(tmp_path)).sessions, lambda: SqlStore(sqlite(tmp_path)).open("main")):
        assert "sessions.db` can't be used: it is no SQLite database" in sentence(action)
    assert file.read_bytes() == b"Dear diary, " * 1000
    file.unlink()
    file.mkdir()
    assert "it can't be opened" in sentence(lambda: SqlStore(sqlite(tmp_path)).open("main"))


def test_a_damaged_database_is_told(tmp_path):
    log = SqlStore(sqlite(tmp_path)).open("main")
    for n in range(300):
        log.append(said(f"{n}" * 100))
    log.close()
    file = tmp_path / "sessions.db"
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    assert "it is damaged" in sentence(lambda: SqlStore(sqlite(tmp_path)).open("main"))


def test_a_file_where_its_folder_should_be_is_told(tmp_path):
    (tmp_path / "kept").write_text("a file")
    assert "is a file, and sessions need a folder there" in sentence(
        lambda: SqlStore(f"sqlite:///{tmp_path}/kept/sessions.db").open("main")
    )


@contextmanager
def unprivileged():
    """Be somebody whom permissions hold, where the tests are run by root."""
    if root := os.geteuid() == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_what_may_only_be_read_is_read_and_refuses_to_be_written():
    with TemporaryDirectory() as above:
        folder = Path(above, "shared")
        log = SqlStore(sqlite(folder)).open("main")
        log.append(said("a"))
        log.close()
        (folder / "sessions.db").chmod(0o444)
        folder.chmod(0o555)
        Path(above).chmod(0o755)
        with unprivileged():
            store = SqlStore(sqlite(folder))
            assert [info.name for info in store.sessions()] == ["main"]
            assert texts(store.open("main", write=False)) == ["a"]
            for name in ("main", "new"):
                assert "it is read-only" in sentence(lambda name=name: store.open(name))
            assert "it is read-only" in sentence(lambda: store.delete("main"))
            below = SqlStore(f"sqlite:///{folder}/below/sessions.db")
            assert "below` can't be used" in sentence(lambda: below.open("main"))
        folder.chmod(0o000)
        with unprivileged():
            for action in (store.sessions, lambda: store.open("main")):
                assert "can't be" in sentence(action)
        folder.chmod(0o755)


def test_a_database_that_may_only_be_read_refuses_to_be_written(server):
    log = SqlStore(server.url).open("main")
    log.append(said("a"))
    log.close()
    in_sql(server.url, f"ALTER DATABASE {server.database} SET default_transaction_read_only = on")
    assert texts(SqlStore(server.url).open("main", write=False)) == ["a"]
    assert "read-only" in sentence(lambda: SqlStore(server.url).open("main"))


def test_a_writer_waits_for_another_that_takes_its_time(where):
    log = SqlStore(where).open("main")
    held = SqlStore(where)
    begun = threading.Event()

    def hold():
        with held._database.transaction(write=True) as connection:
            connection.exec_driver_sql("UPDATE harness_nb_sessions SET size = size")
            begun.set()
            time.sleep(0.5)

    holder = threading.Thread(target=hold)
    holder.start()
    begun.wait()
    assert log.append(said("a")).seq == 2
    holder.join()
    log.close()


def test_sqlite_waits_as_long_as_postgres_does(tmp_path):
    with SqlStore(sqlite(tmp_path))._database.transaction() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 30_000


MAKERS = """
import os, sys
from harness_nb.ops.records import Record
from harness_nb.ops.sql import SqlStore
import psycopg, sqlalchemy

waiting, go = os.pipe()
makers = []
for _ in range(4):
    maker = os.fork()
    if not maker:
        os.close(go)
        os.read(waiting, 1)
        log = SqlStore(sys.argv[1]).open("main")
        log.append(Record("notice", {}))
        log.close()
        os._exit(0)
    makers.append(maker)
os.close(go)
sys.exit(any([os.waitpid(maker, 0)[1] for maker in makers]))
"""


def test_tables_and_a_session_that_many_processes_make_at_once_are_made_once(where):
    subprocess.run([sys.executable, "-c", MAKERS, where], check=True)
    log = SqlStore(where).open("main", write=False)
    assert [(record.kind, record.seq) for record in log.read()] == [
        ("session", 1),
        *(("notice", n) for n in range(2, 6)),
    ]
    assert len(SqlStore(where).sessions()) == 1
    log.close()


FORKED = """
import os, sys
from harness_nb.ops.records import Record
from harness_nb.ops.sql import SqlStore

log = SqlStore(sys.argv[1]).open("main")
log.append(Record("notice", {"text": "before"}))
child = os.fork()
for n in range(20):
    log.append(Record("notice", {"text": f"{'parent' if child else 'child'} {n}"}))
sys.exit(os.waitpid(child, 0)[1] if child else 0)
"""


def test_a_process_that_is_forked_off_has_connections_of_its_own(where):
    subprocess.run([sys.executable, "-c", FORKED, where], check=True)
    log = SqlStore(where).open("main", write=False)
    both = (f"{who} {n}" for who in ("child", "parent") for n in range(20))
    assert sorted(texts(log)) == sorted(["before", *both])
    log.close()
