"""Show 1, public bug report R10: a 429 is waited out as long as the provider asks, unless it asks too much or waiting can't help.

Here whole runs through the adapters, over real connections, with a clock that stands still. The policy alone, with
its properties, is in test_retry.py; how the header is read, in wire/test_faults.py. That an interrupt ends the wait is
in test_1_interrupted_within_half_a_second.py.
"""

import asyncio
import email.utils
import time

import pytest
from wire.server import asked, refusal, stream
from wire.speech import WIRES, say, spoken

from harness_nb.agent import Agent
from harness_nb.events import RetryWaiting
from harness_nb.providers.retry import retrying
from harness_nb.seams import Run, layered

every_wire = pytest.mark.parametrize("wire", WIRES)
AFTER = b"retry-after"
USUAL = (0.5, 2.0)
"""Bounds, in seconds, of the first wait where the provider asks for none: which it is, the dice decide."""


def date(seconds):
    return email.utils.formatdate(time.time() + seconds, usegmt=True).encode()


async def limited(wire, *headers, chance=0.0, **error):
    """A run that meets one 429; the outcome, the waits with the time at which each began, and how often it asked."""
    waits, heard = [], []

    async def sleep(seconds):
        waits.append((seconds, time.time()))

    answer = stream(spoken(wire, [say("Hello.")]))
    async with asked(refusal(429, headers, **error), answer) as server:
        model = layered(server.model(wire), retrying(sleep=sleep, chance=lambda: chance))
        outcome = await Agent(model).run("go", Run(None, heard.append))
    told = [event.seconds for event in heard if isinstance(event, RetryWaiting)]
    assert told == [seconds for seconds, _ in waits]
    return outcome, waits, len(server.sent)


@every_wire
@pytest.mark.parametrize(
    ("headers", "least"),
    [
        ([(AFTER, b"2")], 2),
        ([(AFTER, b"2.5")], 2.5),
        ([(b"retry-after-ms", b"1500")], 1.5),
        ([(b"retry-after-ms", b"1500"), (AFTER, b"9")], 1.5),
        ([(AFTER, b"60")], 60),
    ],
)
async def test_it_waits_at_least_as_long_as_it_was_asked_to(wire, headers, least):
    outcome, [(wait, _)], times = await limited(wire, *headers)
    assert (outcome.text, times) == ("Hello.", 2)
    assert least <= wait <= 60


@every_wire
async def test_it_does_not_ask_again_before_the_date_it_was_given(wire):
    then = date(3)
    outcome, [(wait, began)], times = await limited(wire, (AFTER, then))
    assert (outcome.text, times) == ("Hello.", 2)
    assert 0 <= began + wait - email.utils.parsedate_to_datetime(then.decode()).timestamp() < 1


@every_wire
@pytest.mark.parametrize("bad", ["past", "²", "nan", "inf", "-5", "", "soon", "9" * 400, None])
async def test_what_makes_no_sense_or_is_past_means_the_usual_wait(wire, bad):
    value = date(-60) if bad == "past" else (bad or "").encode("latin-1")
    headers = [] if bad is None else [(AFTER, value)]
    outcome, [(wait, _)], times = await limited(wire, *headers, chance=wire == "chat")
    assert (outcome.text, times) == ("Hello.", 2)
    assert wait == USUAL[wire == "chat"]


@every_wire
@pytest.mark.parametrize(
    ("seconds", "said"), [(b"1209600", "14 days"), (b"3600", "60 minutes"), (b"61", "61 s")]
)
async def test_too_long_a_wait_is_an_error_at_once_with_the_time(wire, seconds, said):
    outcome, waits, times = await limited(wire, (AFTER, seconds))
    assert (outcome.reason, waits, times) == ("error", [], 1)
    assert outcome.error.retry_after == float(seconds)
    assert outcome.detail.endswith(f"The provider asks to wait {said}; a run waits at most 60 s.")


@every_wire
@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached"])
async def test_a_spent_quota_is_told_at_once_whatever_wait_is_asked_for(wire, code):
    outcome, waits, times = await limited(wire, (AFTER, b"2"), code=code, type=code)
    assert (outcome.reason, waits, times) == ("error", [], 1)
    assert "Slow down." in outcome.detail
    assert not outcome.error.retryable


async def test_other_work_goes_on_during_a_wait():
    beats = 0

    async def beat():
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    heart = asyncio.create_task(beat())
    async with asked(refusal(429), stream(spoken("chat", [say("Hello.")]))) as server:
        model = layered(server.model("chat"), retrying(chance=lambda: 0))
        assert (await Agent(model).run("go")).text == "Hello."
    heart.cancel()
    assert beats > 10
