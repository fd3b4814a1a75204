"""What is wrong with a call's arguments: one value read in another way, or every fault told with its path. Book chapters 4 and 6.

Only a reading that can't change a value's meaning is taken: the text `"5"` as the integer 5, never `"3.7"` or `true`.
"""

from __future__ import annotations

import difflib
import json
import re
import typing
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from harness_nb.strict import parse_json

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

EXACT = 2**53
"""Up to here a float that is whole is one integer and no other."""

Location: TypeAlias = tuple[int | str, ...]


def reread(arguments: dict[str, object], fault: ValidationError) -> dict[str, object] | None:
    """Return the arguments with one faulty value read in another way, or None where no value can be."""
    for error in fault.errors(include_url=False):
        other = _other_reading(error)
        path = _path(arguments, error)
        if other is None or not path:
            continue
        changed = json.loads(json.dumps(arguments))
        if _put(changed, path, error["input"], other):
            return typing.cast("dict[str, object]", changed)
    return None


def _other_reading(error: ErrorDetails) -> object:
    """Read a value as the type that was asked for, if it can mean nothing else; None if not."""
    value, wanted = error["input"], error["type"]
    if isinstance(value, float):
        whole = wanted == "int_type" and value.is_integer() and abs(value) <= EXACT
        return int(value) if whole else None
    if not isinstance(value, str) or wanted == "extra_forbidden":
        return None
    try:
        other = parse_json(value)
    except ValueError:
        return None
    if wanted in {"literal_error", "enum"}:
        choices = re.split(", | or ", error["ctx"]["expected"])
        return other if not isinstance(other, str) and repr(other) in choices else None
    return other if _wanted(wanted, other) else None


def _wanted(error: str, value: object) -> bool:
    """Tell whether a value read from text is of the very type that the schema asked for."""
    kinds: dict[str, type | tuple[type, ...]] = {
        "int_type": int,
        "float_type": (int, float),
        "bool_type": bool,
        "list_type": list,
        "tuple_type": list,
        "set_type": list,
        "frozen_set_type": list,
        "dict_type": dict,
        "model_type": dict,
        "dataclass_type": dict,
        "dataclass_exact_type": dict,
        "model_attributes_type": dict,
    }
    kind = kinds.get(error)
    return kind is not None and isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _path(arguments: object, error: ErrorDetails) -> Location:
    """Return where in the arguments the fault is, without pydantic's names for the branches of a union."""
    steps: list[int | str] = []
    data = arguments
    for place, step in enumerate(error["loc"], 1):
        within = isinstance(data, list) and isinstance(step, int) and step < len(data)
        if within or (isinstance(data, dict) and step in data):
            data = data[step]  # type: ignore[index]
        elif error["type"] not in {"missing", "missing_argument"} or place < len(error["loc"]):
            continue
        steps.append(step)
    return tuple(steps)


def _put(data: object, path: Location, old: object, new: object) -> bool:
    """Replace the value at `path` if it is `old`; a fault may be about a key instead."""
    *steps, last = path
    for step in steps:
        data = data[step]  # type: ignore[index]
    if data[last] != old:  # type: ignore[index]
        return False
    data[last] = new  # type: ignore[index]
    return True


def written_out(fault: ValidationError, arguments: object, names: Iterable[str]) -> str:
    """Write every fault with its path, one line for each value, for the model to mend."""
    errors = fault.errors(include_url=False)
    paths = [_path(arguments, error) for error in errors]
    lines: dict[str, str] = {}
    for error, path in zip(errors, paths, strict=True):
        in_union = len(path) < len(error["loc"])
        if in_union and any(other != path and other[: len(path)] == path for other in paths):
            continue  # another branch fits better: its fault lies deeper
        where, what = _written(path), _said(error, path, names)
        if where not in lines:
            lines[where] = what
        elif what not in lines[where]:
            lines[where] += f", or {what.removeprefix('should be ')}"
    got = {
        _written(path): _shown(error["input"])
        for error, path in zip(errors, paths, strict=True)
        if error["type"]
        not in {"missing", "missing_argument", "extra_forbidden", "unexpected_keyword_argument"}
    }
    return "\n".join(
        f"{where or 'arguments'}: {what}" + (f"; got {got[where]}" if where in got else "")
        for where, what in lines.items()
    )


def _said(error: ErrorDetails, path: Location, names: Iterable[str]) -> str:
    match error["type"]:
        case "missing" | "missing_argument":
            return "missing, and required"
        case "extra_forbidden" if len(path) == 1:
            near = difflib.get_close_matches(str(path[0]), names, n=1)
            known = ", ".join(f"`{name}`" for name in names) or "none"
            return "no such parameter; " + (f"did you mean `{near[0]}`?" if near else f"there are: {known}")
        case "extra_forbidden" | "unexpected_keyword_argument":
            return "no such field"
        case _:
            words = re.sub(r"^(Input should|Value error,|Assertion failed,) ?", "", error["msg"])
            should = "should " if error["msg"].startswith("Input should") else ""
            return ("as a key, " if error["loc"][-1:] == ("[key]",) else "") + should + words


def _written(path: Location) -> str:
    """Write a path as one would in Python: `points[2].x`, `prices["a b"]`."""
    text = ""
    for step in path:
        plain = isinstance(step, str) and step.isidentifier()
        text += (f".{step}" if text else str(step)) if plain else f"[{json.dumps(step, ensure_ascii=False)}]"
    return text


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 100 else text[:100] + "..."
