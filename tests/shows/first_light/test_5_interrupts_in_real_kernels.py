"""Line 5, public bug report R15: whatever a run is doing, an interrupt frees the cell at once, the record is whole, and the next prompt works."""

import time

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

pytestmark = pytest.mark.kernel

SETUP = """
%load_ext harness_nb
import asyncio, time
from harness_nb import ProviderError, call, say, scripted, session, tool

async def thinking(request):
    print("at it", flush=True)
    await asyncio.sleep(60)

@tool(effects={"read"})
def sync_tool() -> str:
    "Take a minute."
    print("at it", flush=True)
    time.sleep(60)

@tool(effects={"read"})
async def async_tool() -> str:
    "Take a minute."
    print("at it", flush=True)
    await asyncio.sleep(60)

MODELS = {
    "model wait": [thinking],
    "stream": ["at it " * 6_000],
    "retry wait": [ProviderError("Overloaded: at it again later.", retryable=True, retry_after=55)],
    "sync tool": [say(call("sync_tool"))],
    "async tool": [say(call("async_tool"))],
}
s = session()
"""
WAIT = 55
"""Seconds that each of them would go on for, at least."""


@pytest.mark.parametrize("doing", ["model wait", "stream", "retry wait", "sync tool", "async tool"])
def test_an_interrupt_frees_the_cell_and_the_next_prompt_works(kernel, doing):
    kernel.execute(f"{SETUP}\ns.model = scripted(*MODELS[{doing!r}], 'fine', piece=6, pace=0.01)")
    cell = kernel.start("%agent do it")
    cell.wait_for(lambda sent: "at it" in str(sent.content))
    kernel.listen(lambda: False, timeout=1.5)  # until the loop has no timer left but ours to wake it
    pressed = time.monotonic()
    kernel.interrupt()
    cell.finish()
    seconds = time.monotonic() - pressed
    print(
        f"\nipykernel {kernel.version}, {doing}: cell free {seconds:.2f} s after the interrupt, of {WAIT} s"
    )
    assert seconds < WAIT / 3
    assert cell.error == "CancelledError"
    assert cell.reply["traceback"] == ["Interrupted."]
    assert "Stopped by you" in record(cell)
    assert kernel.execute("len(s.transcript.dangling())").text == "0"
    assert "fine" in record(kernel.execute("%agent and now?"))


def test_run_all_keeps_its_order(kernel):
    kernel.execute(f"{SETUP}\ns.model = scripted('one', 'two', pace=0.2)")
    cells = [
        kernel.start(code) for code in ("%agent first", "print('between')", "%agent second", "print('last')")
    ]
    for cell in cells:
        cell.finish()
    asked = kernel.execute("[m.text for m in s.transcript.messages]")
    assert asked.text == "['first', 'one', 'second', 'two']"
    assert [cell.error for cell in cells] == [None] * 4
    ends = [
        next(
            n
            for n, m in enumerate(kernel.inbox)
            if m.parent == c.id and m.content.get("execution_state") == "idle"
        )
        for c in cells
    ]
    assert ends == sorted(ends)


def test_an_interrupt_or_a_failure_stops_run_all(kernel):
    kernel.execute(f"{SETUP}\ns.model = scripted(ProviderError('No such model.'))")
    cells = [kernel.start(code) for code in ("%agent first", "print('not reached')")]
    assert [cell.finish().reply["status"] for cell in cells] == ["error", "aborted"]
    assert cells[1].text == ""


def test_nbclient_runs_a_notebook_to_its_end_and_keeps_the_record():
    done = headless(
        [
            f"{SETUP}\ns.model = scripted(*2 * [lambda q: q.messages[-1].text])",
            "%agent why {x}??",
            "%%agent\nwhy $y?",
        ]
    )
    for cell, prompt in zip(done.cells[1:], ["why {x}??", "why $y?"], strict=True):
        (output,) = cell.outputs
        assert set(output["data"]) == {"text/html", "text/plain", "text/markdown"}
        assert output["data"]["text/plain"].count(prompt) == 2
    assert "widgets" not in done.metadata


def test_nbclient_stops_where_a_run_fails_and_says_why():
    with pytest.raises(CellExecutionError, match="No such model") as failed:
        headless([f"{SETUP}\ns.model = scripted(ProviderError('No such model.'))", "%agent hi", "1 / 0"])
    assert failed.value.ename == "ProviderError"


def headless(cells):
    """Run cells as a build does: nobody to click, nobody to answer."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells])
    return NotebookClient(notebook, timeout=60, store_widget_state=False).execute()


def record(cell) -> str:
    """The plain text of the record that a run has left."""
    return next(m.content["data"]["text/plain"] for m in cell.outputs if m.type == "update_display_data")
