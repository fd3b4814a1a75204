"""A web page as text that a model can read: words, headings, lists and links; no scripts, styles or hidden parts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

SKIPPED = {"script", "style", "template", "noscript", "svg", "iframe", "object", "select"}
"""Elements whose content is not for reading."""

UNCLOSED = {"p", "li", "dt", "dd", "tr", "td", "th", "option", "body", "html"}
"""Elements whose end is often left out: where they are hidden, nothing tells how far."""

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

BLOCKS = {
    *(
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "figure",
        "footer",
    ),
    *(
        "form",
        "header",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
    ),
    *("summary", "table", "tr", "ul"),
}

HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}


def readable_page(html: str, url: str = "") -> str:
    """Return what a page says, its title first; links are written `[words](address)`, whole by `url`."""
    reader = _Reader(url)
    reader.feed(_without_comments(html))
    reader.close()
    text = "".join(reader.said)
    text = re.sub(r"[^\S\n]+\n", "\n", text)
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    title = " ".join("".join(reader.title).split())
    return f"{title}\n\n{text}" if title and not text.startswith(f"# {title}") else text


def _without_comments(html: str) -> str:
    """Leave out comments, and what the parser would look for the end of again and again where there is none."""
    kept: list[str] = []
    at = 0
    while (start := html.find("<!--", at)) >= 0:
        kept.append(html[at:start])
        end = html.find("-->", start + 4)
        at = end + 3 if end >= 0 else len(html)
    text = "".join([*kept, html[at:]]).replace("<![", "<!")
    end = text.rfind(">") + 1
    return text[:end] + text[end:].partition("<")[0]


class _Reader(HTMLParser):
    """Collects the words of a page; tolerant of everything, as HTMLParser is."""

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.said: list[str] = []
        self.title: list[str] = []
        self._url = url
        self._links: list[str] = []
        self._skipped = ""
        self._depth = 0
        self._preformatted = 0
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_title = tag == "title"
        if self._skipped:
            self._depth += tag == self._skipped
            return
        given = dict(attrs)
        hidden = "hidden" in given or given.get("aria-hidden") == "true"
        if tag in SKIPPED or (hidden and tag not in VOID | UNCLOSED):
            self._skipped, self._depth = tag, 1
            return
        if tag in BLOCKS:
            self.said.append("\n\n" if tag in {"p", "table", "ul", "ol", *HEADINGS} else "\n")
        match tag:
            case "br":
                self.said.append("\n")
            case "li":
                self.said.append("- ")
            case "td" | "th":
                self.said.append(" | ")
            case "pre":
                self._preformatted += 1
            case "img" if given.get("alt"):
                self.said.append(f"({given['alt']})")
            case "a":
                self._links.append(self._address(given.get("href")))
                self._say("[" if self._links[-1] else "")
            case _ if tag in HEADINGS:
                self.said.append(HEADINGS[tag])
            case _:
                pass

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False
        if self._skipped:
            self._depth -= tag == self._skipped
            self._skipped = self._skipped if self._depth else ""
            return
        if tag == "a" and self._links and (address := self._links.pop()):
            self.said.append(f"]({address})")
        if tag == "pre":
            self._preformatted = max(self._preformatted - 1, 0)
        if tag in BLOCKS:
            self.said.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._skipped:
            self._say(data if self._preformatted else self._collapsed(data))

    def _say(self, text: str) -> None:
        if text:
            self.said.append(text)

    def _collapsed(self, data: str) -> str:
        text = re.sub(r"\s+", " ", data)
        return text.lstrip() if not self.said or self.said[-1].endswith((" ", "\n")) else text

    def _address(self, href: str | None) -> str:
        """Return where a link leads, empty for one that leads nowhere else."""
        try:
            address = urljoin(self._url, (href or "").strip())
        except ValueError:
            return ""
        leads = address.startswith(("http://", "https://")) and not (href or "").startswith("#")
        return address if leads and len(address) <= 500 else ""
