"""The usual agent: asked again when it fails, with a calculator and a file reader, and told the same words each time."""

import re

import pytest

from harness_nb.context.relief import Measures
from harness_nb.context.scratchpad import GUIDANCE
from harness_nb.errors import ProviderError, UsageError
from harness_nb.events import ModelSwitched, RetryWaiting
from harness_nb.messages import Image, Message, Text, ToolCall, ToolResult, Transcript, user
from harness_nb.providers.clearing import Clearing
from harness_nb.providers.scripted import Scripted, call, say, scripted
from harness_nb.recipes import INSTRUCTIONS, PINNED, Kit, Permit, Room, assistant
from harness_nb.results import bounded
from harness_nb.safety.trust import FENCE
from harness_nb.seams import Call, Request, Run, ToolSpec
from harness_nb.tools import tool


async def test_it_calculates_and_answers():
    model = scripted(
        say(call("calc", expression="6 * 7")), lambda request: request.messages[-1].results[0].text
    )
    outcome = await assistant(model).run("What is 6 times 7?")
    assert (outcome.reason, outcome.text) == ("done", "42")


async def test_it_reads_files_of_the_current_folder_and_no_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("Buy milk.")
    asks = [call("read_file", path="notes.txt"), call("read_file", path="/etc/passwd")]
    outcome = await assistant(scripted(say(*asks), "Done.")).run("What do my notes say?")
    inside, outside = outcome.transcript.messages[2].results
    assert "Buy milk." in inside.text
    assert outside.is_error


async def test_it_tries_again_by_itself():
    busy = ProviderError("Busy.", status=529, retryable=True, retry_after=0.01)
    heard = []
    outcome = await assistant(scripted(busy, "Hello.")).run("hi", Run(listener=heard.append))
    assert outcome.text == "Hello."
    assert any(isinstance(event, RetryWaiting) for event in heard)


async def test_another_model_can_stand_by():
    heard = []
    spent = ProviderError("No credit.", status=429, code="insufficient_quota")
    agent = assistant(scripted(spent), fallback=scripted("Hello.", name="second"))
    outcome = await agent.run("hi", Run(listener=heard.append))
    assert outcome.text == "Hello."
    assert [event.model for event in heard if isinstance(event, ModelSwitched)] == ["second"]


def test_a_tool_of_mine_replaces_one_of_ours_and_others_are_added():
    @tool
    def calc(expression: str) -> str:
        """Guess."""
        return "43"

    @tool
    def mine() -> str:
        """Do mine."""
        return ""

    agent = assistant(scripted(), [calc, mine])
    assert [item.name for item in agent.tools][-3:] == ["calc", "mine", "search_tools"]
    assert "shell" in {item.name for item in agent.tools}
    assert "Guess." in {item.spec.description for item in agent.tools}


async def test_of_many_tools_it_is_told_of_ours_that_are_pinned_and_finds_mine_by_a_search():
    def stub(number):
        return tool(name=f"count_{number}", description="Count.")(lambda: "1")

    model = scripted(say(call("search_tools", query="count_7")), say(call("count_7")), "Seven.")
    outcome = await assistant(model, [stub(number) for number in range(50)]).run("hi")
    told = [{spec.name for spec in request.tools} for request in model.requests]
    assert {"calc", "shell", "search_tools"} <= told[0] <= {*PINNED, "search_tools"}
    assert "count_7" in told[1]
    assert (outcome.reason, outcome.text) == ("done", "Seven.")


class Searching(Scripted):
    """A model whose provider searches tools."""

    searches_tools = True


async def test_where_the_provider_searches_tools_all_are_sent_and_mine_are_deferred():
    mine = [tool(name=f"count_{n}", description="Count.")(lambda: "1") for n in range(50)]
    model = Searching(("Seven.",), 0.0, 12, "searching")
    await assistant(model, mine).run("hi")
    deferred = {spec.name for spec in model.requests[0].tools if spec.deferred}
    assert {item.name for item in mine} <= deferred
    assert deferred.isdisjoint(PINNED)
    assert "search_tools" not in {spec.name for spec in model.requests[0].tools}


async def test_few_tools_of_mine_are_told_of_however_small_the_window_is():
    @tool
    def mine() -> str:
        """Do mine."""
        return ""

    model = scripted("Yes.")
    await assistant(model, [mine], room=Room(window=20_000)).run("hi")
    told = {spec.name for spec in model.requests[0].tools}
    assert {"mine", "search_tools"} <= told
    assert "glob" not in told


def test_its_words_are_the_same_each_time_and_mine_follow():
    ours = f"{INSTRUCTIONS}\n{FENCE}\n{GUIDANCE}"
    assert assistant(scripted()).instructions == ours
    assert assistant(scripted(), instructions=" Be kind. ").instructions == f"{ours}\n\nBe kind."
    assert assistant(scripted(name="tiny · local, small")).instructions == f"{INSTRUCTIONS}\n{FENCE}"


def test_a_small_model_of_this_machine_gets_few_tools():
    agent = assistant(scripted(name="tiny · local, small"))
    assert [item.name for item in agent.tools] == ["calc", "read_file"]


async def test_what_asks_is_denied_where_there_is_nobody_to_ask_and_mode_auto_lets_it_run():
    @tool
    def launch() -> str:
        """Launch."""
        return "launched"

    async def launched(permit):
        outcome = await assistant(scripted(say(call("launch")), "ok"), [launch], permit=permit).run("go")
        return outcome.transcript.messages[2].results[0].text

    assert "was not run" in await launched(None)
    assert await launched(Permit("auto")) == "launched"
    assert "was not run" in await launched(Permit("auto", rules=("deny launch",)))


def test_it_goes_by_the_name_of_its_model():
    assert assistant(scripted(name="m"), fallback=scripted(name="n")).model.name == "m"


async def test_a_search_passes_over_what_a_rule_denies_to_be_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("open.txt", "secret.txt"):
        (tmp_path / name).write_text("the word\n")
    script = scripted(say(call("grep", pattern="word")), "Found.")
    agent = assistant(script, permit=Permit(rules=("deny read secret.txt",)))
    outcome = await agent.run("Find the word.")
    found = outcome.transcript.messages[2].results[0].text
    assert "open.txt" in found
    assert "secret.txt" not in found


def test_tools_of_the_place_we_are_in_are_for_models_that_can_hold_them():
    @tool
    def look():
        """Look round."""

    names = [
        {spec.name for spec in assistant(scripted(name=name), kit=Kit([look])).tools.specs}
        for name in ("big", "tiny · local, small")
    ]
    assert "look" in names[0]
    assert names[1] == {"calc", "read_file"}


def looking(turns, answer):
    """A script that reads a long file again and again in a small window."""
    return scripted(*[say(call("dump", n=n)) for n in range(turns)], answer, window=16_000)


@tool(effects={"read"})
def dump(n: int) -> str:
    """Give a page."""
    return f"page {n}: " + "twelve green apples and a pear " * 60


async def test_when_the_window_fills_up_old_results_are_masked_and_the_line_says_how_to_read_them_again():
    kit = Kit()
    outcome = await assistant(looking(20, "Read."), [dump], kit=kit).run("Read it all.")
    assert outcome.reason == "done"
    line = next(m.results[0].text for m in outcome.transcript.live() if m.role == "tool")
    assert line.startswith("[Masked to make room: dump n=0 gave about")
    assert 'To see it again: read_output(id="out-1", offset=0).]' in line
    assert kit.outputs.text("out-1").endswith(dump(0))


async def test_the_account_of_a_session_goes_on_from_run_to_run_and_starts_anew_with_another_model():
    kit = Kit()
    for name in ("a", "a", "b"):
        await assistant(scripted("Hello.", name=name, window=9_000), kit=kit).run("hi")
    assert [turn.model for turn in kit.account.turns] == ["a", "a", "b"]


def test_a_window_that_cannot_be_is_refused_before_anything_is_sent():
    with pytest.raises(UsageError, match="holds nothing"):
        assistant(scripted("Hello."), room=Room(window=0))
    with pytest.raises(UsageError, match="yellow comes first"):
        assistant(scripted("Hello."), room=Room(yellow=0.9, red=0.5))


async def test_notes_are_written_without_asking_into_the_sessions_own_folder_unless_a_rule_says_no(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    note = call("scratchpad_write", key="plan", text="Find the pear.")
    await assistant(scripted(say(note), "Noted."), kit=Kit(name="fruit basket")).run("Plan it.")
    assert (tmp_path / ".harness_nb/notes/fruit-basket/plan.txt").read_text() == "Find the pear."
    told = Permit(rules=("deny scratchpad_write",))
    outcome = await assistant(scripted(say(note), "No."), kit=Kit(name="other"), permit=told).run("Plan it.")
    assert outcome.transcript.messages[2].results[0].is_error
    assert not (tmp_path / ".harness_nb/notes/other").exists()


async def test_what_was_masked_or_said_long_ago_is_found_by_searching_the_history():
    ask = [say(call("search_history", query="quince")), "It was the quince."]
    kit, transcript = Kit(), Transcript()
    await assistant(scripted("I like the quince tree.", *["Yes."]), kit=kit).run("Which?", Run(transcript))
    outcome = await assistant(scripted(*ask), kit=kit).run("Which tree was it?", Run(transcript))
    assert "quince tree" in outcome.transcript.messages[-2].results[0].text


class Clearer:
    name, window, offers_clearing, clears = "c", 100_000, True, False

    async def __call__(self, request, run):
        return say("Hello.")


async def test_a_provider_that_clears_old_results_itself_is_told_when_to():
    run = Run()
    assert (await assistant(Clearer()).run("hi", run)).reason == "done"
    assert run.state[Clearing].trigger == int(0.9 * 0.8 * (100_000 - 8_192))


async def test_sessions_that_share_a_model_do_not_share_when_it_clears():
    model, runs = Clearer(), (Run(), Run())
    for run, size in zip(runs, (20_000, 100_000), strict=True):
        await assistant(model, room=Room(window=size)).run("hi", run)
    first, second = (run.state[Clearing].trigger for run in runs)
    assert first < 20_000 < second
    assert not model.clears


async def masked(result, kit):
    """The line that stands for a result once it is masked."""
    transcript = Transcript(
        [user("go"), Message("assistant", (ToolCall("c", "web"),)), Message("tool", (result,))]
    )
    assistant(scripted("Hello.", window=50_000), kit=kit, room=Room(measures=Measures(keep=0)))
    await kit.relief.mask(Request("", transcript.live()), Run(transcript))
    return transcript.live()[-1].results[0].text


async def test_words_in_a_result_do_not_lead_the_model_to_another_output():
    kit = Kit()
    mine = kit.outputs.keep("mine " * 9, Call("x", {}, ToolSpec("calc", "", {})))
    text = f'See read_output(id="{mine}", offset=0). ' + "theirs " * 400
    line = await masked(ToolResult("c", (Text(text),)), kit)
    assert mine not in line
    assert kit.outputs.text(re.findall("out-[0-9]+", line)[0]) == text
    kept = Text(bounded(text, 1_500, lambda _: f'to go on, read_output(id="{mine}", offset={{offset}})'))
    assert f'read_output(id="{mine}", offset=0)' in await masked(ToolResult("c", (kept,)), kit)


async def test_a_picture_that_was_masked_is_had_again_by_the_call():
    shot = ToolResult("c", (Text("here"), Image(b"\x89PNG" * 9, "image/png")))
    assert "Make the call again" in await masked(shot, Kit())
