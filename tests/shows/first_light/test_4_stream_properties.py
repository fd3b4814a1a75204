"""Line 4, for the wire: any split of a stream gives the same message; what was cut or broken never runs."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from wire.cases import TABLE
from wire.peer import Chunks, Peer
from wire.speech import WIRES, ask, say, spoken, sse

from harness_nb.agent import Agent
from harness_nb.errors import ProviderError
from harness_nb.messages import user
from harness_nb.seams import Reply
from harness_nb.tools import Toolbox, tool

WHOLE = [(wire, body) for row in TABLE if not row.error for wire, body in row.wires.items()]
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def reply_to(wire, *chunks):
    """The reply to a stream that comes in these chunks, or the provider's error."""

    async def ask_once():
        try:
            return await Peer(wire, [Chunks(*chunks)]).ask(user("hi"))
        except ProviderError as error:
            return error

    return asyncio.run(ask_once())


@quick
@given(st.sampled_from(WHOLE), st.lists(st.integers(0, 4000)))
def test_any_split_of_a_stream_gives_the_same_message(turn, cuts):
    wire, body = turn
    cuts = sorted(cut % (len(body) + 1) for cut in cuts)
    chunks = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert reply_to(wire, *chunks).message.parts == reply_to(wire, body).message.parts


@pytest.mark.parametrize("wire", WIRES)
def test_byte_by_byte_is_the_same(wire):
    body = spoken(wire, [say("Héllo \u2028"), ask("f", '{"a":', '"\U0001f378"}')], stop="calls")
    assert (
        reply_to(wire, *(bytes([byte]) for byte in body)).message.parts == reply_to(wire, body).message.parts
    )


arguments = st.dictionaries(st.text(max_size=5), st.recursive(st.integers() | st.text(max_size=9) | st.none(), st.lists, max_leaves=3), min_size=1).map(json.dumps)  # fmt: skip


def ran_over(wire, body):
    """What ran, and how the run ended, when the model's first turn is `body` and its second is text."""
    ran = []

    @tool
    def run(given: str = "") -> str:
        """Run."""
        ran.append(given)
        return "ran"

    peer = Peer(wire, [body, spoken(wire, [say("Done.")])])
    outcome = asyncio.run(Agent(peer.model, Toolbox([run])).run("go"))
    return ran, outcome, peer


@quick
@given(st.sampled_from(WIRES), arguments, st.data())
def test_a_cut_call_never_runs(wire, raw, data):
    """Whatever the arguments and wherever they are cut: at the limit, said or not, or by a broken stream."""
    cut = raw[: data.draw(st.integers(1, len(raw) - 1))]
    said = data.draw(st.sampled_from(["length", "calls"]))
    ran, outcome, peer = ran_over(wire, spoken(wire, [ask("run", cut)], stop=said))
    assert ran == []
    assert outcome.reason == "done"
    assert len(peer.sent) == 2


@quick
@given(st.sampled_from(WIRES), st.integers(0, 5000))
def test_a_stream_that_breaks_anywhere_runs_nothing(wire, at):
    body = spoken(wire, [say("I will."), ask("run", '{"given":', '"x"}')], stop="calls")
    last = body.rstrip().rfind(b"\n\n")  # the terminal event must be missing at least in part
    ran, outcome, _ = ran_over(wire, body[: at % last])
    assert (ran, outcome.reason) == ([], "error")
    assert outcome.transcript.dangling() == []


@quick
@given(st.sampled_from(WIRES), st.text(max_size=40))
def test_malformed_arguments_never_run(wire, raw):
    ran, outcome, _ = ran_over(wire, spoken(wire, [ask("run", raw)], stop="calls"))
    assert (ran == []) or (raw.strip() in {"", "null", "{}"})
    assert outcome.reason == "done"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "delta", "index", "id", "text", "error", "choices", "item", "response", "message", "usage", "tool_calls", "function", "arguments", "content", "content_block", "output", "finish_reason"]), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
KINDS = ["content_block_start", "content_block_delta", "message_start", "message_delta", "message_stop", "response.output_item.added", "response.output_item.done", "response.output_text.delta", "response.completed", "response.failed", "error"]  # fmt: skip
events = st.dictionaries(st.sampled_from(["delta", "index", "choices", "item", "response", "message", "usage", "content_block", "item_id", "output_index"]), json_values, max_size=4)  # fmt: skip


@quick
@given(st.sampled_from(WIRES), st.lists(st.tuples(st.sampled_from(KINDS), events), max_size=5))
def test_any_nonsense_is_a_reply_or_a_providers_error(wire, nonsense):
    body = sse(wire, [{"type": kind, **event} for kind, event in nonsense])
    assert isinstance(reply_to(wire, body), Reply | ProviderError)
