"""A recording plays the same run again, and says plainly what no longer fits."""

import os

import pytest
from hypothesis import given, settings, strategies as st

from harness_nb.agent import Agent
from harness_nb.errors import ProviderError, UsageError
from harness_nb.events import CallDelta, Notice, TextDelta, ThinkingDelta, TurnRestarted
from harness_nb.messages import Image, Message, Text, Thinking, ToolCall, Usage, assistant, user
from harness_nb.providers.recorded import Recorded, recording
from harness_nb.providers.retry import retrying
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.providers.tape import Take, line, load, marks
from harness_nb.seams import Reply, Request, Run, ToolSpec, layered
from harness_nb.tools import Toolbox, tool

DELTAS = TextDelta | ThinkingDelta | CallDelta


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def other() -> None:
    """Do other things."""


def script():
    return scripted(
        say(Thinking("Sum.", "SIG", "v"), "I add.", call("add", a=1, b=2), usage=Usage(10, 5, 2)), "It is 3."
    )


async def ask(model, prompt="1 + 2?", *, tools=(add,), instructions="Be brief.", run=None):
    heard = []
    run = run or Run(listener=heard.append)
    return await Agent(model, Toolbox(tools), instructions).run(prompt, run), heard


async def record(path, model=None, *layers, prompt="1 + 2?"):
    return await ask(layered(model or script(), recording(path), *layers), prompt)


def said(transcript):
    return [(message.role, message.parts) for message in transcript.messages]


async def test_a_replay_is_the_run_again_deltas_and_all(tmp_path):
    live, heard_live = await record(tmp_path / "r.jsonl")
    replayed, heard = await ask(Recorded(tmp_path / "r.jsonl"))
    assert said(replayed.transcript) == said(live.transcript)
    assert (replayed.text, replayed.usage, replayed.reason) == (live.text, live.usage, "done")
    assert [e for e in heard if isinstance(e, DELTAS)] == [e for e in heard_live if isinstance(e, DELTAS)]


async def test_the_same_run_makes_the_same_file(tmp_path):
    for name in ("one", "two"):
        await record(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


async def test_a_replay_can_be_run_again_on_the_same_model_with_new_message_ids(tmp_path):
    await record(tmp_path / "r.jsonl")
    model = Recorded(tmp_path / "r.jsonl")
    (one, _), (two, _) = await ask(model), await ask(model)
    assert said(one.transcript) == said(two.transcript)
    assert not {m.id for m in one.transcript.messages} & {m.id for m in two.transcript.messages}


async def test_recorded_last_it_keeps_each_attempt_and_recorded_first_what_was_seen(tmp_path):
    async def no_wait(_):
        pass

    async def breaking(request, run):
        await scripted("Hel")(request, run)
        raise ProviderError("Busy.", status=529, retryable=True, retry_after=2)

    attempts = iter([breaking, scripted("Hello.")])

    async def model(request, run):
        return await next(attempts)(request, run)

    seen, each = recording(tmp_path / "seen"), recording(tmp_path / "each")
    await ask(layered(model, seen, retrying(sleep=no_wait), each))
    assert [str(take.end) for take in load(tmp_path / "each")[0][:1]] == ["Busy."]
    assert [take.stream for take in load(tmp_path / "seen")[0]] == [(TextDelta("Hello."),)]
    replayed, heard = await ask(layered(Recorded(tmp_path / "each"), retrying(sleep=no_wait)))
    assert replayed.text == "Hello."
    assert any(isinstance(event, TurnRestarted) for event in heard)


async def test_a_recorded_error_is_raised_with_all_its_facts(tmp_path):
    fault = ProviderError("Busy.", status=429, code="x", retryable=True, retry_after=2.5)
    await record(tmp_path / "r.jsonl", scripted(fault))
    replayed, _ = await ask(Recorded(tmp_path / "r.jsonl"))
    assert (str(replayed.error), vars(replayed.error)) == ("Busy.", vars(fault))


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"instructions": "Be long."}, "the instructions: it was “Be brief.” and is “Be long.”"),
        ({"prompt": "2 + 2?"}, "message 1 (user): it was “1 + 2?” and is “2 + 2?”"),
        ({"prompt": "1 + 2? "}, "it begins “1 + 2?” as recorded and then differs"),
        ({"tools": ()}, "tool `add`: it was “Add two numbers.” and is not there"),
        ({"tools": (add, other)}, "tool `other`: it was not there and is “Do other things.”"),
    ],
)
async def test_a_run_that_differs_is_told_where(tmp_path, change, where):
    await record(tmp_path / "r.jsonl")
    outcome, _ = await ask(Recorded(tmp_path / "r.jsonl"), **change)
    assert outcome.detail.startswith("The recording r.jsonl doesn't fit this run at ")
    assert where in outcome.detail


async def test_a_tool_that_answers_otherwise_is_told_apart_at_its_message(tmp_path):
    @tool(name="add")
    def wrong(a: int, b: int) -> int:
        """Add two numbers."""
        return a * b

    await record(tmp_path / "r.jsonl")
    outcome, _ = await ask(Recorded(tmp_path / "r.jsonl"), tools=[wrong])
    assert "at message 3 (tool): it was “3” and is “2”" in outcome.detail


async def test_a_run_that_goes_on_is_told_that_the_recording_is_over(tmp_path):
    await record(tmp_path / "r.jsonl")
    model = Recorded(tmp_path / "r.jsonl")
    first, _ = await ask(model)
    more, _ = await ask(model, "And 4?", run=Run(first.transcript))
    assert "r.jsonl is over after 2 model calls" in more.detail
    assert said(more.transcript)[:4] == said(first.transcript)[:4]


async def test_a_recording_that_was_cut_off_plays_up_to_there(tmp_path):
    path = tmp_path / "r.jsonl"
    await record(path)
    path.write_bytes(path.read_bytes()[:-40])
    outcome, _ = await ask(Recorded(path))
    assert "was cut off after 1 model call, and" in outcome.detail
    assert outcome.transcript.messages[-1].results[0].text == "3"


@pytest.mark.parametrize("content", [b"", b"hello\n", b"{}\n", b"\xff\xfe\x00", b'{"harness_nb": "rec'])
def test_what_is_no_recording_is_said_to_be_none(tmp_path, content):
    (tmp_path / "r.jsonl").write_bytes(content)
    with pytest.raises(UsageError, match="recording"):
        Recorded(tmp_path / "r.jsonl")


async def test_a_damaged_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "r.jsonl"
    await record(path)
    path.write_text(path.read_text().replace('"kept"', '"kapt"', 1))
    with pytest.raises(UsageError, match=r"Line 2 of the recording .* is damaged"):
        Recorded(path)


def test_a_missing_recording_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match="There is no recording"):
        Recorded(tmp_path / "none.jsonl")


async def test_recording_replaces_a_recording_and_nothing_else(tmp_path):
    path, notes = tmp_path / "r.jsonl", tmp_path / "notes.txt"
    notes.write_text("mine")
    await record(path, scripted("Old."))
    await record(path, scripted("New."))
    assert (await ask(Recorded(path)))[0].text == "New."
    for wrong in (notes, tmp_path, tmp_path / "none" / "r.jsonl"):
        with pytest.raises(UsageError, match="Can't record"):
            recording(wrong)


async def test_a_fault_of_the_disk_is_a_notice_and_the_run_goes_on(tmp_path):
    (tmp_path / "f").mkdir()
    layer = recording(tmp_path / "f" / "r.jsonl")
    (tmp_path / "f").rmdir()
    outcome, heard = await ask(layered(scripted("Hello."), layer))
    assert outcome.text == "Hello."
    assert any(isinstance(e, Notice) and e.text.startswith("A model call was not recorded") for e in heard)


async def test_no_key_gets_into_a_recording(tmp_path):
    key = "sk-not-a-real-key-0123456789"
    os.environ["SOME_API_KEY"] = key
    try:
        await record(tmp_path / "r.jsonl", scripted(f"Yours is {key}."), prompt=f"I use {key}")
        await record(tmp_path / "e.jsonl", scripted(ProviderError(f"Bad key {key}.")))
        replayed, _ = await ask(Recorded(tmp_path / "r.jsonl"), f"I use {key}")
    finally:
        del os.environ["SOME_API_KEY"]
    assert replayed.text == "Yours is [key]."
    assert key not in (tmp_path / "r.jsonl").read_text() + (tmp_path / "e.jsonl").read_text()


async def test_a_long_conversation_is_not_written_again_with_each_call(tmp_path):
    count = 40
    turns = [say(call("add", a=n, b=n)) for n in range(count)]
    await record(tmp_path / "r.jsonl", scripted(*turns, "Done."))
    lines = (tmp_path / "r.jsonl").read_text().splitlines()
    assert len(lines[count]) <= len(lines[3]) * 1.2


texts = st.text()
parts = st.one_of(
    st.builds(Text, texts),
    st.builds(Thinking, texts, texts, texts),
    st.builds(ToolCall, texts, texts, texts),
    st.builds(Image, st.binary(), texts),
)
deltas = st.one_of(
    st.builds(TextDelta, texts), st.builds(ThinkingDelta, texts), st.builds(CallDelta, texts, texts, texts)
)


@settings(deadline=None)
@given(st.lists(parts).map(tuple), st.lists(deltas).map(tuple), st.lists(parts).map(tuple))
def test_any_call_is_read_back_as_it_was(tmp_path_factory, asked, stream, answered):
    path = tmp_path_factory.mktemp("any") / "r.jsonl"
    before = marks(Request("", (user("hi"),)))
    after = marks(Request("", (user("hi"), Message("assistant", asked))))
    reply = Reply(assistant(*answered), Usage(1, 2), "other", "odd")
    header = '{"harness_nb": "recording", "version": 1}'
    path.write_text(
        "\n".join([header, line(Take(before, (), reply), ()), line(Take(after, stream, reply), before), ""])
    )
    takes, cut = load(path)
    assert not cut
    assert (takes[1].asked, takes[1].stream) == (after, stream)
    assert takes[1].end.message.parts == answered


def test_marks_leave_out_ids_and_times_and_nothing_else():
    spec = ToolSpec("t", "Does.", {"type": "object"})
    request = Request("i", (assistant("a", ToolCall("1", "t")),), (spec,), 5)
    again = Request("i", (assistant("a", ToolCall("2", "t")),), (spec,), 5)
    assert marks(request) == marks(again)
    for other in (
        Request("j", request.messages, (spec,), 5),
        Request("i", (assistant("a", ToolCall("1", "u")),), (spec,), 5),
        Request("i", (Message("user", request.messages[0].parts),), (spec,), 5),
        Request("i", request.messages, (ToolSpec("t", "Does.", {"type": "array"}),), 5),
        Request("i", request.messages, (spec,), 6),
    ):
        assert marks(other) != marks(request)
