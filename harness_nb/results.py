"""Any Python value as one tool result: valid, bounded, never empty. Part of the tool protocol; book chapters 4 and 11.

Text stays as it is. Data becomes JSON, with NaN and the infinities as words so that the model can tell
them from missing values. Frames, arrays and other rich values become a preview with their shape.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import itertools
import json
import math
import pathlib
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence, Set as AbstractSet
from typing import TypeAlias, cast

from harness_nb.errors import ToolError
from harness_nb.messages import Image, Text
from harness_nb.pictures import sendable, sniffed
from harness_nb.seams import LIMIT
from harness_nb.strict import clean

ITEMS = 1_000
"""Most items taken from a generator."""

DEPTH = 20
"""Deepest nesting that is written out."""

WIDE = {"max_cols": 50, "max_colwidth": 100}
"""Most columns of a frame that are shown, and characters of a cell; what is left out is marked."""

EMPTY = "(the tool returned empty text)"

HIDDEN = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180e\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters that reorder text, or can't be seen at all and so may carry words for a model that its person never sees."""

_MARKS = "\u00ad\u061c\u200b-\u200f"
HEAPED = f"(?<=[{_MARKS}])[{_MARKS}\ufe0e\ufe0f]|(?<=[\ufe0e\ufe0f])[\ufe0e\ufe0f]"
"""Marks, joiners and selectors that scripts and emoji are written with, where they follow on each other as in no script."""

FLAG = "\U0001f3f4(?:{})\U000e007f".format(
    "|".join("".join(chr(0xE0000 + ord(letter)) for letter in name) for name in ("gbeng", "gbsct", "gbwls"))
)
"""The three flags that are written in characters that can't be seen."""

ACTING = re.compile(f"{FLAG}|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{HIDDEN}]|\r(?=[^\n])|{HEAPED}")
"""What a terminal acts on (all but tab, newline and CRLF), what reorders or hides; and the flags, which stay."""

SUSPECT = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_MARKS}\ufe0e\ufe0f{HIDDEN}]")
"""What may be one of those: a look for one character is many times as quick."""

WIDEST = 12
"""Most characters that one of those becomes."""

Keep: TypeAlias = Callable[[str], str]
"""Takes a text that is too long, whole; returns what a model should do to see the rest."""


class CannotRead(Exception):
    """A value that can't be turned into a result; the message names its type and why."""


def as_content(value: object, limit: int | None = LIMIT) -> tuple[Text | Image, ...]:
    """Turn what a tool returned into the content of its result; None for `limit` leaves it whole. Raises CannotRead."""
    if isinstance(value, str) and limit is not None:
        value = bounded(value, limit)  # before anything that costs time for each character
    if isinstance(value, bytes | bytearray) and sniffed(bytes(value[:16])):
        value = Image(bytes(value), "")
    if isinstance(value, Text | Image):
        value = [value]
    if isinstance(value, list | tuple) and value and all(isinstance(item, Text | Image) for item in value):
        content = tuple(
            sendable(item.data, item.media_type) if isinstance(item, Image) else item for item in value
        )
    else:
        content = (Text(_written(value)),)
    return content if limit is None else fitted(content, limit)


def fitted(
    content: tuple[Text | Image, ...], limit: int = LIMIT, keep: Keep | None = None
) -> tuple[Text | Image, ...]:
    """Make content what a model may get: neighbouring texts as one, readable, not empty, at most `limit` characters.

    `keep` is given the whole of each text that is shortened, and returns what the model is told to do for the rest.
    """
    if len(content) == 1 and isinstance(only := content[0], Text) and _fits(only.text, limit):
        return content
    made: list[Text | Image] = []
    share = _share(sorted(len(item.text) + 1 for item in content if isinstance(item, Text)), limit)
    for item in content:
        if isinstance(item, Image):
            made.append(item)
        elif not item.text or item.text.isspace():
            continue
        elif made and isinstance(before := made[-1], Text):
            made[-1] = Text(f"{before.text}\n{bounded(item.text, share, keep)}")
        else:
            made.append(Text(bounded(item.text, share, keep)))
    return tuple(made) or (Text(EMPTY),)


def _fits(text: str, limit: int) -> bool:
    return 0 < len(text) <= limit and not SUSPECT.search(text) and not text.isspace()


def _share(sizes: Sequence[int], limit: int) -> int:
    """Return how many characters each text may have, so that short ones stay whole and long ones get the rest."""
    room = limit
    for count, small in enumerate(sizes):
        if small * (left := len(sizes) - count) > room:
            return max(room // left - 1, 1)
        room -= small
    return limit


def bounded(text: str, limit: int = LIMIT, keep: Keep | None = None) -> str:
    """Make a text readable and keep head and tail of a long one, at most `limit` characters.

    How much is missing is said at both ends, with what to do about it: what `keep` returns for the
    whole text, where `{offset}` becomes the number of characters that the head holds.
    """
    if len(text) <= limit and len(seen := readable(text)) <= limit:
        return seen
    more = keep(text) if keep is not None else "ask for less, or for a part"
    room = max((limit - 270 - 2 * len(more)) // 2, 0)
    (head, first), (tail, last) = opening(text, room), _ending(text, room)
    missing = f"{max(len(text) - first - last, 0):,} characters"
    more = more.replace("{offset}", str(first))
    return (
        f"[long output, shortened: first {first:,} and last {last:,} of {len(text):,} characters; {more}]\n"
        f"{head}\n[... {missing} left out here ...]\n{tail}\n"
        f"[long output, shortened: {missing} left out above; {more}]"
    )[:limit]


def readable(text: str) -> str:
    """Show what would act, mislead or hide: control codes as pictures; those without one, and what can't be seen, as escapes."""
    return ACTING.sub(_pictured, text) if SUSPECT.search(text) else text


def opening(text: str, room: int) -> tuple[str, int]:
    """Return as much from the start of a text as fits once readable, and how many characters of it that is."""
    head = readable(text[:room])
    if len(head) <= room:
        return head, min(room, len(text))
    return readable(text[: room // WIDEST]), min(room // WIDEST, len(text))


def _pictured(found: re.Match[str]) -> str:
    if len(found[0]) > 1:
        return found[0]
    return chr(0x2400 + code) if (code := ord(found[0])) < 0x20 else escaped(found[0])


def escaped(character: str) -> str:
    """Write a character as JSON may, so that data in which it stands keeps its value."""
    return json.dumps(character)[1:-1] if character > "\x7f" else f"\\u{ord(character):04x}"


def _ending(text: str, room: int) -> tuple[str, int]:
    for count in (min(room, len(text)), room // WIDEST):
        if len(tail := readable(text[len(text) - count :])) <= room:
            return tail, count
    return "", 0


def _written(value: object) -> str:
    try:
        text = clean(value) if type(value) is str else _told(value)
    except (CannotRead, ToolError):
        raise
    except Exception as fault:
        raise CannotRead(
            f"the tool returned {_name(value)}, which can't be read: {type(fault).__name__}"
        ) from fault
    return EMPTY if not text or text.isspace() else text


def _told(value: object) -> str:
    """Write what is more than a plain text."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None:
        return "(done; the tool returned nothing)"
    if (preview := _preview(value)) is not None:
        return preview
    if isinstance(value, Iterator):
        value = _taken(value)
    plain = _plain(value, set(), 0)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, allow_nan=False)


def _plain(value: object, above: set[int], depth: int) -> object:
    """Turn a value into JSON data; `above` holds the containers it is in."""
    if value is None or (isinstance(value, bool | int) and not isinstance(value, enum.Enum)):
        return value if value is None or isinstance(value, bool) else int(value)
    if isinstance(value, float) and not isinstance(value, enum.Enum):
        return float(value) if math.isfinite(value) else _nonfinite(value)
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return clean(str.__str__(value))
    if (scalar := _unwrapped(value)) is not value:
        return _plain(scalar, above, depth)
    if id(value) in above:
        raise CannotRead(f"the tool returned {_name(value)} that contains itself")
    if depth > DEPTH:
        return f"... ({_name(value)}, nested deeper than {DEPTH})"
    above.add(id(value))
    try:
        return _plain_container(value, above, depth + 1)
    finally:
        above.discard(id(value))


def _plain_container(value: object, above: set[int], depth: int) -> object:
    if isinstance(value, enum.Enum):
        return _plain(value.value, above, depth)
    if isinstance(value, Mapping):
        return _plain_mapping(value, above, depth)
    if isinstance(value, range):
        return repr(value)
    if isinstance(value, AbstractSet):
        return [_plain(inner, above, depth) for inner in sorted(value, key=repr)]
    if isinstance(value, bytes | bytearray):
        return _bytes(bytes(value))
    if isinstance(value, Sequence):
        return [_plain(inner, above, depth) for inner in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            item.name: _plain(getattr(value, item.name), above, depth) for item in dataclasses.fields(value)
        }
    if callable(getattr(type(value), "model_dump", None)):  # not of the value: a proxy answers to any name
        return _plain(value.model_dump(), above, depth)  # type: ignore[attr-defined]
    if isinstance(
        value,
        datetime.date | datetime.time | datetime.timedelta | decimal.Decimal | uuid.UUID | pathlib.PurePath,
    ):
        return clean(str(value))
    if (preview := _preview(value)) is not None:
        return preview
    return clean(repr(value))


def _plain_mapping(value: Mapping[object, object], above: set[int], depth: int) -> dict[str, object]:
    made: dict[str, object] = {}
    for key, inner in value.items():
        name = clean(str(key.value if isinstance(key, enum.Enum) else key))
        made[name if name not in made else clean(repr(key))] = _plain(inner, above, depth)
    return made


def _nonfinite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _bytes(value: bytes) -> str:
    try:
        return clean(value.decode())
    except UnicodeDecodeError:
        return f"({len(value):,} bytes, not text; starts {value[:16].hex(' ')})"


def _preview(value: object) -> str | None:
    """Describe a numpy or pandas value by what it offers, without importing either."""
    kind, module = type(value).__name__, type(value).__module__.partition(".")[0]
    if module == "numpy" and getattr(value, "ndim", 0) > 0:
        return f"numpy array, shape {value.shape}, dtype {value.dtype}:\n{value}"  # type: ignore[attr-defined]
    if module in {"pandas", "polars"} and hasattr(value, "head") and hasattr(value, "shape"):
        shape = " x ".join(f"{length:,}" for length in value.shape)
        head = value.head(10)
        wide = WIDE if getattr(value, "ndim", 0) > 1 else {}
        shown = head.to_string(**wide) if module == "pandas" else str(head)
        return f"{kind}, {shape}; first {len(head)} rows:\n{shown}"
    return None


def _unwrapped(value: object) -> object:
    """Return the Python value inside a numpy scalar, or its text where Python has none as exact."""
    if type(value).__module__ != "numpy" or getattr(value, "ndim", None) != 0:
        return value
    match value.dtype.kind:  # type: ignore[attr-defined]
        case "b" | "i" | "u" | "O":
            return cast("object", value.item())  # type: ignore[attr-defined]
        case "f":
            return float(str(value))  # the shortest form: 1.1 as float32 stays 1.1
        case _:
            return str(value)


def _taken(values: Iterator[object]) -> list[object]:
    found = list(itertools.islice(values, ITEMS + 1))
    return [*found[:ITEMS], f"... (more than {ITEMS:,} items)"] if len(found) > ITEMS else found


def _name(value: object) -> str:
    return f"a value of type {type(value).__name__}"
