"""A Python signature as a JSON Schema, and the strict reading of a call's arguments by it. Book chapters 4 and 6.

pydantic does the work. What is ours: which parameters a model may see, and the order of trust. Arguments are
first read strictly. Only where that fails may a value be read in another way, and only one that
can't change its meaning: the text `"5"` as the integer 5, never `"3.7"` or `true`.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import typing
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, get_args, get_origin

from harness_nb.errors import UsageError
from harness_nb.seams import Call, Run

if TYPE_CHECKING:
    from types import FrameType

    from pydantic import BaseModel, ValidationError

INJECTED: dict[object, str] = {Run: "run", Call: "call"}
"""Annotations whose parameters the harness fills in; a model never sees them."""


class Signature:
    """What a function's parameters mean to a model, and how to call it with a model's arguments."""

    def __init__(self, function: Callable[..., object], name: str, scope: Mapping[str, object]) -> None:
        """Read the signature; `scope` holds names that string annotations may use. Raises UsageError."""
        hints = _hints(function, name, scope)
        bound = _bound_by_partial(function)
        self.injected: dict[str, str] = {}
        self._model: type[BaseModel]
        fields: dict[str, tuple[object, object]] = {}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.name in bound:
                continue
            annotation = hints.get(parameter.name, typing.Any)
            if annotation in INJECTED.keys():  # noqa: SIM118 - an annotation may be unhashable
                self.injected[parameter.name] = INJECTED[annotation]
                continue
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise UsageError(
                    f"Tool `{name}`: make `{parameter.name}` an ordinary parameter; calls are by name."
                )
            fields[parameter.name] = (annotation, parameter.default)
        self._names = list(fields)
        self._model = _model(name, fields)
        self.json_schema = _schema(self._model, name)

    def read(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments as valid JSON data, read strictly; raise ValueError naming every fault with its path."""
        checked, _ = self._read(arguments)
        return checked

    def values(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments as the Python values the function wants; those left out are not in it."""
        _, model = self._read(arguments)
        return {self._names[int(field[1:])]: getattr(model, field) for field in model.model_fields_set}

    def _read(self, arguments: Mapping[str, object]) -> tuple[dict[str, object], BaseModel]:
        from pydantic import ValidationError

        current: dict[str, object] = dict(arguments)
        while True:
            try:
                return current, self._model.model_validate_json(json.dumps(current), strict=True)
            except ValidationError as fault:
                changed = _reread(current, fault)
                if changed is None:
                    raise ValueError(_faults(fault)) from None
                current = changed


def _model(name: str, fields: Mapping[str, tuple[object, object]]) -> type[BaseModel]:
    from pydantic import ConfigDict, Field, create_model
    from pydantic.errors import PydanticUserError

    # Fields are named p0, p1, ... with the parameter's name as alias: a parameter may be called `schema` or `_x`.
    definitions: dict[str, object] = {}
    for index, (parameter, (annotation, default)) in enumerate(fields.items()):
        given = {} if default is inspect.Parameter.empty else {"default": default}
        described = Field(alias=parameter, description=_words(annotation) or None, **given)  # type: ignore[call-overload]
        definitions[f"p{index}"] = (annotation, described)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False, protected_namespaces=())
    try:
        model: type[BaseModel] = create_model("Arguments", __config__=config, **definitions)  # type: ignore[call-overload]
    except (PydanticUserError, NameError, TypeError) as fault:
        why = str(fault).splitlines()[0].rstrip(".")
        raise UsageError(
            f"Tool `{name}` has a parameter that JSON can't carry: {why}. Use plain types, dataclasses or pydantic models."
        ) from fault
    return model


def _schema(model: type[BaseModel], name: str) -> dict[str, object]:
    from pydantic.errors import PydanticInvalidForJsonSchema
    from pydantic.json_schema import PydanticJsonSchemaWarning

    try:
        with warnings.catch_warnings():
            # A default that JSON can't carry is left out of the schema; the call still uses it.
            warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
            schema = model.model_json_schema(by_alias=True)
    except PydanticInvalidForJsonSchema as fault:
        raise UsageError(
            f"Tool `{name}` has a parameter that JSON Schema can't describe: {fault.message}."
        ) from fault
    schema.pop("title", None)
    for parameter in schema.get("properties", {}).values():
        parameter.pop("title", None)
    schema.setdefault("properties", {})
    return typing.cast("dict[str, object]", _strict_json(schema))


def _strict_json(value: object) -> object:
    """Drop defaults that JSON has no word for, such as infinity."""
    if isinstance(value, dict):
        return {
            key: _strict_json(inner)
            for key, inner in value.items()
            if not (key == "default" and isinstance(inner, float) and not math.isfinite(inner))
        }
    if isinstance(value, list):
        return [_strict_json(inner) for inner in value]
    return value


def _hints(function: Callable[..., object], name: str, scope: Mapping[str, object]) -> dict[str, object]:
    target = function
    while isinstance(target, functools.partial):
        target = target.func
    if not inspect.isroutine(target):
        target = type(target).__call__
    try:
        return typing.get_type_hints(inspect.unwrap(target), localns=dict(scope), include_extras=True)
    except NameError as fault:
        raise UsageError(
            f"Tool `{name}`: its annotations name {fault.name!r}, which is not defined yet."
        ) from fault


def _bound_by_partial(function: Callable[..., object]) -> set[str]:
    # inspect drops positional arguments of a partial by itself, and keeps keywords as defaults.
    return set(function.keywords) if isinstance(function, functools.partial) else set()


def _words(annotation: object) -> str:
    """Find the description in `Annotated[int, "how many"]`."""
    if get_origin(annotation) is Annotated:
        return next((extra for extra in get_args(annotation)[1:] if isinstance(extra, str)), "")
    return ""


def _reread(arguments: dict[str, object], fault: ValidationError) -> dict[str, object] | None:
    """Return the arguments with one faulty value read from its text, or None where no value can be."""
    for error in fault.errors(include_url=False, include_context=False):
        value = error["input"]
        other: object = None
        if isinstance(value, str) and error["type"] != "extra_forbidden":
            try:
                other = json.loads(value)
            except ValueError:
                continue
        elif isinstance(value, float) and error["type"] == "int_type" and value.is_integer():
            other = int(value)
        if other is None or isinstance(other, str) or not _wanted(error["type"], other):
            continue
        changed = json.loads(json.dumps(arguments))
        if _put(changed, error["loc"], value, other):
            return typing.cast("dict[str, object]", changed)
    return None


def _wanted(error: str, value: object) -> bool:
    """Tell whether a value read from text is of the very type that the schema asked for."""
    kinds: dict[str, type | tuple[type, ...]] = {
        "int_type": int,
        "float_type": (int, float),
        "bool_type": bool,
        "list_type": list,
        "tuple_type": list,
        "set_type": list,
        "dict_type": dict,
        "model_type": dict,
        "dataclass_type": dict,
        "dataclass_exact_type": dict,
        "model_attributes_type": dict,
    }
    kind = kinds.get(error)
    return kind is not None and isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _put(data: object, path: tuple[int | str, ...], old: object, new: object) -> bool:
    """Replace the value at `path`, if it is there and is `old`."""
    *steps, last = path
    try:
        for step in steps:
            data = data[step]  # type: ignore[index]
        if data[last] != old:  # type: ignore[index]
            return False
        data[last] = new  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _faults(fault: ValidationError) -> str:
    """Write every fault with its path, for the model to mend."""
    lines = []
    for error in fault.errors(include_url=False, include_context=False):
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error["loc"]).lstrip(
            "."
        )
        if error["type"] == "missing":
            lines.append(f"{path}: missing, and required")
        elif error["type"] == "extra_forbidden":
            lines.append(f"{path}: no such parameter")
        else:
            got = json.dumps(error["input"])
            lines.append(f"{path}: {error['msg']}; got {got if len(got) <= 100 else got[:100] + '...'}")
    return "\n".join(lines)


def caller_scope(frame: FrameType | None) -> dict[str, object]:
    """Return the names visible where a tool is defined, so that string annotations of local classes resolve."""
    return {**frame.f_globals, **frame.f_locals} if frame is not None else {}
