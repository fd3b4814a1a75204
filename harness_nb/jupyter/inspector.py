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
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

from harness_nb.errors import HarnessError
from harness_nb.jupyter.charts import bars, table
from harness_nb.jupyter.inspection import Inspection
from harness_nb.jupyter.inspector_html import (
    CACHES,
    FAINT_LINE,
    NOTHING,
    change,
    headline,
    out_of_sight,
    part_box,
    part_table,
    request_box,
    summary,
    what_if,
)
from harness_nb.jupyter.inspector_record import MEASURES, as_text, bundle, pictured
from harness_nb.jupyter.presence import page_seen
from harness_nb.jupyter.shell import running_shell
from harness_nb.jupyter.words import clipped, counted, visible

if TYPE_CHECKING:
    from harness_nb.context.parts import PartRow
    from harness_nb.jupyter.session import Session

Json: TypeAlias = dict[str, object]

PAGE, MOST = 50, 1_000
"""Parts that are listed at once, and at most."""
PART, REQUEST, TURNS = 20_000, 60_000, 300
"""Most characters of a part and of a request that are sent to the page, and turns of the table."""
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
    elif find_spec("anywidget") is None or not (_takes_input(kernel) or page_seen()):
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

        self._session, self._look = session, look
        self._display = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._panel = Panel(start=self._shown({}))
        self._panel.on_msg(self._hear)
        drawn = {"version_major": 2, "version_minor": 0, "model_id": self._panel.model_id}
        _display({"application/vnd.jupyter.widget-view+json": drawn, **bundle(look)}, self._display)

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
                        _display(bundle(self._look), self._display, again=True)
                    case "show":
                        self._panel.send(self._shown(content))
                    case "part":
                        self._panel.send({"part": content.get("part"), "html": self._part(content)})
                    case _:
                        pass
            except HarnessError as fault:
                self._panel.send({"fault": visible(str(fault)), "id": content.get("id")})
            except Exception as fault:  # noqa: BLE001 - a fault of ours must not be silence
                words = f"This could not be drawn ({type(fault).__name__})."
                self._panel.send({"fault": words, "id": content.get("id")})

    def _shown(self, asked: Json) -> Json:
        """Draw what a person chose: a turn, a section, an order."""
        self._look = look = self._look.fresh(self._session)
        turn = _number(asked.get("turn"), len(look.turns), 1, len(look.turns))
        tab = asked.get("tab")
        sections: dict[object, Callable[[], str]] = {
            "parts": lambda: self._parts(turn, asked),
            "request": lambda: request_box(look, turn, REQUEST),
            "change": lambda: change(look, turn),
            "what_if": lambda: self._what_if(turn, asked),
            "turns": lambda: table(look.turns, TURNS).html(),
        }
        return {
            "id": asked.get("id"),
            "turn": turn,
            "turns": len(look.turns),
            "tab": tab if tab in sections else "parts",
            "title": headline(look, turn),
            "about": f"session {visible(clipped(look.name, 60))}",
            "bars": bars(look.turns),
            "summary": summary(look, turn),
            "window": look.turns[turn - 1].fill.window,
            "body": sections.get(tab, sections["parts"])(),
        }

    def _listed(self, turn: int, asked: Json) -> list[PartRow]:
        match asked.get("order"):
            case "hidden":
                return self._look.hidden(turn)
            case "sent":
                return self._look.parts(turn)
            case _:
                return sorted(self._look.parts(turn), key=lambda row: (-row.tokens, row.number))

    def _parts(self, turn: int, asked: Json) -> str:
        rows = self._listed(turn, asked)
        most = _number(asked.get("most"), PAGE, PAGE, MOST)
        # As sent, the newest are what a person looks for: earlier ones are above, when asked for.
        newest = asked.get("order") == "sent"
        shown = rows[-most:] if newest else rows[:most]
        left = len(rows) - len(shown)
        more = (
            f'<button class="hnb-more">Show {min(left, PAGE):,} more of {counted(left, "part")}</button>'
            if left and most < MOST
            else ""
        )
        around = (more, "") if newest else ("", more)
        if asked.get("order") == "hidden" or not rows:
            note = out_of_sight(self._look, turn, rows)
            return f'<div style="{FAINT_LINE}">{note}</div>{part_table(shown) if rows else ""}{more}'
        note = f'<div style="{FAINT_LINE}">{CACHES}</div>'
        return f"{around[0]}{part_table(shown)}{around[1]}{note}"

    def _part(self, asked: Json) -> str:
        turn = _number(asked.get("turn"), len(self._look.turns), 1, len(self._look.turns))
        rows = {row.number: row for row in self._listed(turn, asked)}
        row = rows.get(_number(asked.get("part"), 0, 0, len(rows)))
        return part_box(row, PART) if row is not None else "This part is not there any more."

    def _what_if(self, turn: int, asked: Json) -> str:
        look = self._look
        size = look.turns[turn - 1].fill.window
        window = _number(asked.get("window"), size // 2 or 200_000, 1, 10**9)
        words = _number(asked.get("summary"), 800, 1, 10**6)
        drawn = [what_if(f"If {name}:", look.what_if(turn, measure, words)) for name, measure in MEASURES]
        drawn.append(what_if(f"If the window held {window:,} tokens:", look.what_if(turn, window)))
        return f'{"".join(drawn)}<div style="{FAINT_LINE};margin-top:8px">Worked out from the record; nothing is changed and no model is asked.</div>'


def _display(forms: Mapping[str, object], place: str, *, again: bool = False) -> None:
    from IPython.display import display, update_display

    show = update_display if again else display
    show(forms, raw=True, display_id=place)  # type: ignore[no-untyped-call]


def _number(value: object, usual: int, low: int, high: int) -> int:
    """Read a number from a page, within bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return usual
    return int(min(high, max(low, value)))


def _takes_input(kernel: object) -> bool:
    """Tell whether a person is at the cell: a machine that executes notebooks says that nobody answers."""
    try:
        return bool(kernel.get_parent()["content"].get("allow_stdin", True))  # type: ignore[attr-defined]
    except (AttributeError, KeyError, LookupError, TypeError):
        return True
