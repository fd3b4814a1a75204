"""Asking again: what passes, how long it waits, and that nothing is shown twice."""

import asyncio
import math

import pytest
from hypothesis import given, settings, strategies as st

from harness_nb.agent import Agent
from harness_nb.errors import ProviderError
from harness_nb.events import RetryWaiting, TextDelta, ThinkingDelta, TurnRestarted
from harness_nb.providers.retry import RetryPolicy, retrying, spoken
from harness_nb.providers.scripted import scripted
from harness_nb.seams import Run, layered


def busy(**facts):
    return ProviderError("Overloaded.", **({"status": 529, "retryable": True} | facts))


class Clock:
    """A virtual clock: sleeping takes no time and is written down."""

    def __init__(self):
        self.slept = []

    async def sleep(self, seconds):
        self.slept.append(seconds)
        await asyncio.sleep(0)


async def play(*turns, policy=None, model=None):
    clock, heard = Clock(), []
    model = layered(model or scripted(*turns), retrying(policy, sleep=clock.sleep))
    run = Run(listener=heard.append)
    outcome = await Agent(model).run("hi", run)
    return outcome, clock.slept, heard


async def test_a_fault_that_passes_is_asked_again_and_each_wait_is_an_event():
    outcome, slept, heard = await play(busy(), busy(), "Hello.")
    waits = [event for event in heard if isinstance(event, RetryWaiting)]
    assert (outcome.reason, outcome.text) == ("done", "Hello.")
    assert [wait.seconds for wait in waits] == slept
    assert [(wait.attempt, wait.attempts, wait.why) for wait in waits] == [
        (1, 4, "Overloaded."),
        (2, 4, "Overloaded."),
    ]


async def test_it_gives_up_after_four_attempts_in_the_provider_s_words():
    outcome, slept, _ = await play(*[busy()] * 5)
    assert (outcome.reason, outcome.detail) == ("error", "Overloaded. Asked 4 times.")
    assert (outcome.error.status, outcome.error.retryable, len(slept)) == (529, True, 3)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_our_own_faults_are_raised_as_they_are(status):
    fault = busy(status=status)
    outcome, slept, heard = await play(fault, "never")
    assert outcome.error is fault
    assert slept == []
    assert not any(isinstance(event, RetryWaiting | TurnRestarted) for event in heard)


async def test_a_server_of_ones_own_that_does_not_run_is_not_waited_for_long():
    outcome, slept, _ = await play(*[busy(status=None, code="not_running")] * 4)
    assert (outcome.reason, len(slept), sum(slept) <= 3) == ("error", 2, True)


async def test_a_spent_quota_is_not_waited_for():
    outcome, slept, _ = await play(busy(status=429, code="insufficient_quota"), "never")
    assert (outcome.reason, slept) == ("error", [])


async def test_an_overload_inside_a_200_stream_is_an_outage():
    outcome, _, _ = await play(busy(status=200, code="overloaded_error"), "Hello.")
    assert outcome.text == "Hello."


@pytest.mark.parametrize("asked", [2, 2.5, 1.5, 3, 60])
async def test_no_wait_is_shorter_than_retry_after(asked):
    _, slept, _ = await play(busy(status=429, retry_after=asked), "Hello.")
    assert asked <= slept[0] <= 60


@pytest.mark.parametrize("asked", [math.nan, -5, 0, math.inf, None])
async def test_a_retry_after_without_sense_means_the_usual_wait(asked):
    outcome, slept, _ = await play(busy(status=429, retry_after=asked), "Hello.")
    assert outcome.text == "Hello."
    assert 0.5 <= slept[0] <= 2


async def test_a_wait_of_two_weeks_is_an_error_at_once_with_the_time():
    outcome, slept, _ = await play(busy(status=429, retry_after=1_209_600), "never")
    assert slept == []
    assert outcome.detail == "Overloaded. The provider asks to wait 14 days; a run waits at most 60 s."
    assert outcome.error.retry_after == 1_209_600


class Breaking:
    """A model that streams `first`, breaks, and then answers whole."""

    name = "breaking"

    def __init__(self, *first, breaks=1):
        self.first = first
        self.breaks = breaks

    async def __call__(self, request, run):
        self.breaks -= 1
        if self.breaks < 0:
            return await scripted("Hello.")(request, run)
        for event in self.first:
            run.emit(event)
        raise busy(status=None)


def shown(heard):
    """What a view shows at the end: all text since the turn was last restarted."""
    text = ""
    for event in heard:
        match event:
            case TextDelta(piece):
                text += piece
            case TurnRestarted():
                text = ""
            case _:
                pass
    return text


async def test_a_turn_that_had_streamed_restarts_cleanly():
    outcome, _, heard = await play(model=Breaking(TextDelta("Hel"), breaks=2))
    assert (outcome.text, shown(heard)) == ("Hello.", "Hello.")
    assert [event.text for event in heard if isinstance(event, TextDelta)][:2] == ["Hel", "Hel"]


async def test_thinking_that_was_shown_restarts_the_turn_too():
    _, _, heard = await play(model=Breaking(ThinkingDelta("hm")))
    assert sum(isinstance(event, TurnRestarted) for event in heard) == 1


async def test_nothing_is_restarted_where_nothing_was_shown():
    _, _, heard = await play(model=Breaking())
    assert not any(isinstance(event, TurnRestarted) for event in heard)


async def test_no_half_turn_is_stored_when_every_attempt_breaks():
    outcome, _, _ = await play(model=Breaking(TextDelta("Hel"), breaks=9))
    assert [message.role for message in outcome.transcript.messages] == ["user"]


async def test_a_wait_ends_when_the_run_is_stopped():
    waiting = asyncio.Event()

    async def forever(_):
        waiting.set()
        await asyncio.Event().wait()

    run = Run()
    agent = Agent(layered(Breaking(TextDelta("Hel")), retrying(sleep=forever)))
    task = asyncio.create_task(agent.run("hi", run))
    await waiting.wait()
    run.stop()
    outcome = await task
    assert (outcome.reason, outcome.text) == ("interrupted", "")
    again = await agent.run("hi", Run(outcome.transcript))
    assert again.text == "Hello."


async def test_a_real_wait_ends_when_the_run_is_stopped():
    def stop_when_waiting(event):
        if isinstance(event, RetryWaiting):
            asyncio.get_running_loop().call_soon(run.stop)

    run = Run(listener=stop_when_waiting)
    outcome = await Agent(layered(scripted(busy(retry_after=59)), retrying())).run("hi", run)
    assert outcome.reason == "interrupted"


def test_times_are_said_as_a_person_would():
    assert [spoken(s) for s in (0.5, 60, 3600, 90_000, 1_209_600)] == [
        "0.5 s",
        "60 s",
        "60 minutes",
        "25 hours",
        "14 days",
    ]


seconds = st.floats(0, 1e6)
policies = st.builds(
    RetryPolicy,
    attempts=st.integers(1, 8),
    shortest=st.floats(0, 5),
    longest=st.floats(5, 60),
    patience=seconds,
    total=seconds,
)
faults = st.builds(
    ProviderError,
    st.just("x"),
    status=st.sampled_from([None, 200, 400, 401, 404, 408, 413, 422, 429, 500, 529]),
    code=st.sampled_from(["", "overloaded_error", "insufficient_quota"]),
    retryable=st.booleans(),
    retry_after=st.none() | st.floats(),
)


@settings(deadline=None)
@given(policies, faults, st.integers(1, 10), seconds, st.floats(0, 1))
def test_no_wait_breaks_a_bound(policy, fault, attempt, waited, chance):
    wait = policy.wait(fault, attempt, waited, chance)
    if wait is None:
        return
    asked = fault.retry_after if fault.retry_after and math.isfinite(fault.retry_after) else 0
    assert asked <= wait <= max(policy.longest, policy.patience)
    assert attempt < policy.attempts
    assert waited + wait <= policy.total
    assert fault.retryable
    assert fault.status not in {400, 401, 404, 413, 422}
    assert fault.code != "insufficient_quota"


@settings(deadline=None)
@given(policies, st.lists(faults, max_size=12))
async def test_a_run_never_asks_or_waits_more_than_its_policy_says(policy, faults):
    outcome, slept, _ = await play(*faults, "Hello.", policy=policy)
    assert len(slept) < policy.attempts
    assert sum(slept) <= policy.total
    assert outcome.reason in {"done", "error"}
