"""Line 1, R29: a session's file with half a line at its end, and the other ways in which it can be damaged."""

import codecs

import pytest

from harness_nb.ops.jsonl import JsonlStore
from harness_nb.ops.records import Record

TORN = b'{"role":"assi'
HALF = '{"role":"assistant","text":"é'.encode()[:-1]


@pytest.fixture
def store(tmp_path):
    return JsonlStore(tmp_path)


@pytest.fixture
def file(store, tmp_path):
    """A journal of 3 good lines."""
    log = store.open("main")
    for text in ("one", "two é"):
        log.append(Record("message", {"text": text}))
    log.close()
    return tmp_path / "main.jsonl"


def loaded(store):
    """All records of the session, and the warnings, by someone who only reads."""
    log = store.open("main", write=False)
    return log.read(), list(log.warnings)


def grown(store):
    """Open the session to write, and append one."""
    log = store.open("main")
    record = log.append(Record("message", {"text": "three"}))
    log.close()
    return record


@pytest.mark.parametrize(
    ("tail", "aside"),
    [
        (TORN, TORN),
        (HALF, HALF),
        (TORN + b"\n", TORN),
        (TORN + b"\n\n", TORN),
        (TORN + b"\r\n", TORN),
        (TORN + b"\n \n" + HALF, TORN + b"\n \n" + HALF),
        (b"\0" * 512, b""),
        (TORN + b"\0" * 512, TORN),
        (b"\0" * 512 + b"\n" + TORN, TORN),
    ],
)
def test_a_torn_end_costs_nothing_before_it_and_nothing_after_it(store, file, tail, aside):
    good = file.read_bytes()
    before, _ = loaded(store)
    file.write_bytes(good + tail)

    records, warnings = loaded(store)
    assert records == before
    assert len(records) == 3
    assert warnings
    assert all("Line 4" in warning or "Line 5" in warning or "Line 6" in warning for warning in warnings)
    assert file.read_bytes() == good + tail, "reading changes nothing"

    added = grown(store)
    records, warnings = loaded(store)
    assert records == [*before, added]
    assert len(records) == 4
    assert warnings == []
    assert file.read_bytes().startswith(good), "mending touches no good byte"
    torn = file.with_name("main.jsonl.torn")
    assert (torn.read_bytes() if torn.exists() else b"\n") == aside + b"\n"


def test_a_last_line_that_lacks_only_its_end_is_whole(store, file):
    good = file.read_bytes()
    before, _ = loaded(store)
    file.write_bytes(good[:-1])
    assert loaded(store) == (before, [])
    added = grown(store)
    assert loaded(store) == ([*before, added], [])
    assert file.read_bytes().startswith(good)
    assert not file.with_name("main.jsonl.torn").exists()


@pytest.mark.parametrize("bad", [TORN, HALF, b"\0" * 512, b"\x89PNG\xff"])
def test_a_bad_line_in_the_middle_hides_no_later_one(store, file, bad):
    before, _ = loaded(store)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], bad + b"\n", *lines[2:]]))
    records, (warning,) = loaded(store)
    assert records == before
    assert "Line 3" in warning
    added = grown(store)
    records, (warning,) = loaded(store)
    assert records == [*before, added]
    assert "Line 3" in warning
    assert bad in file.read_bytes()


def test_an_empty_file_is_a_session_that_can_begin(store, file):
    file.write_bytes(b"")
    assert [record.kind for record in loaded(store)[0]] == ["session"]
    added = grown(store)
    records, warnings = loaded(store)
    assert [record.kind for record in records] == ["session", "message"]
    assert records[1] == added
    assert warnings == []


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("tail", [b"", TORN])
def test_an_editors_mark_and_line_ends_are_no_fault(store, file, mark, end, tail):
    before, _ = loaded(store)
    good = mark + file.read_bytes().replace(b"\n", end)
    file.write_bytes(good + tail)
    records, warnings = loaded(store)
    assert (records, len(warnings)) == (before, bool(tail))
    added = grown(store)
    assert loaded(store) == ([*before, added], [])
    assert file.read_bytes().startswith(good)
