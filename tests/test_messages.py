"""The transcript: an append-only record, and the view of it that a model may be sent."""

import json
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime

import pytest
from pairing import faults

from harness_nb.encoding import decode, encode
from harness_nb.messages import (
    INTERRUPTED,
    REPLAY_LIMIT,
    Decision,
    Image,
    Message,
    Opaque,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Transcript,
    Usage,
    assistant,
    user,
)
from harness_nb.strict import clean, parse_arguments


def calls(*names, text=""):
    return assistant(*([text] if text else []), *(ToolCall(name, "t") for name in names))


def answers(*names, word="ok"):
    return Message("tool", tuple(ToolResult(name, (Text(f"{word} {name}"),)) for name in names))


def view(*entries):
    """The live view in short: roles, and ids of calls and results; it must be fit to send."""
    live = Transcript(entries).live()
    assert faults(live) == []
    return [
        f"{m.role}:{','.join([c.id for c in m.calls] + [r.text for r in m.results] or [m.text])}"
        for m in live
    ]


# -- parts and messages


def test_parts_and_messages_can_not_be_changed():
    with pytest.raises(FrozenInstanceError):
        user("a").parts[0].text = "b"
    with pytest.raises(FrozenInstanceError):
        user("a").role = "assistant"


def test_a_message_gives_its_words_calls_and_results():
    message = assistant(Thinking("hm"), "a", ToolCall("1", "t"), "b")
    assert (message.text, [c.id for c in message.calls]) == ("ab", ["1"])
    assert [r.text for r in answers("x", "y").results] == ["ok x", "ok y"]


def test_messages_have_ids_of_their_own_and_a_time_in_utc():
    first, second = user("a"), user("a")
    assert first.id != second.id
    assert first != second
    assert first.at.tzinfo is UTC
    assert len({first, second}) == 2


@pytest.mark.parametrize(
    ("odd", "whole"),
    [
        ("plain", "plain"),
        ("é日🍸", "é日🍸"),
        ("\ud83c\udf78", "🍸"),
        ("\ud83c", "\ufffd"),
        ("\udf78\ud83c", "\ufffd\ufffd"),
        ("\udce9.txt", "\ufffd.txt"),
        ("a\0b", "a␀b"),
        ("\u2028\x85\x1b[2J", "\u2028\x85\x1b[2J"),
    ],
)
def test_text_is_clean_from_the_start(odd, whole):
    assert Text(odd).text == clean(odd) == whole
    assert clean(whole) == whole


def test_usage_adds_up_and_a_guess_stays_a_guess():
    total = Usage(10, 2, 5, 1, 1) + Usage(1, 1, estimated=True)
    assert total == Usage(11, 3, 5, 1, 1, estimated=True)


# -- arguments


@pytest.mark.parametrize("raw", ["", "  ", "null", "{}", " {}\n"])
def test_no_arguments_are_an_empty_object(raw):
    assert parse_arguments(raw) == {}
    assert ToolCall("1", "t", raw).replayed() == {}


@pytest.mark.parametrize(
    "raw",
    ["[1]", "3", '"{}"', "{", '{"a":1', '{"a":NaN}', '{"a":1e999}', "[" * 10**5, '{"a":1,"a":1}', "\x00"],
)
def test_whatever_came_as_arguments_can_be_sent_back(raw):
    with pytest.raises(ValueError, match=r"."):
        parse_arguments(raw)
    sent = json.dumps(ToolCall("1", "t", raw).replayed(), allow_nan=False)
    assert json.loads(sent) == {"_invalid_json": clean(raw)}


def test_keys_that_become_one_by_cleaning_are_given_twice():
    with pytest.raises(ValueError, match="twice"):
        parse_arguments('{"\\ud800": 1, "\\ud801": 2}')


def test_very_long_arguments_are_sent_back_short():
    raw = json.dumps({"content": "x" * 1_200_000})
    sent = json.dumps(ToolCall("1", "t", raw).replayed())
    assert len(sent) < 2000
    assert "1,200,015 characters" in json.loads(sent)["_omitted"]
    assert (
        len(json.dumps(ToolCall("1", "t", json.dumps({"c": "x" * (REPLAY_LIMIT - 9)})).replayed()))
        <= REPLAY_LIMIT
    )


# -- the record and the view


def test_an_orderly_record_is_seen_as_it_is():
    entries = [user("go"), calls("a", "b", text="Two."), answers("a", "b"), assistant("Done.")]
    transcript = Transcript(entries)
    assert transcript.live() == tuple(entries)
    assert [type(m) for m in transcript.entries] == [Message] * 4
    assert len(transcript) == 4
    assert transcript.dangling() == []


def test_calls_without_results_dangle_in_order():
    transcript = Transcript([user("go"), calls("a", "b", "c"), answers("b")])
    assert [c.id for c in transcript.dangling()] == ["a", "c"]


@pytest.mark.parametrize(
    ("entries", "seen"),
    [
        ([calls("a"), user("on")], ["assistant:a", f"tool:{INTERRUPTED}", "user:on"]),
        ([calls("a", "b"), answers("b", "a")], ["assistant:a,b", "tool:ok a,ok b"]),
        ([calls("a", "b"), answers("b"), answers("a")], ["assistant:a,b", "tool:ok a,ok b"]),
        ([calls("a"), user("note"), answers("a")], ["assistant:a", "tool:ok a", "user:note"]),
        ([calls("a"), answers("a"), answers("a", word="again")], ["assistant:a", "tool:ok a"]),
        ([answers("a"), user("x")], ["user:x"]),
        ([answers("a"), calls("a")], ["assistant:a", f"tool:{INTERRUPTED}"]),
        ([calls("a", "b"), answers("a", "z")], ["assistant:a,b", f"tool:ok a,{INTERRUPTED}"]),
        (
            [calls("a"), answers("a"), calls("a"), answers("a", word="two")],
            ["assistant:a", "tool:ok a", "assistant:a_2", "tool:two a"],
        ),
        (
            [calls("a"), calls("a"), answers("a")],
            ["assistant:a", f"tool:{INTERRUPTED}", "assistant:a_2", "tool:ok a"],
        ),
        ([calls("a", "a"), answers("a"), answers("a", word="two")], ["assistant:a,a_2", "tool:ok a,two a"]),
        ([calls(""), answers("")], ["assistant:call_2", "tool:ok "]),
        ([Message("user", ()), user("x")], ["user:x"]),
    ],
)
def test_a_record_in_disorder_is_seen_in_order(entries, seen):
    assert view(*entries) == seen


def test_words_among_results_come_after_them():
    mixed = Message("tool", (Text("note"), *answers("a").parts))
    assert view(calls("a"), mixed) == ["assistant:a", "tool:ok a", "user:note"]


def test_results_under_another_role_are_put_right():
    as_user = Message("user", answers("a").parts)
    assert view(calls("a"), as_user) == ["assistant:a", "tool:ok a"]


def test_what_stands_in_for_a_missing_result_is_always_the_same():
    entries = [user("go"), calls("a"), user("on")]
    assert Transcript(entries).live() == Transcript(entries).live()
    longer = Transcript([*entries, assistant("Done.")])
    assert longer.live()[:4] == Transcript(entries).live()


def test_call_ids_that_are_blank_or_taken_are_made_anew():
    transcript = Transcript([calls("a"), answers("a")])
    made = transcript.distinct(calls("a", "", "b", "b", ""))
    assert [c.id for c in made.calls] == ["a_2", "call_2", "b", "b_2", "call_3"]
    fine = calls("c")
    assert transcript.distinct(fine) is fine


# -- decisions


def hide(*messages, why="too old"):
    return Decision("test", why, {m.id: () for m in messages})


def test_a_decision_changes_the_view_and_not_the_record():
    old, new = user("old"), user("new")
    transcript = Transcript([old, new, hide(old)])
    assert transcript.live() == (new,)
    assert transcript.messages == (old, new)


def test_a_decision_may_put_a_summary_in_place():
    first, second = user("one"), assistant("two")
    summary = Message("user", (Summary("They counted.", 2),))
    decision = Decision("compact", "full", {first.id: (summary,), second.id: ()})
    assert Transcript([first, second, decision]).live() == (summary,)


def test_later_decisions_win_message_by_message():
    a, b = user("a"), user("b")
    masked, shorter = user("masked"), user("shorter")
    first = Decision("m", "", {a.id: (masked,), b.id: (masked,)})
    second = Decision("m", "", {a.id: (shorter,)})
    assert Transcript([a, b, first, second]).live() == (shorter, masked)


def test_a_decision_can_be_undone_and_the_undoing_too():
    a, b = user("a"), user("b")
    hidden = hide(a)
    undo = Decision("person", "bring it back", undoes=hidden.id)
    redo = Decision("person", "no, hide it", undoes=undo.id)
    assert Transcript([a, b, hidden, undo]).live() == (a, b)
    assert Transcript([a, b, hidden, undo, redo]).live() == (b,)
    again = Decision("person", "yes, show it", undoes=redo.id)
    assert Transcript([a, b, hidden, undo, redo, again]).live() == (a, b)


def test_hiding_a_call_hides_its_result_and_the_reverse_is_answered():
    asked, result = calls("a"), answers("a")
    assert view(user("x"), asked, result, hide(asked)) == ["user:x"]
    assert view(user("x"), asked, result, hide(result))[1:] == ["assistant:a", f"tool:{INTERRUPTED}"]


def test_a_masked_result_still_answers_its_call():
    asked, result = calls("a"), answers("a")
    masked = Decision("mask", "old", {result.id: (answers("a", word="[masked]"),)})
    assert view(asked, result, masked) == ["assistant:a", "tool:[masked] a"]


def test_a_pin_and_a_loaded_tool_hold_until_they_are_undone():
    first = user("x")
    pin = Decision("you", "keep it", pins=(first.id,), loads=("zip_files", "calc"))
    more = Decision("select", "asked for", loads=("calc", "search"))
    record = Transcript([first, pin, more])
    assert (record.pinned(), record.loaded()) == ({first.id}, ("zip_files", "calc", "search"))
    record.append(Decision("you", "no", undoes=pin.id))
    assert (record.pinned(), record.loaded()) == (set(), ("calc", "search"))
    assert record.standing()[0] is more


def test_a_decision_of_an_older_version_is_read_without_what_it_did_not_have():
    old = {"kind": "decision", "by": "mask", "why": "w", "changes": {}, "undoes": "", "id": "1"}
    assert decode(old) == Decision("mask", "w", id="1")


# -- encode and decode

ODD = "a\u2028b\u2029c\x85d\x0b\x0c\x1c\r\n\0\ud800 🍸 \x1b[2J"

EVERYTHING = [
    user("hello"),
    Message("system", (Text("be brief"),), "m1", datetime(2024, 2, 29, tzinfo=UTC)),
    assistant(Thinking("hm", "S1", "v"), Opaque("v", '{"x": 1}'), ODD, ToolCall("a", "t", '{"broken')),
    Message("tool", (ToolResult("a", (Text(ODD), Image(b"\x00\xff", "image/png")), is_error=True),)),
    Message("user", (Summary("so far", 3), Image(b"", "image/gif"))),
    Decision("compact", "full", {"m1": (user("x"), calls("b")), "m2": ()}, undoes="d0"),
    Decision(
        "you", "keep", pins=("m1",), loads=("calc",), before=9, after=4, usage=Usage(5, 2, estimated=True)
    ),
]


@pytest.mark.parametrize("entry", EVERYTHING, ids=lambda entry: type(entry).__name__)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_an_entry_reads_back_equal_from_one_line_of_json(entry, ascii_only):
    line = json.dumps(encode(entry), ensure_ascii=ascii_only)
    assert "\n" not in line
    again = decode(json.loads(line))
    assert again == entry
    assert encode(again) == encode(entry)


def test_thinking_goes_through_the_store_byte_for_byte():
    turn = assistant(
        Thinking("ab c", "S1", "v"),
        Opaque("v", "R1"),
        ToolCall("A", "t"),
        Thinking("d", "S2", "v"),
        ToolCall("B", "t"),
    )
    assert decode(json.loads(json.dumps(encode(turn)))).parts == turn.parts


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "message"},
        {"kind": "other"},
        {"kind": "message", "role": "boss", "parts": [], "id": "1", "at": "2024-01-01T00:00:00+00:00"},
        {"kind": "message", "role": "user", "parts": [{"kind": "song"}], "id": "1", "at": "2024-01-01"},
        {"kind": "message", "role": "user", "parts": [{"kind": "text"}], "id": "1", "at": "2024-01-01"},
        {
            "kind": "message",
            "role": "user",
            "parts": [{"kind": "text", "text": 5}],
            "id": "1",
            "at": "2024-01-01",
        },
        {"kind": "message", "role": "user", "parts": None, "id": "1", "at": "2024-01-01"},
        {"kind": "message", "role": "user", "parts": [], "id": "1", "at": "yesterday"},
        {"kind": "decision", "by": "x"},
        {"kind": "decision", "by": "x", "why": "", "changes": 5, "undoes": "", "id": "1"},
        [],
        None,
        "text",
    ],
)
def test_what_is_not_an_entry_is_refused(data):
    with pytest.raises(ValueError, match=r"."):
        decode(data)


def test_an_integer_that_is_too_long_is_told_in_the_words_of_the_model():
    with pytest.raises(
        ValueError, match=r"an integer of 5,000 digits, which is too long; send it as a string"
    ):
        parse_arguments('{"n": -' + "7" * 5000 + "}")
    assert parse_arguments('{"n": ' + "7" * 4000 + "}") == {"n": int("7" * 4000)}
