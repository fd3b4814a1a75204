"""The shell tool: it comes back, says what happened, and leaves nothing behind that it does not name (R19, R23)."""

import asyncio
import contextlib
import gc
import json
import os
import random
import re
import resource
import signal
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from harness_nb.errors import UsageError
from harness_nb.events import Preview
from harness_nb.messages import ToolCall
from harness_nb.results import LIMIT
from harness_nb.safety.sandbox import bubblewrap, limited
from harness_nb.seams import Run
from harness_nb.toolkit.command import Captured, run_command
from harness_nb.toolkit.shell import _text, shell
from harness_nb.tools import Toolbox

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands need POSIX")


OWN = f"{os.getpid()}5"
"""Goes into the seconds that commands here sleep, so that runs at the same time don't see each other's."""


def boxed(workspace):
    try:
        return bubblewrap(workspace)
    except UsageError as missing:
        pytest.skip(str(missing))


@pytest.fixture(params=[limited, boxed])
def either(request, tmp_path):
    """The tool in each of our sandboxes."""
    return shell(request.param(tmp_path), tmp_path)


@pytest.fixture
def plain(tmp_path):
    """The tool where what is left in the background stays."""
    return shell(limited(tmp_path), tmp_path)


async def answered(tool, command, **more):
    """Call the tool as a model does."""
    asked = ToolCall("1", "shell", json.dumps({"command": command, **more}))
    return await Toolbox([tool]).dispatch()(asked, Run())


def running(words):
    """Pids of living processes whose command line holds these words."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if words in line and int(place.name) != os.getpid():
            found.append(int(place.name))
    return found


async def until(true):
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.01)


async def test_a_command_s_output_and_exit_code_are_reported(either):
    result = await answered(either, "echo out; echo err >&2; exit 3")
    assert result.text == "exit code 3, in less than 1 s\n--- stdout ---\nout\n--- stderr ---\nerr"
    assert not result.is_error


async def test_silence_is_said(either):
    assert (await answered(either, "true")).text.endswith("(it printed nothing)")


async def test_it_starts_in_the_workspace_each_time(either, tmp_path):
    (tmp_path / "sub").mkdir()
    await answered(either, "cd sub; echo x > made")
    assert str(tmp_path) in (await answered(either, "pwd; ls")).text
    assert (tmp_path / "sub" / "made").read_text() == "x\n"


async def test_input_is_empty(either):
    assert (await answered(either, "cat; read line; echo ended")).text.endswith("ended")


@pytest.mark.parametrize("start", ["", "setsid "])
async def test_a_child_in_the_background_does_not_hold_the_call_and_is_named(plain, start):
    result = await answered(plain, f"{start}sleep 30.{OWN} & echo done")
    pid = int(re.search(rf"Still running: pid (\d+) `sleep 30.{OWN}`", result.text)[1])
    assert running(f"sleep 30.{OWN}") == [pid], "it came back before the child did"
    assert result.text.startswith("exit code 0")
    assert "\ndone\n" in result.text
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("start", ["", "setsid "])
async def test_in_bubblewrap_the_child_ends_with_the_call(tmp_path, start):
    result = await answered(shell(boxed(tmp_path), tmp_path), f"{start}sleep 31.{OWN} & echo done")
    assert result.text.endswith("done")
    assert not running(f"sleep 31.{OWN}")


async def test_what_a_child_prints_later_neither_blocks_nor_ends_it(plain, tmp_path):
    later = f"(while [ ! -e go ]; do sleep 0.01; done; head -c 500000 /dev/zero && touch {tmp_path}/ended) & echo done"
    assert "Still running" in (await answered(plain, later)).text
    (tmp_path / "go").touch()
    await until((tmp_path / "ended").exists)


@pytest.mark.parametrize("tail", ["", " & wait", "; true"])
async def test_a_command_that_takes_too_long_is_ended_though_it_ignores_being_asked(either, tail):
    command = f"echo begun; (trap '' TERM; setsid sleep 29.{OWN} & sleep 29.{OWN}; sleep 29.{OWN}){tail}"
    result = await answered(either, command, timeout_seconds=0.5)
    assert result.is_error
    assert "it took too long" in result.text
    assert "begun" in result.text
    assert not running(f"sleep 29.{OWN}")


async def test_a_stop_leaves_no_process(either, tmp_path):
    task = asyncio.ensure_future(
        answered(either, f"echo > begun; setsid sleep 28.{OWN} & sleep 28.{OWN} | cat")
    )
    await until((tmp_path / "begun").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not running(f"sleep 28.{OWN}")


async def test_a_stop_is_quick_though_the_command_ignores_it(plain, tmp_path):
    task = asyncio.ensure_future(
        answered(plain, f"trap '' TERM; echo > begun; while :; do sleep 27.{OWN}; done")
    )
    await until((tmp_path / "begun").exists)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert not running(f"sleep 27.{OWN}")


async def test_endless_output_is_ended_and_takes_little_memory(either):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await answered(either, "yes")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert result.is_error
    assert "it printed too much" in result.text
    assert len(result.text) <= LIMIT
    assert grown < 100, f"{grown:.0f} MB"


async def test_long_output_keeps_both_ends_and_whole_characters(plain, tmp_path):
    (tmp_path / "long").write_text("é" + "漢" * 5_000_000 + "Z", encoding="utf-8")
    finished = await run_command(["cat", "long"], tmp_path, dict(os.environ), 60, 1_000)
    assert len(finished.stdout.head) == len(finished.stdout.tail) == 1_000
    assert finished.stdout.missing == 15_000_003 - 2_000
    text = (await answered(plain, "cat long")).text
    assert "\N{REPLACEMENT CHARACTER}" not in text
    assert "é漢漢" in text
    assert "漢漢Z" in text


@given(text=st.text(max_size=60), keep=st.integers(1, 20))
def test_no_cut_falls_within_a_character(text, keep):
    data = text.replace("\r", "").encode()
    head, tail = data[:keep], data[keep:][-keep:]
    shown = _text(Captured(head, tail, max(len(data) - 2 * keep, 0)))
    assert shown.count("\N{REPLACEMENT CHARACTER}") <= text.count("\N{REPLACEMENT CHARACTER}")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(size=st.integers(0, 200_000), keep=st.integers(1, 100_000))
async def test_head_tail_and_what_is_missing_make_up_the_whole(tmp_path, size, keep):
    data = random.Random(size).randbytes(size)
    (tmp_path / "data").write_bytes(data)
    out = (await run_command(["cat", "data"], tmp_path, dict(os.environ), 60, keep)).stdout
    assert out.head == data[:keep]
    assert out.tail == data[keep:][-keep:]
    assert len(out.head) + out.missing + len(out.tail) == size


async def test_a_long_output_leaves_room_for_the_error(plain):
    text = (await answered(plain, "seq 100000; echo the reason >&2; exit 4")).text
    assert text.startswith("exit code 4")
    assert text.endswith("the reason")
    assert len(text) <= LIMIT


@pytest.mark.parametrize(
    ("bytes_", "shown"),
    [
        (r"\033[31mred\033[0m \033[2J\033]0;title\007end", "red end"),
        (r"a\0b", "a␀b"),
        (r"10%%\r50%%\r100%%", "10%␍50%␍100%"),
        (r"caf\351", "caf\N{REPLACEMENT CHARACTER}"),
        (r"a\342\200\256b", r"a\u202eb"),
    ],
)
async def test_odd_bytes_become_text_that_acts_on_nothing(plain, bytes_, shown):
    result = await answered(plain, f"printf '{bytes_}'")
    assert result.text.endswith(f"--- stdout ---\n{shown}")


async def test_two_commands_run_side_by_side(either, tmp_path):
    meet = "touch {0}; while [ ! -e {1} ]; do sleep 0.01; done; echo met"
    both = [answered(either, meet.format(*pair)) for pair in (("a", "b"), ("b", "a"))]
    assert all("met" in result.text for result in await asyncio.gather(*both))


async def test_a_command_that_ends_by_a_signal_says_so(plain):
    assert (await answered(plain, "kill -9 $$")).text.startswith("ended by signal 9")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": " \n"}, "Give one command line"),
        ({"command": "a\0b"}, ""),
        ({"command": "ls", "timeout_seconds": 0}, "Give timeout_seconds from 1 to 300."),
        ({"command": "true " + "x" * 200_000}, "The command is too long to be started"),
    ],
)
async def test_what_cannot_be_run_is_said_in_a_sentence(plain, arguments, said):
    result = await answered(plain, **arguments)
    assert said in result.text
    assert "Traceback" not in result.text


async def test_a_workspace_that_is_gone_is_said(tmp_path):
    result = await answered(shell(limited(), tmp_path / "none"), "ls")
    assert result.is_error
    assert result.text == "The command could not be started: no such file or directory."


def test_model_and_person_are_told_what_is_not_isolated(tmp_path):
    sandbox = limited(tmp_path)
    made = shell(sandbox, tmp_path, explain=lambda command: f"runs {command.split()[0]}")
    assert sandbox.isolation in made.spec.description
    assert made.spec.preview({"command": "ls -l"}) == Preview(
        "command", f"ls -l\n\n# runs ls\n# {sandbox.isolation}"
    )
    assert made.spec.effects == {"read", "write", "network", "mutate"}


async def test_any_object_of_the_shape_is_a_sandbox(tmp_path):
    class Container:
        isolation = "In a container."
        effects = frozenset({"read"})
        background = False

        def around(self, workspace):
            return contextlib.nullcontext()

        def wrap(self, argv, workspace):
            return ["/usr/bin/env", "WHERE=container", *argv], {"PATH": os.defpath}

    made = shell(Container(), tmp_path)
    assert (await answered(made, "echo $WHERE")).text.endswith("container")
    assert made.spec.effects == {"read"}


async def test_two_hundred_commands_leave_nothing_behind(either):
    def held():
        gc.collect()
        own = f"/proc/{os.getpid()}"
        children = Path(own, "task", str(os.getpid()), "children").read_text().split()
        return len(list(Path(own, "fd").iterdir())), threading.active_count(), len(children)

    await answered(either, "true")
    before = held()
    for number in range(200):
        assert f"--- stdout ---\n{number}" in (await answered(either, f"echo {number} | cat")).text
    await until(lambda: all(now <= then for now, then in zip(held(), before, strict=True)))
