"""The tree of a session's runs, folded from its records: of all of them, of some, and of what nobody should have written."""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import memory
import pairing
import pytest
from hypothesis import Phase, given, settings, strategies as st
from memory import MemoryLog, as_plain, snapshot

from harness_nb import call, say, scripted, tool
from harness_nb.agent import Agent
from harness_nb.encoding import encode
from harness_nb.errors import RunStop
from harness_nb.events import MessageAdded, RunEnded, RunStarted, ToolFinished, ToolStarted, TurnEnded
from harness_nb.messages import (
    INTERRUPTED,
    Decision,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    user,
)
from harness_nb.ops.history import LOST, History
from harness_nb.ops.journal import Journal, Origin
from harness_nb.ops.once import once
from harness_nb.ops.records import Record
from harness_nb.ops.resume import left, settle
from harness_nb.safety.approvals import permitted, unchanged
from harness_nb.safety.permission import policy
from harness_nb.seams import Run
from harness_nb.tools import Toolbox

# -- journals


@tool(effects={"read"})
def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


@tool(effects={"write"})
def write(at: str) -> str:
    """Write."""
    return f"written {at}"


async def later(question, run):
    raise RunStop("suspended", "It waits for you.")


async def no(question, run):
    return question.deny("no")


BOTH = say("Both.", call("look", at="a"), call("write", at="b"), call("nothing"))


@cache
def journal_of_all():
    """The records of a session with all that there is: calls of every fate, decisions, branches, a run that waits."""

    async def story():
        log = MemoryLog([Record("session", {"name": "main", "schema": 1, "id": "x"})])
        journal = Journal(log)

        async def told(prompt, *turns, ask=no):
            journal.origin = Origin(prompt, prompt, "1")
            gates = once, permitted(policy("ask"), ask), unchanged
            run = Run(journal.history.transcript(), journal)
            await Agent(scripted(*turns), Toolbox([look, write]), gates=gates).run(prompt, run)
            return run

        first = await told("one", BOTH, BOTH, "Done.")
        pinned = Decision(
            "you", "Hidden.", {run.id: () for run in journal.history.runs[first.id].messages[2:3]}
        )
        journal.decide(pinned)
        await told("two", say(call("look", at="c")), RunStop("budget", "Spent."))
        journal.go_to(first.id)
        journal.decide(Decision("you", "Shown.", undoes=pinned.id))
        await told("three", say(call("look", at="d"), call("look", at="e")), "Done.")
        await told("four", BOTH, ask=later)
        return log.records

    return asyncio.run(story())


def folds(records):
    """Fold records and hold the conversation on the way to each run to what providers demand; return the history."""
    history = History(records)
    for run in [*history.runs, None]:
        assert pairing.faults(history.transcript(run).live()) == []
    left(history)
    history.branches()
    return history


UNKNOWN = Record("from_a_later_version", {"x": [1, {"y": None}]}, "run-of-later")


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_the_fold_of_any_prefix_with_any_records_missing_or_unknown_is_a_conversation_that_can_be_sent(data):
    records = journal_of_all()
    records = records[: data.draw(st.integers(0, len(records)), "prefix")]
    gone = data.draw(st.sets(st.integers(0, max(0, len(records) - 1)), max_size=12), "gone")
    records = [record for place, record in enumerate(records) if place not in gone]
    for place in data.draw(st.lists(st.integers(0, len(records)), max_size=3), "unknown"):
        mine = data.draw(st.booleans(), "of a run that is known")
        run = records[place - 1].run if mine and place else UNKNOWN.run
        records.insert(place, replace(UNKNOWN, run=run))
    assert snapshot(folds(records)) == snapshot(folds(records))


def test_every_prefix_and_every_single_loss_is_a_conversation_that_can_be_sent():
    records = journal_of_all()
    for place in range(len(records)):
        folds(records[:place])
        folds(records[:place] + records[place + 1 :])


PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
"""To find the smallest such record would take minutes."""


def nested(inner):
    """Lists and objects of such values."""
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    nested,
    max_leaves=5,
)


def places(data, path=()):
    """Every place in JSON data."""
    yield path
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield from places(value, (*path, key))


def put(data, path, value):
    if not path:
        return value
    if isinstance(data, dict):
        return {**data, path[0]: put(data[path[0]], path[1:], value)}
    return [put(v, path[1:], value) if n == path[0] else v for n, v in enumerate(data)]


@given(st.data())
@settings(max_examples=80, deadline=None, phases=PHASES)
def test_a_record_that_somebody_changed_breaks_nothing(data):
    records = list(journal_of_all())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(1, len(records) - 1), "record")
        plain = json.loads(json.dumps(records[place].data))
        where = data.draw(st.sampled_from(list(places(plain))), "where")
        changed = put(plain, where, data.draw(junk, "junk"))
        records[place] = replace(records[place], data=changed)
    history = History(records)
    for run in [*history.runs, None]:
        history.transcript(run).live()
    left(history)
    history.branches()
    for kept in history.runs.values():
        assert (kept.cost, kept.unsaid, kept.reply, history.versions(kept)) is not None


def test_another_process_folds_the_same_records_into_an_equal_history(tmp_path):
    records = journal_of_all()
    cuts = [records, records[:7], records[: len(records) // 2], records[1::2], records[::3]]
    for number, cut in enumerate(cuts):
        (tmp_path / f"{number}.json").write_text(json.dumps([as_plain(record) for record in cut]))
    program = (
        "import sys, json, pathlib; sys.path.insert(0, sys.argv[1])\n"
        "from memory import records_of, snapshot\n"
        "from harness_nb.ops.history import History\n"
        "print(json.dumps([snapshot(History(records_of(pathlib.Path(p).read_text()))) for p in sys.argv[2:]]))"
    )
    paths = [str(tmp_path / f"{number}.json") for number in range(len(cuts))]
    command = [sys.executable, "-c", program, str(Path(memory.__file__).parent), *paths]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(told) == [snapshot(History(cut)) for cut in cuts]


# -- the tree


def tree(*runs):
    """A history of runs, each `name`, its parent, and what else its record says; `<name` goes back to one."""
    history = History()
    for name, parent, *more in runs:
        data = {"parent": parent, "prompt": name, **(more[0] if more else {})}
        history.add(Record("run_started", data, name))
        history.add(Record("message", encode(user(name)), name))
    return history


def texts(history, to=None):
    return [message.text for message in history.transcript(to).messages]


def test_the_conversation_is_what_stands_on_the_way_to_the_head():
    history = tree(("a", ""), ("b", "a"), ("c", "b"))
    assert texts(history) == ["a", "b", "c"]
    assert texts(history, "b") == ["a", "b"]
    assert texts(history, "") == texts(history, "nobody") == []


def test_going_back_sets_aside_and_takes_nothing_out():
    history = tree(("a", ""), ("b", "a"))
    history.add(Record("head", {"to": "a"}))
    assert texts(history) == ["a"]
    history.add(Record("run_started", {"parent": "a", "prompt": "c"}, "c"))
    assert [run.id for run in history.path()] == ["a", "c"]
    assert [run.id for run in history.branches()] == ["b", "c"]
    history.add(Record("head", {"to": "b"}))
    assert texts(history) == ["a", "b"]
    history.add(Record("head", {"to": ""}))
    assert texts(history) == []


def test_what_a_fork_left_stays_a_branch_and_what_went_on_does_not():
    history = tree(("a", ""), ("b", "a", {"fork": True}), ("c", "b"))
    assert [run.id for run in history.branches()] == ["a", "c"]
    history.add(Record("run_started", {"parent": "a"}, "d"))
    assert [run.id for run in history.branches()] == ["c", "d"]


def test_a_cell_that_is_run_again_takes_the_place_of_its_run():
    history = tree(("a", "", {"cell": "1", "execution": "x"}), ("b", "a", {"cell": "2", "execution": "y"}))
    assert history.run_of_cell("1", "z").id == "a"
    assert (
        history.run_of_cell("1", "x") is history.run_of_cell("3", "z") is history.run_of_cell("", "z") is None
    )
    history.add(Record("run_started", {"parent": "", "cell": "1", "execution": "z", "prompt": "again"}, "c"))
    assert history.run_of_cell("2", "z") is None
    assert [run.id for run in history.versions(history.runs["c"])] == ["a", "c"]
    assert [run.id for run in history.versions(history.runs["b"])] == ["b"]


def test_a_run_whose_parent_is_lost_follows_what_was_there():
    history = tree(("a", ""), ("c", "b"), ("d", "c"))
    assert texts(history) == ["a", "c", "d"]


def test_a_run_whose_beginning_is_lost_follows_what_was_there():
    history = tree(("a", ""))
    history.add(Record("message", encode(user("b")), "b"))
    assert texts(history) == ["a", "b"]


def test_a_thousand_runs_are_a_matter_of_milliseconds():
    history = tree(*((str(n), str(n - 1) if n else "") for n in range(1_000)))
    assert len(history.path()) == 1_000


# -- what a run that was cut off left

ASKED = assistant(*(ToolCall(name, "write", f'{{"at": "{name}"}}') for name in ("c1", "c2", "c3")))


def result(name):
    return ToolResult(name, (Text(f"written {name}"),))


def cut_off(*events, stop="calls", asked=ASKED):
    """The history of a run that was cut off after these events of its second turn."""
    journal = Journal(MemoryLog())
    journal.origin = Origin("go")
    journal(RunStarted("r", "m", 9))
    journal(MessageAdded(user("go")))
    journal(MessageAdded(asked))
    if stop:
        journal(TurnEnded(1, Usage(3, 4), stop))
    for event in events:
        journal(event)
    return journal


def begun(name):
    return ToolStarted(ToolCall(name, "write", f'{{"at": "{name}"}}'), f"key of {name}")


def ended(name):
    return ToolFinished(ToolCall(name, "write"), result(name), 0.1)


def names(calls):
    return [made.id for made in calls]


def test_a_call_has_its_result_or_is_in_doubt_or_had_not_begun():
    journal = cut_off(begun("c1"), begun("c3"), ended("c3"))
    open_ = left(journal.history)
    assert (names(open_.finished), names(open_.uncertain), names(open_.waiting)) == (["c3"], ["c1"], ["c2"])
    assert (open_.unfit, open_.passed) == ((), ())


def test_a_second_attempt_at_a_call_is_the_one_that_counts():
    journal = cut_off(begun("c1"), ToolStarted(ToolCall("c1", "write", '{"at": "edited"}'), "key of c1"))
    attempt = journal.history.runs["r"].started["c1"]
    assert (attempt.arguments, attempt.key) == ('{"at": "edited"}', "key of c1")


@pytest.mark.parametrize(
    ("stop", "raw", "group"),
    [
        ("length", '{"at": "x"}', "unfit"),
        (None, "{}", "unfit"),
        (None, " ", "unfit"),
        (None, '{"at": "x"}', "waiting"),
        ("calls", "{}", "waiting"),
        ("calls", '{"at": "[key]"}', "unfit"),
    ],
)
def test_a_call_that_may_not_be_whole_is_not_one_that_waits(stop, raw, group):
    open_ = left(cut_off(stop=stop, asked=assistant(ToolCall("c1", "write", raw))).history)
    assert names(getattr(open_, group)) == ["c1"]


def test_what_the_conversation_has_gone_past_does_not_wait_any_more():
    assert names(left(cut_off(MessageAdded(user("more"))).history).passed) == ["c1", "c2", "c3"]


def test_calls_that_an_earlier_run_left_are_not_taken_for_new():
    journal = cut_off(begun("c1"), begun("c2"), ended("c2"))
    journal(RunStarted("s", "m", 9))
    open_ = left(journal.history)
    assert (names(open_.finished), names(open_.passed), open_.waiting) == (["c2"], ["c1", "c3"], ())
    settle(journal.history.transcript(), journal)
    assert [each.text for each in journal.history.transcript().messages[-1].results] == [
        *(INTERRUPTED, "written c2", INTERRUPTED)
    ]


def test_an_id_that_is_used_again_is_another_call():
    journal = cut_off(begun("c1"), ended("c1"), MessageAdded(Message("tool", (result("c1"),))))
    journal(MessageAdded(assistant(ToolCall("c1", "write", '{"at": "again"}'))))
    journal(TurnEnded(2, Usage(), "calls"))
    assert names(left(journal.history).waiting) == ["c1"]


def test_a_result_whose_record_is_lost_is_told_as_lost_and_its_call_is_not_open():
    done = [event for name in ("c1", "c2", "c3") for event in (begun(name), ended(name))]
    journal = cut_off(*done, MessageAdded(Message("tool", tuple(map(result, ("c1", "c2", "c3"))))))
    records = [r for r in journal.log.records if (r.kind, r.data.get("call")) != ("tool_finished", "c2")]
    history = History(records)
    assert [each.text for each in history.transcript().messages[-1].results] == [
        "written c1",
        LOST,
        "written c3",
    ]
    assert history.transcript().dangling() == []


def test_nothing_is_left_of_a_session_without_runs():
    assert left(History()).waiting == ()


def test_a_prompt_is_unsaid_until_the_conversation_has_it():
    journal = Journal(MemoryLog())
    journal.origin = Origin("go")
    journal(RunStarted("r", "m", 9))
    assert journal.history.runs["r"].unsaid == "go"
    journal(MessageAdded(Message("tool", (result("c1"),))))  # what the run before had left open
    assert journal.history.runs["r"].unsaid == "go"
    journal(MessageAdded(user("go")))
    assert journal.history.runs["r"].unsaid == ""


@pytest.mark.parametrize(
    ("events", "reply"),
    [
        ([], "Done."),
        ([TurnEnded(1, Usage(), "length")], "Done."),
        ([TurnEnded(1, Usage(), "end"), MessageAdded(user("Go on."))], None),
        ([TurnEnded(1, Usage(), "end"), RunEnded("done", "", 1, Usage())], None),
    ],
)
def test_an_answer_is_pending_until_something_follows_from_it(events, reply):
    run = cut_off(*events, stop=None, asked=assistant("Done.")).history.runs["r"]
    assert (run.reply.message.text if run.reply else None) == reply
    if run.reply:
        assert run.reply.stop == ("length" if events else "end")


def test_words_that_were_cut_by_a_stop_are_no_answer():
    said = assistant("Half\n\n[interrupted here by the user]")
    assert cut_off(stop=None, asked=said).history.runs["r"].reply is None


def test_usage_of_a_later_version_is_read_as_far_as_it_is_known():
    usage = {"input": 3, "output": 4, "thoughts": 5}
    history = cut_off(stop=None).history
    history.add(Record("turn_ended", {"turn": 1, "usage": usage, "stop": "mood"}, "r"))
    run = history.runs["r"]
    assert (run.usage, run.turns, run.stop) == (Usage(3, 4), 1, "other")


@pytest.mark.parametrize(("costs", "sum_"), [([], None), (["0.1", "0.2"], "0.3"), (["0.1", None], None)])
def test_what_a_run_cost_is_known_if_all_of_it_is(costs, sum_):
    history = cut_off().history
    for cost in costs:
        history.add(Record("charge", {"cost": cost}, "r"))
    assert history.runs["r"].cost is None if sum_ is None else str(history.runs["r"].cost) == sum_
