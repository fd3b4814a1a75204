"""The command line, as a person meets it: one sentence for what is wrong, and an exit code."""

import asyncio
import subprocess
import sys

import pytest
from kernel.rig import OLDEST, python_of

from harness_nb import cli
from harness_nb.providers.recorded import recording
from harness_nb.providers.scripted import scripted
from harness_nb.recipes import assistant
from harness_nb.seams import layered


def harness_nb(*arguments, cwd=None, python=sys.executable):
    command = [str(python), "-m", "harness_nb.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_no_command_shows_the_commands():
    said = harness_nb().stdout + harness_nb().stderr
    assert all(name in said for name in ("lab", "demo", "setup"))


def test_an_unknown_model_is_one_sentence_and_exit_code_1():
    done = harness_nb("setup", "--model", "nonesuch")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("harness-nb: No local model is called 'nonesuch': use ")
    assert len(done.stderr.splitlines()) == 1


def test_a_file_needs_no_fetching(tmp_path):
    (tmp_path / "mine.gguf").touch()
    done = harness_nb("setup", "--model", "mine.gguf", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "mine.gguf is on this machine already.\n")


@pytest.mark.kernel
@pytest.mark.parametrize(("command", "extra"), [("lab", "all"), ("setup", "local")])
def test_without_its_extra_a_command_says_what_to_install(command, extra):
    """The environment with the older kernel has the core alone."""
    done = harness_nb(command, python=python_of(OLDEST))
    assert done.returncode == 1
    assert done.stderr.endswith(f"Install it: pip install 'harness-nb[{extra}]'\n")


def test_a_clone_opens_its_own_notebooks():
    assert (cli.notebooks() / "00_welcome.ipynb").is_file()


def test_the_demo_prints_a_run(tmp_path):
    tape = tmp_path / "tape.jsonl"
    asyncio.run(assistant(layered(scripted("It is 3."), recording(tape))).run("What is 1 + 2?"))
    done = harness_nb("demo", "What is 1 + 2?", "--model", f"replay:{tape}")
    assert done.returncode == 0, done.stderr
    assert "It is 3." in done.stdout


def test_what_is_typed_cannot_act_on_the_terminal():
    assert "\x1b" not in harness_nb("demo", "--model", "a\x1b[2Jb").stderr


def test_a_demo_without_a_question_asks_nothing():
    done = harness_nb("demo", " ", "--model", "chat:m@http://127.0.0.1:1/v1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("harness-nb: There is no question: ")


def test_a_demo_that_fails_promises_no_next_prompt(tmp_path):
    tape = tmp_path / "tape.jsonl"
    asyncio.run(assistant(layered(scripted("It is 3."), recording(tape))).run("What is 1 + 2?"))
    done = harness_nb("demo", "Something else?", "--model", f"replay:{tape}")
    assert done.returncode == 1
    assert "The run failed: " in done.stdout
    assert "conversation" not in done.stdout


def test_a_demo_with_no_such_model_is_one_sentence():
    done = harness_nb("demo", "--model", "nonesuch:1")
    assert done.returncode == 1
    assert done.stderr.startswith("harness-nb: No model is called `nonesuch:1`.")
