"""Secrets taken out of text, by one rule wherever text leaves: errors, recordings, what a model is told."""

import json
import os

import pytest

from harness_nb.jupyter.variables import described
from harness_nb.messages import user
from harness_nb.providers.faults import Redaction
from harness_nb.providers.scripted import say
from harness_nb.providers.tape import Take, line, marks
from harness_nb.redaction import is_secret_name, without_keys, without_secrets
from harness_nb.seams import Request

KEYS = [
    "sk-ant-api03-abcdefghijklmnop",
    "ghp_abcdefghijklmnopqrstuvwx",
    "glpat-abcdefghijklmnopqrst",
    "AKIAABCDEFGHIJKLMNOP",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
]


@pytest.fixture
def setting():
    os.environ["DB_PASSWORD"] = value = 'corr"ect\\horse'
    yield value
    del os.environ["DB_PASSWORD"]


def recorded(text):
    asked = marks(Request("", (user(text),)))
    return line(Take(asked, (), say(text)), ())


def everywhere(text):
    return Redaction()(text), recorded(text), described("x", {"x": text})


@pytest.mark.parametrize("key", KEYS)
def test_what_looks_like_a_key_leaves_nowhere(key):
    for said in everywhere(f"It is\n{key}, keep it."):
        assert key not in said
        assert "keep it." in said


def test_a_setting_of_this_machine_leaves_nowhere_even_as_json_writes_it(setting):
    for said in everywhere(f"It is {setting}."):
        assert setting not in said
        assert json.dumps(setting)[1:-1] not in said


def test_a_recording_stays_json_whatever_is_taken_out():
    text = 'token = "abcdef" and -----BEGIN PRIVATE KEY----- ' + " ".join(KEYS)
    assert "abcdef" in json.loads(recorded(text))["reply"]["message"][0]["text"]


@pytest.mark.parametrize(
    "name", ["tokens", "monkey", "keyboard", "primary_key", "secretary", "passwords_seen"]
)
def test_a_name_that_only_sounds_like_a_secrets_is_none(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "text", ["scikit-learn", "task-force-one-two-three-four", "sk-learn", "disk_usage_of_this_machine"]
)
def test_ordinary_words_stay(text):
    assert without_keys(text, "?") == without_secrets(text, "?") == text
