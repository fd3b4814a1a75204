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
import uuid
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from typing import cast

from harness_nb.errors import ToolError
from harness_nb.messages import Image, Text
from harness_nb.strict import clean

LIMIT = 16_000
"""Most characters of one result that a model gets by default."""

ITEMS = 1_000
"""Most items taken from a generator."""

DEPTH = 20
"""Deepest nesting that is written out."""

EMPTY = "(the tool returned empty text)"

SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


class CannotRead(Exception):
    """A value that can't be turned into a result; the message names its type and why."""


def as_content(value: object, limit: int = LIMIT) -> tuple[Text | Image, ...]:
    """Turn what a tool returned into the content of its result, at most `limit` characters. Raises CannotRead."""
    if isinstance(value, Image):
        return (value,)
    if isinstance(value, bytes | bytearray) and (kind := _image_type(bytes(value))):
        return (Image(bytes(value), kind),)
    if isinstance(value, list | tuple) and value and all(isinstance(item, Text | Image) for item in value):
        return _parts(value, limit)
    if type(value) is str:
        value = bounded(value, limit)  # before anything that costs time for each character
    return (Text(bounded(_written(value), limit)),)


def _parts(values: Sequence[Text | Image], limit: int) -> tuple[Text | Image, ...]:
    """Keep pictures and texts in order; where the texts are too long together, each gets its share."""
    texts = [item for item in values if isinstance(item, Text)]
    share = limit if sum(len(item.text) for item in texts) <= limit else max(limit // len(texts), 1)
    kept = [item if isinstance(item, Image) else Text(bounded(item.text, share)) for item in values]
    return tuple(item for item in kept if isinstance(item, Image) or item.text.strip()) or (Text(EMPTY),)


def bounded(text: str, limit: int = LIMIT) -> str:
    """Keep head and tail of a long text, at most `limit` characters, with a line at each end that says what is missing."""
    if len(text) <= limit:
        return text
    half = max(limit // 2 - 100, 0)
    missing = len(text) - 2 * half
    top = f"[long output, shortened: first and last {half:,} of {len(text):,} characters]\n"
    middle = f"\n[{missing:,} characters left out here; ask for less, or for a part]\n"
    return f"{top}{text[:half]}{middle}{text[len(text) - half :]}"[:limit]


def _written(value: object) -> str:
    try:
        if isinstance(value, enum.Enum):
            value = value.value
        if value is None:
            return "(done; the tool returned nothing)"
        if isinstance(value, Text):
            value = value.text
        if (preview := _preview(value)) is not None:
            return preview
        if isinstance(value, Iterator):
            value = _taken(value)
        plain = _plain(value, set(), 0)
        if not isinstance(plain, str):
            return json.dumps(plain, ensure_ascii=False, allow_nan=False)
        return plain if plain.strip() else EMPTY
    except (CannotRead, ToolError):
        raise
    except Exception as fault:
        raise CannotRead(
            f"the tool returned {_name(value)}, which can't be read: {type(fault).__name__}"
        ) from fault


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
    if not isinstance(value, type) and callable(dump := getattr(value, "model_dump", None)):
        return _plain(dump(), above, depth)
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
        shown = head.to_string() if hasattr(head, "to_string") else str(head)
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


def _image_type(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in SIGNATURES.items() if data.startswith(start)), "")


def _name(value: object) -> str:
    return f"a value of type {type(value).__name__}"
