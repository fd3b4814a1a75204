"""What the inspector answers when a person asks for a turn, a section or a part: HTML, drawn when it is asked for and bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from harness_nb.jupyter.charts import bars, table
from harness_nb.jupyter.inspection import Inspection
from harness_nb.jupyter.inspector_html import (
    CACHES,
    FAINT_LINE,
    change,
    headline,
    out_of_sight,
    part_box,
    part_table,
    request_box,
    summary,
    what_if,
)
from harness_nb.jupyter.inspector_record import MEASURES
from harness_nb.jupyter.words import clipped, counted, named, visible

if TYPE_CHECKING:
    from harness_nb.context.parts import PartRow
    from harness_nb.jupyter.session import Session

Json: TypeAlias = dict[str, object]

PAGE, MOST = 50, 1_000
"""Parts that are listed at once, and at most."""
PART, REQUEST, TURNS = 20_000, 60_000, 300
"""Most characters of a part and of a request that are sent to the page, and turns of the table."""


class Pages:
    """Draws what a page asks for, of a session as far as it has come; whatever is asked, it answers with something that is there."""

    def __init__(self, session: Session, look: Inspection) -> None:
        """Begin with what was looked at first."""
        self._session = session
        self.look = look

    def shown(self, asked: Json) -> Json:
        """Draw what a person chose: a turn, a section, an order."""
        self.look = look = self.look.fresh(self._session)
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
                return self.look.hidden(turn)
            case "sent":
                return self.look.parts(turn)
            case _:
                return sorted(self.look.parts(turn), key=lambda row: (-row.tokens, row.number))

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
            note = out_of_sight(self.look, turn, rows)
            return f'<div style="{FAINT_LINE}">{note}</div>{part_table(shown) if rows else ""}{more}'
        note = f'<div style="{FAINT_LINE}">{named(CACHES)}</div>'
        return f"{around[0]}{part_table(shown)}{around[1]}{note}"

    def part(self, asked: Json) -> str:
        """Draw all of a part that a person opened."""
        turn = _number(asked.get("turn"), len(self.look.turns), 1, len(self.look.turns))
        rows = {row.number: row for row in self._listed(turn, asked)}
        row = rows.get(_number(asked.get("part"), 0, 0, len(rows)))
        return part_box(row, PART) if row is not None else "This part is not there any more."

    def _what_if(self, turn: int, asked: Json) -> str:
        look = self.look
        size = look.turns[turn - 1].fill.window
        window = _number(asked.get("window"), size // 2 or 200_000, 1, 10**9)
        words = _number(asked.get("summary"), 800, 1, 10**6)
        drawn = [what_if(f"If {name}:", look.what_if(turn, measure, words)) for name, measure in MEASURES]
        drawn.append(what_if(f"If the window held {window:,} tokens:", look.what_if(turn, window)))
        return f'{"".join(drawn)}<div style="{FAINT_LINE};margin-top:8px">Worked out from the record; nothing is changed and no model is asked.</div>'


def _number(value: object, usual: int, low: int, high: int) -> int:
    """Read a number from a page, within bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return usual
    return int(min(high, max(low, value)))
