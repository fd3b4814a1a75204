"""Commands in a root directory of their own, by bubblewrap: the workspace and the system's programs, nothing else. Book chapter 14.

Linux only, and not everywhere: a container or the system's policy may forbid it, so it is tried once.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from harness_nb.errors import ToolError, UsageError
from harness_nb.safety.limits import DEFAULT, LINUX, Limits, environment, home_folder, is_root
from harness_nb.safety.standins import stand_ins, standing_in
from harness_nb.seams import Effect

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")

SETTINGS = (
    *("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "mime.types"),
    *("passwd", "group", "nsswitch.conf", "hosts", "host.conf", "gai.conf", "services", "protocols"),
    *("ssl/certs", "ssl/openssl.cnf", "ca-certificates", "pki/tls/certs", "crypto-policies", "fonts"),
)
"""What is shown of /etc: what programs need to start, and no key, password or server's setting."""

PROTECTED = ("harness_nb.toml", ".git/config", ".git/hooks", ".envrc")
"""What a command can't change in the workspace: it says what agents may do, or is run by programs outside."""

PRIVATE = ("pip.conf", "etc/jupyter")
"""What an environment of Python packages may hold that is not for a command: an index's password, a server's."""

RESERVED = 300
"""Process numbers that Linux gives out once and then no more, so they come on top where numbers are what is limited."""


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A root directory made anew for each command, of the workspace and the system's programs."""

    program: str
    workspace: Path | None = None
    network: bool = False
    limits: Limits = DEFAULT
    protected: tuple[str, ...] = PROTECTED
    background: bool = False

    @property
    def isolation(self) -> str:
        """What is and what isn't out of reach."""
        network = "the network is open, this machine's own servers included" if self.network else "no network"
        kept = ", ".join([*self.protected, "this Python's packages"])
        return (
            "In a sandbox (bubblewrap): a command can change and delete what is in the workspace, and sees nothing "
            f"else but the system's programs: not your home, not other files, no keys; {network}. What can't be changed or made: {kept}. "
            f"The folder for temporary files is empty each time. {self.limits.told(self._count())}"
        )

    @property
    def effects(self) -> frozenset[Effect]:
        """Reading and writing the workspace; with the network, whatever can be reached by it."""
        return frozenset({"read", "write", "network", "mutate"} if self.network else {"read", "write"})

    def around(self, workspace: Path) -> AbstractContextManager[None]:
        """Hold while a command runs: what is protected and missing can't be made by it."""
        return standing_in((self.workspace or workspace).resolve(), self.protected)

    def wrap(self, argv: Sequence[str], workspace: Path) -> tuple[list[str], dict[str, str]]:
        """Build the directory and start `argv` in it, in namespaces of its own. Raises ToolError where it can't."""
        root = (self.workspace or workspace).resolve()
        if root == Path("/"):
            raise ToolError(
                "The whole disk can't be the workspace of a sandbox: start in a directory of yours."
            )
        flags = [*FLAGS, *(["--share-net"] if self.network else [])]
        mounts = [
            *_system(network=self.network),
            *_workspace(root, self.protected),
            "--chdir",
            str(workspace),
        ]
        command = [self.program, *flags, *mounts, "--", *self.limits.around(argv)]
        if is_root() and (count := self._count()):
            command = [*COUNTED, str(count), *command]
        return command, environment() | {"HOME": str(home_folder()), "TMPDIR": "/tmp"}  # noqa: S108 - a private one

    def _count(self) -> int:
        """How many processes there can be; 0 where they can't be counted."""
        reserved = RESERVED if is_root() else 0
        return 0 if is_root() and not _countable() else self.limits.processes + reserved


def bubblewrap(
    workspace: str | Path | None = None,
    *,
    network: bool = False,
    limits: Limits = DEFAULT,
    protected: Iterable[str] = PROTECTED,
) -> Bubblewrap:
    """Make a sandbox in which only `workspace` can be changed; None is where each command starts.

    What is named in `protected`, relative to the workspace, can't be changed or made either. Raises UsageError where bubblewrap is missing or the system does not allow it.
    """
    if why := trouble():
        raise UsageError(
            f"No sandbox: {why}. Install it (`apt install bubblewrap`), or use limited(workspace)."
        )
    place = Path(workspace).resolve() if workspace is not None else None
    return Bubblewrap(_program(), place, network, limits, tuple(protected))


FLAGS = (
    *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--hostname", "sandbox", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),  # noqa: S108
)

TRUSTED = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/run/current-system/sw/bin"
"""Where bubblewrap is looked for: not in PATH, which may hold a folder that commands can change."""

UNSHARE = "/usr/bin/unshare"

COUNTED = (
    *(UNSHARE, "--fork", "--kill-child", "--pid", "--mount-proc", "--", "/bin/sh", "-c"),
    'echo "$1" > /proc/sys/kernel/pid_max && shift && exec "$@"',
    "sh",
)
"""Root is exempt from limits on the number of processes, but not from how far its system counts them."""


def _system(*, network: bool) -> Iterator[str]:
    """Show programs, libraries, and this Python with its packages; an empty home."""
    for path in SYSTEM:
        if Path(path).is_symlink():
            yield from ("--symlink", str(Path(path).readlink()), path)
        elif Path(path).exists():
            yield from ("--ro-bind", path, path)
    for name in (*SETTINGS, *(["resolv.conf"] if network else [])):
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    yield from ("--tmpfs", str(home_folder()))


def _workspace(root: Path, protected: Iterable[str]) -> Iterator[str]:
    """Show the workspace, writable; where it holds the person's home, without the hidden files there."""
    prefixes = _prefixes(root)
    for prefix in prefixes:
        if root.is_relative_to(prefix):
            yield from ("--ro-bind", str(prefix), str(prefix))
    yield from ("--bind", str(root), str(root))
    home = home_folder()
    hidden = (
        [item for item in _entries(home) if item.name.startswith(".")] if home.is_relative_to(root) else []
    )
    yield from itertools.chain(*map(_covered, hidden))
    for prefix in prefixes:  # also in the workspace: what commands write there would later run outside
        if not root.is_relative_to(prefix):
            yield from ("--ro-bind", str(prefix), str(prefix))
            yield from itertools.chain(
                *(_covered(prefix / name) for name in PRIVATE if (prefix / name).exists())
            )
    named = [*protected, *([".git"] if (root / ".git").is_file() else [])]  # a file there names the real one
    there = (root / name for name in named if (root / name).exists() and not (root / name).is_symlink())
    kept = sorted({*there, *stand_ins(root)})
    for folder in sorted({place.parent for place in kept} - {root}):  # a mount can't be moved out of the way
        yield from ("--bind", str(folder), str(folder))
    for place in kept:
        yield from ("--ro-bind", str(place), str(place))
    yield from ("--remount-ro", "/", "--remount-ro", "/proc")  # root may write to /proc/sys, even here


def _prefixes(root: Path) -> list[Path]:
    """Where this Python and its packages are, as spelled and as it really is, unless it is shown anyway or shows too much."""
    spelled = [Path(sys.base_prefix), Path(sys.prefix)]
    link = Path(sys.executable)
    while link.is_symlink():  # to a Python by another name, perhaps
        link = link.parent / link.readlink()
        spelled.append(link.parent.parent)
    found = {path.resolve() for path in spelled} | {path for path in spelled if not path.is_relative_to(root)}
    home = home_folder()
    return sorted(
        path
        for path in found
        if path.is_absolute() and not path.is_relative_to("/usr") and not home.is_relative_to(path)
    )


def _covered(place: Path) -> tuple[str, ...]:
    return ("--tmpfs", str(place)) if place.is_dir() else ("--ro-bind", "/dev/null", str(place))


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(item for item in directory.iterdir() if not item.is_symlink())
    except OSError:
        return []


def _program() -> str:
    return shutil.which("bwrap", path=TRUSTED) or ""


def trouble() -> str:
    """Say why bubblewrap can't be used here, or nothing."""
    if not LINUX:
        return "bubblewrap needs Linux"
    if not _program():
        return "bubblewrap is not installed"
    failed = _failure(_program())
    return f"bubblewrap does not work here: {failed}" if failed else ""


@functools.cache
def _failure(program: str) -> str:
    """Try it once: containers often forbid what it needs."""
    return _tried([program, *FLAGS, *_system(network=False), "--remount-ro", "/proc", "--", "true"])


@functools.cache
def _countable() -> bool:
    """Tell whether the count of processes can be limited for root: since Linux 6.14, each namespace has its own."""
    version = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    # Asked before it is tried: on an older one the trial would change the count of the whole machine.
    return version >= (6, 14) and Path(UNSHARE).exists() and not _tried([*COUNTED, "1000", "true"])


def _tried(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as fault:
        return str(fault)
    said = done.stderr.decode(errors="replace").strip()
    return "" if done.returncode == 0 else said or f"exit code {done.returncode}"
