"""Show 1: kernels x ways to run x ways to decide: never a hang, never a run that nobody allowed, always a valid transcript."""

import json

import pytest

pytestmark = pytest.mark.kernel

SETUP = """
%load_ext harness_nb
import harness_nb
from harness_nb import call, say, scripted, tool
from harness_nb.jupyter.session import defaults
from harness_nb.jupyter.widget import LiveRun
ran = []

@tool(effects={"write"})
def touch(path: str) -> str:
    "Touch a file."
    ran.append(path)
    return "touched"

s = harness_nb.session()
def script():
    ran.clear()
    s.model = scripted(say(call("touch", path="a")), say(call("touch", path="a")), "Done.")
script()
"""
STATE = "import json; print(json.dumps([ran, [str(c) for c in s.transcript.dangling()], [r.text for m in s.transcript.messages for r in m.results]]))"
WAYS = {
    "awaited": "%agent go",
    "function": "def go():\n    %agent go\ngo()",
}
ANSWERS = {
    "allow": (["a", "a"], ["a", "a"]),
    "deny": (["d", "d too risky"], []),
    "edit": (["e", '{"path": "b"}', "a", "d"], ["b"]),
    "always": (["s2"], ["a", "a"]),
    "nonsense": (["", "yes", "d", "d"], []),
}


def state(kernel):
    return json.loads(kernel.execute(STATE).text)


@pytest.fixture
def notebook(kernel):
    assert kernel.execute(SETUP).text == ""
    return kernel


@pytest.mark.parametrize("way", WAYS)
def test_by_text_where_clicks_do_not_arrive(notebook, way):
    for answer, (lines, expected) in ANSWERS.items():
        notebook.execute("script(); s.new(); s.approvals.revoke()")
        cell = notebook.execute(WAYS[way], answers=lines)
        assert cell.error is None, cell.text
        ran, dangling, results = state(notebook)
        assert (ran, dangling, len(results)) == (expected, [], 2), f"{answer}: {cell.text}"
        assert "Allow a call of `touch`?" in cell.text


@pytest.mark.parametrize("way", WAYS)
def test_with_nobody_to_ask_it_is_no(notebook, way):
    cell = notebook.start(WAYS[way], stdin=False).finish()
    ran, dangling, results = state(notebook)
    assert (ran, dangling, len(results)) == ([], [], 2)
    assert "denied: there was nobody to ask" in cell.text


@pytest.mark.parametrize("way", WAYS)
def test_an_interrupt_while_it_asks_ends_the_run(notebook, way):
    cell = notebook.start(WAYS[way])
    cell.wait_for("Allow a call of `touch`?")
    notebook.interrupt()
    cell.finish()
    ran, dangling, results = state(notebook)
    assert (ran, dangling, len(results)) == ([], [], 1)
    assert notebook.execute("1 + 1").text == "2"


@pytest.mark.parametrize("way", WAYS)
def test_after_its_patience_it_is_no(notebook, way):
    notebook.execute("defaults.patience = 0.5")
    notebook.execute(WAYS[way])
    ran, dangling, results = state(notebook)
    assert (ran, dangling, len(results)) == ([], [], 2)
