"""Compaction: where it cuts, what it asks, what it accepts, and that nothing changes when it fails."""

import pytest
from hypothesis import given, strategies as st
from pairing import faults

from harness_nb.context.compact import (
    MOST_CALLS,
    NotCompactedError,
    ledger,
    planned,
    summarised,
    told_to_summariser,
)
from harness_nb.context.count import counting
from harness_nb.errors import ProviderError, RunStop, UsageError
from harness_nb.events import Notice
from harness_nb.messages import (
    Decision,
    Message,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Transcript,
    Usage,
    assistant,
    user,
)
from harness_nb.providers.scripted import say, scripted
from harness_nb.seams import Run

COUNTER = counting("characters")
LONG = "twelve green apples and a pear " * 40


def exchange(name, text=LONG, count=1):
    calls = [ToolCall(f"{name}{n}", "look", f'{{"of": "{name}"}}') for n in range(count)]
    return [
        assistant(*calls),
        Message("tool", tuple(ToolResult(call.id, (Text(text),)) for call in calls)),
    ]


def loop(turns, **how):
    """One prompt and a long tool loop."""
    return Transcript([user("Find the pear."), *(m for n in range(turns) for m in exchange(f"c{n}-", **how))])


async def compacted(transcript, *answers, run=None, **how):
    """Compact once, as `Relief` would, and put the decision on record."""
    plan = planned(transcript.shown(), COUNTER, **{"recent": 500, "words": 500, **how})
    if plan is None:
        return None
    model = scripted(*(answers or ["The pear is in c3."]))
    changes, _ = await summarised(transcript.shown(), plan, COUNTER, model, run or Run())
    transcript.append(Decision("compact", "why", changes))
    return model


def kinds(transcript):
    return ["summary" if m.parts and isinstance(m.parts[0], Summary) else m.role for m in transcript.live()]


async def test_prompt_then_summary_then_the_newest_exchange_are_what_is_left():
    transcript = loop(6)
    await compacted(transcript)
    assert kinds(transcript) == ["user", "summary", "assistant", "tool"]
    assert transcript.live()[0] is transcript.messages[0]
    assert transcript.live()[2:] == transcript.messages[-2:]


async def test_calls_and_results_are_never_parted_however_the_cut_falls():
    for recent in range(0, 4_000, 97):
        transcript = loop(5, count=2)
        await compacted(transcript, recent=recent)
        assert faults(transcript.live()) == []


async def test_the_persons_own_words_stay_as_far_as_there_is_room_the_newest_first():
    told = [user(f"Limit {n}: {'never ' * 20}touch it.") for n in range(4)]
    entries = [user("Start."), *(m for t in told for m in (t, *exchange(t.id[:4])))]
    one = sum(COUNTER.message(m) for m in told[:1])
    transcript = Transcript(entries)
    await compacted(transcript, words=2 * one)
    live = transcript.live()
    assert [m in live for m in [entries[0], *told]] == [True, False, True, True, True]


async def test_a_system_message_stays():
    rule = Message("system", (Text("Never delete a file."),))
    transcript = Transcript([rule, *loop(6).entries])
    await compacted(transcript)
    assert transcript.live()[0] is rule


async def test_a_pinned_result_stays_with_its_call():
    transcript = loop(6)
    result = transcript.messages[4]
    await compacted(transcript, spared={result.id})
    assert kinds(transcript) == ["user", "assistant", "tool", "summary", "assistant", "tool"]
    assert transcript.live()[2] is result


async def test_compacting_twice_with_nothing_new_changes_nothing():
    transcript = loop(6)
    await compacted(transcript)
    assert await compacted(transcript) is None


async def test_a_second_summary_takes_the_first_one_in_and_undoing_it_brings_the_first_back():
    transcript = loop(6)
    await compacted(transcript, "First summary.")
    seen = transcript.live()
    for message in exchange("later") + exchange("latest"):
        transcript.append(message)
    model = await compacted(transcript, "Second summary.")
    assert "Earlier summary: Summary of 10 earlier messages" in model.requests[0].messages[0].text
    assert "First summary." not in transcript.live()[1].text
    transcript.append(Decision("you", "back", undoes=transcript.entries[-1].id))
    assert transcript.live()[: len(seen)] == seen


async def test_the_summariser_has_no_tools_and_reads_no_thinking():
    transcript = Transcript(
        [user("x"), assistant(Thinking("secret plan", "s", "v"), "Looked."), *loop(4).messages]
    )
    model = await compacted(transcript)
    (request,) = model.requests
    assert request.tools == ()
    assert "secret plan" not in request.messages[0].text
    assert "Assistant called look of=c0-" in request.messages[0].text


def test_what_the_summariser_reads_is_bounded():
    transcript = loop(50, text=LONG * 50)
    assert len(told_to_summariser(transcript.messages, 20_000)) <= 20_000


async def test_every_call_is_on_the_list_below_the_summary_or_counted_there():
    transcript = loop(MOST_CALLS + 9)
    await compacted(transcript)
    text = transcript.live()[1].text
    assert "- 8 older calls: look 8" in text
    assert text.count("look of=") == MOST_CALLS


def test_the_list_says_how_a_call_ended():
    asked = assistant(ToolCall("a", "look"), ToolCall("b", "move"), ToolCall("c", "wait"))
    given = Message("tool", (ToolResult("a", (Text("x"),)), ToolResult("b", (Text("no"),), is_error=True)))
    assert list(ledger([asked, given])) == ["- look: done", "- move: failed", "- wait: no result recorded"]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("  \n", "came back empty"),
        ("The pear, the pear. " * 400, "over and over"),
        (" ".join(str(n * 7919) for n in range(9_000)), "saves nothing"),
        (say("I can't help with that.", stop="refusal"), "declined to write a summary"),
        (ProviderError("The server is down."), r"could not be had: The server is down\.$"),
        (UsageError("No key is set"), r"could not be had: No key is set\.$"),
        (KeyError("content"), r"could not be had: KeyError: 'content'\.$"),
    ],
)
async def test_a_poor_summary_is_refused_and_nothing_has_changed(answer, sentence):
    transcript = loop(6)
    before = transcript.live()
    with pytest.raises(NotCompactedError, match=sentence):
        await compacted(transcript, answer)
    assert transcript.live() == before


async def test_a_budget_that_is_spent_on_a_summary_ends_the_run_all_the_same():
    with pytest.raises(RunStop, match="budget is spent"):
        await compacted(loop(6), RunStop("budget", "The budget is spent."))


async def test_a_summary_that_the_output_limit_cut_off_says_so():
    transcript = loop(6)
    await compacted(transcript, say("The pear is in", stop="length"))
    summary = next(m for m in transcript.live() if isinstance(m.parts[0], Summary))
    assert "The pear is in\n[The summary was cut off here: what followed is missing.]\n" in summary.text


async def test_what_a_summary_cost_is_counted_even_when_it_is_refused():
    run = Run()
    with pytest.raises(NotCompactedError):
        await compacted(loop(6), say(" ", usage=Usage(100, 7)), run=run)
    assert run.usage == Usage(100, 7)


async def test_of_the_summarisers_events_only_waits_and_notices_reach_the_run():
    heard = []

    async def chatty(request, run):
        run.emit(Notice("one moment"))
        return await scripted("The pear.")(request, run)

    transcript = loop(6)
    plan = planned(transcript.shown(), COUNTER, recent=500, words=0)
    await summarised(transcript.shown(), plan, COUNTER, chatty, Run(listener=heard.append))
    assert heard == [Notice("one moment")]


@given(st.lists(st.tuples(st.sampled_from("ut"), st.integers(1, 3)), max_size=14), st.integers(0, 3_000))
def test_a_plan_keeps_first_and_latest_request_and_leaves_a_valid_view(shape, recent):
    entries = [user("first")]
    for number, (kind, count) in enumerate(shape):
        entries += [user(f"u{number}")] if kind == "u" else exchange(f"c{number}-", count=count)
    transcript = Transcript(entries)
    plan = planned(transcript.shown(), COUNTER, recent=recent, words=0)
    if plan is None:
        return
    changes = {entries[i].id: () for i in plan.replaced}
    changes[entries[plan.place].id] = (Message("user", (Summary("s", len(plan.replaced)),)),)
    transcript.append(Decision("compact", "why", changes))
    live = transcript.live()
    requests = [m for m in entries if m.role == "user"]
    assert {requests[0], requests[-1]} <= set(live)
    assert faults(live) == []
