"""Masking: which old results give way, what stands in their place, and what never moves."""

import pytest
from hypothesis import given, strategies as st

from harness_nb.context.count import counting
from harness_nb.context.mask import MARK, WORTH, freed, masking, masks, too_large
from harness_nb.messages import (
    Decision,
    Image,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Transcript,
    assistant,
    user,
)

COUNTER = counting("characters")
LONG = "twelve green apples and a pear " * 60


def asked(name, **arguments):
    return assistant(ToolCall(name, "look", str(arguments).replace("'", '"')))


def gave(name, text=LONG, *, error=False):
    return Message("tool", (ToolResult(name, (Text(text),), error),))


def record(*sizes):
    """A prompt, then a call and its result for each size, in repetitions of a sentence."""
    entries = [user("Look at all of them.")]
    for number, size in enumerate(sizes):
        entries += [asked(f"c{number}", n=number), gave(f"c{number}", LONG[:31] * size)]
    return Transcript(entries)


def masked(transcript, **how):
    """The numbers of the results that are masked."""
    changes = masking(transcript.shown(), COUNTER, **how)
    view = Transcript([*transcript.entries, Decision("mask", "why", changes)]).live()
    results = [result for message in view for result in message.results]
    return [n for n, result in enumerate(results) if result.text.startswith(MARK)]


def test_all_but_the_newest_three_are_masked():
    assert masked(record(60, 60, 60, 60, 60)) == [0, 1]
    assert masked(record(60, 60, 60)) == []


def test_the_largest_and_oldest_go_first_until_the_goal_is_met():
    assert masked(record(60, 400, 60, 60, 60, 60, 60), goal=1) == [1]
    assert masked(record(60, 61, 60, 60, 60, 60), goal=1) == [0]


def test_short_results_stay_and_so_does_what_is_spared():
    transcript = record(1, 60, 60, 60, 60, 60)
    second = transcript.messages[4]
    assert masked(transcript) == [1, 2]
    assert masked(transcript, spared={second.id}) == [2]


def test_of_parallel_results_each_is_judged_by_itself():
    calls = assistant(ToolCall("a", "look"), ToolCall("b", "look"), ToolCall("c", "look"))
    results = Message("tool", tuple(ToolResult(n, (Text(LONG),)) for n in "abc"))
    assert masked(Transcript([user("x"), calls, results]), keep=1) == [0, 1]


def test_the_line_names_the_call_its_size_and_how_to_have_the_result_again():
    transcript = record(60, 60, 60, 60)
    changes = masking(transcript.shown(), COUNTER, again=lambda call, result: f"Read {call.id} again.")
    (line,) = [message for messages in changes.values() for message in messages]
    assert line.results[0].text.startswith("[Masked to make room: look n=0 gave about ")
    assert line.results[0].text.endswith("tokens here. Read c0 again.]")


def test_the_line_keeps_id_time_call_and_error_mark():
    transcript = Transcript([user("x"), asked("a"), gave("a", error=True)])
    old = transcript.messages[-1]
    ((new,),) = masking(transcript.shown(), COUNTER, keep=0).values()
    assert (new.id, new.at, new.role) == (old.id, old.at, "tool")
    assert (new.results[0].call_id, new.results[0].is_error) == ("a", True)


def test_pictures_go_with_their_result():
    picture = ToolResult("a", (Text(LONG), Image(b"\x89PNG" * 9, "image/png")))
    ((new,),) = masking(
        Transcript([user("x"), asked("a"), Message("tool", (picture,))]).shown(), COUNTER, keep=0
    ).values()
    assert [type(part) for part in new.results[0].content] == [Text]


def test_a_result_that_is_a_picture_only_is_masked_for_the_room_it_takes():
    shot = Message("tool", (ToolResult("a", (Image(b"\x89PNG" * 9, "image/png"),)),))
    transcript = Transcript([user("x"), asked("a"), shot])
    changes = masking(transcript.shown(), COUNTER, keep=0)
    assert "gave about 1,604 tokens here" in changes[shot.id][0].results[0].text
    assert freed(transcript.shown(), changes, COUNTER) > 1_500


def test_where_calls_share_an_id_each_line_names_its_own():
    transcript = Transcript([user("x"), asked("a", n=1), gave("a"), asked("a", n=2), gave("a")])
    lines = [now.results[0].text for (now,) in masking(transcript.shown(), COUNTER, keep=0).values()]
    assert ["look n=1" in lines[0], "look n=2" in lines[1]] == [True, True]


def test_several_results_in_one_message_are_several_masks_and_earlier_ones_do_not_count():
    results = Message("tool", tuple(ToolResult(name, (Text(LONG),)) for name in "abc"))
    calls = assistant(*(ToolCall(name, "look") for name in "abc"))
    transcript = Transcript([user("x"), calls, results])
    assert masks(transcript.shown(), masking(transcript.shown(), COUNTER, keep=0)) == 3
    transcript.append(Decision("mask", "why", masking(transcript.shown(), COUNTER, keep=2)))
    assert masks(transcript.shown(), masking(transcript.shown(), COUNTER, keep=0)) == 2


def test_a_call_with_broken_arguments_is_named_all_the_same():
    transcript = Transcript([user("x"), assistant(ToolCall("a", "look", '{"n": ')), gave("a")])
    ((new,),) = masking(transcript.shown(), COUNTER, keep=0).values()
    assert "look _invalid_json=" in new.results[0].text


@given(st.lists(st.integers(0, 200), max_size=12), st.integers(0, 4), st.none() | st.integers(0, 20_000))
def test_masking_twice_masks_nothing_more_and_frees_what_it_says(sizes, keep, goal):
    transcript = record(*sizes)
    changes = masking(transcript.shown(), COUNTER, keep=keep, goal=goal)
    before = sum(COUNTER.message(message) for message in transcript.live())
    gain = freed(transcript.shown(), changes, COUNTER)
    transcript.append(Decision("mask", "why", changes))
    assert before - sum(COUNTER.message(message) for message in transcript.live()) == gain >= 0
    if goal is None:
        assert masking(transcript.shown(), COUNTER, keep=keep) == {}


@given(st.lists(st.integers(0, 200), max_size=12), st.integers(0, 4))
def test_every_mask_is_smaller_than_what_it_hides(sizes, keep):
    transcript = record(*sizes)
    changes = masking(transcript.shown(), COUNTER, keep=keep)
    for recorded, (now,) in [(m, changes[m.id]) for m in transcript.messages if m.id in changes]:
        assert COUNTER.message(now) < COUNTER.message(recorded) - WORTH // 4


@pytest.mark.parametrize("newest", [True, False])
def test_a_result_larger_than_the_window_is_cut_to_its_ends_even_when_it_is_the_newest(newest):
    transcript = record(4000, *([] if newest else [1]))
    changes = too_large(transcript.shown(), COUNTER, 2_000, lambda call, result: "Read on with more.")
    ((now,),) = changes.values()
    assert COUNTER.message(now) <= 2_000
    assert now.results[0].text.startswith("[long output, shortened: first ")
    assert now.results[0].text.endswith("Read on with more]")


def test_what_fits_is_not_cut():
    assert too_large(record(60, 60).shown(), COUNTER, 2_000) == {}
