"""A lock on a journal: one process writes it at a time, and the system lets go when that process dies. Book chapter 21.

It lies beside the journal and holds its writer's process id, so that the second one can be told who has it. A process
that is forked off would share it and keep it alive; so a fork lets go of its copy at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from weakref import WeakSet

if sys.platform == "win32":
    import msvcrt

    FAR = 1 << 30
    """The byte that is locked: nobody reads there."""

    def _taken(fd: int) -> bool:
        os.lseek(fd, FAR, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(fd, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def _taken(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class Held(Exception):
    """Somebody else has it; `pid` is the process, 0 where that is not known."""

    def __init__(self, pid: int) -> None:
        super().__init__(pid)
        self.pid = pid


class Lock:
    """Taken when made, until `release` or the end of this process. Raises Held, and OSError where no lock can be."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pid = os.getpid()
        self._fd = self._take()
        with contextlib.suppress(OSError):  # a full disk; then nobody learns who has it
            os.ftruncate(self._fd, 0)
            os.write(self._fd, str(self._pid).encode())
        _taken_here.add(self)

    def _take(self) -> int:
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
            try:
                if not _taken(fd):
                    raise Held(_pid(fd))
                if os.name == "nt" or self._is_there(fd):
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # its last holder took the file away between our two steps

    def _is_there(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), self._path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Let go; a second time does nothing. In a forked process it only closes the copy."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        if os.getpid() == self._pid and os.name != "nt":
            with contextlib.suppress(OSError):
                if self._is_there(fd):  # else the folder was deleted, and what is there now is another's
                    self._path.unlink()
        os.close(fd)
        if os.getpid() == self._pid and os.name == "nt":  # there, no open file can be taken away
            with contextlib.suppress(OSError):
                self._path.unlink()


def _pid(fd: int) -> int:
    try:
        return int(os.read(fd, 20))
    except (OSError, ValueError):
        return 0


def _let_go_in_fork() -> None:
    for lock in list(_taken_here):
        lock.release()


_taken_here: WeakSet[Lock] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_fork)
