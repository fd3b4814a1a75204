"""One command run to its end: bounded in memory and time, and stopped with all that it started. Under the shell tool; book chapter 11.

Theory of operation. The command leads a process group of its own and carries a mark in its environment,
so that children which left the group (`setsid`) are found, too. It is over when its first process
ends, not when its pipes close: a child left in the background may hold those for ever. What such
a child still prints is read and dropped, so that it neither blocks nor dies of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

MARK = "HARNESS_NB_COMMAND"
"""The environment variable by which what a command started is known."""

GRACE = 2.0
"""Seconds between asking a command that ran too long to end (TERM) and ending it (KILL)."""

HURRY = 0.15
"""The same when the run is being stopped: a stop must feel like one."""

KILLED = "The command was killed, with all that it had started. What it had done stays done."
"""What a model is told of a command that was ended because the run was stopped."""

PATIENCE = 10.0
"""Seconds to wait for what was ended with KILL to be gone; it can be held up in the system, by a lost disk."""

SETTLE = 0.1
"""Seconds to wait, once the command has ended, for the last of its output."""

MOST = 256_000_000
"""Bytes after which a command that floods its output is stopped."""

PIECE = 65_536
"""Bytes read at once; other work on the event loop gets its turn in between."""


@dataclass(frozen=True, slots=True)
class Left:
    """A process that outlived its command."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True)
class Captured:
    """What came out of a pipe: all of it, or head and tail with `missing` bytes between."""

    head: bytes
    tail: bytes
    missing: int


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended. `code` is negative where a signal ended it; `stopped` says why we ended it, if we did."""

    code: int
    stdout: Captured
    stderr: Captured
    seconds: float
    left: tuple[Left, ...] = ()
    stopped: Literal["", "time", "output"] = ""


async def run_command(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], seconds: float, keep: int
) -> Finished:
    """Run `argv` with empty input for at most `seconds`, keeping the first and last `keep` bytes of each output.

    Cancelled, it ends all that the command started before it raises, and notes that on the exception. Raises
    OSError where the command can't be started.
    """
    mark = uuid.uuid4().hex
    flooded = asyncio.Event()
    outputs = (_Pipe(keep, flooded.set), _Pipe(keep, flooded.set))
    started = time.monotonic()
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env={**env, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=outputs[0].inlet,
            stderr=outputs[1].inlet,
            start_new_session=True,
        )
    except BaseException:
        _signal(None, mark, signal.SIGKILL)  # cancelled just then, it may have begun
        for pipe in outputs:
            pipe.close()
        raise
    for pipe in outputs:
        pipe.start()
    try:
        stopped = await _over(process, flooded, seconds)
        if stopped:
            await _end(process, mark, GRACE)
        await asyncio.wait([pipe.ended for pipe in outputs], timeout=SETTLE)
    except BaseException as stop:
        for pipe in outputs:
            pipe.close()
        await _end(process, mark, HURRY)
        stop.add_note(KILLED)
        raise
    seconds = time.monotonic() - started
    stdout, stderr = (pipe.taken() for pipe in outputs)
    left = tuple(Left(pid, command) for pid, _, command in _members(process.pid, mark))
    return Finished(process.returncode or 0, stdout, stderr, seconds, left, stopped)


class _Pipe:
    """Reads what comes out, without blocking, and holds on to its first and last `keep` bytes."""

    def __init__(self, keep: int, flooded: Callable[[], None]) -> None:
        self.ended = asyncio.get_running_loop().create_future()
        self._outlet, self.inlet = os.pipe()
        os.set_blocking(self._outlet, False)
        self._closing = [weakref.finalize(self, os.close, end) for end in (self._outlet, self.inlet)]
        self._keep, self._flooded = keep, flooded
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._held = self._passed = 0
        self._dropping = False

    def start(self) -> None:
        """Read whenever there is something, until the last process that writes is gone."""
        self._closing[1]()
        asyncio.get_running_loop().add_reader(self._outlet, self._read)

    def _read(self) -> None:
        try:
            piece = os.read(self._outlet, PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self.close()
        elif not self._dropping:
            self._hold(piece)

    def _hold(self, piece: bytes) -> None:
        self._passed += len(piece)
        room = self._keep - len(self._head)
        self._head += piece[:room]
        if rest := piece[room:]:
            self._tail.append(rest)
            self._held += len(rest)
        while self._tail and self._held - len(self._tail[0]) >= self._keep:
            self._held -= len(self._tail.popleft())
        if self._passed > MOST:
            self._flooded()

    def taken(self) -> Captured:
        """Return what was held; what comes from now on is dropped."""
        tail = b"".join(self._tail)[-self._keep :]
        captured = Captured(bytes(self._head), tail, self._passed - len(self._head) - len(tail))
        self._dropping = True
        self._head.clear()
        self._tail.clear()
        return captured

    def close(self) -> None:
        """Stop reading; a process that still writes is told so by its system."""
        if self._closing[0].alive:
            self.ended.get_loop().remove_reader(self._outlet)
        for closing in self._closing:
            closing()
        if not self.ended.done():
            self.ended.set_result(None)


async def _over(
    process: asyncio.subprocess.Process, flooded: asyncio.Event, seconds: float
) -> Literal["", "time", "output"]:
    """Wait until the first process has ended, and say why we must end it if it has not."""
    waits = [asyncio.ensure_future(process.wait()), asyncio.ensure_future(flooded.wait())]
    try:
        done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    if process.returncode is not None:
        return ""
    return "output" if done else "time"


async def _end(process: asyncio.subprocess.Process, mark: str, grace: float) -> None:
    """Ask all that the command started to end; after `grace` seconds end what has not."""
    _signal(process.pid, mark, signal.SIGTERM)
    try:
        await _gone(process, mark, grace)
    finally:  # also where we are stopped once more
        _signal(process.pid, mark, signal.SIGKILL)
    await _gone(process, mark, PATIENCE, signal.SIGKILL)


async def _gone(process: asyncio.subprocess.Process, mark: str, seconds: float, number: int = 0) -> None:
    """Wait until nothing of it lives, sending a signal again and again if one is given; what forks may take many."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while any(_members(process.pid, mark)):
                await asyncio.sleep(0.02)
                if number:
                    _signal(process.pid, mark, number)
            await process.wait()


def _signal(group: int | None, mark: str, number: int) -> None:
    """Send a signal to the group, and to those which left it."""
    gone = contextlib.suppress(ProcessLookupError, PermissionError)
    if group is not None:
        with gone:
            os.killpg(group, number)
    for pid, own, _ in list(_members(group, mark)):
        if own != group:
            with gone:
                os.kill(pid, number)


def _members(group: int | None, mark: str) -> Iterator[tuple[int, int, str]]:
    """Find the living processes of the group or with the mark: pid, group, command line."""
    if not Path("/proc/self/stat").exists():
        yield from _listed(group)
        return
    sought = f"{MARK}={mark}".encode()
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another person's
            state, _, own, *_ = (place / "stat").read_bytes().rpartition(b")")[2].split()
            if state in b"ZX":
                continue
            if int(own) == group or sought in (place / "environ").read_bytes():
                line = (place / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
                yield int(place.name), int(own), line.decode(errors="replace")


def _listed(group: int | None) -> Iterator[tuple[int, int, str]]:
    """The same where there is no /proc, as on macOS: by group alone."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,pgid=,stat=,args="], capture_output=True, check=False)  # noqa: S607
    for line in listed.stdout.decode(errors="replace").splitlines():
        pid, own, state, *words = line.split(maxsplit=3)
        if int(own) == group and not state.startswith("Z"):
            yield int(pid), int(own), " ".join(words)
