"""Show 4, public bug report R18: hostile text in every field of the live view, its card and the record runs nothing, fetches nothing, and reads literally."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SETUP = r"""
%load_ext harness_nb
import harness_nb
from harness_nb import ToolError, call, say, scripted, tool
from harness_nb.messages import Thinking

ACTS = [
    "<script>window.broken=1</script>", "<img src=x onerror=window.broken=1>", "<svg/onload=window.broken=1>",
    "<iframe src=//evil.test></iframe>", "<style>*{display:none}</style>", "<a href=javascript:window.broken=1>x</a>",
    "![x](https://evil.test/x.png)", "[x](javascript:window.broken=1)", "<details open ontoggle=window.broken=1>",
    "</pre></div></section><input autofocus onfocus=window.broken=1>", "<link rel=stylesheet href=//evil.test/a.css>",
    "<meta http-equiv=refresh content=0;url=//evil.test>", "<math><mi xlink:href=javascript:window.broken=1>",
]
ROUND = ["{}", "\u202e{}\u2066", "\x1b[31m{}\x07", "`{}`", "-->{}<!--", "\"'>{}", "{}\u200f\ufeff", "&lt;{}&#60;", "{}\U000e0041\U000e007f\U000e0101\ufe0f\ufe0e"]
STRINGS = [round_.format(act) for act in ACTS for round_ in ROUND]
ALL = "\n".join(STRINGS)

@tool(effects={"read"})
def returns(text: str) -> str:
    "Return it."
    return text

@tool(effects={"read"})
def fails(text: str) -> str:
    "Fail with it."
    raise ToolError(text)

turns = [
    say(Thinking(ALL), ALL, call("returns", text=ALL), call("fails", text=ALL), call(STRINGS[1], text=ALL)),
    say(call("run_python", code=ALL)), ALL,
]
harness_nb.session().model = scripted(*turns, name=STRINGS[0])
print(len(STRINGS))
"""
RUN = "result = await harness_nb.session().run(ALL)"
SHOWN = "from harness_nb.jupyter.words import visible\nprint(visible(ALL))"
FOREIGN = """(area) => [...area.querySelectorAll("*")].flatMap((e) => [
  /^(script|img|iframe|svg|style|link|meta|math|input|object|embed|form|video|audio|base)$/i.test(e.tagName) ? e.outerHTML : [],
  [...e.attributes].filter((a) => /^on/i.test(a.name) || /^\\s*(javascript|data):/i.test(a.value)).map((a) => a.name + "=" + a.value),
].flat())"""


def test_hostile_text_reads_literally_in_the_view_the_card_and_the_record(desk):
    notebook = desk.open([SETUP, RUN, SHOWN])
    asked = []
    notebook.page.on("request", lambda request: asked.append(request.url))
    count = int(notebook.run(0))
    print(f"\n{count} hostile strings in each field")
    assert count >= 100

    notebook.start(1)
    card = notebook.page.locator(".hnb-ask")
    expect(card).to_be_focused()
    shown = card.locator(".hnb-preview").evaluate("(e) => e.textContent")
    assert notebook.page.locator(".hnb-run").evaluate(FOREIGN) == []
    for summary in notebook.page.locator(".hnb-run summary").all():
        summary.click()
    assert notebook.page.locator(".hnb-run").evaluate(FOREIGN) == []
    card.get_by_role("button", name="Deny…").click()
    card.locator("input").fill("<img src=x onerror=window.broken=1>")
    notebook.page.keyboard.press("Enter")
    notebook.wait(1)

    record = notebook.output(1).locator(".jp-RenderedHTMLCommon").first
    assert record.evaluate(FOREIGN) == []
    assert "denied by you: <img src=x onerror=window.broken=1>" in notebook.text(1)
    notebook.run(2)
    (literal,) = notebook.outputs(2)
    assert "".join(literal["text"]).strip() == shown.strip()
    assert notebook.page.evaluate("window.broken") is None
    assert [url for url in asked if "evil" in url] == []
    assert not notebook.faults
