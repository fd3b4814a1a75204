"""Show 1, public bug report R15: an interrupt frees the cell, the provider is hung up on, and the next prompt works.

Here against a real server. The same for each kind of wait, timed and on two versions of ipykernel, is in
test_1_interrupted_within_half_a_second.py and line 5 of first_light; children of a command, and a run in the
background that a kernel's interrupt does not reach, in tools_and_trust/test_1_r15_r17_in_kernels.py.
"""

import time

import pytest
from wire.server import HANG, KEY, begun, refusal, serving, stream
from wire.speech import say, spoken

from harness_nb.agent import STOPPED_TEXT

pytestmark = [pytest.mark.kernel, pytest.mark.parametrize("kernel", ["newest"], indirect=True)]

SETUP = """
%load_ext harness_nb
import asyncio
from harness_nb import session
from harness_nb.providers.chat import Chat
s = session()
s.model = Chat("model-x", {url!r}, api_key={key!r})
"""
LATE = [6.0, *stream(spoken("chat", [say("Too late.")]))]
FINE = stream(spoken("chat", [say("Fine.")]))


@pytest.fixture
def server(kernel):
    with serving() as started:
        assert kernel.execute(SETUP.format(url=f"{started.url}/v1", key=KEY)).text == ""
        yield started


def said_next(kernel, server):
    """What the provider is sent with the next prompt, which works: roles and texts."""
    server.turns[:] = [FINE]
    assert "Fine." in str([sent.content for sent in kernel.execute("%agent and now?").outputs])
    return [(m["role"], m["content"]) for m in server.sent[-1]["messages"] if m["role"] != "system"]


BOTH = [("user", "go\n\nand now?")]
"""Two prompts, of which the first has no answer."""

KINDS = {
    "a provider that answers after 6 s": (LATE, lambda server, cell: server.sent, BOTH),
    "a stream": (
        begun(spoken("chat", [say("Once upon")], cut=True), HANG),
        lambda server, cell: server.hung.is_set(),
        [("user", "go"), ("assistant", f"Once upon\n\n{STOPPED_TEXT}"), ("user", "and now?")],
    ),
    "a retry wait of 50 s": (
        refusal(429, [(b"retry-after", b"50")]),
        lambda server, cell: "Slow down" in str(cell.outputs),
        BOTH,
    ),
}
"""What the provider does, what tells that the run waits for it, and what it is asked next."""


@pytest.mark.usefixtures("alone")
def test_an_interrupt_frees_the_cell_and_the_next_prompt_goes_on_from_what_there_is(kernel, server):
    for kind, (turn, waits, asked) in KINDS.items():
        kernel.execute("s.new()")
        server.turns[:] = [turn]
        server.sent.clear()
        cell = kernel.start("%agent go")
        assert kernel.listen(lambda waits=waits, cell=cell: waits(server, cell))
        kernel.listen(lambda: False, timeout=1)
        pressed = time.monotonic()
        kernel.interrupt()
        cell.finish()
        seconds = time.monotonic() - pressed
        print(f"{kind}: cell free {seconds:.2f} s after an interrupt")
        assert cell.error == "CancelledError"
        assert seconds < 1
        assert kind != "a stream" or server.left() - pressed < 1
        assert len(server.sent) == 1
        assert said_next(kernel, server) == asked


def test_a_run_in_the_background_has_a_stop_of_its_own_that_closes_its_request(kernel, server):
    server.turns.append([HANG])
    kernel.execute("task = asyncio.create_task(s.run('go'))")
    assert kernel.listen(server.hung.is_set)
    kernel.interrupt()
    assert kernel.execute("await asyncio.sleep(0.2); task.done()").text == "False"
    assert server.gone == []
    assert kernel.execute("s.stop(); (await task).reason").text.endswith("'interrupted'")
    server.left()
    assert said_next(kernel, server) == BOTH
