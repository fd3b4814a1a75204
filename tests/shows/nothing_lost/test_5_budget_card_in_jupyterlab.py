"""Show 5: a run meets its limit in dollars; a click allows more and it goes on in its place. Pictures go to .ci/artefacts."""

import json

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SETUP = """
%load_ext harness_nb
import os, tempfile
import harness_nb
from pathlib import Path
from harness_nb import call, say, scripted
from harness_nb.messages import Usage
os.chdir(tempfile.mkdtemp())  # a folder with prices of its own
Path("harness_nb.toml").write_text('[prices."priced"]\\ninput = 10\\noutput = 50\\ncache_read = 1\\n')
def turn(n, *parts):
    return say(*parts, usage=Usage(20_000, 200, cache_read=15_000 * (n in (2, 3))))
harness_nb.session().model = scripted(
    *(turn(n, call("calc", expression=f"{n} * 7")) for n in range(1, 5)), turn(5, "All five are done."),
    turn(6, call("calc", expression="6 * 7")), turn(7, "It is 42."), name="priced")
"""
GO = "%agent --dollars 0.50 Multiply the first five numbers by seven, <b>one</b> at a time."
WIDGET = "application/vnd.jupyter.widget-view+json"


def test_a_run_at_its_limit_offers_more_goes_on_by_a_click_and_its_record_tells_it(desk):
    notebook = desk.open([SETUP, GO, "%cost", "%cost turns --plot", "%agent --turns 1 And six?", "%resume"])
    notebook.run(0)
    notebook.run(1)
    card = notebook.page.locator(".hnb-limit .hnb-ask")
    expect(card).to_contain_text("This run's limit of $0.50 is reached.")
    expect(card).to_contain_text("it then stops at $1.00")
    stopped = " ".join(notebook.text(1).split())
    assert "stopped at its budget after 2 turns" in stopped
    assert "This run's limit of $0.50 is reached:" in stopped
    assert "To go on, %resume allows another $0.50" in stopped
    expect(card.get_by_role("button")).not_to_be_focused()
    for theme in ("dark", "light"):
        notebook.theme(theme)
        notebook.screenshot(f"budget_card_{theme}", 1)
    notebook.resize(600)
    notebook.screenshot("budget_card_600", 1)
    notebook.resize(1200)
    notebook.save()
    assert WIDGET not in json.dumps(notebook.outputs(1)), "a saved notebook would hold a dead widget"

    notebook.page.evaluate(
        """() => { const button = document.querySelector(".hnb-limit button"); for (let n = 0; n < 5; n++) button.click(); }"""
    )
    notebook.wait_for_text(1, "All five are done.")
    notebook.wait_for_text(1, "done in 5 turns")
    expect(notebook.page.locator(".hnb-limit")).to_have_count(0)
    expect(notebook.page.locator(".hnb-run")).to_have_count(0)
    told = " ".join(notebook.text(1).split())
    assert "This run's limit of $0.50 was reached; you made it $1.00." in told
    assert told.count("All five are done.") == 1
    assert "$0.78" in told
    notebook.screenshot("budget_card_done", 1)

    spent = notebook.run(2)
    assert "$0.78 for 5 requests in 1 run" in spent
    assert "which saved $0.27" in spent
    notebook.run(3)
    assert notebook.output(3).locator("img").count() == 1
    for theme in ("dark", "light"):
        notebook.theme(theme)
        notebook.screenshot(f"cost_{theme}", 2)
        notebook.screenshot(f"cost_turns_{theme}", 3)
    notebook.resize(600)
    notebook.screenshot("cost_600", 2)

    notebook.run(4)
    expect(notebook.output(4).get_by_role("button", name="Allow another turn and go on")).to_be_visible()
    assert "It is 42." in notebook.run(5)
    expect(notebook.page.locator(".hnb-limit")).to_have_count(0)
    assert "The conversation went on in a later cell." in notebook.text(4)

    notebook.save()
    assert WIDGET not in json.dumps(notebook.outputs(4))
    notebook.close()
    assert notebook.faults == []
    reopened = desk.open(desk.lab.untrusted(notebook.name), kernel=False)
    text = " ".join(reopened.text(1).split())
    assert "This run's limit of $0.50 was reached; you made it $1.00." in text
    assert "$0.78" in text
    assert "$0.78 for 5 requests in 1 run" in reopened.text(2)
    reopened.screenshot("cost_record", 2)
