"""A clerk who writes to the members of a library, for the lesson on resuming: what was sent stays sent, whoever dies.

Here is also a second kernel, so that one can be killed while a lesson goes on.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty

import harness_nb
from harness_nb import Call, Request, call, say, scripted, tool
from harness_nb.jupyter.kept import notebook
from harness_nb.seams import Reply
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

DESK = Path(".harness_nb/lesson_21")
"""Where the lesson keeps everything: in the folder that it runs in, so that a new kernel finds it."""
OUTBOX = DESK / "outbox.txt"
MEMBERS = ["R-7", "R-12", "R-31"]


LIFE: list[bool] = []
"""Whether the process dies at each of the points to come, the next one last."""


class Killed(BaseException):
    """A tame death: the process ends here, and all that it had in memory."""


def dies_at(point: int) -> None:
    """Have the process be killed at a step, counted from 0."""
    LIFE[:] = [True, *[False] * point]


def step() -> None:
    """Come to a point where the process may be killed."""
    if LIFE and LIFE.pop():
        raise Killed


def cleared() -> None:
    """Clear the desk: no letters, no sessions."""
    shutil.rmtree(DESK, ignore_errors=True)
    DESK.mkdir(parents=True)


def sent() -> list[str]:
    """List who has been written to, once for each letter."""
    return [line.split()[0] for line in _letters()]


def _letters() -> list[str]:
    return OUTBOX.read_text().splitlines() if OUTBOX.exists() else []


def is_sent(this: Call) -> bool:
    """Look whether the letter of this very call is in the outbox."""
    return any(line.split()[1] == this.key for line in _letters())


@tool(effects={"read"})
def overdue(weeks: int) -> list[str]:
    """List the members who have had a book for too long."""
    return MEMBERS


@tool(effects={"mutate"}, verify=is_sent)
def remind(member: str, this: Call) -> str:
    """Write to a member about a book that is overdue."""
    with OUTBOX.open("a") as file:
        file.write(f"{member} {this.key}\n")
    if member == os.environ.get("DIES_AFTER"):
        os.kill(os.getpid(), 9)
    return f"Sent to {member}."


def clerk(request: Request) -> str | Reply:
    """Look who is overdue and write to them, or count the letters. It knows only what it is shown."""
    prompts = [n for n, message in enumerate(request.messages) if message.role == "user"]
    told = [r.text for message in request.messages for r in message.results]
    letters = sum("Sent" in text or "had its effect" in text for text in told)
    if request.messages[prompts[-1]].text.startswith("How many"):
        return f"I have sent {letters} letters."
    done = sum(len(message.results) for message in request.messages[prompts[-1] :])
    if not done:
        return say(call("overdue", weeks=2))
    if done == 1:
        return say(*[call("remind", member=member) for member in MEMBERS])
    return f"All {len(MEMBERS)} have been reminded."


def opened() -> None:
    """Seat the clerk at this kernel's session; a rule allows the letters."""
    session = harness_nb.session()
    session.model, session.tools = scripted(*[clerk] * 50), [overdue, remind]
    session.rules = ["allow remind"]


FIRST = f"""
%load_ext harness_nb
%config AgentMagics.store = "{DESK.as_posix()}"
import letters
letters.opened()
"""
"""The first cell of another kernel."""


@dataclass(frozen=True)
class Kernel:
    """Another kernel, a process of its own as every notebook has one."""

    manager: KernelManager
    client: BlockingKernelClient

    @property
    def alive(self) -> bool:
        """Whether its process is there."""
        return self.manager.is_alive()

    def run(self, cell: str) -> str:
        """Run a cell; return what it showed last, however far it came."""
        request, shown = self.client.execute(cell), ""
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=0.2)
            except Empty:
                if not self.alive:
                    return shown
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if content.get("execution_state") == "idle":
                return shown
            found = content.get("data", {}).get("text/plain") or content.get("evalue")
            shown = found or content.get("text") or shown


@contextmanager
def another_kernel(**environment: str) -> Iterator[Kernel]:
    """Start a kernel with these variables in its environment; it is gone when this is over."""
    name = {"JPY_SESSION_NAME": f"{notebook()}.ipynb"} if notebook() else {}
    with Path(os.devnull).open("w") as quiet:
        manager, client = start_new_kernel(
            env=os.environ | name | environment, stdout=quiet, stderr=quiet
        )
        try:
            kernel = Kernel(manager, client)
            kernel.run(FIRST)
            yield kernel
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
