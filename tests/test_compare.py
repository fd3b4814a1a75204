"""Two turns' requests compared: what only adds breaks nothing, and what changes breaks at the first byte that differs."""

import json

import pytest
from hypothesis import given, strategies as st

from harness_nb.context.account import TurnRecord
from harness_nb.context.compare import compared, difference
from harness_nb.context.count import counting
from harness_nb.context.spelled import lines, readable, request_text
from harness_nb.events import Fill
from harness_nb.messages import (
    Decision,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Transcript,
    Usage,
    assistant,
    user,
)
from harness_nb.seams import Request, ToolSpec

COUNT = counting("characters")
EMPTY = Fill({}, 0, 0, "characters", "green")
LOOK = ToolSpec("look", "Look at it.", {"type": "object"})
FETCH = ToolSpec("fetch", "Fetch it.", {"type": "object"})

words = st.text(max_size=30)
specs = st.builds(ToolSpec, words, words, st.dictionaries(words, words, max_size=2))
parts = st.one_of(
    st.builds(Text, words),
    st.builds(Thinking, words, words),
    st.builds(ToolCall, words, words, words),
    st.builds(Image, st.binary(max_size=9), st.just("image/png")),
)
messages = st.builds(
    Message,
    st.sampled_from(["user", "assistant"]),
    st.lists(parts, max_size=3).map(tuple),
)
requests = st.builds(
    Request, words, st.lists(messages, max_size=4).map(tuple), st.lists(specs, max_size=3).map(tuple)
)


def written(request):
    return "".join(line.text for line in lines(request)).encode("utf-8", "surrogatepass")


def common(a, b):
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def record(entries, instructions="Be brief.", tools=(LOOK,)):
    return TurnRecord("r", 1, entries, instructions, tools, EMPTY, Usage(), "m", "id")


def session():
    """A session of two turns: a call with its result, then an answer."""
    return Transcript(
        [
            user("Look."),
            assistant(ToolCall("c1", "look")),
            Message("tool", (ToolResult("c1", (Text("x" * 300),)),)),
            assistant("Done."),
        ]
    )


def masked(transcript):
    result = transcript.messages[2]
    return {result.id: (Message("tool", (ToolResult("c1", (Text("[masked]"),)),), result.id, result.at),)}


@given(requests, st.lists(messages, max_size=3))
def test_what_is_only_added_breaks_nothing(old, added):
    new = Request(old.instructions, (*old.messages, *added), old.tools)
    found = difference(old, new, COUNT)
    assert not found.broke
    assert found.same == found.before == len(written(old))
    assert found.why == found.was == found.part == ""


@given(requests, requests)
def test_the_break_is_where_the_bytes_part(old, new):
    found = difference(old, new, COUNT)
    assert found.same == common(written(old), written(new))
    assert (found.before, found.after) == (len(written(old)), len(written(new)))
    assert found.broke == (not written(new).startswith(written(old)))
    assert bool(found.why) == bool(found.part) == found.broke


def test_a_masked_result_names_the_message_and_the_decision():
    transcript = session()
    transcript.append(Decision("mask", "The context was full.", masked(transcript)))
    found = compared(record(4), record(5), transcript, COUNT)
    assert found.part == "message 3 (tool)"
    assert found.decision is transcript.entries[-1]
    assert found.why == 'Message 3 (tool) was changed by a decision, "mask": The context was full.'
    assert found.was.endswith("x" * 60)
    assert '{"text": "[masked]"}' in found.now


def test_an_undo_is_named_as_what_changed_it_back():
    transcript = session()
    transcript.append(Decision("mask", "Full.", masked(transcript)))
    transcript.append(Decision("you", "You took it back.", undoes=transcript.entries[-1].id))
    found = compared(record(5), record(6), transcript, COUNT)
    assert found.decision is transcript.entries[-1]
    assert "You took it back." in found.why


def test_a_turn_that_only_adds_keeps_the_whole_prefix():
    found = compared(record(1), record(3), session(), COUNT)
    assert not found.broke
    assert found.same == found.before < found.after
    assert found.lines == 3
    assert found.tokens == 0  # the record's fill is empty, and tokens are corrected by it


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (("A", (LOOK,)), ("B", (LOOK,)), "The system prompt changed."),
        (("A", (LOOK,)), ("", (LOOK,)), "The system prompt is gone."),
        (("", (LOOK,)), ("A", (LOOK,)), "A system prompt was added."),
        (("A", (LOOK, FETCH)), ("A", (FETCH, LOOK)), "The order of the tools changed, from `look` on."),
        (("A", (LOOK,)), ("A", ()), "The tool `look` was taken away."),
        (("A", (LOOK,)), ("A", (LOOK, FETCH)), "The tool `fetch` was added before what had been sent."),
        (
            ("A", (LOOK,)),
            ("A", (ToolSpec("look", "Look!", {"type": "object"}),)),
            "The description of the tool `look` changed.",
        ),
        (
            ("A", (LOOK,)),
            ("A", (ToolSpec("look", "Look at it.", {}),)),
            "The parameters of the tool `look` changed.",
        ),
    ],
)
def test_who_broke_the_prefix_is_said_in_one_sentence(old, new, why):
    (system, tools), (other, others) = old, new
    found = compared(record(1, system, tools), record(1, other, others), session(), COUNT)
    assert found.why == why


def test_the_request_reads_as_json_without_keys_ids_and_bytes():
    key = "sk-ant-" + "a1" * 20
    told = user(f"My key is {key}.")
    transcript = Transcript([told, Message("user", (Image(b"\x89PNG" * 50, "image/png"),))])
    text = request_text(record(2), transcript)
    assert key not in text
    assert "[key left out]" in text
    assert told.id not in text
    assert "iVBOR" not in text
    decoder, read = json.JSONDecoder(), []
    while text:
        data, end = decoder.raw_decode(text)
        read.append(data)
        text = text[end:].lstrip()
    assert [next(iter(data)) for data in read] == ["system", "tool", "role", "role"]


def test_no_half_of_a_key_stands_round_the_break():
    key, other = "sk-ant-" + "a1" * 20, "sk-ant-" + "a1" * 10 + "b2" * 10
    found = difference(Request(f"The key {key}", ()), Request(f"The key {other}", ()), COUNT)
    assert found.broke
    assert "a1a1" not in found.was + found.now
    assert "b2b2" not in found.was + found.now


def test_a_long_request_is_cut_to_its_newest_parts():
    asked = Request("Be brief.", tuple(user(f"{n} " + "word " * 100) for n in range(100)))
    text = readable(asked, 3_000)
    assert len(text) < 3_200
    assert text.startswith("[… 9")
    assert '"99 word' in text
