"""Line 1: what was measured before each request beside what the provider counted: under 10% apart after the first turn."""

import json
import random

import openai
import pytest
from wire.llama import llama_server

from harness_nb.agent import Agent
from harness_nb.context.account import Account, measured
from harness_nb.context.count import Counter, counter
from harness_nb.context.vocabulary import weighed
from harness_nb.context.window import Window
from harness_nb.messages import Transcript, Usage
from harness_nb.providers.chat import Chat
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.seams import Reply, Request, Run, layered
from harness_nb.tools import Toolbox, tool

DICE = random.Random()
KINDS = {
    "prose": lambda: (
        "The window is a resource, and every turn takes a part of it for good. " * DICE.randrange(5, 60)
    ),
    "code": lambda: (
        "def add(a: int, b: int) -> int:\n    return a + b  # the sum\n\n" * DICE.randrange(5, 60)
    ),
    "json": lambda: json.dumps(
        [{"id": DICE.randrange(10**6), "ok": True} for _ in range(DICE.randrange(9, 90))]
    ),
    "log": lambda: "\n".join(
        f"06:{n % 60:02}:11 GET /items/{DICE.randrange(9999)} 200 {n} ms"
        for n in range(DICE.randrange(9, 90))
    ),
    "chinese": lambda: "每一轮对话都会占用其中的一部分。我们需要知道各占多少。" * DICE.randrange(5, 40),
}


@tool(effects={"read"})
def look(kind: str) -> str:
    """Return a text of some kind."""
    return KINDS[kind]()


BOX = Toolbox([look])
INSTRUCTIONS = "You look at what you are told to look at, and you say in a few words what it was. " * 50


def elsewhere_counted(ratio, fixed):
    """A provider that counts with a vocabulary of its own, half ours and half by kinds of character, and adds words."""
    ours = counter("claude-sonnet-5-5")

    def count(asked: Request) -> int:
        said = asked.instructions + "".join(
            spec.description + json.dumps(spec.input_schema) for spec in asked.tools
        )
        for message in asked.messages:
            said += message.text + "".join(c.name + c.raw for c in message.calls)
            said += "".join(result.text for result in message.results)
        return fixed + round(ratio * (ours.text(said) + weighed(said)) / 2) + 5 * len(asked.messages)

    def turn(number):
        def play(asked: Request) -> Reply:
            wish = call("look", kind=list(KINDS)[number % len(KINDS)])
            return say(wish if number < 39 else "Done.", usage=Usage(count(asked), 20))

        return play

    return scripted(*(turn(number) for number in range(40)))


def shown(name, kept):
    errors = [turn.error for turn in kept.turns]
    later = [abs(error) for error in errors[1:]]
    print(
        f"{name}: first turn {errors[0]:+.1%}, then at most {max(later):.1%}, {sum(later) / len(later):.1%} on average"
    )
    return later


@pytest.mark.parametrize("ratio", [0.8, 1.0, 1.35])
@pytest.mark.parametrize("fixed", [0, 350])
@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "characters"])
async def test_a_provider_with_a_vocabulary_of_its_own(ratio, fixed, model):
    DICE.seed(7)
    count = Counter(()) if model == "characters" else counter(model)
    kept = Account(Window(10**6), count)
    agent = Agent(layered(elsewhere_counted(ratio, fixed), measured(kept)), BOX, INSTRUCTIONS)
    outcome = await agent.run("Look at everything.")
    assert outcome.reason == "done", outcome.detail
    later = shown(f"ratio {ratio}, {fixed} tokens added, counted by {count.name}", kept)
    assert max(later) < 0.10
    assert sum(later) / len(later) < 0.03


@pytest.mark.llama
@pytest.mark.slow
async def test_a_real_server_with_small_weights():
    DICE.seed(7)
    with llama_server() as server:
        client = openai.AsyncOpenAI(
            base_url=f"{server.url}/v1", api_key=server.key, default_headers={"connection": "close"}
        )
        model = Chat("smollm2", client=client, extra={"temperature": 0, "max_tokens": 4})
        kept, transcript = Account(Window(8_192), counter("smollm2")), Transcript()
        agent = Agent(layered(model, measured(kept)), instructions=INSTRUCTIONS[:1000])
        for kind in ["prose", "code", "json", "log", "prose"]:
            text = KINDS[kind]()[:1000]
            await agent.run(f"What is this?\n\n{text}", Run(transcript))
        assert not any(turn.usage.estimated for turn in kept.turns)
        later = shown("SmolLM2 behind llama.cpp", kept)
    assert max(later) < 0.10
