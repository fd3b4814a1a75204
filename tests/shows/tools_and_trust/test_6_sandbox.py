"""Line 6: what a sandbox says is out of reach is; without one the limits hold, and the card says what is open.

Each attempt is made in both: one that fails in bubblewrap and succeeds without it was a real attempt.
"""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness_nb.errors import UsageError
from harness_nb.events import ApprovalAsked
from harness_nb.jupyter.asking import Asking, put_as_text
from harness_nb.messages import ToolCall
from harness_nb.safety.sandbox import Limits, bubblewrap, limited
from harness_nb.seams import Run
from harness_nb.toolkit.shell import shell
from harness_nb.tools import Toolbox

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands need POSIX")

FORKS = """
import os, signal, time
started = 0
try:
    while started < 3000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        started += 1
except OSError:
    pass
print("started", started)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.killpg(0, signal.SIGTERM)
"""
"""A fork bomb that counts, and ends what it started."""

CONNECT = (
    "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 20); print('connected')"
)


@pytest.fixture
def workspace(tmp_path):
    """A folder with a secret beside it, a home, and a key in the environment."""
    made = tmp_path / "work"
    made.mkdir()
    (tmp_path / "secret").write_text("PLANTED")
    (made / "forks.py").write_text(FORKS)
    (made / "connect.py").write_text(CONNECT)
    return made


@pytest.fixture
def box(workspace):
    try:
        return bubblewrap(workspace)
    except UsageError as missing:
        if os.environ.get("CI") and sys.platform == "linux" and "not installed" in str(missing):
            raise
        pytest.skip(str(missing))


@pytest.fixture
def no_box(workspace):
    return limited(workspace)


@pytest.fixture
def port():
    """A server of this machine's, outside of any sandbox."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def neighbour():
    """The pid of a process of this person's that holds a key."""
    with subprocess.Popen(["sleep", "600"], env={"SERVICE_API_KEY": "PLANTED"}) as waiting:
        yield waiting.pid
        waiting.kill()


async def said(sandbox, workspace, command, seconds=60.0):
    asked = ToolCall("1", "shell", json.dumps({"command": command, "timeout_seconds": seconds}))
    text = (await Toolbox([shell(sandbox, workspace)]).dispatch()(asked, Run())).text
    print(f"$ {command}\n{text[:400]}\n")
    return text


async def test_a_write_outside_fails_in_the_box_alone(box, no_box, workspace):
    attempt = f"echo x > {workspace.parent}/outside; echo y > inside"
    await said(box, workspace, attempt)
    assert (workspace / "inside").exists()
    assert not (workspace.parent / "outside").exists()
    await said(no_box, workspace, attempt)
    assert (workspace.parent / "outside").exists()


async def test_a_secret_outside_can_be_read_without_the_box_alone(box, no_box, workspace):
    attempt = "cat ../secret"
    assert "PLANTED" not in await said(box, workspace, attempt)
    assert "PLANTED" in await said(no_box, workspace, attempt)


async def test_a_secret_in_the_home_can_be_read_without_the_box_alone(box, no_box, workspace, monkeypatch):
    home = workspace.parent / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("PLANTED")
    monkeypatch.setenv("HOME", str(home))
    attempt = "cat ~/.ssh/id_ed25519"
    assert "PLANTED" not in await said(box, workspace, attempt)
    assert "PLANTED" in await said(no_box, workspace, attempt)


async def test_a_key_is_in_the_environment_of_neither(box, no_box, workspace, monkeypatch):
    monkeypatch.setenv("SERVICE_API_KEY", "PLANTED")
    for sandbox in (box, no_box):
        assert "PLANTED" not in await said(sandbox, workspace, "env")


async def test_the_environment_of_others_can_be_read_without_the_box_alone(box, no_box, workspace, neighbour):
    attempt = f"cat /proc/*/environ | tr '\\0' '\\n' | grep PLANTED; cat /proc/{neighbour}/environ"
    assert "PLANTED" not in await said(box, workspace, attempt)
    if sys.platform == "linux":
        assert "PLANTED" in await said(no_box, workspace, attempt)


async def test_the_network_is_there_without_the_box_alone(box, no_box, workspace, port):
    attempt = f"python connect.py {port}"
    assert "Connection refused" in await said(box, workspace, attempt)
    assert "connected" in await said(no_box, workspace, attempt)
    assert "connected" in await said(bubblewrap(workspace, network=True), workspace, attempt)


async def test_a_fork_bomb_meets_the_limit_that_the_sentence_names(box, workspace):
    if "is not limited" in box.isolation:
        pytest.skip("root, on a Linux before 6.14: the sentence says that processes are not limited")
    most = int(re.search(r"At most (\d+) processes", box.isolation)[1])
    started = int(re.search(r"started (\d+)", await said(box, workspace, "python forks.py"))[1])
    print(f"{started} processes started of 3,000; the sentence says {most}")
    assert 1 < started <= most + 1


async def test_a_real_fork_bomb_is_gone_when_its_time_is_up(box, workspace):
    if "is not limited" in box.isolation:
        pytest.skip("root, on a Linux before 6.14: it would slow the whole machine down")
    text = await said(
        bubblewrap(workspace, limits=Limits(processes=64)),
        workspace,
        "bomb() { bomb | bomb & }; bomb; sleep 50.5",
        1.0,
    )
    assert "it took too long" in text
    assert not left("bomb()")


def left(words):
    lines = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(place.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if words in line]


async def test_without_the_box_the_stated_limits_hold(workspace):
    small = limited(workspace, limits=Limits(memory=300 * 1024**2, cpu=1, file=1024**2))
    assert "MemoryError" in await said(small, workspace, "python -c 'bytearray(600_000_000)'")
    await said(small, workspace, "head -c 9000000 /dev/zero > big")
    assert (workspace / "big").stat().st_size <= 1024**2
    assert "signal" in await said(small, workspace, "exec bash -c 'while :; do :; done'")
    if "At most" in small.isolation:
        assert int(re.search(r"started (\d+)", await said(small, workspace, "python forks.py"))[1]) < 1000


@pytest.mark.parametrize(("made", "told"), [("box", "no network"), ("no_box", "Not isolated")])
def test_the_card_says_what_is_isolated(made, told, workspace, request):
    sandbox = request.getfixturevalue(made)
    spec = shell(sandbox, workspace).spec
    call = ToolCall("1", "shell", '{"command": "make"}')
    asked = ApprovalAsked(
        "1", call, tuple(sorted(spec.effects)), "Commands ask.", (), spec.preview({"command": "make"})
    )
    card = put_as_text(Asking(asked, began=0.0))
    print(card)
    assert told in card
    assert sandbox.isolation in card
    assert sandbox.isolation in spec.description
