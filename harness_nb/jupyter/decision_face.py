"""A decision's card as feed.py sends it to the live view: plain JSON, all of it words and numbers."""

from __future__ import annotations

from harness_nb.jupyter.decision_card import DecisionCard, bounded_rows
from harness_nb.jupyter.gauge import GROUPS, grouped, pieces, told
from harness_nb.jupyter.words import clipped

ROWS = 200
"""Most lines of the table."""
SHOWN = 8_000
"""Most characters of the summary."""

ANSWERS = {"mask": "Mask", "compact": "Summarise"}


def card_face(card: DecisionCard, at: str) -> dict[str, object]:
    """Say all of a card; `at` is how the session's agent is spoken to."""
    rows, rest = bounded_rows(card.rows, ROWS)
    return {
        "kind": "decision",
        "id": card.decision.id,
        "state": card.state,
        "headline": card.headline,
        "numbers": card.numbers,
        "keeps": card.keeps,
        "bars": [
            {"name": name, "amount": amount, "told": told(fill), "bar": [[g, w] for g, _, w in pieces(fill)]}
            for name, amount, fill in card.bars
        ],
        "legend": _legend(card),
        "rows": [
            [row.number, row.what, row.fate, f"{row.before:,}", f"{row.after:,}", row.id] for row in rows
        ],
        "rest": rest,
        "summary": clipped(card.summary, SHOWN),
        "commands": card.commands(at),
        "question": _question(card) if card.state == "asking" else "",
    }


def _legend(card: DecisionCard) -> list[list[object]]:
    """Name the pieces of the bars, each with its group's index and its tokens before and after."""
    sizes = [dict(grouped(fill)) for _, _, fill in card.bars]
    return [
        [index, f"{group.name} {' → '.join(f'{size.get(group.name, 0):,}' for size in sizes)}"]
        for index, group in enumerate(GROUPS)
        if any(group.name in size for size in sizes)
    ]


def _question(card: DecisionCard) -> dict[str, object]:
    """Ask about the decision as about a call, but with two answers."""
    return {
        "id": card.decision.id,
        "seal": card.decision.id,
        "title": [card.question, "", ""],
        "effects": [],
        "why": card.because,
        "shows": "",
        "preview": "",
        "arguments": "",
        "editable": "",
        "scopes": [],
        "answers": [ANSWERS.get(card.decision.by, "Do it"), "Keep the context as it is"],
    }
