"""The loop: what it does with each kind of reply, and that it always leaves a valid record and one reason."""

import asyncio
import gc
import sys
import threading
from contextvars import ContextVar
from dataclasses import replace

import pytest
from pairing import faults

from harness_nb.agent import CUT, GO_ON, NEVER_RAN, NO_ANSWER, STOPPED_TEXT, Agent, Limits, grouped
from harness_nb.errors import ProviderError, RunStop, UsageError
from harness_nb.events import (
    CallDelta,
    MessageAdded,
    Notice,
    RunEnded,
    RunStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from harness_nb.messages import (
    INTERRUPTED,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Transcript,
    assistant,
    user,
)
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.seams import Reply, Run, layered
from harness_nb.tasks import side_by_side
from harness_nb.tools import Toolbox, tool


@tool(effects={"read"})
def echo(text: str = "") -> str:
    """Say it again."""
    return f"echo {text}"


class Heard(list):
    """A listener that keeps what it hears."""

    def __call__(self, event):
        self.append(event)

    def of(self, kind):
        return [event for event in self if isinstance(event, kind)]


async def played(*turns, tools=(echo,), prompt="go", listener=None, transcript=None, **plugged):
    """Run an agent on a script; returns outcome, run and model."""
    model = scripted(*turns)
    run = Run(transcript, Heard() if listener is None else listener)
    outcome = await Agent(model, Toolbox(tools), **plugged).run(prompt, run)
    assert faults(run.transcript.live()) == []
    assert ours() == set()
    return outcome, run, model


def ours():
    """The tasks that are not of the test runner: after a run there are none."""
    return {task for task in asyncio.all_tasks() if "anyio" not in task.get_coro().cr_code.co_filename}


def results(transcript):
    return [result for message in transcript.messages for result in message.results]


# -- the plain path


async def test_an_answer_ends_the_run():
    outcome, run, model = await played("Hello.")
    assert (outcome.text, outcome.reason, outcome.turns) == ("Hello.", "done", 1)
    assert [message.role for message in run.transcript.messages] == ["user", "assistant"]
    assert [message.text for message in model.requests[0].messages] == ["go"]


def test_a_models_name_is_no_model_and_the_sentence_says_what_takes_one():
    with pytest.raises(UsageError, match=r'write assistant\("local"\)'):
        Agent("local")


async def test_a_call_is_run_and_its_result_sent_back():
    outcome, run, model = await played(say("On it.", call("echo", text="x")), "Done.")
    assert (outcome.text, outcome.turns) == ("Done.", 2)
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "tool"]
    assert results(run.transcript)[0].text == "echo x"


async def test_events_come_in_the_order_of_what_happened():
    heard = Heard()
    await played(say(call("echo")), "Done.", listener=heard)
    names = [type(event).__name__ for event in heard if not isinstance(event, CallDelta | TextDelta)]
    turn = ["TurnStarted", "MessageAdded", "TurnEnded"]
    acted = ["ToolStarted", "ToolFinished", "MessageAdded"]
    assert names == ["RunStarted", "MessageAdded", *turn, *acted, *turn, "RunEnded"]


async def test_usage_is_the_sum_of_the_turns():
    outcome, run, _ = await played(say(call("echo")), "Done.")
    heard = [event.usage for event in run._listener.of(TurnEnded)]
    assert outcome.usage == heard[0] + heard[1]


async def test_a_conversation_goes_on_from_its_transcript():
    _, run, _ = await played("One.")
    outcome, _, model = await played("Two.", transcript=run.transcript, prompt="more")
    assert [message.text for message in model.requests[0].messages] == ["go", "One.", "more"]
    assert outcome.turns == 1


async def test_without_a_prompt_the_transcript_is_continued_as_it_is():
    outcome, _, model = await played("Yes.", transcript=Transcript([user("Are you there?")]), prompt=None)
    assert [message.text for message in model.requests[0].messages] == ["Are you there?"]
    assert outcome.text == "Yes."


# -- calls left open


@pytest.mark.parametrize("prompt", ["go on", None])
async def test_calls_left_open_are_answered_before_the_prompt(prompt):
    a, b = ToolCall("a", "echo"), ToolCall("b", "echo")
    left = Transcript([user("go"), assistant("Two.", a, b)])
    _, _, model = await played("Fine.", transcript=left, prompt=prompt)
    sent = model.requests[0].messages
    assert [(r.call_id, r.is_error, r.text) for r in sent[2].results] == [
        ("a", True, INTERRUPTED),
        ("b", True, INTERRUPTED),
    ]
    assert [message.text for message in sent[3:]] == ([prompt] if prompt else [])


# -- reasons


async def test_the_run_ends_after_its_last_turn():
    outcome, run, _ = await played(*[say(call("echo"))] * 3, limits=Limits(turns=3))
    assert (outcome.reason, outcome.turns) == ("turns", 3)
    assert len(results(run.transcript)) == 3


async def test_a_layer_can_stop_the_run_by_name():
    async def broke(request, run, proceed):
        if run.turn == 2:
            raise RunStop("budget", "The budget of $1 is spent.")
        return await proceed(request)

    run = Run()
    model = layered(scripted(say(call("echo"))), broke)
    outcome = await Agent(model, Toolbox([echo])).run("go", run)
    assert (outcome.reason, outcome.detail, outcome.error) == ("budget", "The budget of $1 is spent.", None)
    assert faults(run.transcript.live()) == []


async def test_a_gate_that_stops_the_run_leaves_no_call_open():
    async def broke(asked, run, proceed):
        if asked.arguments.get("text") == "2":
            raise RunStop("budget", "Spent.")
        return await proceed(asked)

    calls = [call("echo", text=str(n)) for n in (1, 2, 3)]
    outcome, run, _ = await played(say(*calls), gates=(broke,))
    assert outcome.reason == "budget"
    assert [result.text for result in results(run.transcript)] == ["echo 1", NEVER_RAN, "echo 3"]


async def test_a_refusal_is_named_and_keeps_the_providers_words():
    outcome, _, _ = await played(say("I can't.", stop="refusal", detail="category: weapons"))
    assert (outcome.reason, outcome.detail, outcome.text) == ("refused", "category: weapons", "I can't.")


async def test_a_refusal_without_content_leaves_no_empty_message():
    outcome, run, _ = await played(say(stop="refusal"))
    assert outcome.reason == "refused"
    assert len(run.transcript.messages) == 1


async def test_a_providers_failure_is_an_outcome_that_can_be_raised():
    fault = ProviderError("529 overloaded", status=529)
    outcome, run, _ = await played(fault)
    assert (outcome.reason, outcome.detail, outcome.error) == ("error", "529 overloaded", fault)
    with pytest.raises(ProviderError, match="529"):
        outcome.or_raise()
    assert run._listener[-1] == RunEnded("error", "529 overloaded", 1, run.usage)


async def test_an_outcome_without_an_error_is_returned_by_or_raise():
    outcome, _, _ = await played("Hello.")
    assert outcome.or_raise() is outcome


@pytest.mark.parametrize(
    ("fault", "said"),
    [(ZeroDivisionError("oops"), "ZeroDivisionError: oops"), (UsageError("Set a key."), "Set a key.")],
)
async def test_a_models_own_bug_is_raised_after_the_record_is_closed(fault, said):
    heard = Heard()
    with pytest.raises(type(fault)):
        await played(fault, listener=heard)
    assert (heard[-1].reason, heard[-1].detail) == ("error", said)


async def test_a_model_that_cancels_itself_was_not_interrupted_by_the_user():
    outcome, _, _ = await played(asyncio.CancelledError())
    assert outcome.reason == "error"
    assert "cancelled itself" in outcome.detail


# -- replies without calls


async def test_a_paused_turn_is_sent_back_unchanged():
    block = Opaque("anthropic", '{"type": "server_tool_use"}')
    _, _, model = await played(say("Looking.", block, stop="pause"), "Found.")
    sent = model.requests[1].messages
    assert sent[-1].parts == (Text("Looking."), block)
    assert len(sent) == 2


async def test_pauses_are_bounded():
    outcome, _, model = await played(*[say("...", stop="pause")] * 9, limits=Limits(pauses=2))
    assert (outcome.reason, len(model.requests)) == ("incomplete", 3)


async def test_a_cut_answer_is_continued_and_joined():
    outcome, _, model = await played(say("It is thir", stop="length"), say("ty-", stop="length"), "two.")
    assert (outcome.text, outcome.reason) == ("It is thirty-two.", "done")
    assert [message.text for message in model.requests[2].messages[1:]] == ["It is thir", GO_ON, "ty-", GO_ON]


async def test_going_on_is_bounded_and_keeps_what_there_is():
    outcome, _, model = await played(*[say("ab", stop="length")] * 9, limits=Limits(nudges=2))
    assert (outcome.text, outcome.reason, len(model.requests)) == ("ababab", "incomplete", 3)


@pytest.mark.parametrize("empty", [say(), say(""), say(" \n"), say(Thinking("hm")), say(stop="calls")])
async def test_an_empty_answer_is_asked_for_again(empty):
    outcome, _, model = await played(empty, "Here.")
    assert (outcome.text, outcome.reason) == ("Here.", "done")
    assert model.requests[1].messages[-1].text == NO_ANSWER


@pytest.mark.parametrize("stop", ["end", "calls", "other"])
async def test_a_model_that_never_answers_is_given_up(stop):
    outcome, _, model = await played(*[say(stop=stop)] * 9)
    assert (outcome.reason, len(model.requests)) == ("incomplete", 1 + Limits().nudges)


async def test_an_unknown_stop_ends_with_a_notice():
    heard = Heard()
    outcome, _, _ = await played(say("Well.", stop="other", detail="foo"), listener=heard)
    assert (outcome.reason, outcome.text) == ("done", "Well.")
    assert "foo" in heard.of(Notice)[0].text


@pytest.mark.parametrize("stop", ["end", "pause", "refusal", "other"])
async def test_calls_are_run_whatever_the_stop_says(stop):
    _, run, _ = await played(say(call("echo", text="x"), stop=stop), "Done.")
    assert results(run.transcript)[0].text == "echo x"


@pytest.mark.parametrize("raw", ['{"text":', '{"text": "cut', '{"text": "whole"}'])
async def test_a_call_cut_by_the_output_limit_is_not_run(raw):
    heard = Heard()
    _, run, _ = await played(say(ToolCall("", "echo", raw), stop="length"), "Ok.", listener=heard)
    assert heard.of(ToolStarted) == []
    assert [(result.text, result.is_error) for result in results(run.transcript)] == [(CUT, True)]


async def test_calls_that_keep_being_cut_end_the_run():
    outcome, _, model = await played(*[say(call("echo"), stop="length")] * 9)
    assert (outcome.reason, len(model.requests)) == ("incomplete", 1 + Limits().nudges)


# -- accept checks and prepare steps


async def test_an_accept_check_sends_its_words_until_satisfied():
    def shouted(reply, run):
        return None if reply.message.text.isupper() else "Shout."

    outcome, _, model = await played("hello", "HELLO", accept=(shouted,))
    assert (outcome.text, outcome.reason) == ("HELLO", "done")
    assert model.requests[1].messages[-1].text == "Shout."


async def test_an_answer_never_accepted_is_incomplete_but_not_lost():
    async def never(reply, run):
        return "No."

    outcome, _, model = await played(*["hello"] * 9, accept=(never,))
    assert (outcome.reason, outcome.text) == ("incomplete", "hello")
    assert len(model.requests) == 1 + Limits().nudges


async def test_an_accept_check_sees_a_continued_answer_whole():
    seen = []
    await played(say("ab", stop="length"), "cd", accept=(lambda reply, run: seen.append(reply.message.text),))
    assert seen == ["abcd"]


async def test_prepare_steps_change_the_request_in_order_and_not_the_record():
    async def loud(request, run):
        return replace(request, instructions=request.instructions.upper())

    steps = (lambda request, run: replace(request, instructions="be brief"), loud)
    _, run, model = await played("Ok.", prepare=steps)
    assert model.requests[0].instructions == "BE BRIEF"
    assert len(run.transcript.messages) == 2


# -- many calls in one turn


async def test_calls_of_one_turn_run_side_by_side():
    together = asyncio.Barrier(3)

    @tool
    async def meet(n: int) -> int:
        """Wait for the others."""
        await asyncio.wait_for(together.wait(), 10)
        return n

    _, run, _ = await played(say(*[call("meet", n=n) for n in range(3)]), "Done.", tools=[meet])
    assert [result.text for result in results(run.transcript)] == ["0", "1", "2"]


async def test_blocking_tools_run_side_by_side_too():
    together = threading.Barrier(3, timeout=10)

    @tool
    def meet() -> str:
        """Wait for the others."""
        together.wait()
        return "met"

    _, run, _ = await played(say(*[call("meet")] * 3), "Done.", tools=[meet])
    assert [result.text for result in results(run.transcript)] == ["met"] * 3


async def test_at_most_eight_run_at_once():
    active, peak = 0, 0

    @tool
    async def busy() -> None:
        """Be busy for a while."""
        nonlocal active, peak
        active += 1
        peak = max(peak, active)
        for _ in range(20):
            await asyncio.sleep(0)
        active -= 1

    await played(say(*[call("busy")] * 20), "Done.", tools=[busy])
    assert peak == 8


async def test_results_are_in_call_order_however_they_finish():
    done = {name: asyncio.Event() for name in "abc"}
    after = {"a": "c", "b": "a", "c": None}
    order = []

    @tool
    async def step(name: str) -> str:
        """Finish after another."""
        if after[name]:
            await done[after[name]].wait()
        order.append(name)
        done[name].set()
        return name

    _, run, _ = await played(say(*[call("step", name=name) for name in "abc"]), "Done.", tools=[step])
    assert order == ["c", "a", "b"]
    assert [result.text for result in results(run.transcript)] == ["a", "b", "c"]


@pytest.mark.parametrize("effect", ["write", "mutate", "spend"])
async def test_declared_writes_run_alone_and_in_order(effect):
    log = []

    async def body(n):
        log.append(f"+{n}")
        for _ in range(5):
            await asyncio.sleep(0)
        log.append(f"-{n}")

    @tool(effects={effect})
    async def change(n: int) -> None:
        """Change something."""
        await body(n)

    @tool(effects={"read"})
    async def look(n: int) -> None:
        """Look at something."""
        await body(n)

    turn = [call("look", n=1), call("look", n=2), call("change", n=3), call("change", n=4), call("look", n=5)]
    await played(say(*turn), "Done.", tools=[change, look])
    assert log == ["+1", "+2", "-1", "-2", "+3", "-3", "+4", "-4", "+5", "-5"]


async def test_one_failure_keeps_the_other_results():
    @tool
    def odd(n: int) -> int:
        """Fail on even numbers."""
        if n % 2 == 0:
            raise ValueError(f"{n} is even")
        return n

    _, run, _ = await played(say(*[call("odd", n=n) for n in (1, 2, 3)]), "Done.", tools=[odd])
    assert [result.text for result in results(run.transcript)] == [
        "1",
        "`odd` failed: ValueError: 2 is even",
        "3",
    ]


def test_grouped_keeps_order_and_sets_the_lonely_apart():
    assert grouped("abXcYZd", str.isupper) == [["a", "b"], ["X"], ["c"], ["Y"], ["Z"], ["d"]]


async def test_side_by_side_raises_the_first_failure_after_all_are_done():
    done = []

    async def one(n):
        await asyncio.sleep(0)
        done.append(n)
        if n:
            raise ValueError(n)

    with pytest.raises(ValueError, match="1"):
        await side_by_side([one(n) for n in (0, 1, 2)])
    assert done == [0, 1, 2]


async def test_a_second_failure_is_not_reported_behind_our_back():
    behind = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: behind.append(context))

    async def fail():
        raise RunStop("budget", "Spent.")

    with pytest.raises(RunStop):
        await side_by_side([fail(), fail()])
    gc.collect()
    assert behind == []


async def test_repeated_call_ids_are_told_apart():
    same = [ToolCall("x", "echo", f'{{"text": "{n}"}}') for n in (1, 2)]
    _, run, _ = await played(say(*same), say(*same), "Done.")
    found = results(run.transcript)
    assert [result.text for result in found] == ["echo 1", "echo 2"] * 2
    assert len({result.call_id for result in found}) == 4


# -- what tools can do to a run


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("not today")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError(), "CancelledError"),
        (StopIteration("x"), "StopIteration"),
        (Unprintable(), "Unprintable"),
        (ExceptionGroup("many", [ValueError("a"), TypeError("b")]), "ValueError: a; TypeError: b"),
    ],
)
@pytest.mark.parametrize("asynchronous", [True, False])
async def test_whatever_a_tool_raises_is_its_result(fault, said, asynchronous):
    def raises():
        """Raise it."""
        raise fault

    async def raises_later():
        """Raise it."""
        raise fault

    named = tool(name="bad")(raises_later if asynchronous else raises)
    outcome, run, _ = await played(say(call("bad"), call("echo")), "Done.", tools=[named, echo])
    bad, good = results(run.transcript)
    assert outcome.reason == "done"
    assert (bad.is_error, good.text) == (True, "echo ")
    assert bad.text.startswith("`bad` failed: ")
    assert said in bad.text


async def test_sys_exit_in_a_tool_does_not_end_the_program():
    @tool
    def leave() -> None:
        """Leave."""
        sys.exit("bye")

    outcome, _, _ = await played(say(call("leave")), "Still here.", tools=[leave])
    assert outcome.text == "Still here."


async def test_unknown_names_are_answered_but_not_for_ever():
    outcome, _, model = await played(*[say(call("nonesuch"))] * 20)
    assert outcome.reason == "incomplete"
    assert "stuck" in outcome.detail
    assert len(model.requests) == 6


async def test_many_bad_calls_in_one_turn_are_one_miss():
    outcome, _, _ = await played(say(*[call("nonesuch")] * 20), say(call("echo")), "Done.")
    assert outcome.reason == "done"


async def test_a_good_call_starts_the_count_of_misses_anew():
    bad = [say(call("nonesuch"))] * 5
    outcome, _, _ = await played(*bad, say(call("echo")), *bad, "Done.")
    assert outcome.reason == "done"


COLOUR: ContextVar[str] = ContextVar("COLOUR", default="none")


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_context_variables_of_the_caller_are_seen_in_tools(asynchronous):
    def colour() -> str:
        """Tell the colour."""
        return COLOUR.get()

    async def colour_later() -> str:
        """Tell the colour."""
        return COLOUR.get()

    COLOUR.set("blue")
    named = tool(name="colour")(colour_later if asynchronous else colour)
    _, run, _ = await played(say(call("colour")), "Done.", tools=[named])
    assert results(run.transcript)[0].text == "blue"


# -- listeners


@pytest.mark.parametrize(
    "kind",
    [RunStarted, MessageAdded, TurnStarted, TextDelta, TurnEnded, ToolStarted, ToolFinished, RunEnded],
)
async def test_a_listener_that_raises_ends_the_run_and_the_record_is_whole(kind):
    def full(event):
        if isinstance(event, kind):
            raise OSError("disk full")

    outcome, run, _ = await played(say("Hm.", call("echo"), call("echo")), "Done.", listener=full)
    assert (outcome.reason, outcome.detail) == ("error", "A listener failed: OSError: disk full")
    assert isinstance(outcome.error.__cause__, OSError)
    assert run.transcript.dangling() == []


async def test_a_result_that_could_not_be_told_is_still_kept():
    def full(event):
        if isinstance(event, ToolFinished):
            raise OSError("disk full")

    _, run, _ = await played(say(call("echo", text="1"), call("echo", text="2")), listener=full)
    assert [result.text for result in results(run.transcript)] == ["echo 1", "echo 2"]


async def test_a_tool_does_not_run_when_its_start_could_not_be_written_down():
    ran = []

    @tool
    def act() -> None:
        """Act."""
        ran.append(1)

    def full(event):
        if isinstance(event, ToolStarted):
            raise OSError("disk full")

    await played(say(call("act")), tools=[act], listener=full)
    assert ran == []


# -- interrupts


class Moment:
    """A point in a run where it waits until it is stopped."""

    def __init__(self):
        self.reached = asyncio.Event()

    async def wait(self):
        self.reached.set()
        await asyncio.Event().wait()


def waiting_model(moment, *events):
    class Waiting:
        name = "waiting"

        async def __call__(self, request, run):
            for event in events:
                run.emit(event)
            await moment.wait()

    return Waiting()


def at_first(moment):
    return Agent(waiting_model(moment))


def in_text(moment):
    return Agent(waiting_model(moment, TextDelta("Hel"), TextDelta("lo ")))


def in_call(moment):
    return Agent(
        waiting_model(moment, TextDelta("I will"), CallDelta("a", "echo"), CallDelta("a", "echo", '{"te'))
    )


def in_prepare(moment):
    async def step(request, run):
        await moment.wait()

    return Agent(scripted("x"), prepare=(step,))


def in_accept(moment):
    async def check(reply, run):
        await moment.wait()

    return Agent(scripted("An answer."), accept=(check,))


def in_gate(moment):
    async def gate(asked, run, proceed):
        await moment.wait()

    return Agent(scripted(say(call("echo"), call("echo"))), Toolbox([echo]), gates=(gate,))


def in_second_tool(moment):
    @tool
    async def hang() -> None:
        """Hang."""
        await moment.wait()

    return Agent(scripted(say(call("echo", text="A"), call("hang"))), Toolbox([echo, hang]))


def before_a_write(moment):
    @tool(effects={"write"})
    async def save(n: int) -> None:
        """Save."""
        await moment.wait()

    return Agent(scripted(say(call("save", n=1), call("save", n=2))), Toolbox([save]))


MOMENTS = [at_first, in_text, in_call, in_prepare, in_accept, in_gate, in_second_tool, before_a_write]


async def interrupted(build, by):
    """Run to the moment, stop there, and return the run, its events and its outcome, if it has one."""
    moment, heard = Moment(), Heard()
    run = Run(None, heard)
    task = asyncio.create_task(build(moment).run("go", run))
    await asyncio.wait_for(moment.reached.wait(), 10)
    await asyncio.sleep(0)
    run.stop() if by == "stop" else task.cancel()
    await asyncio.wait([task], timeout=10)
    assert task.cancelled() == (by == "cancel")
    assert ours() == set()
    return run, heard, None if by == "cancel" else task.result()


@pytest.mark.parametrize("by", ["stop", "cancel"])
@pytest.mark.parametrize("build", MOMENTS)
async def test_a_run_can_be_stopped_at_any_moment_and_the_next_prompt_works(build, by):
    run, heard, outcome = await interrupted(build, by)
    assert [event.reason for event in heard.of(RunEnded)] == ["interrupted"]
    assert outcome is None or outcome.reason == "interrupted"
    assert run.transcript.dangling() == []
    after, _, model = await played("Sure.", transcript=run.transcript, prompt="go on")
    assert after.reason == "done"
    assert model.requests[0].messages[-1].text == "go on"
    reloaded = Transcript(run.transcript.entries)
    assert reloaded.live() == run.transcript.live()


async def test_text_streamed_before_the_stop_is_kept_and_marked():
    run, _, outcome = await interrupted(in_text, "stop")
    assert run.transcript.messages[-1].text == f"Hello\n\n{STOPPED_TEXT}"
    assert outcome.text == "Hello "


async def test_a_half_streamed_call_is_dropped():
    run, _, _ = await interrupted(in_call, "stop")
    assert [part.kind for part in run.transcript.messages[-1].parts] == ["text"]


async def test_a_finished_result_is_kept_and_a_running_call_is_told_it_may_have_run():
    run, heard, _ = await interrupted(in_second_tool, "stop")
    first, second = results(run.transcript)
    assert (first.text, first.is_error) == ("echo A", False)
    assert second.is_error
    assert "may have had an effect" in second.text
    assert [event.result for event in heard.of(ToolFinished)] == [first, second]


async def test_calls_that_waited_for_permission_did_not_run():
    run, _, _ = await interrupted(in_gate, "stop")
    assert [result.text for result in results(run.transcript)] == [NEVER_RAN, NEVER_RAN]


async def test_a_write_that_waited_its_turn_did_not_run():
    run, _, _ = await interrupted(before_a_write, "cancel")
    first, second = results(run.transcript)
    assert "had started" in first.text
    assert second.text == NEVER_RAN


@pytest.mark.parametrize("by", ["stop", "cancel"])
async def test_a_blocking_tool_does_not_hold_up_the_stop(by):
    inside, release, finished = threading.Event(), threading.Event(), threading.Event()

    @tool
    def block() -> str:
        """Block."""
        inside.set()
        release.wait(30)
        finished.set()
        return "too late"

    run = Run()
    task = asyncio.create_task(Agent(scripted(say(call("block"))), Toolbox([block])).run("go", run))
    await asyncio.to_thread(inside.wait, 10)
    run.stop() if by == "stop" else task.cancel()
    await asyncio.wait([task], timeout=10)
    assert not finished.is_set()
    assert "may have had an effect" in results(run.transcript)[0].text
    release.set()
    await asyncio.to_thread(finished.wait, 10)
    assert len(results(run.transcript)) == 1


async def test_a_tool_that_will_not_stop_is_left_behind_and_heard_no_more():
    inside, release, heard = asyncio.Event(), asyncio.Event(), Heard()

    @tool
    async def stubborn() -> str:
        """Never stop."""
        inside.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    run = Run(None, heard)
    task = asyncio.create_task(Agent(scripted(say(call("stubborn"))), Toolbox([stubborn])).run("go", run))
    await inside.wait()
    run.stop()
    outcome = await asyncio.wait_for(task, 10)
    release.set()
    await asyncio.gather(*ours())
    assert outcome.reason == "interrupted"
    assert len(heard.of(ToolFinished)) == 1
    assert isinstance(heard[-1], RunEnded)


async def test_a_stop_that_a_tool_swallows_still_ends_the_run():
    @tool
    async def deaf() -> str:
        """Swallow a stop."""
        run.stop()
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return "what?"

    run = Run()
    outcome = await Agent(scripted(say(call("deaf")), "Never said."), Toolbox([deaf])).run("go", run)
    assert (outcome.reason, outcome.turns) == ("interrupted", 1)


@pytest.mark.parametrize("reply", [assistant(ToolCall("a", "echo")), assistant("Half an answ")])
async def test_a_stop_that_a_model_swallows_still_ends_the_run(reply):
    class Deaf:
        name = "deaf"

        async def __call__(self, request, run):
            run.stop()
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                return Reply(reply)

    outcome = await Agent(Deaf(), Toolbox([echo])).run("go")
    assert (outcome.reason, outcome.turns, len(outcome.transcript.messages)) == ("interrupted", 1, 1)


async def test_stop_after_the_end_does_nothing():
    outcome, run, _ = await played("Hello.")
    run.stop()
    await asyncio.sleep(0)
    assert outcome.reason == "done"


async def test_two_runs_of_one_agent_do_not_mix():
    agent = Agent(scripted(*["Hello."] * 2))
    first, second = await asyncio.gather(agent.run("a"), agent.run("b"))
    assert [first.transcript.messages[0].text, second.transcript.messages[0].text] == ["a", "b"]


# -- thinking, pictures, odd characters, size


async def test_thinking_goes_back_as_it_came_and_in_place():
    turn = [
        Thinking("abc", "S1", "v"),
        Opaque("v", "R1"),
        call("echo"),
        Thinking("d", "S2", "v"),
        call("echo"),
    ]
    _, _, model = await played(say(*turn), "Done.")
    sent = model.requests[1].messages[1].parts
    kept = [part for part in sent if not isinstance(part, ToolCall)]
    assert kept == [part for part in turn if not isinstance(part, ToolCall)]
    assert [part.kind for part in sent] == ["thinking", "opaque", "tool_call", "thinking", "tool_call"]


async def test_a_picture_is_a_result():
    png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\1\0\0\0\1"

    @tool
    def draw() -> bytes:
        """Draw."""
        return png

    _, run, _ = await played(say(call("draw")), "Done.", tools=[draw])
    assert results(run.transcript)[0].content == (Image(png, "image/png"),)


async def test_the_work_of_a_turn_does_not_grow_with_the_transcript():
    counts = []

    class Counting:
        name = "counting"

        async def __call__(self, request, run):
            counts.append(0)
            return Reply(assistant(ToolCall(f"c{run.turn}", "echo")), stop="calls")

    def count(frame, event, arg):
        if (
            counts and event == "call" and "harness_nb" in frame.f_code.co_filename
        ):  # not what cleans up after others
            counts[-1] += 1

    @tool
    async def echo() -> str:
        """Echo."""
        return "x"

    sys.setprofile(count)
    try:
        await Agent(Counting(), Toolbox([echo]), limits=Limits(turns=400)).run("go")
    finally:
        sys.setprofile(None)
    assert max(counts[300:390]) <= 1.1 * max(counts[20:110])


async def test_messages_are_given_as_they_are():
    prompt = Message("user", (Text("What is this?"), Image(b"\x89PNG", "image/png")))
    _, _, model = await played("A picture.", prompt=prompt)
    assert model.requests[0].messages == (prompt,)


async def test_a_late_result_of_another_run_is_not_lost():
    left = Transcript([user("go"), assistant(ToolCall("a", "echo"))])
    left.append(Message("tool", (ToolResult("a", (Text("real"),)),)))
    _, _, model = await played("Ok.", transcript=left, prompt="on")
    assert model.requests[0].messages[2].results[0].text == "real"
