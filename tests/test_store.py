"""What every store of journals does, whatever lies beneath."""

import json
import os
import threading

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from stores import STORES

from harness_nb.ops.records import SCHEMA, Record
from harness_nb.ops.redacted import Redaction
from harness_nb.ops.store import StoreError

KEY = "sk-ant-api03-abcdefghijklmnop"
ODD = [
    "a\0b",
    "\x1b[2J\x07",
    "10%\r50%\r\n",
    "a\u2028b\u2029c\x85d",
    "\u202eabc",
    "é🍸",
    "\ufeff",
    '"\\',
    "'; DROP TABLE x; --",
]


@pytest.fixture(params=STORES)
def anew(request, tmp_path):
    """Open the store, the same one each time."""
    return lambda redaction=None: STORES[request.param](tmp_path, redaction)


@pytest.fixture
def store(anew):
    return anew()


@pytest.fixture
def log(store):
    opened = store.open("main")
    yield opened
    opened.close()


def said(text):
    return Record("notice", {"text": text})


def texts(log):
    return [record.data["text"] for record in log.read() if record.kind == "notice"]


def test_a_new_session_begins_with_a_record_of_its_name_and_form(log):
    (first,) = log.read()
    assert (first.kind, first.data["name"], first.data["schema"]) == ("session", "main", SCHEMA)
    assert len(first.data["id"]) == 32


def test_what_is_appended_is_read_back_equal_in_order_and_by_another(anew, log):
    kept = [
        log.append(Record("tool_started", {"n": n, "deep": [{"a": None}]}, "run1"), sync=n % 2 > 0)
        for n in range(9)
    ]
    assert log.read()[1:] == kept
    assert anew().open("main", write=False).read()[1:] == kept


def test_order_numbers_rise_from_the_first_record_on(log):
    log.append(said("a"))
    log.append(said("b"))
    numbers = [record.seq for record in log.read()]
    assert numbers == sorted(set(numbers))
    assert numbers[0] >= 1


def test_a_session_opened_again_goes_on_under_the_same_id(anew, log):
    log.append(said("a"))
    before = log.read()
    log.close()
    again = anew().open("main")
    again.append(said("b"))
    assert again.read()[: len(before)] == before
    assert texts(again) == ["a", "b"]
    assert again.read()[-1].seq > before[-1].seq
    again.close()


def test_a_session_that_is_deleted_while_it_is_open_is_gone(anew, log, tmp_path):
    assert not log.gone
    files = [*tmp_path.rglob("main.jsonl")]
    for file in files:
        file.unlink()
    if not files:
        anew().delete("main")
    assert log.gone


def test_sessions_do_not_mix(store, log):
    other = store.open("other")
    other.append(said("there"))
    log.append(said("here"))
    assert (texts(log), texts(other)) == (["here"], ["there"])
    other.close()


@pytest.mark.parametrize("text", ODD)
def test_odd_characters_are_read_back_as_they_were(log, text):
    log.append(Record("notice", {"text": text, text: [text]}))
    assert log.read()[-1].data == {"text": text, text: [text]}


def test_half_a_character_is_kept_as_a_mark_and_two_halves_as_one_character(log):
    log.append(said("a\ud83cb"))
    log.append(said("a\ud83c\udf78b"))
    assert texts(log) == ["a\ufffdb", "a🍸b"]


def test_numbers_are_read_back_as_they_were(log):
    numbers = [0, -1, 2**63, 10**40, 0.1, 1e300, True, False, None]
    log.append(Record("charge", {"n": numbers}))
    assert json.dumps(log.read()[-1].data["n"]) == json.dumps(numbers)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), {1, 2}, b"bytes", object()])
def test_what_json_has_no_form_for_is_refused_and_leaves_nothing(log, bad):
    with pytest.raises(StoreError, match="`notice` can't be kept"):
        log.append(Record("notice", {"text": bad}))
    log.append(said("after"))
    assert texts(log) == ["after"]
    assert not log.warnings


def test_kinds_that_are_not_known_here_are_kept(log):
    log.append(Record("from_the_future", {"x": 1}, "run1"))
    assert log.read()[-1].kind == "from_the_future"


NAMES = [
    "main",
    "05_streaming.main",
    "a/b",
    "a%2Fb",
    "..",
    ".",
    "a\\b",
    "CON",
    "con.x",
    " x",
    "x ",
    "x.jsonl",
    "ünï",
    "u\u0308",
    "会话",
]
NAMES += ['"<>|?*:', "x" * 300, "x" * 301, "-rf", "a\nb", "Main", "%", "é" * 100, KEY]


def test_any_name_is_a_session_of_its_own(anew):
    for name in NAMES:
        log = anew().open(name)
        log.append(said(name))
        log.close()
    assert {info.name for info in anew().sessions()} == set(NAMES)
    for name in NAMES:
        log = anew().open(name, write=False)
        assert (log.name, log.read()[0].data["name"], log.read()[-1].seq > 0) == (name, name, True)
        log.close()


def test_a_session_needs_a_name(store):
    for name in ("", " "):
        with pytest.raises(StoreError, match="needs a name"):
            store.open(name)


def test_there_are_no_sessions_at_first(store):
    assert store.sessions() == []


def test_the_list_says_of_each_session_what_it_holds_the_last_changed_first(anew, store):
    for name in ("old", "new"):
        log = store.open(name)
        log.append(Record("notice", {}, at="2026-01-01T00:00:00.000+00:00"))
        log.append(Record("notice", {}, at=f"2026-01-0{2 + (name == 'new')}T00:00:00.000+00:00"))
        log.close()
    new, old = anew().sessions()
    assert (new.name, new.records, new.changed) == ("new", 3, "2026-01-03T00:00:00.000+00:00")
    assert (old.name, old.records, old.changed) == ("old", 3, "2026-01-02T00:00:00.000+00:00")
    assert new.began
    assert new.size >= 0


def test_a_session_that_is_not_there_is_not_made_by_reading_and_those_near_are_named(store, log):
    with pytest.raises(StoreError, match=r"No session is called `maim` here.*`main`"):
        store.open("maim", write=False)
    assert [info.name for info in store.sessions()] == ["main"]


def test_a_deleted_session_is_gone_and_its_name_begins_anew(anew, log):
    log.append(said("a"))
    log.close()
    anew().delete("main")
    assert anew().sessions() == []
    with pytest.raises(StoreError, match="No session is called `main`"):
        anew().delete("main")
    again = anew().open("main")
    assert len(again.read()) == 1
    again.close()


def test_a_reader_sees_what_is_written_meanwhile(anew, log):
    reader = anew().open("main", write=False)
    for text in ("a", "b"):
        log.append(said(text))
        assert texts(reader)[-1] == text
    reader.close()


def test_a_reader_writes_nothing(anew, log):
    reader = anew().open("main", write=False)
    with pytest.raises(StoreError, match="read"):
        reader.append(said("x"))
    reader.close()
    assert texts(log) == []


def test_threads_share_a_log(log):
    def write(who):
        for n in range(50):
            log.append(said(f"{who} {n}"))

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts(log)) == 200
    for who in range(4):
        assert [text for text in texts(log) if text.startswith(f"{who} ")] == [
            f"{who} {n}" for n in range(50)
        ]
    assert len({record.seq for record in log.read()}) == 201


def test_closing_twice_does_nothing_and_a_closed_log_writes_nothing(store):
    log = store.open("main")
    log.close()
    log.close()
    with pytest.raises(StoreError, match="closed"):
        log.append(said("x"))


def test_a_key_and_a_setting_are_not_kept_nor_what_a_pattern_names(anew):
    os.environ["TEST_PASSWORD"] = secret = 'cor"rect\\horse é'
    try:
        log = anew(Redaction([r"project-\w+"])).open("main")
        arguments = json.dumps({"p": secret, "q": KEY, "r": "project-apollo"})
        log.append(
            Record(
                "message",
                {"text": f"{secret} {KEY} project-apollo", "parts": [{"raw": arguments}], secret: 1},
            )
        )
        kept = json.dumps(log.read()[-1].data, ensure_ascii=False) + log.read()[-1].data["parts"][0]["raw"]
    finally:
        del os.environ["TEST_PASSWORD"]
    assert not any(taken in kept for taken in ("correct", "horse", KEY, "apollo"))
    assert kept.count("[key]") == 10
    log.close()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=4))
def test_any_json_is_read_back_equal(log, data):
    kept = [log.append(Record("notice", one, "r")) for one in data]
    assert log.read()[-len(kept) :] == kept or not kept
    assert not log.warnings
