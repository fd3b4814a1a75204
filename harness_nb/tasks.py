"""Work on an event loop: side by side, off the loop, and stopped when it should be. Book chapter 5."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

GRACE = 0.25
"""Seconds that an async tool has to clean up when the run is stopped."""

Value = TypeVar("Value")

told_to_stop: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar(
    "told_to_stop", default=None
)
"""Set once nobody waits any more for what this thread does: a long function may look at it, and end."""


async def side_by_side(work: Sequence[Awaitable[None]]) -> None:
    """Await all, to the end, even if one fails; then raise the first failure. Cancelled, all are.

    One that doesn't end when cancelled is left behind after GRACE seconds, so that a stop is a stop.
    """
    tasks = [asyncio.ensure_future(item) for item in work]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=GRACE)
        raise
    finally:
        for task in tasks:  # a second failure must not be reported as never looked at
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
    for task in tasks:
        task.result()


async def settled(value: Value | Awaitable[Value]) -> Value:
    """Return a value that may have to be awaited first: sockets take plain and async functions."""
    return await value if inspect.isawaitable(value) else value


def being_cancelled() -> bool:
    """Tell whether a CancelledError is meant for the task we are in, or was raised by what it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def off_loop(function: Callable[[], Value]) -> Value:
    """Run a blocking function in a thread of its own, with the caller's context variables.

    A thread can't be stopped: when the await is cancelled the function runs on, unless it looks at
    `told_to_stop`, and its result is dropped. The thread is a daemon, so one that hangs blocks neither later
    calls nor the exit.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Value] = loop.create_future()
    context, stop = contextvars.copy_context(), threading.Event()
    context.run(told_to_stop.set, stop)

    def settle(result: Value | None, fault: BaseException | None) -> None:
        if future.done():
            return
        if fault is None:
            future.set_result(cast("Value", result))
        else:
            future.set_exception(fault)

    def work() -> None:
        result: Value | None = None
        fault: BaseException | None = None
        try:
            result = context.run(function)
        except StopIteration as stop:  # a future can't hold one
            fault = RuntimeError(f"StopIteration: {stop}")
        except BaseException as raised:  # noqa: BLE001 - delivered to the awaiting side
            fault = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, fault)

    threading.Thread(target=work, daemon=True, name=f"tool-{getattr(function, '__name__', 'call')}").start()
    try:
        return await future
    except asyncio.CancelledError:
        stop.set()
        raise
