"""What is taken out of a record before it is kept, what stays byte for byte, and that none of it takes long."""

import json
import os
import re
import time

import pytest
from hypothesis import given, settings, strategies as st

from harness_nb.encoding import decode, encode
from harness_nb.errors import UsageError
from harness_nb.messages import Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from harness_nb.ops.lines import data_text, json_text
from harness_nb.ops.records import Record
from harness_nb.ops.redacted import Redaction
from harness_nb.redaction import KEY, may_hold_key, without_keys

LOOKS = "sk-ant-api03-abcdefghijklmnop"


@pytest.fixture
def secret():
    os.environ["TEST_API_KEY"] = value = "hunter2-hunter2"
    yield value
    os.environ.pop("TEST_API_KEY", None)


def kept(data, *patterns):
    """What a journal would hold of this, as its text."""
    return data_text(Record("message", data), Redaction(patterns))


def test_what_has_nothing_to_hide_stays_as_it_is():
    data = {"a": ["b", {"c": 1.5, "d": None}], "token": "abc", "task_scheduler_instance": "sk-short"}
    assert json.loads(kept(data)) == data == Redaction()(data)


def test_a_secret_goes_wherever_it_stands(secret):
    data = {"a": secret, "b": [f"x{secret}y", (LOOKS,)], "c": {secret: {"d": f"\n{LOOKS}"}}}
    assert json.loads(kept(data)) == {
        "a": "[key]",
        "b": ["x[key]y", ["[key]"]],
        "c": {"[key]": {"d": "\n[key]"}},
    }
    assert data["a"] == secret


def test_keys_that_json_makes_strings_of_are_no_hindrance():
    assert json.loads(kept({"a": {1: LOOKS, None: "b"}})) == {"a": {"1": "[key]", "null": "b"}}


def test_a_setting_made_changed_or_gone_later_counts_at_once():
    assert "opensesame" in kept({"a": "opensesame"})
    os.environ["TEST_PASSWORD"] = "opensesame"
    assert "opensesame" not in kept({"a": "opensesame"})
    os.environ["TEST_PASSWORD"] = "shutsesame"
    assert "opensesame" in kept({"a": "opensesame"})
    assert "shutsesame" not in kept({"a": "shutsesame"})
    del os.environ["TEST_PASSWORD"]
    assert "shutsesame" in kept({"a": "shutsesame"})


def test_of_two_settings_the_longer_goes_first():
    os.environ["TEST_PASSWORD"], os.environ["TEST_TOKEN"] = "opensesame", "opensesame-and-more"
    assert json.loads(kept({"a": "opensesame-and-more"})) == {"a": "[key]"}
    del os.environ["TEST_PASSWORD"], os.environ["TEST_TOKEN"]


@pytest.mark.parametrize(
    "odd", ['quo"te\\back', "umläut-wort", 'bo"th-ü-\u2028-z', "tab\there-x", "bidi\u202e-here"]
)
def test_a_setting_of_odd_characters_goes_also_out_of_json_in_json(odd):
    os.environ["TEST_PASSWORD"] = odd
    try:
        for plain in (False, True):
            raw = json.dumps({"p": odd}, ensure_ascii=plain)
            assert json.loads(kept({"raw": raw, "text": odd})) == {"raw": '{"p": "[key]"}', "text": "[key]"}
    finally:
        del os.environ["TEST_PASSWORD"]


def test_what_a_vendor_checks_stays_byte_for_byte_but_for_a_setting(secret):
    parts = (
        Thinking("hm", LOOKS, "anthropic"),
        Opaque("openai", json.dumps({"x": LOOKS})),
        ToolResult("c1", (Image(b"\0" + LOOKS.encode(), "image/png"), Text("seen"))),
    )
    message = Message("assistant", parts)
    assert decode(json.loads(kept(encode(message)))) == message
    assert secret not in kept(encode(Message("assistant", (Opaque("openai", secret), Thinking("", secret)))))


def test_elsewhere_a_field_of_that_name_is_like_any_other():
    raw = json.dumps({"signature": LOOKS, "block": LOOKS, "data": LOOKS})
    parts = (Text(LOOKS), ToolCall("c1", "f", raw))
    assert LOOKS not in kept(encode(Message("assistant", parts)))
    assert LOOKS not in kept({"signature": LOOKS, "block": LOOKS, "data": {"data": LOOKS}})


def test_patterns_of_ones_own_are_added_in_words_or_compiled():
    text = json.loads(
        kept({"a": "Apollo 1234 5678, x", "b": LOOKS}, "(?i)apollo", re.compile(r"\d{4} \d{4}"))
    )
    assert text == {"a": "[key] [key], x", "b": "[key]"}


def test_a_pattern_may_be_hostile_to_json_and_the_record_is_still_json():
    assert json.loads(kept({"a": 'x"y\\', "n": 1}, r'["\\{}:,]')) == {"a": "x[key]y[key]", "n": 1}


@pytest.mark.parametrize("bad", ["(", "*", b"bytes", re.compile(b"x"), 7, None, "x*", ""])
def test_a_pattern_that_can_not_be_used_is_told(bad):
    with pytest.raises(UsageError, match=r"The pattern .* of what to take out"):
        Redaction([bad])


def test_one_pattern_where_a_list_is_wanted_is_told():
    with pytest.raises(UsageError, match="brackets"):
        Redaction("abc")


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=8), st.from_regex(KEY), st.text(max_size=8))
def test_the_quick_look_never_misses_what_the_long_one_finds(before, key, after):
    text = before + key + after
    assert may_hold_key(text) or without_keys(text, "") == text
    assert may_hold_key(json_text({"a": text})) or not KEY.search(text)
    assert not KEY.search(without_keys(text, "[key]"))


@pytest.mark.usefixtures("alone")
def test_to_look_through_a_long_text_takes_a_fraction_of_searching_it():
    """What each record costs is in the bench; here, that the quick look is quick. It was a fifteenth when made."""
    text = "some words of a tool, with read_file and re-reading. " * 2_000

    def spent(work):
        start = time.process_time()
        for _ in range(20):
            work(text)
        return time.process_time() - start

    assert min(spent(may_hold_key) for _ in range(3)) < min(spent(KEY.search) for _ in range(3)) / 3


@pytest.mark.usefixtures("alone")
def test_many_variables_are_not_looked_through_for_each_text():
    """A walk over the environment took twenty times what it takes to see that it has not changed."""
    os.environ.update({f"TEST_NOTHING_{n}": "x" * 20 for n in range(300)})

    def spent(work):
        start = time.process_time()
        for _ in range(200):
            work()
        return time.process_time() - start

    try:
        walked = min(spent(lambda: [*os.environ.items()]) for _ in range(3))
        assert min(spent(lambda: may_hold_key("a text")) for _ in range(3)) < walked / 3
    finally:
        for n in range(300):
            del os.environ[f"TEST_NOTHING_{n}"]
