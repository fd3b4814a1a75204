"""A kept run told again: it looks as it did live, from any journal, whole or damaged."""

import asyncio
import dataclasses

import pytest
from hypothesis import given, settings, strategies as st
from test_suspend import Office, no, other, yes

from harness_nb import Session, call, say, scripted, tool
from harness_nb.agent import GO_ON, Agent
from harness_nb.encoding import encode
from harness_nb.errors import ProviderError
from harness_nb.events import ApprovalAsked, ApprovalDecided, MessageAdded, TurnStarted, fan_out
from harness_nb.jupyter.record import as_html, as_text
from harness_nb.jupyter.replay import replayed
from harness_nb.jupyter.segments import Note
from harness_nb.jupyter.told import view_of
from harness_nb.jupyter.view import RunView
from harness_nb.messages import Decision, Message, Summary, Text, Thinking, Transcript
from harness_nb.ops.history import History
from harness_nb.ops.journal import Journal, Origin
from harness_nb.ops.jsonl import JsonlStore
from harness_nb.ops.records import Record
from harness_nb.ops.resume import take_up
from harness_nb.providers.chaos import Chaos
from harness_nb.providers.retry import retrying
from harness_nb.seams import Run, layered
from harness_nb.tools import Toolbox


async def no_wait(seconds):
    """Wait for nothing."""


@tool(effects={"read"})
def look(at: str) -> str:
    """Look."""
    if at == "nowhere":
        raise FileNotFoundError(at)
    return f"seen {at}"


def lived(store, *turns, prompt="Why?", agent=None, name="main"):
    """Run once for real: the view that heard it live, and the session's history and records read back from the store."""
    journal = Journal(store.open(name))
    journal.origin = Origin(prompt)
    view = RunView(prompt)
    agent = agent or Agent(scripted(*turns), Toolbox([look]))
    asyncio.run(agent.run(prompt, Run(journal.history.transcript(), fan_out(journal, view.take))))
    journal.close()
    records = store.open(name, write=False).read()
    return view, History(records), records


@pytest.fixture
def store(tmp_path):
    return JsonlStore(tmp_path / "sessions")


def head(history, records, **how):
    return view_of(history.runs[history.head], records, history, **how)


STORIES = {
    "an answer": ["It is **3**."],
    "calls": [say("Let me look.", call("look", at="a"), call("look", at="b")), "Seen."],
    "a call that fails": [say(call("look", at="nowhere")), "Not there."],
    "calls that never run": [say(call("nonesuch")), say(call("look", wrong=1)), "No."],
    "a cut reply": [say("Half", stop="length"), " and half."],
    "no answer at first": [say(""), "Yes."],
    "a refusal": [say("No.", stop="refusal", detail="It is not for me.")],
    "a failure": [ProviderError("The server is on fire.")],
    "an unknown end": [say("Hm.", stop="other", detail="odd")],
}


@pytest.mark.parametrize("story", STORIES)
def test_a_kept_run_reads_exactly_as_it_did_live(store, story):
    live, history, records = lived(store, *STORIES[story])
    kept = head(history, records)
    assert as_html(kept) == as_html(live)
    assert as_text(kept) == as_text(live)
    assert (kept.turn, kept.limit, kept.usage) == (live.turn, live.limit, live.usage)


def test_how_long_the_model_thought_is_not_on_record_so_it_is_not_said(store):
    _, history, records = lived(store, say(Thinking("Hm, 3?"), "It is 3."))
    assert "Thinking · 6 characters<" in as_html(head(history, records))


@pytest.mark.parametrize(
    ("fault", "told"), [("overloaded", "Attempt 1 of "), ("cut_stream", "Asked the model again")]
)
def test_attempts_that_failed_are_told(store, fault, told):
    model = layered(Chaos(scripted("Fine, and more than a piece."), [fault]), retrying(sleep=no_wait))
    live, history, records = lived(store, agent=Agent(model))
    assert told in as_text(live)
    assert as_text(head(history, records)) == as_text(live)


def asked_about(store, *answers):
    """An office whose run is kept, with the view of whoever was there; each answer decides the oldest question."""
    office = Office(say(call("write", at="x"), call("look", at="y")), "Done.")
    view, journal = RunView("Go"), Journal(store.open("main"))
    journal.origin = Origin("Go")
    office.run = Run(listener=fan_out(journal, view.take, office.events.append))

    async def all_of_it():
        await office.go("Go")
        for answer in answers:
            await office.decide(answer)

    asyncio.run(all_of_it())
    journal.close()
    records = store.open("main", write=False).read()
    kinds = ApprovalAsked, ApprovalDecided, MessageAdded
    again, heard = (
        [e for e in events if isinstance(e, kinds)] for events in (told_again(records), office.events)
    )
    assert again == heard
    return view, History(records), records


def told_again(records):
    return [event for _, event in replayed(records)]


@pytest.mark.parametrize("answers", [[], [yes], [no], [other]])
def test_what_was_asked_and_decided_is_told_as_it_was(store, answers):
    live, history, records = asked_about(store, *answers)
    kept = head(history, records)
    assert as_text(kept) == as_text(live)
    assert kept.waits == (not answers)


def test_a_question_that_a_later_prompt_left_behind_does_not_wait_any_more(store):
    _, history, _ = asked_about(store)
    first = history.head
    _, history, records = lived(store, "Another thing.", prompt="Leave it.")
    left = view_of(history.runs[first], records, history)
    assert not left.waits
    assert "not approved: a new prompt came instead" in as_text(left)
    assert "2 calls left open by an earlier run" in as_text(head(history, records))


def at(second, kind, /, **data):
    return Record(kind, data, "r", f"2026-01-01T00:00:{second:06.3f}+00:00")


def used():
    """A run of two turns, with a question, that took 20 s, as its records tell it."""
    asking = {
        "name": "write",
        "arguments": '{"at": "x"}',
        "why": "Writes ask.",
        "effects": ["write"],
        "scopes": [],
    }
    made = Message("assistant", (Text("So."), *say(call("write", at="x")).message.calls), "m2")
    made = dataclasses.replace(made, parts=(made.parts[0], dataclasses.replace(made.parts[1], id="c1")))
    result = {
        "kind": "tool_result",
        "call_id": "c1",
        "content": [{"kind": "text", "text": "written"}],
        "is_error": False,
    }
    usage = {"input": 100, "output": 10}
    return [
        at(0, "run_started", parent="", cell="", execution="", prompt="Go", model="tiny", limit=50),
        at(0, "message", **encode(Message("user", (Text("Go"),), "m1"))),
        at(3, "message", **encode(made)),
        at(3, "turn_ended", turn=1, usage=usage, stop="calls"),
        at(3, "approval_asked", question="q", call="c1", **asking),
        at(
            13,
            "approval_decided",
            question="q",
            call="c1",
            allowed=True,
            by="you",
            scope="",
            reason="",
            edited="",
        ),
        at(13, "tool_started", call="c1", name="write", arguments='{"at": "x"}', key="k"),
        at(18, "tool_finished", call="c1", result=result, seconds=15.0),
        at(
            18,
            "message",
            kind="message",
            role="tool",
            parts=[{"kind": "recorded", "call_id": "c1"}],
            id="m3",
            at="2026-01-01T00:00:18+00:00",
        ),
        at(20, "message", **encode(Message("assistant", (Text("Done."),), "m4"))),
        at(20, "turn_ended", turn=2, usage=usage, stop="end"),
        at(20, "run_ended", reason="done", detail="", turns=2, seconds=20.0, waited=10.0),
    ]


def told(records, **how):
    history = History(records)
    return view_of(history.runs["r"], records, history, **how)


def test_times_come_from_the_records_and_waiting_for_a_person_is_not_the_tools_time():
    text = as_text(told(used()))
    assert text.startswith("agent · done in 2 turns, 20 s · tiny")
    assert 'write at="x" — allowed by you, once → written · 5.0 s' in text
    assert "200 tokens in, 20 out" in text


def test_what_a_person_was_shown_is_told_where_it_is_on_record():
    records = used()
    records[4].data["preview"] = {"kind": "diff", "text": "-old\n+new"}  # as journal.py writes it
    assert "+new" in as_html(told(records))


@pytest.mark.parametrize("kept", range(1, 12))
def test_a_run_that_was_cut_off_anywhere_says_so_and_how_far_it_came(kept):
    view = told(used()[:kept])
    assert view.headline.startswith("cut off")
    assert "Its process ended before it did" in view.ending
    states = [segment.state for segment in view.segments if hasattr(segment, "asking")]
    assert states == (
        [] if kept < 3 else ["not run"] if kept < 7 else ["interrupted"] if kept < 8 else ["ok"]
    )


def test_a_run_that_is_at_work_is_told_as_it_stands():
    view = told(used()[:7], at_work=True)
    assert (view.reason, view.doing) == (None, "running write")


def test_a_run_that_was_taken_up_again_is_one_run_and_the_time_between_is_not_its_own():
    records = used()
    later = [dataclasses.replace(r, at=r.at.replace("01-01", "01-02")) for r in records[7:11]]
    resumed = [*records[:7], Record("resumed", {"model": "tiny"}, "r", "2026-01-02T00:00:17+00:00"), *later]
    view = told([*resumed, at(20, "run_ended", reason="done", detail="", turns=2, seconds=3.0, waited=0)])
    assert view.headline == "done in 2 turns, 16 s"
    assert view.limit == 50
    assert "write at=" in as_text(view)
    assert as_text(view).count("write at=") == 1


def test_a_resumed_run_goes_on_in_one_view(store):
    """For real: the journal's log is cut in the middle of a run, and another process takes it up."""
    _, _, records = lived(store, say(call("look", at="a")), "Seen.")
    cut = [r for r in records if r.kind != "session"][:4]
    journal = Journal(store.open("again"))
    for record in cut:
        journal.log.append(record)
        journal.history.add(record)
    transcript = journal.history.transcript()
    run = Run(transcript, journal)
    take_up(run, journal.history.runs[journal.history.head])
    asyncio.run(Agent(scripted("Seen again."), Toolbox([look])).run(None, run))
    journal.close()
    records = store.open("again", write=False).read()
    view = head(History(records), records)
    assert view.headline.startswith("done in 2 turns")
    assert view.answer == "Seen again."
    assert [s.state for s in view.segments if hasattr(s, "asking")] == ["ok"]


def test_without_records_calls_and_answers_are_told_from_memory():
    journal = Journal()
    agent = Agent(scripted(say(call("look", at="a")), "Seen."), Toolbox([look]))
    asyncio.run(agent.run("Why?", Run(listener=journal)))
    text = as_text(head(journal.history, []))
    assert "> Why?" in text
    assert 'look at="a" → seen a' in text
    assert text.index("seen a") < text.index("Seen.")
    assert text.startswith("agent · done in 2 turns")


def test_a_decision_is_told_with_what_became_of_each_message(store):
    journal = Journal(store.open("main"))
    run = Run(listener=journal)
    agent = Agent(scripted(say(call("look", at="a")), "Seen."), Toolbox([look]), prepare=(summed,))
    asyncio.run(agent.run("Why?", run))
    records = store.open("main", write=False).read()
    text = as_text(head(History(records), records))
    assert "It was full." in text
    assert "result of look" in text
    assert "summarised" in text
    assert text.index("It was full.") < text.index("Seen.")


def summed(request, run):
    """Put a summary in the place of the result, once it is there."""
    if run.turn == 2:
        message = run.transcript.messages[-1]
        shown = (Message("user", (Summary("It saw a.", 1),)),)
        run.append(Decision("compact", "It was full.", {message.id: shown}))
    return request


def test_a_decision_between_runs_starts_no_turn(store):
    journal = Journal(store.open("main"))
    asyncio.run(Agent(scripted("Yes.")).run("Why?", Run(listener=journal)))
    journal.decide(Decision("compact", "You asked for it.", {}))
    records = store.open("main", write=False).read()
    view = head(History(records), records)
    assert view.headline.startswith("done in 1 turn,")
    assert "You asked for it." in as_text(view)


@pytest.mark.parametrize("by", ["you", "mask"])
def test_a_decision_while_a_call_is_at_work_starts_no_turn(by):
    decision = encode(Decision(by, "It was full.", {}))
    records = used()
    view = told([*records[:7], at(14, "decision", **decision), *records[7:]])
    assert as_text(view).count("write at=") == 1
    started = [event for _, event in replayed([*records[:7], at(14, "decision", **decision)])]
    assert started.count(TurnStarted(1)) == 1
    assert TurnStarted(2) not in started


def test_turns_start_where_they_did(store):
    heard, journal = [], Journal(store.open("main"))
    turns = say(call("look", at="a")), say(""), say("Half", stop="length"), "Yes."
    agent = Agent(scripted(*turns), Toolbox([look]))
    asyncio.run(agent.run("Why?", Run(listener=fan_out(journal, heard.append))))
    records = store.open("main", write=False).read()
    told = told_again(records)
    pieces = {"TextDelta", "CallDelta", "ContextMeasured"}
    ours, theirs = ([e for e in events if type(e).__name__ not in pieces] for events in (told, heard))
    assert [type(e) for e in ours] == [type(e) for e in theirs]
    assert [e for e in ours if isinstance(e, TurnStarted)] == [
        e for e in theirs if isinstance(e, TurnStarted)
    ]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_journal_is_told_as_far_as_it_can_be_read(data):
    """Records lost, out of order, of another form: there is always something to see, and never a fault."""
    records = data.draw(st.permutations(used()) | st.just(used()))
    records = records[: data.draw(st.integers(1, len(records)))]
    place = data.draw(st.integers(0, len(records) - 1))
    key = data.draw(st.sampled_from(sorted(records[place].data)))
    broken = {**records[place].data, key: data.draw(VALUES)}
    records[place] = dataclasses.replace(
        records[place], data=broken, at=data.draw(st.sampled_from(["", "x", records[place].at, "2026-01-01"]))
    )
    view = told(records)
    assert as_text(view)
    assert as_html(view)


def test_each_prompt_of_a_conversation_that_was_set_from_python_is_told_as_one():
    session = Session("set from python")
    messages = (
        ("user", "One?"),
        ("assistant", "One."),
        ("user", GO_ON),
        ("assistant", "On."),
        ("user", "Two?"),
    )
    session.transcript = Transcript(Message(role, (Text(text),)) for role, text in messages)
    session.model = scripted("Three.")
    session.run_blocking("Three?")
    history = session.kept.history
    view = view_of(next(iter(history.runs.values())), (), history)
    notes = [segment.text for segment in view.segments if isinstance(segment, Note)]
    assert (view.prompt, notes) == ("One?", [f"The harness told the model: {GO_ON}", "Prompt: Two?"])
