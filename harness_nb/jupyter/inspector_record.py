"""The inspector's static twin, which is what a notebook keeps: all turns, the newest one's parts, its change, and what if; bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from harness_nb.context.parts import PartRow
from harness_nb.jupyter.charts import bars, picture, table
from harness_nb.jupyter.inspection import Inspection
from harness_nb.jupyter.inspector_html import (
    CACHED,
    CACHES,
    FAINT_LINE,
    KINDS,
    change,
    changes,
    framed,
    headline,
    out_of_sight,
    part_table,
    request_box,
    section,
    summary,
    what_if,
)
from harness_nb.jupyter.tables import Table, literal
from harness_nb.jupyter.words import clipped, counted, named, visible

PARTS = 12
"""Parts of the newest turn that are kept, the largest ones."""
PART, REQUEST = 320, 4_000
"""Most characters of one part and of the request that are kept."""
TURNS = 24
"""Turns whose numbers are kept, the newest."""
MEASURES: tuple[tuple[str, Literal["mask", "compact"]], ...] = (
    ("all old results were masked", "mask"),
    ("the conversation were compacted", "compact"),
)
SHORT = 16_000
"""Most characters of the plain form; the Markdown form is left out if it is longer."""


def bundle(look: Inspection) -> dict[str, str]:
    """Return the twin in every form a notebook may ask for."""
    sections = _sections(look)
    forms = {"text/html": as_html(look), "text/plain": clipped(_text(sections), SHORT)}
    if len(words := _markdown(sections)) <= SHORT:
        forms["text/markdown"] = words
    return forms


def pictured(look: Inspection) -> dict[str, str]:
    """Return the picture of all turns with its table, in every form. Raises UsageError without matplotlib."""
    numbers = table(look.turns, 200)
    image = picture(look.turns)
    inside = f"{image}{section('The same as a table', numbers.html())}"
    html = framed(counted(len(look.turns), "turn"), f"session {visible(clipped(look.name, 60))}", inside)
    return {"text/html": html, "text/plain": table(look.turns, TURNS).text()}


def largest(rows: Sequence[PartRow], most: int) -> tuple[list[PartRow], str]:
    """Choose the largest parts, in order of size, and say what is left out."""
    ordered = sorted(rows, key=lambda row: (-row.tokens, row.number))
    rest = ordered[most:]
    if not rest:
        return ordered, ""
    size = sum(row.tokens for row in rest)
    return ordered[:most], (
        f"{counted(len(rest), 'smaller part')} with {counted(size, 'token')} together {'is' if len(rest) == 1 else 'are'} "
        "not kept here; run `%context` to see them all."
    )


def as_html(look: Inspection) -> str:
    """Draw the newest turn, with all turns above it, as HTML that needs no style sheet and runs nothing."""
    turn = len(look.turns)
    rows, left_out = largest(look.parts(turn), PARTS)
    more = f'<div style="{FAINT_LINE}">{left_out.replace("`", "")}</div>' if left_out else ""
    hidden = out_of_sight(look, turn, look.hidden(turn))
    notes = f'{more}<div style="{FAINT_LINE}">{hidden}</div><div style="{FAINT_LINE}">{named(CACHES)}</div>'
    estimates = "".join(what_if(name, look.what_if(turn, measure)) for name, measure in MEASURES)
    inside = "".join(
        (
            bars(look.turns),
            f'<div style="height:10px"></div>{summary(look, turn)}',
            section("Parts, the largest first", part_table(rows, PART) + notes, opened=True),
            section("Change since the turn before", change(look, turn), opened=True),
            section("The request", request_box(look, turn, REQUEST)),
            section("What if", estimates),
            section("All turns as a table", table(look.turns, TURNS).html()),
        )
    )
    return framed(headline(look, turn), f"session {visible(clipped(look.name, 60))}", inside)


def as_text(look: Inspection) -> str:
    """Write the same as plain text."""
    return _text(_sections(look))


def _text(written: list[str | Table]) -> str:
    head, *sections = written
    return "\n\n".join([f"context · {head}", *(s if isinstance(s, str) else s.text() for s in sections)])


def _markdown(written: list[str | Table]) -> str:
    head, *sections = written
    words = (literal(s) if isinstance(s, str) else s.markdown() for s in sections)
    return "\n\n".join([f"**context** · {literal(str(head))}", *words])


def _sections(look: Inspection) -> list[str | Table]:
    turn = len(look.turns)
    rows, left_out = largest(look.parts(turn), PARTS)
    cells = [
        (
            *(str(row.message or ""), KINDS[row.kind], visible(row.what)),
            *(f"{row.tokens:,}", f"{row.share:.1%}", f"{row.age:,}", CACHED[row.cache], row.fate),
        )
        for row in rows
    ]
    head = ("no.", "kind", "what", "tokens", "share", "age", "cache", "fate")
    caption = f"Parts of turn {turn:,}'s request, the largest first."
    if left_out:
        caption += f" {left_out}"
    return [
        f"{headline(look, turn)} · session {visible(clipped(look.name, 60))}",
        Table(caption, head, cells, words=3),
        "\n".join(changes(look, turn)),
        "\n".join(_what_if(look, turn)),
        table(look.turns, TURNS),
    ]


def _what_if(look: Inspection, turn: int) -> Iterator[str]:
    for name, measure in MEASURES:
        found = look.what_if(turn, measure)
        numbers = f"{found.before.total:,} → {counted(found.after.total, 'token')}"
        yield f"What if {name}? {found.said} {numbers}."
