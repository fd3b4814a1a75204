"""What a session has cost, drawn: bars and tables of ordinary HTML, as text and Markdown, and as a picture."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from html import escape

from harness_nb.errors import UsageError
from harness_nb.jupyter.charts import INK
from harness_nb.jupyter.cost import Costs, Line
from harness_nb.jupyter.folds import FAINT
from harness_nb.jupyter.inspector_html import LINE_STYLE, section
from harness_nb.jupyter.markdown import LINE
from harness_nb.jupyter.tables import literal
from harness_nb.jupyter.words import counted, named

COLOUR = (91, 141, 239)
"""The bars': the same in both themes."""
NO_PICTURE = (
    "Pictures need matplotlib: pip install harness-nb[context] brings it. `%cost` shows the same without it."
)


def bundle(costs: Costs, *, plot: bool = False) -> dict[str, str]:
    """Return it in every form a notebook may ask for; with `plot` the bars are a picture. Raises UsageError without matplotlib."""
    chart = picture(costs) if plot else "".join(bars(costs))
    return {
        "text/html": _html(costs, chart),
        "text/plain": as_text(costs),
        "text/markdown": as_markdown(costs),
    }


def as_text(costs: Costs) -> str:
    """Write it as plain text."""
    tables = [table.text() for table in (costs.table, costs.limits) if table is not None]
    return "\n\n".join(["\n".join(costs.sentences), *tables])


def as_markdown(costs: Costs) -> str:
    """Write it as Markdown."""
    tables = [table.markdown() for table in (costs.table, costs.limits) if table is not None]
    return "\n\n".join([*(literal(said) for said in costs.sentences), *tables])


def _html(costs: Costs, chart: str) -> str:
    said = "".join(f'<div style="{LINE_STYLE}">{named(sentence)}</div>' for sentence in costs.sentences[1:])
    limits = section("Limits", costs.limits.html(), opened=True) if costs.limits is not None else ""
    chart = chart if len(costs.lines) > 1 else ""  # one bar compares nothing
    inside = f"{chart}{said}{section(f'By {costs.by}', costs.table.html(), opened=True)}{limits}"
    # The class keeps MathJax from reading prices in dollars as formulas.
    return (
        f'<div class="tex2jax_ignore mathjax_ignore" style="box-sizing:border-box;border:{LINE};border-radius:6px;max-width:860px;'
        f'margin:2px 0;font-size:14px;line-height:1.55;overflow-wrap:break-word"><div style="padding:6px 14px;border-bottom:{LINE};'
        f'font-size:13px;line-height:20px"><strong>cost</strong> · {escape(costs.sentences[0])}</div>'
        f'<div style="padding:12px 14px 8px 14px">{inside}</div></div>'
    )


def bars(costs: Costs) -> Iterator[str]:
    """Draw each line as a bar; the table has the same in numbers."""
    for line in costs.lines:
        name = escape(costs.label(line))
        yield (
            '<div style="display:flex;align-items:center;font-size:12px;line-height:20px">'
            f'<div title="{name}" style="flex:0 0 32%;padding-right:10px;overflow:hidden;white-space:nowrap;text-overflow:ellipsis">'
            f'{name}</div><div style="flex:1 1 auto">{_bar(costs.share(line))}</div>'
            f'<div style="flex:0 0 108px;text-align:right"> {escape(_amount(costs, line))}</div></div>'
        )
    yield f'<div style="{LINE_STYLE};{FAINT};font-size:12px">{_scale(costs)}</div>'


def _bar(share: float) -> str:
    colour = f"rgb({','.join(map(str, COLOUR))})"
    return f'<div style="width:{100 * share:.1f}%;height:10px;border-radius:2px;background-color:{colour}"></div>'


def _amount(costs: Costs, line: Line) -> str:
    if costs.measure == "dollars":
        return line.cost
    return counted(line.row.usage.input + line.row.usage.output, "token")


def _scale(costs: Costs) -> str:
    return f"Bars are as long as each {costs.by}'s {costs.measure}."


def picture(costs: Costs) -> str:
    """Draw the bars with matplotlib, as an image with no background. Raises UsageError without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(NO_PICTURE) from None
    lines = costs.lines[::-1]
    figure = Figure(figsize=(8.4, 0.9 + 0.3 * len(lines)), dpi=110, layout="constrained")
    canvas, axes = FigureCanvasAgg(figure), figure.add_subplot()
    sizes = [float(costs.size(line)) for line in lines]
    drawn = axes.barh(range(len(lines)), sizes, color=tuple(part / 255 for part in COLOUR))
    axes.bar_label(
        drawn, [_mathless(_amount(costs, line)) for line in lines], padding=4, color=INK, fontsize=9
    )
    axes.set_yticks(range(len(lines)), [_mathless(costs.label(line)[:40]) for line in lines])
    axes.set_xlabel(costs.measure, color=INK)
    axes.margins(x=0.18)
    axes.tick_params(colors=INK)
    for side, spine in axes.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set_color(INK)
    for patch in (figure.patch, axes.patch):
        patch.set_alpha(0)
    data = io.BytesIO()
    canvas.print_png(data)  # type: ignore[no-untyped-call]
    alt = f"Bars, one for each {costs.by}. The table has the numbers."
    encoded = base64.b64encode(data.getvalue()).decode()
    return f'<img style="max-width:100%" alt="{escape(alt)}" src="data:image/png;base64,{encoded}">'


def _mathless(text: str) -> str:
    """Keep matplotlib from reading dollars as formulas."""
    return text.replace("$", r"\$")
