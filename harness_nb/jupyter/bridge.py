"""Between a notebook's event loop and code that can't await: a blocking entry, and interrupts that arrive promptly.

Theory of operation. A cell that awaits is interrupted by cancelling its task, but the event loop sees the
signal only when it next wakes: `attentive` wakes it ten times a second. Code that can't await (a
function, a script, a tool) hands its coroutine to a loop in a thread of ours and waits for that,
whatever loop may be running where it stands; nothing of the user's loop is patched.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TypeAlias, TypeVar

from harness_nb.tasks import told_to_stop

Returned = TypeVar("Returned")
Given = TypeVar("Given")
Handler: TypeAlias = "Callable[[int, FrameType | None], object] | int | None"

BEAT = 0.1
"""Seconds between two looks at whether an interrupt has come."""

PATIENCE = 10.0
"""Seconds that an interrupted run gets to answer its open calls before we stop waiting for it."""


@asynccontextmanager
async def attentive() -> AsyncIterator[None]:
    """Keep the running loop awake, and let Ctrl+C in a terminal cancel the task as a kernel's interrupt does."""

    async def beat() -> None:
        while True:  # noqa: ASYNC110 - waking is the point
            await asyncio.sleep(BEAT)

    heart = asyncio.create_task(beat())
    try:
        with _cancelled_by_ctrl_c():
            yield
    finally:
        heart.cancel()


@contextmanager
def _cancelled_by_ctrl_c() -> Iterator[None]:
    """Cancel the task on SIGINT where nobody else does: Python would stop its loop and leave the task half done."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()

    def cancel(_signal: int, _frame: FrameType | None) -> None:
        if task is not None:
            loop.call_soon_threadsafe(task.cancel)

    ours = _in_main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with _on_sigint(cancel) if ours else nullcontext():
        yield


_errands: ContextVar[SimpleQueue[Callable[[], None]] | None] = ContextVar("errands", default=None)
"""Where a thread that waits in `blocking` looks for what only it can do."""


async def in_the_cell(function: Callable[[], Returned]) -> Returned:
    """Run a blocking function on the thread of the cell, where `input()`, plots and the notebook's own code belong.

    An interrupt ends it and the run: it is raised in the function as KeyboardInterrupt, here as CancelledError.
    """
    errands = _errands.get()
    if errands is None:  # this loop is the cell's own: everything waits, as for any code in a cell
        await asyncio.sleep(0)  # what is due on the loop, such as a message to the view, goes first
        with _interruptible():
            return function()
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Returned] = loop.create_future()
    context = copy_context()

    def errand() -> None:
        try:
            result = context.run(function)
        except KeyboardInterrupt:  # the waiting thread cancels the run
            raise
        except BaseException as fault:  # noqa: BLE001 - delivered to the awaiting side
            _settle(loop, done, done.set_exception, fault)
        else:
            _settle(loop, done, done.set_result, result)

    errands.put(errand)
    return await done


def _settle(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[Returned],
    how: Callable[[Given], None],
    value: Given,
) -> None:
    def settle() -> None:
        if not future.done():
            how(value)

    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(settle)


def blocking(work: Coroutine[object, object, Returned]) -> Returned:
    """Run a coroutine to its end from anywhere, and return what it returns or raise what it raises.

    It sees the caller's context variables. An interrupt cancels it, waits until it has cleaned up, and
    is raised here: as KeyboardInterrupt, or as CancelledError inside a cell that awaits. The same where
    this is a tool's doing and the run that called it is stopped.
    """
    over, stop, stopped = threading.Event(), threading.Event(), told_to_stop.get()

    async def to_the_end() -> Returned:
        try:
            return await work
        finally:
            over.set()

    errands: SimpleQueue[Callable[[], None]] = SimpleQueue()
    before = _errands.set(errands), told_to_stop.set(stop)
    future = asyncio.run_coroutine_threadsafe(to_the_end(), _loop())
    _errands.reset(before[0])
    told_to_stop.reset(before[1])
    future.add_done_callback(lambda _: errands.put(lambda: None))  # wakes the wait below
    try:
        with _interruptible():
            while not over.is_set():
                with suppress(Empty):
                    errands.get(timeout=BEAT)()
                if stopped is not None and stopped.is_set():
                    raise asyncio.CancelledError
    except BaseException:
        stop.set()
        future.cancel()
        over.wait(PATIENCE)
        raise
    try:
        return future.result()
    except CancelledError:
        raise asyncio.CancelledError from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Raise on SIGINT at once where a kernel would wait for its loop, which we are blocking; then tell the kernel."""
    if not (_in_main_thread() and running_loop()):
        yield
        return
    with _on_sigint(signal.default_int_handler) as before:
        try:
            yield
        except KeyboardInterrupt:
            if not callable(before) or before is signal.default_int_handler:
                raise
            before(signal.SIGINT, None)
            raise asyncio.CancelledError from None


@contextmanager
def _on_sigint(handler: Handler) -> Iterator[Handler]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield before
    finally:
        signal.signal(signal.SIGINT, before)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread; None if none does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_loops: dict[int, list[asyncio.AbstractEventLoop]] = {}
"""The loops that blocking calls run on, made when needed and kept, so that connections can be kept.

All calls use the first; a call made on loop n itself, which it blocks, runs on loop n + 1. They are kept
by process: a fork inherits the loops and not the threads that run them.
"""
_making = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    with _making:
        here, loops = running_loop(), _loops.setdefault(os.getpid(), [])
        number = loops.index(here) + 1 if here in loops else 0
        if number == len(loops):
            loops.append(asyncio.new_event_loop())
            run = loops[number].run_forever
            threading.Thread(target=run, daemon=True, name=f"harness_nb-{number}").start()
        return loops[number]
