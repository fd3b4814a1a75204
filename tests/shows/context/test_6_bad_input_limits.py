"""Line 6: an unknown encoding, a vocabulary that is not here, no window, limits that contradict: one sentence each, nothing lost."""

import re

import pytest

from harness_nb.agent import Agent
from harness_nb.context.account import Account, measured
from harness_nb.context.count import Counter, counter, counting
from harness_nb.context.vocabulary import vocabulary
from harness_nb.context.window import Window, window
from harness_nb.errors import UsageError
from harness_nb.events import ContextMeasured, Notice
from harness_nb.messages import Decision, Transcript, user
from harness_nb.providers.scripted import scripted
from harness_nb.seams import Request, Run, layered

CANT_BE = {
    "an unknown encoding": lambda: counting("cl200k_bass"),
    "an encoding without a name": lambda: counting(""),
    "a window of nothing": lambda: window("m", 0),
    "a window below nothing": lambda: window("m", -1),
    "a headroom as large as the window": lambda: window("m", 8_000, headroom=8_000),
    "a headroom larger than the window": lambda: window("m", 8_000, headroom=9_000),
    "a headroom below nothing": lambda: window("m", 8_000, headroom=-1),
    "an output below nothing": lambda: window("m", 8_000, output=-1),
    "yellow after red": lambda: Account(Window(), counter(), 0.9, 0.8),
    "yellow at nothing": lambda: Account(Window(), counter(), 0.0, 0.8),
    "red beyond the window": lambda: Account(Window(), counter(), 0.6, 1.2),
}


@pytest.mark.parametrize("make", CANT_BE.values(), ids=CANT_BE)
def test_what_can_not_be_is_one_sentence_that_says_what_to_do(make):
    with pytest.raises(UsageError) as refused:
        make()
    print(refused.value)
    assert re.fullmatch(r"[A-Z`].{20,200}\.", str(refused.value))
    assert ". " not in str(refused.value)


def test_a_vocabulary_that_is_not_here_is_named_with_the_way_to_get_it():
    if vocabulary("o200k_base") is not None:
        pytest.skip("it is on this machine")
    with pytest.raises(UsageError, match=r"not on this machine: run tiktoken\.get_encoding.*, or count with"):
        counting("o200k_base")


async def told(kept, transcript):
    heard = []
    outcome = await Agent(layered(scripted("Done."), measured(kept))).run("hi", Run(transcript, heard.append))
    fills = [event.fill for event in heard if isinstance(event, ContextMeasured)]
    return outcome, fills, [event.text for event in heard if isinstance(event, Notice)]


async def test_without_a_vocabulary_a_run_goes_on_and_says_so_in_one_sentence():
    record = Transcript([user("hello " * 1000)])
    outcome, (fill,), notices = await told(Account(Window(8_000), Counter(("nowhere",))), record)
    print(*notices)
    assert (outcome.reason, fill.how, len(notices)) == ("done", "characters", 1)
    assert len(record.messages) == 3


async def test_without_a_window_a_run_goes_on_and_nothing_is_judged():
    outcome, (fill,), notices = await told(Account(window("nobody-knows-it"), counter()), Transcript())
    assert (outcome.reason, fill.window, fill.share, fill.state, notices) == ("done", 0, 0.0, "green", [])


async def test_a_request_larger_than_the_window_is_red_and_still_measured():
    _, (fill,), _ = await told(Account(Window(500), counter()), Transcript([user("hello " * 10_000)]))
    assert (fill.state, fill.share > 20) == ("red", True)


async def test_an_empty_request_is_nothing():
    fill = await Account(Window(500), counter()).measure(Request("", ()))
    assert (dict(fill.tokens), fill.total, fill.state) == ({}, 0, "green")


async def test_a_record_of_decisions_only_is_measured_too():
    record = Transcript([Decision("you", "Nothing to see.", {"nobody": ()})])
    assert (await Account(Window(500), counter()).measure(Request("", record.live()))).total == 0
