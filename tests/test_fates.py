"""What a decision does to each message: every kind of fate, its tokens, and words that say which message is meant."""

import pytest
from hypothesis import given, strategies as st

from harness_nb.context.compact import summary_message
from harness_nb.context.count import counting
from harness_nb.context.fates import fates
from harness_nb.context.mask import masking, too_large
from harness_nb.messages import Decision, Message, Text, ToolCall, ToolResult, Transcript, assistant, user

COUNTER = counting("characters")
LONG = "twelve green apples and a pear " * 60


def record(number=5):
    """A prompt, then so many calls with long results, and an answer."""
    entries = [user("Look at all of them.")]
    for n in range(number):
        entries.append(assistant(ToolCall(f"c{n}", "look", f'{{"n": {n}}}')))
        entries.append(Message("tool", (ToolResult(f"c{n}", (Text(f"{n}: {LONG}"),)),)))
    return Transcript([*entries, assistant("All seen.")])


def masks(transcript):
    return Decision("mask", "It was full.", masking(transcript.shown(), COUNTER))


def summarises(transcript, *indices):
    messages = transcript.messages
    changes = {messages[i].id: () for i in indices}
    changes[messages[indices[-1]].id] = (summary_message("Two were seen.", [messages[i] for i in indices]),)
    return Decision("compact", "It was full.", changes)


def kinds(told):
    return {fate.number: fate.fate for fate in told if fate.fate != "kept"}


def test_old_results_are_masked_and_all_else_is_kept():
    told = fates(record(), masks(record()), COUNTER)
    assert kinds(told) == {}, "a decision about another record's messages changes none of these"
    transcript = record()
    told = fates(transcript, masks(transcript), COUNTER)
    assert kinds(told) == {3: "masked", 5: "masked"}
    assert [fate.number for fate in told] == list(range(1, 13))
    masked = told[2]
    assert masked.before > 400
    assert 0 < masked.after < 60
    assert masked.what == "result of look n=0"


def test_the_fates_add_up_to_what_the_model_sees_before_and_after():
    transcript = record()
    told = fates(transcript, masks(transcript), COUNTER)
    after = Transcript([*transcript.entries, masks(transcript)])
    for fate_sum, view in (
        (sum(f.before for f in told), transcript.live()),
        (sum(f.after for f in told), after.live()),
    ):
        assert fate_sum == sum(COUNTER.message(message) for message in view)


def test_a_summary_takes_the_place_of_all_that_it_replaces():
    transcript = record()
    told = fates(transcript, summarises(transcript, 1, 2, 3, 4), COUNTER)
    assert kinds(told) == dict.fromkeys((2, 3, 4, 5), "summarised")
    assert [fate.after for fate in told[1:4]] == [0, 0, 0]
    assert told[4].after > 0


def test_without_a_summary_messages_are_dropped():
    transcript = record()
    left_out = Decision("compact", "No room.", {transcript.messages[1].id: (), transcript.messages[2].id: ()})
    assert kinds(fates(transcript, left_out, COUNTER)) == {2: "dropped", 3: "dropped"}


def test_what_was_gone_before_and_after_is_not_told_of():
    transcript = record()
    transcript.append(summarises(transcript, 1, 2, 3, 4))
    told = fates(transcript, masks(transcript), COUNTER)
    assert [fate.number for fate in told] == [1, 5, 6, 7, 8, 9, 10, 11, 12]


def test_a_huge_result_is_cut_and_what_a_provider_clears_is_cleared():
    transcript = record(1)
    cut = too_large(transcript.shown(), COUNTER, 200)
    assert kinds(fates(transcript, Decision("mask", "Huge.", cut), COUNTER)) == {3: "cut"}
    assert kinds(fates(transcript, Decision("provider", "Cleared.", cut), COUNTER)) == {3: "cleared"}


@pytest.mark.parametrize("decide", [masks, lambda t: summarises(t, 1, 2, 3, 4)])
def test_undoing_brings_back_and_undoing_that_does_it_again(decide):
    transcript = record()
    transcript.append(first := decide(transcript))
    undo = Decision("you", "Back.", undoes=first.id)
    brought = kinds(fates(transcript, undo, COUNTER))
    assert set(brought.values()) == {"brought back"}
    transcript.append(undo)
    again = fates(transcript, Decision("you", "Again.", undoes=undo.id), COUNTER)
    assert kinds(again) == kinds(fates(Transcript(transcript.messages), first, COUNTER))


def test_a_pinned_message_is_told_apart_from_one_that_is_only_kept():
    transcript = record()
    pin = Decision("you", "Pinned.", pins=(transcript.messages[0].id,))
    assert kinds(fates(transcript, pin, COUNTER)) == {1: "pinned"}


def test_each_message_is_described_by_its_first_words_or_its_calls():
    two = [ToolCall("a", "look", '{"n": 1}'), ToolCall("b", "find", "{}")]
    results = Message("tool", tuple(ToolResult(c.id, (Text("x"),)) for c in two))
    transcript = Transcript([user("Why\n\nnot? " * 40), assistant("Hm", *two), results, assistant("So.")])
    assert [fate.what for fate in fates(transcript, Decision("mask", ""), COUNTER)] == [
        "you: " + ("Why not? " * 40)[:59] + "…",
        "call of look n=1, and 1 more",
        "result of look n=1, and 1 more",
        "the model: So.",
    ]


@given(st.data())
def test_whatever_is_decided_the_sums_are_those_of_what_is_shown(data):
    transcript = record(3)
    ids = [message.id for message in transcript.messages]
    some = st.sampled_from([(), (user("Instead."),), (user("One."), user("Two."))])
    changes = data.draw(st.dictionaries(st.sampled_from(ids), some))
    decision = Decision("mask", "Any.", changes)
    told = fates(transcript, decision, COUNTER)
    shown = [m for _, new in Transcript([*transcript.entries, decision]).shown() for m in new]
    assert sum(fate.after for fate in told) == sum(COUNTER.message(m) for m in shown)
    assert {fate.id for fate in told if fate.fate == "kept"} == set(ids) - set(changes)
