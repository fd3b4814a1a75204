"""`%history`: the tree of a session's runs, with a button at each branch where somebody looks, and a static twin that is kept.

Theory of operation. As with the inspector, the widget's drawing moves into the place of its static twin once that is on
the page, so that a saved notebook holds no widget. A click is done on the kernel's own loop, between cells or while one
awaits, and never while a run is at work; then the page and the twin are told the new tree.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TypeAlias

from harness_nb.errors import HarnessError
from harness_nb.jupyter.bridge import running_loop
from harness_nb.jupyter.history_commands import used
from harness_nb.jupyter.history_told import Told
from harness_nb.jupyter.presence import page_seen
from harness_nb.jupyter.session import Session
from harness_nb.jupyter.shell import running_shell, takes_input
from harness_nb.jupyter.words import visible

Json: TypeAlias = dict[str, object]

NOTHING = "This session has no run yet, so it has no history: ask `%agent` something first."

OPEN = 6
"""Pickers that answer; of older ones the static twin is left."""

_open: deque[Picker] = deque()


def show_history(session: Session) -> None:
    """Show the runs of a session, those that earlier kernels left, too."""
    told = Told(session)
    kernel = getattr(running_shell(), "kernel", None)
    if not told.tree.rows:
        print(NOTHING.replace("`", ""))  # noqa: T201 - so that a cell answers
    elif kernel is None:
        print(told.text())  # noqa: T201 - a terminal shows text
    elif find_spec("anywidget") is None or not (takes_input(kernel) or page_seen()):
        _display(bundle(told), uuid.uuid4().hex)
    else:
        _open.append(Picker(session, told))
        while len(_open) > OPEN:
            _open.popleft().close()


def bundle(told: Told) -> dict[str, str]:
    """Return the twin in every form a notebook may ask for."""
    return {"text/html": told.html(), "text/plain": told.text()}


class Picker:
    """One tree of runs below the cell that made it."""

    def __init__(self, session: Session, told: Told) -> None:
        """Show it as it stands."""
        from harness_nb.jupyter.history_widget import Branches

        self._session = session
        self._twin = bundle(told)
        self._display = uuid.uuid4().hex
        self._loop = running_loop()
        self._panel = Branches(start=_shown(told))
        self._panel.on_msg(self._hear)
        drawn = {"version_major": 2, "version_minor": 0, "model_id": self._panel.model_id}
        _display({"application/vnd.jupyter.widget-view+json": drawn, **self._twin}, self._display)

    def close(self) -> None:
        """Leave the static twin."""
        self._panel.layout.close()
        self._panel.close()

    def _hear(self, _: object, content: Json, __: object) -> None:
        """Take what a page asks, on whichever thread the kernel delivers it."""
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._answer, content)
                return
        except RuntimeError:  # that loop is closed
            self._loop = None
        self._answer(content)

    def _answer(self, content: Json) -> None:
        said, run = "", content.get("run")
        try:
            match content.get("ask"):
                case "mounted":
                    _display(self._twin, self._display, again=True)
                    return
                case "use" if isinstance(run, int):
                    said = used(self._session, run)
                case _:
                    pass
            told = Told(self._session)
            self._panel.send(_shown(told) | {"said": visible(said), "run": run})
            if said:
                self._twin = bundle(told)
                _display(self._twin, self._display, again=True)
        except HarnessError as fault:
            self._panel.send({"fault": visible(str(fault)).replace("`", "")})
        except Exception as fault:  # noqa: BLE001 - a fault of ours must not be silence
            self._panel.send({"fault": f"This could not be done ({type(fault).__name__})."})


def _shown(told: Told) -> Json:
    return {"title": told.headline, "about": told.about, "body": told.rows(live=True)}


def _display(forms: Mapping[str, object], place: str, *, again: bool = False) -> None:
    from IPython.display import display, update_display

    show = update_display if again else display
    show(forms, raw=True, display_id=place)  # type: ignore[no-untyped-call]
