"""A river gauge for the lessons on notes and search: its records, an agent's first day at work on them, and what it found.

The models here are scripts that read: what they say depends on what they are sent, and on nothing else.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from harness_nb import Agent, Tool, Toolbox, call, say, scripted, tool
from harness_nb.context.account import Account
from harness_nb.context.count import counting
from harness_nb.context.relief import Relief
from harness_nb.context.window import Window
from harness_nb.messages import Message, Summary, Text, ToolCall, ToolResult
from harness_nb.seams import Reply, Request, Run

PAGES = {
    "levels": "A step of 2.4 cm on 12 May. It is the only one in twelve series.",
    "weather": "The weather: pressure and temperature, hourly. Neither follows the step.",
    "site": "Notes of the crew. 12 May: put logger 31 in the place of logger 7.",
}
LOG = " ".join([f"{hour:02}:00 nothing to report." for hour in range(24)] * 2)

OLD = 1_767_225_600
"""The first of January 2026, for the date of a file."""

TASK = "The river gauge drifts. Find out why. Change nothing in raw_levels."
PLAN = (
    "A plan. 1. Find the day. 2. Rule out the weather. 3. Ask who was on site. "
    "4. Check against the hand readings."
)
DAY_ONE = (
    say(PLAN, call("look", at="levels")),
    say(
        "Next, the weather. I compare medians: the mean follows spikes.",
        call("look", at="weather"),
    ),
    say("Not the weather. That leaves the site.", call("look", at="site")),
    "A logger was swapped. The hand readings come next.",
)
"""The agent's turns on the first day: for a `scripted` model."""

FACTS = {
    "the limit": "Change nothing in raw_levels",
    "the next step": "4. Check against the hand readings",
    "the day": "12 May",
    "how much": "2.4 cm",
    "the method, and why": "medians: the mean follows spikes",
    "a dead end": "Neither follows the step",
    "the cause": "logger 31 in the place of logger 7",
}
"""What the second day rests on, and the words that each can be known by."""

SEEN = (
    *("The alarm was tested.", "The alarm rang once, for {0} seconds."),
    *("Pump A ran for {0} minutes.", "Pump B was started and stopped again."),
    *("The batteries stand at {0} per cent.", "Two walkers asked when the bridge opens."),
    *("The level was {0} cm in the morning.", "The level fell by {0} cm."),
    *("Wind from the west, waves at the staff.", "A logger was cleaned."),
    *("The readings came in late.", "Cold, {0} degrees at six."),
    *("The book was left at the mill.", "High water in the meadow, {0} cm."),
    *("The keys were looked for, and found.", "Nothing to report."),
    *("The office was told to wait.", "A new lock for the grey box."),
    *("Somebody turned off the lights.", "Swans at the weir, {0} of them."),
    *("Rain before noon.", "A branch was taken out of the float."),
)
"""What the crew writes down, day by day."""

QUESTIONS = {
    "alarm at high water": "412 cm",
    "how long does pump B wait before it starts again": "forty seconds",
    "when are the readings by hand": "second Thursday",
    "offset of a new logger": "three centimetres",
    "readLevel timeout": "timeout_s: float = 7.5",
    "警報": "警報が鳴る",
    "battery in the cold": "minus ten",
    "turn off the siren": "both keys",
}
"""Questions to the handbook, and words that only the right passage has."""

GAUGES = (
    *("Alder", "Birch", "Cedar", "Dogwood", "the mill", "Fir", "Gorse", "Hazel", "Ivy"),
    *("the old bridge", "Juniper", "Larch", "Maple", "Nettle", "the lock", "Pine"),
    *("Quince", "Rowan", "Sorrel", "Thorn"),
)
"""Gauges by the names that stand in their records."""

CALLED = {"the mill": "Elm", "the old bridge": "Oak", "the lock": "Willow"}
"""What a person calls three of them."""


@tool(effects={"read"})
def look(at: str) -> str:
    """Look at a page of the station's records."""
    return f"{PAGES[at]} {LOG}"


def sight(messages: Iterable[Message]) -> str:
    """Return all words of these messages: what people and models said, calls, and results."""
    found = []
    for message in messages:
        for part in message.parts:
            match part:
                case Text() | Summary() | ToolResult():
                    found.append(part.text)
                case ToolCall():
                    found.append(part.raw)
                case _:
                    pass
    return "\n".join(found)


def known(messages: Iterable[Message]) -> list[str]:
    """Name the facts whose words stand in these messages."""
    seen = sight(messages)
    return [name for name, words in FACTS.items() if words in seen]


def next_step(request: Request) -> str:
    """Take step 4 of the newest plan in sight, whatever it says; ask where there is none."""
    found = re.findall(r"4\. [A-Z][^.\n]+\.", sight(request.messages))
    return f"Next: {found[-1]}" if found else "What was the plan?"


def read_all(request: Request) -> Reply:
    """Ask for every note that the list, just above, names."""
    keys = re.findall(r"^([\w-]+): ", sight(request.messages[-1:]), re.MULTILINE)
    return say(*[call("scratchpad_read", key=key) for key in keys])


async def summarise(run: Run, *words: str) -> None:
    """Compact a run's context with these words for a summary, or the first sentence of every line that it holds."""

    def first_sentences(request: Request) -> str:
        lines = sight(request.messages).splitlines()
        return "\n".join(line.split(". ")[0] for line in lines)

    model = scripted(*(words or (first_sentences,)))
    relief = Relief(Account(Window(), counting("characters")), model)
    await relief.compact(Request("", run.transcript.live()), run)


def process(code: str) -> None:
    """Run code in a Python of its own, and show the last line of what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    print((done.stdout + done.stderr).strip().splitlines()[-1])


def dated(folder: Path) -> None:
    """Give all files in a folder the same old date, so that what lists them shows the same every day."""
    for path in folder.iterdir():
        os.utime(path, (OLD, OLD))


def library(folder: Path) -> Path:
    """Make a folder with the handbook of the stations and the crew's notes of 120 days, and return it."""
    shutil.copytree(Path(__file__).parent / "data" / "handbook", folder / "handbook")
    (folder / "daily").mkdir()
    make = random.Random(9)
    for day in range(1, 121):
        lines = [line.format(make.randrange(2, 90)) for line in make.sample(SEEN, k=5)]
        text = f"# Day {day}\n\n{' '.join(lines)}\n"
        (folder / "daily" / f"{day:03}.md").write_text(text, "utf-8")
    return folder


def zeros() -> dict[str, str]:
    """Give the zero of each gauge, by the name that a person has for it."""
    make = random.Random(10)
    return {CALLED.get(name, name): f"{make.randrange(1000, 9999)} mm" for name in GAUGES}


async def survey() -> Run:
    """Make a session in which an agent looks at twenty gauges, one after the other, and which was then summarised."""
    found = dict(zip(GAUGES, zeros().values(), strict=True))

    @tool(effects={"read"})
    def gauge(name: str) -> str:
        """Read the record of a gauge."""
        return f"Read without trouble. The zero of {name} is {found[name]}. {LOG}"

    model = scripted(*[say(call("gauge", name=name)) for name in GAUGES], "All read.")
    run = Run()
    await Agent(model, Toolbox([gauge])).run("Read all gauges, one after the other.", run)
    await summarise(run, "Twenty gauges were read, one after the other, without trouble.")
    return run


async def ask(item: Tool, run: Run | None = None, **arguments: object) -> str:
    """Call a tool as a model would, and return what the model is told."""
    made = ToolCall("asking", item.name, json.dumps(arguments))
    return (await Toolbox([item]).dispatch()(made, run or Run())).text
