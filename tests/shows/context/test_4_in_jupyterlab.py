"""Show 4, part one: at JupyterLab the context fills up, a decision is taken and taken back, and the record keeps it. Pictures go to .ci/artefacts."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SETUP = r"""
%load_ext harness_nb
import asyncio, harness_nb
from pathlib import Path
from harness_nb import call, say, scripted, tool

@tool(effects={"read"})
async def look(page: int) -> str:
    "Look at a page."
    taken = {d.by for d in talk.context.decisions}
    here = next((by for by in ("compact", "mask") if by in taken), talk.context.fill.state)
    Path(f"{here}.seen").touch()
    while here in stops and not Path(f"{here}.go").exists():
        await asyncio.sleep(0.05)
    return f"page {page}\n" + "<img src=x onerror=window.broken=1> twelve green apples and a pear\n" * 26

def turn(request):
    if not request.tools:
        return "<img src=x onerror=window.broken=1>Every page is about **apples**."
    page = next(pages, None)
    return "All **seen**." if page is None else say(f"Page {page}.", call("look", page=page))

def script(stop_at, count=30, window=16_000):
    global stops, pages
    stops, pages = stop_at, iter(range(count))
    talk.model = scripted(*[turn] * 90, window=window)
    talk.new()

talk = harness_nb.session()
talk.tools = [look]
"""
WATCHED = 'script({"green", "yellow", "mask", "compact"})\n%agent Look at every page, <b>all</b>.'
ASKED = "%config AgentMagics.ask_context = True\nscript(set(), 24)\n%agent Look at every page."


def gauge(notebook):
    return notebook.page.locator(".hnb-gauge")


def full(notebook):
    """How full the gauge says that the context is, in percent."""
    return int(re.search(r"(\d+)%", gauge(notebook).inner_text())[1])


def at(notebook, desk, stop):
    """Wait until the run has come to a stop of its tool, and the page shows it."""
    seen = desk.lab.root / f"{stop}.seen"
    for _ in range(1200):
        if seen.exists():
            break
        notebook.page.wait_for_timeout(50)
    assert seen.exists(), f"the run never came to {stop}: {notebook.text(1)}"
    notebook.page.wait_for_timeout(400)


def on(desk, stop):
    (desk.lab.root / f"{stop}.go").touch()


def test_the_gauge_turns_red_a_decision_explains_itself_and_is_taken_back_and_the_record_keeps_it(desk):
    notebook = desk.open([SETUP, WATCHED, "%context undo", "%context pin 99"])
    page = notebook.page
    notebook.run(0)
    notebook.start(1)

    at(notebook, desk, "green")
    expect(gauge(notebook)).to_have_attribute("data-state", "green")
    green, colour = (
        full(notebook),
        gauge(notebook).locator(".hnb-full").evaluate("e => getComputedStyle(e).color"),
    )
    assert "of 12,000 tokens that a request can have" in gauge(notebook).get_attribute("aria-label")
    on(desk, "green")
    at(notebook, desk, "yellow")
    expect(gauge(notebook)).to_contain_text("filling up")
    assert full(notebook) > green
    assert gauge(notebook).locator(".hnb-full").evaluate("e => getComputedStyle(e).color") != colour
    notebook.screenshot("context_yellow", 1)
    on(desk, "yellow")

    at(notebook, desk, "mask")
    card = page.locator(".hnb-decision").first
    expect(card).to_contain_text(
        re.compile(r"The context was 8\d% full, so \d+ old tool results were masked\. [\d,]+ → [\d,]+ tokens")
    )
    expect(gauge(notebook)).to_have_attribute("data-state", "green")
    relieved = full(notebook)
    card.locator("summary", has_text="What happened to each message").click()
    expect(card.locator("tr", has_text="result of look page=0")).to_contain_text("masked")
    for theme in ("light", "dark"):
        notebook.theme(theme)
        card.scroll_into_view_if_needed()
        notebook.screenshot(f"context_card_{theme}")
    notebook.theme("light")
    notebook.resize(600)
    card.scroll_into_view_if_needed()
    notebook.screenshot("context_card_600")
    assert card.evaluate("e => e.scrollWidth <= e.clientWidth"), "the card is wider than its place"
    notebook.resize(1200)

    undo = card.get_by_role("button", name="Undo")
    undo.focus()
    page.evaluate("() => { window.undo = document.querySelector('.hnb-acts button'); }")
    page.keyboard.press("Enter")
    expect(card).to_contain_text("You took this back.")
    expect(gauge(notebook)).to_contain_text("nearly full")
    assert full(notebook) > relieved + 20
    page.evaluate("() => { for (let n = 0; n < 4; n++) window.undo.click(); }")
    notebook.screenshot("context_undone", 1)
    on(desk, "mask")

    at(notebook, desk, "compact")
    second = page.locator(".hnb-decision", has_text="earlier messages were summarised").first
    second.locator("summary", has_text="The summary that the model reads instead").click()
    expect(second.locator("pre")).to_contain_text(
        "<img src=x onerror=window.broken=1>Every page is about **apples**."
    )
    second.get_by_role("button", name="Pin…").click()
    expect(second.get_by_label(re.compile(r"Keep message \d+ word for word")).first).to_be_focused()
    page.keyboard.press("Enter")
    expect(second.locator(".hnb-told")).to_contain_text("stays word for word")
    expect(page.locator(".hnb-note", has_text="You pinned message")).to_be_visible()
    notebook.screenshot("context_pinned", 1)
    on(desk, "compact")
    notebook.wait(1)
    assert page.evaluate("window.broken") is None
    assert page.locator(".hnb-decision img, .hnb-decision script").count() == 0
    assert "You took decision" in notebook.run(2)
    assert "There is no message 99" in notebook.run(3)
    notebook.screenshot("context_record_light", 1)

    notebook.save()
    notebook.close()
    assert notebook.faults == []
    reopened = desk.open(desk.lab.untrusted(notebook.name), kernel=False)
    text = " ".join(reopened.text(1).split())
    for part in (
        "old tool results were masked",
        "You took this back.",
        "earlier messages were summarised",
        "before",
        "%context undo",
    ):
        assert part in text
    folds = reopened.output(1).locator("summary", has_text="What happened to each message")
    reopened.output(1).locator("summary", has_text="old tool results were masked").first.click()
    folds.first.click()
    assert "result of look page=0" in reopened.text(1)
    widths = reopened.output(1).evaluate(
        """area => [...area.querySelectorAll("div")]
            .filter(e => getComputedStyle(e).backgroundColor === "rgb(224, 163, 62)").map(e => e.offsetWidth)"""
    )
    assert any(width > 20 for width in widths), "the bars are gone"
    for theme in ("light", "dark"):
        reopened.theme(theme)
        folds.first.scroll_into_view_if_needed()
        reopened.screenshot(f"context_untrusted_{theme}")
    reopened.resize(600)
    folds.first.scroll_into_view_if_needed()
    reopened.screenshot("context_untrusted_600")
    assert reopened.page.evaluate("window.broken") is None


def test_with_ask_context_the_person_decides_by_button_or_key(desk):
    notebook = desk.open([SETUP, ASKED])
    notebook.run(0)
    notebook.start(1)
    asked = notebook.page.locator(".hnb-ask")
    expect(asked).to_contain_text(re.compile(r"Mask \d+ old tool results\?"))
    expect(asked).to_contain_text("Nothing has changed yet.")
    expect(asked).to_be_focused()
    notebook.screenshot("context_asked", 1)
    notebook.page.wait_for_timeout(450)
    notebook.page.keyboard.press("d")
    expect(notebook.page.locator(".hnb-decision").first).to_contain_text(
        "You said no: the context stays as it was."
    )
    while notebook.running(1):
        for button in asked.locator(".hnb-go").all():
            button.click()
        notebook.page.wait_for_timeout(200)
    notebook.wait(1)
    text = notebook.text(1)
    assert "You kept the context as it was." in text
    assert "To take it back: %context undo" in text
    assert notebook.faults == []
