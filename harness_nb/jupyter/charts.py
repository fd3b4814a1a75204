"""What filled the window turn by turn: as bars of ordinary HTML, as a table that says the same, and as a picture."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from html import escape
from math import ceil
from typing import TYPE_CHECKING

from harness_nb.context.account import TurnRecord
from harness_nb.context.turns import rows
from harness_nb.errors import UsageError
from harness_nb.events import Fill
from harness_nb.jupyter.gauge import GROUPS, full, pieces
from harness_nb.jupyter.tables import Table
from harness_nb.jupyter.words import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 36
"""Most bars side by side; of more turns each bar is the fullest of a few."""

HEIGHT = 88
"""Pixels."""

INK = (0.5, 0.5, 0.5)
"""A grey that can be read on white and on black: nobody can tell a picture which theme it will be seen in."""


def scale(turns: Sequence[TurnRecord]) -> tuple[int, str]:
    """Choose how many tokens the full height stands for, and say it."""
    most = max(turn.fill.total for turn in turns)
    usable = max((turn.fill.window - turn.fill.headroom for turn in turns if turn.fill.window > 0), default=0)
    if usable and most * 4 >= usable:
        top = max(usable, most)
        return top, f"Full height: {top:,} tokens, " + (
            "all that a request can have" if top == usable else "the largest request"
        )
    return max(1, most), f"Full height: {counted(most, 'token')}, the largest request" + (
        f", {most / usable:.0%} of what a request can have" if usable else ""
    )


def binned(turns: Sequence[TurnRecord], most: int = COLUMNS) -> list[tuple[int, int, int]]:
    """Put turns together so that there are at most so many bars: the first and last of each, and its fullest."""
    step = max(1, ceil(len(turns) / most))
    found = []
    for first in range(0, len(turns), step):
        last = min(first + step, len(turns))
        fullest = max(range(first, last), key=lambda i: turns[i].fill.total)
        found.append((first + 1, last, fullest + 1))
    return found


def bars(turns: Sequence[TurnRecord]) -> str:
    """Draw the turns as stacked bars; the table has the same in numbers."""
    top, said = scale(turns)
    bins = binned(turns)
    drawn = "".join(_bar(turns[one[2] - 1].fill, one, top) for one in bins)
    said += f". Each bar is the fullest of {bins[0][1]} turns." if bins[0][1] > 1 else ". Each bar is a turn."
    return (
        f'<div style="display:flex;align-items:flex-end;height:{HEIGHT}px;'
        f'border-top:1px dashed rgba(128,128,128,0.5);border-bottom:1px solid rgba(128,128,128,0.5)">{drawn}</div>'
        f'<div style="display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 14px;font-size:12px;line-height:20px">'
        f'<span style="opacity:0.72">{said} </span><span>{"".join(legend())}</span></div>'
    )


def _bar(fill: Fill, which: tuple[int, int, int], top: int) -> str:
    first, last, shown = which
    parts = "".join(
        f'<div style="flex:{size} 0 0px;background-color:{GROUPS[group].colour}"></div>'
        for group, size, _ in reversed(pieces(fill))
        if size * HEIGHT * 2 >= top  # what is under half a pixel isn't seen
    )
    name = f"Turn {first}" if first == last else f"Turns {first} to {last}, the fullest is {shown}"
    return (
        f'<div data-first="{first}" data-last="{last}" data-turn="{shown}" title="{name}: {_amount(fill)}" '
        f'style="flex:1 1 0px;max-width:28px;margin-right:1px;box-sizing:border-box;display:flex;flex-direction:column;'
        f'height:{100 * fill.total / top:.1f}%">{parts}</div>'
    )


def _amount(fill: Fill) -> str:
    share = f" ({full(fill)})" if fill.window > 0 else ""
    return f"{counted(fill.total, 'token')}{share}"


def meter(fill: Fill) -> str:
    """Draw one turn as a bar that lies."""
    parts = "".join(
        f'<div style="width:{width}%;height:12px;background-color:{GROUPS[group].colour}"></div>'
        for group, _, width in pieces(fill)
    )
    return (
        '<div style="display:flex;flex:1 1 160px;height:12px;border-radius:3px;overflow:hidden;'
        f'background-color:rgba(128,128,128,0.22)">{parts}</div>'
    )


def legend(fill: Fill | None = None) -> Iterator[str]:
    """Name the colours, with a turn's tokens if it is given."""
    for group in GROUPS:
        tokens = sum(fill.tokens.get(component, 0) for component in group.components) if fill else 0
        if fill is not None and not tokens:
            continue
        dot = f"display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:5px;background-color:{group.colour}"
        yield f'<span style="white-space:nowrap;margin-right:12px"><span style="{dot}"></span>{group.name}{f" {tokens:,}" if fill else ""}</span> '


HEAD = (
    *("turn", *(group.name for group in GROUPS), "total", "full", "counted by provider"),
    *("estimate off by", "read from cache"),
)


def table(turns: Sequence[TurnRecord], most: int) -> Table:
    """Put the turns into a table, the newest `most` of them."""
    cut = max(0, len(turns) - most)
    cells = [
        (
            f"{row['turn']}",
            *(f"{sum(turn.fill.tokens.get(c, 0) for c in group.components):,}" for group in GROUPS),
            f"{turn.fill.total:,}",
            f"{turn.fill.share:.0%}" if turn.fill.window > 0 else "",
            "" if row["counted"] is None else f"{row['counted']:,}",
            "" if turn.error is None else f"{turn.error:+.1%}",
            "" if row["cache_read"] is None else f"{row['cache_read']:,}",
        )
        for row, turn in list(zip(rows(turns), turns, strict=True))[cut:]
    ]
    caption = "Tokens of each turn, as measured before the model was asked."
    if cut:
        caption += f" The {counted(cut, 'earlier turn')} {'is' if cut == 1 else 'are'} not listed here."
    known = [
        i for i in range(len(HEAD)) if any(row[i] for row in cells)
    ]  # no provider counted: no column for it
    return Table(caption, tuple(HEAD[i] for i in known), [tuple(row[i] for i in known) for row in cells])


PICTURED = 400
"""Most bars of a picture; of more turns each bar is the fullest of a few, as in `bars`."""


def picture(turns: Sequence[TurnRecord]) -> str:
    """Draw the turns with matplotlib, as an image with no background. Raises UsageError without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(
            "Pictures need matplotlib: pip install harness-nb[context] brings it. `%context` shows the same without it."
        ) from None
    figure = Figure(figsize=(8.4, 3.2), dpi=110, layout="constrained")
    canvas, axes = FigureCanvasAgg(figure), figure.add_subplot()
    shown = [turns[fullest - 1] for _, _, fullest in binned(turns, PICTURED)]
    places = [fullest for _, _, fullest in binned(turns, PICTURED)]
    base, width = [0] * len(shown), 0.9 * max(1, ceil(len(turns) / PICTURED))
    for group in GROUPS:
        sizes = [sum(turn.fill.tokens.get(c, 0) for c in group.components) for turn in shown]
        if any(sizes):
            colour = tuple(int(part) / 255 for part in group.colour[4:-1].split(","))
            axes.bar(places, sizes, bottom=base, width=width, color=colour, label=group.name)
            base = [low + size for low, size in zip(base, sizes, strict=True)]
    usable = turns[-1].fill.window - turns[-1].fill.headroom
    if usable > 0 and max(base) * 4 >= usable:
        axes.axhline(usable, color=INK, linestyle="--", linewidth=1, label="all that a request can have")
    axes.set_xlim(0.4, len(turns) + 0.6)
    _plain(axes)
    figure.legend(loc="outside upper left", ncols=5, frameon=False, labelcolor=INK, fontsize=9)
    for patch in (figure.patch, axes.patch):
        patch.set_alpha(0)
    data = io.BytesIO()
    canvas.print_png(data)  # type: ignore[no-untyped-call]
    top = max(turns, key=lambda turn: turn.fill.total)
    alt = f"Stacked bars, one for each of {counted(len(turns), 'turn')}; the largest request has {_amount(top.fill)}. The table has the numbers."
    encoded = base64.b64encode(data.getvalue()).decode()
    return f'<img style="max-width:100%" alt="{escape(alt)}" src="data:image/png;base64,{encoded}">'


def _plain(axes: Axes) -> None:
    """Write in a grey that reads on any background, and leave out what says nothing."""
    axes.set_xlabel("turn", color=INK)
    axes.set_ylabel("tokens", color=INK)
    axes.tick_params(colors=INK)
    axes.locator_params(axis="x", integer=True)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
