"""CPU of a call through every gate against a bare call, and of one huge result: `python -m bench.gates` from tests/.

Measured with the process clock, so waiting costs nothing and threads count. Each figure is the least of many short rounds, since
noise only adds; where even that is slow, a yardstick measured in the same rounds tells by how much. The huge result is measured in a process of its own, by the most memory that it ever held.
"""

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from harness_nb.messages import ToolCall
from harness_nb.safety.approvals import nobody, permitted, unchanged
from harness_nb.safety.permission import policy
from harness_nb.safety.repeats import unrepeated
from harness_nb.safety.spill import Outputs, spilled
from harness_nb.safety.trust import from_outside, labelled
from harness_nb.seams import Run
from harness_nb.tools import Toolbox, tool

CALLS = 100
HUGE = 36_000_000
YARDSTICK = 40.0
"""Microseconds that `yardstick` takes on a quiet machine like the one that the figures were set on."""
RULES = ["deny shell rm *", "ask write_file", "allow fetch", "allow look"]


@tool(effects={"read"})
async def look(path: str, lines: int = 10, words: list[str] | None = None) -> str:
    """Look at a path."""
    return f"{path}: {lines} lines"


@tool(effects={"network"})
async def fetch(url: str) -> str:
    """Fetch."""
    return f"What {url} says."


CASES = {
    "read": ("look", lambda n: {"path": f"src/{n}.py", "lines": 5, "words": ["a", "b"]}),
    "network": ("fetch", lambda n: {"url": f"https://example.org/{n}"}),
}


def gates(workspace):
    """All gates, in the order of an agent."""
    outputs = Outputs()
    return (
        spilled(outputs),
        unrepeated(),
        permitted(policy("ask", RULES, workspace), nobody),
        labelled(from_outside(workspace), outputs.maker),
        unchanged,
    )


@dataclass
class Figures:
    """Microseconds of CPU of a call: of the bare function, with arguments read and validated, and with all gates too."""

    bare: float
    validated: float
    gated: float
    yardstick: float

    @property
    def overhead(self):
        return self.gated - self.bare

    @property
    def slowness(self):
        """How many times slower than a quiet machine this one was all the time, at least 1."""
        return max(self.yardstick / YARDSTICK, 1.0)


def measured(case, rounds=60, enough=lambda figures: False):
    """The least of each figure over so many rounds, fewer once that is `enough`."""
    with tempfile.TemporaryDirectory() as workspace:
        found = []
        for _ in range(rounds):
            found.append(asyncio.run(_round(case, workspace)))
            best = Figures(*(min(values) for values in zip(*found, strict=True)))
            if enough(best):
                break
        return best


async def _round(case, workspace):
    name, arguments = CASES[case]
    box = Toolbox([look, fetch])
    calls = [ToolCall(f"c{n}", name, json.dumps(arguments(n))) for n in range(CALLS)]
    function = {"look": look, "fetch": fetch}[name].function
    given = [json.loads(call.raw) for call in calls]

    async def bare(run):
        for one in given:
            await function(**one)

    def through(*layers):
        dispatch = box.dispatch(*layers)

        async def play(run):
            for turn, call in enumerate(calls):
                run.turn = turn
                result = await dispatch(call, run)
                assert not result.is_error, result.text

        return play

    costs = []
    for play in (bare, through(), through(*gates(workspace)), yardstick):
        run = Run()
        began = time.process_time()
        await play(run)
        costs.append((time.process_time() - began) / CALLS * 1e6)
    return costs


async def yardstick(_):
    """Plain Python of the kind that a call runs, always the same."""
    for n in range(CALLS):
        for _ in range(8):
            text = json.dumps({"path": f"src/{n}.py", "words": ["a", "b", n]}, sort_keys=True)
            json.loads(text)


@dataclass
class Huge:
    """One result of 36 million characters: seconds of CPU, and the memory that it took at the most, in bytes."""

    seconds: float
    memory: int
    slowness: float


def huge(text="x"):
    """Measure a result of one line made of this text, in a new process."""
    tests = Path(__file__).parents[1]
    code = f"import sys; sys.path[:0] = {[str(tests)]}; from bench.gates import _huge; _huge({text!r})"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    seconds, memory, slowness = said.split()
    return Huge(float(seconds), int(memory), float(slowness))


def _huge(text):
    @tool(effects={"network"})
    def dump(size: int) -> str:
        """Dump."""
        return text * (size // len(text))

    async def play(size, identity):
        return await dispatch(ToolCall(identity, "dump", json.dumps({"size": size})), run)

    with tempfile.TemporaryDirectory() as workspace:
        layers = gates(workspace)
        run, dispatch = Run(), Toolbox([dump]).dispatch(layers[0], layers[1], layers[3])
        asyncio.run(play(100_000, "warm"))
        before, began = now(), time.process_time()
        result = asyncio.run(play(HUGE, "huge"))
        seconds, memory = time.process_time() - began, peak() - before
        began = time.process_time()
        asyncio.run(yardstick(run))
        slowness = (time.process_time() - began) / CALLS * 1e6 / YARDSTICK
        assert "long output, shortened" in result.text
        assert len(result.text) <= 16_000
    print(seconds, memory, max(slowness, 1.0))


def now():
    """The memory that this process holds, in bytes; where it can't be told, the most it ever held."""
    return _status("VmRSS") or peak()


def peak():
    """The most memory that this process ever held, in bytes. On Linux, `getrusage` would count its parent's too."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _status("VmHWM") or (most if sys.platform == "darwin" else most * 1024)


def _status(name):
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)


def report(case, figures):
    return (
        f"{case}: bare {figures.bare:.1f} µs, with arguments read and checked {figures.validated:.1f} µs, "
        f"with all gates {figures.gated:.1f} µs: {figures.overhead:.1f} µs over a bare call "
        f"(a yardstick of {YARDSTICK:.0f} µs took {figures.yardstick:.0f} µs)"
    )


def report_huge(text, figures):
    return f"one line of {HUGE:,} characters ({text!r}): {figures.seconds:.2f} s of CPU, {figures.memory / 1e6:.0f} MB at the most"


if __name__ == "__main__":
    for each in CASES:
        print(report(each, measured(each)))
    for letter in ("x", "日"):
        print(report_huge(letter, huge(letter)))
