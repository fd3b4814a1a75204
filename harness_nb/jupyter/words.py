"""How numbers, times, sizes and other people's text are put before a person: the same words in every view.

Text from models, tools and servers is hostile. `visible` makes what a terminal or a browser would act
on, or hide, into something one can read; `clipped` bounds it. Escaping for HTML is the renderer's part.
"""

from __future__ import annotations

import json
import re
from html import escape

from harness_nb.messages import Usage
from harness_nb.results import FLAG, HEAPED, HIDDEN, escaped
from harness_nb.strict import clean

ARGUMENT = 60
"""Most characters of one argument's value in a call's one line."""

ARGUMENTS = 160
"""Most characters of all arguments in a call's one line."""

CODE = "padding:0;background-color:transparent;font-family:monospace;font-size:0.92em"
"""How a name looks within a sentence."""

_NAMED = re.compile("`([^`\n]+)`")

_NAMELESS = re.compile(
    f"{FLAG}|[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028\u2029{HIDDEN}]|{HEAPED}"
)
"""Control codes but for tab and newline, marks that reorder text, and what can't be seen and so may carry hidden words.

The joiners U+200C and U+200D stay where they are alone: scripts and emoji are written with them. So do the flags.
"""


def visible(text: str) -> str:
    """Return the text with nothing in it that acts or hides: control codes as pictures, the rest as escapes."""
    text = clean(text)
    if not _NAMELESS.search(text):
        return text
    return _NAMELESS.sub(_picture, text.replace("\r\n", "\n"))


def _picture(found: re.Match[str]) -> str:
    if len(found[0]) > 1:
        return found[0]
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\N{SYMBOL FOR DELETE}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def named(sentence: str) -> str:
    """Return a sentence of the harness, in which names stand between backticks, as HTML with those names as code."""
    return _NAMED.sub(rf'<code style="{CODE}">\1</code>', escape(sentence))


def clipped(text: str, limit: int) -> str:
    """Keep head and tail of a long text, with a line between that says how much is left out."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    head = limit - tail
    return f"{text[:head]}\n[… {counted(len(text) - limit, 'character')} not shown …]\n{text[-tail:]}"


def one_line(text: str, limit: int) -> str:
    """Return the text on one line, cut at `limit` characters."""
    flat = " ".join(text[: 4 * limit].split())
    return flat if len(flat) <= limit and len(text) <= 4 * limit else f"{flat[: limit - 1]}…"


def counted(number: int, noun: str) -> str:
    """Say how many: `1 turn`, `4,812 tokens`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def took(seconds: float) -> str:
    """Say how long, as finely as anyone cares: `under 1 s`, `6.2 s`, `48 s`, `3 min 20 s`."""
    if seconds < 0.95:
        return "under 1 s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def size(text: str) -> str:
    """Say how much text there is: `42 lines, 1.1 kB`."""
    return f"{counted(len(text.splitlines()), 'line')}, {weight(len(text.encode('utf-8', 'replace')))}"


def weight(count: int) -> str:
    """Say how many bytes: `312 bytes`, `1.1 kB`, `24 MB`."""
    if count < 1000:
        return counted(count, "byte")
    for unit in ("kB", "MB"):
        if count < 999_500:
            return f"{count / 1000:.1f} {unit}" if count < 9_950 else f"{count / 1000:,.0f} {unit}"
        count //= 1000
    return f"{count / 1000:,.1f} GB"


def tokens(usage: Usage) -> str:
    """Say what a run used: `4,530 tokens in, 282 out`; empty if nothing is known."""
    if not usage.input and not usage.output:
        return ""
    return f"{'about ' if usage.estimated else ''}{counted(usage.input, 'token')} in, {usage.output:,} out"


def arguments(raw: str) -> str:
    """Put a call's argument text on one line: `path="prices.csv", rows=3`; as it stands if it is not an object."""
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return one_line(visible(raw), ARGUMENTS)
    shown = (f"{one_line(str(name), ARGUMENT)}={_value(value)}" for name, value in given.items())
    return one_line(visible(", ".join(shown)), ARGUMENTS)


def _value(value: object) -> str:
    return one_line(json.dumps(value, ensure_ascii=False), ARGUMENT)


def pretty(raw: str) -> str:
    """Lay a call's whole argument text out to be read; long strings keep their line breaks."""
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError):
        return visible(raw)
    if not isinstance(given, dict):
        return visible(raw)
    return visible("\n".join(f"{name} = {_laid_out(value)}" for name, value in given.items()))


def readable_json(raw: str) -> str:
    """Return JSON text laid out to be changed by hand, of the same value; what acts or hides stands as an escape."""
    try:
        text = json.dumps(json.loads(raw), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return visible(raw)
    escape = re.compile(f"{_NAMELESS.pattern}|[\ud800-\udfff]")
    return escape.sub(lambda found: found[0] if len(found[0]) > 1 else escaped(found[0]), text)


def _laid_out(value: object) -> str:
    if isinstance(value, str) and "\n" in value:
        return "\n" + "\n".join(f"    {line}" for line in value.split("\n"))
    return json.dumps(value, ensure_ascii=False, indent=None if len(str(value)) < 80 else 2)
