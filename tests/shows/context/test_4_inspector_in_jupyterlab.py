"""Line 4: `%context` in JupyterLab, on a session at work and a finished one: turns, parts, what if; saved without a widget, read untrusted."""

import json

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SETUP = r"""
%load_ext harness_nb
import asyncio, random
import harness_nb
from harness_nb import call, say, scripted, tool
WORDS = ["alpha", "beta", "total=17", "path/to/file.py", "error", "3.14", "kappa", "<b>bold</b>"]

@tool(effects={"read"}, limit=100_000)
def fetch(n: int) -> str:
    "Fetch a page."
    return " ".join(random.Random(n).choices(WORDS, k=300 + 120 * (n % 5)))

def script(turns, pace=0.0):
    pages = iter(range(turns - 1))
    def turn(request):
        if not request.tools:
            return "The person wants the total of all pages."  # a summary
        n = next(pages, None)
        return "All pages are read." if n is None else say(f"I read page {n} next.", call("fetch", n=n))
    session = harness_nb.session()
    session.tools = [fetch]
    session.model = scripted(*[turn] * 99, piece=1_000, pace=pace, window=12_000, name="demo")
    return session
"""
FINISHED = "result = await script(18).run('Fetch every page and tell me the total.', show=False)"
AT_WORK = "task = asyncio.ensure_future(script(40, pace=0.4).run('Fetch every page.', show=False))\nawait asyncio.sleep(6)"
OVER = "task.cancel()\nawait asyncio.wait([task])"
HOSTILE = r"""
ACTS = "\n".join(["<script>window.broken=1</script>", "<img src=x onerror=window.broken=1>", "</pre></table><svg/onload=window.broken=1>",
    "<iframe src=//evil.test></iframe>", "<style>*{display:none}</style>", "![x](https://evil.test/x.png)", "\u202e\x1b[31m'\">"])
from harness_nb.messages import Thinking
@tool(effects={"read"})
def returns(text: str) -> str:
    "Return it."
    return text
session = harness_nb.session()
session.tools = [returns]
session.model = scripted(say(Thinking(ACTS), ACTS, call("returns", text=ACTS)), ACTS, name=ACTS)
result = await session.run(ACTS, show=False)
"""
FOREIGN = """(area) => [...area.querySelectorAll("*")].flatMap((e) => [
  /^(script|img|iframe|svg|style|link|meta|input|object|embed|form)$/i.test(e.tagName) ? e.outerHTML : [],
  [...e.attributes].filter((a) => /^on/i.test(a.name)).map((a) => a.name),
].flat())"""
WIDE = "(e) => e.scrollWidth > e.clientWidth + 1"


def opened(notebook, n):
    """Run the `%context` cell n and wait until its static twin has taken the widget's place in the notebook."""
    notebook.run(n)
    inspector = notebook.output(n).locator(".hnb-inspector")
    expect(inspector).to_be_visible()
    expect(notebook.output(n).locator(".hnb-context")).to_have_count(1)
    expect(notebook.output(n).locator(".hnb-context")).to_be_hidden()
    return inspector


def test_a_finished_session_is_looked_at_turn_by_turn_and_part_by_part(desk):
    notebook = desk.open([SETUP, FINISHED, "%context"])
    notebook.resize(1200, 2000)
    notebook.run(0)
    notebook.run(1)
    inspector = opened(notebook, 2)
    expect(inspector.locator("header")).to_contain_text("context · turn 18 of 18")
    slider = inspector.get_by_role("slider", name="Turn")
    slider.focus()
    for _ in range(6):
        notebook.page.keyboard.press("ArrowLeft")
    expect(inspector.locator("header")).to_contain_text("turn 12 of 18")
    expect(slider).to_have_attribute("aria-valuetext", "Turn 12 of 18")
    part = inspector.get_by_role("button", name="result fetch n=10")
    part.focus()
    notebook.page.keyboard.press("Enter")
    expect(inspector.locator(".hnb-opened pre")).to_contain_text("<b>bold</b>")
    expect(part).to_have_attribute("aria-expanded", "true")
    notebook.screenshot("context_parts_light", 2)
    inspector.get_by_role("combobox").select_option("Out of sight")
    expect(inspector.locator(".hnb-panel")).to_contain_text(
        "out of the model's sight; the record keeps them."
    )
    assert not notebook.faults


def test_a_break_of_the_prefix_is_explained_and_what_if_changes_nothing(desk):
    notebook = desk.open([SETUP, FINISHED, "%context", "print(len(harness_nb.session().transcript))"])
    notebook.resize(1200, 1300)
    notebook.run(0)
    notebook.run(1)
    before = notebook.run(3)
    inspector = opened(notebook, 2)
    inspector.get_by_role("tab", name="Change").click()
    back = inspector.get_by_role("button", name="The turn before")
    while "The prefix broke at byte" not in inspector.locator(".hnb-panel").inner_text():
        back.click()
        notebook.page.wait_for_timeout(400)
    expect(inspector.locator(".hnb-panel")).to_contain_text("was changed by a decision")
    expect(inspector.locator(".hnb-panel mark")).to_have_count(2)
    notebook.screenshot("context_change_light", 2)
    notebook.page.keyboard.press("Tab")
    inspector.get_by_role("tab", name="Change").press("ArrowRight")
    expect(inspector.get_by_role("tab", name="What if")).to_be_focused()
    inspector.get_by_label("Window").fill("5000")
    inspector.get_by_label("Window").press("Enter")
    expect(inspector.locator(".hnb-panel")).to_contain_text(
        "In a window of 5,000 tokens, with 1,250 kept for the reply"
    )
    inspector.get_by_label("Window").fill("0")
    inspector.get_by_label("Window").press("Enter")
    expect(inspector.get_by_role("status")).to_have_text("Give a number of tokens above 0.")
    notebook.screenshot("context_what_if_light", 2)
    assert notebook.run(3) == before
    assert not notebook.faults


def test_a_session_at_work_is_looked_at_and_its_new_turns_come_in(desk):
    notebook = desk.open([SETUP, AT_WORK, "%context", OVER])
    notebook.run(0)
    notebook.run(1)
    inspector = opened(notebook, 2)
    slider = inspector.get_by_role("slider", name="Turn")
    first = int(slider.get_attribute("max"))
    assert 1 <= first < 40
    slider.press("Home")
    expect(inspector.locator("header")).to_contain_text("turn 1 of ")
    notebook.page.wait_for_timeout(3_000)
    inspector.get_by_role("button", name="The next turn").click()
    expect(slider).not_to_have_attribute("max", str(first))
    notebook.run(3)
    assert not notebook.faults


def test_what_is_saved_is_no_widget_and_reads_untrusted(desk):
    notebook = desk.open([SETUP, FINISHED, "%context"])
    notebook.run(0)
    notebook.run(1)
    opened(notebook, 2)
    notebook.save()
    saved = desk.lab.saved(notebook.name)
    (output,) = saved["cells"][2]["outputs"]
    assert set(output["data"]) == {"text/html", "text/plain", "text/markdown"}
    assert "widgets" not in saved["metadata"]
    size = len(json.dumps(output))
    print(f"\n18 turns saved in {size / 1e3:.0f} kB")
    assert size < 75_000
    again = desk.open(desk.lab.untrusted(notebook.name), kernel=False)
    again.resize(1200, 2000)
    again.wait_for_text(2, "turn 18 of 18")
    read = again.text(2)
    for said in (
        "Measured as",
        "Parts, the largest first",
        "fetch n=",
        "The prefix broke at byte",
        "What if",
    ):
        assert said in read
    again.cell(2).get_by_text("All turns as a table").click()
    expect(again.cell(2).get_by_text("Tokens of each turn, as measured")).to_be_visible()
    again.screenshot("context_untrusted", 2)
    trusted = desk.open(notebook.name, kernel=False)
    trusted.wait_for_text(2, "turn 18 of 18")
    assert "Error displaying widget" not in trusted.text(2)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_600_pixels_in_both_themes(desk, theme):
    notebook = desk.open([SETUP, FINISHED, "%context", "%context --plot"])
    notebook.resize(600, 2200)
    notebook.theme(theme)
    notebook.run(0)
    notebook.run(1)
    inspector = opened(notebook, 2)
    for tab in ("Parts", "Request", "Change", "What if", "All turns"):
        inspector.get_by_role("tab", name=tab).click()
        expect(inspector.get_by_role("tabpanel", name=tab)).to_be_visible()
        notebook.page.wait_for_timeout(300)
        assert not inspector.evaluate(WIDE), tab
    inspector.get_by_role("tab", name="Parts").click()
    notebook.page.wait_for_timeout(500)
    notebook.screenshot(f"context_600_{theme}", 2)
    notebook.run(3)
    picture = notebook.output(3).get_by_role("img", name="Stacked bars, one for each of 18 turns")
    expect(picture).to_be_visible()
    notebook.cell(3).get_by_text("The same as a table").click()
    notebook.screenshot(f"context_plot_600_{theme}", 3)
    assert not notebook.faults


def test_hostile_words_run_nothing_and_fetch_nothing(desk):
    notebook = desk.open([SETUP, HOSTILE, "%context"])
    asked = []
    notebook.page.on("request", lambda request: asked.append(request.url))
    notebook.run(0)
    notebook.run(1)
    inspector = opened(notebook, 2)
    for tab in ("Request", "Change", "What if", "All turns", "Parts"):
        inspector.get_by_role("tab", name=tab).click()
        expect(inspector.get_by_role("tabpanel", name=tab)).to_be_visible()
        notebook.page.wait_for_timeout(300)
        assert inspector.locator(".hnb-body").evaluate(FOREIGN) == []
    inspector.get_by_role("button", name="result returns").first.click()
    expect(inspector.locator(".hnb-opened pre")).to_contain_text("<script>window.broken=1</script>")
    assert inspector.locator(".hnb-opened").evaluate(FOREIGN) == []
    assert notebook.output(2).locator(".hnb-context").evaluate(FOREIGN) == []
    assert notebook.page.evaluate("window.broken") is None
    assert [url for url in asked if "evil" in url] == []
    assert not notebook.faults
