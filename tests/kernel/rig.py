"""A real kernel driven over its protocol, on the newest ipykernel or in an environment of its own on an older one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from queue import Empty
from typing import Any, TypeVar

from filelock import FileLock
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
NEWEST = "newest"
OLDEST = "6.31"
VERSIONS = (NEWEST, "7.3", OLDEST)
"""Those that differ in what reaches a cell at work: 7.4 and later hear clicks while it awaits, 7.3 on subshells, 6.31 none."""
PATIENCE = 60
"""Seconds to wait for the kernel: generous, since the machine may be busy."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One message from the kernel: its type, its content, the request that it belongs to."""

    type: str
    content: dict[str, Any]
    parent: str


@dataclass(slots=True)
class Execution:
    """One cell sent to the kernel, and what has come back for it so far."""

    kernel: Kernel
    id: str
    reply: dict[str, Any] = field(default_factory=dict)

    @property
    def outputs(self) -> list[Sent]:
        """What the cell sent, in order, without state changes and the echo of its code."""
        noise = {"status", "execute_input"}
        return [sent for sent in self.kernel.inbox if sent.parent == self.id and sent.type not in noise]

    @property
    def text(self) -> str:
        """What a person would read: streams, plain text of displays and results, errors."""
        return "".join(_readable(sent) for sent in self.outputs)

    @property
    def error(self) -> str | None:
        """The exception's name if the cell failed."""
        name = self.reply.get("ename")
        return str(name) if name else None

    def wait_for(self, seen: str | Callable[[Sent], bool], timeout: float = PATIENCE) -> Sent:
        """Wait until the cell sends this text, or a message for which this holds; return that message."""
        holds = seen if callable(seen) else lambda sent: seen in _readable(sent)
        found = self.kernel.listen(lambda: next((s for s in self.outputs if holds(s)), None), timeout)
        assert found, f"never came; instead: {self.text!r}"
        return found

    def finish(self, timeout: float = PATIENCE, answers: Sequence[str] = ()) -> Execution:
        """Wait for the cell's end, answering each `input()` on the way."""
        waiting = list(answers)
        idle = Sent("status", {"execution_state": "idle"}, self.id)

        def ended() -> bool:
            if waiting and self.kernel.answered(waiting[0], self.id):
                del waiting[0]
            return idle in self.kernel.inbox

        assert self.kernel.listen(ended, timeout), f"did not end in {timeout} s; so far: {self.text!r}"
        self.reply = self.kernel.reply_to(self.id)
        return self


class Kernel:
    """A running kernel and everything it has sent."""

    def __init__(self, version: str, manager: KernelManager, client: BlockingKernelClient) -> None:
        about = client.kernel_info(reply=True, timeout=PATIENCE)["content"]
        self.has_subshells = "kernel subshells" in about.get("supported_features", ())
        self.version = version
        self.inbox: list[Sent] = []
        self._manager = manager
        self._client = client
        self._subshell: str | None = None

    def execute(self, code: str, timeout: float = PATIENCE, answers: Sequence[str] = ()) -> Execution:
        """Run a cell to its end, answering each `input()` on the way."""
        return self.start(code).finish(timeout, answers)

    def start(
        self, code: str, *, stdin: bool = True, stop_on_error: bool = True, cell: str = ""
    ) -> Execution:
        """Send a cell without waiting for its end, as a front end does, by the id `cell` if it has one.

        Without `stdin`, as a machine does.
        """
        wanted = {"code": code, "allow_stdin": stdin, "stop_on_error": stop_on_error}
        whole = {"silent": False, "store_history": True, "user_expressions": {}, **wanted}
        message = self._client.session.msg("execute_request", whole)
        message["metadata"] = {"cellId": cell} if cell else {}
        self._client.shell_channel.send(message)
        return Execution(self, str(message["header"]["msg_id"]))

    def restart(self) -> None:
        """Restart as a person does: nothing in memory is left."""
        self._manager.restart_kernel(now=True)
        self._client.wait_for_ready(timeout=PATIENCE)
        self._subshell = None

    def interrupt(self) -> None:
        """Interrupt as the stop button does."""
        self._manager.interrupt_kernel()

    def headless(self, *cells: str) -> NotebookNode:
        """Run cells in this kernel by nbclient: nobody to click, nobody to answer; return the notebook with its outputs."""
        notebook = new_notebook(cells=[new_code_cell(code) for code in cells])
        runner = NotebookClient(notebook, km=self._manager, timeout=PATIENCE, store_widget_state=False)
        try:
            return runner.execute()
        finally:
            runner.kc.stop_channels()

    def send_comm(self, comm_id: str, data: dict[str, Any], *, aside: bool = False) -> str:
        """Send a message to a comm, as a widget's view does on a click; return its request id.

        It waits its turn behind the cells, or goes `aside`: over a subshell where the kernel has those, as from JupyterLab.
        """
        message = self._client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
        if aside and (subshell := self.subshell()):
            message["header"]["subshell_id"] = subshell
        self._client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def subshell(self) -> str:
        """The id of the kernel's second shell, made on first use; empty where it can't have one."""
        if self._subshell is None and self.has_subshells:
            self._client.control_channel.send(self._client.session.msg("create_subshell_request"))
            reply = self._client.get_control_msg(timeout=PATIENCE)
            self._subshell = str(reply["content"]["subshell_id"])
        return self._subshell or ""

    def complete(self, code: str) -> list[str]:
        """Ask for completions at the end of this code."""
        reply = self._client.complete(code, reply=True, timeout=PATIENCE)
        return list(reply["content"]["matches"])

    def inspect(self, code: str) -> str:
        """Ask for what `code?` would show."""
        reply = self._client.inspect(code, reply=True, timeout=PATIENCE)
        return str(reply["content"].get("data", {}).get("text/plain", ""))

    def listen(self, until: Callable[[], T], timeout: float = PATIENCE) -> T:
        """Take in messages until this is true or the time is up; return its last value."""
        deadline = time.monotonic() + timeout
        while not (held := until()) and time.monotonic() < deadline:
            try:
                raw = self._client.get_iopub_msg(timeout=0.1)
            except Empty:
                assert self._manager.is_alive(), "the kernel died"
                continue
            parent = raw["parent_header"].get("msg_id", "")
            self.inbox.append(Sent(raw["msg_type"], raw["content"], parent))
        return held

    def answered(self, text: str, request: str) -> bool:
        """Answer an `input()` of this request if one is waiting; those of cells that are over are passed over."""
        asked = ""
        while asked != request:
            try:
                asked = self._client.get_stdin_msg(timeout=0)["parent_header"].get("msg_id", "")
            except Empty:
                return False
        self._client.input(text)
        return True

    def reply_to(self, request: str) -> dict[str, Any]:
        """Read the shell's reply to this request, passing over others."""
        while True:
            raw = self._client.get_shell_msg(timeout=PATIENCE)
            if raw["parent_header"].get("msg_id") == request:
                content: dict[str, Any] = raw["content"]
                return content


def _readable(sent: Sent) -> str:
    content = sent.content
    match sent.type:
        case "stream":
            return str(content["text"])
        case "error":
            return f"{content['ename']}: {content['evalue']}"
        case "display_data" | "update_display_data" | "execute_result":
            return str(content["data"].get("text/plain", ""))
        case _:
            return ""


@contextmanager
def running(version: str, folder: Path) -> Iterator[Kernel]:
    """Start a kernel of this version; its connection file and IPython's own files go into the folder."""
    spec = folder / "kernels" / "rig"
    spec.mkdir(parents=True)
    argv = [str(python_of(version)), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": version, "language": "python"})
    )
    specs = KernelSpecManager(kernel_dirs=[str(spec.parent)], ensure_native_kernel=False)
    manager = KernelManager(
        kernel_name="rig", kernel_spec_manager=specs, connection_file=str(folder / "connection.json")
    )
    manager.start_kernel(cwd=str(folder), env=os.environ | {"IPYTHONDIR": str(folder / "ipython")})
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE)
        yield Kernel(version, manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def python_of(version: str) -> Path:
    """The Python of the environment with this ipykernel, made on first use with the core package only."""
    if version == NEWEST:
        return Path(sys.executable)
    folder = ROOT / ".ci" / "kernels" / version
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted = sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    stamp = folder / "made-for"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):  # two workers may want it at once
        if not stamp.exists() or stamp.read_text() != wanted:
            _uv("venv", "--allow-existing", "--python", sys.executable, str(folder))
            _uv("pip", "install", "--python", str(python), "--editable", str(ROOT), f"ipykernel=={version}.*")
            stamp.write_text(wanted)
    return python


def _uv(*arguments: str) -> None:
    done = subprocess.run(
        [os.environ.get("UV", "uv"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
