"""Show 5: a cell is run again in real JupyterLab, its branch is seen and gone back to, also after a restart. Pictures go to .ci/artefacts."""

import json

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SETUP = """
%load_ext harness_nb
import harness_nb
from harness_nb import scripted
def heard(request):
    return "You asked: " + ", then ".join(f"“{m.text}”" for m in request.messages if m.role == "user") + "."
harness_nb.session().model = scripted(*[heard] * 99)
"""
PROMPTS = (
    "%agent Which file is the largest?",
    "%agent Summarise it in <b>three</b> lines.",
    "%agent Now as a table.",
)
WIDE = "(e) => e.scrollWidth > e.clientWidth + 1"


def restart(notebook):
    """Restart the kernel as a person does, by the toolbar, and run the first cell again."""
    notebook.page.locator("[data-command='notebook:restart-kernel']").first.click()
    notebook.page.locator(".jp-Dialog button.jp-mod-accept").click()
    expect(notebook.page.locator(".hnb-branches")).to_have_count(0)
    notebook.wait_for_kernel()
    notebook.run(0)


def test_a_picker_is_shown_again_by_the_same_cell_and_still_answers(desk):
    notebook = desk.open([SETUP, *PROMPTS[:2], "%history"])
    for n in range(4):
        notebook.run(n)
    notebook.run(2)
    for _ in range(2):
        notebook.run(3)
        branches = notebook.output(3).locator(".hnb-branches")
        expect(branches.locator("header")).to_contain_text("history · 3 runs on 2 branches")
        expect(notebook.output(3).locator(".hnb-history")).to_be_hidden()
    branches.get_by_role("button", name="Go on from here, the end of run 2").click()
    expect(branches).to_contain_text("The next prompt follows run 2")
    assert notebook.faults == []


def test_an_old_branch_is_seen_chosen_and_gone_on_from(desk):
    notebook = desk.open([SETUP, *PROMPTS, "%history", "%agent Thank you."])
    notebook.resize(1200, 1500)
    for n in range(4):
        notebook.run(n)
    notebook.write(2, "%agent Summarise it in one line.")
    text = notebook.run(2)
    assert "version 2 of 2" in text
    assert "Version 2 of this cell: runs 2 and 3 are set aside, and %history use 3 goes back." in text
    earlier = notebook.output(2).get_by_text("Version 1 of this cell · run 2 · done in 1 turn")
    earlier.click()
    expect(notebook.output(2).get_by_text("then “Summarise it in <b>three</b> lines.”")).to_be_visible()
    notebook.screenshot("branches_record_light", 2)

    notebook.run(4)
    branches = notebook.output(4).locator(".hnb-branches")
    expect(branches).to_be_visible()
    expect(notebook.output(4).locator(".hnb-history")).to_be_hidden()
    expect(branches.locator("header")).to_contain_text("history · 4 runs on 2 branches")
    assert notebook.output(4).get_by_role("button").count() == 1
    expect(branches).to_contain_text("Sets run 4 aside.")
    branches.locator("summary", has_text="Now as a table.").click()
    expect(branches.locator("[data-run='3'] pre").last).to_contain_text("then “Now as a table.”")
    notebook.screenshot("branches_light", 4)
    button = branches.get_by_role("button", name="Go on from here, the end of run 3")
    button.focus()
    notebook.page.keyboard.press("Enter")
    expect(branches.get_by_role("status")).to_have_text(
        "The next prompt follows run 3 (“Now as a table.”); run 4 is set aside. To take this back: %history use 4."
    )
    expect(branches.locator("[data-run='3'] summary")).to_be_focused()
    expect(branches.locator("[data-run='3'] details")).to_have_attribute("open", "")
    expect(branches.locator("[data-run='3']")).to_contain_text("The next prompt follows this run.")
    assert "“Now as a table.”, then “Thank you.”" in notebook.run(5)

    restart(notebook)
    notebook.write(3, "%agent Now as a list.")
    text = notebook.run(3)
    assert "<b>three</b> lines.”, then “Now as a list.”" in text
    assert "version 2 of 2" in text
    notebook.run(4)
    expect(branches.locator("header")).to_contain_text("history · 6 runs on 3 branches")
    for theme in ("dark", "light"):
        notebook.theme(theme)
        notebook.resize(600, 1500)
        notebook.screenshot(f"branches_600_{theme}", 4)
        assert not branches.evaluate(WIDE)
    notebook.theme("dark")
    notebook.screenshot("branches_record_dark", 3)
    notebook.theme("light")
    assert notebook.faults == []

    notebook.save()
    saved = desk.lab.saved(notebook.name)
    (output,) = saved["cells"][4]["outputs"]
    assert set(output["data"]) == {"text/html", "text/plain"}
    assert "widgets" not in saved["metadata"]
    print(
        f"\n6 runs in {len(json.dumps(output)) / 1e3:.0f} kB, a cell with an earlier version in "
        f"{len(json.dumps(saved['cells'][3]['outputs'])) / 1e3:.0f} kB"
    )
    notebook.close()
    stranger = desk.open(desk.lab.untrusted(notebook.name), kernel=False)
    stranger.resize(1200, 1500)
    read = stranger.text(4)
    for said in (
        "history · 6 runs on 3 branches",
        "set aside",
        "To go on from here: %history use 4.",
        "The next prompt follows this run.",
    ):
        assert said in read
    assert "Version 1 of this cell · run 3" in stranger.text(3)
    stranger.screenshot("branches_untrusted", 4)
