"""The fold from events to what a person sees."""

import pytest
from hypothesis import given, strategies as st

from harness_nb.agent import NEVER_RAN, Agent, interrupted_text
from harness_nb.errors import ProviderError
from harness_nb.events import (
    CallDelta,
    ContextMeasured,
    DecisionMade,
    Fill,
    MessageAdded,
    ModelSwitched,
    Notice,
    Progress,
    RetryWaiting,
    RunEnded,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)
from harness_nb.jupyter.decision_card import DecisionCard, Effect
from harness_nb.jupyter.segments import Note, ToolUse, Words
from harness_nb.jupyter.view import HEADLINES, RunView
from harness_nb.jupyter.words import arguments, clipped, one_line, pretty, size, took, visible, weight
from harness_nb.messages import Decision, Image, Message, Text, ToolCall, ToolResult, Usage, assistant, user
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.seams import Run
from harness_nb.tools import Toolbox, tool

STARTED = RunStarted("r1", "tiny", 50)
ADD = ToolCall("c1", "add", '{"a": 1, "b": 2}')


def answer(text, *, error=False, call_id="c1"):
    return ToolResult(call_id, (Text(text),), is_error=error)


def seen(*events, prompt="Why?", ticks=None):
    """A view of these events; the clock shows the next of `ticks` at each look, else 0."""
    times = iter(ticks or ())
    view = RunView(prompt, clock=lambda: next(times, 0.0))
    for event in events:
        view.take(event)
    return view


def called(*events):
    return seen(STARTED, TurnStarted(1), CallDelta("c1", "add"), *events).segments[0]


def ended(reason, detail=""):
    return seen(STARTED, TurnStarted(1), TextDelta("So far"), RunEnded(reason, detail, 1, Usage(10, 2)))


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def test_a_whole_run_becomes_thinking_a_call_and_an_answer():
    view = RunView("What is 1 + 2?")
    model = scripted(say("I add. ", call("add", a=1, b=2)), "It is 3.")
    await Agent(model, Toolbox([add])).run("What is 1 + 2?", Run(listener=view.take))
    words, use, last = view.segments
    assert (words.text, use.line, last.text) == ("I add. ", "add a=1, b=2 → 3", "It is 3.")
    assert (view.reason, view.turn, view.limit, view.answer) == ("done", 2, 50, "It is 3.")


async def test_calls_whose_ids_were_taken_by_an_earlier_run_are_shown_once():
    def model():
        return scripted(say(call("add", a=1, b=2), call("add", a=3, b=4)), "Done.")

    earlier = await Agent(model(), Toolbox([add])).run("One.")
    view = RunView("Two.")
    await Agent(model(), Toolbox([add])).run("Two.", Run(earlier.transcript, view.take))
    assert [use.line for use in view.segments[:-1]] == ["add a=1, b=2 → 3", "add a=3, b=4 → 7"]


def test_deltas_of_a_kind_join_and_another_kind_starts_a_segment():
    view = seen(STARTED, ThinkingDelta("Hm"), ThinkingDelta("m."), TextDelta("A"), TextDelta("h."))
    assert [(s.kind, s.text) for s in view.segments] == [("thinking", "Hmm."), ("text", "Ah.")]


def test_thinking_says_how_long_it_took_and_how_much_it_is():
    view = seen(STARTED, ThinkingDelta("x" * 1200), TextDelta("A"), ticks=[0, 1, 3.5])
    assert view.segments[0].aside == "2.5 s · 1,200 characters"
    counted = seen(
        STARTED, TurnStarted(1), ThinkingDelta("x"), TurnEnded(1, Usage(9, 90, reasoning=84), "end")
    )
    assert counted.segments[0].aside == "under 1 s · 84 tokens"


def test_take_says_which_segment_an_event_touched():
    view = RunView()
    assert [view.take(e) for e in (STARTED, TextDelta("a"), TextDelta("b"), ThinkingDelta("c"))] == [
        None,
        0,
        0,
        1,
    ]


@pytest.mark.parametrize(
    ("events", "state", "outcome"),
    [
        ([], "writing", "writing"),
        ([MessageAdded(assistant(ADD))], "waiting", "waiting"),
        ([ToolStarted(ADD)], "running", "running"),
        ([ToolStarted(ADD), ToolFinished(ADD, answer("3"), 0.1)], "ok", "→ 3"),
        ([ToolStarted(ADD), ToolFinished(ADD, answer("a\nb"), 0.1)], "ok", "ok, 2 lines, 3 bytes"),
        ([ToolStarted(ADD), ToolFinished(ADD, answer("no", error=True), 0.1)], "failed", "failed: no"),
        ([ToolFinished(ADD, answer("denied", error=True), 0.1)], "not run", "not run: denied"),
        ([ToolFinished(ADD, answer(NEVER_RAN, error=True), 0.0)], "not run", "not run"),
        (
            [ToolStarted(ADD), ToolFinished(ADD, answer(NEVER_RAN, error=True), 0.0)],
            "failed",
            f"failed: {NEVER_RAN}",
        ),
        ([ToolStarted(ADD), RunEnded("error", "", 1, Usage())], "interrupted", "interrupted"),
        ([RunEnded("interrupted", "", 1, Usage())], "not run", "not run"),
    ],
)
def test_a_call_has_a_state_and_an_outcome(events, state, outcome):
    use = called(*events)
    assert (use.state, use.outcome) == (state, outcome)


def test_a_call_cut_off_while_it_ran_is_interrupted():
    result = answer(interrupted_text(3.2), error=True)
    use = called(ToolStarted(ADD), ToolFinished(ADD, result, 3.2))
    assert (use.state, use.upshot) == ("interrupted", "— interrupted · 3.2 s")


def test_a_picture_is_counted_in_the_outcome():
    result = ToolResult("c1", (Image(b"x" * 2400, "image/png"),))
    assert called(ToolStarted(ADD), ToolFinished(ADD, result, 0.1)).outcome == "1 picture, 2.4 kB"


def test_a_reply_that_was_not_streamed_is_shown_all_the_same():
    view = seen(STARTED, TurnStarted(1), MessageAdded(assistant("Hello.", ADD)))
    assert view.segments[0].text == "Hello."
    assert view.segments[1].arguments == "a=1, b=2"


def test_a_reply_that_was_streamed_is_not_shown_twice():
    view = seen(STARTED, TurnStarted(1), TextDelta("Hello."), MessageAdded(assistant("Hello.")))
    assert len(view.segments) == 1


def test_a_restarted_turn_loses_its_words_but_not_what_the_harness_said():
    events = [
        *(
            STARTED,
            TurnStarted(1),
            TextDelta("Kept."),
            TurnStarted(2),
            TextDelta("Lost"),
            CallDelta("c1", "add"),
        ),
        *(Notice("Careful."), TurnRestarted("the stream was cut"), TextDelta("New.")),
    ]
    said = [segment.text for segment in seen(*events).segments]
    assert said == ["Kept.", "Careful.", "Asked the model again: the stream was cut", "New."]


def test_retry_waits_of_one_request_are_one_line():
    waits = [RetryWaiting(seconds, n, 4, "overloaded") for n, seconds in enumerate((1.0, 2.2), 1)]
    view = seen(STARTED, TurnStarted(1), *waits)
    assert [note.text for note in view.segments] == [
        "Attempt 2 of 4 failed: overloaded. Next attempt after 2.2 s."
    ]
    assert view.doing == "waiting 2.2 s to ask again"


def test_a_fallback_model_is_named_for_its_turn():
    view = seen(STARTED, TurnStarted(1), ModelSwitched("other", "the first was down"))
    assert view.model == "other"
    view.take(TurnStarted(2))
    assert view.model == "tiny"


def test_what_the_harness_tells_the_model_and_decides_is_noted():
    decision = DecisionMade(Decision("mask", "6 old results were masked."))
    view = seen(STARTED, MessageAdded(user("Why?")), TurnStarted(1), MessageAdded(user("Go on.")), decision)
    assert [note.text for note in view.segments] == [
        "The harness told the model: Go on.",
        "6 old results were masked.",
    ]


def test_calls_left_open_by_an_earlier_run_are_mentioned():
    left = MessageAdded(Message("tool", (answer("?"), answer("?", call_id="c2"))))
    assert seen(STARTED, left).segments[0].text.startswith("2 calls left open by an earlier run")


@pytest.mark.parametrize("reason", HEADLINES)
def test_each_end_has_a_headline_and_all_but_done_a_sentence(reason):
    view = ended(reason, "Because of this")
    assert view.headline.startswith(HEADLINES[reason])
    assert bool(view.ending) == (reason != "done")
    assert ("Because of this." in view.ending) == (reason not in {"done", "interrupted"})


@pytest.mark.parametrize("reason", HEADLINES)
def test_an_ending_offers_no_next_prompt_where_there_is_none(reason):
    view = ended(reason, "Because of this")
    view.continues = False
    assert not any(word in view.ending for word in ("kept", "next prompt", "go on", "stands"))
    assert bool(view.ending) == (reason != "done")


def test_usage_grows_by_turn_and_ends_as_the_run_says():
    view = seen(
        STARTED, TurnStarted(1), TurnEnded(1, Usage(10, 2), "calls"), TurnEnded(2, Usage(20, 3), "end")
    )
    assert (view.usage.input, view.usage.output) == (30, 5)
    view.take(RunEnded("done", "", 2, Usage(31, 6)))
    assert view.usage.input == 31


def test_time_is_told_by_the_clock_given():
    view = seen(STARTED, RunEnded("done", "", 1, Usage()), ticks=[100.0, 106.2])
    assert view.headline == "done in 1 turn, 6.2 s"


EVENTS = st.sampled_from(
    [
        *(
            TextDelta("t"),
            ThinkingDelta("h"),
            CallDelta("c1", "add"),
            CallDelta("c2", "add", "{"),
            TurnStarted(2),
        ),
        *(MessageAdded(assistant("x", ADD)), ToolStarted(ADD), ToolFinished(ADD, answer("3"), 0.0)),
        *(TurnRestarted("cut"), RetryWaiting(1, 1, 2, "busy"), TurnEnded(1, Usage(1, 1, reasoning=1), "end")),
    ]
)


@given(st.lists(EVENTS, max_size=30))
def test_any_order_of_events_can_be_shown_and_ends_with_nothing_open(events):
    view = seen(STARTED, *events, RunEnded("interrupted", "", 2, Usage()))
    for segment in view.segments:
        match segment:
            case Words():
                assert segment.ended is not None
                assert segment.text
            case ToolUse():
                assert not segment.busy
                assert segment.line
            case Note():
                assert segment.text


def test_words_for_numbers_have_units_and_sensible_rounding():
    assert [took(s) for s in (0, 0.9, 6.24, 9.96, 59.6, 200, 7300)] == [
        *("under 1 s", "under 1 s", "6.2 s", "10 s", "1 min 0 s", "3 min 20 s", "2 h 1 min"),
    ]
    assert [weight(n) for n in (1, 312, 1130, 24_000, 5_200_000)] == [
        "1 byte",
        "312 bytes",
        "1.1 kB",
        "24 kB",
        "5.2 MB",
    ]
    assert size("a\nb\n") == "2 lines, 4 bytes"


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("10%\r50%\r100%", "10%␍50%␍100%"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("a\0b\x7f\x9b", "a␀b␡\\u009b"),
        ("user\u202egnp.exe\u2066", "user\\u202egnp.exe\\u2066"),
        ("a\u200bb\u2060\u2064\u00ad", "a\\u200bb\\u2060\\u2064\\u00ad"),
        ("hi\U000e0041\U000e007f", "hi\\U000e0041\\U000e007f"),
        (
            "\u0646\u0645\u06cc\u200c\u062e \N{WOMAN}\u200d\N{ROCKET}",
            "\u0646\u0645\u06cc\u200c\u062e \N{WOMAN}\u200d\N{ROCKET}",
        ),
        ("\udce9 and \ud83c\udf78", "\N{REPLACEMENT CHARACTER} and \N{COCKTAIL GLASS}"),
    ],
)
def test_control_codes_and_odd_characters_are_made_visible(hostile, shown):
    assert visible(hostile) == shown


def test_arguments_are_read_from_json_and_shown_raw_when_they_are_not():
    assert arguments('{"path": "a.csv", "rows": [1, 2]}') == 'path="a.csv", rows=[1, 2]'
    assert arguments('{"path": "a') == '{"path": "a'
    assert arguments("[1]") == "[1]"
    assert arguments("") == ""
    assert pretty('{"code": "a = 1\\nb = 2", "n": 1}') == "code = \n    a = 1\n    b = 2\nn = 1"


def test_long_texts_are_cut_and_say_so():
    assert len(arguments('{"text": "' + "x" * 900 + '"}')) < 200
    assert one_line("a\n  b", 20) == "a b"
    assert one_line("x" * 30, 20) == "x" * 19 + "…"
    assert "[… 900 characters not shown …]" in clipped("y" * 1000, 100)


async def test_a_provider_error_ends_the_view_with_its_words():
    view = RunView("Hi")
    await Agent(scripted(ProviderError("Overloaded"))).run("Hi", Run(listener=view.take))
    assert view.ending.startswith("The run failed: Overloaded. ")


def test_a_download_is_one_note_with_a_share_and_the_next_one_another():
    view = seen(Progress("it", 0, 200_000), Progress("it", 50_000, 200_000))
    assert [(note.text, note.share) for note in view.segments] == [("Fetching it: 50 kB of 200 kB.", 0.25)]
    assert view.doing == "fetching, 25%"
    view.take(Progress("it", 200_000, 200_000))
    view.take(Progress("that", 1, 2))
    assert [note.text for note in view.segments] == [
        "Fetched it: 200 kB.",
        "Fetching that: 1 byte of 2 bytes.",
    ]


# Decisions about the context

MASK = Decision("mask", "The context was 85% full, so 2 old tool results were masked.", {"m1": (), "m2": ()})


def filled(tokens, window=1000):
    return Fill({"results": tokens}, window, 0, "o200k_base", "red")


def test_the_gauge_is_what_was_measured_last_or_what_a_decision_made_of_it():
    view = seen(STARTED, TurnStarted(1), ContextMeasured(1, filled(850)))
    assert view.context == "context 85%, nearly full"
    view.effect_of = lambda _: Effect(after=filled(400))
    view.take(DecisionMade(MASK))
    assert view.fill.total == 400


def test_a_decision_that_changes_something_is_a_card_and_others_are_one_line():
    pin = Decision("you", "You pinned message 3.", pins=("m3",))
    loads = Decision("select", "`find` was loaded.", loads=("find",))
    view = seen(STARTED, TurnStarted(1), *map(DecisionMade, (MASK, pin, loads)))
    assert [type(segment) for segment in view.segments] == [DecisionCard, Note, Note]


def test_a_turn_that_is_asked_again_keeps_the_decisions_that_were_taken_in_it():
    view = seen(STARTED, TurnStarted(1), DecisionMade(MASK), TextDelta("Half"), TurnRestarted("cut"))
    assert [type(segment) for segment in view.segments] == [DecisionCard, Note]


@pytest.mark.parametrize("taken", [True, False])
def test_a_decision_that_is_asked_about_is_one_card_whatever_is_answered(taken):
    view = seen(STARTED, TurnStarted(1))
    card = view.propose(MASK)
    assert view.doing == "waiting for you: Mask 2 old tool results?"
    assert card.because == "The context was 85% full. Nothing has changed yet."
    view.settle(card, taken=taken)
    if taken:
        view.take(DecisionMade(MASK))
    assert [segment.state for segment in view.segments] == ["taken" if taken else "declined"]
    assert ("You said no" in card.headline) is not taken
