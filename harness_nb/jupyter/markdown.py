"""Markdown from a model as HTML that cannot act: no raw HTML, no pictures, links to the web and to mail only.

A subset that markdown.js renders alike while the text still streams: headings, paragraphs with their line
breaks, lists, quotes, fences, tables, rules, emphasis, code, links. A test holds the two together.
Styles are inline, since a notebook that is not trusted keeps no style sheet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from markdown_it.renderer import RendererHTML
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

FEW = 100
"""Cells of tables that get our borders and padding; more of them have the notebook's own look, ten times as light."""

SCHEMES = ("http://", "https://", "mailto:")
"""What a link may start with."""

CELLS = {"td_open", "th_open"}
LINE = "1px solid rgba(128,128,128,0.35)"
MONO = "font-family:monospace;font-size:0.92em"
PRE = (
    f"margin:0 0 10px 0;padding:8px 10px;border:{LINE};border-radius:4px;overflow:auto;white-space:pre;{MONO}"
)
STYLES = {
    "p": "margin:0 0 10px 0",
    "ul": "margin:0 0 10px 0;padding-left:24px",
    "ol": "margin:0 0 10px 0;padding-left:24px",
    "blockquote": "margin:0 0 10px 0;padding:0 0 0 12px;border-left:3px solid rgba(128,128,128,0.35)",
    "table": "border-collapse:collapse;margin:0 0 10px 0;font-size:1em",
    "th": f"padding:3px 10px;border:{LINE};text-align:left",
    "td": f"padding:3px 10px;border:{LINE};text-align:left",
    "tr": "background-color:transparent",
    "a": "text-decoration:underline",
    "hr": f"border:0;border-top:{LINE};margin:12px 0",
    "h1": "margin:14px 0 6px 0;font-size:1.3em;font-weight:600",
    "h2": "margin:14px 0 6px 0;font-size:1.18em;font-weight:600",
    **{f"h{n}": "margin:12px 0 4px 0;font-size:1em;font-weight:600" for n in (3, 4, 5, 6)},
}


class SafeMarkdown(MarkdownIt):
    """A parser that refuses links to anything that could run or read here."""

    def __init__(self) -> None:
        """Know the subset and no more."""
        super().__init__("commonmark", {"html": False, "breaks": True})
        self.enable("table").disable(["entity", "reference", "lheading", "code"])
        self.core.ruler.push("style", _style)
        self.add_render_rule("image", _picture)
        self.add_render_rule("fence", _fence)

    def validateLink(self, url: str) -> bool:  # noqa: N802 - the parser calls it by this name
        """Allow the web and mail."""
        return url.lower().startswith(SCHEMES)


def as_html(text: str) -> str:
    """Render Markdown, already made visible, as HTML with inline styles."""
    return str(_parser().render(text)).strip()


@cache
def _parser() -> SafeMarkdown:
    return SafeMarkdown()


def _style(state: StateCore) -> None:
    many = sum(token.type in CELLS for token in state.tokens) > FEW
    for token in _all(state.tokens):
        if many and token.type == "table_open":
            token.attrSet("cellpadding", "5")  # where a reader has no look of its own
        if many and token.type in {*CELLS, "tr_open"}:
            continue
        if token.nesting >= 0 and (style := STYLES.get(token.tag)):
            aligned = str(token.attrs.get("style", ""))
            token.attrSet("style", f"{style};{aligned}" if aligned else style)


def _all(tokens: Iterable[Token]) -> Iterable[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


def _picture(
    self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    """Show a picture as a link to it: fetching it would tell its server who reads this, and when."""
    token = tokens[index]
    label = self.renderInlineAsText(token.children or [], options, env) or "picture"
    return f'<a style="{STYLES["a"]}" href="{escape(str(token.attrs.get("src", "")))}">{escape(label)}</a>'


def _fence(
    self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    return f'<pre style="{PRE}"><code style="white-space:pre">{escape(tokens[index].content)}</code></pre>\n'
