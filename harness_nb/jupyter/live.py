"""Shows a run where its person is: live in a notebook, as text in a terminal, as its record where nobody watches.

All three fit the listener socket.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Protocol

from harness_nb.events import Event
from harness_nb.jupyter.shell import running_shell
from harness_nb.jupyter.terminal import TerminalRun, wants_colour
from harness_nb.jupyter.view import RunView


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

    def listener(self, event: Event) -> None:
        """Take the next event; call it on the event loop's thread."""
        ...

    def close(self) -> None:
        """Let the live view become the record."""
        ...


def show_run(
    prompt: str, stop: Callable[[], None], decide: Callable[[dict[str, object]], str] = lambda _: ""
) -> Shown:
    """Start to show a run.

    On the run's own thread `stop` is called when a person asks to stop it, and `decide` with what they
    decide about a call: it returns what is wrong with that, empty if nothing.
    """
    kernel = getattr(running_shell(), "kernel", None)
    if kernel is None:
        return TerminalRun(
            prompt, _print_now, colour=wants_colour(sys.stdout), read=input if sys.stdin.isatty() else None
        )
    if not _watched(kernel) or find_spec("anywidget") is None:
        return UnwatchedRun(prompt)
    from harness_nb.jupyter.widget import LiveRun

    return LiveRun(prompt, stop, decide)


class UnshownRun:
    """Keeps what there is to see of a run that is not shown."""

    def __init__(self, prompt: str) -> None:
        """Start before the first event."""
        self.view = RunView(prompt)
        self.input: Callable[[str], str] | None = None
        self._closed = False

    async def clickable(self) -> bool:
        """Nobody is here."""
        return False

    def listener(self, event: Event) -> None:
        """Keep what happens."""
        self.view.take(event)

    def close(self) -> None:
        """Show nothing."""


class UnwatchedRun(UnshownRun):
    """Leaves the record of a run and no more, so that a notebook run by a machine holds no widgets."""

    def close(self) -> None:
        """Show the record."""
        if self._closed:
            return
        self._closed = True
        from IPython.display import display

        from harness_nb.jupyter.record import bundle

        self.view.finish()
        display(bundle(self.view), raw=True)  # type: ignore[no-untyped-call]


def _watched(kernel: object) -> bool:
    """Tell whether someone may be looking: who can't be asked for input, like nbclient, is no person."""
    try:
        return bool(kernel.get_parent()["content"].get("allow_stdin", True))  # type: ignore[attr-defined]
    except (AttributeError, KeyError, LookupError, TypeError):
        return True


def _print_now(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
