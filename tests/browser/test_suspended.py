"""In JupyterLab, where neither clicks nor lines of text reach a cell at work: its buttons live on after it, and so does a command."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SETUP = """
%load_ext harness_nb
import builtins, harness_nb
from harness_nb import call, say, scripted, tool
from harness_nb.jupyter.widget import LiveRun
LiveRun.patience.update({True: 0.1, False: 0.1})
ran = []

@tool(effects={"write"})
def touch(path: str) -> str:
    "Touch a file."
    ran.append(path)
    return "touched"

harness_nb.session().model = scripted(say(call("touch", path="a"), call("touch", path="b")), "All done.")

def no_input(prompt=""):
    raise NotImplementedError

def blocking():
    %agent Touch both.
"""
GO = "builtins.input = no_input\nblocking()"


@pytest.fixture
def notebook(desk):
    """A notebook with a run that waits after its cell."""
    notebook = desk.open([SETUP, GO, "", "print(ran)"])
    notebook.run(0)
    notebook.run(1)
    expect(notebook.page.locator(".hnb-ask")).to_be_visible()
    return notebook


def test_a_click_after_the_cell_goes_on_in_its_place_and_leaves_one_record(notebook):
    assert "Nothing of it has run." in notebook.text(1)
    card = notebook.page.locator(".hnb-ask")
    expect(card).to_contain_text("Allow a call of touch?")
    assert notebook.output(1).locator(".hnb-call:visible").count() == 0
    notebook.screenshot("suspended", 1)
    notebook.press("Allow once", 1)
    expect(card).to_contain_text('path = "b"')
    notebook.press("Deny…", 1)
    notebook.page.keyboard.press("Enter")
    notebook.wait_for_text(1, "All done.")
    notebook.wait_for_text(1, "done in")
    expect(notebook.page.locator(".hnb-run")).to_have_count(0)
    assert notebook.text(1).count("All done.") == 1
    assert "allowed by you, once" in notebook.text(1)
    assert "['a']" in notebook.run(3)
    notebook.save()
    assert "widget-view" not in str(notebook.outputs(1))


def test_a_command_in_the_next_cell_goes_on_there_and_the_buttons_are_gone(notebook):
    name = re.findall(r"approve (q\d{6})", notebook.text(1))[0]
    notebook.write(2, f"builtins.input = no_input\n%agent approve {name}")
    notebook.start(2)
    notebook.wait_for_text(2, "touch")
    expect(notebook.output(1).locator(".hnb-ask")).to_have_count(0)
    assert "The conversation went on in a later cell." in notebook.text(1)
    assert "allowed by you, once" in notebook.text(1)
    expect(notebook.output(2).locator(".hnb-ask")).to_contain_text('path = "b"')
    notebook.press("Allow once", 2)
    notebook.wait(2)
    assert "['a', 'b']" in notebook.run(3)


def test_after_a_restart_the_buttons_that_waited_are_gone_and_it_is_said_why(notebook):
    notebook.page.locator("[data-command='notebook:restart-kernel']").first.click()
    notebook.page.locator(".jp-Dialog button.jp-mod-accept").click()
    expect(notebook.page.locator(".hnb-ask")).to_have_count(0)
    notebook.wait_for_kernel()
    notebook.wait_for_text(1, "The kernel restarted before this was decided, so it was not run.")
    expect(notebook.output(1).get_by_role("button", name="Allow once")).to_have_count(0)
    assert 'touch path="a"' in notebook.text(1)
    notebook.save()
    assert "widget-view" not in str(notebook.outputs(1))


def test_stop_ends_a_run_that_a_click_took_up_again(notebook):
    notebook.press("Allow once", 1)
    expect(notebook.page.locator(".hnb-ask")).to_contain_text('path = "b"')
    notebook.output(1).locator(".hnb-stop").click()
    notebook.wait_for_text(1, "stopped before it was decided")
    expect(notebook.page.locator(".hnb-run")).to_have_count(0)
    assert "Stopped by you" in notebook.text(1)
    assert "['a']" in notebook.run(3)
