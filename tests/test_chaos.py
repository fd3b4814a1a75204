"""The loop survives every fault: a named end, a valid record, nothing run on a guess, nothing shown twice."""

import asyncio
from collections import Counter
from typing import get_args

import pytest
from hypothesis import given, settings, strategies as st

from harness_nb.agent import Agent, Limits
from harness_nb.errors import ProviderError, UsageError
from harness_nb.events import CallDelta, MessageAdded, TextDelta, TurnRestarted, TurnStarted
from harness_nb.messages import Thinking
from harness_nb.providers.chaos import Chaos, Fault
from harness_nb.providers.retry import RetryPolicy, retrying
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.seams import Run, layered
from harness_nb.tools import Toolbox, tool

FAULTS = get_args(Fault)
ENDED = "Both are noted, and that is all there is to say."


async def no_wait(_):
    pass


class Notes:
    """A tool that writes down what it was told, so that a test can see every run of its body."""

    def __init__(self):
        self.told = []

    def note(self, text: str, times: int = 1) -> str:
        """Note a text."""
        self.told.append((text, times))
        return f"noted {text}"


def script(request):
    """Ask for two notes until they are noted, then end: like a model that hears what went wrong."""
    results = [result for message in request.messages for result in message.results]
    noted = {result.text for result in results if not result.is_error}
    asks = [call("note", text=text, times=2) for text in ("one", "two") if f"noted {text}" not in noted]
    return say(Thinking("Hm."), "I note.", *asks) if asks else ENDED


async def play(plan=(), layers=(), **chaos):
    notes, heard = Notes(), []
    model = Chaos(scripted(*[script] * 60), plan, pace=0, **chaos)
    retry = retrying(RetryPolicy(attempts=20, total=1000), sleep=no_wait)
    agent = Agent(layered(model, *layers, retry), Toolbox([tool(notes.note)]), limits=Limits(turns=15))
    run = Run(listener=heard.append)
    outcome = await agent.run("Note one and two.", run)
    return outcome, notes.told, heard


def check(outcome, told, heard):
    assert outcome.reason in {"done", "incomplete", "turns", "error"}
    assert set(told) <= {("one", 2), ("two", 2)}
    ids = Counter(call.id for message in outcome.transcript.messages for call in message.calls)
    assert all(ids)
    assert set(ids.values()) <= {1}
    for message, after in zip(
        outcome.transcript.messages, [*outcome.transcript.messages[1:], None], strict=True
    ):
        if message.calls:
            assert [result.call_id for result in after.results] == [call.id for call in message.calls]
    assert outcome.transcript.live() == outcome.transcript.messages
    shown = ""
    for event in heard:
        match event:
            case TextDelta(piece):
                shown += piece
            case TurnStarted() | TurnRestarted():
                shown = ""
            case MessageAdded(message) if message.role == "assistant":
                assert shown == message.text
            case _:
                pass


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_run_comes_through_each_fault(fault):
    outcome, told, heard = await play([fault])
    check(outcome, told, heard)
    assert (outcome.reason, outcome.text) == ("done", ENDED)
    assert sorted(told) == [("one", 2), ("two", 2)]


@settings(deadline=None)
@given(st.lists(st.sampled_from([None, *FAULTS]), max_size=12))
async def test_a_run_comes_through_any_order_of_faults(plan):
    check(*await play(plan))


@settings(deadline=None)
@given(st.integers(), st.sampled_from(FAULTS), st.sampled_from([0.3, 1.0]))
async def test_a_run_comes_through_faults_by_chance(seed, fault, odds):
    check(*await play(odds={fault: odds}, seed=seed))


async def test_the_same_seed_makes_the_same_faults():
    odds = dict.fromkeys(FAULTS, 0.1)
    (_, _, one), (_, _, two) = [await play(odds=odds, seed=4) for _ in range(2)]
    assert [type(event) for event in one] == [type(event) for event in two]


@pytest.mark.parametrize("fault", ["malformed_arguments", "truncated_arguments", "hidden_truncation"])
async def test_broken_arguments_never_run_and_the_model_is_told(fault):
    outcome, told, _ = await play(odds={fault: 1.0})
    first = outcome.transcript.messages[2].results
    assert ("two", 2) not in told or fault == "hidden_truncation"
    assert first[-1].is_error
    assert ("cut off" if fault == "truncated_arguments" else "not a valid JSON object") in first[-1].text


@pytest.mark.parametrize("fault", ["duplicate_ids", "missing_ids"])
async def test_calls_with_no_id_of_their_own_each_get_their_own_result(fault):
    outcome, told, _ = await play(odds={fault: 1.0})
    results = outcome.transcript.messages[2].results
    assert [result.text for result in results] == ["noted one", "noted two"]
    assert len({result.call_id for result in results}) == 2
    assert len(told) == 2


async def test_ids_stay_distinct_over_turns():
    again = say(call("note", text="a"))
    model = Chaos(scripted(again, again, "Done."), odds={"duplicate_ids": 1.0})
    outcome = await Agent(model, Toolbox([tool(Notes().note)])).run("go")
    ids = [call.id for message in outcome.transcript.messages for call in message.calls]
    assert ids == ["call_0", "call_0_2"]


@pytest.mark.parametrize("fault", ["mid_stream_error", "cut_stream"])
async def test_half_a_turn_is_shown_then_void_and_nothing_ran_twice(fault):
    _, told, heard = await play([fault])
    assert any(isinstance(event, TurnRestarted) for event in heard)
    assert len(told) == 2


async def test_pieces_are_interleaved_but_each_stream_keeps_its_order():
    _, _, heard = await play(["reordered_stream"], seed=1)
    first = heard[: next(n for n, event in enumerate(heard) if isinstance(event, MessageAdded) and n > 2)]
    assert "".join(event.text for event in first if isinstance(event, TextDelta)) == "I note."
    raws = {}
    for event in (event for event in first if isinstance(event, CallDelta)):
        raws[event.id] = raws.get(event.id, "") + event.text
    assert list(raws.values()) != []
    assert set(raws.values()) == {'{"text": "one", "times": 2}', '{"text": "two", "times": 2}'}


async def test_a_slow_stream_can_be_stopped():
    run = Run(listener=lambda event: isinstance(event, TextDelta) and run.stop())
    outcome = await Agent(Chaos(scripted("Hello there, you."), ["slow_stream"], pace=60)).run("hi", run)
    assert outcome.reason == "interrupted"
    assert outcome.text == "Hello there,"


async def test_without_faults_it_is_the_model_itself_streaming_live():
    first = asyncio.Event()
    run = Run(listener=lambda event: isinstance(event, TextDelta) and first.set())
    task = asyncio.create_task(Agent(Chaos(scripted("Hello there.", pace=60))).run("hi", run))
    await first.wait()
    run.stop()
    assert (await task).reason == "interrupted"


async def test_an_error_of_one_s_own_can_stand_in_the_plan():
    outcome, _, _ = await play([ProviderError("Away.", status=429, retryable=True, retry_after=3600)])
    assert "asks to wait 60 minutes" in outcome.detail


def test_an_unknown_fault_is_one_sentence_with_the_nearest():
    with pytest.raises(UsageError, match=r"No fault is called `overload`. Did you mean `overloaded`\?"):
        Chaos(scripted(), ["overload"])


@pytest.mark.parametrize("fault", ["cut_stream", "mid_stream_error", "rate_limit"])
async def test_a_script_does_not_lose_its_place(fault):
    model = layered(Chaos(scripted("One."), [fault]), retrying(sleep=no_wait))
    assert (await Agent(model).run("hi")).text == "One."
