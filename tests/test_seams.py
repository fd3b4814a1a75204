"""The sockets: layers go round what they wrap in order, and a run keeps count of what happens in it."""

import asyncio

import pytest

from harness_nb.errors import RunStop
from harness_nb.events import (
    CallDelta,
    DecisionMade,
    MessageAdded,
    Notice,
    TextDelta,
    ThinkingDelta,
    ToolStarted,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)
from harness_nb.messages import Decision, ToolCall, Usage, user
from harness_nb.providers.scripted import scripted
from harness_nb.seams import Request, Run, layered


def marking(name, log):
    async def layer(item, run, proceed):
        log.append(f"{name}+")
        answer = await proceed(item)
        log.append(f"{name}-")
        return answer

    return layer


async def core(item, run):
    return item * 2


async def test_the_first_layer_is_outermost():
    log = []
    assert await layered(core, marking("a", log), marking("b", log))(21, Run()) == 42
    assert log == ["a+", "b+", "b-", "a-"]


async def test_no_layers_is_the_thing_itself():
    assert await layered(core)(1, Run()) == 2


async def test_a_layer_may_change_answer_and_ask_again():
    async def changed(item, run, proceed):
        return await proceed(item + 1) + await proceed(item)

    async def answered(item, run, proceed):
        return -1 if item == 2 else await proceed(item)

    assert await layered(core, changed, answered)(1, Run()) == -1 + 2


async def test_one_layered_model_serves_many_runs():
    seen = []

    async def note(request, run, proceed):
        run.state["n"] = run.state.get("n", 0) + 1
        await asyncio.sleep(0)
        seen.append((run.id, run.state["n"]))
        return await proceed(request)

    model = layered(scripted("a", "b"), note)
    first, second = Run(), Run()
    await asyncio.gather(model(Request("", ()), first), model(Request("", ()), second))
    assert sorted(seen) == sorted([(first.id, 1), (second.id, 1)])


def test_layers_keep_the_models_name():
    assert layered(layered(scripted(name="mine"))).name == "mine"


def test_what_was_streamed_is_kept_until_the_turn_is_over():
    run = Run()
    for event in (
        TurnStarted(1),
        TextDelta("a"),
        ThinkingDelta("hm"),
        TextDelta("b"),
        CallDelta("1", "t", "{"),
    ):
        run.emit(event)
    assert (run.partial, run.streamed) == ("ab", True)


@pytest.mark.parametrize("end", [TurnStarted(2), TurnRestarted("again"), TurnEnded(1, Usage(), "end")])
def test_a_new_start_or_the_end_of_a_turn_forgets_what_was_streamed(end):
    run = Run()
    run.emit(TextDelta("a"))
    run.emit(end)
    assert (run.partial, run.streamed) == ("", False)


def test_a_call_counts_as_started_before_listeners_hear_of_it():
    seen = []
    run = Run(None, lambda event: seen.append(set(run.started)))
    run.emit(ToolStarted(ToolCall("a", "t")))
    assert seen == [{"a"}]


def test_what_is_appended_is_said():
    heard = []
    run = Run(None, heard.append)
    message, decision = user("hi"), Decision("test", "why")
    run.append(message)
    run.append(decision)
    assert heard == [MessageAdded(message), DecisionMade(decision)]
    assert run.transcript.entries == (message, decision)


def test_a_failing_listener_is_a_stop_with_its_cause():
    def bad(event):
        raise OSError("full")

    run = Run(None, bad)
    with pytest.raises(RunStop, match="A listener failed: OSError: full") as caught:
        run.append(user("hi"))
    assert (caught.value.reason, type(caught.value.__cause__)) == ("error", OSError)
    assert len(run.transcript) == 1


def test_a_listener_may_stop_the_run_by_name():
    def spent(event):
        raise RunStop("budget", "Spent.")

    with pytest.raises(RunStop) as caught:
        Run(None, spent).emit(Notice("x"))
    assert caught.value.reason == "budget"


def test_a_run_can_be_overheard_for_a_while():
    heard, over = [], []
    run = Run(None, heard.append)
    with run.overheard(over.append):
        run.emit(Notice("a"))
    run.emit(Notice("b"))
    assert (heard, over) == ([Notice("a"), Notice("b")], [Notice("a")])


def test_stopping_a_run_that_does_not_run_does_nothing():
    Run().stop()
