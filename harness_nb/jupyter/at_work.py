"""Which run of a session is at work: one at a time, from a cell or by a click, and what is left of the last one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from harness_nb.errors import HarnessError, UsageError
from harness_nb.jupyter.bridge import attentive, blocking, running_loop
from harness_nb.jupyter.result import RunResult
from harness_nb.jupyter.shell import in_one_line
from harness_nb.jupyter.work import Work


class AtWork:
    """The place at which the runs of one session take turns. Where it is taken, what comes raises UsageError."""

    def __init__(self, name: str) -> None:
        """Begin with nothing at work in the session of this name."""
        self.work: Work | None = None
        """The run at work, None between runs."""
        self.held: Work | None = None
        """The last run, for as long as it waits for a person to decide, or to let it go on beyond a limit."""
        self.last_error: BaseException | None = None
        """What made the last failed run fail."""
        self._name = name
        self._one_at_a_time = threading.Lock()
        self.tasks: set[asyncio.Task[None]] = set()
        """Runs that a click had go on, while they do."""

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the session for what is done between runs."""
        if not self._one_at_a_time.acquire(blocking=False):
            raise UsageError(_BUSY.format(self._name))
        try:
            yield
        finally:
            self.work = None
            self._one_at_a_time.release()

    async def run(self, begin: Callable[[], Work]) -> RunResult:
        """Have the run that `begin` prepares go to its end, and return how it ended."""
        with self._working(begin) as work:
            async with attentive():
                return work.result(await work.outcome())

    def run_blocking(self, begin: Callable[[], Work]) -> RunResult:
        """Do what `run` does where one can't await."""
        with self._working(begin) as work:
            return work.result(blocking(work.outcome()))

    @contextmanager
    def _working(self, begin: Callable[[], Work]) -> Iterator[Work]:
        """Hold the session for one run, show it while it lasts, and have what goes wrong said in one line."""
        work = None
        try:
            with self.alone():
                self.work = work = begin()
                try:
                    yield work
                finally:
                    work.shown.close()
                    self.held = work if work.held else None
        except BaseException as fault:
            in_one_line(fault, told=work is not None and work.told)
            self.last_error = fault
            raise

    def by_click(self, begin: Callable[[], Work]) -> str:
        """Have a run go on when its cell is over; return in a sentence why that can't be."""
        loop = running_loop()
        if loop is None or threading.current_thread() is not threading.main_thread():
            return (
                "This kernel can't take it up by a click: decide by a command in a cell, as it stands above."
            )
        with ExitStack() as stack:
            try:
                work = stack.enter_context(self._working(begin))
            except HarnessError as fault:
                return str(fault)
            task = loop.create_task(_to_its_end(stack.pop_all(), work))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return ""

    def let_go(self) -> Work | None:
        """Return the run that is held, which is not from now on."""
        work, self.held = self.held, None
        return work


async def _to_its_end(stack: ExitStack, work: Work) -> None:
    """Run what a click has taken up; the view says what comes of it, and `last_error` what goes wrong beside."""
    with suppress(Exception), stack:
        await work.outcome()


_BUSY = (
    "Session `{}` is at work on another prompt: wait for it, stop it, or use another session "
    "(%agent --session NAME). Nothing was sent."
)
