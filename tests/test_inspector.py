"""The inspector: what it answers, its static twin in three forms, and its pictures."""

import importlib.abc
import json
import sys
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings, strategies as st
from played import played

from harness_nb.context.account import Account
from harness_nb.context.count import counting
from harness_nb.context.window import Window
from harness_nb.encoding import decode, encode
from harness_nb.errors import UsageError
from harness_nb.jupyter.charts import COLUMNS, bars, binned, table
from harness_nb.jupyter.inspection import Inspection
from harness_nb.jupyter.inspector import show_context
from harness_nb.jupyter.inspector_html import shown
from harness_nb.jupyter.inspector_pages import Pages
from harness_nb.jupyter.inspector_record import bundle, pictured
from harness_nb.jupyter.session import Session
from harness_nb.messages import Message, Text, Thinking, ToolCall, ToolResult, Transcript, assistant, user

ACTS = [
    "<script>broken()</script>",
    "<img src=x onerror=broken()>",
    "</pre></details><input autofocus onfocus=broken()>",
    "\"'><svg/onload=broken()>",
    "&lt;b&gt;",
    "\u202e<i>\u2066\x1b[31m\x07",
    "![x](https://evil.test/x.png) `code` | cell |",
    "\ud800 half",
]
HOSTILE = "\n".join(ACTS)
TAGS = {
    *("div", "span", "strong", "code", "details", "summary", "pre", "mark", "button", "img"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
}


def looked_at(*, turns=8, session="main", **more):
    account, transcript = played(turns, **more)
    return Inspection(session, transcript, list(account.turns), account)


class Read(HTMLParser):
    """What HTML holds: its tags, its attributes, its text."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = set(), set(), "", []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in {"img", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def hostile():
    """A session in which everything that a model or a tool can say is hostile."""
    transcript = Transcript([user(HOSTILE)])
    for n in range(2):
        transcript.append(
            assistant(
                Thinking(HOSTILE), HOSTILE, ToolCall(f"{HOSTILE}{n}", HOSTILE, json.dumps({HOSTILE: HOSTILE}))
            )
        )
        transcript.append(Message("tool", (ToolResult(f"{HOSTILE}{n}", (Text(HOSTILE),)),)))
    transcript.append(assistant(HOSTILE))
    session = Session(HOSTILE)
    session.transcript = transcript
    return session


def drawn(session):
    """Everything that the inspector can send of the newest turn."""
    pages = Pages(session, Inspection.of(session))
    yield from (
        pages.shown({"tab": tab})["body"] for tab in ("parts", "request", "change", "what_if", "turns")
    )
    yield from (pages.shown({})[name] for name in ("bars", "summary"))
    yield from (pages.part({"part": n, "order": "sent"}) for n in range(1, 8))
    yield bundle(pages.look)["text/html"]


def test_hostile_words_are_text_wherever_they_stand():
    for html in drawn(hostile()):
        read = Read(html)
        assert read.tags <= TAGS
        assert not {name for name in read.attributes if name.startswith("on") or name in {"src", "href"}}
        assert read.open == []
        assert not set("\x1b\x07\u202e\u2066") & set(html)


def test_hostile_words_read_as_they_are():
    pages = Pages(hostile(), Inspection.of(hostile()))
    said = Read(pages.part({"part": 1, "order": "sent"})).text
    assert "<script>broken()</script>" in said
    assert "&lt;b&gt;" in said
    assert "\\u202e<i>\\u2066␛[31m␇" in said


def test_hostile_words_end_no_cell_and_no_line_of_the_markdown_twin():
    twin = bundle(Inspection.of(hostile()))["text/markdown"]
    for block in twin.split("\n\n"):
        lines = block.split("\n")
        assert not any("<" in line.replace("\\<", "") or "![" in line for line in lines)
        if lines[0].startswith("|"):
            assert {line.replace("\\|", "").count("|") for line in lines} == {lines[0].count("|")}


@settings(max_examples=25)
@given(st.text(alphabet=st.sampled_from("<&\"'\x1b\u202e\U000e0041a\n"), max_size=3000), st.integers(10, 500))
def test_what_is_shown_is_bounded_whatever_it_holds(text, most):
    html = shown(text, most)
    assert len(html) <= 3 * most + 500
    assert "<" not in html
    assert '"' not in html


def test_the_twin_is_bounded_and_says_what_it_leaves_out():
    look = looked_at(turns=300, size=300, masked_at=250, said='<&>"\x1b\U000e0041' * 5_000)
    forms = bundle(look)
    assert sum(map(len, forms.values())) < 75_000
    assert len(forms["text/html"]) < 60_000
    assert "smaller parts with" in forms["text/html"]
    assert "The 276 earlier turns are not listed here." in forms["text/html"]
    assert "earlier parts are not shown" in forms["text/html"]


def test_the_twin_says_the_same_in_all_three_forms():
    forms = bundle(looked_at(masked_at=8))
    for said in ("turn 8 of 8", "The prefix broke at byte", "4 old tool results were masked."):
        assert said in Read(forms["text/html"]).text
        assert said in forms["text/plain"]
        assert said in forms["text/markdown"].replace("\\", "")


def test_a_turn_a_section_and_an_order_are_answered():
    account, transcript = played(8)
    session = Session("s")
    session.transcript = transcript
    pages = Pages(session, Inspection("s", transcript, list(account.turns), account))
    answer = pages.shown({"turn": 3, "tab": "parts", "order": "sent", "id": 7})
    assert (answer["turn"], answer["turns"], answer["id"]) == (3, 8, 7)
    assert Read(answer["body"]).text.count("fetch n=") == 4
    assert "30,000 tokens, with" in Read(pages.shown({"tab": "what_if", "window": 30_000})["body"]).text
    assert Read(pages.part({"turn": 3, "part": 6, "order": "sent"})).text.startswith("0 words")


@pytest.mark.parametrize("turn", [-5, 0, 999, "2", None, True, 1e30, float("nan")])
def test_whatever_turn_is_asked_for_one_that_is_there_is_shown(turn):
    pages = Pages(Session("s"), looked_at())
    answer = pages.shown(
        {"turn": turn, "tab": "nonsense", "order": {}, "most": "many", "window": -1, "summary": 0}
    )
    assert 1 <= answer["turn"] <= 8
    assert answer["tab"] == "parts"
    assert pages.part({"turn": turn, "part": turn})


def test_a_session_that_goes_on_has_its_new_turns():
    session, (account, transcript) = Session("s"), played(3)
    session.transcript = transcript
    pages = Pages(session, Inspection("s", transcript, list(account.turns), account))
    transcript.append(assistant("Done."))
    assert pages.shown({})["turns"] == 4
    session.new()
    assert pages.shown({})["turns"] == 4


def test_a_transcript_from_disk_is_looked_at_like_one_that_was_played():
    _, transcript = played(6, masked_at=6)
    stored = json.dumps([encode(entry) for entry in transcript.entries])
    session = Session("s")
    session.transcript = Transcript(decode(entry) for entry in json.loads(stored))
    look = Inspection.of(session)
    assert len(look.turns) == 6
    assert look.change(6).decision.by == "mask"
    assert "What the provider counted is not known." in bundle(look)["text/html"]


def test_without_a_turn_there_is_one_sentence(capsys):
    show_context(Session("s"))
    assert capsys.readouterr().out == (
        "This session has had no turn yet, so there is nothing to look at: ask `%agent` something first.\n"
    )


def test_a_terminal_gets_the_text(capsys):
    session = Session("s")
    session.transcript = played(3)[1]
    show_context(session)
    assert capsys.readouterr().out.startswith("context · turn 3 of 3 · ")


@given(st.integers(1, 2_000))
def test_bars_are_few_and_every_turn_is_in_one(turns):
    account = Account(Window(), counting("characters"))
    look = played(1)[0].turns * turns
    found = binned(look)
    assert len(found) <= COLUMNS
    assert [first for first, _, _ in found][1:] == [last + 1 for _, last, _ in found][:-1]
    assert (found[0][0], found[-1][1]) == (1, turns)
    assert account.turns == []


def test_the_bars_and_their_table_say_the_same():
    look = looked_at()
    numbers = table(look.turns, 100)
    assert len(numbers.rows) == 8
    for row in numbers.rows:
        assert f'title="Turn {row[0]}: {row[5]} tokens ({row[6]}' in bars(look.turns)


def test_the_picture_has_words_and_a_table_beside_it():
    forms = pictured(looked_at(session='"><script>'))
    read = Read(forms["text/html"])
    assert "img" in read.tags
    assert "script" not in read.tags
    assert 'alt="Stacked bars, one for each of 8 turns; the largest request has' in forms["text/html"]
    assert table(looked_at().turns, 200).rows[-1][5] in read.text


class Missing(importlib.abc.MetaPathFinder):
    """A machine without matplotlib."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)


def test_without_matplotlib_one_sentence_names_what_brings_it():
    kept = {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] == "matplotlib"}
    sys.meta_path.insert(0, Missing())
    try:
        with pytest.raises(UsageError, match=r"pip install harness-nb\[context\]"):
            pictured(looked_at())
    finally:
        sys.meta_path.pop(0)
        sys.modules.update(kept)
