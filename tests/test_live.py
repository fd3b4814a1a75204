"""What the front end hears of a run, and the run's life in a real kernel."""

import json

import nbformat
import pytest
from hypothesis import given, strategies as st
from nbclient import NotebookClient

from harness_nb.events import (
    CallDelta,
    ContextMeasured,
    DecisionMade,
    Fill,
    MessageAdded,
    Notice,
    RetryWaiting,
    RunEnded,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)
from harness_nb.jupyter.decision_card import Effect
from harness_nb.jupyter.feed import Feed
from harness_nb.jupyter.live import show_run
from harness_nb.jupyter.terminal import TerminalRun
from harness_nb.jupyter.view import RunView
from harness_nb.messages import Decision, Text, ToolCall, ToolResult, Usage, assistant

STARTED = RunStarted("r1", "tiny", 50)
ADD = ToolCall("c1", "add", '{"a": 1}')
MASKED = Decision("mask", "The context was 85% full, so 2 old tool results were masked.", {"m": ()}, id="d1")


def measured(tokens, window=1000):
    return ContextMeasured(1, Fill({"system": 10, "results": tokens}, window, 0, "o200k_base", "red"))


EVENTS = st.sampled_from(
    [
        *(
            TextDelta("t"),
            ThinkingDelta("h"),
            CallDelta("c1", "add", "{"),
            CallDelta("c2", "sub"),
            TurnStarted(2),
        ),
        *(MessageAdded(assistant("x", ADD)), ToolStarted(ADD), Notice("n"), RetryWaiting(1, 1, 2, "busy")),
        *(ToolFinished(ADD, ToolResult("c1", (Text("3"),)), 0.0), TurnRestarted("cut")),
        TurnEnded(1, Usage(1, 1, reasoning=1), "end"),
        *(
            measured(500),
            measured(840),
            DecisionMade(MASKED),
            DecisionMade(Decision("you", "Back.", undoes="d1")),
        ),
    ]
)


class FrontEnd:
    """Puts messages together as live.js does."""

    def __init__(self):
        self.head, self.parts = {}, []

    def take(self, message):
        message = json.loads(json.dumps(message))
        self.head = message.get("head", self.head)
        del self.parts[message.get("cut", len(self.parts)) :]
        for index, patch in message.get("parts", {}).items():
            if int(index) == len(self.parts):
                self.parts.append({"body": ""})
            part = self.parts[int(index)]
            part["body"] += patch.pop("more", "")
            part.update(patch)


def followed():
    feed = Feed(RunView("Why?", clock=lambda: 0.0))
    feed.hear(STARTED)
    return feed


def shown_body(part):
    """What a reader sees of what streams: for a call, only while it is being written."""
    return part["body"] if part["kind"] != "call" or part["state"] == "writing" else ""


@given(st.lists(st.tuples(EVENTS, st.booleans()), max_size=40))
def test_changes_add_up_to_the_whole_however_they_are_cut(steps):
    feed, end = followed(), FrontEnd()
    for event, flush in steps:
        feed.hear(event)
        if flush:
            end.take(feed.changes())
    feed.hear(RunEnded("done", "", 1, Usage(1, 1)))
    end.take(feed.changes())
    whole = feed.whole()
    assert end.head == whole["head"]
    assert [part | {"body": shown_body(part)} for part in end.parts] == list(whole["parts"].values())


def test_what_was_sent_is_not_sent_again():
    feed = followed()
    feed.hear(TextDelta("Hello"))
    assert feed.changes()["parts"] == {"0": {"kind": "text", "body": "Hello"}}
    feed.hear(TextDelta(", you"))
    assert feed.changes() == {"parts": {"0": {"more": ", you"}}}
    assert feed.changes() == {}


def test_the_bytes_sent_grow_with_the_text_and_not_with_its_square():
    feed, sent = followed(), 0
    for _ in range(1000):
        feed.hear(TextDelta("five."))
        sent += len(json.dumps(feed.changes()))
    assert sent < 1000 * 50


def test_a_measure_is_one_small_message_that_moves_the_gauge_and_resends_nothing():
    feed = followed()
    feed.hear(TextDelta("Hello"))
    feed.changes()
    feed.hear(measured(840))
    message = feed.changes()
    assert message.keys() == {"head"}
    gauge = message["head"]["gauge"]
    assert (gauge["words"], gauge["state"]) == ("85%, nearly full", "red")
    assert gauge["bar"] == [[0, 1.0], [2, 84.0]]
    assert "850 of 1,000 tokens that a request can have" in gauge["told"]
    feed.hear(measured(840))
    assert feed.changes() == {}
    assert len(json.dumps(message)) < 700


def test_where_no_window_is_known_the_gauge_says_the_tokens_and_has_no_bar():
    feed = followed()
    feed.hear(measured(4802, window=0))
    gauge = feed.whole()["head"]["gauge"]
    assert (gauge["words"], gauge["bar"], gauge["state"]) == ("4,812 tokens", [], "unknown")


def test_a_card_is_sent_once_and_taking_it_back_changes_that_card_alone():
    feed = followed()
    feed.view.effect_of = lambda _: Effect(number=1)
    feed.hear(DecisionMade(MASKED))
    card = feed.changes()["parts"]["0"]
    assert (card["kind"], card["state"], card["id"]) == ("decision", "taken", "d1")
    assert "%context undo 1" in card["commands"]
    feed.hear(DecisionMade(Decision("you", "Back.", undoes="d1")))
    parts = feed.changes()["parts"]
    assert parts["0"].keys() == {"state", "headline", "commands"}
    assert parts["1"]["text"] == "Back."


def test_control_codes_do_not_reach_the_front_end():
    feed = followed()
    feed.hear(TextDelta("a\x1b[2J"))
    feed.hear(CallDelta("c1", "add\x07", "\x1b"))
    assert "\\u001b" not in json.dumps(feed.changes())
    feed.hear(TextDelta("\x1b"))
    assert "\\u001b" not in json.dumps(feed.changes())


def test_outside_a_kernel_a_run_is_text(capsys):
    shown = show_run("Why?", lambda: None)
    assert isinstance(shown, TerminalRun)
    shown.listener(STARTED)
    shown.close()
    shown.close()
    assert capsys.readouterr().out == "agent · tiny\n"


SETUP = """
from harness_nb.agent import Agent
from harness_nb.jupyter.live import show_run
from harness_nb.providers.scripted import scripted
from harness_nb.seams import Run

async def go(*turns, pace=0.0, piece=12, prompt="Why?"):
    shown = show_run(prompt, lambda: run.stop())
    run = Run(listener=shown.listener)
    outcome = await Agent(scripted(*turns, pace=pace, piece=piece)).run(prompt, run)
    shown.close()
    shown.close()
    return outcome.text
"""


@pytest.mark.kernel
def test_in_a_kernel_the_live_view_ends_as_the_record_on_the_same_display(kernel):
    kernel.execute(SETUP)
    ran = kernel.start("_ = await go('It is **3**.')", stdin=True).finish()
    kinds = [sent.type for sent in ran.outputs if not sent.type.startswith("comm")]
    assert kinds == ["display_data", "update_display_data"]
    shown, record = (sent.content for sent in ran.outputs if sent.type.endswith("display_data"))
    assert "application/vnd.jupyter.widget-view+json" in shown["data"]
    assert shown["transient"] == record["transient"]
    assert set(record["data"]) == {"text/html", "text/plain", "text/markdown"}
    assert "<strong>3</strong>" in record["data"]["text/html"]


@pytest.mark.kernel
def test_what_is_opened_for_a_run_is_closed_with_it(kernel):
    kernel.execute(SETUP)
    ran = kernel.start("_ = await go('Fine.')", stdin=True).finish()
    opened = {sent.content["comm_id"] for sent in ran.outputs if sent.type == "comm_open"}
    closed = {sent.content["comm_id"] for sent in ran.outputs if sent.type == "comm_close"}
    assert opened
    assert opened == closed


BLOCKING = """
import time
from harness_nb.events import RunStarted, TextDelta
shown = show_run("Why?", lambda: None)
shown.listener(RunStarted("r", "tiny", 5))
for n in range(4):
    time.sleep(0.2)
    shown.listener(TextDelta(f"piece{n} "))
print("closing")
shown.close()
"""


@pytest.mark.kernel
def test_text_comes_before_the_run_ends_even_where_the_loop_is_blocked(kernel):
    kernel.execute(SETUP)
    ran = kernel.start(BLOCKING, stdin=True).finish()
    order = ["piece2" in str(sent.content) or (sent.type == "stream" and "closing") for sent in ran.outputs]
    assert order.index(True) < order.index("closing")


@pytest.mark.kernel
def test_a_run_that_broke_off_is_not_shown_as_if_it_went_on(kernel):
    kernel.execute(SETUP)
    ran = kernel.start("shown = show_run('Why?', lambda: None)\nshown.close()", stdin=True).finish()
    assert "The run broke off without a word." in ran.text


@pytest.mark.kernel
def test_a_notebook_run_by_a_machine_holds_the_record_and_no_widget():
    cells = [nbformat.v4.new_code_cell(SETUP), nbformat.v4.new_code_cell("_ = await go('It is **3**.')")]
    ran = NotebookClient(nbformat.v4.new_notebook(cells=cells), kernel_name="python3").execute()
    assert "widgets" not in ran.metadata
    assert [set(output["data"]) for output in ran.cells[1].outputs] == [
        {"text/html", "text/plain", "text/markdown"}
    ]


AFTER_THE_LOOP = """
import asyncio, threading
from harness_nb.jupyter.widget import LiveRun
stopped, made = [], []
async def begin():
    made.append(LiveRun("Why?", lambda: stopped.append("stopped")))
thread = threading.Thread(target=lambda: asyncio.run(begin()))
thread.start()
thread.join()
made[0]._live._handle_custom_msg({"ask": "stop"}, [])
print(stopped)
"""


@pytest.mark.kernel
def test_a_front_end_may_still_talk_when_the_run_s_loop_is_closed(kernel):
    assert "['stopped']" in kernel.start(AFTER_THE_LOOP, stdin=True).finish().text
