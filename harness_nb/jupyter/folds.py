"""The pieces that the static record is made of: folds, boxes and labels with inline styles that survive any reader."""

from __future__ import annotations

from html import escape

from harness_nb.jupyter.markdown import LINE, MONO
from harness_nb.jupyter.words import clipped, named

FAINT = "opacity:0.72"
ROW = "margin:0 0 4px 0;font-size:13px;line-height:20px"
SUMMARY = "cursor:pointer;padding-left:14px;text-indent:-14px"
BOX = f"margin:4px 0 8px 14px;padding:8px 10px;border:{LINE};border-radius:4px;overflow:auto;max-height:240px;white-space:pre-wrap;word-break:normal;{MONO}"


def fold(summary: str, inside: str) -> str:
    """Fold HTML below a line of HTML."""
    return f'<details style="{ROW}"><summary style="{SUMMARY}">{summary}</summary>{inside}</details>'


def label(text: str) -> str:
    """Put a sentence of the harness above a box."""
    return f'<div style="{FAINT};margin-left:14px;font-size:12px">{named(text)}</div>'


def box(text: str) -> str:
    """Put any text into a box, to be read as it stands."""
    return f'<pre style="{BOX}">{escape(text)}</pre>'


def labelled(words: str, text: str, limit: int) -> str:
    """Put a text into a box below its label, shortened to `limit` characters; nothing for no text."""
    return f"{label(words)}{box(clipped(text, limit))}" if text else ""
