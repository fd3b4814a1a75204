"""Line 1, R19: odd characters in results and arguments are kept, in every store, and come back as the model saw them."""

import json
import re
import sqlite3

import pytest
from stores import STORES

from harness_nb.agent import Agent
from harness_nb.encoding import decode, encode
from harness_nb.errors import ToolError
from harness_nb.events import MessageAdded
from harness_nb.messages import Message, Text, ToolCall, ToolResult
from harness_nb.ops.records import Record
from harness_nb.providers.scripted import say, scripted
from harness_nb.seams import Run
from harness_nb.tools import Toolbox, tool

RESULTS = {
    "half a byte": "caf\udce9.txt",
    "lone surrogate": "\ud800",
    "NUL": "a\0b",
    "clear": "\x1b[2J",
    "title": "\x1b]0;mine\x07",
    "progress": "10%\r50%\r100%",
    "bidi": "\u202egpj.exe",
}
ARGUMENTS = {
    "pair in JSON": (r'{"text": "\ud83c\udf78"}', "🍸"),
    "half of it": (r'{"text": "\ud83c"}', "\N{REPLACEMENT CHARACTER}"),
    "pair in two pieces": ('{"text": "\ud83c' + '\udf78"}', "🍸"),
}
ACTING = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What may not stand in a file of lines as it is."""


@pytest.fixture(params=STORES)
def anew(request, tmp_path):
    return lambda: STORES[request.param](tmp_path)


async def played(log, arguments, give):
    """A run with one call of the tool, each of its messages kept as it comes; the transcript."""

    def keep(event):
        if isinstance(event, MessageAdded):
            log.append(Record("message", encode(event.message), "r1"))

    run = Run(listener=keep)
    model = scripted(say(ToolCall("c1", "give", arguments)), "Done.")
    await Agent(model, Toolbox([give])).run("Go.", run)
    return [entry for entry in run.transcript.entries if isinstance(entry, Message)]


def kept(log):
    return [decode(record.data) for record in log.read() if record.kind == "message"]


@pytest.mark.parametrize("odd", RESULTS)
@pytest.mark.parametrize("fails", [False, True])
async def test_a_result_of_odd_characters_is_kept_and_read_back_equal(anew, odd, fails):
    @tool(effects={"read"})
    def give() -> str:
        """Give."""
        if fails:
            raise ToolError(RESULTS[odd])
        return RESULTS[odd]

    log = anew().open("main")
    seen = await played(log, "{}", give)
    log.close()
    again = anew().open("main", write=False)
    assert kept(again) == seen
    assert len(seen) == 4
    assert not again.warnings
    again.close()


@pytest.mark.parametrize("odd", ARGUMENTS)
async def test_arguments_of_odd_characters_are_kept_and_read_back_equal(anew, odd):
    raw, meant = ARGUMENTS[odd]

    @tool(effects={"read"})
    def give(text: str) -> str:
        """Give."""
        return text

    log = anew().open("main")
    seen = await played(log, raw, give)
    log.close()
    again = anew().open("main", write=False)
    assert kept(again) == seen
    assert seen[2].results[0].text == meant
    again.close()


@pytest.mark.parametrize("odd", RESULTS)
def test_what_is_kept_again_and_again_does_not_grow(anew, odd):
    """An error's text that a retry reads and keeps once more."""
    message = Message("tool", (ToolResult("c1", (Text(RESULTS[odd]),), is_error=True),))
    log = anew().open("main")
    for _ in range(5):
        log.append(Record("message", encode(message)))
        message = kept(log)[-1]
    assert len({message.text for message in kept(log)}) == 1
    assert len({record.data["parts"][0]["content"][0]["text"] for record in log.read()[1:]}) == 1
    log.close()


def test_even_unclean_text_is_valid_on_disk_and_a_line_stays_a_line(tmp_path):
    """A record need not hold a clean message: a prompt, a path, a fault's words."""
    log = STORES["jsonl"](tmp_path).open("main")
    for text in (*RESULTS.values(), *(raw for raw, _ in ARGUMENTS.values())):
        log.append(Record("notice", {"text": text, "raw": json.dumps({"text": text})}, text))
    log.close()
    (file,) = tmp_path.rglob("*.jsonl")
    content = file.read_bytes().decode()
    assert not ACTING.search(content)
    assert len(content.splitlines()) == 1 + len(RESULTS) + len(ARGUMENTS)
    assert [json.loads(line)["data"]["text"] for line in content.splitlines()[2:4]] == [
        "\N{REPLACEMENT CHARACTER}",
        "a\0b",
    ]


def test_a_database_has_what_its_own_programs_read_too(tmp_path):
    log = STORES["sqlite"](tmp_path).open("main")
    for text in RESULTS.values():
        log.append(Record("notice", {"text": text}))
    log.close()
    (file,) = tmp_path.rglob("*.db")
    connection = sqlite3.connect(file)
    try:
        (dump,) = ["\n".join(connection.iterdump())]
    finally:
        connection.close()
    assert "\\u0000b" in dump
    assert "\0" not in dump
