"""Line 5: folding the record and counting what fills the window costs at turn 1,000 at most twice what it costs at turn 10."""

import gc
import time

import pytest

from harness_nb.context.account import Account, records_of
from harness_nb.context.count import counting
from harness_nb.context.vocabulary import OFFLINE
from harness_nb.context.window import Window
from harness_nb.messages import (
    Decision,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Transcript,
    Usage,
    assistant,
    user,
)
from harness_nb.seams import Request

TURNS, AROUND = 1_000, 10
WORDS = "Some words of a result, different each time, as a tool may return them. " * 14
"""About 200 tokens: a small result, so that what grows with the record would show."""


def grow(record, turn):
    record.append(assistant(ToolCall(f"c{turn}", "look", f'{{"n": {turn}}}')))
    record.append(Message("tool", (ToolResult(f"c{turn}", (Text(f"{turn} {WORDS}"),)),)))


async def spent(kept, record):
    """CPU seconds of a turn's accounting: fold, measure, anchor."""
    began = time.process_time()
    asked = Request("Be brief.", record.live())
    fill = await kept.measure(asked)
    kept.anchor(asked, Usage(fill.total + 3, 10))
    return time.process_time() - began


class Sitting:
    """A session that is measured turn by turn, from a turn on."""

    def __init__(self):
        self.kept = Account(Window(10**7), counting(OFFLINE))
        self.record = Transcript([user("Look at everything.")])
        self.turn = 0

    async def played(self, turns):
        """Play turns; return the CPU seconds of the last one's accounting."""
        for _ in range(turns):
            grow(self.record, self.turn)
            self.turn += 1
            last = await spent(self.kept, self.record)
        return last


@pytest.mark.usefixtures("alone")
async def test_a_turn_costs_what_is_new_however_long_the_session_is():
    long, early, late = Sitting(), [], []
    await long.played(TURNS - AROUND)
    for _ in range(2 * AROUND):  # by turns, so that what slows the machine slows both
        early.append(await Sitting().played(10))
        late.append(await long.played(1))
    print(
        f"a turn's accounting: {min(early) * 1e6:.0f} us of CPU at turn 10, {min(late) * 1e6:.0f} us at turn {TURNS:,}"
    )
    assert min(late) < 2 * min(early)


@pytest.mark.usefixtures("alone")
async def test_a_decision_about_old_messages_is_counted_by_what_it_changed():
    kept, record = Account(Window(10**7), counting(OFFLINE)), Transcript([user("Look at everything.")])
    for turn in range(TURNS):
        grow(record, turn)
    await spent(kept, record)
    before = kept.fill(Request("", record.live())).total
    masked = {
        m.id: (Message("tool", (ToolResult(m.results[0].call_id, (Text("[masked]"),)),)),)
        for m in record.messages[2:100:2]
    }
    record.append(Decision("mask", "Room.", masked))
    seconds = await spent(kept, record)
    after = kept.fill(Request("", record.live())).total
    print(
        f"after a decision about {len(masked)} of {len(record.messages):,} messages: {seconds * 1e3:.1f} ms of CPU"
    )
    assert before - after > 100 * len(masked)
    assert seconds < 0.1


@pytest.mark.usefixtures("alone")
def test_the_records_of_a_long_session_are_rebuilt_quickly():
    record = Transcript([user("Look at everything.")])
    for turn in range(TURNS):
        grow(record, turn)
    gc.collect()
    began = time.process_time()
    turns = records_of(record, Account(Window(10**6), counting(OFFLINE)))
    seconds = time.process_time() - began
    print(f"{len(turns):,} turns rebuilt from {len(record.messages):,} messages: {seconds:.2f} s of CPU")
    assert turns[-1].fill.total > 200 * (TURNS - 1)
    assert seconds < 1
