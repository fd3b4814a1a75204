"""Text and JSON from a model, read strictly: made safe for every wire and store, never guessed or repaired. Book chapter 6."""

from __future__ import annotations

import json
import math

DEPTH = 100
"""Deepest nesting of a call's arguments; deeper text is an attack or an accident, and upsets JSON writers."""


PIECE = 1_000_000


def clean(text: str) -> str:
    """Text that every wire and store accepts: surrogate pairs joined, lone ones replaced, no NUL."""
    if "\0" not in text and (text.isascii() or _encodes(text)):
        return text
    paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return paired.replace("\0", "\N{SYMBOL FOR NULL}")


def _encodes(text: str) -> bool:
    """Tell whether a text holds no surrogates; piece by piece, so that a huge one is not copied."""
    try:
        for start in range(0, len(text), PIECE):
            text[start : start + PIECE].encode()
    except UnicodeEncodeError:
        return False
    return True


def joined(text: str) -> str:
    """Text whose surrogate pairs, as two pieces of a stream may leave them, are one character each; nothing else changes."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def parse_arguments(raw: str) -> dict[str, object]:
    """Read a call's argument text strictly: one JSON object, with nothing guessed or repaired.

    Blank text and `null` mean no arguments, since that is how providers send a call of a tool without
    parameters. Raises ValueError, with the position, for anything else that is not an object: broken
    or cut JSON, a list, a number, NaN, a key given twice.
    """
    if not raw.strip():
        return {}
    value = parse_json(raw)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"the arguments are {_json_name(value)}; send a JSON object")  # noqa: TRY004
    return value


def parse_json(text: str) -> object:
    """Read JSON as the standard has it; its strings come out clean. Raises ValueError.

    Refused, though Python's own reader takes them: NaN, numbers too large for a float, a key given
    twice, nesting deeper than DEPTH. An integer of more than some 4,300 digits is refused, too.
    """
    try:
        value = _READER.decode(text.strip())
    except RecursionError:
        raise ValueError(f"it is nested deeper than {DEPTH} levels") from None
    shallow = text.count("[") + text.count("{") <= DEPTH
    if shallow and text.isascii() and "\\" not in text:  # nothing that `clean` could change
        return value
    return _cleaned(value, 0)


def _cleaned(value: object, depth: int) -> object:
    if depth > DEPTH:
        raise ValueError(f"it is nested deeper than {DEPTH} levels")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(inner, depth + 1) for inner in value]
    if isinstance(value, dict):
        return _no_twins([(clean(key), _cleaned(inner, depth + 1)) for key, inner in value.items()])
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    if math.isfinite(number := float(digits)):
        return number
    raise ValueError(f"{digits} is too large a number")


def _whole(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # Python reads no more than some thousands, since that takes ever longer
        raise ValueError(
            f"it holds an integer of {len(digits.lstrip('-')):,} digits, which is too long; send it as a string"
        ) from None


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


def _json_name(value: object) -> str:
    return {list: "a list", str: "a string", bool: "a boolean"}.get(type(value), "a number")


_READER = json.JSONDecoder(
    parse_constant=_no_constant, parse_float=_finite, parse_int=_whole, object_pairs_hook=_no_twins
)
"""Made once: it is used for every call."""

json_text = json.JSONEncoder(ensure_ascii=False).encode
"""Writes JSON data as its text, characters as they are; made once, for the same reason."""
