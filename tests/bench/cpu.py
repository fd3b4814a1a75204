"""CPU of the harness against a raw loop on the same local server, in one run: `python -m bench.cpu` from tests/.

Measured with the process clock, so waiting costs nothing and threads count. A turn's cost is the median of the last
turns of a run; every figure is the least of several runs, since noise only adds.
"""

import asyncio
import statistics
import time
from dataclasses import dataclass
from itertools import pairwise

import anthropic
import httpx2
import openai
from bench import raw
from bench.canned import DELTAS, serving
from wire.speech import WIRES

from harness_nb.agent import Agent, Limits
from harness_nb.events import TextDelta, TurnStarted
from harness_nb.messages import user
from harness_nb.providers.anthropic import Anthropic
from harness_nb.providers.chat import Chat
from harness_nb.providers.openai import OpenAI
from harness_nb.seams import Request, Run
from harness_nb.tools import Toolbox, tool

FEW, MANY = 50, 400
LAST = 20


@dataclass
class Figures:
    """Microseconds of CPU: of a turn after 50 and after 400 turns, and of a streamed delta."""

    few: float
    many: float
    delta: float


@tool(effects={"read"})
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def model(wire, url):
    """An adapter on the SDK's client, and that client."""
    if wire == "anthropic":
        client = anthropic.AsyncAnthropic(api_key="key", base_url=url, open_telemetry=False)
        return Anthropic("m", client), client
    client = openai.AsyncOpenAI(api_key="key", base_url=url)
    return {"openai": OpenAI, "chat": Chat}[wire]("m", client=client), client


def per_turn(ticks, turns):
    costs = [after - before for before, after in pairwise(ticks)]
    return statistics.median(costs[turns - LAST : turns]) * 1e6


async def harness(wire, url):
    """Figures of the whole agent, with a listener that looks at each event."""
    asked, client = model(wire, f"{url}/turn")
    ticks, shown = [], 0

    def listener(event):
        nonlocal shown
        if type(event) is TurnStarted:
            ticks.append(time.process_time())
        elif type(event) is TextDelta:
            shown += 1

    outcome = await Agent(asked, Toolbox([add]), limits=Limits(turns=MANY + 1)).run(
        "Add things.", Run(listener=listener)
    )
    assert outcome.reason == "turns", outcome
    await client.close()
    asked, client = model(wire, f"{url}/deltas")
    shown, began = 0, time.process_time()
    await asked(Request("", (user("Write."),)), Run(listener=listener))
    spent = time.process_time() - began
    assert shown == DELTAS
    await client.close()
    return Figures(per_turn(ticks, FEW), per_turn(ticks, MANY), spent / DELTAS * 1e6)


async def bare(wire, url):
    """The same of the raw loop."""
    async with httpx2.AsyncClient(timeout=600) as http:
        loop, ticks = raw.LOOPS[wire](http, f"{url}/turn"), [time.process_time()]
        for _ in range(MANY):
            await loop.turn()
            ticks.append(time.process_time())
        loop = raw.LOOPS[wire](http, f"{url}/deltas")
        began = time.process_time()
        await loop.turn()
        spent = time.process_time() - began
        assert loop.shown == DELTAS
    return Figures(per_turn(ticks, FEW), per_turn(ticks, MANY), spent / DELTAS * 1e6)


def least(runs):
    return Figures(*(min(getattr(run, name) for run in runs) for name in ("few", "many", "delta")))


def measured(wire, rounds=3, enough=lambda ours, theirs: False):
    """Figures of the harness and of the raw loop, by turns so that both meet the same noise, until `enough`."""

    async def both(url):
        runs = []
        while len(runs) < rounds and not (runs and enough(*map(least, zip(*runs, strict=True)))):
            runs.append((await harness(wire, url), await bare(wire, url)))
        return map(least, zip(*runs, strict=True))

    with serving() as url:
        return tuple(asyncio.run(both(url)))


def report(wire, ours, theirs):
    """One wire's figures in a line each, as ratios first."""
    return (
        "\n".join(
            f"{wire:>9}, CPU per {what}: {mine / other:4.2f} x raw ({mine:6.0f} against {other:6.0f} microseconds)"
            for what, mine, other in (
                (f"turn at {FEW}", ours.few, theirs.few),
                (f"turn at {MANY}", ours.many, theirs.many),
                ("delta", ours.delta, theirs.delta),
            )
        )
        + f"\n{wire:>9}, growth from {FEW} to {MANY} turns: {ours.many / ours.few:4.2f} x (raw {theirs.many / theirs.few:4.2f} x)"
    )


if __name__ == "__main__":
    for name in WIRES:
        print(report(name, *measured(name)), flush=True)
