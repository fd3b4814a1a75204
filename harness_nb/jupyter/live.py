"""Shows a run where its person is: live in a notebook, as text in a terminal, as its record where nobody watches.

All three fit the listener socket.
"""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Callable
from importlib.util import find_spec
from typing import Protocol, TypeAlias

from harness_nb.events import Event
from harness_nb.jupyter.presence import page_found, page_seen
from harness_nb.jupyter.shell import answerable, running_shell, takes_input
from harness_nb.jupyter.terminal import TerminalRun, wants_colour
from harness_nb.jupyter.view import RunView

Decide: TypeAlias = Callable[[dict[str, object]], str]


class Shown(Protocol):
    """A run being shown. Call `close` when it is over, however it ended; a second time does nothing."""

    @property
    def view(self) -> RunView:
        """What is shown, as data."""
        ...

    @property
    def input(self) -> Callable[[str], str] | None:
        """How a line is read from the person, None if nobody can be asked for one."""
        ...

    async def clickable(self) -> bool:
        """Tell whether a click of the person would be heard while the run goes on."""
        ...

    async def attended(self) -> bool:
        """Tell whether somebody sees it, and so may decide once the cell is over."""
        ...

    def go_on(self, stop: Callable[[], None], decide: Decide) -> None:
        """Show that a run that was held goes on here, and have `stop` and `decide` hear what a person asks for."""
        ...

    def listener(self, event: Event) -> None:
        """Take the next event; call it on the event loop's thread."""
        ...

    def close(self) -> None:
        """Let the live view become the record; what a person can still click stays until it is called after."""
        ...


def show_run(prompt: str, stop: Callable[[], None], decide: Decide = lambda _: "") -> Shown:
    """Start to show a run.

    On the run's own thread `stop` is called when a person asks to stop it, and `decide` with what they
    decide about a call: it returns what is wrong with that, empty if nothing.
    """
    kernel = getattr(running_shell(), "kernel", None)
    if kernel is None:
        return TerminalRun(
            prompt, _print_now, colour=wants_colour(sys.stdout), read=input if sys.stdin.isatty() else None
        )
    asked = takes_input(kernel)
    if find_spec("anywidget") is None or not (asked or page_seen()):
        return UnwatchedRun(prompt, takes_input=asked)
    from harness_nb.jupyter.widget import LiveRun

    return LiveRun(prompt, stop, decide, takes_input=asked)


class UnshownRun:
    """Keeps what there is to see of a run that is not shown."""

    def __init__(self, prompt: str, *, takes_input: bool = False) -> None:
        """Start before the first event; `takes_input` is whether the front end can ask a person for a line."""
        self.view = RunView(prompt)
        self._takes_input = takes_input
        self._in_main_thread = threading.current_thread() is threading.main_thread()
        self._closed = False
        self._waited = False
        self._display = uuid.uuid4().hex

    @property
    def input(self) -> Callable[[str], str] | None:
        """How a line is read: while its cell is at work, and on the main thread, since an alarm ends it there alone."""
        main = self._in_main_thread and self._takes_input
        return answerable() if main else None

    async def clickable(self) -> bool:
        """There is nothing to click."""
        return False

    async def attended(self) -> bool:
        """Nobody is here."""
        return False

    def go_on(self, stop: Callable[[], None], decide: Decide) -> None:
        """There is nothing to click."""

    def listener(self, event: Event) -> None:
        """Keep what happens."""
        self.view.take(event)

    def close(self) -> None:
        """Show nothing."""


class UnwatchedRun(UnshownRun):
    """Leaves the record of a run and no more, so that a notebook run by a machine holds no widgets."""

    async def attended(self) -> bool:
        """Somebody has a page open after all, if it answers."""
        return await page_found()

    def close(self) -> None:
        """Show the record; a second time only if it was held, by questions or a limit, and is not any more."""
        if self._closed and (not self._waited or self.view.held):
            return
        from IPython.display import display, update_display

        from harness_nb.jupyter.record import bundle

        self.view.finish()
        show = update_display if self._closed else display
        show(bundle(self.view), raw=True, display_id=self._display)  # type: ignore[no-untyped-call]
        self._closed, self._waited = True, self.view.held


def _print_now(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
