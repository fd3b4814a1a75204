"""The journal: what is kept of a run, in which order, what is on disk when, and what becomes of what can't be kept."""

import asyncio
import threading
from decimal import Decimal

import pytest
from memory import MemoryLog, snapshot

from harness_nb import call, say, scripted, tool
from harness_nb.agent import Agent
from harness_nb.errors import RunStop
from harness_nb.events import Charged, LimitMet, MessageAdded, Notice, RunEnded, RunStarted, ToolStarted
from harness_nb.messages import Decision, Message, Text, ToolCall, ToolResult, Usage
from harness_nb.ops.history import History
from harness_nb.ops.journal import Journal, Origin
from harness_nb.ops.once import once
from harness_nb.ops.store import StoreError, open_store
from harness_nb.safety.approvals import permitted, unchanged
from harness_nb.safety.permission import policy
from harness_nb.seams import Run
from harness_nb.tools import Toolbox


@tool(effects={"read"})
def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


@tool(effects={"write"})
def write(at: str) -> str:
    """Write."""
    return f"written {at}"


BOTH = say("Both.", call("look", at="a"), call("write", at="b"))


async def yes(question, run):
    return question.allow()


async def later(question, run):
    raise RunStop("suspended", "It waits for you.")


def agent(*turns, ask=yes, mode="auto"):
    gates = once, permitted(policy(mode), ask), unchanged
    return Agent(scripted(*turns), Toolbox([look, write]), gates=gates)


async def kept(*turns, log=None, prompt="go", **how):
    """A log with the journal of one more run in it, and that journal."""
    journal = Journal(log if log is not None else MemoryLog())
    await agent(*turns, **how).run(prompt, Run(journal.history.transcript(), journal))
    return journal.log, journal


async def test_each_thing_is_kept_before_the_next_one_happens():
    log, _ = await kept(BOTH, "Done.", mode="ask")
    assert log.kinds == [
        *("run_started", "message", "message", "turn_ended"),
        *(
            "tool_started",
            "tool_finished",
            "approval_asked",
            "approval_decided",
            "tool_started",
            "tool_finished",
        ),
        *("message", "message", "turn_ended", "run_ended"),
    ]


async def test_a_body_begins_when_its_record_is_kept():
    log, seen = MemoryLog(), []

    @tool(effects={"write"})
    def write(at: str) -> str:
        """Write."""
        seen.append(log.kinds[-1])
        return "written"

    journal = Journal(log)
    await Agent(scripted(say(call("write", at="b")), "Done."), Toolbox([write])).run("go", Run(None, journal))
    assert seen == ["tool_started"]


async def test_only_what_must_outlast_a_power_cut_waits_for_the_disk():
    log, journal = await kept(BOTH, "Done.")
    assert log.synced == ["tool_started", "run_ended"]
    assert log.records[log.kinds.index("tool_started") + 2].data["name"] == "write"
    journal.go_to("")
    assert log.synced[-1] == "head"


async def test_another_process_reads_the_same_history():
    log, journal = await kept(BOTH, "Done.", mode="ask")
    await kept(BOTH, "Done.", log=log, prompt="again")
    await kept(say(call("nothing"), call("look")), log=log, prompt="and fail")
    again = Journal(log)
    again(Charged("m", Usage(1, 2), Decimal("0.25")))
    again(LimitMet("dollars", "run", Decimal(1), Decimal("0.9"), Decimal(1)))
    assert snapshot(History(log.read())) == snapshot(again.history)
    assert len(again.history.path()) == 3
    assert again.history.runs[again.history.head].reason == "error"
    assert snapshot(journal.history) == snapshot(History(log.until("run_ended").read()))


async def test_a_result_is_written_once():
    log, _ = await kept(BOTH, "Done.")
    (message,) = [r for r in log.records if r.kind == "message" and r.data["role"] == "tool"]
    assert [part["kind"] for part in message.data["parts"]] == ["recorded", "recorded"]
    assert [r.text for m in History(log.read()).transcript().messages for r in m.results] == [
        *("seen a", "written b")
    ]


async def test_a_result_that_no_record_holds_is_written_where_it_stands():
    log = MemoryLog()
    journal = Journal(log)
    journal(RunStarted("r", "m", 9))
    journal(MessageAdded(Message("tool", (ToolResult("c", (Text("late"),)),))))
    assert log.records[-1].data["parts"][0]["content"][0]["text"] == "late"


async def test_what_cannot_be_kept_ends_the_run_and_no_body_begins():
    log = MemoryLog()

    @tool(effects={"write"})
    def write(at: str) -> str:
        """Write."""
        raise AssertionError("it must not run")

    async def full(called, run, proceed):
        log.full = True
        return await proceed(called)

    journal = Journal(log)
    made = Agent(scripted(say(call("write", at="b")), "Done."), Toolbox([write]), gates=(full,))
    outcome = await made.run("go", Run(None, journal))
    assert (outcome.reason, outcome.detail) == ("error", "The disk is full.")
    assert log.kinds[-1] == "turn_ended"
    assert "did not run" in outcome.transcript.messages[-1].results[0].text


async def test_what_could_not_be_kept_is_kept_first_when_there_is_room_again():
    log, journal = await kept("Hello.")
    log.full = True
    outcome = await agent("Not kept.").run("again", Run(journal.history.transcript(), journal))
    assert outcome.reason == "error"
    log.full = False
    await agent("Kept.").run("more", Run(journal.history.transcript(), journal))
    assert snapshot(History(log.read())) == snapshot(journal.history)
    assert [run.reason for run in journal.history.path()] == ["done", "error", "done"]


def test_threads_that_tell_at_once_lose_nothing_and_repeat_nothing():
    log = MemoryLog()
    journal = Journal(log)
    journal(RunStarted("r", "m", 9))
    threads = [
        threading.Thread(target=lambda n=n: [journal(Notice(f"{n} {i}")) for i in range(200)])
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [record.data["text"] for record in log.records[1:]]
    assert len(told) == len(set(told)) == 600


async def test_an_origin_is_that_of_one_run():
    log = MemoryLog()
    journal = Journal(log)
    for cell, execution in (("c1", "e1"), ("c2", "e2")):
        journal.origin = Origin("go", cell, execution)
        await agent("Done.").run("go", Run(journal.history.transcript(), journal))
    await agent("Done.").run("go", Run(journal.history.transcript(), journal))
    first, second, third = journal.history.runs.values()
    assert [(run.cell, run.execution, run.prompt) for run in (first, second, third)] == [
        *(("c1", "e1", "go"), ("c2", "e2", "go"), ("", "", ""))
    ]
    assert [run.parent for run in (first, second, third)] == ["", first.id, second.id]


async def test_a_run_that_waited_goes_on_as_the_same_run():
    log = MemoryLog()
    journal = Journal(log)
    run = Run(None, journal)
    assert (await agent(BOTH, ask=later, mode="ask").run("go", run)).reason == "suspended"
    assert journal.history.runs[run.id].asked == {"call_1_3"}
    assert (await agent("Done.", mode="ask").run(None, run)).reason == "done"
    assert [(kept.id, kept.reason) for kept in journal.history.runs.values()] == [(run.id, "done")]
    assert log.kinds.count("resumed") == log.kinds.count("run_started") == 1


async def test_it_does_not_say_twice_that_a_run_goes_on():
    log, _ = await kept(BOTH, "Done.")
    log = log.until("tool_finished")
    journal = Journal(log)
    run = Run(journal.history.transcript(), journal)
    run.id = journal.history.head
    journal.take_up(run.id, "m")
    await agent("Done.").run(None, run)
    assert log.kinds.count("resumed") == 1


async def test_a_decision_between_runs_belongs_to_the_run_before():
    _, journal = await kept("Done.")
    decision = Decision("you", "It is pinned.", pins=("x",))
    journal.decide(decision)
    assert journal.history.runs[journal.history.head].entries[-1] == decision
    assert len(journal.history.runs) == 1


@pytest.mark.parametrize("before", [0, 1])
async def test_a_decision_where_others_follow_or_nothing_was_is_a_step_of_its_own(before):
    log, journal = await kept("Done.")
    first = journal.history.head
    await kept("Done.", log=log)
    journal = Journal(log)
    journal.go_to(first if before else "")
    journal.decide(Decision("you", "It is pinned.", pins=("x",)))
    head = journal.history.runs[journal.history.head]
    assert (head.parent, head.reason, len(head.entries)) == (first if before else "", "done", 1)
    assert snapshot(History(log.read())) == snapshot(journal.history)


async def test_without_a_log_the_history_is_there_all_the_same():
    journal = Journal()
    await agent(BOTH, "Done.").run("go", Run(None, journal))
    assert journal.history.runs[journal.history.head].text == "Done."
    journal.close()


async def test_a_run_that_is_cancelled_is_closed():
    log = MemoryLog()
    journal = Journal(log)
    made = Agent(scripted("Hello, and more", pace=5), Toolbox([]))
    task = asyncio.create_task(made.run("go", Run(None, journal)))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log.kinds[-1] == "run_ended"
    assert log.records[-1].data["reason"] == "interrupted"


@pytest.fixture
def shared(tmp_path):
    """A database in which many may write one session; called, it is opened as by another process."""
    return lambda: open_store(f"sqlite:///{tmp_path / 'kept.db'}").open("main")


def begun(log):
    """Begin a run that is then cut off."""
    journal = Journal(log)
    journal(RunStarted("r", "m", 9))
    journal(MessageAdded(Message("user", (Text("Go"),))))


def test_a_run_that_another_process_went_on_with_since_is_left_to_it(shared):
    begun(shared())
    one, other = Journal(shared()), Journal(shared())
    one.take_up("r", "m")
    one(RunEnded("done", "", 1, Usage()))
    before = shared().read()
    assert other.outdated
    with pytest.raises(StoreError, match="Another process has gone on with this run"):
        other(RunStarted("r", "m", 9))
    other(RunEnded("error", "", 0, Usage()))
    assert shared().read() == before, "nothing of it is written, not even that it ended here"
    other(RunStarted("new", "m", 9))
    assert shared().read()[-1].run == "new"
    assert not Journal(shared()).outdated


def test_a_run_that_another_process_takes_up_stops_here_before_its_next_tool(shared):
    begun(shared())
    one = Journal(shared())
    one.take_up("r", "m")
    other = Journal(shared())
    other.take_up("r", "m")
    with pytest.raises(StoreError, match="Another process has gone on with this run"):
        one(ToolStarted(ToolCall("c", "pay", "{}"), "key"))
    other(ToolStarted(ToolCall("c", "pay", "{}"), "key"))
    one(Notice("of this run no more is kept"))
    assert [record.kind for record in shared().read()[-2:]] == ["tool_started", "tool_started"]


def test_of_two_processes_that_take_a_run_up_in_the_same_instant_one_goes_on(shared):
    begun(shared())
    one, log = Journal(shared()), shared()
    append = log.append

    def a_moment_later(record, **how):
        if record.kind == "resumed":
            one.take_up("r", "m")
        return append(record, **how)

    log.append = a_moment_later
    other = Journal(log)
    with pytest.raises(StoreError, match="Another process has gone on with this run"):
        other.take_up("r", "m")
    one(ToolStarted(ToolCall("c", "pay", "{}"), "key"))
    one(RunEnded("done", "", 1, Usage()))
    assert [record.kind for record in shared().read()[-2:]] == ["tool_started", "run_ended"]
    assert History(shared().read()).runs["r"].reason == "done"


def test_runs_of_two_processes_in_one_session_do_not_hinder_each_other(shared):
    one, other = Journal(shared()), Journal(shared())
    for journal, run in ((one, "a"), (other, "b")):
        journal(RunStarted(run, "m", 9))
    for journal in (one, other, one):
        journal(Notice("So."))
    one(RunEnded("interrupted", "", 1, Usage()))
    one.take_up("a", "m")
    assert [record.run for record in shared().read()[1:]] == ["a", "b", "a", "b", "a", "a", "a"]


def test_closing_lets_others_write():
    log = MemoryLog()
    Journal(log).close()
    assert log.closed


def test_how_long_a_run_took_and_waited_is_kept():
    journal = Journal(MemoryLog())
    journal(RunStarted("r", "m", 9))
    journal(RunEnded("done", "", 1, Usage(), 0.25))
    run = journal.history.runs["r"]
    assert run.waited == 0.25
    assert 0 <= run.seconds < 5
