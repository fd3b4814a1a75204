"""The sections of the inspector as HTML: the same for the live view and the static twin, and safe whatever a model or a tool wrote.

Every string that isn't ours goes through `shown`, which makes visible what acts or hides and escapes the rest.
Styles are inline, and nothing is said by colour alone, so that it reads in a notebook that is not trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from harness_nb.context.parts import PartRow
from harness_nb.context.whatif import WhatIf
from harness_nb.jupyter.charts import legend, meter
from harness_nb.jupyter.folds import BOX, FAINT, SUMMARY, fold
from harness_nb.jupyter.gauge import full, told
from harness_nb.jupyter.inspection import Inspection
from harness_nb.jupyter.tables import CELL, NUMBER
from harness_nb.jupyter.words import clipped, counted, named, one_line, visible, weight
from harness_nb.messages import Decision

NOTHING = "This session has had no turn yet, so there is nothing to look at: ask `%agent` something first."

KINDS = {
    "system": "system",
    "tool": "tool",
    "user": "you",
    "assistant": "model",
    "thinking": "thinking",
    "call": "call",
    "result": "result",
    "retrieved": "retrieved",
    "image": "picture",
    "summary": "summary",
    "other": "other",
}

CACHED = {"cached": "cached", "again": "read again", "new": "new"}
CACHES = (
    "No. is the message's number, as in `%context pin 3`; age is in turns. "
    "Cached: the request begins with it as the one before did, so a provider's prompt cache can serve it. Read again: sent "
    "before, but it stands behind a change. New: not in the request before."
)
LINE_STYLE = "margin:0 0 6px 0;font-size:13px;line-height:20px"
FAINT_LINE = f"{LINE_STYLE};{FAINT}"
MARKED = "background-color:rgba(224,163,62,0.35);text-decoration:underline"


def shown(text: str, most: int) -> str:
    """Make any text harmless, for an element's content or an attribute, in at most about twice `most` characters."""
    told_of = clipped(visible(clipped(text, most)), most)
    html = escape(told_of)
    return html if len(html) <= 2 * most + 100 else escape(clipped(told_of, most // 4))


def headline(look: Inspection, turn: int) -> str:
    """Say which turn this is and how full its window was."""
    fill = look.turns[turn - 1].fill
    return f"turn {turn:,} of {len(look.turns):,} · {full(fill)}"


def summary(look: Inspection, turn: int) -> str:
    """Say what this turn's request had, and how far the estimate was from what the provider counted."""
    record = look.turns[turn - 1]
    fill, usage, error = record.fill, record.usage, record.error
    bar = (
        f'<div title="{escape(told(fill))}" style="display:flex;flex-wrap:wrap;gap:4px 10px;align-items:center;font-size:13px">'
        f"{meter(fill)}<span>{escape(_of_usable(look, turn))}</span></div>"
        f'<div style="font-size:12px;line-height:20px;margin:2px 0 6px 0">{"".join(legend(fill))}</div>'
    )
    said = f"Measured as {counted(fill.total, 'token')} before it was sent, by {fill.how}."
    if error is not None:
        high = (
            "exactly right"
            if not round(error, 3)
            else f"{abs(error):.1%} too {'high' if error > 0 else 'low'}"
        )
        said += f" The provider counted {(usage.context or usage.input):,}, so the estimate was {high}."
        said += f" It read {usage.cache_read:,} of them from its cache." if usage.cache_read else ""
    else:
        said += " What the provider counted is not known."
    if model := record.model:
        said += f" The model was {visible(clipped(model, 100))}."
    return f'{bar}<div style="{LINE_STYLE}">{escape(said)}</div>'


def _of_usable(look: Inspection, turn: int) -> str:
    fill = look.turns[turn - 1].fill
    if fill.window <= 0:
        return full(fill)
    return f"{fill.total:,} of {fill.window - fill.headroom:,} tokens, {full(fill)}"


AFTER = "padding:2px 8px 2px 12px;text-align:left;vertical-align:top;border:0"
BAR = "display:inline-block;height:8px;margin-right:6px;border-radius:2px;background-color:rgb(124,138,165)"
# A notebook may lay tables out by their heads alone, so those have the widths.
HEAD = (
    ("no.", f"{CELL};width:6%"),
    ("part", f"{CELL};width:44%"),
    ("tokens", NUMBER),
    ("share", NUMBER),
    ("age", NUMBER),
    ("cache", AFTER),
    ("fate", CELL),
)


def part_table(rows: Sequence[PartRow], openable: int = 0) -> str:
    """List parts in a table. With `openable`, each unfolds to so many characters of it; else it has a button to ask for it."""
    head = "".join(
        f'<th scope="col" style="{style};{FAINT};font-weight:400">{name}</th>' for name, style in HEAD
    )
    body = "".join(_part(row, openable) for row in rows)
    return (
        f'<div style="overflow-x:auto"><table class="hnb-parts-table" style="border-collapse:collapse;margin:0;width:100%;font-size:12px">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _part(row: PartRow, openable: int) -> str:
    name = f"<strong>{KINDS[row.kind]}</strong> {escape(one_line(visible(row.what), 120))}"
    if openable:
        what = f'<details><summary style="{SUMMARY}">{name}</summary>{part_box(row, openable)}</details>'
    else:
        what = f'<button class="hnb-open" data-part="{row.number}" aria-expanded="false">{name}</button>'
    bar = f'<span style="{BAR};width:{max(1, round(60 * row.share))}px"></span>' if row.share else ""
    share = f"{row.share:.1%}" if row.share else ""
    cache = CACHED[row.cache] if row.share else ""
    return (
        f'<tr style="background-color:transparent"><td style="{CELL}">{row.message or ""}</td><td style="{CELL};min-width:110px;overflow-wrap:anywhere">{what}</td>'
        f'<td style="{NUMBER}">{row.tokens:,}</td><td style="{NUMBER}">{bar}{share}</td><td style="{NUMBER}">{row.age:,}</td>'
        f'<td style="{AFTER}">{cache}</td><td style="{CELL}">{row.fate}</td></tr>'
    )


def part_box(row: PartRow, most: int) -> str:
    """Show a part's text in a box that scrolls."""
    return f'<pre tabindex="0" style="{BOX};margin-left:0">{shown(row.text, most)}</pre>'


def out_of_sight(look: Inspection, turn: int, rows: Sequence[PartRow]) -> str:
    """Say what of the record the model no longer saw."""
    if not rows:
        return "Everything in the record was in the model's sight, whole or as what stands for it."
    lost = sum(row.tokens for row in rows)
    return (
        f"{counted(len({row.line.name for row in rows}), 'recorded message')} with {counted(lost, 'token')} {'was' if len(rows) == 1 else 'were'} "
        "out of the model's sight; the record keeps them."
    )


def change(look: Inspection, turn: int) -> str:
    """Say what a turn's request has in common with the one before, and what parted them, with the words round that place."""
    told_of = "".join(_line(sentence) for sentence in changes(look, turn))
    found = look.change(turn)
    if found is None or not found.broke:
        return told_of
    where = f"Round that place in {visible(found.part)}, the turn before"
    return (
        f'{told_of}<div style="{FAINT};font-size:12px">{escape(where)}</div>{_excerpt(found.was, found.now)}'
        f'<div style="{FAINT};font-size:12px">and this turn</div>{_excerpt(found.now, found.was)}'
    )


def changes(look: Inspection, turn: int) -> Iterator[str]:
    """Say in sentences what a turn's request has in common with the one before, and who parted them."""
    found = look.change(turn)
    if found is None:
        yield "This is the first turn: there is nothing to compare it with."
        return
    after = weight(found.after - found.same)
    if found.broke:
        place = f"byte {found.same:,} of {found.before:,}, after about {counted(found.tokens, 'token')}"
        numbers = _numbers(found.decision) if found.decision is not None else ""
        yield f"The prefix broke at {place}. {visible(clipped(found.why, 400))}{numbers}"
        yield f"A prompt cache can serve the request up to there; the {after} from there on were read anew."
    else:
        same = f"{counted(found.same, 'byte')}, about {counted(found.tokens, 'token')}"
        yield f"Nothing that had been sent changed: a prompt cache can serve all of it ({same}). {after} came at the end."
    models = [visible(clipped(record.model, 80)) for record in look.turns[turn - 2 : turn]]
    if models[0] != models[1] and all(models):
        yield f"The model changed from {models[0]} to {models[1]}, whose cache holds nothing of this."
    others = [decision for decision in look.decisions(turn) if decision is not found.decision]
    yield from map(_decided, others[:8])


def _excerpt(text: str, other: str) -> str:
    """Show the characters round a break, what follows it marked."""
    place = next(
        (i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other))
    )
    marked = (
        f'<mark style="{MARKED};color:inherit">{shown(text[place:], 200)}</mark>'
        if text[place:]
        else "(nothing)"
    )
    return f'<pre style="{BOX};margin-left:0">{shown(text[:place], 200)}{marked}</pre>'


def _decided(decision: Decision) -> str:
    return f'Decided before this turn, "{visible(clipped(decision.by, 20))}": {visible(clipped(decision.why, 300))}{_numbers(decision)}'


def _numbers(decision: Decision) -> str:
    return f" {decision.before:,} → {counted(decision.after, 'token')}." if decision.before else ""


def what_if(name: str, found: WhatIf) -> str:
    """Draw how full the window is and would be."""
    lines = [
        f'<div style="{LINE_STYLE};margin-top:8px"><strong>{escape(name)}</strong> {named(found.said)}</div>'
    ]
    for when, fill in (("now", found.before), ("then", found.after)):
        amount = (
            f"{counted(fill.total, 'token')}, {full(fill)}"
            if fill.window > 0
            else counted(fill.total, "token")
        )
        lines.append(
            f'<div title="{escape(told(fill))}" style="display:flex;flex-wrap:wrap;gap:10px;align-items:center;margin-top:2px;font-size:12px">'
            f'<span style="width:34px">{when} </span>{meter(fill)}<span style="min-width:170px;text-align:right"> {escape(amount)}</span></div>'
        )
    return "".join(lines)


def request_box(look: Inspection, turn: int, most: int) -> str:
    """Show the exact request as JSON, in a box that scrolls."""
    text = look.request(turn, most)
    return (
        f'<div style="{FAINT_LINE}">System prompt, tools and messages in the order in which they are sent; each adapter spells '
        f"them in its provider's words. Whatever looks like a key is left out.</div>"
        f'<pre tabindex="0" style="{BOX};margin-left:0;max-height:420px">{shown(text, most + 2_000)}</pre>'
    )


def _line(sentence: str, style: str = LINE_STYLE) -> str:
    return f'<div style="{style}">{named(sentence)}</div>'


def framed(title: str, about: str, inside: str) -> str:
    """Put the inspector into a frame like that of a run."""
    line = "1px solid rgba(128,128,128,0.35)"
    return (
        f'<div class="tex2jax_ignore mathjax_ignore hnb-context" style="box-sizing:border-box;border:{line};border-radius:6px;'
        f'max-width:860px;margin:2px 0;font-size:14px;line-height:1.55;overflow-wrap:break-word">'
        f'<div style="display:flex;flex-wrap:wrap;justify-content:space-between;padding:6px 14px;border-bottom:{line};font-size:13px;'
        f'line-height:20px"><span><strong>context</strong> · {escape(title)}<span style="opacity:0"> · </span></span>'
        f'<span style="{FAINT}">{escape(about)}</span></div><div style="padding:12px 14px 8px 14px">{inside}</div></div>'
    )


def section(title: str, inside: str, *, opened: bool = False) -> str:
    """Fold a section below its title."""
    html = fold(f"<strong>{title}</strong>", f'<div style="margin:6px 0 8px 14px">{inside}</div>')
    return html.replace("<details", "<details open", 1) if opened else html
