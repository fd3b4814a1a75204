"""A decision about the context in the static record: its card in ordinary elements, as text, and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape

from harness_nb.events import Fill
from harness_nb.jupyter.decision_card import DecisionCard, bounded_rows
from harness_nb.jupyter.folds import FAINT, ROW, fold, labelled
from harness_nb.jupyter.gauge import GROUPS, grouped, pieces, told
from harness_nb.jupyter.markdown import LINE
from harness_nb.jupyter.words import clipped, named

ROWS = 60
"""Most lines of all tables of a run together, shared out evenly."""
FEWEST = 6
"""What each table may have, however many there are."""

HEAD = ("message", "what", "now", "tokens before", "after")
CELL = "padding:2px 12px 2px 0;text-align:left"
NUMBER = "padding:2px 0 2px 12px;text-align:right"
FRAME = f"{ROW};margin:6px 0 10px 0;padding:8px 12px;border:{LINE};border-radius:6px"
OPEN = 3
"""Cards of a run that are in sight; earlier ones are folded."""
BAR = "display:flex;flex:1 1 160px;height:12px;border-radius:3px;overflow:hidden;background-color:rgba(128,128,128,0.22)"


def share(cards: int) -> int:
    """Say how many lines each table may have where there are so many."""
    return max(FEWEST, ROWS // max(1, cards))


def card_as_html(card: DecisionCard, at: str, rows: int, limit: int, *, folded: bool = False) -> str:
    """Draw the card, all of it readable without colours, styles or clicks; `folded` leaves one line of it in sight."""
    line = f"<strong>{named(card.headline)}</strong> {escape(card.numbers)}"
    said = named(card.keeps) if card.state == "taken" else ""
    inside = "".join(_bars(card))
    if card.effect.fates:
        inside += fold("What happened to each message", _table(card, rows))
    if card.summary and card.state != "declined":
        inside += fold("The summary that the model reads instead", labelled("Its words", card.summary, limit))
    if commands := card.commands(at):
        inside += f'<div style="{FAINT};font-size:12px">{named(commands)}</div>'
    if folded:
        return fold(line, f'<div style="padding-left:14px">{said}{inside}</div>')
    return f'<div style="{FRAME}"><div>{line} {said}</div>{inside}</div>'


def _bars(card: DecisionCard) -> Iterator[str]:
    if card.state == "declined":
        return
    fills: list[Fill] = []
    for name, amount, fill in card.bars:
        fills.append(fill)
        parts = "".join(
            f'<div style="width:{width}%;height:12px;background-color:{GROUPS[group].colour}"></div>'
            for group, _, width in pieces(fill)
        )
        yield (
            f'<div title="{escape(told(fill))}" style="display:flex;flex-wrap:wrap;gap:10px;align-items:center;margin-top:4px">'
            f'<span style="width:44px">{name} </span><div style="{BAR}">{parts}</div>'
            f'<span style="width:200px;flex:0 0 200px;text-align:right"> {escape(amount)}</span></div>'
        )
    if fills:
        yield f'<div style="display:flex;flex-wrap:wrap;gap:2px 14px;margin-top:4px;font-size:12px">{"".join(_legend(*fills))}</div>'


def _legend(before: Fill, after: Fill) -> Iterator[str]:
    """Say each piece of both bars in numbers: their twin in words."""
    now = dict(grouped(after))
    then = dict(grouped(before))
    for group in GROUPS:
        if group.name in then or group.name in now:
            dot = f"display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:5px;background-color:{group.colour}"
            numbers = f"{then.get(group.name, 0):,} → {now.get(group.name, 0):,}"
            yield f'<span><span style="{dot}"></span>{group.name} {numbers}; </span>'


def _table(card: DecisionCard, most: int) -> str:
    rows, rest = bounded_rows(card.rows, most)
    head = "".join(
        f'<th scope="col" style="{CELL if i < 3 else NUMBER}">{w}</th>' for i, w in enumerate(HEAD)
    )
    body = "".join(
        f'<tr style="vertical-align:top"><td style="{CELL}">{row.number}</td><td style="{CELL}">{escape(row.what)}</td>'
        f'<td style="{CELL}">{row.fate}</td>'
        f'<td style="{NUMBER}">{row.before:,}</td><td style="{NUMBER}">{row.after:,}</td></tr>'
        for row in rows
    )
    more = f'<div style="{FAINT};font-size:12px">{rest}</div>' if rest else ""
    return (
        f'<div style="overflow-x:auto;max-height:320px;margin:4px 0 8px 14px"><table style="border-collapse:collapse;font-size:12px;margin:0">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}</div>"
    )


def card_as_text(card: DecisionCard, at: str, rows: int, limit: int) -> str:
    """Write the card as plain text."""
    lines = [f"  {_line(card)}"]
    if card.state == "taken":
        shown, rest = bounded_rows(card.rows, rows)
        lines += [f"    {r.number:>3}  {r.what}: {r.fate}, {r.before:,} → {r.after:,} tokens" for r in shown]
        lines += [f"    {rest}"] if rest else []
        if card.summary:
            lines.append("    The summary that the model reads instead:")
            lines += [f"    | {line}" for line in clipped(card.summary, limit).split("\n")]
        lines.append(f"  {card.keeps} {card.commands(at)}".rstrip().replace("`", ""))
    return "\n".join(lines)


def card_as_markdown(
    card: DecisionCard,
    at: str,
    rows: int,
    limit: int,
    *,
    literal: Callable[[str], str],
    code: Callable[[str], str],
) -> str:
    """Write the card as Markdown; `literal` makes text harmless in a line, `code` as a block."""
    lines = [f"- {literal(_line(card))}"]
    if card.state == "taken":
        shown, rest = bounded_rows(card.rows, rows)
        if shown:
            lines += ["", f"| {' | '.join(HEAD)} |", "|---|---|---|--:|--:|"]
            lines += [
                f"| {r.number} | {literal(r.what)} | {r.fate} | {r.before:,} | {r.after:,} |" for r in shown
            ]
        lines += ["", rest] if rest else [""]
        if card.summary:
            lines += ["The summary that the model reads instead:", "", code(clipped(card.summary, limit)), ""]
        lines.append(literal(f"{card.keeps} {card.commands(at)}".rstrip().replace("`", "")))
    return "\n".join(lines)


def _line(card: DecisionCard) -> str:
    shares = " → ".join(f"{fill.share:.0%}" for _, _, fill in card.bars if fill.window > 0)
    known = f"{card.numbers.rstrip('.')}, {shares} of what can be used." if shares else card.numbers
    return f"{card.headline} {known if card.numbers else ''}".rstrip()
