"""The live view as a reader uses it while a run goes on: it stays put, it is inert, it listens."""

import json

import pytest
from kernel.rig import python_of
from playwright.sync_api import expect
from test_record import PAYLOADS

pytestmark = pytest.mark.browser

SETUP = """
import asyncio
from harness_nb import Agent, Run, Toolbox, call, say, scripted, tool
from harness_nb.jupyter.live import show_run
from harness_nb.messages import Thinking

gate = asyncio.Event()

@tool(effects={"read"})
def read(path: str) -> str:
    "Read a file."
    return "\\n".join(f"line {n} of {path}" for n in range(60))

@tool(effects={"read"})
async def wait(seconds: float = 60) -> str:
    "Wait."
    await asyncio.sleep(seconds)
    return "waited"

async def go(prompt, *turns, pace=0.02, piece=12):
    shown = show_run(prompt, lambda: run.stop())
    run = Run(listener=shown.listener)
    try:
        await Agent(scripted(*turns, pace=pace, piece=piece), Toolbox([read, wait])).run(prompt, run)
    finally:
        shown.close()
"""
LONG = "'\\n\\n'.join(f'Paragraph {n} of a long answer that goes on for a while.' for n in range(400))"


@pytest.fixture
def running(desk):
    """Starts one run in a notebook and returns it with the live view on show."""

    def start(code):
        notebook = desk.open([SETUP, code])
        notebook.run(0)
        notebook.start(1)
        notebook.page.locator(".hnb-run").wait_for()
        return notebook

    return start


def stop(notebook):
    notebook.press("Stop", 1)
    notebook.wait(1)


def test_an_opened_fold_a_scroll_and_a_selection_stay_while_text_streams(running):
    notebook = running(f"await go('Why?', say('Reading.', call('read', path='a.csv')), {LONG})")
    page = notebook.page
    page.locator("summary", has_text="read").click()
    box = page.locator(".hnb-call pre").nth(1)
    box.evaluate("box => { box.scrollTop = 100; window.box = box }")
    page.get_by_text("Paragraph 3 of").wait_for()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.hnb-text p'))")
    page.get_by_text("Paragraph 12 of").wait_for()
    assert page.locator(".hnb-call").get_attribute("open") is not None
    assert page.evaluate("window.box.isConnected && window.box.scrollTop") == 100
    assert page.evaluate("getSelection().toString()") == "Reading."
    stop(notebook)


def test_stop_works_by_keyboard_and_its_key_is_shown_on_focus(running):
    notebook = running("await go('Why?', say(call('wait')))")
    page = notebook.page
    page.locator(".hnb-state", has_text="running wait").wait_for()
    page.locator(".hnb-stop").focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    expect(page.locator(".hnb-stop kbd")).to_be_visible()
    page.keyboard.press("Enter")
    notebook.wait(1)
    assert "stopped by you" in notebook.text(1)


def test_one_polite_live_region_says_what_goes_on(running):
    notebook = running("await go('Why?', say(call('wait')))")
    region = notebook.page.locator(".hnb-run [role=status]")
    expect(region).to_have_text("agent: running wait")
    assert (
        notebook.page.locator(".hnb-run [aria-live], .hnb-run [role=log], .hnb-run [role=alert]").count() == 0
    )
    stop(notebook)


def test_a_second_view_shows_all_of_it(running):
    notebook = running(f"await go('Why?', say('Reading.', call('read', path='a.csv')), {LONG})")
    page = notebook.page
    page.get_by_text("Paragraph 3 of").wait_for()
    notebook._ask("app.commands.execute('notebook:create-output-view')")
    second = page.locator(".jp-LinkedOutputView .hnb-run")
    expect(second).to_contain_text("Paragraph 12 of")
    expect(second).to_contain_text("Reading.")
    stop(notebook)


def test_a_page_reloaded_in_the_middle_shows_all_of_it(running):
    notebook = running(f"await go('Why?', {LONG})")
    notebook.page.get_by_text("Paragraph 3 of").wait_for()
    notebook.save()
    notebook.page.reload()
    view = notebook.page.locator(".hnb-run")
    expect(view).to_contain_text("Paragraph 0 of", timeout=60_000)
    expect(view).to_contain_text("Paragraph 20 of", timeout=60_000)


def test_a_blocked_kernel_cannot_hear_stop_and_the_view_says_what_to_do(running):
    notebook = running(
        "import time\n"
        "from harness_nb.events import *\n"
        "shown = show_run('Why?', lambda: None)\n"
        "shown.listener(RunStarted('r', 'tiny', 5))\n"
        "time.sleep(600)"
    )
    notebook.press("Stop", 1)
    notebook.page.get_by_text("This kernel does not hear buttons while a cell runs").wait_for()
    notebook.interrupt()
    notebook.wait(1)


def test_hostile_text_is_inert_and_readable_live(running):
    payloads = [payload for payload in PAYLOADS if "\x1b" not in payload]
    notebook = running(
        f"P = {payloads!r}\n"
        "await go(P[0], say(*(Thinking(p) for p in P), *(p + chr(10) * 2 for p in P), call('wait', seconds=0.1, a=P),"
        " *(call(p, x=p) for p in P)), say(call('wait')), pace=0)"
    )
    page = notebook.page
    page.locator(".hnb-state", has_text="running wait").wait_for()
    allowed = [
        "SECTION",
        "HEADER",
        "SPAN",
        "B",
        "BUTTON",
        "KBD",
        "DIV",
        "P",
        "DETAILS",
        "SUMMARY",
        "PRE",
        "CODE",
        "A",
        "BR",
        "UL",
        "OL",
        "LI",
        "STRONG",
        "EM",
    ]
    tags = page.evaluate("[...new Set([...document.querySelectorAll('.hnb-run *')].map((e) => e.tagName))]")
    assert set(tags) <= set(allowed)
    names = page.evaluate(
        "[...document.querySelectorAll('.hnb-run *')].flatMap((e) => e.getAttributeNames())"
    )
    assert not [name for name in names if name.startswith("on") or name in {"src", "srcdoc"}]
    links = page.evaluate("[...document.querySelectorAll('.hnb-run a')].map((a) => a.getAttribute('href'))")
    assert all(link.startswith(("http://", "https://")) for link in links)
    assert page.evaluate("typeof window.x") == "undefined"
    seen = page.locator(".hnb-run").inner_text()
    for payload in ("<script>top.x=1</script>", "&lt;b&gt;", "[a](javascript:x)", '" onmouseover="x'):
        assert payload in seen
    stop(notebook)
    assert page.evaluate("typeof window.x") == "undefined"
    assert not notebook.faults


def test_a_restarted_turn_leaves_nothing_behind(running):
    notebook = running(
        "from harness_nb.events import *\n"
        "shown = show_run('Why?', lambda: None)\n"
        "for event in (RunStarted('r', 'tiny', 5), TurnStarted(1), TextDelta('Lost words')): shown.listener(event)\n"
        "await asyncio.sleep(1)\n"
        "for event in (TurnRestarted('the stream was cut'), TextDelta('New words')): shown.listener(event)\n"
        "await asyncio.sleep(3600)"
    )
    view = notebook.page.locator(".hnb-run")
    expect(view).to_contain_text("Lost words")
    expect(view).to_contain_text("New words")
    assert "Lost words" not in view.inner_text()
    assert "Asked the model again: the stream was cut" in view.inner_text()


def test_an_older_kernel_that_hears_nothing_while_it_runs_still_shows_the_run(desk):
    python = python_of("6.31")
    spec = desk.lab.root.parent / "data" / "kernels" / "older"
    spec.mkdir(parents=True, exist_ok=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "older", "language": "python"})
    )
    name = desk.lab.place([SETUP, f"await go('Why?', {LONG})"])
    path = desk.lab.root / name
    path.write_text(path.read_text().replace('"python3"', '"older"'))
    notebook = desk.open(name)
    notebook.run(0)
    notebook.start(1)
    page = notebook.page
    page.get_by_text("Paragraph 20 of").wait_for()
    expect(page.locator(".hnb-run")).to_contain_text("Paragraph 0 of")
    notebook.press("Stop", 1)
    page.get_by_text("This kernel does not hear buttons while a cell runs").wait_for()
    notebook.interrupt()
    notebook.wait(1)


def test_a_download_has_a_bar_that_moves(running):
    notebook = running(
        "from harness_nb.events import Progress\n"
        "class Fetching:\n"
        "    name = 'qwen2.5-coder-0.5b · local, small'\n"
        "    async def __call__(self, request, run):\n"
        "        for done in range(0, 400_000_000, 4_000_000):\n"
        "            run.emit(Progress('the model qwen2.5-coder-0.5b, once', done, 491_400_064))\n"
        "            await asyncio.sleep(0.03)\n"
        "        await gate.wait()\n"
        "shown = show_run('Why?', lambda: run.stop())\n"
        "run = Run(listener=shown.listener)\n"
        "await Agent(Fetching()).run('Why?', run)\n"
        "shown.close()"
    )
    bar = notebook.page.locator(".hnb-note progress")
    bar.wait_for()
    first = bar.evaluate("bar => bar.position")
    notebook.page.get_by_text("396 MB of 491 MB").wait_for()
    assert 0 <= first < bar.evaluate("bar => bar.position") == pytest.approx(0.81, abs=0.01)
    notebook.screenshot("live_download", 1)
    stop(notebook)
