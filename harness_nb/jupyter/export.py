"""A kept session as a file to hand on: a page that runs nothing, Markdown, or its records. Book chapter 21.

The page and the Markdown tell each run by the record that its notebook has, so what a model or a tool said is escaped
there. What was set aside is folded. Long texts are shortened as in a notebook; the records hold all of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path

from markdown_it import MarkdownIt

from harness_nb.errors import UsageError
from harness_nb.jupyter.reading import Session, Step, label, moment, which
from harness_nb.jupyter.record import as_markdown, bundle
from harness_nb.jupyter.tables import literal
from harness_nb.jupyter.view import RunView
from harness_nb.jupyter.words import clipped, named, one_line, visible, weight
from harness_nb.ops.lines import data_text, line
from harness_nb.ops.redacted import Redaction
from harness_nb.workspace import reason

NAME = 120
"""Most characters of a session's name in a title."""

FEW, MANY = 3, 20
"""Up to so many runs need no list of them; a list of more than so many is folded."""
DEEPEST = 6
"""Branches of branches that still stand further in."""
WARNING = 500
"""Most characters of a sentence on what was wrong with the journal."""

SHORTENED = "Long texts are shortened here. The session's records hold all of them: `harness-nb sessions export NAME --format jsonl`."

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1e21; --line: rgba(128,128,128,.35) }
@media (prefers-color-scheme: dark) { :root { --paper: #151719; --ink: #dfe1e4 } }
body { margin: 0; padding: 32px 16px 64px; background: var(--paper); color: var(--ink);
  font: 14px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere }
main { max-width: 860px; margin: 0 auto }
h1 { font-size: 20px; line-height: 28px; font-weight: 600; margin: 0 0 4px }
h2 { font-size: 13px; line-height: 20px; font-weight: 400; margin: 24px 0 6px; opacity: .72 }
h2 strong { font-weight: 600 }
.about { margin: 0 0 4px; opacity: .72; font-size: 13px; line-height: 20px }
.aside { margin: 20px 0 0; font-size: 13px; line-height: 20px }
.aside > summary, .runs > summary { cursor: pointer; opacity: .72 }
.aside > div { margin: 0 0 0 6px; padding: 0 0 0 16px; border-left: 3px solid var(--line) }
.aside h2 { margin-top: 12px }
.runs { margin: 16px 0 0; font-size: 13px; line-height: 20px }
.runs ol { list-style: none; margin: 4px 0 0; padding: 0 }
.runs li { display: flex; justify-content: space-between; gap: 4px 16px; padding: 2px 0 }
.runs li span + span { opacity: .72; text-align: right; flex: 0 1 auto }
.runs a { color: inherit; text-decoration: underline; text-underline-offset: 2px; text-decoration-color: var(--line) }
a:focus-visible, summary:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; border-radius: 2px }
footer { margin: 28px 0 0; padding: 10px 0 0; border-top: 1px solid var(--line); opacity: .72; font-size: 12px }
@media (max-width: 640px) { body { padding-top: 16px } .runs li { display: block } .runs li span + span { display: block; text-align: left } }
@media print { body { padding: 0 } pre { max-height: none !important } }
"""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What a browser may do for this page: nothing but style it. A second lock beside the escaping."""


def as_page(session: Session) -> str:
    """Draw the session as one page of HTML that needs no other file, runs nothing and reaches nowhere."""
    title = f"Session {_name(session)}"
    parts = [f"<h1>{escape(title)}</h1>"]
    parts += [f'<p class="about">{named(said)}</p>' for said in (*_about(session), *_faults(session))]
    if len(session.steps) > FEW:
        parts.append(_list(session))
    for aside, group in _groups(session):
        runs = "\n".join(_run(session, place, step) for place, step in group)
        summary = f"<summary>{_set_aside(group)}</summary>"
        parts.append(f'<details class="aside">{summary}<div>{runs}</div></details>' if aside else runs)
    parts.append(f"<footer>{named(SHORTENED)}</footer>")
    return _page(title, "\n".join(parts))


def as_document(session: Session) -> str:
    """Write the session as Markdown that reads well on a code host; what was set aside is folded there."""
    parts = [f"# Session {literal(_name(session))}", *_about(session), *map(literal, _faults(session))]
    for aside, group in _groups(session):
        runs = [_section(session, step) for _, step in group]
        summary = f"<summary>{_set_aside(group)}</summary>"
        parts += ["<details>", summary, *runs, "</details>"] if aside else runs
    return "\n\n".join([*parts, "---", SHORTENED]) + "\n"


def as_lines(session: Session) -> str:
    """Write the session's records as a folder's store keeps them, one a line, wherever they came from."""
    return "".join(line(record, data_text(record, Redaction())) for record in session.records)


FORMATS: Mapping[str, Callable[[Session], str]] = {
    "html": as_page,
    "markdown": as_document,
    "jsonl": as_lines,
}
"""What a session can be exported as."""


def exported(session: Session, form: str) -> str:
    """Write a session in a form of FORMATS. Raises UsageError for another."""
    if form not in FORMATS:
        near = difflib.get_close_matches(form.lower(), [*FORMATS, "md"], n=1, cutoff=0.4)
        hint = f"did you mean `{'markdown' if near == ['md'] else near[0]}`?" if near else ""
        known = ", ".join(f"`{name}`" for name in FORMATS)
        raise UsageError(f"There is no format `{form}`: {hint or f'there are {known}.'} Nothing was written.")
    return FORMATS[form](session)


def keep(text: str, path: Path) -> str:
    """Write an export into a file that must not be there yet, and say so. Raises UsageError where that can't be done."""
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            f"`{path}` is there already: name another file, or take it away. Nothing was written."
        ) from None
    except (OSError, ValueError) as fault:
        raise UsageError(f"`{path}` can't be written: {reason(fault)}.") from None
    return f"Written to {path}, {weight(len(text.encode()))}."


def _name(session: Session) -> str:
    return one_line(visible(session.name), NAME)


def _groups(session: Session) -> Iterator[tuple[bool, list[tuple[int, Step]]]]:
    """The runs with their places, those that were set aside at one place together."""
    for aside, group in groupby(enumerate(session.steps), lambda placed: placed[1].depth > 0):
        yield aside, [*group]


def _seen(session: Session, step: Step) -> RunView:
    """The run as it was seen; from a file nobody can go on."""
    view = session.view(step)
    view.continues = False
    return view


def _set_aside(group: list[tuple[int, Step]]) -> str:
    more = f", and {len(group) - 1:,} more" if len(group) > 1 else ""
    return f"Set aside here: {escape(label(group[0][1].run))}{more}"


def _about(session: Session) -> Iterator[str]:
    times = [record.at for record in session.records if record.run]
    began = f" Begun {moment(times[0])}, last changed {moment(times[-1])}." if times else ""
    yield f"{session.amount}.{began}"
    if session.unfinished:
        yield f"Its last run was {session.open_run} when this was written."
    elif session.head is None and session.history.runs:
        yield "It was taken back to its beginning, so all of it is set aside."


def _faults(session: Session) -> Iterator[str]:
    """What was wrong with the journal."""
    yield from (clipped(visible(warning), WARNING) for warning in session.warnings)


# -- as a page


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _list(session: Session) -> str:
    """All runs, a line each, as the way to them."""
    rows = "".join(_row(session, place, step) for place, step in enumerate(session.steps))
    opened = " open" if len(session.steps) <= MANY else ""
    return f'<details class="runs"{opened}><summary>All runs</summary><ol>{rows}</ol></details>'


def _row(session: Session, place: int, step: Step) -> str:
    indent = f' style="padding-left:{16 * min(step.depth, DEEPEST)}px"' if step.depth else ""
    link = f'<a href="#run-{place + 1}">{escape(label(step.run))}</a>'
    number = f"{step.number:,}. " if step.number else ""
    how = f"{'set aside, ' if step.depth else ''}{session.headline(step)}"
    return f"<li{indent}><span>{number}{link}</span> <span>{escape(how)}</span></li>"


def _run(session: Session, place: int, step: Step) -> str:
    forms = bundle(_seen(session, step))
    drawn = forms.get("text/html") or f"<pre>{escape(forms['text/plain'])}</pre>"
    heading, when = _heading(step)
    indent = f' style="margin-left:{16 * min(step.depth - 1, DEEPEST)}px"' if step.depth > 1 else ""
    return f'<section id="run-{place + 1}"{indent}><h2><strong>{heading}</strong> · {when}</h2>\n{drawn}</section>'


def _heading(step: Step) -> tuple[str, str]:
    said = which(step)
    return f"{said[0].upper()}{said[1:]}{'' if step.here else ', set aside'}", moment(step.run.at)


# -- as Markdown


def _section(session: Session, step: Step) -> str:
    heading, when = _heading(step)
    return (
        f"{'##' if step.here else '###'} {heading} · {when}\n\n{_closed(as_markdown(_seen(session, step)))}"
    )


def _closed(markdown: str) -> str:
    """End a block of code that a model began and did not end, so that it does not swallow what follows."""
    tokens = _blocks().parse(f"{markdown}\n\n# end\n")
    if tokens[-1].type == "heading_close" and tokens[-1].level == 0:
        return markdown
    fence = next((token.markup for token in reversed(tokens) if token.type == "fence"), "")
    return f"{markdown}\n{fence}"


@cache
def _blocks() -> MarkdownIt:
    """Read where blocks begin and end, as code hosts do, and no more."""
    return MarkdownIt("commonmark").disable("inline")
