"""Line 1: on a clean clone with an empty package cache, the README's two commands do what they say."""

import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[3]
PATIENCE = 600
"""Seconds for a command that downloads everything it needs."""
SPINE = "tests/test_architecture.py tests/test_messages.py tests/test_tools.py tests/test_agent.py"

pytestmark = [pytest.mark.slow, pytest.mark.llama]


def readme_command(ending: str) -> str:
    """The README's command line that ends like this, as printed there."""
    (line,) = re.findall(rf"^python3 .* {ending}$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    return line


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """What is committed, in a folder of its own."""
    folder = tmp_path_factory.mktemp("clean") / "harness_nb"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def fresh(clone: Path) -> dict[str, str]:
    """This machine's environment as a newcomer has it: no virtual environment, an empty package cache."""
    ours = ("VIRTUAL_ENV", "UV", "PYTEST", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    path = os.pathsep.join(
        folder for folder in kept["PATH"].split(os.pathsep) if not Path(folder).is_relative_to(ROOT)
    )
    folders = {
        "UV_CACHE_DIR": str(clone.parent / "cache"),
        "JUPYTER_CONFIG_DIR": str(clone.parent / "jupyter"),
    }
    return kept | folders | {"PATH": path}


@contextmanager
def running(command: str, clone: Path):
    """Run a command in the clone; end it with all its children."""
    log = (clone.parent / "log").open("w+")
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=clone,
        env=fresh(clone),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process, Path(log.name)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)
        log.close()


def test_the_first_command_ends_with_jupyterlab_on_the_welcome_notebook(clone):
    began = time.monotonic()
    with running(f"{readme_command('lab')} --no-browser", clone) as (process, log):
        address = None
        while address is None and process.poll() is None and time.monotonic() - began < PATIENCE:
            time.sleep(0.2)
            address = re.search(r"(http://127\S+)lab/tree/(\S+)\?token=(\w+)", log.read_text("utf-8"))
        assert address, log.read_text("utf-8")
        server, notebook, token = address.groups()
        with httpx.Client(trust_env=False, params={"token": token}, timeout=60) as client:
            page = client.get(f"{server}lab/tree/{notebook}")
            content = client.get(f"{server}api/contents/{notebook}").raise_for_status().json()
    print(f"from nothing to JupyterLab: {time.monotonic() - began:.0f} s")
    assert page.status_code == 200
    assert any("%agent" in cell["source"] for cell in content["content"]["cells"])


def test_the_demo_runs_a_tool_on_the_embedded_model(clone):
    command = re.sub("lab$", "demo", readme_command("lab"))
    began = time.monotonic()
    with running(command, clone) as (process, log):
        assert process.wait(PATIENCE) == 0, log.read_text("utf-8")
    said = log.read_text("utf-8")
    print(f"the demo, {time.monotonic() - began:.0f} s:\n{said[said.rfind('agent ·') :]}")
    call = re.search(r"^ *calc .*→ 7,?006,?652\b", said, re.MULTILINE)
    assert call, "the tool did not run"
    assert re.search(r"7,?006,?652", said[call.end() :]), "the answer does not hold the tool's result"


def test_the_second_command_ends_green(clone):
    """The spine's tests stand for all: CI itself is the whole command on a clean clone."""
    began = time.monotonic()
    with running(f"{readme_command('pytest')} {SPINE}", clone) as (process, log):
        code = process.wait(PATIENCE)
    closing = log.read_text("utf-8").strip().splitlines()[-1]
    print(f"the tests after {time.monotonic() - began:.0f} s: {closing}")
    assert code == 0, log.read_text("utf-8")
    assert " passed" in closing
