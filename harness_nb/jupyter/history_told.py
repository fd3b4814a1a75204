"""The tree of a session's runs as HTML and as text: the same for the branch picker and for what the notebook keeps.

Every string that isn't ours is made visible and escaped. Styles are inline, and nothing is said by colour alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from harness_nb.jupyter.folds import FAINT, ROW, SUMMARY, labelled
from harness_nb.jupyter.history_tree import Row, Tree, spans
from harness_nb.jupyter.markdown import LINE
from harness_nb.jupyter.session import Session
from harness_nb.jupyter.words import clipped, counted, named, visible

TEXTS, SHORTEST, LONGEST = 16_000, 100, 2_000
"""Most characters of all prompts and answers together, and of each of them at least and at most."""
STEP, DEEPEST = 18, 6
"""By how many pixels a branch stands further in, and at how many branches that ends."""
HERE = "The next prompt follows this run."


class Told:
    """One look at a session's tree, told in every form."""

    def __init__(self, session: Session) -> None:
        """Look at it as it stands."""
        kept = session.kept
        self.tree = Tree(kept.history, at_work=session.work is not None)
        self.at = kept.at
        self._name = session.name
        self._place = kept.place or "not kept in a file"
        self._rows, self._left_out = self.tree.listed()

    @property
    def headline(self) -> str:
        """How much there is."""
        return f"{counted(len(self.tree.rows), 'run')} on {self.tree.branches:,} branch{'es' if self.tree.branches != 1 else ''}"

    @property
    def about(self) -> str:
        """Which session this is, and where its journal is."""
        return f"session {visible(clipped(self._name, 60))} · {visible(clipped(self._place, 120))}"

    @property
    def _new(self) -> str:
        """What the next prompt does where it follows no run."""
        return "" if self.tree.head is not None else "The next prompt begins a new conversation."

    @property
    def _rest(self) -> str:
        if not self._left_out:
            return ""
        return f"{counted(self._left_out, 'earlier run')} not listed here: `harness-nb sessions show` has them all."

    @property
    def _back(self) -> str:
        return f"Go on from any run: `{self.at} use NUMBER`. Set the last one aside: `{self.at} undo`."

    # -- as HTML

    def html(self) -> str:
        """Draw it as a notebook keeps it."""
        inside = f'{self.rows(live=False)}<div style="{ROW};{FAINT};margin-top:8px">{named(self._back)}</div>'
        header = (
            f'<div style="display:flex;flex-wrap:wrap;justify-content:space-between;padding:6px 14px;border-bottom:{LINE};'
            f'font-size:13px;line-height:20px"><span><strong>history</strong> · {escape(self.headline)}'
            f'<span style="opacity:0"> · </span></span><span style="{FAINT}">{escape(self.about)}</span></div>'
        )
        return (
            f'<div class="tex2jax_ignore mathjax_ignore hnb-history" style="box-sizing:border-box;border:{LINE};border-radius:6px;'
            f'max-width:860px;margin:2px 0;font-size:14px;line-height:1.55;overflow-wrap:break-word">{header}'
            f'<div style="padding:12px 14px 8px 14px">{inside}</div></div>'
        )

    def rows(self, *, live: bool) -> str:
        """Draw the rows; `live` ones have buttons."""
        limit = max(SHORTEST, min(LONGEST, TEXTS // (2 * len(self._rows) or 1)))
        drawn = "".join(self._row(row, limit, live=live) for row in self._rows)
        rest = f'<div style="{ROW};{FAINT}">{named(self._rest)}</div>' if self._rest else ""
        new = f'<div style="{ROW}"><strong>{self._new}</strong></div>' if self._new else ""
        return f"{rest}{drawn}{new}"

    def _row(self, row: Row, limit: int, *, live: bool) -> str:
        depth = min(row.depth, DEEPEST)
        edge = f"border-left:2px {'solid' if row.here else 'dotted'} rgba(128,128,128,0.6);padding-left:10px"
        title = escape(row.title)
        facts = " · ".join(part for part in (row.ended, row.place, "" if row.here else "set aside") if part)
        head = f"<strong>{title}</strong>" if row.here else title
        line = f'<span style="{FAINT}">{row.number}</span> {head} <span style="{FAINT};font-size:12px">{escape(facts)}</span>'
        texts = labelled("Prompt", visible(row.run.prompt), limit) + labelled(
            "Answer", visible(row.run.text), limit
        )
        fold = (
            f'<details style="{ROW};margin:0"><summary style="{SUMMARY}">{line}</summary>{texts}'
            f"{'' if row.ends else self._way(row, live=live)}</details>"
        )
        return (
            f'<div class="hnb-row" data-run="{row.number}" style="margin-left:{depth * STEP}px;{edge};padding-bottom:3px">'
            f"{fold}{self._way(row, live=live) if row.ends else ''}</div>"
        )

    def _way(self, row: Row, *, live: bool) -> str:
        """Say how to go on from here, and what that sets aside."""
        if row.head:
            return f'<div style="{ROW};margin:0;padding-left:14px"><strong>{HERE}</strong></div>'
        style = f"{ROW};margin:2px 0 4px 0;padding-left:14px"
        aside = self.tree.aside(row)
        sets = f"Sets {spans(aside)} aside." if aside else "Sets nothing aside."
        if live:
            button = f'<button class="hnb-use" data-run="{row.number}" aria-label="Go on from here, the end of run {row.number}">'
            return f'<div style="{style}">{button}Go on from here</button> <span style="{FAINT}">{sets}</span></div>'
        return f'<div style="{style};{FAINT};font-size:12px">{named(f"To go on from here: `{self.at} use {row.number}`.")} {sets}</div>'

    # -- as text

    def text(self) -> str:
        """Write it as plain text."""
        above = (f"history · {self.headline} · {self.about}", self._rest.replace("`", ""), *self._lines())
        below = (self._new, self._back.replace("`", ""))
        return "\n\n".join("\n".join(line for line in lines if line) for lines in (above, below))

    def _lines(self) -> Iterator[str]:
        for row in self._rows:
            inset = "   " * min(row.depth, DEEPEST)
            facts = " · ".join(part for part in (row.ended, row.place) if part)
            where = "<- the next prompt follows this" if row.head else "" if row.here else "set aside"
            yield f"  {inset}{row.number:>3}  {row.title}"
            yield f"  {inset}     {' · '.join(part for part in (facts, where) if part)}"
