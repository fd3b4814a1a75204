"""Show 2: `%agent` in real JupyterLab: live, stopped, run again, saved, reopened. Pictures go to .ci/artefacts."""

import re

import pytest
from browser.lab import ROOT
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SETUP = '''
%load_ext harness_nb
import asyncio
import harness_nb
from harness_nb import ProviderError, call, say, scripted, tool
from harness_nb.messages import Thinking

@tool(effects={"read"})
def read_file(path: str) -> str:
    """Read a file."""
    return "\\n".join(["item,price,count", *(f"item {n},{n % 7 + 1},{n}" for n in range(41))])

@tool(effects={"read"})
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b

@tool(effects={"read"})
def fetch(url: str) -> str:
    """Fetch a page."""
    raise TimeoutError("example.org did not answer within 10 s")

@tool(effects={"read"})
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"

def script(*turns, pace=0.0, piece=12, name="scripted"):
    harness_nb.session().model = scripted(*turns, pace=pace, piece=piece, name=name)

ANSWER = """The total over **41 items** is `3,206`.

| item | price | count | total |
|---|--:|--:|--:|
| item 1 | 2 | 1 | 2 |
| item 2 | 3 | 2 | 6 |

1. Read `prices.csv`
2. Multiply *price* by *count*
   - skip the header

```python
total = sum(int(price) * int(count) for _, price, count in rows)
```

> Prices are between $1 and $7. See [the list](https://example.org/prices).
"""
'''
STORY = """script(
    say(Thinking("The person wants the sum of price times count. First I read the file. " * 6),
        "I will read the file, then multiply and add.", call("read_file", path="prices.csv")),
    say(call("multiply", a=7, b=41), call("fetch", url="https://example.org/prices?page=1&per_page=100&sort=price")),
    ANSWER, pace=0.05, name="qwen2.5-coder-0.5b · local, small")
%agent Read prices.csv, add a total column, and tell me the sum."""
WAITING = 'script(say("I will wait a while.", call("wait", seconds=3600)))\n%agent Take your time.'
AGAIN = 'script("Here I am again.")\n%agent And now?'
FAILING = 'script(say("Let me see.", call("multiply", a=1, b=2)), ProviderError("529: the service is overloaded"))\n%agent Try.'
LONG = 'TEXT = " ".join(f"{n:04}" for n in range(5000))\nscript(TEXT, piece=5)\n%agent Count.'

WIDGET = "application/vnd.jupyter.widget-view+json"


def record_reads_well(notebook, n):
    """Whether the story of STORY can be read below cell n, in order, with its details folded and unfolding."""
    text = " ".join(notebook.text(n).split())
    story = [
        "agent · done in 3 turns",
        "Read prices.csv, add",
        "Thinking ·",
        "I will read the file",
        "read_file path=",
    ]
    story += [
        "ok, 42 lines",
        "multiply a=7, b=41 → 287",
        "fetch url=",
        "— failed: TimeoutError",
        "41 items is 3,206.",
    ]
    places = [text.find(part) for part in story]
    assert -1 not in places, f"{story[places.index(-1)]!r} is missing in {text!r}"
    assert places == sorted(places)
    fold = notebook.output(n).locator("details", has_text="read_file")
    expect(fold.get_by_text("item 3,4,3")).to_be_hidden()
    fold.locator("summary").click()
    expect(fold.get_by_text("item 3,4,3")).to_be_visible()
    fold.locator("summary").click()


def seconds_to_stop(notebook, n):
    """Click Stop and measure, in the page, how long the cell goes on."""
    return notebook.page.evaluate(
        """async (n) => {
          const began = performance.now();
          document.querySelector(".hnb-stop").click();
          while (!window.runs[n]) await new Promise((done) => setTimeout(done, 5));
          return (performance.now() - began) / 1000;
        }""",
        n,
    )


def test_a_run_streams_can_be_stopped_and_reads_well_when_reopened(desk):
    notebook = desk.open([SETUP, STORY, WAITING, AGAIN])
    notebook.resize(1200, 1100)
    notebook.run(0)
    page = notebook.page

    notebook.start(1)
    view = page.locator(".hnb-run")
    expect(view).to_contain_text("I will read the file")
    assert notebook.running(1)
    expect(view.locator(".hnb-call", has_text="read_file")).to_contain_text("ok, 42 lines")
    expect(view.locator(".hnb-text table")).to_be_visible()
    assert notebook.running(1)
    notebook.screenshot("live_light", 1)
    notebook.theme("dark")
    notebook.screenshot("live_dark", 1)
    notebook.theme("light")
    notebook.wait(1)
    record_reads_well(notebook, 1)

    for _ in range(3):  # something else may have held up the machine
        notebook.start(2)
        page.locator(".hnb-state", has_text="running wait").wait_for()
        took = seconds_to_stop(notebook, 2)
        if took < 1:
            break
    print(f"\nthe cell was free {took:.2f} s after Stop was pressed (target: 1 s)")
    assert took < 1
    assert "stopped by you in turn 1" in notebook.text(2)
    notebook.screenshot("record_interrupted", 2)

    assert "Here I am again." in notebook.run(3)
    notebook.save()
    notebook.close()
    saved = desk.lab.saved(notebook.name)
    assert "widgets" not in saved["metadata"]
    assert WIDGET not in str(saved)
    assert not notebook.faults

    trusted = desk.open(notebook.name, kernel=False)
    record_reads_well(trusted, 1)
    stranger = desk.open(desk.lab.untrusted(notebook.name), kernel=False)
    stranger.resize(1200, 1100)
    record_reads_well(stranger, 1)
    stranger.screenshot("record_untrusted", 1)
    assert "Stopped by you." in stranger.text(2)


@pytest.mark.llama
@pytest.mark.slow
def test_the_welcome_notebook_answers_on_the_embedded_model_and_calls_a_tool(desk):
    notebook = desk.open(ROOT / "notebooks" / "00_welcome.ipynb")
    code = ["".join(cell["source"]) for cell in desk.lab.saved(notebook.name)["cells"]]
    load, ask = code.index("%load_ext harness_nb"), code.index("%agent What is 1234 * 5678?")
    notebook.run(load)
    notebook.start(ask)
    call = notebook.page.locator(".hnb-call", has_text="calc")
    expect(call).to_contain_text("7006652", timeout=300_000)
    assert notebook.running(ask)
    notebook.wait(ask, timeout=300)
    assert "agent · done" in notebook.text(ask)
    notebook.screenshot("welcome", ask)


def test_the_pictures_of_the_other_states(desk):
    notebook = desk.open([SETUP, STORY, FAILING])
    notebook.resize(1200, 1300)
    notebook.run(0)
    notebook.run(1)
    notebook.run(2)
    assert "failed in turn 2" in notebook.text(2)
    notebook.screenshot("record_light", 1)
    notebook.screenshot("record_error", 2)
    notebook.theme("dark")
    notebook.screenshot("record_dark", 1)
    notebook.theme("light")
    notebook.resize(600, 1500)
    notebook.screenshot("record_600", 1)
    wide = notebook.page.evaluate(
        "[...document.querySelectorAll('.jp-OutputArea-output')].map((o) => o.scrollWidth - o.clientWidth)"
    )
    assert max(wide) <= 1, "an output is wider than a 600 px window"


def test_a_long_run_leaves_a_light_notebook(desk):
    notebook = desk.open([SETUP, LONG])
    notebook.run(0)
    notebook.run(1)
    notebook.save()
    size = (desk.lab.root / notebook.name).stat().st_size
    print(f"\nnotebook of a run of 5,000 deltas (25 kB of text): {size / 1000:.1f} kB (target: 50 kB)")
    assert size < 50_000
    saved = desk.lab.saved(notebook.name)
    assert "widgets" not in saved["metadata"]
    outputs = saved["cells"][1]["outputs"]
    assert len(outputs) < 5
    assert WIDGET not in str(outputs)
    html = next(output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {}))
    numbers = re.findall(r"\b\d{4}\b", "".join(html))
    assert numbers[-5000:] == [f"{n:04}" for n in range(5000)]
