"""Relief: the order of the measures, when each is taken, what is said, and that a request never exceeds the window."""

import json

import pytest

from harness_nb.agent import Agent
from harness_nb.context.account import Account, measured
from harness_nb.context.compact import NotCompactedError
from harness_nb.context.count import counting
from harness_nb.context.portion import portion, portioned
from harness_nb.context.relief import Measures, Relief, refitted
from harness_nb.context.window import Window
from harness_nb.errors import ProviderError
from harness_nb.events import ContextMeasured, DecisionMade, Notice
from harness_nb.messages import (
    Decision,
    Message,
    Summary,
    Text,
    ToolCall,
    ToolResult,
    Transcript,
    Usage,
    assistant,
    user,
)
from harness_nb.providers.fallback import falling_back
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.safety.spill import Outputs, spilled
from harness_nb.seams import Request, Run, layered
from harness_nb.tools import Toolbox, tool

COUNTER = counting("characters")
PAGE = "twelve green apples and a pear " * 60


@tool(effects={"read"})
def look(n: int, size: int = 60) -> str:
    """Look at a page."""
    return f"{n}: {PAGE[: 31 * size]}"


@tool(effects={"read"}, limit=1_000_000)
def dump(n: int) -> str:
    """Give all of it."""
    return PAGE * n


class Desk:
    """An agent whose window has `size` tokens, and what it did."""

    def __init__(self, *turns, size=4_000, summaries=("The pear was on page 2.",), measures=None, **how):
        self.model = scripted(*turns)
        self.account = Account(Window(size, size // 8, source="configuration"), COUNTER)
        self.summariser = scripted(*summaries) if summaries else None
        self.relief = Relief(self.account, self.summariser, measures, **how)
        self.heard = []
        self.run = Run(listener=self.heard.append)
        asked = layered(self.model, measured(self.account), refitted(self.relief))
        self.agent = Agent(asked, Toolbox([look, dump]), "Look.", prepare=(self.relief,))

    async def ask(self, prompt="Find the pear."):
        return await self.agent.run(prompt, self.run)

    @property
    def decisions(self):
        return [event.decision for event in self.heard if isinstance(event, DecisionMade)]


def looks(number, **how):
    return [say(call("look", n=n, **how)) for n in range(number)]


async def test_below_red_nothing_is_decided():
    desk = Desk(*looks(3), "Found.")
    assert (await desk.ask()).reason == "done"
    assert desk.decisions == []


async def test_at_red_old_results_are_masked_and_the_numbers_are_told():
    desk = Desk(*looks(8), "Found.")
    await desk.ask()
    first = desk.decisions[0]
    assert first.by == "mask"
    assert first.why.startswith("The context was 90% full, so ")
    assert 2_800 < first.before < 3_500
    assert first.after < first.before - 1_000
    assert max(turn.fill.total for turn in desk.account.turns) <= 2_900


async def test_only_when_masking_frees_too_little_is_there_a_summary():
    desk = Desk(*looks(12), "Found.", measures=Measures(least=0.9))
    await desk.ask()
    assert {decision.by for decision in desk.decisions} == {"compact"}
    assert desk.decisions[0].usage.input > 0
    (summary,) = [m for m in desk.run.transcript.live() if isinstance(m.parts[0], Summary)]
    assert "The pear was on page 2." in summary.text


async def test_while_there_is_room_nothing_is_summarised_for_a_small_gain():
    desk = Desk(*looks(17, size=20), "Found.", measures=Measures(least=0.9, worth=0.9))
    await desk.ask()
    assert desk.account.turns[-1].fill.state == "red"
    assert desk.summariser.requests == []


async def test_each_request_is_measured_after_the_decisions_about_it():
    desk = Desk(*looks(8), "Found.")
    await desk.ask()
    kinds = [type(event) for event in desk.heard if isinstance(event, DecisionMade | ContextMeasured)]
    assert kinds[kinds.index(DecisionMade) + 1] is ContextMeasured
    measures = [event.fill.total for event in desk.heard if isinstance(event, ContextMeasured)]
    assert desk.decisions[0].after in measures


async def test_a_failing_summariser_is_tried_twice_told_once_and_left_alone_until_there_is_more():
    failing = [ProviderError("The summariser is out.")] * 9
    desk = Desk(*looks(8), "Found.", summaries=failing, measures=Measures(least=0.9), size=4_600)
    assert (await desk.ask()).reason == "done"
    told = [e.text for e in desk.heard if isinstance(e, Notice)]
    assert told[0] == "The summary could not be had: The summariser is out. Nothing has changed."
    assert len(desk.summariser.requests) == 2 * len(told)
    assert len(told) < 4


async def test_without_a_summariser_everything_still_fits():
    desk = Desk(*looks(40), "Found.", summaries=())
    assert (await desk.ask()).reason == "done"
    assert max(turn.fill.share for turn in desk.account.turns) < 1.0


async def test_in_need_the_oldest_messages_are_left_out_and_that_is_said():
    talk = [say("word " * 300) if n % 2 else say(call("look", n=n, size=1)) for n in range(40)]
    desk = Desk(*talk, summaries=())
    for n in range(12):
        assert (await desk.ask(f"Go on with {n}. {'please ' * 40}")).reason == "done"
    assert any("were left out" in decision.why for decision in desk.decisions)
    assert max(turn.fill.share for turn in desk.account.turns) < 1.0


async def test_one_result_larger_than_the_window_is_cut_before_it_is_sent():
    desk = Desk(say(call("dump", n=40)), "Found.")
    assert (await desk.ask()).reason == "done"
    assert desk.decisions[0].why.startswith("A single result had more than 1,750 tokens")
    assert max(turn.fill.share for turn in desk.account.turns) < 1.0


async def test_what_is_fixed_and_too_big_ends_the_run_with_one_sentence_and_nothing_is_sent():
    desk = Desk("Never said.")
    outcome = await desk.ask("please " * 6_000)
    assert outcome.reason == "error"
    assert "the largest part that must stay is a request of yours" in outcome.detail
    assert desk.model.requests == []
    assert (await desk.ask("Short.")).reason == "error"  # the long one is still the first of the conversation


async def test_pinned_messages_are_never_touched_and_named_when_they_take_the_room():
    desk = Desk(*looks(4), "Found.", "Never said.")
    await desk.ask()
    results = [message for message in desk.run.transcript.messages if message.role == "tool"]
    desk.run.append(Decision("you", "keep", pins=tuple(message.id for message in results)))
    desk.account.learn(1_500)
    outcome = await desk.ask("Look on.")
    assert set(results) <= set(desk.run.transcript.live())
    assert "the largest part that must stay is what you pinned" in outcome.detail


async def test_what_a_person_brought_back_stays():
    desk = Desk(*looks(8), "Found.", *looks(4), "Again.")
    await desk.ask()
    desk.run.append(Decision("you", "bring it back", undoes=desk.decisions[0].id))
    back = set(desk.decisions[0].changes)
    await desk.ask("Look on.")
    later = [decision for decision in desk.decisions[2:] if decision.by == "mask"]
    assert later
    assert all(back.isdisjoint(decision.changes) for decision in later)


async def test_a_person_who_is_asked_first_can_say_no():
    asked = []

    async def no(decision):
        asked.append(decision)
        return False

    desk = Desk(*looks(7), "Found.", ask=no)
    assert (await desk.ask()).reason == "done"
    assert asked[0].after < asked[0].before
    assert desk.decisions == []
    assert Notice("You kept the context as it was.") in desk.heard


async def test_who_has_said_no_is_not_asked_again_before_there_is_more_however_full_it_is():
    desk, asked = Desk(), []

    async def no(decision):
        asked.append(decision)
        return False

    desk.relief = Relief(desk.account, desk.summariser, Measures(least=0.1, patience=0.5), ask=no)
    calls = [assistant(ToolCall(str(n), "look")) for n in range(6)]
    given = [Message("tool", (ToolResult(str(n), (Text(PAGE),)),)) for n in range(6)]
    run = Run(Transcript([user("Go."), *(m for pair in zip(calls, given, strict=True) for m in pair)]))
    request = Request("x " * 1_600, run.transcript.live())
    assert 0.95 < (await desk.account.measure(request)).share < 1.0
    await desk.relief(request, run)
    await desk.relief(request, run)
    assert len(asked) == 1
    await desk.relief.mask(request, run)
    assert len(asked) == 2


async def test_in_need_what_a_person_brought_back_is_left_out_before_the_run_ends():
    desk = Desk("Found.", summaries=())
    long = [assistant(PAGE * 2) for _ in range(8)]
    desk.run.transcript.append(user("First."))
    for message in long:
        desk.run.transcript.append(message)
    gone = Decision("compact", "why", {message.id: () for message in long})
    desk.run.append(gone)
    desk.run.append(Decision("you", "bring it back", undoes=gone.id))
    assert (await desk.ask()).reason == "done"


async def test_what_takes_the_room_is_named_for_what_it_is():
    desk = Desk("Found.", summaries=())
    said = assistant(PAGE * 10)
    desk.run.transcript.append(user("First."))
    desk.run.transcript.append(said)
    desk.run.append(Decision("you", "pin", pins=(said.id,)))
    assert "must stay is what you pinned" in (await desk.ask()).detail
    fresh = Desk("Found.", summaries=())
    fresh.run.transcript.append(assistant(ToolCall("c", "look", '{"n": "' + PAGE * 10 + '"}')))
    fresh.run.transcript.append(Message("tool", (ToolResult("c", (Text("x"),)),)))
    assert "must stay is one turn of the model's" in (await fresh.agent.run(None, fresh.run)).detail


async def test_where_the_provider_clears_by_itself_nothing_is_masked_here_until_it_is_nearly_full():
    desk = Desk(*looks(4), "Found.", clears=True, summaries=(), size=3_300)
    await desk.ask()
    assert desk.decisions == []


async def test_what_the_provider_has_not_brought_below_red_in_one_request_is_summarised_in_the_next():
    desk = Desk(*looks(19, size=20), "Found.", clears=True)
    await desk.ask()
    red = [turn.fill.state for turn in desk.account.turns].index("red")
    assert [decision.by for decision in desk.decisions] == ["compact"]
    assert desk.account.turns[red + 1].fill.state == "green"


async def test_too_large_for_the_provider_room_is_made_once_and_the_window_learnt():
    fault = ProviderError("prompt is too long", overflow=True, window=2_600)
    desk = Desk(*looks(6), fault, "Found.", size=400_000, measures=Measures(least=0.1))
    assert (await desk.ask()).reason == "done"
    assert desk.account.window.size == 2_600
    assert desk.account.turns[-1].fill.share < 1.0
    assert desk.decisions


async def test_where_we_count_far_too_little_the_providers_refusal_holds_and_room_is_made():
    fault = ProviderError("prompt is too long", overflow=True, window=30_000)
    desk = Desk(*looks(6), fault, "Found.", size=60_000, summaries=())
    assert (await desk.ask()).reason == "done"
    assert [decision.by for decision in desk.decisions] == ["mask"]


async def test_the_window_of_a_model_that_only_took_over_is_not_taken_for_the_first_models():
    desk = Desk("Found.", size=200_000)
    first = scripted(ProviderError("down", retryable=True), "Found.")
    second = scripted(ProviderError("too long", overflow=True, window=2_600), "Found.")
    layers = measured(desk.account), refitted(desk.relief), falling_back(second)
    agent = Agent(layered(first, *layers), prepare=(desk.relief,))
    earlier = [message for n in range(12) for message in (user(PAGE[:900]), assistant(PAGE[:900]))]
    outcome = await agent.run("On.", Run(Transcript(earlier)))
    assert outcome.reason == "done"
    assert desk.account.window.size == 200_000


async def test_too_large_twice_is_an_error_in_the_providers_words():
    fault = ProviderError("prompt is too long", overflow=True)
    desk = Desk(*looks(6), fault, fault, size=400_000)
    outcome = await desk.ask()
    assert (outcome.reason, outcome.detail) == ("error", "prompt is too long")


async def test_a_throttled_request_is_not_taken_for_one_that_is_too_large():
    desk = Desk(*looks(6), ProviderError("slow down", status=429, retryable=True), size=400_000)
    assert (await desk.ask()).detail == "slow down"
    assert desk.decisions == []


async def test_masking_and_summarising_can_be_asked_for_at_any_time():
    desk = Desk(*looks(6), "Found.", size=400_000)
    await desk.ask()
    request = Request("Look.", desk.run.transcript.live())
    assert (await desk.relief.mask(request, desk.run)).why == "You asked, so 3 old tool results were masked."
    assert await desk.relief.mask(request, desk.run) is None
    made = await desk.relief.compact(request, desk.run)
    assert made.why == "You asked, so 10 earlier messages were summarised."
    with pytest.raises(NotCompactedError, match="nothing new"):
        await desk.relief.compact(request, desk.run)


async def test_a_stop_while_the_summary_is_written_changes_nothing():
    desk = Desk(*looks(12), "Found.", measures=Measures(least=0.9))
    before = []

    def stopping(request):
        before.append(desk.run.transcript.live())
        desk.run.stop()
        return "Too late."

    desk.summariser.turns = (stopping,)
    assert (await desk.ask()).reason == "interrupted"
    assert desk.decisions == []
    assert desk.run.transcript.live()[: len(before[0])] == before[0]


def test_a_small_window_gives_each_result_a_small_portion_and_one_unknown_does_not():
    def account(size):
        return Account(Window(size, size // 8, source="configuration"), COUNTER)

    assert [portion(account(size)) for size in (4_000, 60_000, 400_000)] == [2_000, 7_875, 52_500]
    assert portion(Account(Window(), COUNTER)) is None


async def test_the_portion_reaches_what_keeps_long_outputs():
    seen = []

    async def keeper(call_, run, proceed):
        seen.append(call_.spec.limit)
        return await proceed(call_)

    desk = Desk(say(call("dump", n=2)), "Found.", size=60_000)
    agent = Agent(desk.model, Toolbox([dump]), gates=(portioned(desk.account), keeper))
    await agent.run("Go.")
    assert seen == [7_875]


async def test_in_a_small_window_a_long_output_is_read_on_piece_by_piece_under_one_name():
    account, outputs, run = Account(Window(8_192, 2_048), COUNTER), Outputs(), Run()
    dispatch = Toolbox([dump, outputs.reader]).dispatch(portioned(account), spilled(outputs))
    result, read = await dispatch(ToolCall("a", "dump", '{"n": 6}'), run), ""
    offset = 0
    while offset is not None:
        asked = {"id": "out-1", "offset": offset}
        result = await dispatch(ToolCall("b", "read_output", json.dumps(asked)), run)
        piece, footer = result.text.rsplit("\n[", 1)
        assert len(result.text) <= 2_000
        read += piece
        offset = int(footer.rsplit("offset=", 1)[1].rstrip(")]")) if "to go on" in footer else None
    assert read == PAGE * 6


async def test_the_cost_of_deciding_is_part_of_the_runs_usage():
    summary = say("The pear was on page 2.", usage=Usage(1_000, 50))
    desk = Desk(*looks(7), "Found.", measures=Measures(least=0.9), summaries=[summary] * 5)
    outcome = await desk.ask()
    turns = sum((turn.usage for turn in desk.account.turns), Usage())
    assert outcome.usage.input - turns.input == 1_000 * len(desk.decisions) > 0
