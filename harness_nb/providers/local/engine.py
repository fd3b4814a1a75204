"""The parent's handle on the embedded model: a llama.cpp server in a child process, started, watched and stopped."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from harness_nb.errors import UsageError
from harness_nb.providers.clients import no_package

CONTEXT = 8192
"""Tokens the server keeps: prompt and answer together."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What one server is started with."""

    model: Path
    """A GGUF file."""
    context: int = CONTEXT
    """Tokens of prompt and answer together."""
    parallel: int = 1
    """How many prompts it keeps the state of, and answers at once."""
    template: str = ""
    """A Jinja chat template that replaces the one in the file; empty keeps the file's."""
    slots: Path | None = None
    """A folder where prompt states may be saved and restored; None turns that off."""


class Engine:
    """A running server: where it listens, the key it wants, and whether it still lives.

    Stops when told to, when nothing refers to it any more, and when this process ends in any way at all.
    """

    def __init__(self, settings: Settings) -> None:
        """Start the server and wait until it listens (1 to 10 s); raises UsageError if it can't."""
        self.settings = settings
        self.held: dict[int, str] = {}
        """Which prompt each of the server's slots holds the state of, see `memory`."""
        self.key = secrets.token_urlsafe(24)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._process = _spawn(self._log)
        self.stop = weakref.finalize(self, _stop, self._process, self._log)
        """Stop the server now; may be called twice."""
        _all.add(self)
        try:
            self.url = self._introduce()
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the child still runs."""
        return self._process.poll() is None

    def died(self) -> bool:
        """Whether the child is gone, given a moment: its connections break a little before it can be waited for."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        return not self.alive

    def last_words(self) -> str:
        """What the child last wrote to its error stream: for a message about its death, usually empty."""
        if self._log.closed:
            return ""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")

    def _introduce(self) -> str:
        """Hand over the settings, and hear where the server listens."""
        stdin, stdout = _pipes(self._process)
        settings = {
            "model": str(self.settings.model),
            "key": self.key,
            "context": self.settings.context,
            "parallel": self.settings.parallel,
            "template": self.settings.template,
            "slots": f"{self.settings.slots}{os.sep}" if self.settings.slots else "",
            "threads": max(1, (os.cpu_count() or 2) - 1),
        }
        try:
            stdin.write(json.dumps(settings).encode() + b"\n")
            stdin.flush()
            answer = json.loads(stdout.readline() or b"{}")
        except (OSError, ValueError):
            answer = {}
        if "url" in answer:
            return str(answer["url"])
        with suppress(subprocess.TimeoutExpired):  # so that its last words are there
            self._process.wait(2)
        raise _complaint(answer.get("error") or self.last_words(), self.settings.model)


_all: weakref.WeakSet[Engine] = weakref.WeakSet()
_running: dict[Settings, Engine] = {}
_starting = threading.Lock()


def _let_go() -> None:
    """In a process that has just been forked: leave the engines to its parent, so that they end with that."""
    global _starting  # noqa: PLW0603 - whoever holds it is not here
    _starting = threading.Lock()
    _running.clear()
    nothing = os.open(os.devnull, os.O_RDWR)
    for engine in list(_all):
        if engine.stop.detach():
            for pipe in _pipes(engine._process):  # noqa: SLF001
                os.dup2(nothing, pipe.fileno(), inheritable=False)
    os.close(nothing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def running(settings: Settings) -> Engine:
    """The one engine of this process for these settings, started if there is none or it has died.

    One for all who ask, since each takes the memory of its weights. Blocks while it loads; raises UsageError.
    """
    with _starting:
        engine = _running.get(settings)
        if engine is None or not engine.alive:
            engine = _running[settings] = Engine(settings)
        return engine


def _complaint(words: str, model: Path) -> UsageError:
    """Why the server did not start, with what to do, from what the child said."""
    if "No module named 'xllamacpp'" in words:
        return no_package("The local model", "xllamacpp", "local")
    if "Failed to init server" in words:
        why = f"cannot load {model}: it is no whole GGUF model file, or memory is short"
    else:
        why = f"did not start: {words or 'the child process ended without a word'}"
    return UsageError(f"The local engine {why}.")


def _spawn(log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the child in its own session, out of reach of this terminal's Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("server.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        # Before the library loads: waiting threads that spin cost ten times on a busy machine.
        env=os.environ | {"OMP_WAIT_POLICY": "passive"},
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    return cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)


def _stop(process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    """Close the lifeline, then insist."""
    stdin, stdout = _pipes(process)
    with suppress(OSError):  # the child may be gone, with bytes unread in the pipe
        stdin.close()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    stdout.close()
    log.close()
