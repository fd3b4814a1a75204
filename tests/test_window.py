"""The size of a model's window: who says so, what is kept free of it, and limits that can't be."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from harness_nb.context.window import Window, window
from harness_nb.errors import UsageError


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("claude-sonnet-4-5", 200_000),
        ("anthropic:claude-sonnet-4-5", 200_000),
        ("claude-sonnet-5-5", 1_000_000),
        ("openai:gpt-5", 400_000),
        ("gpt-4o", 128_000),
        ("azure/gpt-4o", 128_000),
    ],
)
def test_the_price_list_knows_the_windows_of_the_vendors_models(model, size):
    found = window(model)
    assert (found.size, found.source) == (size, "genai-prices")


@pytest.mark.parametrize(
    "model",
    [
        "",
        "scripted",
        "qwen3:4b",
        "some-claude",
        "replay of a.jsonl",
        ":",
        "/",
        "openai:",
        "smollm2 · local, small",
        "x" * 10_000,
    ],
)
def test_an_unknown_model_has_an_unknown_window_and_no_limits(model):
    assert window(model) == Window(0, 0, 0, "unknown")


def test_what_a_person_says_comes_first_then_the_model_then_the_list():
    sources = [window("gpt-4o", 9_000, 8_000), window("gpt-4o", None, 8_000), window("gpt-4o")]
    assert [(found.size, found.source) for found in sources] == [
        (9_000, "configuration"),
        (8_000, "model"),
        (128_000, "genai-prices"),
    ]


def test_a_window_that_is_split_leaves_its_output_free():
    assert window("gpt-5").usable == 272_000
    assert window("claude-sonnet-4-5").usable == 200_000 - 8_192


def test_a_small_window_keeps_a_quarter_free_and_a_long_reply_its_length():
    assert window("m", 4_096).headroom == 1_024
    assert window("m", 100_000, output=20_000).headroom == 20_000


@given(st.integers(1, 10**7), st.integers(0, 10**7))
def test_whatever_the_size_the_usual_headroom_leaves_most_of_it(size, output):
    found = window("m", size, output=output)
    assert 0 <= found.headroom <= size // 4
    assert found.usable >= 0.75 * size


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({"given": 0}, "A window of 0 tokens holds nothing: give its size, or leave it out."),
        ({"given": -5}, "A window of -5 tokens can't be: give a number above 0."),
        (
            {"given": 4_000, "headroom": 4_000},
            "A headroom of 4,000 tokens leaves nothing of a window of 4,000: make it smaller.",
        ),
        ({"given": 4_000, "headroom": -1}, "A headroom of -1 tokens can't be: give a number above 0."),
        ({"output": -1}, "An output limit of -1 tokens can't be: give a number above 0."),
    ],
)
def test_limits_that_can_not_be_are_one_sentence(limits, sentence):
    with pytest.raises(UsageError) as refused:
        window("m", **limits)
    assert str(refused.value) == sentence


def test_a_window_learnt_from_a_refusal_keeps_what_fits_of_the_old_one():
    assert Window(200_000, 8_192, 64_000, "genai-prices").learnt(32_768) == Window(
        32_768, 8_192, 32_768, "learnt"
    )
    assert Window().learnt(8_000) == Window(8_000, 2_000, 0, "learnt")


def test_without_the_price_list_a_window_is_unknown():
    program = "import sys, json\nsys.modules['genai_prices'] = None\nfrom harness_nb.context.window import window\nprint(json.dumps(window('gpt-4o').size))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == 0
