"""A notebook's variables as a model may hear of them: only those named in `--with`, bounded, and without secrets."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sized
from dataclasses import fields, is_dataclass
from itertools import islice

from harness_nb.errors import UsageError
from harness_nb.redaction import is_secret_name, without_secrets
from harness_nb.results import CannotRead, as_content, bounded
from harness_nb.strict import clean

LIMIT = 2_000
"""Most characters of one variable's value that the model gets."""

TALLEST = 20
"""Most items of a list, a set or a dict that are looked at."""

DEEPEST = 8
"""Most levels of containers that are looked into."""

HIDDEN = "(a secret, left out)"

READ = 1_000_000
"""Characters of a value that are searched for secrets, before it is cut: half of one is no longer known as one."""


def described(name: str, scope: Mapping[str, object]) -> str:
    """Tell a model of one variable: its type, its size and the head of its value. Raises UsageError if there is none."""
    if name not in scope or not name.isidentifier():
        raise UsageError(_missing(name, scope))
    value = scope[name]
    kind = f"{type(value).__name__}{extent(value)}"
    return f"The notebook's variable `{name}` ({kind}):\n{shown(name, value)}"


def shown(name: str, value: object) -> str:
    """Write a value as the model gets it: bounded, and with secrets left out."""
    if is_secret_name(name):
        return HIDDEN
    if value is None:
        return "None"
    try:
        if isinstance(value, Iterator):
            return "(not read: reading it would use it up)"
        content = as_content(_without_secrets(value), None)
    except CannotRead as fault:
        return f"({str(fault).replace('the tool returned a value', 'it is')})"
    except Exception as fault:  # noqa: BLE001 - a value's own code may raise anything
        return f"(it can't be read: {type(fault).__name__})"
    text = "\n".join(getattr(part, "text", "(a picture)") for part in content)
    return bounded(_cleared(text), LIMIT)


def _cleared(text: str) -> str:
    """Leave secrets out, of a huge text near both its ends alone: nothing else of it is shown."""
    if len(text) <= READ:
        return without_secrets(text, HIDDEN)
    half = READ // 2
    return without_secrets(text[:half], HIDDEN) + text[half:-half] + without_secrets(text[-half:], HIDDEN)


def _without_secrets(value: object, above: tuple[int, ...] = ()) -> object:
    """Return the head of a value's data with what stands under a secret's name left out; `above` is what it is in."""
    if isinstance(value, str | bytes | bool | int | float | type | None) or id(value) in above:
        return value
    if len(above) > DEEPEST:
        return "..."
    above = (*above, id(value))
    if isinstance(value, Mapping):
        kept = {key: _under(str(key), inner, above) for key, inner in islice(value.items(), TALLEST)}
        return kept | ({"...": f"{len(value) - TALLEST:,} more"} if len(value) > TALLEST else {})
    if type(value) in {list, tuple, set, frozenset}:
        items: list[object] = list(value)  # type: ignore[call-overload]
        head = [_without_secrets(item, above) for item in items[:TALLEST]]
        return [*head, f"... {len(items) - TALLEST:,} more"] if len(items) > TALLEST else head
    if is_dataclass(value):
        return {item.name: _under(item.name, getattr(value, item.name), above) for item in fields(value)}
    for named in ("_asdict", "model_dump"):  # of a named tuple, of a pydantic model
        if callable(getattr(type(value), named, None)):  # its type's: a proxy answers to any name itself
            return _without_secrets(getattr(value, named)(), above)
    return _without_secret_columns(value)


def _without_secret_columns(value: object) -> object:
    """Return a frame of pandas or polars without the columns that have a secret's name."""
    if library(value) not in {"pandas", "polars"}:
        return value
    if not hasattr(value, "columns"):
        return HIDDEN if is_secret_name(str(getattr(value, "name", ""))) else value
    kept = [column for column in value.columns if not is_secret_name(str(column))]
    return value if len(kept) == len(value.columns) else value[kept]  # type: ignore[index]


def _under(name: str, value: object, above: tuple[int, ...]) -> object:
    return HIDDEN if is_secret_name(name) else _without_secrets(value, above)


def library(value: object) -> str:
    """Name the package that a value's type is of, by which we know it without importing any."""
    return str(type(value).__module__).partition(".")[0]


def extent(value: object) -> str:
    """Say how large a value is, in the words of its kind."""
    try:
        shape = getattr(value, "shape", None)
        count = len(value) if isinstance(value, Sized) else None
    except Exception:  # noqa: BLE001 - as above
        return ""
    if isinstance(shape, tuple):
        # A lazy frame may not know its length.
        known = (f"{length:,}" if isinstance(length, int) else "?" for length in shape)
        return ", " + " x ".join(known) if shape else ""
    if isinstance(value, str):
        return f", {count:,} characters"
    return "" if count is None else f", {count:,} item{'' if count == 1 else 's'}"


def _missing(name: str, scope: Mapping[str, object]) -> str:
    if not name.isidentifier():
        return f"`{clean(name)}` is no variable's name: give a variable the value, and name that. Nothing was sent."
    names = [known for known in scope if not known.startswith("_")]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    hint = f"Did you mean `{near[0]}`?" if near else "Run the cell that makes it first."
    return f"No variable is called `{clean(name)}`. {hint} Nothing was sent."
