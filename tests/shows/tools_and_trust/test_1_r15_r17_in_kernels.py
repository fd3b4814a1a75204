"""Show 1, public bug reports R15 and R17 in real kernels: what stops a run, and where its output goes.

Interrupts of a model's wait, a stream, a retry wait and tools are line 5 of first_light.
"""

import os

import pytest

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.parametrize("kernel", ["newest", "7.3", "6.31"], indirect=True),
]

SETUP = """
%load_ext harness_nb
import asyncio, json, harness_nb
from harness_nb import Session, call, say, scripted, session, tool
from harness_nb.jupyter.session import defaults
s = session()
s.mode = "auto"

async def endless(request):
    await asyncio.sleep(60)

@tool(effects={"read"})
def noisy(words: str) -> str:
    "Make noise."
    print(words, flush=True)
    return "done"
"""
OWN = f"77.{os.getpid()}"


def record(cell):
    return next(m.content["data"]["text/plain"] for m in cell.outputs if m.type == "update_display_data")


@pytest.fixture
def notebook(kernel):
    assert kernel.execute(SETUP).text == ""
    return kernel


def test_r15_an_interrupt_ends_a_command_and_its_children(notebook, tmp_path):
    command = f"touch begun; (sleep {OWN}; true) & sleep {OWN}"
    notebook.execute(f"s.model = scripted(say(call('shell', command={command!r})), 'Fine.')")
    cell = notebook.start("%agent go")
    assert notebook.listen((tmp_path / "begun").exists)
    notebook.interrupt()
    assert cell.finish(timeout=40).reply["traceback"] == ["Interrupted."]
    assert "Stopped by you" in record(cell)
    left = notebook.execute(f"!ps -eo args | grep -c '[s]leep {OWN}'")
    assert left.text.strip() == "0"
    assert "Fine." in record(notebook.execute("%agent go on"))


@pytest.mark.parametrize("entry", ["s.run('go')", "asyncio.to_thread(s.run_blocking, 'go')"])
def test_r15_a_run_in_the_background_is_stopped_by_its_session(notebook, entry):
    notebook.execute(f"s.model = scripted(endless, 'Fine.'); task = asyncio.create_task({entry})")
    notebook.execute("while s.transcript.messages == (): await asyncio.sleep(0.01)")
    notebook.interrupt()  # reaches cells, and none is at work
    assert notebook.execute("await asyncio.sleep(0.1); task.done()").text == "False"
    assert notebook.execute("s.stop(); (await task).reason").text.endswith("'interrupted'")
    assert notebook.execute("list(s.transcript.dangling())").text == "[]"
    assert "Fine." in record(notebook.execute("%agent go on"))


def test_r17_what_runs_print_appears_once_and_in_the_cell_of_its_run(notebook):
    notebook.execute("import time\nnamed = [Session(n) for n in 'ab']\nfor one in named: one.mode = 'auto'")
    notebook.execute(
        "for one in named: one.model = scripted(say(call('noisy', words=f'noise of {one.name}')), f'End of {one.name}.', pace=0.05)"
    )
    cell = notebook.execute("tasks = [asyncio.create_task(one.run('go')) for one in named]")
    notebook.execute("print('another cell')")
    notebook.execute("await asyncio.wait(tasks);")
    for name in "ab":
        told = [m for m in notebook.inbox if f"noise of {name}" in m.content.get("text", "")]
        assert sum(m.content["text"].count(f"noise of {name}") for m in told) == 1
        if notebook.version != "6.31":  # whose threads print where the newest cell is
            assert told[0].parent == cell.id
        records = [m for m in notebook.inbox if m.type == "update_display_data"]
        assert sum(f"End of {name}." in m.content["data"]["text/plain"] for m in records) == 1


def test_r17_five_thousand_deltas_leave_a_handful_of_small_outputs(notebook):
    notebook.execute("s.model = scripted('0123456789' * 1_000, piece=2)")
    cell = notebook.execute("%agent go")
    kept = [m for m in cell.outputs if m.type in {"display_data", "stream", "execute_result"}]
    assert len(kept) == 1
    (final,) = [m.content["data"] for m in cell.outputs if m.type == "update_display_data"]
    assert sum(map(len, final.values())) < 50_000
    assert "0123456789" * 1_000 in final["text/plain"].replace("\n", "")
    assert sum(m.type == "comm_msg" for m in cell.outputs) < 500


def test_r17_a_failure_is_shown_once_and_in_its_cell(notebook):
    notebook.execute("def breaks(request):\n    raise RuntimeError('it broke')\ns.model = scripted(breaks)")
    cell = notebook.execute("%agent go")
    errors = [m for m in notebook.inbox if m.type == "error"]
    assert [m.parent for m in errors] == [cell.id]
    assert "it broke" in errors[0].content["evalue"]
