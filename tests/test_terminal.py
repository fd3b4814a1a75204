"""A run as plain text."""

import asyncio
import io

import pytest

from harness_nb.agent import Agent
from harness_nb.errors import ProviderError
from harness_nb.events import (
    CallDelta,
    Notice,
    Progress,
    RunEnded,
    RunStarted,
    TextDelta,
    TurnRestarted,
    TurnStarted,
)
from harness_nb.jupyter.terminal import TerminalRun, wants_colour
from harness_nb.messages import Thinking, Usage
from harness_nb.providers.retry import retrying
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.seams import Run, layered
from harness_nb.tools import Toolbox, tool


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def written(*turns, colour=False):
    """What a run of these turns writes, piece by piece."""
    pieces = []
    shown = TerminalRun("Why?", pieces.append, colour=colour)
    await Agent(scripted(*turns), Toolbox([add])).run("Why?", Run(listener=shown.listener))
    shown.close()
    return pieces


async def test_words_stream_and_all_else_is_one_line():
    pieces = await written(say(Thinking("Hm. " * 10), "I will add them. ", call("add", a=1, b=2)), "It is 3.")
    assert "I will add t" in pieces
    assert "".join(pieces).splitlines() == [
        "agent · scripted",
        "  thinking, under 1 s · 40 characters",
        "I will add them. ",
        "  add a=1, b=2 → 3",
        "It is 3.",
        "done in 2 turns, under 1 s · about 13 tokens in, 13 out",
    ]


async def test_a_failure_is_a_sentence():
    text = "".join(await written(ProviderError("No such model")))
    assert "The run failed: No such model. " in text
    assert "failed in turn 1" in text


async def test_every_wait_to_ask_again_is_told():
    pieces = []
    shown = TerminalRun("Why?", pieces.append)
    busy = ProviderError("Busy", retryable=True)
    model = layered(scripted(busy, busy, "Yes."), retrying(sleep=lambda _: asyncio.sleep(0)))
    await Agent(model).run("Why?", Run(listener=shown.listener))
    lines = "".join(pieces).splitlines()
    assert [line[:23] for line in lines[1:4]] == [
        "  Attempt 1 of 4 failed",
        "  Attempt 2 of 4 failed",
        "Yes.",
    ]


async def test_control_codes_of_a_model_or_a_tool_are_shown_and_not_sent():
    text = "".join(await written(say("\x1b[2J", call("add", a="\x1b]0;t\x07", b=2)), "\r\x9bx"))
    assert "␛[2J" in text
    assert not {"\x1b", "\x07", "\r", "\x9b"} & set(text)


def test_nor_are_those_of_a_notice_or_a_name():
    pieces = []
    shown = TerminalRun("Why?", pieces.append)
    for event in (
        RunStarted("r", "tiny\x07", 5),
        Notice("\x1b[2J"),
        CallDelta("c1", "\x1b[2J"),
        RunEnded("error", "\x1b", 1, Usage()),
    ):
        shown.listener(event)
    assert not {"\x1b", "\x07"} & set("".join(pieces))


async def test_colour_comes_only_where_it_is_asked_for():
    assert "\x1b" not in "".join(await written("Hi"))
    assert "\x1b[2magent" in "".join(await written("Hi", colour=True))


def test_a_restarted_turn_says_so_and_starts_on_a_new_line():
    pieces = []
    shown = TerminalRun("Why?", pieces.append)
    for event in (
        RunStarted("r", "tiny", 5),
        TurnStarted(1),
        TextDelta("Lo"),
        TurnRestarted("cut"),
        TextDelta("New"),
    ):
        shown.listener(event)
    shown.close()
    assert "".join(pieces).splitlines() == ["agent · tiny", "Lo", "  Asked the model again: cut", "New"]


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "setting", "welcome"),
    [
        (io.StringIO(), ("NO_COLOR", ""), False),
        (Screen(), ("NO_COLOR", ""), True),
        (Screen(), ("NO_COLOR", "1"), False),
        (Screen(), ("TERM", "dumb"), False),
    ],
)
def test_colour_is_for_a_screen_and_for_who_wants_it(monkeypatch, stream, setting, welcome):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(*setting)
    assert wants_colour(stream) is welcome


def test_a_download_is_one_line_once_it_is_there_and_a_moving_one_on_a_terminal():
    steps = [Progress("the model", done, 100_000) for done in (0, 50_000, 100_000)]
    plain, moving = [], []
    for pieces, colour in ((plain, False), (moving, True)):
        shown = TerminalRun("Why?", pieces.append, colour=colour)
        for event in (RunStarted("r", "m", 5), TurnStarted(1), *steps):
            shown.listener(event)
    assert plain[1:] == ["  Fetched the model: 100 kB.\n"]
    assert "\r  fetching, 50%\r" in moving
