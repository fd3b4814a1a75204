"""Line 1, PEERS 2.8: what others do twice when a run is resumed is done once here, and the idempotency key reaches the tool."""

import asyncio
import shutil

import pairing
import pytest

from harness_nb import call, say, scripted, tool
from harness_nb.agent import Agent
from harness_nb.errors import RunStop
from harness_nb.events import ToolFinished, ToolStarted
from harness_nb.ops.journal import Journal, Origin
from harness_nb.ops.jsonl import JsonlStore
from harness_nb.ops.once import once
from harness_nb.ops.resume import left, settle, take_up
from harness_nb.safety.approvals import permitted, unchanged
from harness_nb.safety.permission import policy
from harness_nb.seams import Call, Run
from harness_nb.tools import Toolbox


class Shop:
    """A session on disk, and tools that note what they did and under which key."""

    def __init__(self, folder):
        self.folder, self.done, self.prepared, self.asked = folder, [], 0, []
        self.hold = set()

        @tool(effects={"network"})
        async def fetch(at: str, made: Call) -> str:
            """Fetch."""
            self.done.append((at, made.key))
            if at in self.hold:
                await asyncio.Event().wait()
            return f"fetched {at}"

        @tool(effects={"spend"})
        def pay(amount: int, made: Call) -> str:
            """Pay."""
            self.done.append((amount, made.key))
            return f"paid {amount}"

        self.tools = Toolbox([fetch, pay])

    def agent(self, *turns, person):
        def prepare(request, run):
            self.prepared += 1
            return request

        gates = once, permitted(policy("auto", ["ask pay"]), person), unchanged
        self.model = scripted(*turns)
        return Agent(self.model, self.tools, gates=gates, prepare=(prepare,))

    def opened(self, folder):
        return Journal(JsonlStore(self.folder / folder).open("main"))

    async def crashed_after(self, turn, event_type, number):
        """Run a turn, and keep what was on disk after the event; then let go of the run."""
        journal, seen, moment = self.opened("first"), [], asyncio.Event()
        journal.origin = Origin("go")

        def hear(event):
            journal(event)
            seen.extend([event] * isinstance(event, event_type))
            if len(seen) == number and not moment.is_set():
                shutil.copytree(self.folder / "first", self.folder / "crashed")
                moment.set()

        run = Run(journal.history.transcript(), hear)
        task = asyncio.create_task(self.agent(turn, "Done.", person=yes).run("go", run))
        await moment.wait()
        run.stop()
        await task
        journal.close()

    async def resumed(self, folder, *turns, person):
        """Take up in a new journal what is on disk; return the outcome."""
        self.done.clear()
        self.hold.clear()
        self.prepared = 0
        self.journal = self.opened(folder)
        transcript = self.journal.history.transcript()
        self.given = [made.id for made in settle(transcript, self.journal)]
        run = Run(transcript, self.journal)
        take_up(run, self.journal.history.runs[self.journal.history.head])
        outcome = await self.agent(*turns, person=person).run(None, run)
        self.journal.close()
        assert pairing.faults(outcome.transcript.live()) == []
        return outcome


async def yes(question, run):
    return question.allow()


async def wait(question, run):
    raise RunStop("suspended", "It waits for you.")


async def test_what_ran_before_a_pause_does_not_run_again(tmp_path):
    shop = Shop(tmp_path)
    journal = shop.opened("first")
    journal.origin = Origin("go")
    turn = say("First.", call("fetch", at="a"), call("pay", amount=3))
    run = Run(None, journal)
    assert (await shop.agent(turn, person=wait).run("go", run)).reason == "suspended"
    assert [what for what, _ in shop.done] == ["a"]
    assert shop.prepared == 1
    journal.close()
    outcome = await shop.resumed("first", "Done.", person=yes)
    assert (outcome.reason, outcome.text, outcome.turns) == ("done", "Done.", 2)
    assert [what for what, _ in shop.done] == [3]
    assert (shop.prepared, len(shop.model.requests)) == (1, 1)
    results = [result.text for result in shop.model.requests[0].messages[-1].results]
    assert results == ["fetched a", "paid 3"]


async def test_the_key_reaches_the_tool_and_is_the_same_after_a_crash(tmp_path):
    shop = Shop(tmp_path)
    await shop.crashed_after(say(call("pay", amount=3), call("pay", amount=3)), ToolStarted, 1)
    ((_, first),) = shop.done[:1]
    await shop.resumed("crashed", "Done.", person=yes)
    keys = [key for _, key in shop.done]
    assert keys[0] == first
    assert len(set(keys)) == 2
    assert all(len(key) == 32 for key in keys)


async def test_a_result_on_record_is_given_and_its_call_is_not_run_again(tmp_path):
    shop = Shop(tmp_path)
    await shop.crashed_after(say(call("pay", amount=3)), ToolFinished, 1)
    outcome = await shop.resumed("crashed", "Done.", person=yes)
    assert (shop.done, shop.given) == ([], ["call_1_1"])
    assert outcome.transcript.messages[2].results[0].text == "paid 3"


@pytest.mark.parametrize("person", [yes, wait])
async def test_a_run_that_died_in_the_middle_of_parallel_calls(tmp_path, person):
    shop = Shop(tmp_path)
    shop.hold = {"b"}
    turn = say(*(call("fetch", at=at) for at in "abc"), call("pay", amount=3))
    await shop.crashed_after(turn, ToolFinished, 2)
    journal = shop.opened("crashed")
    open_ = left(journal.history)
    groups = [[made.id for made in group] for group in (open_.finished, open_.uncertain, open_.waiting)]
    assert groups == [["call_1_1", "call_1_3"], ["call_1_2"], ["call_1_4"]]
    journal.close()
    outcome = await shop.resumed("crashed", "Done.", person=person)
    if person is wait:
        assert (outcome.reason, shop.done) == ("suspended", [])
        outcome = await shop.resumed("crashed", "Done.", person=yes)
    assert (outcome.reason, [what for what, _ in shop.done]) == ("done", ["b", 3])
    results = [result.text for result in shop.model.requests[0].messages[-1].results]
    assert results == ["fetched a", "fetched b", "fetched c", "paid 3"]


async def test_resumed_on_another_provider_with_the_same_call_ids_nothing_is_mixed_up(tmp_path):
    shop = Shop(tmp_path)
    await shop.crashed_after(say(call("pay", amount=3)), ToolFinished, 1)
    outcome = await shop.resumed("crashed", say(call("pay", amount=4)), "Done.", person=yes)
    assert [what for what, _ in shop.done] == [4]
    assert [[r.text for r in m.results] for m in outcome.transcript.live() if m.results] == [
        *(["paid 3"], ["paid 4"])
    ]
