"""Shell commands: a tool that runs one in a sandbox and reports what came of it. Book chapters 11 and 14.

What the command can reach is the sandbox's business (see `safety.sandbox`); any object of its shape
will do, so a container can take its place.
"""

from __future__ import annotations

import codecs
import errno
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Protocol

from harness_nb.errors import ToolError
from harness_nb.events import Preview
from harness_nb.messages import Image, Text
from harness_nb.seams import Effect
from harness_nb.strict import clean
from harness_nb.toolkit.command import Captured, Finished, Left, run_command
from harness_nb.tools import Tool, tool

SECONDS = 30
"""Seconds that a command may take unless asked otherwise."""

MOST_SECONDS = 300

KEPT = 4_000_000
"""Bytes that are held of each end of an output; what a model is shown of it is decided later."""

DESCRIPTION = """Run one shell command in the workspace and wait for it to end.

Needs a command line for bash (sh where there is none). Each call starts anew in the workspace: `cd` and variables
don't last, so join what belongs together with `&&`. Input is empty, so a program that asks gets no answer. A command
that takes longer than `timeout_seconds` is ended with all that it started. Returns the exit code, the duration and what
was printed. To look at, search or change files, prefer the tools for that.

{background} {isolation}"""

STAYS = "What is started with `&` may outlive the call and is named in the result."
ENDS = "What is started with `&` ends with the call."

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Colours, cursor moves and titles: for terminals only."""


class Sandbox(Protocol):
    """Where commands run, and what they can reach from there."""

    @property
    def isolation(self) -> str:
        """One or two plain sentences for model and person: what is and what isn't out of reach."""

    @property
    def effects(self) -> frozenset[Effect]:
        """What a command in it may do."""

    @property
    def background(self) -> bool:
        """Whether a process can outlive its command."""

    def around(self, workspace: Path) -> AbstractContextManager[None]:
        """Return what is held from before `wrap` until the command is over."""

    def wrap(self, argv: Sequence[str], workspace: Path) -> tuple[list[str], dict[str, str]]:
        """Return what to start in place of `argv`, and its whole environment. Raises ToolError where it can't."""


def shell(
    sandbox: Sandbox, workspace: str | Path | None = None, *, explain: Callable[[str], str] | None = None
) -> Tool:
    """Make the shell tool of a workspace; None is the current directory at the time of each call.

    A person who is asked sees the command, what `explain` says of it, and what the sandbox keeps from it.
    """

    async def run(
        command: Annotated[str, "such as: ls -l && wc -l *.csv"],
        timeout_seconds: Annotated[float, f"at most {MOST_SECONDS}"] = SECONDS,
    ) -> list[Text | Image]:
        if not timeout_seconds > 0:
            raise ToolError(f"Give timeout_seconds from 1 to {MOST_SECONDS}.")
        try:
            place = _place(Path(workspace or "."), command)
            with sandbox.around(place):
                argv, env = sandbox.wrap([_program(), "-c", clean(command)], place)
                finished = await run_command(argv, place, env, min(timeout_seconds, MOST_SECONDS), KEPT)
        except OSError as fault:
            raise _not_started(fault) from None
        report = [part for part in _report(finished) if part]
        if finished.stopped:
            raise ToolError("\n".join(report))
        return [Text(part) for part in report]

    def preview(arguments: Mapping[str, object]) -> Preview:
        command = str(arguments["command"])
        told = [*(explain(command).splitlines() if explain else ()), sandbox.isolation]
        return Preview("command", "\n".join([command, "", *(f"# {line}" for line in told)]))

    background = STAYS if sandbox.background else ENDS
    description = DESCRIPTION.format(background=background, isolation=sandbox.isolation)
    return tool(name="shell", description=description, effects=sandbox.effects, preview=preview)(run)


def _place(workspace: Path, command: str) -> Path:
    """Say where a command starts. Raises ToolError for one that can't."""
    if sys.platform == "win32":
        raise ToolError("Shell commands need Linux or macOS; on Windows, run the notebook in WSL.")
    if not command.strip() or "\0" in command:
        raise ToolError("Give one command line, without NUL characters.")
    return workspace.resolve(strict=True)


def _program() -> str:
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


def _not_started(fault: OSError) -> ToolError:
    if fault.errno == errno.E2BIG:
        return ToolError("The command is too long to be started: write it to a file, and run that.")
    return ToolError(f"The command could not be started: {(fault.strerror or str(fault)).lower()}.")


def _report(finished: Finished) -> Iterator[str]:
    """Say how it ended, what it printed, what it left: parts, so that a long one takes no room from the others."""
    yield _ending(finished)
    for name, captured in (("stdout", finished.stdout), ("stderr", finished.stderr)):
        if captured.head:
            yield f"--- {name} ---\n{_text(captured)}"
    if not finished.stdout.head and not finished.stderr.head:
        yield "(it printed nothing)"
    if finished.left:
        yield _left(finished.left)


def _ending(finished: Finished) -> str:
    # Whole seconds, so that a command that does the same again has the same result, word for word.
    took = f"after {finished.seconds:.0f} s" if finished.seconds >= 1 else "in less than 1 s"
    if finished.stopped == "time":
        return f"Stopped {took}, with all that it started: it took too long. What it had done stays done."
    if finished.stopped == "output":
        return f"Stopped {took}, with all that it started: it printed too much. Print less, or into a file."
    if finished.code < 0:
        return f"ended by signal {-finished.code}, {took}"
    return f"exit code {finished.code}, {took}"


def _left(left: Sequence[Left]) -> str:
    named = ", ".join(f"pid {item.pid} `{item.command[:80]}`" for item in left[:10])
    more = f" and {len(left) - 10} more" if len(left) > 10 else ""
    pids = " ".join(str(item.pid) for item in left[:10])
    return f"[Still running: {named}{more}. What it prints from now on is lost; to end it, `kill {pids}`.]"


def _text(captured: Captured) -> str:
    """Decode both ends, cut where a character is whole, without what is for terminals only."""
    if not captured.missing:
        return _plain(captured.head + captured.tail)
    head = codecs.getincrementaldecoder("utf-8")("replace").decode(captured.head)
    tail = captured.tail
    while tail and tail[0] & 0xC0 == 0x80 and len(captured.tail) - len(tail) < 3:  # the rest of a character
        tail = tail[1:]
    return f"{_plain(head)}\n[... {captured.missing:,} bytes not kept ...]\n{_plain(tail)}"


def _plain(output: str | bytes) -> str:
    text = output if isinstance(output, str) else output.decode(errors="replace")
    return ESCAPES.sub("", text.replace("\r\n", "\n")).rstrip("\n")
