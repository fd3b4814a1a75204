"""The static record that a run leaves in its notebook: the live view's story in ordinary elements.

It must read well trusted, untrusted (no style sheet, no scripts, no aria), converted, and with no colour
at all; so the words carry everything, styles are inline and greys are mixed from the reader's own ink.
It holds no ids and no times of day: the same run gives the same bytes. What is long is shortened here,
in the notebook only; the transcript keeps all of it. A question that waits stands there whole, with its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

from harness_nb.jupyter.asking import Asking, waiting_as_text
from harness_nb.jupyter.decision_card import DecisionCard
from harness_nb.jupyter.decision_record import OPEN, card_as_html, card_as_markdown, card_as_text, share
from harness_nb.jupyter.folds import FAINT, ROW, box, fold, label, labelled
from harness_nb.jupyter.history_versions import versions_as_html, versions_as_lines
from harness_nb.jupyter.markdown import LINE, MONO
from harness_nb.jupyter.prose import drawn
from harness_nb.jupyter.segments import Note, Segment, ToolUse, Words
from harness_nb.jupyter.view import RunView
from harness_nb.jupyter.words import clipped, named, pretty, tokens, visible

HEAVY = 40_000
"""Beyond this many characters in all forms together, the plain and Markdown forms are shortened."""

FOLDED = 2_000
"""Most characters of one folded text: arguments, a result, a stretch of thinking."""

ALL_FOLDED = 24_000
"""Most characters of all folded texts of a run together, shared out evenly."""

SHORTEST = 200
"""What each folded text may have, however many there are."""

PROMPT = 10_000
"""Most characters of the prompt, which stands in the cell above."""

UNFINISHED = (
    "The notebook was saved while this run went on, so its end is not in the file. "
    "What its tools had done by then stands. `%resume` goes on with it, and running this cell begins anew."
)
"""What is said in the place of a live view that has no kernel any more."""

_ACTIVE = re.compile(
    r"<(?=[A-Za-z/!?])|&(?=[A-Za-z#])|!\[|\]\((?!\s*(?:https?://|mailto:))|^ {0,3}\[[^\]\n]*\]:",
    re.MULTILINE | re.IGNORECASE,
)
_INSTEAD = {"<": "&lt;", "&": "&amp;"}

FAILED = "color:rgb(209,67,67)"


def bundle(view: RunView) -> dict[str, str]:
    """Return the record in every form a notebook may ask for, light enough to be saved; as text alone if it can't be drawn."""
    try:
        return _forms(view)
    except Exception as fault:  # noqa: BLE001 - a fault of ours in drawing must not cost a person the run's result
        why = f"The record of this run could not be drawn ({type(fault).__name__}); here it is as text."
        return {"text/plain": f"{why}\n\n{as_text(view)}"}


def stand_in(prompt: str) -> dict[str, str]:
    """Return what a reader sees in the live view's place where no live view can be: in a notebook saved meanwhile."""
    headline = "not finished when this was saved"
    lines = [f"agent · {headline}", f"> {clipped(visible(prompt), PROMPT)}", "", UNFINISHED]
    html = _framed(headline, "", f"{_prompt(prompt)}{_remark(UNFINISHED)}")
    return {"text/html": html, "text/plain": _without_gaps(lines)}


def _forms(view: RunView) -> dict[str, str]:
    html = as_html(view)
    spare = max(HEAVY - len(html), 0)
    plain = as_text(view)
    if not view.waits:
        plain = clipped(plain, max(spare // 2, FOLDED))
    forms = {"text/html": html, "text/plain": plain}
    if len(words := as_markdown(view)) <= spare - len(plain):
        forms["text/markdown"] = words
    return forms


def as_html(view: RunView) -> str:
    """Draw the run as HTML that needs no style sheet and runs nothing."""
    facts = (view.versions.words, visible(view.model), tokens(view.usage), view.bill.words, view.context)
    about = " · ".join(part for part in facts if part)
    inside = f"{_prompt(view.prompt)}{''.join(_drawn(view))}{_ending(view)}{versions_as_html(view.versions)}"
    return _framed(view.headline, about, inside)


def as_text(view: RunView) -> str:
    """Write the run as plain text."""
    lines = [f"agent · {view.headline} · {visible(view.model)}", f"> {visible(view.prompt)}", ""]
    rows = _rows(view)
    for segment in _in_order(view):
        match segment:
            case Words(kind="text"):
                lines += ["", visible(segment.text).strip(), ""]
            case Words():
                lines.append(f"  (thinking, {segment.aside})")
            case ToolUse():
                lines.append(f"  {segment.line}")
                if segment.state == "asking" and segment.asking:
                    lines.append(waiting_as_text(segment.asking, view.at))
            case Note():
                lines.append(f"  {visible(segment.text)}")
            case DecisionCard():
                lines.append(card_as_text(segment, view.at, rows, FOLDED))
    lines += [
        "",
        view.ending,
        "",
        " · ".join(part for part in (tokens(view.usage), view.bill.words, view.context) if part),
    ]
    lines += ["", *versions_as_lines(view.versions, lambda text: f"  {text}")]
    return _without_gaps(lines)


def as_markdown(view: RunView) -> str:
    """Write the run as Markdown; the model's own words as it wrote them, with raw HTML made harmless."""
    lines = [f"**agent** · {view.headline} · {_inert(visible(view.model))}", ""]
    lines += [f"> {_inert(line)}" for line in visible(view.prompt).split("\n")] + [""]
    rows = _rows(view)
    for segment in _in_order(view):
        match segment:
            case Words(kind="text"):
                lines += ["", _inert(visible(segment.text).strip()), ""]
            case Words():
                lines.append(f"- thinking, {segment.aside}")
            case ToolUse():
                lines.append(f"- {_literal(segment.line)}")
                if segment.state == "asking" and segment.asking:
                    lines += ["", _as_code(waiting_as_text(segment.asking, view.at)), ""]
            case Note():
                lines.append(f"- {_literal(visible(segment.text))}")
            case DecisionCard():
                card = card_as_markdown(segment, view.at, rows, FOLDED, literal=_literal, code=_as_code)
                lines += ["", card, ""]
    lines += ["", _literal(view.ending), ""]
    lines += versions_as_lines(view.versions, lambda text: f"- {_literal(text)}")
    return _without_gaps(lines)


def _rows(view: RunView) -> int:
    return share(sum(isinstance(segment, DecisionCard) for segment in view.segments))


def _in_order(view: RunView) -> Sequence[Segment]:
    """The segments, with what the harness noted after the answer put before it: the answer comes last."""
    working, answer = view.segments[: view.answer_start], view.segments[view.answer_start :]
    return [*working, *sorted(answer, key=lambda s: isinstance(s, Words) and s.kind == "text")]


def _framed(headline: str, about: str, inside: str) -> str:
    # The dot between the two is there for readers without styles, which would run them together.
    header = (
        f'<div style="display:flex;flex-wrap:wrap;justify-content:space-between;padding:6px 14px;border-bottom:{LINE};'
        f'font-size:13px;line-height:20px"><span><strong>agent</strong> · {escape(headline)}'
        f'<span style="opacity:0"> · </span></span><span style="{FAINT}">{escape(about)}</span></div>'
    )
    # The class keeps MathJax from reading prices in dollars as formulas.
    return (
        f'<div class="tex2jax_ignore mathjax_ignore" style="box-sizing:border-box;border:{LINE};border-radius:6px;max-width:860px;'
        f'margin:2px 0;font-size:14px;line-height:1.55;overflow-wrap:break-word">{header}'
        f'<div style="padding:12px 14px 2px 14px">{inside}</div></div>'
    )


def _drawn(view: RunView) -> Iterator[str]:
    segments = _in_order(view)
    folds = sum(1 if isinstance(s, Words) else 2 for s in segments if not isinstance(s, Note)) or 1
    limit = max(SHORTEST, min(FOLDED, ALL_FOLDED // folds))
    said = [visible(s.text) for s in segments if isinstance(s, Words) and s.kind == "text"]
    prose = iter(drawn(said))
    rows, cards = _rows(view), sum(isinstance(segment, DecisionCard) for segment in segments)
    for segment in segments:
        match segment:
            case Words(kind="text"):
                if html := next(prose):
                    yield f'<div style="padding-top:6px;overflow-x:auto">{html}</div>'
            case Words():
                yield fold(
                    f'<span style="{FAINT}">Thinking · {escape(segment.aside)}</span>',
                    box(clipped(visible(segment.text), limit)),
                )
            case ToolUse(state="asking") if segment.asking:
                yield _waiting(segment, segment.asking, view.at)
            case ToolUse():
                yield _call(segment, limit)
            case Note():
                yield f'<div style="{ROW};padding-left:14px;{FAINT}">{named(clipped(visible(segment.text), limit))}</div>'
            case DecisionCard():
                cards -= 1
                yield card_as_html(segment, view.at, rows, limit, folded=cards >= OPEN)


def _call(use: ToolUse, limit: int) -> str:
    name = f'<code style="{MONO};background-color:transparent;padding:0"><strong>{escape(visible(use.name))}</strong>'
    line = (
        f'{name} {escape(use.arguments)}</code> <span style="{FAILED if use.state == "failed" else FAINT}">'
    )
    line += f"{escape(use.upshot)}</span>"
    inside = "".join(labelled(what, text, limit) for what, text in _given(use))
    if use.output and not use.told:
        inside += labelled("Result", visible(use.output), limit)
    return fold(line, inside)


def _waiting(use: ToolUse, asking: Asking, at: str) -> str:
    """A call that waits for a decision: open and whole, so that what is decided is what was read."""
    shown = (
        (f"{asking.question} ({', '.join(asking.effects)}) {asking.why}", asking.preview),
        ("All arguments", asking.arguments),
        ("To decide, run one of these in a cell", asking.commands(at)),
    )
    inside = "".join(f"{label(what)}{box(text) if text else ''}" for what, text in shown)
    line = f"<strong>{escape(visible(use.name))}</strong> {escape(use.arguments)}"
    summary = (
        f'<code style="{MONO};background-color:transparent;padding:0">{line}</code> {escape(use.upshot)}'
    )
    return fold(summary, inside).replace("<details", "<details open", 1)


def _given(use: ToolUse) -> Iterator[tuple[str, str]]:
    """What the call was given, and what a person saw of it before they decided."""
    if use.edited:
        yield "Arguments, as you changed them", pretty(use.edited)
        yield "Arguments, as the model wrote them", pretty(use.raw)
    else:
        yield "Arguments", pretty(use.raw)
    if use.asking is not None:
        yield "Shown to you before you decided", use.asking.preview


def _prompt(prompt: str) -> str:
    if not prompt:
        return ""
    return (
        f'<div style="margin:0 0 10px 0;padding-left:12px;border-left:3px solid rgba(128,128,128,0.35);'
        f'white-space:pre-wrap;{FAINT}">{escape(clipped(visible(prompt), PROMPT))}</div>'
    )


def _ending(view: RunView) -> str:
    return _remark(view.ending, "209,67,67" if view.reason == "error" else "128,128,128")


def _remark(text: str, colour: str = "128,128,128") -> str:
    if not text:
        return ""
    return (
        f'<div style="margin:8px 0 10px 0;padding-left:12px;border-left:3px solid rgb({colour})">'
        f"{named(text)}</div>"
    )


def _inert(text: str) -> str:
    """Keep a Markdown reader from making tags, entities, pictures or odd links of a model's words.

    It does so inside code, too, where it shows: where code ends is just what hostile text would blur.
    """
    return _ACTIVE.sub(lambda found: _INSTEAD.get(found[0]) or f"{found[0][:-1]}\\{found[0][-1]}", text)


def _literal(text: str) -> str:
    """Put text into Markdown so that it reads as it stands."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]()#+-.!|<>&~$" else c for c in text)


def _as_code(text: str) -> str:
    """Put text into Markdown as a block of code that nothing in it can end."""
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text.strip()}\n{fence}"


def _without_gaps(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip()
