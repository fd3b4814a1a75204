"""A kernel that goes away in the middle of a run, in real JupyterLab: what a person sees then, and in the file. Pictures go to .ci/artefacts."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SETUP = '''
%load_ext harness_nb
import asyncio
import os
import harness_nb
from harness_nb import call, say, scripted, tool
from harness_nb.messages import Thinking

@tool(effects={"read"})
def read_file(path: str) -> str:
    """Read a file."""
    return "\\n".join(f"item {n}" for n in range(41))

@tool(effects={"read"})
async def wait(seconds: float, end: bool = False) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    os.abort() if end else None
    return "waited"

def script(*turns):
    harness_nb.session().model = scripted(*turns)
'''
WAITING = """script(say(Thinking("I had better look."), "I read **the file**: it costs $5 or $6. <script>window.broken=1</script>",
    call("read_file", path="a<img src=x onerror=window.broken=1>.csv")), say(call("wait", seconds=3600)))
%agent Wait for <b>me</b>."""
DYING = 'script(say("Watch.", call("wait", seconds=1, end=True)))\n%agent Fall over.'
ASKING = 'script(say(call("run_python", code="1 + 1")))\n%agent Calculate.'
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def waiting(desk):
    """A notebook with a run in it that waits for its tool."""
    notebook = desk.open([SETUP, WAITING, "6 * 7"])
    notebook.run(0)
    notebook.start(1)
    notebook.page.locator(".hnb-state", has_text="running wait").wait_for()
    return notebook


def restart(notebook):
    """Restart the kernel as a person does, by the toolbar, and wait for the new one."""
    notebook.page.locator("[data-command='notebook:restart-kernel']").first.click()
    notebook.page.locator(".jp-Dialog button.jp-mod-accept").click()
    expect(notebook.page.locator(".hnb-run")).to_have_count(0)
    notebook.wait_for_kernel()


def tells_the_story(notebook):
    """Whether what was seen of the run WAITING, and why it ended, can be read below cell 1, in order."""
    text = " ".join(notebook.text(1).split())
    story = [
        "agent · cut short",
        "Wait for <b>me</b>.",
        "Thinking",
        "I read the file: it costs $5 or $6. <script>window",
    ]
    story += [
        "read_file path=",
        "ok, 41 lines",
        "wait seconds=3600",
        "cut off: it may have run",
        "The kernel restarted",
    ]
    places = [text.find(part) for part in story]
    assert -1 not in places, f"{story[places.index(-1)]!r} is missing in {text!r}"
    assert places == sorted(places)
    assert "widget" not in text
    assert notebook.page.evaluate("window.broken") is None


def test_a_restart_in_the_middle_leaves_what_was_seen_and_says_so(desk, waiting):
    restart(waiting)
    tells_the_story(waiting)
    waiting.screenshot("cut_off", 1)
    assert waiting.run(2).endswith("42")
    waiting.save()
    waiting.close()
    assert WIDGET not in str(desk.lab.saved(waiting.name))
    assert waiting.faults == []
    for name in (waiting.name, desk.lab.untrusted(waiting.name)):
        tells_the_story(desk.open(name, kernel=False))


def test_a_kernel_that_dies_by_itself_is_told_of(desk):
    notebook = desk.open([SETUP, DYING])
    notebook.run(0)
    notebook.start(1)
    notebook.wait_for_text(1, "The kernel restarted")
    assert "cut off: it may have run" in notebook.text(1)


def test_a_question_that_a_restart_cuts_off_reads_as_undecided(desk):
    notebook = desk.open([SETUP, ASKING])
    notebook.run(0)
    notebook.start(1)
    notebook.page.locator(".hnb-ask").wait_for()
    restart(notebook)
    assert "cut off before it was decided" in notebook.text(1)
    assert notebook.page.locator(".hnb-ask").count() == 0


def test_a_notebook_saved_in_the_middle_says_so_to_a_stranger(desk, waiting):
    waiting.save()
    stranger = desk.open(desk.lab.untrusted(waiting.name), kernel=False)
    text = stranger.text(1)
    assert "not finished when this was saved" in text
    assert "Wait for <b>me</b>." in text
