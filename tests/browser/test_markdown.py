"""The two Markdown renderers: markdown.js while text streams, markdown.py in the record. They must agree, and be inert."""

from pathlib import Path

import pytest

from harness_nb.jupyter.markdown import as_html

pytestmark = pytest.mark.browser

SCRIPT = (Path(__file__).parents[2] / "harness_nb" / "jupyter" / "markdown.js").read_text(encoding="utf-8")

SAMPLES = [
    "One paragraph.",
    "Two lines\nof one paragraph.\n\nAnother.",
    "# Title\n\nText\n## Sub ##\ntext\n#not a title\n####### nor this",
    "**bold**, *slanted*, ***both***, __bold__, _slanted_, `code`, ``a ` b``, ` x `",
    "snake_case_name and 2*3*4 and a * b * c and **not closed and *nor this",
    "*a **b** c* and **a *b* c** and **a *b***",
    "- one\n- two\n  - inner\n  - more\n- three",
    "* a\n\n* b\n\n  second paragraph of b\n\n* c",
    "3. three\n4. four\n\n   ```\n   code in item\n   ```\n5. five",
    "- a\n- b\n+ other list\n1) x\n2) y",
    "Text\n- a list right after\n- it\n\nEnd.",
    "The number\n14. does not start a list",
    "- item\nlazy continuation\n\nNew paragraph.",
    "```python\ndef f(x):\n    return x < 2 and '*'\n\n```\nafter",
    "~~~\n```\n~~~\n\n```\nunclosed *fence*\n\n  still",
    "> quoted\n> **more**\nlazy\n\n> again\n> - list\n> - in it",
    "| a | b |\n|---|--:|\n| 1 | 2 |\n| `x\\|y` | **z** | extra |\n| only |\n\nafter",
    "a | b\n--|:-:\n1 | 2",
    "Here it is:\n| a |\n|---|\n| 1 |\nafter",
    "2*3 *em* and **a *b* c** and x*y*z",
    "| not | a table |\n\n|--|",
    "---\n***\n_ _ _\ntext\n---\nmore",
    '[link](https://x.example/a_(b)?q=1&r=2 "title") <https://y.example> [mail](mailto:a@b.example)',
    "[js](javascript:x) [rel](file.txt) [data](data:text/html,x) <javascript:x> [a] [b][c]",
    "![plot](https://x.example/p.png) ![local](p.png)",
    "\\*not slanted\\* \\` \\[x](https://x.example) a\\\nb",
    "<b>html</b> <script>x</script> &lt;b&gt; &amp; &copy; <!-- c --> <img src=x onerror=x>",
    "line with two spaces  \nand the next",
    "Prices: $5 and $6, 100%, a~b, x^2, #3, [1], (2), {3}",
    "    four spaces are not code",
    "**Note:** text\n\n**Steps**\n1. First\n   - sub\n2. Second\n\n**End**",
    "* *slanted item*\n* **bold item**: text\n* `code`",
    "日本語の**太字**と`コード`。\n\n- 項目",
]
"""What models write, and what they had better not."""

HARNESS = """async ({ source, texts }) => {
  const module = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  return texts.map((steps) => {
    const prose = new module.Prose();
    for (const body of steps) prose.draw({ body });
    return tree(prose.element);
  });
""" + (
    TREE := """
  function tree(node) {
    if (node.nodeType === Node.TEXT_NODE) return node.data.replace(/\\s+/g, " ");
    const inside = [];
    for (const child of node.childNodes) {
      const made = tree(child);
      if (typeof made === "string" && typeof inside.at(-1) === "string") inside.push(inside.pop() + made);
      else inside.push(made);
    }
    const facts = [node.getAttribute("href"), node.getAttribute("start"), node.style.textAlign].filter(Boolean);
    const kept = inside.map((made) => (typeof made === "string" ? made.trim() : made)).filter((made) => made !== "");
    return [node.tagName.toLowerCase(), ...facts.filter((fact) => fact !== "left"), ...kept];
  }
}"""
)

PARSED = (
    """({ pages }) => {
  return pages.map((page) => {
    const body = new DOMParser().parseFromString(`<div>${page}</div>`, "text/html").body.firstChild;
    return tree(body);
  });
"""
    + TREE
)


@pytest.fixture(scope="module")
def page(chromium):
    opened = chromium.new_page()
    yield opened
    opened.close()


def drawn(page, *streams):
    return page.evaluate(HARNESS, {"source": SCRIPT, "texts": list(streams)})


def test_both_renderers_draw_the_same(page):
    live = drawn(page, *([sample] for sample in SAMPLES))
    record = page.evaluate(PARSED, {"pages": [as_html(sample) for sample in SAMPLES]})
    differing = [
        f"{sample!r}\n  live   {a}\n  record {b}"
        for sample, a, b in zip(SAMPLES, live, record, strict=True)
        if a != b
    ]
    assert not differing, "\n".join(differing)


def test_text_that_streams_ends_as_text_that_came_whole(page):
    whole = "\n\n".join(SAMPLES[:-1])
    steps = [whole[:end] for end in range(0, len(whole), 3)] + [whole]
    streamed, at_once = drawn(page, steps, [whole])
    assert streamed == at_once


def test_what_is_finished_is_not_drawn_again(page):
    kept = page.evaluate(
        """async ({ source }) => {
          const module = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
          const prose = new module.Prose();
          prose.draw({ body: "First.\\n\\nSecond, **bold**" });
          const [first, second] = prose.element.childNodes;
          const text = second.firstChild;
          prose.draw({ body: "First.\\n\\nSecond, **bold** and more.\\n\\nThird." });
          const now = prose.element.childNodes;
          return [now[0] === first, now[1] === second, now[1].firstChild === text, now.length];
        }""",
        {"source": SCRIPT},
    )
    assert kept == [True, True, True, 3]


HOSTILE = {
    "unclosed emphasis": "*a" * 20_000,
    "nested emphasis": "*_" * 20_000,
    "deep quotes": ">" * 20_000,
    "deep lists": "- " * 20_000,
    "unclosed links": "[" * 20_000 + "](" * 20_000,
    "ticks of every length": " ".join("`" * n for n in range(200)),
    "spaces": "#" + " " * 40_000 + "x",
    "a wide table": "|".join("a" * 5_000) + "\n" + "|".join("-" * 5_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_makes_the_browser_hang(page, name):
    started = page.evaluate("performance.now()")
    drawn(page, [HOSTILE[name]])
    took = page.evaluate("performance.now()") - started
    assert took < 60_000  # a hang lasts for ever; a busy machine does not
