"""A model's own words in the record: drawn as Markdown as long as that is quick and light, else as they were written."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from harness_nb.jupyter.markdown import MONO, as_html as markdown
from harness_nb.jupyter.words import clipped, weight

KEPT = 200_000
"""Most characters of a run's words in its record; the transcript keeps all of them."""

DRAWN = 40_000
"""Most characters of a run's words that are read as Markdown: hostile ones cost 30 microseconds each."""

LIGHT = 40_000
"""Characters of HTML that a run's words may always take, however few they are."""

SHORT = 500
"""Words so few are drawn and kept, whatever the others take."""

AS_WRITTEN = f"margin:0 0 10px 0;white-space:pre-wrap;word-break:normal;{MONO}"


def drawn(texts: Sequence[str]) -> list[str]:
    """Return each stretch of words, already made visible, as HTML; the last ones, with the answer, come first in line."""
    made: list[str] = []
    kept, read, light = KEPT, DRAWN, LIGHT
    for text in reversed(texts):
        shown = clipped(text, max(kept, SHORT)).strip()
        html = _as_drawn(shown, max(read, SHORT), light) if shown else ""
        made.append(html)
        kept, read, light = (left - len(took) for left, took in ((kept, shown), (read, shown), (light, html)))
    return made[::-1]


def _as_drawn(text: str, read: int, light: int) -> str:
    """Draw what may be read as Markdown and put the rest below it; all of it as written where that would be heavy."""
    end = len(text) if len(text) <= read else text.rfind("\n", 0, read) + 1 or read
    head, rest = text[:end], text[end:]
    html = markdown(head)
    if len(html) > max(light, 1.6 * len(head) + SHORT):
        return _as_written(text, f"drawn, it would weigh {weight(len(html))}")
    return html + _as_written(rest, "so much is not drawn") if rest else html


def _as_written(text: str, why: str) -> str:
    html = escape(text, quote=False)
    if len(html) > 1.6 * len(text) + SHORT:
        html = escape(clipped(text, len(text) // 4), quote=False)
    return f'<p><em>From here on as it was written: {why}.</em></p><pre style="{AS_WRITTEN}">{html}</pre>'
