"""Line 1, public bug report R04: a run that is interrupted in a tool, saved, and reloaded from disk sends what it would have sent anyway."""

import asyncio
import json
import shutil

import pairing
import pytest
from wire.peer import Chunks, Peer
from wire.speech import ask, say, spoken

from harness_nb.agent import NEVER_RAN, Agent
from harness_nb.events import ToolFinished
from harness_nb.messages import INTERRUPTED
from harness_nb.ops.journal import Journal, Origin
from harness_nb.ops.jsonl import JsonlStore
from harness_nb.ops.once import once
from harness_nb.ops.resume import settle
from harness_nb.seams import Run
from harness_nb.tools import Toolbox, tool

WIRES = "anthropic", "openai", "chat"
TURN = [
    say("I will."),
    ask("fetch", '{"at": "A"}', as_id="call_A"),
    ask("fetch", '{"at": ', '"B"}', as_id="call_B"),
]
STARTED = "The tool had started and may have had an effect"


class Exact(Peer):
    """Keeps the bytes of each request, too."""

    def _answer(self, request):
        self.bytes = request.content
        return super()._answer(request)


class Scene:
    """A run in which A is fetched at once and B never; it is stopped at the moment that the case names."""

    def __init__(self, wire, folder, *, before=False, streaming=False):
        self.wire, self.folder = wire, folder
        self.moment, self.before = asyncio.Event(), before
        body = spoken(wire, TURN, "calls")
        if streaming:
            half, _, _ = body.partition(json.dumps('"B"}').encode())
            body = Chunks(half[: half.rindex(b"\n\n") + 2], self.hang)
        self.peer = Exact(wire, [body, spoken(wire, [say("Done.")])])

    async def hang(self):
        self.moment.set()
        await asyncio.Event().wait()

    @property
    def agent(self):
        @tool(effects={"network"})
        async def fetch(at: str) -> str:
            """Fetch."""
            if at == "B":
                await asyncio.Event().wait()
            return f"result {at}"

        async def waits(called, run, proceed):
            if self.before:
                await self.hang()
            return await proceed(called)

        return Agent(self.peer.model, Toolbox([fetch]), gates=(once, waits))

    async def interrupted(self):
        """Run until that moment; keep a copy of the disk, as a crash would leave it; stop; return the transcript."""
        journal = Journal(JsonlStore(self.folder / "kept").open("main"))
        journal.origin = Origin("go")

        def hear(event):
            journal(event)
            if isinstance(event, ToolFinished):
                self.moment.set()

        run = Run(journal.history.transcript(), hear)
        task = asyncio.create_task(self.agent.run("go", run))
        await self.moment.wait()
        await asyncio.sleep(0.01)
        shutil.copytree(self.folder / "kept", self.folder / "crashed")
        run.stop()
        assert (await task).reason == "interrupted"
        journal.close()
        return run.transcript

    async def gone_on(self, transcript, listener=lambda event: None):
        """Say "go on" there; return the request as bytes, and the conversation in it."""
        self.before = False
        peer = self.peer = Exact(self.wire, [spoken(self.wire, [say("Done.")])])
        assert (await self.agent.run("go on", Run(transcript, listener))).text == "Done."
        assert pairing.faults(transcript.live()) == []
        return peer.bytes, peer.sent[0]["input" if self.wire == "openai" else "messages"]

    async def reloaded(self, folder):
        """Go on from what is on disk, as the next process would."""
        journal = Journal(JsonlStore(self.folder / folder).open("main"))
        transcript = journal.history.transcript()
        settle(transcript, journal)
        sent = await self.gone_on(transcript, journal)
        journal.close()
        return sent


def answers(wire, turns):
    """What follows the calls in a request: the results, each with its call's id, and then the prompt."""
    if wire == "anthropic":
        *_, asked, last = turns
        assert [block["type"] for block in asked["content"]] == ["text", "tool_use", "tool_use"]
        blocks = [(b.get("tool_use_id"), flat(b.get("content", b.get("text")))) for b in last["content"]]
        assert [b.get("is_error") for b in last["content"]][1] is True
        return blocks
    if wire == "openai":
        after = turns[next(n for n, item in enumerate(turns) if item.get("type") == "function_call_output") :]
        return [(item.get("call_id"), flat(item.get("output", item.get("content")))) for item in after]
    after = turns[next(n for n, turn in enumerate(turns) if turn["role"] == "tool") :]
    return [(turn.get("tool_call_id"), flat(turn["content"])) for turn in after]


def flat(content):
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@pytest.mark.parametrize("wire", WIRES)
async def test_b_is_interrupted_while_it_runs(wire, tmp_path):
    scene = Scene(wire, tmp_path)
    transcript = await scene.interrupted()
    reloaded, turns = await scene.reloaded("kept")
    (a, real), (b, told), (_, prompt) = answers(wire, turns)
    assert (a, real, b, prompt) == ("call_A", "result A", "call_B", "go on")
    assert STARTED in told
    assert (await scene.gone_on(transcript))[0] == reloaded


@pytest.mark.parametrize("wire", WIRES)
async def test_the_interrupt_comes_before_a_starts(wire, tmp_path):
    scene = Scene(wire, tmp_path, before=True)
    transcript = await scene.interrupted()
    reloaded, turns = await scene.reloaded("kept")
    (a, first), (b, second), (_, prompt) = answers(wire, turns)
    assert (a, b, prompt) == ("call_A", "call_B", "go on")
    assert first == second
    assert first.endswith(NEVER_RAN)
    assert (await scene.gone_on(transcript))[0] == reloaded


@pytest.mark.parametrize("wire", WIRES)
async def test_the_interrupt_comes_while_the_arguments_of_b_are_streamed(wire, tmp_path):
    scene = Scene(wire, tmp_path, streaming=True)
    transcript = await scene.interrupted()
    reloaded, turns = await scene.reloaded("kept")
    assert "call_" not in json.dumps(turns)
    assert "I will." in json.dumps(turns)
    assert (await scene.gone_on(transcript))[0] == reloaded


@pytest.mark.parametrize("wire", WIRES)
async def test_instead_the_process_dies_while_b_runs(wire, tmp_path):
    scene = Scene(wire, tmp_path)
    await scene.interrupted()
    shutil.copytree(tmp_path / "crashed", tmp_path / "again")
    first, turns = await scene.reloaded("crashed")
    (a, real), (b, told), (_, prompt) = answers(wire, turns)
    assert (a, real, b, prompt) == ("call_A", "result A", "call_B", "go on")
    assert told.endswith(INTERRUPTED)
    assert (await scene.reloaded("again"))[0] == first
