"""A table as HTML that needs no style sheet, as plain text and as Markdown: one set of cells, three forms that say the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from harness_nb.jupyter.words import one_line

CELL = "padding:2px 12px 2px 0;text-align:left;vertical-align:top;border:0"
NUMBER = "padding:2px 0 2px 12px;text-align:right;vertical-align:top;white-space:nowrap;border:0"

WIDE = 48
"""Most characters of a cell in plain text."""


@dataclass(frozen=True, slots=True)
class Table:
    """Cells in rows below a head; the first `words` columns are words, the others numbers. Cells are made visible already."""

    caption: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    words: int = 1

    def html(self) -> str:
        """Draw it; what is wide or long scrolls."""
        head = "".join(
            f'<th scope="col" style="{self._style(i)}">{escape(w)}</th>' for i, w in enumerate(self.head)
        )
        body = "".join(f"<tr>{self._row(row)}</tr>" for row in self.rows)
        return (
            f'<div style="overflow:auto;max-height:320px"><table style="border-collapse:collapse;margin:0;font-size:12px">'
            f'<caption style="text-align:left;padding:0 0 4px 0;opacity:0.72">{escape(self.caption)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def _row(self, row: tuple[str, ...]) -> str:
        # The style of each cell would be most of a long table, so its columns of numbers have attributes instead.
        # JupyterLab's own style would put words to the right, whatever an attribute says.
        aligned = (
            'style="text-align:left"' if column < self.words else 'align="right"'
            for column in range(len(row))
        )
        return "".join(f"<td {how}>{escape(cell)}</td>" for how, cell in zip(aligned, row, strict=True))

    def _style(self, column: int) -> str:
        return CELL if column < self.words else NUMBER

    def text(self) -> str:
        """Write it as plain text in columns."""
        rows = [self.head, *(tuple(one_line(cell, WIDE) for cell in row) for row in self.rows)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.head))]
        lines = [
            "  ".join(
                cell.ljust(width) if i < self.words else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        return "\n".join([self.caption, *(f"  {line}".rstrip() for line in lines)])

    def markdown(self) -> str:
        """Write it as a Markdown table in which no cell is anything but text."""
        rule = ["---" if i < self.words else "--:" for i in range(len(self.head))]
        rows = [
            self.head,
            tuple(rule),
            *(tuple(literal(one_line(cell, 2 * WIDE)) for cell in row) for row in self.rows),
        ]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([f"**{literal(self.caption)}**", "", *lines])


def literal(text: str) -> str:
    """Put text into Markdown so that it reads as it stands."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]()#+-.!|<>&~$" else c for c in text)
