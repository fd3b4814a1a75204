"""The store of JSON lines: what its files look like, and what it does with damaged files, full disks and closed doors."""

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from test_store import VALUES, said, texts

from harness_nb.ops.jsonl import JsonlStore
from harness_nb.ops.records import SCHEMA, Record
from harness_nb.ops.store import StoreError

IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a folder of our own in it
"""Where hundreds of files are on disk at once."""


@pytest.fixture
def store(tmp_path):
    return JsonlStore(tmp_path)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "main.jsonl"


def written(store, *words):
    """Keep these in the session `main`, and let go of it."""
    log = store.open("main")
    for word in words:
        log.append(said(word))
    log.close()


def opened(store):
    """Read `main` without opening it to write: its texts and what is wrong with it."""
    log = store.open("main", write=False)
    return texts(log), list(log.warnings)


def test_a_record_is_one_line_that_a_person_can_read(store, file):
    log = store.open("main")
    log.append(Record("message", {"text": "größer\n"}, "ab12", "2026-12-01T09:00:00.000+00:00"))
    log.close()
    line = file.read_text(encoding="utf-8").splitlines()[1]
    assert line == (
        '{"seq": 2, "at": "2026-12-01T09:00:00.000+00:00", "kind": "message", "run": "ab12", '
        '"data": {"text": "größer\\n"}}'
    )


def test_a_line_is_a_line_for_every_reader(store, file):
    written(
        store,
        *(f"a{chr(n)}b" for n in (*range(32), *range(127, 160), *range(0x2020, 0x2070), 0xFEFF, 0xD800)),
    )
    lines = file.read_bytes().decode().splitlines()
    assert len(lines) == 1 + 32 + 33 + 0x50 + 2
    assert all(json.loads(line)["kind"] for line in lines)
    assert "\x7f" not in "".join(lines)


def test_a_file_can_be_copied_and_the_copy_has_its_own_name(store, file):
    written(store, "a")
    file.with_name("copy.jsonl").write_bytes(file.read_bytes())
    assert {info.name for info in store.sessions()} == {"main", "copy"}


def test_a_store_stays_where_it_is_when_the_process_goes_elsewhere(tmp_path):
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        store = JsonlStore("sessions")
        log = store.open("main")
        (tmp_path / "elsewhere").mkdir()
        os.chdir("elsewhere")
        log.append(said("a"))
        assert texts(log) == ["a"]
        assert texts(store.open("main", write=False)) == ["a"]
        log.close()
    finally:
        os.chdir(here)


def test_only_the_owner_may_read_a_session(store, file):
    written(store, "a")
    assert file.stat().st_mode & 0o77 == 0


def test_nothing_is_left_beside_a_session_that_was_closed(store, tmp_path):
    written(store, "a")
    assert [path.name for path in tmp_path.iterdir()] == ["main.jsonl"]


def test_half_a_line_is_no_record_in_the_list(store, file):
    written(store, "a")
    file.write_bytes(file.read_bytes() + b'{"seq": 3, "a')
    (info,) = store.sessions()
    assert (info.records, info.size) == (2, file.stat().st_size)


def test_files_of_other_kinds_are_no_sessions(store, tmp_path):
    written(store, "a")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "folder.jsonl").mkdir()
    assert [info.name for info in store.sessions()] == ["main"]


def test_a_later_form_can_be_read_and_not_written(store, file):
    written(store, "a")
    later = file.read_bytes().replace(b'"schema": %d' % SCHEMA, b'"schema": %d' % (SCHEMA + 1)) + b'{"half'
    file.write_bytes(later)
    assert opened(store)[0] == ["a"]
    with pytest.raises(StoreError, match="later version"):
        store.open("main")
    assert file.read_bytes() == later


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (b"\0" * 40 + b"\n", ["Line 3 holds nothing but NUL bytes"]),
        (b"\xff\xfe\x80junk\n", ["Line 3 is damaged"]),
        (b"junk\n\xff\n{]\n", ["Each of lines 3 to 5 is damaged"]),
        (b'{"seq": 7}\n[]\n1\n', ["Each of lines 3 to 5 is no record of a session"]),
        (b'{"kind": "notice", "data": {"text": NaN}}\n', ["Line 3 is damaged"]),
        (b'{"kind": "notice", "data": ' + b'{"a":' * 100_000 + b"\n", ["Line 3 is damaged"]),
        (b'{"kind": "notice", "data": {"n": ' + b"9" * 5_000 + b"}}\n", ["Line 3 is damaged"]),
        (b"\n\r\n  \n", []),
        (b"junk\n\0\0\n", ["Line 3 is damaged", "Line 4 holds nothing but NUL bytes"]),
    ],
)
def test_what_is_bad_in_the_middle_hides_nothing_and_stays(store, file, damage, told):
    written(store, "a", "b", "c")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], damage, *lines[2:]]))
    kept, warnings = opened(store)
    assert kept == ["a", "b", "c"]
    assert len(warnings) == len(told)
    assert all(part in warning for part, warning in zip(told, warnings, strict=True))
    written(store, "d")
    assert opened(store)[0] == ["a", "b", "c", "d"]
    assert damage in file.read_bytes()


def test_the_writer_is_warned_too_of_what_is_bad_in_the_middle(store, file):
    written(store, "a", "b")
    file.write_bytes(file.read_bytes().replace(b'"a"', b'"a'))
    log = store.open("main")
    for _ in range(2):
        assert texts(log) == ["b"]
        assert [warning.partition(": ")[2] for warning in log.warnings] == ["Line 2 is damaged."]
    log.close()
    file.write_bytes(file.read_bytes() + b"half")
    log = store.open("main")
    assert texts(log) == ["b"]
    damaged, mended = sorted(warning.partition(": ")[2][:13] for warning in log.warnings)
    assert (damaged, mended) == ("From line 4 o", "Line 2 is dam")
    log.close()


def test_nul_bytes_beside_a_record_do_not_hide_it(store, file):
    written(store, "a", "b")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + b"\0" * 99 + lines[1] + lines[2][:-1] + b"\0" * 99)
    kept, warnings = opened(store)
    assert kept == ["a", "b"]
    assert [warning.partition(": ")[2] for warning in warnings] == [
        "Each of lines 2 to 3 holds NUL bytes beside its record."
    ]
    written(store, "c")
    kept, (warning,) = opened(store)
    assert kept == ["a", "b", "c"]
    assert "Line 2 holds NUL" in warning


def test_order_numbers_that_are_double_or_missing_do_no_harm(store, file):
    written(store, "a", "b")
    file.write_bytes(file.read_bytes().replace(b'"seq": 3', b'"seq": 2').replace(b'"seq": 1, ', b""))
    written(store, "c")
    log = store.open("main", write=False)
    assert [record.seq for record in log.read()] == [0, 2, 2, 3]
    assert texts(log) == ["a", "b", "c"]


def test_a_session_whose_own_record_is_lost_gets_another(store, file):
    written(store, "a")
    file.write_bytes(file.read_bytes().partition(b"\n")[2])
    log = store.open("main", write=False)
    first, *rest = log.read()
    assert (first.kind, first.data["name"], [record.kind for record in rest]) == (
        "session",
        "main",
        ["notice"],
    )
    assert any("No line says which session" in warning for warning in log.warnings)
    written(store, "b")
    first, *rest = store.open("main", write=False).read()
    assert (first.kind, [record.kind for record in rest]) == ("session", ["notice", "notice"])


def test_what_is_cut_off_is_kept_aside_each_time(store, file):
    written(store, "a")
    for piece in (b'{"seq": 3, "a', b'{"seq": 3, "b\xc3'):
        file.write_bytes(file.read_bytes() + piece)
        log = store.open("main")
        (warning,) = log.warnings
        assert "From line 3 on" in warning
        assert "main.jsonl.torn`" in warning
        log.close()
    assert file.with_name("main.jsonl.torn").read_bytes() == b'{"seq": 3, "a\n{"seq": 3, "b\xc3\n'
    assert opened(store) == (["a"], [])


@pytest.mark.parametrize("content", [b"", b'{"seq": 1, "at": "20', b"{", b"\0\0\0\0", b"\n"])
def test_a_crash_in_the_first_line_leaves_a_session_that_can_begin(store, file, content):
    file.write_bytes(content)
    assert opened(store)[0] == []
    written(store, "a")
    assert opened(store) == (["a"], [])


@pytest.mark.parametrize(
    "content", [b'{"some": "data"}\n{"other": 1}\n', b"notes of mine", b"\x89PNG\r\n\x1a\n"]
)
def test_a_file_that_is_no_session_is_left_alone(store, file, content):
    file.write_bytes(content)
    with pytest.raises(StoreError, match="holds no session"):
        store.open("main")
    assert file.read_bytes() == content
    assert len(list(file.parent.iterdir())) == 1


RECORDS = st.builds(
    Record,
    st.sampled_from(["message", "notice", "from_the_future"]),
    st.dictionaries(st.text(max_size=5), VALUES, max_size=3),
    st.text(max_size=5),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(RECORDS, max_size=5), RECORDS, st.data())
def test_cut_at_any_byte_and_grown_again_each_whole_record_is_read_back(records, new, data):
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        store, file = JsonlStore(folder), Path(folder, "main.jsonl")
        log = store.open("main")
        for record in records:
            log.append(record)
        before = log.read()
        log.close()
        whole = file.read_bytes()
        cut = data.draw(st.integers(0, len(whole)))
        file.write_bytes(whole[:cut])
        lines = whole.splitlines(keepends=True)
        ends = [sum(map(len, lines[: n + 1])) - 1 for n in range(len(lines))]
        kept = [record for record, end in zip(before, ends, strict=True) if end <= cut]
        again = store.open("main")
        last = again.append(new)
        again.close()
        reader = store.open("main", write=False)
        read = reader.read()
        assert read[: len(kept)] == kept
        assert read[-1] == last
        assert len(read) == max(len(kept), 1) + 1
        assert not reader.warnings


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.binary(max_size=30))), st.booleans())
def test_no_bytes_between_lines_hide_one(junk, mend):
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        store, file = JsonlStore(folder), Path(folder, "main.jsonl")
        written(store, "a", "b", "c")
        lines = [*file.read_bytes().splitlines(keepends=True), b""]
        for place, content in junk:
            lines[place] = content.replace(b"{", b"[") + b"\n" + lines[place]
        file.write_bytes(b"".join(lines))
        if mend:
            written(store, "d")
        assert opened(store)[0] == (["a", "b", "c", "d"] if mend else ["a", "b", "c"])
