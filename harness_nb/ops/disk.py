"""Bytes put on a disk so that they are there whole, or not at all; faults told in sentences. Book chapter 21."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from harness_nb.ops.store import StoreError
from harness_nb.workspace import reason

FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
ELSEWHERE = "or keep sessions elsewhere: set HARNESS_NB_STORE to another folder, or to `off` to keep none"


@contextlib.contextmanager
def told(path: Path, what: str) -> Iterator[None]:
    """Raise the system's faults as StoreErrors that say what can't be done to a path, such as `read`, and what to do."""
    try:
        yield
    except OSError as fault:
        raise StoreError(sentence(fault, path, what)) from None


def sentence(fault: OSError, path: Path, what: str) -> str:
    """Say a fault and what to do about it."""
    if fault.errno in FULL:
        return f"{shown(path)} can't grow, the disk is full or a limit is met: make room and go on. What was kept before is whole."
    if isinstance(fault, FileExistsError | NotADirectoryError):
        file = next((above for above in (path, *path.parents) if above.is_file()), path)
        return f"{shown(file)} is a file, and sessions need a folder there: move it away, {ELSEWHERE}."
    return f"{shown(path)} can't be {what}: {reason(fault)}. See to it that you may write there, {ELSEWHERE}."


def shown(path: Path) -> str:
    """A path as it is told to a person: from the current folder if it lies in it, else its last two parts."""
    with contextlib.suppress(ValueError, OSError):
        return f"`{path.absolute().relative_to(Path.cwd())}`"
    return f"`{Path(*path.absolute().parts[1:][-2:])}`"


def write_whole(fd: int, content: bytes, *, sync: bool = False) -> None:
    """Append bytes to an open file, and have them on disk with `sync`.

    Raises OSError if that can't be done; then none of them are left, or HalfWrittenError if even that was refused.
    """
    done = 0
    try:
        while done < len(content):
            done += os.write(fd, content[done:] if done else content)
        if sync:
            to_disk(fd)
    except OSError as fault:
        try:
            os.ftruncate(fd, os.fstat(fd).st_size - done)
        except OSError:
            raise HalfWrittenError(*fault.args) from None
        raise


class HalfWrittenError(OSError):
    """Some bytes were written, the rest could not be, and those could not be taken back."""


def to_disk(fd: int) -> None:
    """Wait until what was written is on the disk, not only on its way there."""
    if sys.platform == "darwin":
        import fcntl

        with contextlib.suppress(OSError):  # not every file system has it
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
    os.fsync(fd)


def folder_to_disk(folder: Path) -> None:
    """The same for a folder's list of files, and its own place in the folder above; where the system has such a thing."""
    for place in (folder, folder.parent):
        with contextlib.suppress(OSError):
            fd = os.open(place, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def keep_aside(path: Path, content: bytes) -> None:
    """Add what was cut off to the file for it, on a line of its own."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
    try:
        write_whole(fd, content + b"\n", sync=True)
    finally:
        os.close(fd)
