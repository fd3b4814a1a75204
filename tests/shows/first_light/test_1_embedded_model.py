"""Line 1: the embedded model, without a key, calls a tool that really runs, and answers from its result as it streams."""

import subprocess
import sys
import time
from contextlib import chdir

import pytest

from harness_nb.agent import Agent
from harness_nb.events import CallDelta, TextDelta, ToolFinished, ToolStarted
from harness_nb.providers.local import Local
from harness_nb.recipes import INSTRUCTIONS
from harness_nb.seams import Run
from harness_nb.toolkit.calc import calc
from harness_nb.toolkit.files import read_file
from harness_nb.tools import Toolbox

pytestmark = [pytest.mark.llama, pytest.mark.slow]


@pytest.fixture(scope="module")
def agent():
    return Agent(Local(), Toolbox([calc, read_file]), INSTRUCTIONS)


async def test_it_multiplies_by_the_calculator_and_streams_the_answer(agent):
    events = []
    began = time.perf_counter()
    run = Run(listener=lambda event: events.append((time.perf_counter() - began, event)))
    outcome = await agent.run("What is 1234 * 5678?", run)
    (call,) = [event for _, event in events if isinstance(event, ToolFinished)]
    pieces = [event.text for _, event in events if isinstance(event, TextDelta)]
    first = {
        kind: next(at for at, event in events if isinstance(event, kind)) for kind in (CallDelta, TextDelta)
    }
    print(
        f"{outcome.text!r}: the call after {first[CallDelta]:.1f} s, the first word after {first[TextDelta]:.1f} s, "
        f"all after {events[-1][0]:.1f} s; {outcome.usage}"
    )
    assert any(isinstance(event, ToolStarted) for _, event in events)
    assert call.result.text == "7006652"
    assert outcome.reason == "done"
    assert "7006652" in outcome.text.replace(",", "")
    assert len(pieces) > 3
    assert "".join(pieces) == outcome.text


async def test_it_reads_a_file_and_says_what_is_in_it(agent, tmp_path):
    (tmp_path / "shopping.txt").write_text("Oranges\nFlour\n")
    with chdir(tmp_path):
        outcome = await agent.run("What is in shopping.txt?")
    print(repr(outcome.text))
    assert [call.name for message in outcome.transcript.messages for call in message.calls] == ["read_file"]
    assert "oranges" in outcome.text.lower()


async def test_it_greets_without_a_tool_and_says_how_small_it_is(agent):
    outcome = await agent.run("Hello, who are you?")
    print(repr(outcome.text))
    assert not any(message.calls for message in outcome.transcript.messages)
    assert "small language model" in outcome.text
    assert agent.model.name == "qwen2.5-coder-0.5b · local, small"


async def test_a_tool_that_fails_is_not_made_up(agent):
    outcome = await agent.run("What is in missing.txt?")
    print(repr(outcome.text))
    assert "missing.txt" in outcome.text
    assert "could not" in outcome.text


def test_a_program_that_used_it_ends_by_itself_and_leaves_no_child():
    program = (
        "import asyncio\nfrom harness_nb.agent import Agent\nfrom harness_nb.providers.local import Local\n"
        "from harness_nb.providers.local.engine import _running\n"
        "asyncio.run(Agent(Local()).run('Hello'))\n"
        "print([engine.pid for engine in _running.values()][0])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert ran.stderr == ""
    alive = subprocess.run(
        ["ps", "-o", "stat=", "-p", ran.stdout.strip()], capture_output=True, text=True, check=False
    )
    assert alive.stdout.strip().startswith("Z") or not alive.stdout.strip()
