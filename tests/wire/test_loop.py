"""Whole runs over each wire: what may not run does not, what failed is asked again, and the record stays sendable."""

import asyncio
import json

import pytest
from wire.peer import Chunks, Peer
from wire.speech import WIRES, ask, say, spoken, sse, think

from harness_nb.agent import Agent, Limits
from harness_nb.encoding import decode, encode
from harness_nb.events import TurnRestarted
from harness_nb.messages import Transcript
from harness_nb.providers.retry import RetryPolicy, retrying
from harness_nb.seams import Run, layered
from harness_nb.tools import Toolbox, tool

every_wire = pytest.mark.parametrize("wire", WIRES)
DONE = [say("Done.")]


class Counter:
    """Tools that count how often their bodies ran."""

    def __init__(self):
        self.ran = []

    @property
    def box(self):
        @tool
        def write(path: str, content: str = "") -> str:
            """Write."""
            self.ran.append(path)
            return "written"

        @tool
        def now() -> str:
            """Tell the time."""
            self.ran.append("now")
            return "noon"

        return Toolbox([write, now])


async def run_over(wire, *turns, **options):
    """A run whose turns are `(blocks, stop)` or bytes; the outcome, the peer, and what ran."""
    bodies = [turn if isinstance(turn, bytes | Chunks | Exception) else spoken(wire, *turn) for turn in turns]
    peer, counter = Peer(wire, bodies), Counter()
    outcome = await Agent(peer.model, counter.box, **options).run("go")
    return outcome, peer, counter.ran


def sent_arguments(wire, body):
    """The arguments of each call in a request, as the provider would read them."""
    if wire == "anthropic":
        return [b["input"] for m in body["messages"] for b in m["content"] if b["type"] == "tool_use"]
    if wire == "openai":
        return [json.loads(item["arguments"]) for item in body["input"] if item["type"] == "function_call"]
    return [json.loads(c["function"]["arguments"]) for m in body["messages"] for c in m.get("tool_calls", ())]


@every_wire
@pytest.mark.parametrize(
    ("raw", "stop"),
    [
        ('{"path": "n.txt", "content": "abc', "length"),
        ('{"path":"n.txt"', "length"),
        ('{"path":"n.txt"}', "length"),
        ('{"path":"n.txt"', "calls"),
        ('{"path": nowhere}', "calls"),
        ('{"path":"n.txt"}{"path":"n.txt"}', "calls"),
        ("[" * 50_000, "calls"),
        ('{"path":1e999}', "calls"),
    ],
)
async def test_a_cut_or_broken_call_never_runs(wire, raw, stop):
    outcome, peer, ran = await run_over(wire, ([ask("write", raw)], stop), (DONE,))
    assert ran == []
    assert (outcome.reason, outcome.text) == ("done", "Done.")
    assert outcome.transcript.messages[2].results[0].is_error
    assert all(isinstance(given, dict) for given in sent_arguments(wire, peer.sent[1]))


@every_wire
@pytest.mark.parametrize("raw", ["", " ", "null", "{}"])
async def test_a_tool_without_parameters_is_called_however_its_arguments_come(wire, raw):
    outcome, peer, ran = await run_over(wire, ([ask("now", raw)], "calls"), (DONE,))
    assert (ran, outcome.reason) == (["now"], "done")
    assert sent_arguments(wire, peer.sent[1]) == [{}]


@every_wire
async def test_a_missing_argument_is_named(wire):
    outcome, _, ran = await run_over(wire, ([ask("write", "")], "calls"), (DONE,))
    assert ran == []
    assert "path: missing" in outcome.transcript.messages[2].results[0].text


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
async def test_calls_run_though_the_server_says_stop(wire):
    outcome, _, ran = await run_over(wire, ([ask("write", '{"path":"x"}')], "end"), (DONE,))
    assert (ran, outcome.reason) == (["x"], "done")


@every_wire
async def test_an_unknown_tool_is_answered_and_replayed_under_a_name_that_passes(wire):
    outcome, peer, ran = await run_over(wire, ([ask("search<|x|>y", "{}")], "calls"), (DONE,))
    assert (ran, outcome.reason) == ([], "done")
    assert "The tools are: now, write" in outcome.transcript.messages[2].results[0].text
    assert "<|x|>" not in json.dumps(peer.sent[1]["input" if wire == "openai" else "messages"][1])


@every_wire
async def test_a_refusal_ends_the_run_with_its_reason(wire):
    outcome, peer, _ = await run_over(wire, ([say("")], "refusal"))
    assert (outcome.reason, len(peer.sent)) == ("refused", 1)


async def test_a_refusals_own_words_are_told():
    details = {
        "stop_reason": "refusal",
        "stop_details": {"category": "cyber", "explanation": "Against policy."},
    }
    body = sse("anthropic", [{"type": "message_delta", "delta": details}, {"type": "message_stop"}])
    outcome, _, _ = await run_over("anthropic", body)
    assert (outcome.reason, outcome.detail) == ("refused", "Against policy.")


async def test_a_paused_turn_goes_on():
    outcome, peer, _ = await run_over("anthropic", ([say("Searching.")], "pause"), (DONE,))
    assert (outcome.reason, outcome.text) == ("done", "Done.")
    assert peer.sent[1]["messages"][-1]["role"] == "assistant"


@every_wire
@pytest.mark.parametrize("blocks", [[say("Hel")], [ask("write", '{"path":"x"}')], []])
async def test_a_cut_turn_is_asked_again_and_nothing_of_it_stays(wire, blocks):
    peer, counter, heard = Peer(wire, [spoken(wire, blocks, cut=True), spoken(wire, DONE)]), Counter(), []
    model = layered(peer.model, retrying(RetryPolicy(shortest=0, longest=0)))
    outcome = await Agent(model, counter.box).run("go", Run(listener=heard.append))
    assert (outcome.reason, outcome.text, counter.ran) == ("done", "Done.", [])
    assert any(isinstance(event, TurnRestarted) for event in heard) == bool(blocks)


@every_wire
async def test_a_turn_that_never_ends_well_is_not_stored(wire):
    outcome, _, _ = await run_over(wire, spoken(wire, [say("Hel")], cut=True))
    assert (outcome.reason, len(outcome.transcript.messages)) == ("error", 1)
    assert "broke off its answer" in outcome.detail


@every_wire
async def test_an_interrupted_call_never_reaches_the_record(wire):
    streaming = asyncio.Event()

    async def hang():
        streaming.set()
        await asyncio.Event().wait()

    half = spoken(wire, [say("I will."), ask("write", '{"path":')], cut=True)
    peer, run = Peer(wire, [Chunks(half.rpartition(b"data:")[0], hang), spoken(wire, DONE)]), Run()
    agent = Agent(peer.model, Counter().box)
    task = asyncio.create_task(agent.run("go", run))
    await streaming.wait()
    run.stop()
    outcome = await task
    assert outcome.reason == "interrupted"
    assert outcome.transcript.messages[-1].calls == ()
    again = Transcript(decode(json.loads(json.dumps(encode(entry)))) for entry in outcome.transcript.entries)
    assert (await agent.run("go on", Run(again))).text == "Done."


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_thinking_survives_the_run_and_a_reload(wire):
    blocks = [think("ab", "c"), ask("now", "{}")]
    peer, counter = (
        Peer(wire, [spoken(wire, blocks, "calls"), spoken(wire, DONE), spoken(wire, DONE)]),
        Counter(),
    )
    agent = Agent(peer.model, counter.box)
    outcome = await agent.run("go")
    again = Transcript(decode(json.loads(json.dumps(encode(entry)))) for entry in outcome.transcript.entries)
    await agent.run("more", Run(again))
    key, at = ("input", 1) if wire == "openai" else ("messages", 1)
    thought = [body[key][at] if wire == "openai" else body[key][at]["content"][0] for body in peer.sent[1:]]
    assert thought[0] == thought[1]
    assert "S1" in json.dumps(thought[0])


@every_wire
async def test_a_model_that_is_always_cut_ends_as_incomplete(wire):
    outcome, peer, _ = await run_over(wire, *[([say("abc")], "length")] * 5, limits=Limits(nudges=2))
    assert (outcome.reason, outcome.text, len(peer.sent)) == ("incomplete", "abcabcabc", 3)
