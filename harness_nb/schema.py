"""A Python signature as a JSON Schema, and the strict reading of a call's arguments by it. Book chapters 4 and 6.

pydantic does the work. What is ours: which parameters a model may see, and the order of trust. Arguments are
first read strictly. Only where that fails may a value be read in another way (see faults.py).
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Union, get_args, get_origin

from harness_nb.errors import UsageError
from harness_nb.faults import reread, written_out
from harness_nb.seams import Call, Run

if TYPE_CHECKING:
    from types import FrameType

    from pydantic import BaseModel

INJECTED: dict[object, str] = {Run: "run", Call: "call"}
"""Annotations whose parameters the harness fills in; a model never sees them."""


class Signature:
    """What a function's parameters mean to a model, and how to call it with a model's arguments."""

    def __init__(self, function: Callable[..., object], name: str, scope: Mapping[str, object]) -> None:
        """Read the signature; `scope` holds names that string annotations may use. Raises UsageError."""
        from pydantic_core import to_json  # once, and not for every call

        code = innermost(function)
        self.is_async = inspect.iscoroutinefunction(code) or inspect.isasyncgenfunction(code)
        """Whether calling the function gives something to await, or to go through asynchronously."""
        hints = _hints(function, name, scope)
        bound = _bound_by_partial(function)
        self.injected: dict[str, str] = {}
        self._model: type[BaseModel]
        fields: dict[str, tuple[object, object]] = {}
        for parameter in _parameters(function, name):
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.name in bound:
                continue
            annotation = hints.get(parameter.name, typing.Any)
            if kind := _injected(annotation):
                self.injected[parameter.name] = kind
                continue
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise UsageError(
                    f"Tool `{name}`: make `{parameter.name}` an ordinary parameter; calls are by name."
                )
            fields[parameter.name] = (annotation, parameter.default)
        self._names = list(fields)
        self._model = _model(name, fields)
        self._to_json = to_json
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
        current: dict[str, object] = dict(arguments)
        while True:
            try:
                return current, self._model.model_validate_json(self._to_json(current), strict=True)
            except (RecursionError, ValueError) as fault:
                current = self._mended(current, fault)

    def _mended(self, arguments: dict[str, object], fault: Exception) -> dict[str, object]:
        """Return the arguments with one value read in another way; raise ValueError where none can be."""
        from pydantic import ValidationError

        if isinstance(fault, ValidationError):
            if (changed := reread(arguments, fault)) is not None:
                return changed
            raise ValueError(written_out(fault, arguments, self._names)) from None
        raise ValueError("the arguments are nested too deeply, or hold half a character") from None


def _model(name: str, fields: Mapping[str, tuple[object, object]]) -> type[BaseModel]:
    from pydantic import ConfigDict, Field, create_model
    from pydantic.errors import PydanticUserError

    # Fields are named p0, p1, ... with the parameter's name as alias: a parameter may be called `schema` or `_x`.
    definitions: dict[str, object] = {}
    for index, (parameter, (annotation, default)) in enumerate(fields.items()):
        given: dict[str, object] = {} if default is inspect.Parameter.empty else {"default": default}
        if words := _words(annotation):
            given["description"] = words
        described = Field(alias=parameter, **given)  # type: ignore[call-overload]
        definitions[f"p{index}"] = (annotation, described)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False, protected_namespaces=())
    try:
        model: type[BaseModel] = create_model("Arguments", __config__=config, **definitions)  # type: ignore[call-overload]
    except (PydanticUserError, NameError, TypeError) as fault:
        if len(fields) > 1:
            for parameter, field in fields.items():
                _model(name, {parameter: field})  # raises for the one at fault
        why = str(fault).splitlines()[0].rstrip(".")
        raise UsageError(
            f"Tool `{name}`: JSON can't carry its parameter `{', '.join(fields)}`: {why}. "
            "Use plain types, dataclasses or pydantic models."
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
            if not (key == "default" and _not_json(inner))
        }
    if isinstance(value, list):
        return [_strict_json(inner) for inner in value]
    return value


def _not_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError):
        return True
    return False


def _parameters(function: Callable[..., object], name: str) -> Iterable[inspect.Parameter]:
    try:
        found = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError) as fault:
        raise UsageError(
            f"Tool `{name}`: Python can't tell its parameters; wrap it in a function of your own."
        ) from fault
    if found and found[0].name in {"self", "cls"} and found[0].annotation is inspect.Parameter.empty:
        raise UsageError(f"Tool `{name}` is a method without its object: write tool(thing.{name}) instead.")
    return found


def _hints(function: Callable[..., object], name: str, scope: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters' annotations with names in strings looked up; what is returned may stay unknown."""
    target = _code(function)

    def only_parameters() -> None: ...

    only_parameters.__annotations__ = {
        key: value for key, value in _annotations(target).items() if key != "return"
    }
    names = getattr(target, "__globals__", {})
    try:
        return typing.get_type_hints(only_parameters, names, dict(scope), include_extras=True)
    except NameError as fault:
        raise UsageError(
            f"Tool `{name}`: its annotations name {fault.name!r}, which is not defined yet."
        ) from fault
    except (TypeError, AttributeError, SyntaxError) as fault:
        raise UsageError(f"Tool `{name}`: one of its annotations is not a type: {fault}.") from fault


def innermost(function: Callable[..., object]) -> Callable[..., object]:
    """Return what a partial, or a partial of one, calls in the end."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _code(function: Callable[..., object]) -> Callable[..., object]:
    """Find the function that was written with `def`, inside partials, wrappers and callable objects."""
    target = innermost(function)
    if not inspect.isroutine(target):
        target = type(target).__call__
    return typing.cast("Callable[..., object]", inspect.unwrap(target))


def _annotations(target: Callable[..., object]) -> dict[str, object]:
    if sys.version_info >= (3, 14):  # evaluated late there: leave what is unknown as it is written
        from annotationlib import Format

        return inspect.get_annotations(target, format=Format.FORWARDREF)
    return inspect.get_annotations(target)


def _injected(annotation: object) -> str:
    """Tell what the harness fills in for `Run`, `Call`, `Run | None`; empty for a parameter of the model's."""
    wrapped = get_origin(annotation) in {Annotated, Union, types.UnionType}
    options = get_args(annotation) if wrapped else (annotation,)
    return next(
        (kind for wanted, kind in INJECTED.items() if any(wanted is option for option in options)), ""
    )


def _bound_by_partial(function: Callable[..., object]) -> set[str]:
    # inspect drops positional arguments of a partial by itself, and keeps keywords as defaults.
    return set(function.keywords) if isinstance(function, functools.partial) else set()


def _words(annotation: object) -> str:
    """Find the description in `Annotated[int, "how many"]`."""
    if get_origin(annotation) is Annotated:
        return next((extra for extra in get_args(annotation)[1:] if isinstance(extra, str)), "")
    return ""


def caller_scope(frame: FrameType | None, function: Callable[..., object]) -> dict[str, object]:
    """Return the local names where a tool is defined, so that string annotations of local classes resolve.

    A function from another module is read by that module's names alone.
    """
    if frame is None or frame.f_globals is not getattr(_code(function), "__globals__", None):
        return {}
    return dict(frame.f_locals)
