"""What the lessons draw with: tables, pictures of message lists, predictions, source code, and checks of exercises.

Everything here returns an object that draws itself: as HTML in a notebook, as text anywhere else.
"""

from __future__ import annotations

import html
import inspect
import io
import json
import logging
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

COLOURS = {
    "system": "#8a8a8a",
    "user": "#5b8def",
    "assistant": "#3c9d6b",
    "tool": "#e0a33e",
}
PARTS = COLOURS | {"results": "#e0a33e", "tools": "#b58ad6", "summaries": "#c96f8f"}
"""What a request is made of keeps its colour from picture to picture."""
SERIES = [
    "#7a869a",
    "#b58ad6",
    "#5b8def",
    "#3c9d6b",
    "#c96f8f",
    "#e0a33e",
    "#4fb3bf",
    "#9a7b4f",
]
CELL = "text-align:left;vertical-align:top;padding:2px 14px 2px 0"
WIDEST = 150
"""Longest text, in characters, that a picture shows whole."""


@dataclass(frozen=True)
class Drawing:
    """Something to look at: `web` where HTML is shown, `plain` where it is not."""

    web: str
    plain: str

    def _repr_html_(self) -> str:
        return self.web

    def __repr__(self) -> str:
        return self.plain


@dataclass(frozen=True)
class Listing:
    """Source code, highlighted where the front end can."""

    code: str

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.code}\n```"

    def __repr__(self) -> str:
        return self.code


def source(thing: Callable[..., object] | type) -> Listing:
    """Show the source of a function or a class as it stands in the package, under the name of its file."""
    place = thing.__module__.replace(".", "/")
    return Listing(f"# {place}.py\n{textwrap.dedent(inspect.getsource(thing)).rstrip()}")


def table(
    headers: Sequence[str], rows: Iterable[Sequence[object]], bar: int | None = None
) -> Drawing:
    """Draw rows under headers; `bar` names a column of numbers that also gets a bar beside each."""
    rows = [list(row) for row in rows]
    longest = (
        max((float(str(row[bar])) for row in rows), default=1.0) if bar is not None else 1.0
    )
    head = "".join(
        f'<th scope="col" style="{CELL}">{html.escape(name)}</th>' for name in headers
    )
    body = ""
    for row in rows:
        body += "<tr>"
        for index, value in enumerate(row):
            strip = _strip(float(str(value)) / longest) if index == bar else ""
            body += f'<td style="{CELL}">{_prose(value)}{strip}</td>'
        body += "</tr>"
    return Drawing(
        f"<table><tr>{head}</tr>{body}</table>", _columns([list(headers), *rows])
    )


def stacked(
    rows: Iterable[tuple[object, Mapping[str, int]]], full: int = 0, unit: str = "tokens"
) -> Drawing:
    """Draw one bar a row, made of named parts, each in its colour; `full` is where the space ends, 0 for the longest bar."""
    rows = [(str(label), dict(parts)) for label, parts in rows]
    names = list(dict.fromkeys(name for _, parts in rows for name in parts))
    colour = dict(zip(names, SERIES * (len(names) // len(SERIES) + 1), strict=False))
    colour |= {name: PARTS[name] for name in names if name in PARTS}
    end = full or max((sum(parts.values()) for _, parts in rows), default=1) or 1
    key = "".join(
        f'<span style="margin-right:14px"><span style="display:inline-block;width:10px;height:10px;'
        f'background:{colour[name]}"></span> {html.escape(name)}</span>'
        for name in names
    )
    body = "".join(
        f'<tr><td style="{CELL};white-space:nowrap">{html.escape(label)}</td>'
        f'<td style="{CELL};width:420px">{_stack(parts, colour, end, unit)}</td>'
        f'<td style="{CELL};white-space:nowrap">{sum(parts.values()):,}</td></tr>'
        for label, parts in rows
    )
    plain = [
        ["", unit, *names],
        *(
            [label, sum(parts.values()), *(parts.get(n, 0) for n in names)]
            for label, parts in rows
        ),
    ]
    return Drawing(f"<div>{key}</div><table>{body}</table>", _columns(plain))


def _stack(parts: Mapping[str, int], colour: Mapping[str, str], end: int, unit: str) -> str:
    pieces = "".join(
        f'<div title="{html.escape(name)}: {size:,} {unit}" style="background:{colour[name]};'
        f'height:12px;width:{100 * size / end:.2f}%"></div>'
        for name, size in parts.items()
        if size
    )
    return f'<div style="display:flex;background:rgba(128,128,128,.18)">{pieces}</div>'


def _strip(share: float) -> str:
    width = max(1, round(share * 220)) if share else 0
    return f'<div style="background:#5b8def;height:5px;width:{width}px"></div>'


def _grouped(value: object) -> str:
    return (
        f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else str(value)
    )


def _prose(value: object) -> str:
    """Escape a value for HTML; words between backticks become code."""
    pieces = html.escape(_grouped(value)).replace("\n", "<br>").split("`")
    if len(pieces) % 2 == 0:
        return "`".join(pieces)
    return "".join(
        f"<code>{piece}</code>" if index % 2 else piece
        for index, piece in enumerate(pieces)
    )


def _columns(rows: list[list[object]]) -> str:
    texts = [[_grouped(value).replace("\n", " / ") for value in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(*texts, strict=True)]
    lines = (
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        for row in texts
    )
    return "\n".join(line.rstrip() for line in lines)


def picture(*lists: Iterable[object], titles: Sequence[str] = ()) -> Drawing:
    """Draw lists of messages side by side, one line a message: the dicts of a lesson or the package's own."""
    columns, texts = [], []
    for index, messages in enumerate(lists):
        rows = [row for message in messages for row in _rows(message)]
        title = titles[index] if index < len(titles) else ""
        lines = "".join(
            f'<div style="border-left:4px solid {COLOURS.get(role, "#8a8a8a")};padding:2px 8px;margin:3px 0">'
            f"<b>{role}</b> {html.escape(text)}</div>"
            for role, text in rows
        )
        heading = f"<div><b>{html.escape(title)}</b></div>" if title else ""
        columns.append(
            f'<div style="flex:1;min-width:240px;overflow-wrap:anywhere">{heading}{lines}</div>'
        )
        texts.append(
            "\n".join([title] * bool(title) + [f"{role:<10} {text}" for role, text in rows])
        )
    web = f'<div style="display:flex;flex-wrap:wrap;gap:20px">{"".join(columns)}</div>'
    return Drawing(web, "\n\n".join(texts))


def _rows(message: object) -> list[tuple[str, str]]:
    if isinstance(message, dict):
        wish = (
            f"{message['tool']}({_arguments(message['args'])})" if "tool" in message else ""
        )
        return [(message["role"], _short(message.get("text", "")) or wish)]
    return [(message.role, _part(part)) for part in message.parts]  # type: ignore[attr-defined]


def _part(part: object) -> str:
    kind = part.kind  # type: ignore[attr-defined]
    if kind == "tool_call":
        return f"{part.name}({_short(part.raw)})  id {part.id}"  # type: ignore[attr-defined]
    if kind == "tool_result":
        flag = "error " if part.is_error else ""  # type: ignore[attr-defined]
        return f"{flag}for {part.call_id}: {_short(part.text)}"  # type: ignore[attr-defined]
    words = _short(getattr(part, "text", "") or getattr(part, "block", ""))
    return words if kind == "text" else f"({kind}) {words}"


def _arguments(values: dict[str, object]) -> str:
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in values.items())


def _short(text: str) -> str:
    text = " ".join(text.split())
    return (
        text
        if len(text) <= WIDEST
        else f"{text[: WIDEST - 30]}... ({len(text):,} characters)"
    )


def predict(question: str, answer: object) -> Drawing:
    """Ask first, answer behind a fold: decide what you expect, then open it."""
    web = f"<details><summary>{_prose(question)}</summary><p>{_prose(answer)}</p></details>"
    return Drawing(web, f"{question}\n-> {_grouped(answer)}")


def check(goal: str) -> Callable[[Callable[[], object]], None]:
    """Check an exercise at once: the function under it passes, or raises and says what is missing."""

    def now(test: Callable[[], object]) -> None:
        try:
            test()
        except Exception as fault:
            why = (
                str(fault)
                if isinstance(fault, AssertionError)
                else f"{type(fault).__name__}: {fault}"
            )
            print(f"not yet: {goal}" + (f"\n  {why}" if why else ""))
        else:
            print(f"solved: {goal}")

    return now


@dataclass(frozen=True)
class Chart:
    """Lines over numbers: a picture where matplotlib is installed, and always the numbers as text."""

    across: tuple[str, Sequence[float]]
    up: str
    lines: Mapping[str, Sequence[float]]
    levels: Mapping[str, float]

    def _repr_png_(self) -> bytes | None:
        # A first import may have to look for fonts, and would say so in the cell.
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        try:
            from matplotlib.figure import Figure
        except ImportError:
            return None
        grey, (label, places) = "#808080", self.across
        figure = Figure(figsize=(7.5, 3.4), dpi=100, layout="constrained")
        axes = figure.subplots()
        for (name, values), colour, dash in zip(
            self.lines.items(), SERIES[2:], ("-", "--", ":", "-."), strict=False
        ):
            axes.plot(
                places, values, dash, color=colour, marker="o", markersize=4, label=name
            )
        for name, value in self.levels.items():
            axes.axhline(value, color=grey, linewidth=0.8)
            axes.annotate(
                name, (places[-1], value), color=grey, fontsize=9, ha="right", va="top"
            )
        axes.set_xlabel(label, color=grey)
        axes.set_ylabel(self.up, color=grey)
        axes.tick_params(colors=grey)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(grey)
        axes.legend(
            frameon=False, labelcolor=grey, loc="upper left", bbox_to_anchor=(0, 0.85)
        )
        file = io.BytesIO()
        figure.savefig(file, format="png", transparent=True, metadata={"Software": None})
        return file.getvalue()

    def __repr__(self) -> str:
        label, places = self.across
        rows = [
            [place, *values]
            for place, *values in zip(places, *self.lines.values(), strict=True)
        ]
        levels = [f"{name}: {_grouped(value)}" for name, value in self.levels.items()]
        return "\n".join([_columns([[label, *self.lines], *rows]), *levels])


def chart(
    across: tuple[str, Sequence[float]],
    up: str,
    lines: Mapping[str, Sequence[float]],
    levels: Mapping[str, float] | None = None,
) -> Chart:
    """Draw named lines over the numbers of `across`, and a level line for each of `levels`; `up` says what is measured."""
    return Chart(across, up, lines, levels or {})
