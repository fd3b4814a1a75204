"""Line 1: R21 and R30 of the public bug reports, and what users of other harnesses report of compaction, as tests."""

import pytest
from pairing import faults

from harness_nb.agent import Agent
from harness_nb.context.account import Account, measured
from harness_nb.context.compact import LONGEST_SUMMARY, planned, summary_message
from harness_nb.context.count import counting
from harness_nb.context.portion import portion, portioned
from harness_nb.context.relief import Measures, Relief
from harness_nb.context.window import Window
from harness_nb.messages import (
    Decision,
    Message,
    Summary,
    Text,
    ToolCall,
    ToolResult,
    Transcript,
    assistant,
    user,
)
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.safety.spill import Outputs, spilled
from harness_nb.seams import Run, layered
from harness_nb.tools import Toolbox, tool

COUNTER = counting("characters")
LONG = "twelve green apples and a pear " * 40
SIZE = sum(
    COUNTER.message(m)
    for m in [assistant(ToolCall("A", "look")), Message("tool", (ToolResult("A", (Text(LONG),)),))]
)


def asked(*names):
    return assistant(*(ToolCall(name, "look") for name in names))


def gave(*names):
    return Message("tool", tuple(ToolResult(name, (Text(LONG),)) for name in names))


R30 = {
    "as reported": [
        user("x"),
        asked("A"),
        gave("A"),
        asked("B"),
        gave("B"),
        asked("C"),
        gave("C"),
        assistant("done"),
    ],
    "parallel calls": [
        user("x"),
        asked("A", "B"),
        gave("A", "B"),
        asked("C", "D"),
        gave("C", "D"),
        assistant("done"),
    ],
    "one long tool loop": [user("x"), *(m for n in range(9) for m in (asked(f"c{n}"), gave(f"c{n}")))],
    "a latest request": [
        user("x"),
        asked("A"),
        gave("A"),
        user("the latest, word for word"),
        asked("B"),
        gave("B"),
    ],
}


def compact(transcript, recent):
    shown = transcript.shown()
    plan = planned(shown, COUNTER, recent=recent, words=0)
    if plan is not None:
        changes = {shown[i][0].id: () for i in plan.replaced}
        changes[shown[plan.place][0].id] = (summary_message("So far.", [shown[i][0] for i in plan.replaced]),)
        transcript.append(Decision("compact", "full", changes))
    return plan


@pytest.mark.parametrize("entries", R30.values(), ids=R30)
@pytest.mark.parametrize("recent", [0, SIZE, 2 * SIZE], ids=["keep 1", "keep 2", "keep 4"])
def test_r30_the_first_message_kept_after_the_summary_is_no_result_and_every_call_has_its_own(
    entries, recent
):
    transcript = Transcript(entries)
    compact(transcript, recent)
    live = transcript.live()
    after = [m for m in live if not any(isinstance(part, Summary) for part in m.parts)]
    assert after[0] is entries[0]
    assert after[1].role != "tool"
    assert faults(live) == []
    assert [m for m in entries if m.role == "user"][-1] in live
    assert compact(transcript, recent) is None


@tool(effects={"read"}, limit=10**9)
def flood() -> str:
    """Give 36 MB on one line."""
    return "x" * 36_000_000


async def test_r21_after_one_result_of_36_mb_the_session_goes_on_within_a_small_window():
    account = Account(Window(8_000, 1_000, source="configuration"), COUNTER)
    model = scripted(say(call("flood")), "Read.", "Still here.")
    box, gates = Toolbox([flood]), (portioned(account), spilled(Outputs()))
    agent = Agent(layered(model, measured(account)), box, "", gates, (Relief(account),))
    transcript = Transcript()
    for prompt in ("Flood.", "And now?"):
        assert (await agent.run(prompt, Run(transcript))).reason == "done"
    (result,) = [m.results[0] for m in transcript.messages if m.results]
    assert len(result.text) <= portion(account)
    assert "read_output(id=" in result.text.splitlines()[0]
    assert "read_output(id=" in result.text.splitlines()[-1]
    assert max(turn.fill.share for turn in account.turns) < 0.5


@tool(effects={"read"}, limit=10**6)
def look(size: int) -> str:
    """Look."""
    return LONG[:31] * size


async def played(script, *summaries, measures=None, size=6_000):
    """Play a script in a small window; return the models and the decisions."""
    account = Account(Window(size, size // 8, source="configuration"), COUNTER)
    model, summariser = scripted(*script), scripted(*summaries)
    relief = Relief(account, summariser, measures)
    agent = Agent(layered(model, measured(account)), Toolbox([look]), "Look.", prepare=(relief,))
    outcome = await agent.run("Find the pear.")
    return outcome, account, summariser, [e for e in outcome.transcript.entries if isinstance(e, Decision)]


async def test_a_huge_result_right_before_a_compaction_does_not_overflow_it():
    script = [*[say(call("look", size=60)) for _ in range(7)], say(call("look", size=2_000)), "Found."]
    outcome, account, _, decisions = await played(script, *["So far."] * 9)
    assert outcome.reason == "done"
    assert decisions
    assert max(turn.fill.share for turn in account.turns) < 1.0


async def test_the_summariser_has_no_tools_and_bounded_input_and_output():
    script = [*[say(call("look", size=60)) for _ in range(30)], "Found."]
    _, account, summariser, _ = await played(script, *["So far."] * 30, measures=Measures(least=9))
    assert summariser.requests
    for request in summariser.requests:
        assert request.tools == ()
        assert sum(COUNTER.message(m) for m in request.messages) < account.window.size
        assert request.max_output <= LONGEST_SUMMARY


async def test_a_summary_larger_than_what_it_replaces_is_refused_and_the_run_goes_on():
    script = [*[say(call("look", size=60)) for _ in range(16)], "Found."]
    large = " ".join(str(n * 7919) for n in range(9_000))
    outcome, _, summariser, decisions = await played(script, *[large] * 20, measures=Measures(least=9))
    assert outcome.reason == "done"
    assert summariser.requests
    assert all("summarised" not in d.why for d in decisions)


async def test_masking_breaks_the_cache_in_batches_and_not_at_each_turn():
    script = [*[say(call("look", size=10)) for _ in range(49)], "Found."]
    outcome, *_, decisions = await played(script, *["So far."] * 9)
    assert outcome.reason == "done"
    assert 0 < len(decisions) <= 5


async def test_instructions_and_tools_count_too():
    account = Account(Window(6_000, 750, source="configuration"), COUNTER)
    model = layered(scripted("Hello."), measured(account))
    outcome = await Agent(model, Toolbox([look]), "word " * 5_000, prepare=(Relief(account),)).run("hi")
    assert outcome.reason == "error"
    assert "the largest part that must stay is the system prompt" in outcome.detail
