"""Show 1, public bug report R08: a stream that fails after HTTP 200 is asked for again, and nothing of it stays.

Here over real connections, whole runs. How each error inside a stream is classed, and that a cut turn is an error, is
the table of tests/wire/cases.py; broken connections are in wire/test_faults.py.
"""

import json

import pytest
from wire.server import END, HANG, KEY, LAST, RESET, asked, begun, stream
from wire.speech import WIRES, ask, say, spoken, sse

from harness_nb.agent import Agent
from harness_nb.errors import ProviderError
from harness_nb.jupyter.segments import Words
from harness_nb.jupyter.view import RunView
from harness_nb.providers.chat import Chat
from harness_nb.providers.retry import retrying
from harness_nb.seams import Run, layered
from harness_nb.tools import Toolbox, tool

OVERLOADED = {"type": "overloaded_error", "message": "Overloaded"}
FLAT = {"type": "error", "code": "server_is_overloaded", "message": "Overloaded"}
SAID = {"anthropic": {"type": "error", "error": OVERLOADED}, "openai": FLAT, "chat": {"error": OVERLOADED}}
"""How each says in the middle of a stream that it has too much to do."""


def overloaded(wire):
    return spoken(wire, [say("Hel")], cut=True) + sse(wire, [SAID[wire]])


def two_deltas(wire):
    return spoken(wire, [say("Hel", "lo")], cut=True)


def half_a_call(wire):
    return spoken(wire, [say("Hel"), ask("send", '{"to":"', 'Ada"')], cut=True)


def a_whole_call(wire):
    return spoken(wire, [ask("send", '{"to":"Ada"}')], cut=True)


def pings(wire):
    return sse(wire, [{"type": "ping"}]) * 3 if wire == "anthropic" else b": ping\n\n" * 3


BREAKS = {
    "a overloaded": overloaded,
    "b two deltas": two_deltas,
    "c half a call": half_a_call,
    "c a whole call": a_whole_call,
    "d pings": pings,
}
ENDS = {"ended": [LAST], "torn": [END], "reset": [0.02, RESET]}
"""How the connection ends: as if all were well, without its last chunk, or by force."""

every = pytest.mark.parametrize(
    ("wire", "name", "end"),
    [
        (wire, name, end)
        for wire in WIRES
        for name in BREAKS
        for end in ENDS
        if name[0] != "a" or end == "ended"
    ],
)


async def played(model, *, transcript=None):
    """One prompt; the outcome, what is shown at its end, what was sent by the tool, and each wait."""
    waits, ran, view = [], [], RunView()

    async def sleep(seconds):
        waits.append(seconds)

    @tool
    def send(to: str) -> str:
        """Send a letter."""
        ran.append(to)
        return "sent"

    agent = Agent(layered(model, retrying(sleep=sleep)), Toolbox([send]))
    outcome = await agent.run("go", Run(transcript, view.take))
    return outcome, [segment.text for segment in view.segments if isinstance(segment, Words)], ran, waits


@every
async def test_it_is_asked_for_again_and_only_the_whole_answer_is_shown_and_kept(wire, name, end):
    broken = begun(BREAKS[name](wire), *ENDS[end])
    whole = stream(spoken(wire, [say("Hel", "lo.")]))
    async with asked(broken, broken, whole) as server:
        outcome, shown, ran, waits = await played(server.model(wire))
    assert (outcome.reason, outcome.text, ran) == ("done", "Hello.", [])
    assert shown == ["Hello."]
    assert [message.text for message in outcome.transcript.messages] == ["go", "Hello."]
    assert len(waits) == 2
    assert server.sent[0] == server.sent[1] == server.sent[2]


@every
async def test_where_every_try_fails_the_error_is_typed_and_no_half_turn_is_kept(wire, name, end):
    broken = begun(BREAKS[name](wire), *ENDS[end])
    async with asked(*[broken] * 4, stream(spoken(wire, [say("Hello.")]))) as server:
        model = server.model(wire)
        outcome, _, ran, waits = await played(model)
        assert (len(server.sent), len(waits), ran) == (4, 3, [])
        assert outcome.reason == "error"
        assert isinstance(outcome.error, ProviderError)
        assert (outcome.error.retryable, outcome.error.status) == (True, None)
        assert outcome.detail.endswith("Asked 4 times.")
        assert KEY not in outcome.detail
        assert [message.role for message in outcome.transcript.messages] == ["user"]
        again, *_ = await played(model, transcript=outcome.transcript)
    assert (again.reason, again.text) == ("done", "Hello.")
    assert "Hel" not in json.dumps(server.sent[4]).replace("Hello.", "")


async def test_a_stream_that_falls_silent_is_given_up_and_asked_for_again():
    silent = begun(two_deltas("chat"), HANG)
    async with asked(silent, stream(spoken("chat", [say("Hello.")]))) as server:
        model = Chat("model-x", f"{server.url}/v1", api_key=KEY, idle=0.3)
        outcome, shown, _, waits = await played(model)
        await model.close()
    assert (outcome.text, shown, len(waits)) == ("Hello.", ["Hello."], 1)
