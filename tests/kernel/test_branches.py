"""Cells that are run again, and `%history`, in real kernels: by the cell's id, by a click, after a restart, and by a machine."""

import json

import pytest

pytestmark = pytest.mark.kernel

SETUP = """
%load_ext harness_nb
import asyncio, json, harness_nb
from harness_nb import call, say, scripted, tool
from harness_nb.jupyter.widget import LiveRun
LiveRun.patience.update({True: 0.1, False: 0.1})
ran = []

@tool(effects={"write"})
def pay(amount: int) -> str:
    "Pay."
    ran.append(amount)
    return "paid"

@tool(effects={"read"})
async def wait() -> str:
    "Wait for long."
    await asyncio.sleep(3600)
    return "waited"

def heard(request):
    return " > ".join(m.text for m in request.messages if m.role == "user")
s = harness_nb.session()
s.model = scripted(*[heard] * 99)
"""
ASKED = "print(json.dumps([m.text for m in s.transcript.messages if m.role == 'user']))"


def run(kernel, code, cell=""):
    done = kernel.start(code, cell=cell).finish()
    assert done.error is None, done.text
    return done


def asked(kernel):
    return json.loads(run(kernel, ASKED).text)


def widget_of(done):
    """The comm of the widget that a cell showed."""
    opened = [sent for sent in done.outputs if sent.type == "comm_open"]
    return opened[-1].content["comm_id"]


def clicked(kernel, comm, number, *, aside=False):
    """Click "Go on from here" of a run; return what the page is told."""
    before = len(kernel.inbox)
    kernel.send_comm(comm, {"method": "custom", "content": {"ask": "use", "run": number}}, aside=aside)

    def told():
        for sent in kernel.inbox[before:]:
            content = sent.content.get("data", {}).get("content", {}) if sent.type == "comm_msg" else {}
            if content.get("said") or content.get("fault"):
                return content
        return None

    found = kernel.listen(told, 20)
    assert found, "no answer to the click"
    return found


@pytest.fixture
def notebook(kernel):
    run(kernel, SETUP)
    for cell in "ab":
        run(kernel, f"%agent {cell}", cell)
    return kernel


def test_a_cell_takes_its_place_also_after_a_restart_and_the_history_tells_of_it(notebook):
    again = run(notebook, "%agent B", "b")
    assert "Version 2 of this cell: run 2 is set aside" in again.text
    assert asked(notebook) == ["a", "B"]
    notebook.restart()
    run(notebook, SETUP)
    listed = run(notebook, "%history").text
    assert "history · 3 runs on 2 branches · session main · main in .harness_nb/sessions" in listed
    assert "The next prompt begins a new conversation." in listed
    assert asked(notebook) == []
    run(notebook, "%agent A", "a")
    assert asked(notebook) == ["A"]
    assert "follows run 2 (“b”); run 4 is set aside." in run(notebook, "%history use 2").text
    assert asked(notebook) == ["a", "b"]


@pytest.mark.parametrize("kernel", ["newest"], indirect=True)
def test_a_click_goes_on_from_another_branch_but_not_while_a_run_is_at_work(notebook):
    run(notebook, "%agent B", "b")
    picker = widget_of(run(notebook, "%history", "h"))
    told = clicked(notebook, picker, 2)
    assert told["said"].startswith("The next prompt follows run 2 (“b”); run 3 is set aside.")
    assert "The next prompt follows this run." in told["body"]
    assert asked(notebook) == ["a", "b"]
    run(
        notebook,
        "s.model = scripted(say(call('wait')))\ntask = asyncio.ensure_future(s.run('c', show=False))",
    )
    run(notebook, "await asyncio.sleep(0.3)")
    assert "is at work on a prompt: wait for it or stop it first" in clicked(notebook, picker, 3)["fault"]
    assert "fault" in clicked(notebook, picker, 99)
    run(notebook, "s.stop()\nawait task")
    assert asked(notebook) == ["a", "b", "c"]


def seen_by_a_page(kernel, execution):
    """Close the comm that no page knows, as JupyterLab does: somebody looks, and can decide when the cell is over."""
    opened = execution.wait_for(lambda sent: sent.content.get("target_name") == "harness_nb.anyone")
    content = {"comm_id": opened.content["comm_id"], "data": {}}
    kernel._client.shell_channel.send(kernel._client.session.msg("comm_close", content))
    execution.finish()


@pytest.mark.parametrize("kernel", ["newest"], indirect=True)
def test_a_cell_that_waits_for_a_decision_is_run_again_and_its_call_never_runs(notebook):
    run(notebook, "s.model = scripted(*[say(call('pay', amount=n)) for n in range(2)], *[heard] * 9)")
    seen_by_a_page(notebook, notebook.start("%agent pay", stdin=False))
    run(notebook, "s.undo()\ns.model = scripted(say(call('pay', amount=5)), *[heard] * 9)")
    waits = notebook.start("%agent pay", stdin=False, cell="c").finish()
    assert "approve q" in waits.text
    again = notebook.start("%agent pay less", stdin=False, cell="c").finish()
    assert "a > b > pay less" in again.text
    assert "Version 1 of this cell · run 4 · stopped to ask you" in again.text
    assert run(notebook, "print(ran, len(s.pending))").text.strip() == "[] 0"
    assert "%resume goes on with it." in run(notebook, "%history use 4").text


@pytest.mark.parametrize("kernel", ["newest"], indirect=True)
def test_a_machine_that_names_no_cells_appends_and_gets_the_tree_as_a_record(notebook):
    done = notebook.headless("%agent again", "%agent again", "%history", "%history -n 1-2")
    assert asked(notebook) == ["a", "b", "again", "again"]
    (tree,) = done.cells[2].outputs
    assert set(tree.data) == {"text/html", "text/plain"}
    assert "history · 4 runs on 1 branch " in tree.data["text/plain"]
    assert "widgets" not in done.metadata
    assert "2: %agent a" in done.cells[3].outputs[0].text
