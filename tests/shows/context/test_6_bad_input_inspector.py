"""Line 6: what the inspector can't show or work out is one sentence, and nothing is lost."""

import pytest
from played import played

from harness_nb.context.whatif import what_if
from harness_nb.errors import UsageError
from harness_nb.jupyter.inspection import Inspection
from harness_nb.jupyter.inspector import show_context
from harness_nb.jupyter.inspector_pages import Pages
from harness_nb.jupyter.inspector_record import bundle
from harness_nb.jupyter.session import Session
from harness_nb.messages import (
    Image,
    Message,
    Opaque,
    Text,
    ToolCall,
    ToolResult,
    Transcript,
    assistant,
    user,
)


def one_sentence(text):
    """Tell whether a text is one sentence on one line."""
    return text.endswith(".") and "\n" not in text and ". " not in text


def test_a_session_without_a_turn_says_so(capsys):
    show_context(Session("new"))
    assert one_sentence(capsys.readouterr().out.strip())


@pytest.mark.parametrize("measure", [0, -1])
def test_a_window_that_holds_nothing_is_one_sentence(measure):
    account, transcript = played(3)
    with pytest.raises(UsageError) as caught:
        what_if(account, account.turns[-1], transcript, measure)
    assert one_sentence(str(caught.value))


def test_a_record_that_was_cut_short_is_looked_at_as_far_as_it_goes():
    """A call without a result, a result without a call, an empty message, a vendor's broken block, a picture that is none."""
    odd = Transcript(
        [
            user(""),
            Message("tool", (ToolResult("nobody", (Text("late"),)),)),
            assistant(Opaque("vendor", "{not json"), ToolCall("", "", "{half"), ToolCall("", "", "")),
            Message("user", (Image(b"no picture", "image/png"),)),
            Message("assistant", ()),
            assistant("\ud800"),
        ]
    )
    session = Session("odd")
    session.transcript = odd
    look = Inspection.of(session)
    pages = Pages(session, look)
    for turn in range(1, len(look.turns) + 1):
        for tab in ("parts", "request", "change", "what_if", "turns"):
            assert pages.shown({"turn": turn, "tab": tab})["body"]
    bundle(look)["text/html"].encode("utf-8")
    assert len(odd) == 6
