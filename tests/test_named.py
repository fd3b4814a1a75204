"""One string names a model; what is missing is one sentence with the fix, and no key is ever shown."""

import os
import subprocess
import sys

import pytest

from harness_nb.agent import Agent
from harness_nb.errors import UsageError
from harness_nb.providers.named import DEFAULTS, FORMS, default, model, server
from harness_nb.providers.recorded import Recorded, recording
from harness_nb.providers.scripted import scripted
from harness_nb.seams import layered

KEY = "sk-not-a-real-key-0123456789"


@pytest.fixture
def environ():
    """The environment, put back as it was when the test is over."""
    before = dict(os.environ)
    yield os.environ
    os.environ.clear()
    os.environ.update(before)


def refused(name):
    with pytest.raises(UsageError) as caught:
        model(name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("anthropc:claude-sonnet-5-5", "anthropic:claude-sonnet-5-5"),
        ("opnai:gpt-6", "openai:gpt-6"),
        ("locl", "local"),
        ("claude-sonnet-5-5", "anthropic:claude-sonnet-5-5"),
        ("gpt-6.1-sol", "openai:gpt-6.1-sol"),
        ("qwen2.5-coder-0.5b", "local:qwen2.5-coder-0.5b"),
        ("/models/a.gguf", "local:/models/a.gguf"),
    ],
)
def test_an_unknown_name_gets_the_nearest_and_the_forms(name, meant):
    assert refused(name) == f"No model is called `{name}`. Did you mean `{meant}`? Write {FORMS}."


@pytest.mark.parametrize("name", ["x", "??", "a b c:d", "ANTHROPIC", "x" * 5000])
def test_a_name_like_nothing_gets_the_forms(name):
    assert refused(name).endswith(f"Write {FORMS}.")
    assert len(refused(name)) < 300


@pytest.mark.parametrize("name", [":", "  :x", "anthropic:", "openai: ", "chat:", "replay:"])
def test_half_a_name_says_what_is_missing(name):
    assert "\n" not in refused(name)
    assert "has a name" in refused(name) or "needs" in refused(name) or "names no server" in refused(name)


@pytest.mark.parametrize(
    ("sdk", "variable"), [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")]
)
def test_a_missing_key_names_the_variable(sdk, variable):
    assert f"`{sdk}:m` needs a key: set {variable} in the environment" in refused(f"{sdk}:m")


def test_a_missing_package_names_the_command():
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('anthropic', 'openai', 'xllamacpp')))\n"
        "from harness_nb.providers.named import model, default\n"
        "print(default())\n"
        "for name in ('anthropic:m', 'openai:m', 'chat:m@http://localhost:1/v1', 'local'):\n"
        "    try: model(name)\n"
        "    except Exception as fault: print(type(fault).__name__, fault)\n"
    )
    environment = {**os.environ, "ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == [
        "local",
        "UsageError `anthropic:m` needs the package anthropic: pip install 'harness-nb[anthropic]'.",
        "UsageError `openai:m` needs the package openai: pip install 'harness-nb[openai]'.",
        "UsageError `chat:m` needs the package openai: pip install 'harness-nb[openai]'.",
        "UsageError `local` needs the package xllamacpp: pip install 'harness-nb[local]'.",
    ]


def test_a_key_set_in_a_cell_is_enough(environ):
    environ["ANTHROPIC_API_KEY"] = environ["OPENAI_API_KEY"] = KEY
    assert model("anthropic:claude-opus-5-5").name == "claude-opus-5-5"
    assert model("openai:gpt-6-sol").name == "gpt-6-sol"
    assert KEY not in repr([model("anthropic:m"), model("openai:m")])


def test_the_default_is_what_is_configured(environ):
    assert default() == "local"
    environ["OPENAI_API_KEY"] = KEY
    assert default() == f"openai:{DEFAULTS['openai']}"
    environ["ANTHROPIC_API_KEY"] = KEY
    assert default() == f"anthropic:{DEFAULTS['anthropic']}"
    environ["HARNESS_NB_MODEL"] = "chat:m@http://localhost:8000/v1"
    assert default() == "chat:m@http://localhost:8000/v1"


@pytest.mark.parametrize("weights", ["qwen2.5-coder-1.5b", "/models/a.gguf", "C:\\models\\a.gguf"])
def test_the_variable_may_name_weights_or_a_file_of_them(environ, weights):
    environ["HARNESS_NB_MODEL"] = weights
    assert default() == f"local:{weights}"


@pytest.mark.parametrize(
    ("chosen", "meant"),
    [
        ("", "qwen2.5-coder-0.5b"),
        ("smollm2-135m", "smollm2-135m"),
        ("local:smollm2-135m", "smollm2-135m"),
        ("anthropic:m", "qwen2.5-coder-0.5b"),
    ],
)
def test_local_is_the_variable_s_weights_or_else_the_usual_ones(environ, chosen, meant):
    environ["HARNESS_NB_MODEL"] = chosen
    assert meant in model("local").name
    assert "qwen2.5-coder-1.5b" in model("local:qwen2.5-coder-1.5b").name


@pytest.mark.parametrize("name", ["local:qwen", "local:/none/a.gguf"])
def test_unknown_weights_are_named_with_what_there_is(name):
    assert "qwen2.5-coder-0.5b" in refused(name)


def test_a_wrong_variable_is_refused_like_a_wrong_name(environ):
    environ["HARNESS_NB_MODEL"] = "claude-sonnet-5-5"
    assert "Did you mean `anthropic:claude-sonnet-5-5`?" in refused(None)


def test_the_default_models_are_known_to_the_installed_sdks():
    from typing import get_args

    from anthropic.types import Model
    from openai.types import ChatModel

    known = [name for member in get_args(Model) for name in get_args(member)]
    assert DEFAULTS["anthropic"] in known
    assert DEFAULTS["openai"] in get_args(ChatModel)


@pytest.mark.parametrize(
    ("rest", "parts"),
    [
        ("m@http://localhost:11434/v1", ("m", "http://localhost:11434/v1", "")),
        ("org/m:4b@https://host", ("org/m:4b", "https://host", "")),
        ("a@b@https://user:k%2Fey@host:8/v1", ("a@b", "https://host:8/v1", "k/ey")),
        ("m@https://:key@host/v1?x=1", ("m", "https://host/v1?x=1", "key")),
        ("m@https://key@host/v1", ("m", "https://host/v1", "key")),
        ("m@http://[::1]:8080/v1", ("m", "http://[::1]:8080/v1", "")),
    ],
)
def test_a_server_s_name_is_taken_apart(rest, parts):
    assert server(rest) == parts


@pytest.mark.parametrize(
    "rest", ["m", "m@", "m@localhost:1", "@http://x", "m@http://", "m@http://h:port", "m@http://[::1"]
)
def test_a_wrong_url_is_refused_with_an_example(rest):
    assert refused(f"chat:{rest}").endswith("e.g. chat:qwen3@http://localhost:11434/v1.")


@pytest.mark.parametrize(
    "name",
    [
        f"chat:m@https://me:{KEY}@host:port",
        f"chta:m@https://me:{KEY}@host",
        f"chat:m@https://me:{KEY}/x@host",
    ],
)
def test_a_refused_url_shows_no_key(name):
    assert KEY not in refused(name)


def test_a_server_s_key_is_in_no_name_and_no_repr():
    made = model(f"chat:qwen3@https://me:{KEY}@host.example/v1")
    assert "qwen3" in made.name
    assert KEY not in made.name + repr(made) + repr(vars(made))


async def test_replay_plays_a_file(tmp_path):
    path = tmp_path / "r.jsonl"
    await Agent(layered(scripted("Hello."), recording(path))).run("hi")
    made = model(f"replay:{path}")
    assert isinstance(made, Recorded)
    assert (await Agent(made).run("hi")).text == "Hello."


def test_a_missing_recording_is_refused_at_once(tmp_path):
    assert refused(f"replay:{tmp_path / 'none'}") == f"There is no recording {tmp_path / 'none'}."
