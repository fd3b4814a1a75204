"""Show 1, PEERS 2.6: what can't pass is told at once, what may pass is asked again within bounds, and each wait is seen.

Here whole sessions over real connections. Rate limits are in test_1_r10_rate_limits.py, broken streams in
test_1_r08_broken_streams.py; the policy's bounds, as properties, are in test_retry.py; fallback models in test_fallback.py.
"""

import pytest
from wire.server import asked, refusal, stream
from wire.speech import WIRES, ask, say, spoken

from harness_nb.agent import Agent
from harness_nb.events import RetryWaiting
from harness_nb.providers.retry import RetryPolicy, retrying
from harness_nb.seams import Run, layered
from harness_nb.tools import Toolbox, tool

every_wire = pytest.mark.parametrize("wire", WIRES)
AFTER = b"retry-after"


class Talk:
    """An agent that asks this server, its waits taking no time."""

    def __init__(self, server, wire, policy=None):
        self.waits, self.heard, self.ran = [], [], []

        @tool(effects={"write"})
        def send(to: str) -> str:
            """Send a letter."""
            self.ran.append(to)
            return "sent"

        model = layered(server.model(wire), retrying(policy, sleep=self.sleep))
        self.agent, self.transcript = Agent(model, Toolbox([send])), None

    async def sleep(self, seconds):
        self.waits.append(seconds)

    async def says(self, prompt):
        run = Run(self.transcript, self.heard.append)
        self.transcript = run.transcript
        return await self.agent.run(prompt, run)


def answer(wire, *blocks, stop="end"):
    return stream(spoken(wire, blocks or [say("Hello.")], stop))


@every_wire
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_a_fault_of_ours_is_told_at_once_in_the_providers_words(wire, status):
    async with asked(refusal(status, [(AFTER, b"2")], message="No such thing."), answer(wire)) as server:
        talk = Talk(server, wire)
        outcome = await talk.says("go")
        assert (outcome.reason, talk.waits, len(server.sent)) == ("error", [], 1)
        assert "No such thing." in outcome.detail
        assert outcome.error.status == status
        assert (await talk.says("again")).text == "Hello."


@every_wire
async def test_a_fault_that_passes_is_asked_again_by_us_alone_and_every_wait_is_told(wire):
    async with asked(refusal(503), refusal(529), refusal(500), answer(wire)) as server:
        talk = Talk(server, wire)
        outcome = await talk.says("go")
    assert (outcome.text, len(server.sent)) == ("Hello.", 4)  # the SDK's own retries would be more
    told = [event for event in talk.heard if isinstance(event, RetryWaiting)]
    assert [event.seconds for event in told] == talk.waits
    assert [event.attempt for event in told] == [1, 2, 3]
    assert all("Slow down." in event.why for event in told)


@every_wire
async def test_it_gives_up_after_four_tries_and_says_so(wire):
    async with asked(*[refusal(503)] * 4, answer(wire)) as server:
        outcome = await Talk(server, wire).says("go")
    assert (outcome.reason, len(server.sent)) == ("error", 4)
    assert outcome.detail.endswith("Asked 4 times.")


async def test_the_waits_of_one_turn_are_bounded_together():
    async with asked(*[refusal(429, [(AFTER, b"50")])] * 9) as server:
        talk = Talk(server, "chat", RetryPolicy(attempts=9))
        outcome = await talk.says("go")
    assert outcome.reason == "error"
    assert (len(talk.waits), sum(talk.waits) <= 120) == (2, True)


@every_wire
async def test_an_hour_is_no_sleep_and_the_session_goes_on_where_it_was_once_it_is_over(wire):
    called = answer(wire, ask("send", '{"to":"Ada"}'), stop="calls")
    async with asked(called, refusal(429, [(AFTER, b"3600")]), answer(wire)) as server:
        talk = Talk(server, wire)
        outcome = await talk.says("go")
        assert (outcome.reason, talk.waits) == ("error", [])
        assert "asks to wait 60 minutes" in outcome.detail
        assert [message.role for message in talk.transcript.messages] == ["user", "assistant", "tool"]
        later = await talk.says(None)
    assert (later.reason, later.text, talk.ran) == ("done", "Hello.", ["Ada"])
    assert server.sent[2] == server.sent[1]  # nothing was lost, nothing was added, and nothing is done twice


@every_wire
async def test_a_turn_that_is_asked_again_runs_its_calls_once(wire):
    called = answer(wire, ask("send", '{"to":"Ada"}'), stop="calls")
    async with asked(refusal(503), called, refusal(429), refusal(503), answer(wire)) as server:
        talk = Talk(server, wire)
        outcome = await talk.says("go")
    assert (outcome.text, talk.ran, len(server.sent)) == ("Hello.", ["Ada"], 5)
