"""Whether a person has a page open on this kernel, where a front end can't say so by taking `input()`.

Theory of operation. The protocol has a front end that is sent a comm of a kind it doesn't know close it at once. A
page does; a machine that executes notebooks does not answer. An older kernel hears of it when the cell is
over, so the first question in such a place may still be denied, and the next one waits.
"""

from __future__ import annotations

import asyncio
import time

from harness_nb.jupyter.shell import in_kernel, running_shell

TARGET = "harness_nb.anyone"

PATIENCE = 0.15
"""Seconds that the first question waits for an answer: little, since where a machine executes none comes."""

_asked: list[object] = []
"""The comm, once it was sent: it must outlive the cell."""
_answered: list[bool] = []


def page_seen() -> bool:
    """Tell whether a page has answered in this kernel."""
    return bool(_answered)


async def page_found() -> bool:
    """Ask, the first time, and wait a little."""
    if not _asked and in_kernel(running_shell()):
        _ask()
        until = time.monotonic() + PATIENCE
        while not _answered and time.monotonic() < until:  # noqa: ASYNC110 - it may be heard on another thread
            await asyncio.sleep(PATIENCE / 10)
    return page_seen()


def _ask() -> None:
    from comm import create_comm

    anyone = create_comm(target_name=TARGET)
    anyone.on_close(lambda _: _answered.append(True))
    _asked.append(anyone)
