"""The static record: what it says, and what it must never do."""

import sys
from html.parser import HTMLParser

import nbformat
import pytest
from markdown_it import MarkdownIt
from nbconvert import HTMLExporter

from harness_nb.context.fates import Fate
from harness_nb.events import (
    CallDelta,
    ContextMeasured,
    DecisionMade,
    Fill,
    Notice,
    RunEnded,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from harness_nb.jupyter.decision_card import Effect
from harness_nb.jupyter.markdown import as_html as markdown
from harness_nb.jupyter.record import as_html, as_markdown, as_text, bundle, stand_in
from harness_nb.jupyter.view import HEADLINES, RunView
from harness_nb.messages import Decision, Message, Summary, Text, ToolCall, ToolResult, Usage

PAYLOADS = [
    "<script>top.x=1</script>",
    "<img src=x onerror=x=1>",
    "[a](javascript:x)",
    "![a](http://tracker.example/p.png)",
    '</pre></script><iframe srcdoc="<script>1</script>">',
    '" onmouseover="x',
    "<svg/onload=x>",
    "```\ncode\n```\n<script>1</script>\n```",
    "&lt;b&gt;",
    "\x1b[31m<b>x</b>",
    "[a]: javascript:x\n\n[a]",
    "<javascript:x>",
    "[a](data:text/html,x) [b]( <javascript:x> ) [c](JaVaScript:x)",
    '[a](http://x "on\'x\\" onclick=x")',
]
ELEMENTS = {
    *("div", "span", "details", "summary", "strong", "em", "code", "pre", "p", "br", "hr", "a", "blockquote"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "h1", "h2", "h3", "h4", "h5", "h6"),
}
ATTRIBUTES = {"scope", "style", "href", "class", "start", "title", "cellpadding"}


class Elements(HTMLParser):
    """What a browser would make of some HTML: elements, attributes and the text between them."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.links, self.words = set(), set(), set(), ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value for name, value in attrs if name in {"href", "src"}}

    def handle_data(self, data):
        self.words += data


def effect(what="result of look", kind="masked"):
    """What a decision did: two messages kept, one changed."""
    fates = [Fate(1, "m1", what, "kept", 10, 10), Fate(2, "m2", what, "kept", 20, 20)]
    before, after = (
        Fill({"system": 60, "results": size}, 1000, 200, "o200k_base", "red") for size in (600, 300)
    )
    return Effect((*fates, Fate(3, "m3", what, kind, 330, 30)), before, after, 1)


def told(*events, prompt="Why?", reason="done", detail="", does=None):
    """The view of a finished run of one turn that took no time; `does` is what its decisions do."""
    view = RunView(prompt, clock=lambda: 0.0)
    view.effect_of = lambda _: does or effect()
    for event in (RunStarted("r1", "tiny", 50), TurnStarted(1), *events):
        view.take(event)
    view.take(RunEnded(reason, detail, 1, Usage(4530, 282)))
    return view


def used(name="add", raw='{"a": 1}', result="3", *, error=False):
    call = ToolCall("c1", name, raw)
    finished = ToolFinished(call, ToolResult("c1", (Text(result),), is_error=error), 0.1)
    return [CallDelta("c1", name), ToolStarted(call), finished]


def everywhere(payload):
    """A run with the payload wherever text from outside can stand."""
    return told(
        *(
            ThinkingDelta(payload),
            *used(payload, f'{{"x": "{payload}"}}', payload),
            *used("f", payload, payload, error=True),
        ),
        *(Notice(payload), decided(payload), TextDelta(payload)),
        prompt=payload,
        reason="error",
        detail=payload,
        does=effect(payload),
    )


def decided(words, why=""):
    """A compaction with these words in its summary and its reason."""
    summary = Message("user", (Summary(words, 2),))
    return DecisionMade(Decision("compact", why or words, {"m3": (summary,)}, before=660, after=360, id="d1"))


def test_the_record_tells_the_story_in_order_and_the_answer_comes_last():
    view = told(ThinkingDelta("Hm"), *used(), TextDelta("It is **3**."), Notice("By the way."))
    words = Elements(as_html(view)).words
    story = [
        "agent · done in 1 turn, under 1 s",
        "tiny · 4,530 tokens in, 282 out",
        "Why?",
        "Thinking",
        "add a=1 → 3",
    ]
    places = [words.index(part) for part in [*story, "By the way.", "It is 3."]]
    assert places == sorted(places)
    assert words.strip().endswith("It is 3.")


def test_thinking_and_calls_are_folded_and_the_answer_is_not():
    html = as_html(told(ThinkingDelta("Hm"), *used(), TextDelta("It is 3.")))
    assert html.count("<details") == html.count("<summary") == 2
    assert "<details open" not in html
    assert html.index("It is 3.") > html.rindex("</details>")


@pytest.mark.parametrize("reason", [reason for reason in HEADLINES if reason != "done"])
def test_an_end_other_than_done_is_a_sentence_and_the_last_word(reason):
    view = told(TextDelta("So far"), reason=reason, detail="Because.")
    drawn = Elements(as_html(view)).words, view.ending.replace("`", "")
    for form, ending in (drawn, (as_text(view), view.ending)):
        assert ending in form
        assert form.index("So far") < form.index(ending)


FORMS = (
    lambda view: Elements(as_html(view)).words,
    as_text,
    lambda view: as_markdown(view).replace("\\", ""),
)


@pytest.mark.parametrize("form", FORMS)
def test_a_decision_is_told_in_every_form_with_its_numbers_its_table_and_how_to_undo_it(form):
    words = form(
        told(decided("It was page 7.", "The context was 83% full, so it was summarised."), TextDelta("Yes."))
    )
    parts = ("The context was 83% full, so it was summarised.", "660 → 360 tokens", "It was page 7.")
    for part in (*parts, "2 messages as before", "result of look", "masked", "330", "%context undo 1"):
        assert part in words
    assert words.index("83% full") < words.index("Yes.")


def test_the_bars_say_their_numbers_and_keep_their_widths_without_a_style_sheet():
    html = as_html(told(decided("It was page 7.")))
    assert "width:75.0%;height:12px;background-color:rgb(224,163,62)" in html
    assert "width:37.5%;height:12px;background-color:rgb(224,163,62)" in html
    words = Elements(html).words
    assert "82%, nearly full, 660 tokens" in words
    assert "tool results 600 → 300" in words
    assert "var(" not in html


def test_what_a_person_did_is_one_quiet_line_and_a_card_taken_back_says_so():
    undo = DecisionMade(Decision("you", "You took decision 1 back: It was full.", undoes="d1"))
    view = told(decided("It was page 7.", "It was full."), undo)
    words = Elements(as_html(view)).words
    assert "It was full. You took this back." in words
    assert "You took decision 1 back" in words
    assert "%context undo" not in words


def test_how_full_the_context_is_stands_beside_the_tokens_where_the_window_is_known():
    measured = [
        ContextMeasured(1, Fill({"user": 590}, window, window // 4, "x", "yellow")) for window in (1200, 0)
    ]
    known, unknown = (told(event, TextDelta("Yes.")) for event in measured)
    for form in FORMS[:2]:
        assert "282 out · context 66%, filling up" in form(known)
        assert "context" not in form(unknown)


def test_of_many_decisions_each_keeps_a_few_lines_and_the_record_stays_light():
    many = Effect(
        tuple(Fate(n, f"m{n}", "result of look", "masked" if n % 2 else "kept", 400, 40) for n in range(500))
    )
    decisions = [DecisionMade(Decision("mask", f"Full {n}.", {"m1": ()})) for n in range(30)]
    view = told(*decisions, does=many)
    assert "245 more lines not shown" in as_text(view)
    assert len(as_html(view)) < 100_000


def test_the_same_run_gives_the_same_bytes():
    events = [ThinkingDelta("Hm"), *used(), TextDelta("It is 3.")]
    assert bundle(told(*events)) == bundle(told(*events))


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_from_outside_becomes_a_live_element_or_attribute(payload):
    found = Elements(as_html(everywhere(payload)))
    assert found.tags <= ELEMENTS
    assert found.attributes <= ATTRIBUTES
    assert all(link.startswith(("http://", "https://")) for link in found.links)


@pytest.mark.parametrize(
    "payload", ["<script>top.x=1</script>", "&lt;b&gt;", "[a](javascript:x)", '" onmouseover="x']
)
def test_hostile_text_can_be_read_as_it_stands(payload):
    assert Elements(as_html(told(TextDelta(payload)))).words.strip().endswith(payload)
    assert Elements(as_html(told(prompt=payload))).words.strip().endswith(payload)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_the_markdown_form_is_inert_even_where_raw_html_is_allowed(payload):
    found = Elements(
        MarkdownIt("commonmark", {"html": True}).enable("table").render(as_markdown(everywhere(payload)))
    )
    assert found.tags <= ELEMENTS
    assert all(link.startswith(("http://", "https://")) for link in found.links)


def test_an_exported_notebook_holds_nothing_live():
    outputs = [
        nbformat.v4.new_output("display_data", data=bundle(everywhere(payload))) for payload in PAYLOADS
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=outputs)])
    exported, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    assert Elements(exported).tags <= ELEMENTS | {"button"}
    assert not any(name.startswith("on") for name in Elements(exported).attributes)


def test_control_codes_are_shown_in_every_form():
    for form in bundle(everywhere("\x1b[2J\x1b]0;t\x07 a\rb \u202e")).values():
        assert "␛[2J" in form.replace("\\[", "[")
        assert not {"\x1b", "\x07", "\r", "\u202e"} & set(form)


def test_it_uses_only_what_an_untrusted_notebook_keeps():
    html = as_html(
        told(ThinkingDelta("Hm"), *used(), TextDelta("# A\n\n|a|\n|-|\n|b|\n\n`c`"), reason="error")
    )
    assert Elements(html).tags <= ELEMENTS
    assert not any(
        word in html for word in ("var(", "position", "aria-", "role=", "data-", " id=", "anywhere")
    )


def test_without_styles_the_words_do_not_run_together():
    words = Elements(as_html(told(*used(result="a\nb")))).words
    assert "under 1 s · tiny · 4,530 tokens" in words
    assert "add a=1 — ok, 2 lines, 3 bytes" in words


def test_a_name_within_a_sentence_is_set_as_code_and_stays_text():
    html = as_html(told(Notice("Described to the model: `a<b>`.")))
    assert "Described to the model: <code" in html
    assert ">a&lt;b&gt;</code>." in html


def test_what_stands_in_for_a_live_view_says_that_the_run_is_not_finished():
    forms = stand_in("Why <b>?")
    for words in (Elements(forms["text/html"]).words, forms["text/plain"]):
        assert "not finished when this was saved" in words
        assert "Why <b>?" in words


def test_a_long_run_stays_light_and_its_answer_whole():
    text = "".join(f"{n:04} " for n in range(5000))
    forms = bundle(told(*(TextDelta(piece) for piece in text.split(" "))))
    assert text.replace(" ", "") in Elements(forms["text/html"]).words.replace("\n", "")
    assert sum(map(len, forms.values())) < 48_000


def test_a_huge_result_does_not_bloat_the_record():
    forms = bundle(told(*used(result="line\n" * 100_000), TextDelta("Done.")))
    assert sum(map(len, forms.values())) < 10_000
    assert "100,000 lines" in forms["text/plain"]


def test_many_calls_share_the_space():
    calls = [event for n in range(60) for event in (TurnStarted(n + 1), *used(result="x" * 5000))]
    assert sum(map(len, bundle(told(*calls)).values())) < 150_000


def table(rows, columns):
    return "\n".join(["|" * (columns + 1), "|-" * columns + "|", *["|1" * columns + "|"] * rows])


def test_a_large_table_stays_light_and_is_still_a_table():
    html = bundle(told(TextDelta(table(100, 20))))["text/html"]
    assert html.count("<td") == 2000
    assert len(html) < 50_000


def test_what_would_be_heavy_is_shown_as_it_was_written_and_says_so():
    text = table(600, 20)
    forms = bundle(told(TextDelta(text)))
    words = Elements(forms["text/html"]).words
    assert "as it was written: drawn, it would weigh" in words
    assert text in words
    assert sum(map(len, forms.values())) < 50_000


@pytest.mark.parametrize("piece", ["a\n\n", "&", "<", "|a|\n|-|\n", "[[]()", "`a` "])
def test_words_of_any_kind_weigh_about_as_much_in_the_record_as_by_themselves(piece):
    text = piece * (25_000 // len(piece))
    assert sum(map(len, bundle(told(TextDelta(text))).values())) < 50_000
    assert len(as_html(told(*[TextDelta(text), *used()] * 40))) < 700_000


def test_the_answer_is_the_last_to_be_shortened():
    words = Elements(as_html(told(TextDelta("early " * 50_000), *used(), TextDelta("late " * 20_000)))).words
    assert words.count("late") == 20_000
    assert "characters not shown" in words


def calls_made(function):
    """How many Python functions it takes: the same on a busy machine as on an idle one."""
    count = 0

    def counted(_frame, event, _argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_the_work_of_drawing_a_flood_of_words_is_bounded():
    small, large = (told(TextDelta("[](<" * size)) for size in (10_000, 200_000))
    assert calls_made(lambda: as_html(large)) < 1.1 * calls_made(lambda: as_html(small))


class Fickle(RunView):
    """A view with a fault in it that shows once."""

    @property
    def answer_start(self):
        self.read = getattr(self, "read", 0) + 1
        return super().answer_start if self.read > 1 else 1 // 0


def test_a_record_that_cannot_be_drawn_is_text_and_says_so():
    view = Fickle("Why?")
    view.take(TextDelta("It is 3."))
    ((kind, text),) = bundle(view).items()
    assert kind == "text/plain"
    assert text.startswith("The record of this run could not be drawn (ZeroDivisionError)")
    assert "It is 3." in text


def test_an_unfinished_or_empty_run_can_be_drawn():
    for view in (RunView(), told(prompt="")):
        assert all(bundle(view).values())
        assert Elements(as_html(view)).tags <= ELEMENTS


def test_markdown_keeps_line_breaks_and_shows_pictures_as_links():
    assert "<br" in markdown("one\ntwo")
    assert 'href="https://x.example/p.png">plot</a>' in markdown("![plot](https://x.example/p.png)")
    assert "<img" not in markdown("![plot](https://x.example/p.png)")


@pytest.mark.parametrize(
    "source", ["```python\nprint(", "**bold", "[text](http://x", "| a |\n|-", "`code", "- item\n  - "]
)
def test_markdown_that_is_not_finished_is_drawn(source):
    assert Elements(markdown(source)).tags <= ELEMENTS
