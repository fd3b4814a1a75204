"""Lines matched with a pattern of a model's, in a process that can be ended: some patterns take for ever."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness_nb.errors import ToolError

SECONDS = 15.0
"""How long one search may take."""

PROGRAM = """
import json, re, sys

def read():
    return sys.stdin.buffer.read(int(sys.stdin.buffer.read(9) or 0)).decode()

def write(value):
    print(json.dumps(value), flush=True)

flags, most = int(sys.argv[1]), int(sys.argv[2])
try:
    search = re.compile(read(), flags).search
    write("")
except Exception as fault:
    sys.exit(write(str(fault)))
while text := read():
    write([n for n, line in enumerate(text.split("\\n"), 1) if search(line)][:most])
"""
"""Reads texts, each after its length in nine digits, and writes the numbers of the lines that match as JSON."""

SHARED = re.compile(
    r"(?:[\w \"'#%&,:;<>=@!/`~-]|\\[wWdDsSbB.()\[\]{}+*?^$|\\/]|[.()|+*?^$]|\[\^?[\w .,:]+\])+"
)
"""Patterns that mean the same to Python and to ripgrep, in ASCII text with plain line ends."""

UNLIKE = r"(?-u:[\r\x80-\xff])"
"""Bytes that the two may take differently, other line ends among them: a file with one is always opened."""


class Matcher:
    """A child process that matches lines."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """Use `matching`."""
        self._process = process

    def lines(self, text: str, name: str) -> list[int]:
        """Tell which lines of a named text match, counted from 1. Raises ToolError when time is up."""
        found = self.answer(text, name) if text else []
        return found if isinstance(found, list) else []

    def answer(self, text: str, name: str) -> object:
        """Send one text and read what comes back. Raises ToolError when time is up."""
        data = text.encode("utf-8", "replace")
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        try:
            self._process.stdin.write(b"%09d" % len(data) + data)
            self._process.stdin.flush()
            said = self._process.stdout.readline()
        except BrokenPipeError:
            said = b""
        if not said:
            raise ToolError(
                f"The search took too long and was stopped in {name}. "
                "Leave that out, search fewer files, or for a simpler pattern without nested `*` and `+`."
            )
        return json.loads(said)


@contextmanager
def matching(pattern: str, *, ignore_case: bool, most: int, seconds: float = SECONDS) -> Iterator[Matcher]:
    """Start a matcher that gives at most so many lines of a text. Raises ToolError for a pattern that is none."""
    flags = re.IGNORECASE.value if ignore_case else 0
    command = [sys.executable, "-I", "-S", "-W", "ignore", "-c", PROGRAM, str(flags), str(most)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    timer = threading.Timer(seconds, process.kill)
    timer.daemon = True
    timer.start()
    try:
        matcher = Matcher(process)
        if fault := matcher.answer(pattern, "the pattern"):
            raise ToolError(
                f"The pattern can't be read: {fault}. Escape what shall be taken literally with `\\`."
            )
        yield matcher
    finally:
        timer.cancel()
        process.kill()
        process.communicate()
        timer.join()


def worth_opening(pattern: str, top: Path, *, ignore_case: bool, largest: int) -> set[str] | None:
    """Ask ripgrep which files below a directory have a match, by their paths from there; None: open all.

    It only saves time: each file is opened and matched again, safely and in one dialect.
    """
    program = shutil.which("rg")
    if not program or not SHARED.fullmatch(pattern) or "(?" in pattern:
        return None
    command = [
        program,
        "--files-with-matches",
        "--null",
        "--no-config",
        "--no-ignore",
        "--hidden",
        "--no-messages",
        "--text",
    ]
    command += ["--no-follow", "--ignore-case" if ignore_case else "--case-sensitive"]
    command += ["--max-filesize", str(largest), "--regexp", pattern, "--regexp", UNLIKE, "--", "."]
    try:
        said = subprocess.run(  # cwd is only where it looks: what it names is opened from the root
            command, cwd=top, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if said.returncode > 1:
        return None
    return {
        name.removeprefix("./") for name in said.stdout.decode("utf-8", "surrogateescape").split("\0") if name
    }
