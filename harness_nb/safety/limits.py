"""Limits on what a command may use, and a clean environment: the sandbox that is none, and says so. Fits the shell tool; book chapter 14."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness_nb.seams import Effect

LINUX = sys.platform == "linux"

KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME")
"""What a command gets of the environment; keys and tokens, whatever their name, are not among it."""

PLAIN = {"TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""What makes programs print text and not ask."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one command may use. `memory` (bytes) and `cpu` (seconds) are for each of its processes, `file` is bytes."""

    processes: int = 256
    memory: int = 4 * 1024**3
    cpu: int = 300
    file: int = 1024**3

    def around(self, argv: Sequence[str]) -> list[str]:
        """Return a command that sets these limits for itself, then becomes `argv`."""
        # sh counts memory in kB and files in half kB, and calls the number of processes -p (dash) or -u (others).
        # That number includes what runs already under this name, except in a user namespace of its own.
        settings = [f"ulimit -t {self.cpu}", f"ulimit -f {self.file // 512}", "ulimit -c 0"]
        if LINUX:
            count = _mine() + self.processes
            settings += [f"ulimit -v {self.memory // 1024}", f"ulimit -u {count} || ulimit -p {count}"]
        return ["/bin/sh", "-c", f'{{ {"; ".join(settings)}; }} 2>/dev/null; exec "$@"', "sh", *argv]

    def told(self, count: int) -> str:
        """Say what is limited, where `count` processes can be had; 0 for any number."""
        use = f"{self.cpu} s of CPU and files of {self.file / 1024**3:g} GB"
        each = f"{self.memory / 1024**3:g} GB of memory, {use}" if LINUX else use
        if count:
            return f"At most {count} processes at once, each with {each}."
        open_ = "their number is" if LINUX else "memory and their number are"
        return f"Each process gets {each}; {open_} not limited {'because you are root' if LINUX else 'here'}."


DEFAULT = Limits()


@dataclass(frozen=True, slots=True)
class Limited:
    """Limits, a clean environment and nothing more. `why` says what kept it from being more, if anything."""

    limits: Limits = DEFAULT
    why: str = ""
    effects: frozenset[Effect] = frozenset({"read", "write", "network", "mutate"})
    background: bool = True

    @property
    def isolation(self) -> str:
        """What is and what isn't out of reach."""
        reason = f" ({self.why})" if self.why else ""
        return (
            f"Not isolated{reason}: a command can read, change and delete whatever you can, and use the network. "
            f"Its environment holds no keys, but it can find them where they are kept. {self.limits.told(self._count())}"
        )

    def around(self, workspace: Path) -> contextlib.AbstractContextManager[None]:
        """Hold while a command runs: nothing is kept from it."""
        return contextlib.nullcontext()

    def wrap(self, argv: Sequence[str], workspace: Path) -> tuple[list[str], dict[str, str]]:
        """Set the limits and clean the environment."""
        return self.limits.around(argv), environment()

    def _count(self) -> int:
        return self.limits.processes if LINUX and not is_root() else 0


def limited(workspace: str | Path | None = None, *, limits: Limits = DEFAULT, why: str = "") -> Limited:
    """Make a sandbox that is none: limits and a clean environment. `workspace` confines nothing here."""
    return Limited(limits, why)


def environment() -> dict[str, str]:
    """Make the environment of a command: what programs need, without keys, with this Python first."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return {**kept, "HOME": str(home_folder()), "PATH": path, **PLAIN}


def home_folder() -> Path:
    """The person's home, or /tmp for those who have none of their own."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises where there is none
    return home.resolve() if len(home.parts) > 1 else Path("/tmp")  # noqa: S108


def _mine() -> int:
    """Count the threads that run under this user's name, as the system does for its limit."""
    count = 0
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            count += sum(1 for _ in (place / "task").iterdir()) if place.stat().st_uid == os.getuid() else 0
    return count


def is_root() -> bool:
    """Tell whether we are root, whom some limits don't hold."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
