"""What fills the window: estimated, anchored on what the provider counted, and kept for each turn."""

import json
import threading
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from harness_nb.agent import Agent, Limits
from harness_nb.context.account import Account, TurnRecord, decode_turn, encode_turn, measured, records_of
from harness_nb.context.count import Counter, counter, counting
from harness_nb.context.tally import COMPONENTS, Anchor, Tally, scaled
from harness_nb.context.vocabulary import OFFLINE
from harness_nb.context.window import Window
from harness_nb.errors import ProviderError, UsageError
from harness_nb.events import ContextMeasured, Fill, ModelSwitched, Notice
from harness_nb.messages import (
    Decision,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Transcript,
    Usage,
    assistant,
    user,
)
from harness_nb.providers.fallback import falling_back
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.seams import Request, Run, layered
from harness_nb.tools import Toolbox, tool

COUNT = counting(OFFLINE)
WORDS = "hello " * 1000


def account(size=60_000, headroom=0, **more):
    return Account(Window(size, headroom), counting(OFFLINE), **more)


def request(*messages, instructions="", tools=(), max_output=None):
    return Request(instructions, messages, tools, max_output)


@tool(effects={"read"})
def look(words: int) -> str:
    """Look at something."""
    return "word " * words


BOX = Toolbox([look])


async def ran(turns, kept, *layers, transcript=None, limit=50):
    """Run a script to its end; return the run and what its listener heard."""
    heard = []
    run = Run(transcript, heard.append)
    model = layered(scripted(*turns), measured(kept, "m"), *layers)
    await Agent(model, BOX, "Be brief.", limits=Limits(turns=limit)).run("Look.", run)
    return run, heard


# -- one request


async def test_a_request_is_counted_by_what_fills_it():
    asked = request(
        user("hello"),
        assistant("hello", ToolCall("1", "look", "{}")),
        Message("tool", (ToolResult("1", (Text("hello world"),)),)),
        instructions="Be brief.",
        tools=BOX.specs,
    )
    fill = await account().measure(asked)
    assert list(fill.tokens) == ["system", "tools", "user", "assistant", "results"]
    assert fill.tokens["user"] == 5
    assert fill.tokens["results"] == 4 + 4 + 2
    assert (fill.how, fill.state, fill.window) == (OFFLINE, "green", 60_000)


async def test_results_of_a_searching_tool_count_as_retrieved():
    kept = account(retrieved={"search_notes"})
    asked = assistant(ToolCall("1", "search_notes"), ToolCall("2", "look"))
    answered = Message("tool", (ToolResult("1", (Text("hello world"),)), ToolResult("2", (Text("hello"),))))
    fill = await kept.measure(request(user("hi"), asked, answered))
    assert (fill.tokens["retrieved"], fill.tokens["results"]) == (6, 4 + 5)


@pytest.mark.parametrize(
    ("size", "state"), [(2000, "green"), (1500, "yellow"), (1257, "yellow"), (1256, "red"), (0, "green")]
)
async def test_the_window_turns_yellow_and_red_at_its_thresholds(size, state):
    fill = await account(size).measure(request(user(WORDS)))
    assert fill.total == 1005
    assert fill.state == state


async def test_a_reply_that_may_be_longer_than_the_headroom_keeps_its_place_free():
    fills = [
        await account(60_000, 4_000).measure(request(user("hi"), max_output=m)) for m in (None, 9_000, 70_000)
    ]
    assert [fill.headroom for fill in fills] == [4_000, 9_000, 4_000]


@pytest.mark.parametrize(
    ("yellow", "red"), [(0, 0.8), (0.8, 0.6), (0.6, 0.6), (0.6, 1.1), (-1, 0.5), (float("nan"), 0.8)]
)
def test_thresholds_that_contradict_each_other_are_one_sentence(yellow, red):
    with pytest.raises(UsageError, match=r"^The window can't turn yellow at .* and yellow comes first\.$"):
        account(yellow=yellow, red=red)


async def test_a_window_that_has_to_be_looked_up_is_looked_up_once_and_off_the_loop():
    found = []

    def look_up():
        found.append(threading.current_thread() is threading.main_thread())
        return Window(1000)

    kept = Account(look_up, counter())
    await kept.measure(request(user("hi")))
    assert (await kept.measure(request(user("hi")))).window == kept.window.size == 1000
    assert found == [False]


# -- the anchor


async def test_what_the_provider_counted_holds_for_that_request():
    kept, asked = account(), request(user(WORDS), instructions="Be brief.")
    kept.anchor(asked, Usage(1500, 10))
    fill = await kept.measure(asked)
    assert (fill.total, fill.how) == (1500, f"provider + {OFFLINE}")


async def test_what_came_since_is_estimated_by_the_ratio_learnt():
    kept, messages = account(), [user("hello " * 100)]
    for number in range(1, 6):
        kept.anchor(request(*messages), Usage(350 + 2 * number * 105))
        messages.append(user("hello " * 100))
    assert (await kept.measure(request(*messages))).total == pytest.approx(350 + 2 * 6 * 105, rel=0.03)


async def test_what_was_taken_out_is_taken_off_the_count():
    kept = account()
    kept.anchor(request(user(WORDS), user(WORDS)), Usage(2010 + 300))
    after = await kept.measure(request(user("short"), user(WORDS)))
    assert after.total == pytest.approx(1010 + 300, rel=0.12)


@pytest.mark.parametrize("usage", [Usage(5000, 1, estimated=True), Usage(0, 9)])
async def test_a_guess_is_no_anchor(usage):
    kept, asked = account(), request(user(WORDS))
    kept.anchor(asked, usage)
    assert (await kept.measure(asked)).total == 1005


@pytest.mark.parametrize("counted", [-5, 3, 49, 10**12])
async def test_a_count_that_can_not_be_of_this_request_is_no_anchor(counted):
    kept, asked = account(), request(user(WORDS))
    kept.anchor(asked, Usage(1500, 10))
    kept.anchor(asked, Usage(counted, 10))
    assert (await kept.measure(asked)).total == 1500


async def test_cached_tokens_are_in_the_count_once():
    kept, asked = account(), request(user(WORDS))
    kept.anchor(asked, Usage(1500, 10, cache_read=1400, cache_write=50))
    assert (await kept.measure(asked)).total == 1500


@given(
    st.dictionaries(st.sampled_from(COMPONENTS), st.integers(0, 10**6)),
    st.integers(0, 10**7),
)
def test_scaled_numbers_sum_up_exactly_and_keep_their_order(numbers, total):
    found = scaled(numbers, total)
    assert sum(found.values()) == (total if sum(numbers.values()) else 0)
    assert all(tokens > 0 for tokens in found.values())
    for one in numbers:
        for other in numbers:
            assert numbers[one] <= numbers[other] or found.get(one, 0) >= found.get(other, 0)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)), min_size=1), st.integers(0, 10**6))
def test_whatever_a_provider_counts_an_estimate_is_never_negative(counts, later):
    anchor = Anchor.first(*counts[0])
    for estimate, actual in counts[1:]:
        anchor = anchor.moved(estimate, actual)
    assert anchor.total(later) >= 0
    assert anchor.total(counts[-1][0]) == counts[-1][1]


MESSAGES = [user(f"{n} " * n) for n in range(6)]


@given(st.lists(st.lists(st.sampled_from(MESSAGES), max_size=6)))
def test_a_tally_kept_up_is_one_made_anew(requests):
    kept = Tally(COUNT, frozenset())
    for messages in requests:
        asked = request(*messages)
        assert kept.tokens(asked) == Tally(COUNT, frozenset()).tokens(asked)


async def test_a_request_that_grew_is_counted_by_what_is_new_only():
    kept, messages = account(), tuple(user(f"message {n}") for n in range(50))
    await kept.measure(request(*messages))
    assert [message.text for message in kept._tally.fresh((*messages, user("new")))] == ["new"]


# -- the window learnt


@pytest.mark.parametrize(
    ("known", "told", "then"),
    [
        (Window(200_000, 8_192, 0, "genai-prices"), 32_768, 32_768),
        (Window(), 32_768, 32_768),
        (Window(8_000, 0, 0, "model"), 32_768, 32_768),
        (Window(8_000, 0, 0, "configuration"), 32_768, 8_000),
        (Window(64_000, 0, 0, "configuration"), 32_768, 32_768),
        (Window(64_000, 0, 0, "model"), 0, 64_000),
    ],
)
def test_a_refusal_tells_the_window_and_only_narrows_what_a_person_set(known, told, then):
    kept = Account(known, counter())
    kept.learn(told)
    assert kept.window.size == then


async def test_another_model_has_another_window_and_no_anchor_yet():
    kept, asked = account(), request(user(WORDS))
    kept.anchor(asked, Usage(5000))
    kept.change(Window(1000), counting("characters"))
    fill = await kept.measure(asked)
    assert (fill.window, fill.how) == (1000, "characters")
    assert fill.total != 5000


# -- the layer


async def test_each_request_is_measured_before_it_is_sent_and_recorded_after():
    kept = account()
    run, heard = await ran([say(call("look", words=500), usage=Usage(300, 9)), "Done."], kept)
    kinds = [type(event).__name__ for event in heard]
    assert kinds.index("TurnStarted") + 1 == kinds.index("ContextMeasured")
    assert [event.fill for event in heard if isinstance(event, ContextMeasured)] == [
        t.fill for t in kept.turns
    ]
    assert [(t.run, t.turn, t.model) for t in kept.turns] == [(run.id, 1, "m"), (run.id, 2, "m")]
    assert kept.turns[0].message_id == run.transcript.messages[1].id


async def test_a_record_leads_to_exactly_what_the_model_saw():
    kept, model = account(), scripted(say(call("look", words=5)), say(call("look", words=6)), "Done.")
    run = Run()
    await Agent(layered(model, measured(kept)), BOX, "Be brief.").run("Look.", run)
    for turn, asked in zip(kept.turns, model.requests, strict=True):
        seen = Transcript(run.transcript.entries[: turn.entries]).live()
        assert Request(turn.instructions, seen, turn.specs) == asked


async def test_a_decision_taken_while_asking_is_in_what_was_seen():
    async def shortening(asked, run, proceed):
        first = asked.messages[0]
        run.append(Decision("compact", "Too long.", {first.id: (user("short"),)}))
        return await proceed(Request(asked.instructions, run.transcript.live(), asked.tools))

    kept = account()
    run, heard = await ran(
        [say("Done.", usage=Usage(80, 2))], kept, shortening, transcript=Transcript([user(WORDS)])
    )
    (turn,) = kept.turns
    assert turn.fill.total < 200
    assert Transcript(run.transcript.entries[: turn.entries]).live()[0].text == "short"
    assert [event.fill.total < 200 for event in heard if isinstance(event, ContextMeasured)] == [False, True]


async def test_what_another_model_counted_is_no_anchor_and_its_name_is_kept():
    kept = account()
    other = scripted(say("Yes.", usage=Usage(9999, 2)), name="other")
    _, heard = await ran([ProviderError("Overloaded.", retryable=True)], kept, falling_back(other))
    assert any(isinstance(event, ModelSwitched) for event in heard)
    assert kept.turns[0].model == "other"
    assert (await kept.measure(request(user("hi")))).how == OFFLINE


async def test_an_account_goes_on_from_run_to_run():
    kept = account()
    run, _ = await ran([say("One.", usage=Usage(400, 2))], kept)
    await ran([say("Two.", usage=Usage(420, 2))], kept, transcript=run.transcript)
    assert [turn.turn for turn in kept.turns] == [1, 1]
    assert kept.turns[1].fill.total == pytest.approx(420, rel=0.05)


async def test_a_failed_request_leaves_no_record():
    kept = account()
    await ran([ProviderError("Bad request.")], kept)
    assert kept.turns == []


async def test_counts_by_characters_are_told_of_once():
    kept = Account(Window(), Counter(("a vocabulary that is nowhere",)))
    _, heard = await ran([say(call("look", words=5)), "Done."], kept)
    assert [event.text for event in heard if isinstance(event, Notice)] == [kept.counter.notice]
    assert kept.turns[-1].fill.how == "characters"


# -- records


def record(**more):
    fill = {"tokens": {"system": 5, "user": 7}, "window": 100, "headroom": 10, "how": "x", "state": "green"}
    given = {
        "run": "r",
        "turn": 3,
        "entries": 7,
        "instructions": "Be brief.",
        "specs": BOX.specs,
        "usage": Usage(12, 3, cache_read=4),
        "model": "m",
        "message_id": "id",
    }
    return TurnRecord(**{**given, "fill": Fill(**fill), **more})


def test_a_record_survives_the_way_through_json():
    hidden = tuple(replace(spec, deferred=True) for spec in BOX.specs)
    for kept in (record(), record(specs=hidden), record(usage=Usage(12, 3, context=5))):
        assert decode_turn(json.loads(json.dumps(encode_turn(kept)))) == kept


@pytest.mark.parametrize(
    "data", [{}, {"specs": 7}, {**encode_turn(record()), "more": 1}, {**encode_turn(record()), "fill": {}}]
)
def test_what_is_no_record_is_said_to_be_none(data):
    with pytest.raises(ValueError, match="not a turn's record"):
        decode_turn(data)


@pytest.mark.parametrize(
    ("usage", "error"),
    [(Usage(10), 0.2), (Usage(24), -0.5), (Usage(12, estimated=True), None), (Usage(), None)],
)
def test_a_record_tells_how_far_off_the_measure_was(usage, error):
    assert record(usage=usage).error == (error if error is None else pytest.approx(error))


async def test_records_are_rebuilt_from_a_transcript_that_was_loaded():
    kept = account()
    run, _ = await ran([say(call("look", words=500)), say(call("look", words=9)), "Done."], kept)
    rebuilt = records_of(Transcript(run.transcript.entries), account())
    assert [(t.entries, t.message_id) for t in rebuilt] == [(t.entries, t.message_id) for t in kept.turns]
    assert [t.fill.tokens["results"] for t in rebuilt[1:]] == [
        t.fill.tokens["results"] for t in kept.turns[1:]
    ]
    assert all(t.usage.estimated for t in rebuilt)
    assert records_of(Transcript()) == []


async def test_from_a_count_that_is_not_of_the_request_nothing_is_learnt():
    kept = Account(Window(9_000), counting("characters"))
    told = say("Hello.", usage=Usage(4_000, 3))
    for _ in range(2):
        model = layered(scripted(told), measured(kept, counted=False))
        outcome = await Agent(model, instructions="Be brief.").run("hi")
    assert [turn.error for turn in kept.turns] == [None, None]
    assert kept.turns[1].fill == kept.turns[0].fill
    assert outcome.usage == Usage(4_000, 3)
