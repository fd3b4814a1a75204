"""Each call at most once: its key, what becomes of one that a crash cut off, and how the run goes on from there."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pairing
import pytest
from memory import MemoryLog, snapshot

from harness_nb import call, say, scripted, tool
from harness_nb.agent import NEVER_RAN, Agent
from harness_nb.errors import RunStop
from harness_nb.events import ApprovalAsked, Charged, Notice, TextDelta
from harness_nb.messages import ToolCall, Transcript, Usage, assistant, user
from harness_nb.ops.history import Attempt, History
from harness_nb.ops.journal import Journal, Origin
from harness_nb.ops.once import doubt, key, once
from harness_nb.ops.resume import GO_ON, missing_tools, settle, take_up
from harness_nb.ops.store import open_store
from harness_nb.safety.approvals import permitted, unchanged
from harness_nb.safety.permission import policy
from harness_nb.safety.questions import nobody
from harness_nb.seams import Call, Run
from harness_nb.tools import Toolbox

MAY = "so it may have had its effect already"


def yes(question):
    return question.allow()


def no(question):
    return question.deny("not again")


class Desk:
    """An agent whose tool notes each effect, and a person; `crash` goes on from what an earlier process left."""

    def __init__(self, answer=yes, mode="auto", **declared):
        self.effects, self.keys, self.asked, self.events = [], [], [], []
        self.answer, self.mode = answer, mode

        @tool(**{"effects": {"write"}, **declared})
        def act(at: str, made: Call) -> str:
            """Act."""
            self.effects.append(at)
            self.keys.append(made.key)
            return f"done {at}"

        @tool(effects={"read"})
        def look(at: str) -> str:
            """Look."""
            return f"seen {at}"

        self.tools = [act, look]

    async def person(self, question, run):
        self.asked.append(question)
        return self.answer(question)

    def agent(self, *turns, accept=()):
        gates = once, permitted(policy(self.mode), self.person), unchanged
        self.model = scripted(*turns)
        return Agent(self.model, Toolbox(self.tools), gates=gates, accept=accept)

    async def begin(self, *turns):
        """Play a session to its end; return its log."""
        journal = Journal(MemoryLog())
        journal.origin = Origin("go")
        await self.agent(*turns).run("go", Run(None, journal))
        for seen in (self.effects, self.keys, self.asked, self.events):
            seen.clear()
        return journal.log

    async def crash(self, log, *turns, accept=()):
        """Take up the run that a log tells of, in a new process as it were."""
        self.journal = Journal(log)
        transcript = self.journal.history.transcript()
        settle(transcript, self.journal)

        def hear(event):
            self.events.append(event)
            self.journal(event)

        self.run = Run(transcript, hear)
        take_up(self.run, self.journal.history.runs[self.journal.history.head])
        outcome = await self.agent(*turns, accept=accept).run(None, self.run)
        assert pairing.faults(transcript.live()) == []
        assert snapshot(History(log.read())) == snapshot(self.journal.history)
        return outcome

    @property
    def told(self):
        """What the model was told of the last calls."""
        return [result.text for result in self.run.transcript.live()[-2].results]

    @property
    def notices(self):
        return [event.text for event in self.events if isinstance(event, Notice)]


ACT = say(call("act", at="a"))


# -- the key


def test_a_key_is_that_of_one_call_in_any_process():
    transcript = Transcript([user("go"), assistant(ToolCall("c1", "act"), ToolCall("c2", "act"))])
    again = Transcript(transcript.entries)
    first, second = transcript.dangling()
    assert key(first, transcript) == key(first, again) != key(second, transcript)
    assert key(first, transcript) != key(replace(first, name="look"), transcript)
    later = Transcript([user("go"), assistant(ToolCall("c1", "act"), ToolCall("c2", "act"))])
    assert key(first, transcript) != key(first, later)
    assert len(key(first, transcript)) == 32


def test_calls_that_no_message_holds_share_no_key():
    stray = ToolCall("c1", "act")
    assert key(stray, Transcript()) != key(stray, Transcript())


async def test_the_key_reaches_the_tool_and_the_same_call_made_later_has_another():
    desk = Desk()
    journal = Journal(MemoryLog())
    await desk.agent(ACT, ACT, "Done.").run("go", Run(None, journal))
    assert desk.effects == ["a", "a"]
    assert len(set(desk.keys)) == 2
    assert desk.keys == [r.data["key"] for r in journal.log.records if r.kind == "tool_started"]


@pytest.mark.parametrize(
    ("ago", "words"),
    [(0.2, "1 s"), (59, "59 s"), (61, "1 minute"), (7300, "2 hours"), (90000, "1 day"), (-50, "1 s")],
)
def test_a_doubt_says_since_when(ago, words):
    now = datetime.now(UTC)
    at = (now - timedelta(seconds=ago)).isoformat()
    assert doubt(Attempt("act", "{}", "", at), now) == f"It was begun {words} ago and cut off, {MAY}."


@pytest.mark.parametrize("at", ["", "yesterday", "2026-01-01T00:00:00"])
def test_a_doubt_without_a_time_is_a_sentence_too(at):
    assert doubt(Attempt("act", "{}", "", at)) == f"It was begun and cut off, {MAY}."


# -- a call that was cut off


@pytest.mark.parametrize("answer", [yes, no])
async def test_a_call_in_doubt_is_asked_about_whatever_the_mode(answer):
    desk = Desk(answer)
    log = await desk.begin(ACT, "Done.")
    before = log.until("tool_started").records[-1].data["key"]
    assert (await desk.crash(log.until("tool_started"), "Done.")).text == "Done."
    assert [question.verdict.why for question in desk.asked] == [
        question.call.doubt for question in desk.asked
    ]
    assert len(desk.asked) == 1
    if answer is yes:
        assert (desk.effects, desk.keys, desk.told) == (["a"], [before], ["done a"])
    else:
        assert desk.effects == []
        assert desk.told[0].startswith("`act` was not run again. It was begun 1 s ago and cut off")
        assert MAY in desk.told[0]
        assert "not again" in desk.told[0]


async def test_with_nobody_there_it_does_not_run_and_the_model_is_told_why():
    desk = Desk()
    log = await desk.begin(ACT, "Done.")
    desk.person = nobody
    await desk.crash(log.until("tool_started"), "Done.")
    assert desk.effects == []
    assert MAY in desk.told[0]


async def test_the_person_is_shown_the_arguments_that_it_was_begun_with():
    desk = Desk(lambda question: question.allow(edited={"at": "edited"}), mode="ask")
    log = await desk.begin(ACT, "Done.")
    desk.answer = yes
    await desk.crash(log.until("tool_started"), "Done.")
    assert desk.asked[0].call.arguments == {"at": "edited"}
    assert desk.effects == ["edited"]


@pytest.mark.parametrize("declared", [{"idempotent": True}, {"effects": {"read"}}])
async def test_what_does_no_harm_twice_runs_again_by_itself(declared):
    desk = Desk(**declared)
    log = await desk.begin(ACT, "Done.")
    await desk.crash(log.until("tool_started"), "Done.")
    assert (desk.effects, desk.asked, desk.told) == (["a"], [], ["done a"])
    assert desk.notices == ["`act` was cut off before. It runs again, which does no harm."]


async def test_what_does_no_harm_twice_and_is_refused_may_have_run_all_the_same():
    desk = Desk(yes, "ask", idempotent=True)
    log = await desk.begin(ACT, "Done.")
    desk.answer = no
    await desk.crash(log.until("tool_started"), "Done.")
    assert desk.effects == []
    assert MAY in desk.told[0]


def fails(made):
    raise OSError("no network")


async def slowly(made):
    return False


@pytest.mark.parametrize(
    ("verify", "ran", "asked", "told"),
    [
        (lambda made: True, 0, 0, "its own check finds that it had its effect"),
        (lambda made: False, 1, 0, "done a"),
        (slowly, 1, 0, "done a"),
        (lambda made: None, 1, 1, "done a"),
        (lambda made: "perhaps", 1, 1, "done a"),
        (fails, 1, 1, "done a"),
    ],
)
async def test_a_tools_own_check_decides_and_one_that_finds_nothing_leaves_it_to_a_person(
    verify, ran, asked, told
):
    desk = Desk(verify=verify)
    log = await desk.begin(ACT, "Done.")
    await desk.crash(log.until("tool_started"), "Done.")
    assert (len(desk.effects), len(desk.asked)) == (ran, asked)
    assert told in desk.told[0]


async def test_a_check_is_given_the_call_as_it_was_begun():
    seen = []
    desk = Desk(verify=lambda made: seen.append((dict(made.arguments), made.key)))
    log = (await desk.begin(ACT, "Done.")).until("tool_started")
    await desk.crash(log, "Done.")
    assert seen == [({"at": "a"}, desk.keys[0])]


async def test_a_call_that_had_not_begun_runs_and_a_finished_one_gives_its_result():
    desk = Desk()
    three = say(*(call("act", at=at) for at in "abc"))
    log = await desk.begin(three, "Done.")
    await desk.crash(log.until("tool_finished", 2), "Done.")
    assert (desk.effects, desk.asked) == (["c"], [])
    assert desk.told == ["done a", "done b", "done c"]


async def test_a_second_crash_leaves_the_same_doubt_and_key():
    desk = Desk(yes)
    log = (await desk.begin(ACT, "Done.")).until("tool_started")
    await desk.crash(log, "Done.")
    again = log.until("tool_started", 2)
    first = desk.keys[0]
    await desk.crash(again, "Done.")
    assert desk.keys == [first, first]
    assert len(desk.asked) == 2


# -- it is never told that what was begun did not run


async def stopped(desk, log):
    """Take it up, and stop it while the person is being asked."""
    desk.journal = Journal(log)
    transcript = desk.journal.history.transcript()
    settle(transcript, desk.journal)
    desk.run = Run(transcript, desk.journal)
    take_up(desk.run, desk.journal.history.runs[desk.journal.history.head])
    asked = asyncio.Event()

    async def wait(question, run):
        asked.set()
        await asyncio.Event().wait()

    desk.person = wait
    task = asyncio.create_task(desk.agent().run(None, desk.run))
    await asked.wait()
    desk.run.stop()
    return await task


async def test_a_stop_while_the_person_is_asked_does_not_say_that_it_never_ran():
    desk = Desk()
    log = (await desk.begin(say(call("act", at="a"), call("act", at="b")), "Done.")).until("tool_started")
    assert (await stopped(desk, log)).reason == "interrupted"
    first, second = (result.text for result in desk.run.transcript.messages[-1].results)
    assert MAY in first
    assert second == NEVER_RAN
    assert log.kinds[-1] == "run_ended"


async def test_a_call_that_waits_behind_one_that_is_stopped_keeps_its_doubt():
    desk = Desk(effects={"network"})
    log = (await desk.begin(say(call("act", at="a"), call("act", at="b")), "Done.")).until("tool_started", 2)
    desk.tools[0] = replace(desk.tools[0], spec=replace(desk.tools[0].spec, effects=frozenset({"write"})))
    await stopped(desk, log)
    assert [MAY in result.text for result in desk.run.transcript.messages[-1].results] == [True, True]


async def test_a_tool_that_is_gone_or_has_changed_leaves_the_doubt():
    for tools in ([], None):
        desk = Desk()
        log = (await desk.begin(ACT, "Done.")).until("tool_started")

        @tool(effects={"write"})
        def act(where: int) -> str:
            """Act."""
            raise AssertionError

        desk.tools = [act] if tools is None else tools
        await desk.crash(log, "Done.")
        assert desk.told[0].startswith(
            "It was begun 1 s ago and cut off, so it may have had its effect already."
        )


async def test_a_new_prompt_instead_leaves_the_doubt():
    desk = Desk()
    log = (await desk.begin(ACT, "Done.")).until("tool_started")
    journal = Journal(log)
    run = Run(journal.history.transcript(), journal)
    take_up(run, journal.history.runs[journal.history.head])
    await desk.agent("Fine.").run("something else", run)
    (result,) = run.transcript.messages[2].results
    assert MAY in result.text


async def test_a_suspended_doubt_stays_open_and_is_asked_again():
    desk = Desk()
    log = (await desk.begin(ACT, "Done.")).until("tool_started")

    def suspend(question):
        raise RunStop("suspended", "It waits for you.")

    desk.answer = suspend
    journal = Journal(log)
    run = Run(journal.history.transcript(), journal)
    take_up(run, journal.history.runs[journal.history.head])
    assert (await desk.agent().run(None, run)).reason == "suspended"
    assert [made.id for made in run.transcript.dangling()] == ["call_1_1"]
    desk.answer = yes
    assert (await desk.agent("Done.").run(None, run)).text == "Done."
    assert (len(desk.asked), desk.effects) == (2, ["a"])


async def test_arguments_whose_secret_was_taken_out_do_not_run_again():
    desk = Desk()
    log = (await desk.begin(ACT, "Done.")).until("tool_started")
    hidden = json.dumps({"at": "[key]"})
    log.records[-1] = replace(log.records[-1], data={**log.records[-1].data, "arguments": hidden})
    await desk.crash(log, "Done.")
    assert (desk.effects, desk.asked) == ([], [])
    assert "may have had its effect already. Its arguments held a secret" in desk.told[0]


# -- how the run goes on


async def test_a_prompt_that_had_not_joined_the_conversation_does():
    desk = Desk()
    log = (await desk.begin("Done.")).until("run_started")
    assert (await desk.crash(log, "Done.")).text == "Done."
    assert [message.text for message in desk.run.transcript.messages] == ["go", "Done."]
    assert [message.text for message in desk.model.requests[0].messages] == ["go"]


@pytest.mark.parametrize("last", ["message", "turn_ended"])
async def test_an_answer_that_was_on_record_is_the_answer(last):
    desk = Desk()
    log = await desk.begin("Done.")
    outcome = await desk.crash(log.until(last, 2 if last == "message" else 1))
    assert (outcome.reason, outcome.text, desk.model.requests) == ("done", "Done.", [])
    assert log.kinds.count("message") == 2


async def test_an_answer_that_was_on_record_is_checked_all_the_same():
    desk = Desk()
    log = await desk.begin("Done.")
    missing = iter(["the tests"])
    accept = (lambda reply, run: next(missing, None),)
    outcome = await desk.crash(log.until("turn_ended"), "Now it is.", accept=accept)
    assert (outcome.text, len(desk.model.requests)) == ("Now it is.", 1)


async def test_an_answer_that_the_limit_cut_is_gone_on_with():
    desk = Desk()
    log = await desk.begin(say("Half", stop="length"), " of it.")
    await desk.crash(log.until("turn_ended"), " of it.")
    assert desk.model.requests[0].messages[-1].role == "user"


async def test_calls_of_a_turn_that_the_limit_cut_do_not_run():
    desk = Desk()
    log = await desk.begin(say(call("act", at="a"), stop="length"), "Done.")
    await desk.crash(log.until("turn_ended"), "Done.")
    assert (desk.effects, desk.asked) == ([], [])
    assert "did not run" in desk.told[0]
    assert "Send it again" in desk.told[0]


async def test_counts_and_costs_go_on_from_where_they_were():
    desk = Desk()
    log = (await desk.begin(ACT, "Done.")).until("tool_finished")
    Journal(log).charge(Charged("m", Usage(1, 1), Decimal("0.25")))
    outcome = await desk.crash(log, "Done.")
    assert (outcome.turns, outcome.cost) == (2, Decimal("0.25"))
    assert desk.run.charged == 1
    assert outcome.usage.output > 2


async def test_a_cost_that_nobody_knows_stays_unknown():
    desk = Desk()
    log = (await desk.begin(ACT, "Done.")).until("tool_finished")
    Journal(log).charge(Charged("m", Usage(1, 1), None))
    await desk.crash(log, "Done.")
    desk.run.emit(Charged("m", Usage(1, 1), Decimal("0.25")))
    assert desk.run.cost is None


async def test_settling_twice_changes_nothing():
    desk = Desk()
    log = (await desk.begin(say(call("act", at="a"), call("act", at="b")), "Done.")).until("tool_finished")
    for given in (["call_1_1"], [], []):
        journal = Journal(log)
        transcript = journal.history.transcript()
        assert [made.id for made in settle(transcript, journal)] == given
        assert [made.id for made in transcript.dangling()] == ["call_1_2"]
        assert snapshot(History(log.read())) == snapshot(journal.history)
    assert log.kinds.count("message") == 3


async def test_tools_that_are_missing_are_named():
    desk = Desk()
    log = (
        await desk.begin(say(call("look", at="x"), call("act", at="a"), call("act", at="b")), "Done.")
    ).until("tool_started", 2)
    history = Journal(log).history
    assert missing_tools(history, ["look"]) == ["act"]
    assert missing_tools(history, ["look", "act"]) == []


async def test_a_question_that_was_open_is_put_again():
    desk = Desk(mode="ask")
    log = (await desk.begin(ACT, "Done.")).until("approval_asked")
    assert Journal(log).history.runs[log.records[-1].run].asked == {"call_1_1"}
    await desk.crash(log, "Done.")
    assert [question.call.doubt for question in desk.asked] == [""]
    assert desk.effects == ["a"]
    assert sum(isinstance(event, ApprovalAsked) for event in desk.events) == 1


async def test_a_run_that_was_stopped_in_its_answer_is_asked_to_go_on(tmp_path):
    log = open_store(tmp_path).open("main")
    journal = Journal(log)
    model = scripted("One, two, three, four, five.", "Six.", pace=0.05, piece=4)
    agent = Agent(model)

    def stops(event):
        journal(event)
        if isinstance(event, TextDelta) and "three" in run.partial:
            run.stop()

    run = Run(journal.history.transcript(), stops)
    assert (await agent.run("Count.", run)).reason == "interrupted"
    transcript = journal.history.transcript()
    settle(transcript, journal)
    again = Run(transcript, journal)
    take_up(again, journal.history.runs[journal.history.head])
    assert (await agent.run(None, again)).reason == "done"
    asked = model.requests[-1].messages
    assert [message.role for message in asked] == ["user", "assistant", "user"]
    assert asked[-1].text == GO_ON


async def test_a_call_that_a_stop_kept_from_being_begun_is_made_when_the_run_goes_on(tmp_path):
    journal = Journal(open_store(tmp_path).open("main"))
    sent = []

    @tool(effects={"mutate"})
    def send(to: str) -> str:
        """Send."""
        sent.append(to)
        return f"sent to {to}"

    async def stopping(call, run, proceed):
        if not stopped:
            stopped.append(run.stop())
            await asyncio.sleep(9)
        return await proceed(call)

    stopped = []
    agent = Agent(scripted(say(call("send", to="ada")), "Done."), Toolbox([send]), gates=(once, stopping))
    first = await agent.run("Tell her.", Run(journal.history.transcript(), journal))
    assert (first.reason, sent) == ("interrupted", [])
    kept = journal.history.runs[journal.history.head]
    journal.take_up(kept.id, "scripted", [open_.id for open_ in kept.unbegun])
    transcript = journal.history.transcript()
    again = Run(transcript, journal)
    take_up(again, kept)
    assert (await agent.run(None, again)).reason == "done"
    assert sent == ["ada"]
    results = [result.text for message in transcript.live() for result in message.results]
    assert results == ["sent to ada"]
    assert History(journal.log.read()).transcript().live() == transcript.live()
