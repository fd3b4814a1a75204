"""A run that waits for a person's decision: what is kept, what runs when it goes on, and what becomes of it otherwise."""

import asyncio
import json

import pairing
import pytest
from hypothesis import given, settings, strategies as st

from harness_nb import call, say, scripted, tool
from harness_nb.agent import SUPERSEDED, Agent
from harness_nb.errors import RunStop
from harness_nb.events import ApprovalAsked, ApprovalDecided, Preview, RunEnded, RunStarted, TurnStarted
from harness_nb.jupyter.asking import Asking, ticket
from harness_nb.jupyter.record import as_html, as_markdown, as_text, bundle
from harness_nb.jupyter.view import RunView
from harness_nb.messages import INTERRUPTED, ToolCall, Transcript, Usage
from harness_nb.safety.approvals import Approvals, OpenQuestions, permitted, unchanged
from harness_nb.safety.permission import policy
from harness_nb.seams import Run
from harness_nb.tools import Toolbox


class Desk:
    """An approver whose person answers only when the run is over."""

    def __init__(self):
        self.ahead, self.waiting = OpenQuestions(), []

    async def __call__(self, question, run):
        if answer := self.ahead.early(question):
            return answer
        self.waiting.append(question)
        raise RunStop("suspended", f"`{question.call.spec.name}` waits for you.")


class Office:
    """An agent behind the gate, with tools that look, fetch and write; `done` is what has run."""

    def __init__(self, *turns):
        self.done, self.events, self.desk = [], [], Desk()
        self.run = Run(listener=self.events.append)
        self.approvals = Approvals()

        @tool(effects={"read"})
        def look(at: str) -> str:
            """Look."""
            self.done.append(at)
            return "seen"

        @tool(effects={"network"})
        def fetch(at: str) -> str:
            """Fetch."""
            self.done.append(at)
            return "fetched"

        @tool(effects={"write"})
        def write(at: str) -> str:
            """Write."""
            self.done.append(at)
            return "written"

        gates = permitted(policy("ask"), self.desk, self.approvals), unchanged
        self.agent = Agent(scripted(*turns), Toolbox([look, fetch, write]), gates=gates)

    async def go(self, prompt=None):
        self.desk.waiting.clear()
        return await self.agent.run(prompt, self.run)

    async def decide(self, answer, number=0):
        question = self.desk.waiting[number]
        self.desk.ahead.decide_ahead(question, answer(question))
        return await self.go()

    @property
    def results(self):
        return [result for message in self.run.transcript.messages for result in message.results]

    @property
    def open(self):
        return [json.loads(made.raw)["at"] for made in self.run.transcript.dangling()]


def yes(question):
    return question.allow()


def no(question):
    return question.deny("too risky")


def other(question):
    return question.allow(edited={"at": f"{question.call.arguments['at']}, edited"})


THREE = say(call("look", at="l"), call("write", at="a"), call("write", at="b"))


async def test_what_is_finished_is_kept_and_what_waits_stays_open():
    office = Office(THREE, "Done.")
    outcome = await office.go("go")
    assert (outcome.reason, outcome.detail) == ("suspended", "`write` waits for you.")
    assert (office.done, office.open) == (["l"], ["a", "b"])
    assert [result.text for result in office.results] == ["seen"]
    assert not pairing.faults(office.run.transcript.live())
    assert [event.reason for event in office.events if isinstance(event, RunEnded)] == ["suspended"]
    assert not any(isinstance(event, ApprovalDecided) for event in office.events)


async def test_a_decision_is_for_one_call_and_the_next_one_waits_again():
    office = Office(THREE, "Done.")
    await office.go("go")
    assert (await office.decide(yes)).reason == "suspended"
    assert (office.done, office.open) == (["l", "a"], ["b"])
    outcome = await office.decide(no)
    assert (outcome.reason, outcome.text, outcome.turns) == ("done", "Done.", 2)
    assert (office.done, office.open) == (["l", "a"], [])
    assert "The person refused it: too risky" in office.results[-1].text
    assert not pairing.faults(office.run.transcript.live())


async def test_edited_arguments_run_as_edited_and_are_validated():
    office = Office(THREE, "Done.")
    await office.go("go")
    await office.decide(other)
    assert office.done == ["l", "a, edited"]
    await office.decide(lambda question: question.allow(edited={"at": 5}))
    assert office.done == ["l", "a, edited"]
    assert "don't fit" in office.results[-1].text


async def test_a_decision_for_the_first_of_two_equal_calls_is_not_one_for_the_second():
    office = Office(say(call("fetch", at="x"), call("fetch", at="x")), "Done.")
    await office.go("go")
    assert len(office.desk.waiting) == 2
    assert (await office.decide(yes, number=1)).reason == "suspended"
    assert office.done == ["x"]
    first, second = office.run.transcript.messages[1].calls
    assert office.run.transcript.dangling() == [first]
    assert [result.call_id for result in office.results] == [second.id]


async def test_a_tool_that_has_become_another_is_asked_about_again():
    office = Office(say(call("write", at="a")), "Done.")
    await office.go("go")

    @tool(effects={"write", "mutate"})
    def write(at: str) -> str:
        """Write somewhere else."""
        office.done.append(at)
        return "written"

    office.agent = Agent(office.agent.model, Toolbox([write]), gates=office.agent.gates)
    assert (await office.decide(yes)).reason == "suspended"
    assert office.done == []


async def test_a_prompt_instead_of_a_decision_has_the_calls_answered_as_not_approved():
    office = Office(THREE, "Something else.")
    await office.go("go")
    outcome = await office.go("never mind")
    assert (outcome.text, office.done) == ("Something else.", ["l"])
    assert [result.text for result in office.results] == ["seen", SUPERSEDED, SUPERSEDED]
    assert not pairing.faults(office.run.transcript.live())
    await office.go("and now")
    assert office.done == ["l"]


async def test_a_transcript_that_comes_back_without_its_run_claims_nothing():
    office = Office(THREE, "Fine.")
    await office.go("go")
    office.run = Run(Transcript(office.run.transcript.entries))
    assert (await office.go()).text == "Fine."
    assert [result.text for result in office.results] == ["seen", INTERRUPTED, INTERRUPTED]
    assert office.done == ["l"]


async def test_a_tool_that_had_begun_is_never_begun_again():
    begun = []

    @tool(effects={"read"})
    def sly() -> str:
        """Stop from inside."""
        begun.append(1)
        raise RunStop("suspended", "Later.")

    run = Run()
    agent = Agent(scripted(say(call("sly")), "Done."), Toolbox([sly]))
    assert (await agent.run("go", run)).reason == "suspended"
    assert "may have had an effect" in run.transcript.messages[-1].results[0].text
    await agent.run(None, run)
    assert len(begun) == 1


async def test_where_nobody_could_hear_that_it_waits_nothing_is_left_open():
    office = Office(THREE, "Fine.")

    def deaf(event):
        if isinstance(event, RunEnded):
            raise OSError

    office.run = Run(listener=deaf)
    assert (await office.go("go")).reason == "error"
    assert (office.open, office.run.waiting) == ([], False)


CALLS = st.lists(st.sampled_from(["look", "fetch", "write"]), min_size=1, max_size=5)
STEPS = st.lists(st.tuples(st.sampled_from([yes, no, other, None]), st.integers(0, 4)), max_size=8)


@given(CALLS, STEPS)
@settings(max_examples=60, deadline=None)
def test_whatever_is_decided_only_that_runs_and_each_call_gets_one_result(names, steps):
    async def story():
        calls = [call(name, at=str(number)) for number, name in enumerate(names)]
        office, allowed = (
            Office(say(*calls), *9 * ["Done."]),
            {str(n) for n, x in enumerate(names) if x == "look"},
        )
        outcome = await office.go("go")
        for answer, chosen in steps:
            if outcome.reason != "suspended":
                break
            number = chosen % len(office.desk.waiting)
            asked = str(office.desk.waiting[number].call.arguments["at"])
            allowed |= {yes: {asked}, other: {f"{asked}, edited"}}.get(answer, set())
            outcome = await (office.decide(answer, number) if answer else office.go("no"))
            assert not pairing.faults(office.run.transcript.live())
        await office.go("the end")
        assert set(office.done) <= allowed
        assert len(office.done) == len(set(office.done))
        answered = [result.call_id for result in office.results]
        assert sorted(answered) == sorted(made.id for made in office.run.transcript.messages[1].calls)

    asyncio.run(story())


# -- what is shown

LONG = "x = '<b>' # ``` \u202e\n" * 400
ASKED = ApprovalAsked(
    "q1",
    ToolCall("c1", "run_python", json.dumps({"code": LONG})),
    ("mutate",),
    "Code asks.",
    preview=Preview("code", LONG),
)
ENDED = RunEnded("suspended", "`run_python` waits for you.", 1, Usage())


def waiting():
    view = RunView("Go", clock=lambda: 0.0)
    for event in (RunStarted("r", "m", 9), TurnStarted(1), ASKED, ENDED):
        view.take(event)
    return view


@pytest.mark.parametrize("form", ["text/html", "text/plain", "text/markdown"])
def test_the_record_holds_the_question_whole_and_what_to_type(form):
    said = bundle(waiting()).get(form) or as_markdown(waiting())
    assert said.count("x = ") >= 800  # the preview and the arguments
    for command in ("approve", "deny", "edit"):
        assert f"%agent {command} {ticket('q1')}" in said
    assert "\u202e" not in said
    assert "Nothing of it has run." in said.replace("\\", "")
    if form == "text/html":
        assert "<b>" not in said


def test_a_session_of_ones_own_is_named_in_what_to_type():
    view = waiting()
    view.at = '%agent --session "other"'
    assert f'%agent --session "other" approve {ticket("q1")}' in as_text(view)


@pytest.mark.parametrize(
    ("fate", "words"),
    [
        ({"allowed": True, "by": "you"}, "allowed by you, once"),
        ({"allowed": False, "by": "superseded"}, "not approved: a new prompt came instead"),
        ({"allowed": False, "by": "moved"}, "asked again in a later cell"),
    ],
)
def test_once_it_is_decided_elsewhere_the_record_says_so_and_offers_nothing(fate, words):
    view = waiting()
    view.take(ApprovalDecided("q1", ASKED.call, **fate))
    for said in (as_html(view), as_text(view)):
        assert words in said
        assert ticket("q1") not in said
        assert "The conversation went on in a later cell." in said


def test_a_run_that_goes_on_in_its_view_has_one_story():
    view = waiting()
    view.take(RunStarted("r", "m", 9))
    assert (view.reason, view.waits) == (None, False)
    view.take(RunEnded("done", "", 2, Usage()))
    assert view.headline.startswith("done in 2 turns")


@given(st.text(min_size=1))
def test_a_name_begins_no_prompt_by_chance(identity):
    assert len(ticket(identity)) == 7
    assert ticket(identity)[1:].isdecimal()


@given(st.dictionaries(st.text(), st.text() | st.integers()))
def test_the_command_to_edit_holds_arguments_that_mean_the_same(arguments):
    asked = ApprovalAsked("q1", ToolCall("c1", "t", json.dumps(arguments)), (), "Asks.")
    last = Asking(asked, 0.0).commands().split("\n")[-1]
    given_back = last.removeprefix(f"%agent edit {ticket('q1')} ")
    assert given_back.startswith("{...") or json.loads(given_back) == arguments


@pytest.mark.parametrize("line", ["approve", "deny q012345 no", "edit q012345 {}", "approve q012345"])
def test_where_nothing_waits_a_decision_is_one_sentence_and_no_prompt(shell, capsys, line):
    import harness_nb

    model = harness_nb.session().model = scripted("never")
    shell.run_cell(f"%agent {line}").raise_error()
    assert capsys.readouterr().out.startswith("Nothing waits for a decision in session `main`")
    assert model.requests == []
    shell.run_cell("%agent approve the plan").raise_error()
    assert len(model.requests) == 1
