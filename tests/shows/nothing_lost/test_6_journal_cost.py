"""Line 6: keeping a record costs at most a twentieth of a tool turn, and 10,000 of them are read and folded in half a second of CPU."""

import asyncio
import statistics
import time
from itertools import pairwise

import pytest
from bench import cpu
from bench.canned import serving

from harness_nb.agent import Agent, Limits
from harness_nb.events import (
    Charged,
    MessageAdded,
    RunEnded,
    RunStarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from harness_nb.messages import Message, Text, ToolCall, ToolResult, Usage, assistant, user
from harness_nb.ops.history import History
from harness_nb.ops.journal import Journal
from harness_nb.ops.once import once
from harness_nb.ops.store import open_store
from harness_nb.seams import Run
from harness_nb.tools import Toolbox

TURNS, LAST = 60, 40
SHARE = 0.05
ROUNDS = 3
RECORDS, SECONDS = 10_000, 0.5


async def a_run(url, heard):
    """Play tool turns over a real connection; return the CPU seconds of one of them, without a journal."""
    model, client = cpu.model("anthropic", f"{url}/turn")
    ticks = []

    def listener(event):
        heard.append(event)
        if type(event) is TurnStarted:
            ticks.append(time.process_time())

    agent = Agent(model, Toolbox([cpu.add]), gates=(once,), limits=Limits(turns=TURNS))
    await agent.run("Add things.", Run(listener=listener))
    await client.close()
    return statistics.median(after - before for before, after in pairwise(ticks[-LAST:]))


def kept(events, folder, name):
    """Keep these events in a file; return the CPU seconds of a record, how many there are, and the file's bytes."""
    log = open_store(folder).open(name)
    journal = Journal(log)
    began = time.process_time()
    for event in events:
        journal(event)
    spent = time.process_time() - began
    count = len(log.read()) - 1
    log.close()
    return spent / count, count, (folder / f"{name}.jsonl").stat().st_size


def as_if_it_wrote(events):
    """The same events of a tool that may have an effect, so that each call waits for the disk."""
    return [ToolStarted(e.call, e.key) if type(e) is ToolStarted else e for e in events]


@pytest.mark.usefixtures("alone")
def test_a_record_costs_at_most_a_twentieth_of_a_tool_turn(tmp_path):
    turns, reads, writes = [], [], []
    with serving() as url:
        for number in range(ROUNDS):
            events = []
            turns.append(asyncio.run(a_run(url, events)))
            reads.append(kept(events, tmp_path, f"reads-{number}"))
            writes.append(kept(as_if_it_wrote(events), tmp_path, f"writes-{number}"))
            turn, read, write = min(turns), min(reads)[0], min(writes)[0]
            if number and max(read, write) <= 0.8 * SHARE * turn:
                break
    _, count, size = reads[0]
    print(
        f"a tool turn {turn * 1e6:.0f} microseconds of CPU; a record {read * 1e6:.0f} ({read / turn:.1%}), where calls wait "
        f"for the disk {write * 1e6:.0f} ({write / turn:.1%}); {count / TURNS:.1f} records and {size / TURNS:,.0f} bytes a turn"
    )
    assert read <= SHARE * turn
    assert write <= SHARE * turn


def turn_of(n):
    """The events of one turn, as long as they are in practice."""
    call = ToolCall(f"call_{n}", "read_file", f'{{"path": "notes/{n}.md", "lines": 40}}')
    result = ToolResult(call.id, (Text(f"Line {n} of a file that was read.\n" * 20),))
    yield TurnStarted(n)
    yield Charged("m", Usage(4_000 + n, 80, 3_900), None)
    yield MessageAdded(assistant("I look at the next one.", call))
    yield TurnEnded(n, Usage(4_000 + n, 80, 3_900), "calls")
    yield ToolStarted(call, f"{n:032x}", repeatable=True)
    yield ToolFinished(call, result, 0.01)
    yield MessageAdded(Message("tool", (result,)))


@pytest.mark.usefixtures("alone")
def test_a_long_session_is_read_and_folded_in_half_a_second_of_cpu(tmp_path):
    journal = Journal(open_store(tmp_path).open("long"))
    journal(RunStarted("r", "m", 50))
    journal(MessageAdded(user("Read everything.")))
    turns = (RECORDS - 4) // 6
    for n in range(turns):
        for event in turn_of(n):
            journal(event)
    journal(RunEnded("done", "", turns, Usage()))
    journal.close()
    spent = []
    for _ in range(5):
        began = time.process_time()
        records = open_store(tmp_path).open("long", write=False).read()
        history = History(records)
        transcript = history.transcript()
        spent.append(time.process_time() - began)
    size = (tmp_path / "long.jsonl").stat().st_size
    print(
        f"{len(records):,} records ({size / 1e6:.1f} MB) read and folded in {min(spent):.2f} s of CPU; {size / turns:,.0f} bytes a turn"
    )
    assert RECORDS - 10 <= len(records) <= RECORDS
    assert len(transcript.messages) == 1 + 2 * turns
    assert min(spent) < SECONDS
