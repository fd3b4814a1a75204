"""Whatever is decided about a context: the view stays valid, undo restores it, and nothing pinned is lost."""

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st
from pairing import faults

from harness_nb.context.account import Account
from harness_nb.context.compact import planned, summary_message
from harness_nb.context.count import counting
from harness_nb.context.mask import masking
from harness_nb.context.relief import Measures, Relief, spared
from harness_nb.context.window import Window
from harness_nb.errors import RunStop
from harness_nb.messages import Decision, Message, Text, ToolCall, ToolResult, Transcript, assistant, user
from harness_nb.providers.scripted import scripted
from harness_nb.seams import Request, Run

COUNTER = counting("characters")
SENTENCE = "twelve green apples and a pear "


@st.composite
def conversations(draw):
    """A transcript as a run writes it: prompts, answers, and calls with their results, long and short."""
    entries = [user("the first request")]
    for number in range(draw(st.integers(0, 10))):
        kind = draw(st.sampled_from(["prompt", "calls", "calls", "answer"]))
        if kind == "calls":
            calls = [
                ToolCall(f"c{number}-{n}", "look", f'{{"n": {n}}}') for n in range(draw(st.integers(1, 3)))
            ]
            texts = [SENTENCE * draw(st.integers(0, 120)) or "x" for _ in calls]
            results = zip(calls, texts, strict=True)
            entries += [
                assistant(*calls),
                Message("tool", tuple(ToolResult(call.id, (Text(text),)) for call, text in results)),
            ]
        else:
            text = f"{number}: {SENTENCE * draw(st.integers(1, 30))}"
            entries.append(user(text) if kind == "prompt" else assistant(text))
    return Transcript(entries)


def decide(draw, transcript):
    """Put one decision on record: a mask, a summary, a pin, or the undoing of an earlier one."""
    kind = draw(st.sampled_from(["mask", "compact", "pin", "undo"]))
    made = [entry for entry in transcript.entries if isinstance(entry, Decision)]
    shown = transcript.shown()
    if kind == "undo" and made:
        return Decision("you", "undo", undoes=draw(st.sampled_from(made)).id)
    if kind == "pin":
        return Decision("you", "pin", pins=(draw(st.sampled_from(transcript.messages)).id,))
    if kind == "compact":
        plan = planned(
            shown, COUNTER, recent=draw(st.integers(0, 2_000)), words=200, spared=spared(transcript)
        )
        if plan is not None:
            changes = {shown[i][0].id: () for i in plan.replaced}
            changes[shown[plan.place][0].id] = (
                summary_message("So far.", [shown[i][0] for i in plan.replaced]),
            )
            return Decision("compact", "full", changes)
    keep, goal = draw(st.integers(0, 4)), draw(st.none() | st.integers(0, 3_000))
    return Decision("mask", "full", masking(shown, COUNTER, keep=keep, goal=goal, spared=spared(transcript)))


@given(conversations(), st.data())
def test_after_any_decisions_and_undos_every_provider_accepts_the_view(transcript, data):
    for _ in range(data.draw(st.integers(1, 6))):
        transcript.append(decide(data.draw, transcript))
        assert faults(transcript.live()) == []


@given(conversations(), st.data())
def test_undo_restores_what_was_seen_to_the_byte(transcript, data):
    for _ in range(data.draw(st.integers(0, 3))):
        transcript.append(decide(data.draw, transcript))
    before = transcript.live()
    decision = decide(data.draw, transcript)
    transcript.append(decision)
    transcript.append(Decision("you", "undo", undoes=decision.id))
    assert transcript.live() == before


@given(conversations(), st.data())
def test_what_is_pinned_while_it_is_seen_is_never_lost(transcript, data):
    pinned = data.draw(st.sampled_from(transcript.live()))
    transcript.append(Decision("you", "pin", pins=(pinned.id,)))
    for _ in range(data.draw(st.integers(1, 5))):
        decision = decide(data.draw, transcript)
        if decision.undoes != transcript.entries[len(transcript.messages)].id:
            transcript.append(decision)
        assert pinned in transcript.live()


@given(conversations(), st.data())
def test_the_same_decision_twice_changes_nothing_the_second_time(transcript, data):
    decision = decide(data.draw, transcript)
    transcript.append(decision)
    once = transcript.live()
    transcript.append(replace(decision, id="again"))
    assert transcript.live() == once


@given(conversations(), st.integers(600, 6_000), st.booleans())
@settings(deadline=None)
@pytest.mark.anyio
async def test_the_working_set_never_exceeds_the_window_and_the_first_words_stay(transcript, size, summaries):
    account = Account(Window(size, size // 8, source="configuration"), COUNTER)
    relief = Relief(account, scripted(*["So far."] * 9) if summaries else None, Measures())
    run, told = Run(), ""
    for entry in transcript.entries:
        run.append(entry)
        if entry.role == "assistant" and entry.calls:
            continue
        try:
            request = await relief(Request("Look.", run.transcript.live()), run)
        except RunStop as stop:
            told = stop.detail
            break
        assert request.messages == run.transcript.live()
        assert account.fill(request).total <= account.window.usable
        assert request.messages[0].text == "the first request"
        assert faults(request.messages) == []
    assert not told or "the largest part that must stay is" in told


@given(conversations())
@pytest.mark.anyio
async def test_between_decisions_each_request_begins_as_the_one_before(transcript):
    account = Account(Window(4_000, 500, source="configuration"), COUNTER)
    relief, run, last = Relief(account, scripted(*["So far."] * 9)), Run(), ()
    for entry in transcript.entries:
        run.append(entry)
        if entry.role == "assistant" and entry.calls:
            continue
        decided = len(run.transcript) - len(run.transcript.messages)
        try:
            request = await relief(Request("Look.", run.transcript.live()), run)
        except RunStop:
            return
        if len(run.transcript) - len(run.transcript.messages) == decided:
            assert request.messages[: len(last)] == last
        last = request.messages


def test_the_newest_message_of_a_compacted_loop_is_never_an_orphan():
    calls = [assistant(ToolCall(name, "look")) for name in "ABC"]
    results = [Message("tool", (ToolResult(name, (Text(SENTENCE * 30),)),)) for name in "ABC"]
    entries = [
        user("Find it."),
        *(m for pair in zip(calls, results, strict=True) for m in pair),
        assistant("Found."),
    ]
    transcript = Transcript(entries)
    shown = transcript.shown()
    for recent in range(0, 2_000, 50):
        plan = planned(shown, COUNTER, recent=recent, words=0)
        if plan is not None:
            after = [shown[i][0] for i in range(len(shown)) if i not in plan.replaced][1:]
            assert after[0].role == "assistant"
