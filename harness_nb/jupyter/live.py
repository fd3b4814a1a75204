"""Shows a run where its person is: a live view in a notebook, plain text anywhere else. Fits the listener socket."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Protocol

from harness_nb.events import Event
from harness_nb.jupyter.terminal import TerminalRun, wants_colour
from harness_nb.jupyter.view import RunView


class Shown(Protocol):
    """A run being shown. Call `close` when it is over, however it ended; a second time does nothing."""

    @property
    def view(self) -> RunView:
        """What is shown, as data."""
        ...

    def listener(self, event: Event) -> None:
        """Take the next event; call it on the event loop's thread."""
        ...

    def close(self) -> None:
        """Let the live view become the record."""
        ...


def show_run(prompt: str, stop: Callable[[], None]) -> Shown:
    """Start to show a run; `stop` is called on the run's own thread when a person asks to stop it."""
    if _in_kernel() and find_spec("anywidget"):
        from harness_nb.jupyter.widget import LiveRun

        return LiveRun(prompt, stop)
    return TerminalRun(prompt, _print_now, colour=wants_colour(sys.stdout))


def _in_kernel() -> bool:
    """Tell whether this runs in a Jupyter kernel, rather than in a terminal or a script."""
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return hasattr(get_ipython(), "kernel")


def _print_now(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
