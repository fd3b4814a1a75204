"""`%context`: the inspector of a session's context, interactive where somebody looks, with a static twin that the notebook keeps.

Theory of operation. What a notebook saves must not be a widget, which is dead when it is opened again; and unlike a run
an inspector has no end at which it could become something else. So the widget stays only until it is on the page:
then its drawing moves into the place of the static twin, which takes the widget's place in the notebook and is hidden behind
it. The page asks for each turn, section and part when a person does, and is sent HTML from inspector_html.py, in which
every word that isn't ours is escaped. Front ends whose outputs we don't know keep the widget, with the twin beside it.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from harness_nb.errors import HarnessError
from harness_nb.jupyter.inspection import Inspection
from harness_nb.jupyter.inspector_html import NOTHING
from harness_nb.jupyter.inspector_pages import Json, Pages
from harness_nb.jupyter.inspector_record import as_text, bundle, pictured
from harness_nb.jupyter.presence import page_seen
from harness_nb.jupyter.shell import running_shell, takes_input
from harness_nb.jupyter.words import visible

if TYPE_CHECKING:
    from harness_nb.jupyter.session import Session

OPEN = 6
"""Inspectors that answer; of older ones the static twin is left."""

_open: deque[Inspector] = deque()


def show_context(session: Session, *, plot: bool = False) -> None:
    """Show what filled a session's context, turn by turn; with `plot` as a picture. Raises UsageError without matplotlib."""
    look = Inspection.of(session)
    kernel = getattr(running_shell(), "kernel", None)
    if not look.turns:
        print(NOTHING)  # noqa: T201 - so that a cell answers
    elif kernel is None:
        print(as_text(look))  # noqa: T201 - a terminal shows text
    elif plot:
        _display(pictured(look), uuid.uuid4().hex)
    elif find_spec("anywidget") is None or not (takes_input(kernel) or page_seen()):
        _display(bundle(look), uuid.uuid4().hex)
    else:
        _open.append(Inspector(session, look))
        while len(_open) > OPEN:
            _open.popleft().close()


class Inspector:
    """One inspector below the cell that made it."""

    def __init__(self, session: Session, look: Inspection) -> None:
        """Show the newest turn."""
        from harness_nb.jupyter.inspector_widget import Panel

        self._pages = Pages(session, look)
        self._twin = bundle(look)
        self._display = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._panel = Panel(start=self._pages.shown({}))
        self._panel.on_msg(self._hear)
        drawn = {"version_major": 2, "version_minor": 0, "model_id": self._panel.model_id}
        _display({"application/vnd.jupyter.widget-view+json": drawn, **self._twin}, self._display)

    def close(self) -> None:
        """Leave the static twin."""
        self._panel.layout.close()
        self._panel.close()

    def _hear(self, _: object, content: Json, __: object) -> None:
        """Answer a page, on whichever thread the kernel delivers what it asks: everything here only reads."""
        with self._lock:
            try:
                match content.get("ask"):
                    case "mounted":
                        _display(self._twin, self._display, again=True)
                    case "show":
                        self._panel.send(self._pages.shown(content))
                    case "part":
                        self._panel.send({"part": content.get("part"), "html": self._pages.part(content)})
                    case _:
                        pass
            except HarnessError as fault:
                self._panel.send({"fault": visible(str(fault)), "id": content.get("id")})
            except Exception as fault:  # noqa: BLE001 - a fault of ours must not be silence
                words = f"This could not be drawn ({type(fault).__name__})."
                self._panel.send({"fault": words, "id": content.get("id")})


def _display(forms: Mapping[str, object], place: str, *, again: bool = False) -> None:
    from IPython.display import display, update_display

    show = update_display if again else display
    show(forms, raw=True, display_id=place)  # type: ignore[no-untyped-call]
