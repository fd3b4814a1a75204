"""The command line, as a person meets it: one sentence for what is wrong, and an exit code."""

import subprocess
import sys

import pytest
from kernel.rig import OLDER, python_of

from harness_nb import cli
from harness_nb.events import Notice, RetryWaiting, RunEnded, RunStarted, TextDelta, ToolFinished
from harness_nb.messages import Text, ToolCall, ToolResult, Usage


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
    done = harness_nb(command, python=python_of(OLDER))
    assert done.returncode == 1
    assert done.stderr.endswith(f"Install it: pip install 'harness-nb[{extra}]'\n")


def test_a_clone_opens_its_own_notebooks():
    assert (cli.notebooks() / "00_welcome.ipynb").is_file()


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (RunStarted("r", "scripted", 5), "Model: scripted"),
        (TextDelta("It is 3."), "It is 3."),
        (
            ToolFinished(ToolCall("c", "add", '{"a": 1}'), ToolResult("c", (Text("3\n4"),)), 0.26),
            'add({"a": 1}) -> 3 4  [0.3 s]',
        ),
        (
            ToolFinished(ToolCall("c", "add"), ToolResult("c", (Text("no"),), is_error=True), 0),
            "add({}) -> failed: no  [0.0 s]",
        ),
        (RetryWaiting(1.5, 1, 4, "Busy."), "Busy. Trying again in 1.5 s (attempt 2 of 4)."),
        (Notice("Something."), "Something."),
        (RunEnded("done", "", 2, Usage(input=1200, output=34)), "Done in 2 turns, 1,234 tokens."),
        (RunEnded("turns", "The run reached its limit.", 5, Usage()), "The run reached its limit."),
    ],
)
def test_a_terminal_shows_each_event_in_its_line(event, line, capsys):
    cli.tell(event)
    assert capsys.readouterr().out.strip() == line
