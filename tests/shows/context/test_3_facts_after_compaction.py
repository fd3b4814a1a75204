"""40 facts over a long session that is masked and summarised: where each is afterwards, and that none is out of reach."""

import json

import pytest

from harness_nb.agent import Agent, Limits
from harness_nb.context.account import Account, measured
from harness_nb.context.count import counting
from harness_nb.context.relief import Relief
from harness_nb.context.scratchpad import Scratchpad
from harness_nb.context.search import searching_history
from harness_nb.context.window import Window
from harness_nb.messages import Decision, Message, ToolCall, Transcript
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.seams import Run, layered
from harness_nb.tools import Toolbox, tool

PLACES = ("pinned result", "user text", "note", "plain result")
FACTS = {n: (PLACES[n % 4], f"The code of station{n:02d} is {7919 * (n + 3)}.") for n in range(40)}
NOISE = "The belt ran, the lamp was green and the next batch was weighed. "


@tool(effects={"read"})
def inspect(n: int) -> str:
    """Inspect a station: a long report."""
    place, fact = FACTS[n]
    return f"{NOISE * 12}{fact if place.endswith('result') else ''} {NOISE * 12}"


class Plant:
    """A session of 40 prompts in a window of 12,000 tokens, in which every fact is planted."""

    def __init__(self, folder):
        self.notes, self.transcript = Scratchpad(folder), Transcript()
        account = Account(Window(12_000, 1_500, source="configuration"), counting("characters"))
        self.turns = []
        for n, (place, fact) in FACTS.items():
            writes = [call("scratchpad_write", key=f"station{n}", text=fact)] if place == "note" else []
            self.turns += [say(call("inspect", n=n), *writes), f"Station {n} is inspected."]
        summaries = scripted(*["The person has stations inspected, one after the other."] * 400)
        relief = Relief(account, summaries)
        box = Toolbox([inspect, searching_history(), *self.notes.tools])
        model = layered(scripted(*self.turns, piece=1_000), measured(account))
        self.agent = Agent(model, box, "Inspect.", prepare=(relief,), limits=Limits(turns=3))

    async def play(self):
        for n, (place, fact) in FACTS.items():
            told = f" {fact}" if place == "user text" else ""
            await self.agent.run(f"Inspect station {n}.{told}", Run(self.transcript))
            if place == "pinned result":
                result = next(m for m in reversed(self.transcript.messages) if m.role == "tool")
                self.transcript.append(Decision("you", "worth keeping", pins=(result.id,)))
        return self

    async def ask(self, name, **arguments):
        asked = ToolCall("now", name, json.dumps(arguments))
        return (await self.agent.tools.dispatch()(asked, Run(self.transcript))).text


def seen(transcript):
    """All that the model reads: texts and results."""
    return "\n".join(_words(message) for message in transcript.live())


def _words(message: Message) -> str:
    return "\n".join([message.text, *(result.text for result in message.results)])


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def plant(tmp_path_factory):
    return await Plant(tmp_path_factory.mktemp("plant") / "notes").play()


async def test_every_fact_is_in_sight_in_a_note_or_found_by_a_search_over_the_record(plant):
    sight = seen(plant.transcript)
    found = {place: {"facts": 0, "in sight": 0, "noted": 0, "by search": 0} for place in PLACES}
    for n, (place, fact) in FACTS.items():
        row = found[place]
        searched = fact in await plant.ask("search_history", query=f"What is the code of station{n:02d}?")
        noted = place == "note" and fact == await plant.ask("scratchpad_read", key=f"station{n}")
        row["facts"] += 1
        row["in sight"] += fact in sight
        row["noted"] += noted
        row["by search"] += searched
        assert searched or noted or fact in sight, (place, fact)
    print(f"{'':15}{'facts':>7}{'in sight':>10}{'noted':>7}{'by search':>11}")
    for place, row in found.items():
        print(f"{place:15}{row['facts']:>7}{row['in sight']:>10}{row['noted']:>7}{row['by search']:>11}")
    assert found["pinned result"]["in sight"] == found["pinned result"]["facts"]
    assert found["user text"]["in sight"] == found["user text"]["facts"]
    assert found["note"]["noted"] == found["note"]["facts"]
    assert found["plain result"]["in sight"] < found["plain result"]["facts"]


async def test_the_session_was_masked_and_summarised_on_the_way(plant):
    by = [entry.by for entry in plant.transcript.entries if isinstance(entry, Decision)]
    print(f"{by.count('mask')} times masked, {by.count('compact')} times summarised, {by.count('you')} pins")
    assert "mask" in by
    assert "compact" in by
