"""Show 1, public bug report R14: the blocking entry and the awaited one mix anywhere, over one HTTP client.

Here with a real server, in a real kernel and a plain script. The same on scripted models, and contextvars, are in
test_session.py and kernel/test_session.py; so are interrupts of a blocking call, an awaited one and a script.
"""

import json
import subprocess
import sys
import textwrap
import time

import pytest
from wire.server import HANG, KEY, serving, stream
from wire.speech import ask, say, spoken

SETUP = """
import asyncio, contextvars
from harness_nb import Session, tool
from harness_nb.jupyter.session import defaults

user = contextvars.ContextVar("user", default="nobody")
{client}
inner, s = Session("inner"), Session("outer")
inner.model = s.model = {model}
inner.tools = ()

@tool(effects={{"read"}})
def question() -> str:
    "Ask another agent."
    return f"{{inner.run_blocking('inner', show=False).text}} for {{user.get()}}"

s.tools = [question]
"""
FIVE = """
user.set("Ada")
said = [s.run_blocking("1", show=False), s.run_blocking("2", show=False), await s.run("3", show=False)]
said += [await s.run("4", show=False), s.run_blocking("5", show=False)]
"""
AS_A_SCRIPT = """
user.set("Ada")
async def both():
    return [await s.run("3", show=False), s.run_blocking("4", show=False)]
said = [s.run_blocking("1", show=False), s.run_blocking("2", show=False), *asyncio.run(both())]
said += [asyncio.run(s.run("5", show=False))]
"""
TOLD = """
import json
results = [r.text for m in s.transcript.messages for r in m.results]
print(json.dumps([[r.text for r in said], results]))
"""
CLIENTS = {
    "anthropic": ("import anthropic", "anthropic.AsyncAnthropic(api_key={key!r}, base_url={url!r})"),
    "openai": ("import openai", "openai.AsyncOpenAI(api_key={key!r}, base_url={url!r} + '/v1')"),
}
MODELS = {"anthropic": "Anthropic", "openai": "OpenAI", "chat": "Chat"}


def setup(server, wire, *, own):
    """Cells that make both sessions ask this server: over a client of one's own, or one that the model makes."""
    made = f"from harness_nb.providers.{wire} import {MODELS[wire]} as Model"
    imported, client = CLIENTS["anthropic" if wire == "anthropic" else "openai"]
    if own:
        line = f"{made}\n{imported}\nclient = {client.format(key=KEY, url=server.url)}"
        return SETUP.format(client=line, model="Model('model-x', client=client)")
    return SETUP.format(client=made, model=f"Model('model-x', {server.url + '/v1'!r}, api_key={KEY!r})")


def turns(wire):
    """Three answers, and twice a call of the tool that asks another agent."""
    plain = [stream(spoken(wire, [say(word)])) for word in ("one", "two", "three")]
    nested = [
        turn
        for word in ("four", "five")
        for turn in (
            stream(spoken(wire, [ask("question", "{}", as_id=word)], "calls")),
            stream(spoken(wire, [say("deep")])),
            stream(spoken(wire, [say(word)])),
        )
    ]
    return [*plain, *nested]


EXPECTED = [["one", "two", "three", "four", "five"], ["deep for Ada"] * 2]


@pytest.mark.kernel
@pytest.mark.parametrize("kernel", ["newest"], indirect=True)
def test_five_ways_to_run_share_one_client_in_a_notebook(kernel):
    for wire, own in [("chat", True), ("chat", False)]:
        with serving(*turns(wire)) as server:
            assert kernel.execute(setup(server, wire, own=own)).text == ""
            kernel.execute("before = type(asyncio.get_running_loop()), asyncio.run, asyncio.Task")
            assert kernel.execute(FIVE).text == ""
            assert json.loads(kernel.execute(TOLD).text) == EXPECTED
    assert (
        kernel.execute("before == (type(asyncio.get_running_loop()), asyncio.run, asyncio.Task)").text
        == "True"
    )
    nested = kernel.execute("asyncio.run(asyncio.sleep(0))")
    assert "cannot be called from a running event loop" in nested.text  # nothing has patched it


@pytest.mark.parametrize(("wire", "own"), [("chat", True), ("chat", False)])
def test_five_ways_to_run_share_one_client_in_a_script(wire, own):
    # In development mode an event loop refuses to be used from the thread of another.
    with serving(*turns(wire)) as server:
        code = "\n".join([setup(server, wire, own=own), AS_A_SCRIPT, TOLD])
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert json.loads(done.stdout or "null") == EXPECTED, done.stderr


NESTED = {
    "awaited": "await s.run('go', show=False)",
    "blocking": "s.run_blocking('go', show=False)",
}


@pytest.mark.kernel
@pytest.mark.parametrize("kernel", ["newest"], indirect=True)
@pytest.mark.usefixtures("alone")
def test_an_interrupt_reaches_a_run_inside_a_tool_and_its_request_is_given_up(kernel):
    for number, (name, code) in enumerate(NESTED.items()):
        call = stream(spoken("chat", [ask("question", "{}")], "calls"))
        with serving(call, [HANG], *[stream(spoken("chat", [say("fine")]))] * 2) as server:
            kernel.execute(setup(server, "chat", own=bool(number)))
            cell = kernel.start(code)
            assert kernel.listen(server.hung.is_set)
            pressed = time.monotonic()
            kernel.interrupt()
            cell.finish()
            seconds, hung_up = time.monotonic() - pressed, server.left() - pressed
            print(
                f"\n{name}: cell free after {seconds:.2f} s, the inner request given up after {hung_up:.2f} s"
            )
            assert cell.error in {"CancelledError", "KeyboardInterrupt"}
            assert max(seconds, hung_up) < 1
            again = "s.run_blocking('again', show=False).text, (await inner.run('again', show=False)).text"
            assert kernel.execute(again).text.endswith("('fine', 'fine')")
