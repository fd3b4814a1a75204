"""A question about a call in the view, and the words for what became of it."""

import json

import pytest
from hypothesis import given, strategies as st

from harness_nb.events import (
    ApprovalAsked,
    ApprovalDecided,
    CallDelta,
    Preview,
    RunEnded,
    RunStarted,
    ToolFinished,
    TurnStarted,
)
from harness_nb.jupyter.asking import Asking, put_as_text
from harness_nb.jupyter.feed import Feed
from harness_nb.jupyter.record import as_html
from harness_nb.jupyter.view import RunView
from harness_nb.jupyter.words import readable_json
from harness_nb.messages import Text, ToolCall, ToolResult, Usage

EDIT = ToolCall("c1", "edit_file", '{"path": "prices.csv", "old": "3", "new": "4"}')
ASKED = ApprovalAsked("q1", EDIT, ("read", "write"), "Writes ask.", ("this file",), Preview("diff", "-3\n+4"))
DENIED = ToolResult("c1", (Text("`edit_file` was not run."),), is_error=True)


def seen(*events):
    view = RunView("Go", clock=lambda: 0.0)
    feed = Feed(view)
    for event in (RunStarted("r", "m", 9), TurnStarted(1), CallDelta("c1", "edit_file"), *events):
        feed.hear(event)
    return view, feed


def decided(**facts):
    return ApprovalDecided(**{"id": "q1", "call": EDIT, "allowed": False, "by": "you"} | facts)


def test_a_question_is_sent_whole_while_it_waits_and_no_longer():
    view, feed = seen(ASKED)
    question = feed.whole()["parts"]["0"]["question"]
    assert question["title"] == ["Allow an edit of ", "prices.csv", "?"]
    assert question["effects"] == ["write"]
    assert json.loads(question["editable"]) == json.loads(EDIT.raw)
    assert view.doing == "waiting for you: Allow an edit of `prices.csv`?"
    feed.hear(decided(allowed=True))
    assert feed.whole()["parts"]["0"]["question"] == ""


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"allowed": True}, "allowed by you, once"),
        ({"allowed": True, "edited": "{}"}, "edited and allowed by you, once"),
        ({"allowed": True, "scope": "this file"}, "allowed by you, for this session: this file"),
        ({"reason": "too dear"}, "denied by you: too dear"),
        ({"by": "nobody"}, "denied: there was nobody to ask"),
        ({"by": "timeout"}, "denied: no answer came in time"),
        ({"by": "interrupted"}, "stopped before it was decided"),
    ],
)
def test_each_decision_stays_in_the_record(facts, words):
    view, _ = seen(ASKED, decided(**facts))
    if not facts.get("allowed"):
        view.take(ToolFinished(EDIT, DENIED, 1.0))
    view.take(RunEnded("done", "", 1, Usage()))
    assert words in view.segments[0].line
    assert words in as_html(view)


def test_a_question_asked_anew_is_about_other_arguments_and_offers_no_session():
    other = ToolCall("c1", "edit_file", '{"path": "prices.csv", "old": "3", "new": "9"}')
    before = Asking(ASKED, 0.0)
    view, _ = seen(ASKED, ApprovalAsked("q1", other, ("write",), "Writes ask.", ("this file",)))
    after = view.segments[0].asking
    assert after.edited
    assert not after.scopes
    assert after.seal != before.seal


def test_as_text_a_question_hides_nothing_however_long():
    code = "x = 1\n" * 20_000 + "last\u202e()\x1b"
    call = ToolCall("c1", "run_python", json.dumps({"code": code}))
    text = put_as_text(Asking(ApprovalAsked("q", call, (), "Asks."), 0.0))
    assert text.count("x = 1") == 20_000
    assert "last\\u202e()␛" in text
    assert "unknown effects" in text


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text())))
def test_arguments_to_be_edited_keep_their_value_and_show_what_hides(value):
    text = readable_json(json.dumps(value))
    assert json.loads(text) == value
    assert not set(text) & {"\u202e", "\u200f", "\ufeff", "\x1b", "\x9b"}
