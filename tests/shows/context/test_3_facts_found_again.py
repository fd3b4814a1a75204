"""Line 3, the search half: facts of a long session whose messages are all hidden are found by search, and notes are always there."""

import json
import random

import pytest

from harness_nb.context.scratchpad import Scratchpad
from harness_nb.context.search import searching_history
from harness_nb.messages import Decision, Message, Text, ToolCall, ToolResult, Transcript, assistant, user
from harness_nb.seams import Run
from harness_nb.tools import Toolbox

SUBJECTS = (
    *(
        "valve",
        "turbine",
        "ledger",
        "antenna",
        "greenhouse",
        "archive",
        "ferry",
        "orchard",
        "kiln",
        "harbour",
    ),
    *("maxRetryCount", "http_timeout_ms", "BatchSizeLimit", "cacheTTL", "shard_count_v2", "LogLevelName"),
    *("東京支店", "大阪工場", "склад", "аэропорт", "ประเทศไทย", "학교", "مخزن", "σταθμός", "हिन्दी", "café"),
    *("beacon", "furnace", "compass", "lantern", "pulley", "quarry", "reactor", "sluice", "trellis", "winch"),
    *("anvil", "bellows", "chisel", "dynamo"),
)
ASKED = {
    "maxRetryCount": "max retry count",
    "http_timeout_ms": "HTTP timeout",
    "BatchSizeLimit": "batch_size",
}
"""How a question spells what the fact spells otherwise."""
FILLER = [
    "the",
    "job",
    "read",
    "rows",
    "wrote",
    "logs",
    "and",
    "then",
    "ran",
    "check",
    "step",
    "value",
    "of",
    "setting",
    "is",
    "code",
    "for",
    "next",
]
PLACES = ("tool result", "user", "assistant", "note")


def facts():
    values = random.Random(4)
    return [
        (subject, f"{values.randrange(10**5, 10**6)}", PLACES[n % 4]) for n, subject in enumerate(SUBJECTS)
    ]


MAKE = random.Random(5)


def filler(words):
    return " ".join(MAKE.choices([*FILLER, *(f"row{MAKE.randrange(10**6)}" for _ in range(40))], k=words))


def session(notes):
    """Build 240 messages with a fact in every sixth, then hide all of them behind one summary."""
    run = Run(Transcript())
    for n, (subject, value, place) in enumerate(facts()):
        fact = f"The setting of {subject} is {value}."
        said = {where: f" {fact} " if place == where else " " for where in PLACES}
        if place == "note":
            notes.write(f"fact-{n}", fact)
        run.append(user(filler(30) + said["user"] + filler(30)))
        run.append(assistant(filler(40) + said["assistant"], ToolCall(f"c{n}", "probe", "{}")))
        text = filler(1_000) + said["tool result"] + filler(1_000)
        run.append(Message("tool", (ToolResult(f"c{n}", (Text(text),)),)))
    first, *others = run.transcript.messages
    run.append(Decision("compact", "full", {first.id: (user("Earlier work."),)} | {m.id: () for m in others}))
    return run


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    notes = Scratchpad(tmp_path_factory.mktemp("session") / "notes")
    return session(notes), notes.folder


async def ask(item, run, **arguments):
    said = await Toolbox([item]).dispatch()(ToolCall("now", item.name, json.dumps(arguments)), run)
    assert not said.is_error, said.text
    return said.text


async def test_facts_of_hidden_messages_are_found_by_search_over_the_record(long):
    run, _ = long
    assert sum(len(m.text) for m in run.transcript.live()) < 100
    item, ranks = searching_history(), {place: [] for place in PLACES[:3]}
    for subject, value, place in facts():
        if place == "note":
            continue
        question = f"What is the setting of {ASKED.get(subject, subject)}?"
        blocks = (await ask(item, run, query=question)).split("\n\n")
        ranks[place].append(next((rank for rank, block in enumerate(blocks, 1) if value in block), 0))
    for place, found in ranks.items():
        print(
            f"facts in {place} text: {len(found)}, first hit {found.count(1)}, in the first 5 {sum(map(bool, found))}"
        )
    assert all(all(found) for found in ranks.values())


async def test_facts_in_notes_are_always_there_and_for_a_fresh_session_too(long):
    run, folder = long
    _, read, listed = Scratchpad(folder).tools
    found = [line.partition(":")[0] for line in (await ask(listed, Run())).splitlines()]
    texts = [await ask(read, run, key=key) for key in found]
    noted = [(subject, value) for subject, value, place in facts() if place == "note"]
    for subject, value in noted:
        assert f"The setting of {subject} is {value}." in texts
    print(f"facts in notes: {len(noted)}, read back {len(texts)}")
