"""Show 1, interruption: whatever a run waits for, a stop ends it within half a second, and the model is told what is true.

The times are from the stop, or from the kernel's interrupt, until the run is over, or the cell is free. What becomes of
the record at every moment of a run is in test_agent.py and test_1_peers_orphans.py; that commands leave nothing, also
in the sandbox, is in test_shell.py; that a question is withdrawn, in test_approvals.py.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from wire.server import HANG, asked, begun, refusal
from wire.speech import say as said, spoken

from harness_nb.agent import LEFT_BEHIND, NEVER_RAN, STOPPED_TEXT, Agent
from harness_nb.events import ApprovalAsked, RetryWaiting, TextDelta, ToolStarted
from harness_nb.jupyter.cell_tools import ENDED
from harness_nb.providers.retry import retrying
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.safety.approvals import OpenQuestions, permitted
from harness_nb.safety.permission import policy
from harness_nb.safety.sandbox import limited
from harness_nb.seams import Run, layered
from harness_nb.toolkit.command import KILLED
from harness_nb.toolkit.shell import shell
from harness_nb.tools import RUNS_ON, Toolbox, tool

MOST = 0.5
"""Seconds that a stop may take: the requirement."""

SLEEP = f"58.{os.getpid()}"
"""Seconds that commands here sleep: a number of our own, so that they are known."""

CHILDREN = f"(trap '' TERM; setsid sleep {SLEEP} & sleep {SLEEP}; sleep {SLEEP}) & sleep {SLEEP}"
"""A command with children: one ignores being asked to end, one has left its group."""


def alive():
    """Processes that sleep so long."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [place.parent.name] if f"sleep\0{SLEEP}".encode() in place.read_bytes() else []
        except OSError:
            continue
    return found


@dataclass(frozen=True)
class Wait:
    """One kind of wait: an agent that comes to it, and what tells, of an event, that it is there."""

    agent: Agent
    reached: Callable[[object], object]
    told: Callable[[str], bool] | None = None
    """What must be true of the result that the model gets."""
    text: str | None = None
    """The last message of the record, where there is a partial one."""
    clean: Callable[[], object] = lambda: True
    """What must be true at the end; it lets go of what still waits."""


def calling(*tools, gates=(), **arguments):
    """An agent that calls the first tool and then would answer."""
    return Agent(scripted(say(call(tools[0].name, **arguments)), "Never said."), Toolbox(tools), gates=gates)


def a_model(server, workspace):
    server.turns.append([HANG])
    return Wait(Agent(server.model("chat")), lambda event: server.hung.is_set(), clean=server.left)


def a_stream(server, workspace):
    server.turns.append(begun(spoken("chat", [said("Once upon")], cut=True), HANG))
    return Wait(
        Agent(server.model("chat")),
        lambda event: isinstance(event, TextDelta),
        text=f"Once upon\n\n{STOPPED_TEXT}",
        clean=server.left,
    )


def a_retry(server, workspace):
    server.turns.append(refusal(429, [(b"retry-after", b"59")]))
    return Wait(
        Agent(layered(server.model("chat"), retrying())), lambda event: isinstance(event, RetryWaiting)
    )


def an_approval(server, workspace):
    @tool(effects={"write"})
    def save() -> str:
        """Save."""
        raise AssertionError("nobody allowed it")

    desk = OpenQuestions()
    gate = permitted(policy("ask", ()), desk)
    return Wait(
        calling(save, gates=(gate,)),
        lambda event: isinstance(event, ApprovalAsked),
        told=lambda text: text == NEVER_RAN,
        clean=lambda: desk.open == (),
    )


def a_function(server, workspace):
    release = threading.Event()

    @tool(effects={"read"})
    def block() -> str:
        """Block."""
        release.wait(60)
        return "too late"

    def clean():
        release.set()
        return True

    return Wait(calling(block), started, told=lambda text: text.endswith(RUNS_ON), clean=clean)


def an_async_function(server, workspace):
    ended = []

    @tool(effects={"write"})
    async def wait() -> str:
        """Wait."""
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)
        return "too late"

    return Wait(
        calling(wait), started, told=lambda text: text.endswith("repeat the call."), clean=lambda: ended
    )


def a_deaf_function(server, workspace):
    over = asyncio.Event()

    @tool(effects={"write"})
    async def deaf() -> str:
        """Go on whatever happens."""
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    def clean():
        over.set()
        return True

    return Wait(calling(deaf), started, told=lambda text: text.endswith(LEFT_BEHIND), clean=clean)


def a_command(server, workspace):
    return Wait(
        calling(shell(limited(workspace), workspace), command=CHILDREN),
        lambda event: len(alive()) >= 3,
        told=lambda text: text.endswith(KILLED),
        clean=lambda: not alive(),
    )


def started(event):
    return isinstance(event, ToolStarted)


WAITS = [a_model, a_stream, a_retry, an_approval, a_function, an_async_function, a_deaf_function, a_command]


async def stopped(wait, by):
    """Come to the wait, stop there; the run, its outcome if it has one, and the seconds it took."""
    heard = []
    run = Run(None, heard.append)
    task = asyncio.create_task(wait.agent.run("go", run))
    async with asyncio.timeout(20):
        while not any(wait.reached(event) for event in heard):  # noqa: ASYNC110 - some of it is in another process
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.1)
    pressed = time.perf_counter()
    run.stop() if by == "stop" else task.cancel()
    await asyncio.wait([task], timeout=20)
    return run, None if task.cancelled() else task.result(), time.perf_counter() - pressed


@pytest.mark.parametrize("by", ["stop", "cancel"])
@pytest.mark.parametrize("kind", WAITS)
@pytest.mark.usefixtures("alone")
async def test_a_stop_ends_any_wait_within_half_a_second(kind, by, tmp_path):
    async with asked() as server:
        wait = kind(server, tmp_path)
        run, outcome, seconds = await stopped(wait, by)
        assert wait.clean()
        print(f"{kind.__name__.replace('_', ' ')}, by {by}: over {seconds:.3f} s after it")
        assert seconds < MOST
        assert outcome is None if by == "cancel" else outcome.reason == "interrupted"
        assert run.transcript.dangling() == []
        assert wait.text is None or run.transcript.messages[-1].text == wait.text
        for result in (r for message in run.transcript.messages for r in message.results):
            assert result.is_error
            assert wait.told(result.text), result.text
        after = await Agent(scripted("Fine.")).run("and now?", Run(run.transcript))
    assert after.text == "Fine."


SETUP = f"""
%load_ext harness_nb
import asyncio, threading, time
from harness_nb import ProviderError, call, say, scripted, session, tool

@tool(effects={{"read"}})
def function() -> str:
    "Take a minute."
    print("at it", flush=True)
    time.sleep(60)

@tool(effects={{"read"}})
async def coroutine() -> str:
    "Take a minute."
    print("at it", flush=True)
    await asyncio.sleep(60)

@tool(effects={{"read"}})
async def deaf() -> str:
    "Go on whatever happens."
    print("at it", flush=True)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            pass

async def thinking(request):
    print("at it", flush=True)
    await asyncio.sleep(60)

TURNS = {{
    "a model": thinking,
    "a stream": "at it " * 6_000,
    "a retry": ProviderError("Overloaded: at it again later.", retryable=True, retry_after=55),
    "an approval": say(call("shell", command="echo at it")),
    "a function": say(call("function")),
    "an async function": say(call("coroutine")),
    "a deaf function": say(call("deaf")),
    "a command": say(call("shell", command={f"echo at it; {CHILDREN}"!r})),
    "code in the cell": say(call("run_python", code="print('at it', flush=True); time.sleep(60)")),
}}
s = session()

def ready(kind, mode):
    s.new()
    s.mode, s.model = mode, scripted(TURNS[kind], "Never said.", piece=6, pace=0.01)

def last():
    message = s.transcript.messages[-1]
    print(message.text, *(result.text for result in message.results))
"""


TOLD = {
    "a stream": STOPPED_TEXT,
    "an approval": NEVER_RAN,
    "a function": RUNS_ON,
    "an async function": "may have had an effect: check before you repeat the call.",
    "a deaf function": LEFT_BEHIND,
    "a command": KILLED,
    "code in the cell": ENDED,
}
"""What the record says of each at its end; nothing of the first two waits, in which nothing had come."""


@pytest.mark.kernel
@pytest.mark.usefixtures("alone")
def test_an_interrupt_frees_the_cell_within_half_a_second_of_any_wait(kernel):
    assert kernel.execute(SETUP).text == ""
    taken = {}
    for kind in eval(kernel.execute("list(TURNS)").text):  # noqa: S307 - our own words
        for _ in range(3):  # something else may have held up the machine
            taken[kind] = interrupted(kernel, kind)
            if taken[kind] < MOST:
                break
    assert "Fine." in kernel.execute("s.model = scripted('Fine.')\n%agent and now?").text
    print(f"\nipykernel {kernel.version}, cell free after an interrupt of")
    print(*(f"  {kind}: {seconds:.2f} s" for kind, seconds in taken.items()), sep="\n")
    assert max(taken.values()) < MOST


def interrupted(kernel, kind):
    """Interrupt such a wait; the seconds until the cell is free. What the record says is true, and nothing is left."""
    kernel.execute(f"ready({kind!r}, {'ask' if kind == 'an approval' else 'auto'!r})")
    cell = kernel.start("%agent go")
    at_it(kernel, cell, kind)
    pressed = time.monotonic()
    kernel.interrupt()
    cell.finish()
    seconds = time.monotonic() - pressed
    assert (cell.error, alive()) == ("CancelledError", [])
    assert kernel.execute("len(s.transcript.dangling())").text == "0"
    assert TOLD.get(kind, "go") in kernel.execute("last()").text
    return seconds


def at_it(kernel, cell, kind):
    """Wait until the cell is where it is to be interrupted, and has nothing more to say."""
    if kind == "a command":
        assert kernel.listen(lambda: len(alive()) >= 3)
    else:
        cell.wait_for(lambda sent: "at it" in str(sent.content))
    kernel.listen(lambda: False, timeout=0.5)
