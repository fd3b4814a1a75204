"""What a command can reach in each sandbox, and that the sentence about it is true."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness_nb.errors import ToolError, UsageError
from harness_nb.messages import ToolCall
from harness_nb.safety.sandbox import Bubblewrap, Limited, Limits, best, bubblewrap, limited
from harness_nb.seams import Run
from harness_nb.toolkit.shell import shell
from harness_nb.tools import Toolbox

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands need POSIX")
ROOT = sys.platform != "win32" and os.geteuid() == 0


async def said(sandbox, workspace, command):
    asked = ToolCall("1", "shell", json.dumps({"command": command}))
    return (await Toolbox([shell(sandbox, workspace)]).dispatch()(asked, Run())).text


@pytest.fixture
def workspace(tmp_path):
    made = tmp_path / "work"
    made.mkdir()
    (tmp_path / "secret").write_text("PLANTED")
    return made


@pytest.fixture
def box(workspace):
    try:
        return bubblewrap(workspace)
    except UsageError as missing:
        pytest.skip(str(missing))


class TestLimited:
    async def test_keys_are_taken_out_of_the_environment(self, workspace, monkeypatch):
        for name in ("ANTHROPIC_API_KEY", "GITHUB_TOKEN", "DATABASE_URL", "BASH_ENV", "LD_PRELOAD_NOTE"):
            monkeypatch.setenv(name, "PLANTED")
        assert "PLANTED" not in await said(limited(workspace), workspace, "env")

    async def test_a_file_cannot_grow_beyond_the_limit(self, workspace):
        await said(limited(limits=Limits(file=1024**2)), workspace, "head -c 5000000 /dev/zero > big")
        assert (workspace / "big").stat().st_size <= 1024**2

    async def test_a_process_cannot_take_more_memory(self, workspace):
        small = limited(limits=Limits(memory=200 * 1024**2))
        text = await said(small, workspace, "python -c 'x = bytearray(500_000_000); print(1)'")
        assert "MemoryError" in text

    async def test_a_process_cannot_take_more_cpu(self, workspace):
        text = await said(limited(limits=Limits(cpu=1)), workspace, "exec bash -c 'while :; do :; done'")
        assert text.startswith("ended by signal")

    def test_the_sentence_says_what_is_open(self):
        told = limited().isolation
        assert told.startswith("Not isolated:")
        assert "read, change and delete whatever you can, and use the network" in told
        counted = sys.platform == "linux" and not ROOT
        assert ("At most 256 processes" if counted else "not limited") in told

    async def test_and_it_is_open(self, workspace):
        assert "PLANTED" in await said(limited(workspace), workspace, "cat ../secret")


class TestBubblewrap:
    async def test_the_workspace_can_be_changed_and_this_python_used(self, box, workspace):
        text = await said(
            box, workspace, 'python -c \'import pydantic; print(open("made", "w").write("x"))\''
        )
        assert text.startswith("exit code 0")
        assert (workspace / "made").read_text() == "x"

    @pytest.mark.parametrize(
        "place",
        ["/usr/new", "/etc/new", "/new", "/proc/sys/kernel/hostname"],
    )
    async def test_nothing_else_can(self, box, workspace, place):
        assert (await said(box, workspace, f"echo x >> {place}")).startswith("exit code 1")

    @pytest.mark.parametrize(
        "how", ["echo x > ../new", "ln -s .. up; echo x > up/new", "rm -rf ../secret ../work"]
    )
    async def test_files_beside_the_workspace_stay_as_they_are(self, box, workspace, how):
        await said(box, workspace, how)
        assert sorted(path.name for path in workspace.parent.iterdir()) == ["secret", "work"]

    @pytest.mark.parametrize(
        "how",
        [
            "cat ../secret",
            "ln -s ../secret link; cat link",
            "cat /proc/1/root{outside}/secret",
            "cat /proc/*/environ",
            "python -c 'print(open(\"{outside}/secret\").read())'",
            "unshare -Urm cat {outside}/secret",
        ],
    )
    async def test_a_secret_outside_cannot_be_read(self, box, workspace, how, monkeypatch):
        monkeypatch.setenv("SOME_KEY", "PLANTED")
        assert "PLANTED" not in await said(box, workspace, how.format(outside=workspace.parent))

    async def test_the_home_is_empty_and_hidden_files_too_where_the_workspace_holds_it(
        self, workspace, box, monkeypatch
    ):
        (workspace / ".ssh").mkdir()
        (workspace / ".ssh" / "id").write_text("PLANTED")
        (workspace / ".netrc").write_text("PLANTED")
        (workspace / "seen").write_text("visible")
        monkeypatch.setenv("HOME", str(workspace))
        text = await said(box, workspace, "cat ~/.ssh/id ~/.netrc ~/seen")
        assert "PLANTED" not in text
        assert "visible" in text
        monkeypatch.setenv("HOME", str(workspace.parent))
        assert "secret" not in await said(box, workspace, "ls -a ~")

    async def test_processes_outside_are_out_of_sight(self, box, workspace):
        text = await said(box, workspace, f"ls -d /proc/[0-9]* | wc -l; kill -0 {os.getpid()}")
        assert "No such process" in text
        assert int(text.splitlines()[2]) < 10

    async def test_the_folder_for_temporary_files_is_its_own(self, box, workspace):
        await said(box, workspace, "echo x > $TMPDIR/left-by-a-command")
        assert "left-by" not in await said(box, workspace, "ls -A $TMPDIR")
        assert "left-by" not in await said(limited(workspace), workspace, "ls -A /tmp")

    async def test_it_has_no_privilege(self, box, workspace):
        assert "CapEff:\t0000000000000000" in await said(box, workspace, "grep Cap /proc/self/status")

    async def test_what_says_what_agents_may_do_stays_as_it_is(self, box, workspace):
        subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)  # noqa: ASYNC221 - quick
        (workspace / "harness_nb.toml").write_text("deny")
        for name in box.protected:
            attempt = f"echo x > {name}; rm -rf {name}; mv {name} gone; echo x > {name}/x; mv .git old"
            await said(box, workspace, attempt)
        assert (workspace / "harness_nb.toml").read_text() == "deny"
        assert "[core]" in (workspace / ".git" / "config").read_text()
        assert not (workspace / ".git" / "hooks" / "x").exists()
        made = (
            "touch f; git add f && git -c user.name=a -c user.email=a@b commit -qm m && git log --format=%s"
        )
        assert (await said(box, workspace, made)).endswith("\nm")

    @pytest.mark.parametrize("repository", [True, False])
    async def test_what_would_say_or_be_run_outside_cannot_be_made_either(self, box, workspace, repository):
        if repository:
            subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)  # noqa: ASYNC221 - quick
            shutil.rmtree(workspace / ".git" / "hooks")
        before = {path.relative_to(workspace) for path in workspace.rglob("*")}
        for name in box.protected:
            attempt = f"mkdir -p .git {name}; echo x > {name}; ln -sf x {name}; rm -rf {name}; mv .git old; git init"
            await said(box, workspace, f"({attempt}) 2>/dev/null; touch kept; cp kept {name}")
            assert repository or not (workspace / ".git").exists()
        assert {path.relative_to(workspace) for path in workspace.rglob("*")} == before | {Path("kept")}

    async def test_nothing_of_that_is_in_the_way_of_work(self, box, workspace):
        subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)  # noqa: ASYNC221 - quick
        commit = "git -c user.name=a -c user.email=a@b commit -qm m"
        text = await said(box, workspace, f"touch f; git add -A && {commit} && git ls-files && git status -s")
        assert text.endswith("--- stdout ---\nf")

    async def test_git_is_not_sent_to_another_folder_for_its_settings(self, box, workspace):
        subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)  # noqa: ASYNC221 - quick
        await said(box, workspace, "mkdir evil; echo ../evil > .git/commondir")
        assert not (workspace / ".git" / "commondir").exists()

    async def test_commands_side_by_side_keep_it_up_and_leave_nothing(self, box, workspace):
        before = sorted(workspace.iterdir())
        slow = asyncio.create_task(said(box, workspace, "sleep 1; echo x > harness_nb.toml"))
        await asyncio.sleep(0.3)
        await said(bubblewrap(workspace), workspace, "true")
        assert "Is a directory" in await slow
        assert sorted(workspace.iterdir()) == before

    async def test_a_file_that_says_where_the_repository_is_stays_as_it_is(self, box, workspace):
        (workspace / ".git").write_text("gitdir: ../real")
        await said(box, workspace, "echo gitdir: evil > .git; rm -f .git; mv .git old; mkdir .git")
        assert (workspace / ".git").read_text() == "gitdir: ../real"

    async def test_this_python_and_what_starts_the_sandbox_stay_as_they_are(self, box):
        prefix = Path(sys.prefix)
        if prefix.is_relative_to("/usr"):
            pytest.skip("this Python is the system's")
        text = await said(bubblewrap(prefix.parent), prefix.parent, f"touch {prefix}/bin/bwrap; python -V")
        assert "Read-only file system" in text
        assert f"Python {sys.version.split()[0]}" in text

    async def test_the_sandbox_is_started_by_the_system_s_program_whatever_the_path_says(
        self, workspace, box, monkeypatch
    ):
        for name in ("bwrap", "unshare"):
            (workspace / name).write_text("#!/bin/sh\necho PLANTED\n")
            (workspace / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{workspace}:{os.environ['PATH']}")
        assert "PLANTED" not in await said(bubblewrap(workspace), workspace, "true")

    async def test_the_workspace_stays_the_only_one_wherever_a_command_starts(self, box, workspace):
        elsewhere = workspace / "deep"
        elsewhere.mkdir()
        await said(box, elsewhere, "echo x > ../up")
        assert (workspace / "up").exists()

    def test_the_whole_disk_is_no_workspace(self, box):
        with pytest.raises(ToolError, match="start in a directory"):
            bubblewrap("/").wrap(["true"], Path("/"))

    def test_effects_are_those_it_leaves(self, box, workspace):
        assert box.effects == {"read", "write"}
        assert bubblewrap(workspace, network=True).effects == {"read", "write", "network", "mutate"}

    async def test_the_network_is_there_where_it_is_allowed(self, box, workspace):
        names = "ls /sys/class/net 2> /dev/null; cat /proc/net/dev | wc -l"
        closed, opened = [
            int((await said(b, workspace, names)).split()[-1])
            for b in (box, bubblewrap(workspace, network=True))
        ]
        assert closed == 3, "two lines of heading, and the loopback"
        assert opened == int((await said(limited(), workspace, names)).split()[-1])


def test_where_bubblewrap_is_missing_the_sentence_says_so(tmp_path):
    program = (
        "from harness_nb.safety import bubblewrap as module\n"
        f"module.TRUSTED = {str(tmp_path)!r}\n"
        "from harness_nb.safety.sandbox import best, bubblewrap\n"
        "print(best().isolation)\n"
        "try: bubblewrap()\n"
        "except Exception as fault: print(type(fault).__name__, fault)\n"
    )
    env = {"PYTHONPATH": str(Path(__file__).parents[1])}
    told = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    first, second = told.stdout.splitlines()
    reason = "bubblewrap is not installed" if sys.platform == "linux" else "bubblewrap needs Linux"
    assert first.startswith(f"Not isolated ({reason}): ")
    assert second.startswith(f"UsageError No sandbox: {reason}.")


def test_the_best_is_chosen(tmp_path):
    made = best(tmp_path)
    assert isinstance(made, Bubblewrap | Limited)
    assert isinstance(made, Limited) == ("Not isolated" in made.isolation)
