"""Picking one value out of JSON: a tool that saves a model from reading all of it. Book chapters 4, 6 and 11."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from harness_nb.errors import ToolError
from harness_nb.strict import parse_json
from harness_nb.toolkit.web import web
from harness_nb.tools import Tool, tool
from harness_nb.workspace import Workspace, opened, reason

BYTES = 50_000_000
"""Largest JSON that is read."""

NAMES = 20
"""Most names listed of an object."""

STEP = re.compile(
    r"""\.?(?P<name>[^.\[\]"]+)|\.?\[(?P<index>-?\d+|\*)\]|\.?\[(?P<quoted>"(?:[^"\\]|\\.)*")\]"""
)

DESCRIPTION = """Pick values out of JSON by a path.

Give `file`, a JSON file in the workspace, or `data`, JSON text or the id of a long output such as `out-3`. `path` is
like `rows[0].name`; `[-1]` is the last item, `[*]` every item, `["a.b"]` a name with dots; empty for all of it. Changes
nothing. Returns the value as JSON, text without quotes. A path that leads nowhere is an error that lists what is there.
Use it instead of reading a large JSON file."""

Kept = Callable[[str], str]
"""Returns a long output by its id. Raises ToolError."""


def data(
    workspace: str | Path | None = None, kept: Kept | None = None, *, allow_private: bool = False
) -> tuple[Tool, ...]:
    """Make `json_query` and `http_get`. `kept` finds long outputs by id; see `web` for `allow_private`."""
    return (querying(workspace, kept), *web(allow_private=allow_private))


def querying(workspace: str | Path | None = None, kept: Kept | None = None) -> Tool:
    """Make `json_query` for the files of a workspace, None for the current directory, and for long outputs."""

    def json_query(
        data: Annotated[str, "JSON text, or an output's id; empty for a file"] = "",
        path: Annotated[str, "such as rows[0].name"] = "",
        file: Annotated[str, "a JSON file, relative to the workspace"] = "",
    ) -> object:
        if bool(data) == bool(file):
            raise ToolError("Give either `data` or `file`.")
        text, name = data, "The data"
        if file:
            text, name = _text_of(Workspace(workspace), file), f"`{file[:200]}`"
        elif kept is not None and re.fullmatch(r"out-\d+", data):
            text, name = kept(data), f"`{data}`"
        try:
            value = parse_json(text.removeprefix("\ufeff"))
        except ValueError as fault:
            raise ToolError(f"{name} is not valid JSON: {fault}.{_slip(text, str(fault), file)}") from None
        return _picked(value, _steps(path), "")

    return tool(effects={"read"}, description=DESCRIPTION)(json_query)


def _slip(text: str, fault: str, file: str) -> str:
    """Name what was probably meant."""
    if fault.startswith("Extra data"):
        return " It holds more than one value, perhaps one a line: give one of them as `data`."
    return " If it is a file, give it as `file`." if not file and re.fullmatch(r"[\w./ -]+", text) else ""


def _text_of(workspace: Workspace, path: str) -> str:
    place = workspace.locate(path)
    try:
        with os.fdopen(opened(place), "rb") as file:
            found = file.read(BYTES + 1)
    except OSError as fault:
        raise ToolError(f"`{place.name}` can't be read: {reason(fault)}.") from None
    if len(found) > BYTES:
        raise ToolError(f"`{place.name}` has more than {BYTES:,} bytes: too large for this tool.")
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ToolError(f"`{place.name}` is not text in UTF-8.") from None


def _steps(path: str) -> list[str | int | None]:
    """Read a path: names, indices, and None for every item. Raises ToolError with the place of the fault."""
    text = path.strip().removeprefix("$").removeprefix(".")
    steps: list[str | int | None] = []
    at = 0
    while at < len(text):
        found = STEP.match(text, at)
        if found is None or (at == 0 and text[0] == "."):
            raise ToolError(
                f"`{path[:200]}` is not a path: it can't be read from `{text[at : at + 20]}` on. Write it like `rows[0].name`."
            )
        if found["name"] is not None:
            steps.append(None if found["name"] == "*" else found["name"])
        elif found["quoted"] is not None:
            steps.append(str(json.loads(found["quoted"], strict=False)))
        else:
            steps.append(None if found["index"] == "*" else int(found["index"]))
        at = found.end()
    return steps


def _picked(value: object, steps: list[str | int | None], where: str) -> object:
    """Follow the steps. Raises ToolError that says how far they led, and what is there."""
    for number, step in enumerate(steps):
        if step is None:
            inner = list(value.values()) if isinstance(value, dict) else value
            if not isinstance(inner, list):
                raise ToolError(f"{_place(where)} is {_kind(value)}: `[*]` needs a list or an object.")
            return [_picked(one, steps[number + 1 :], f"{where}[{index}]") for index, one in enumerate(inner)]
        value = _inner(value, step, where)
        where = f"{where}[{step}]" if isinstance(step, int) else f"{where}.{step}".removeprefix(".")
    return value


def _inner(value: object, step: str | int, where: str) -> object:
    if isinstance(value, list):
        index = int(step) if re.fullmatch(r"-?\d{1,18}", str(step)) else None
        if index is None:
            raise ToolError(
                f"{_place(where)} is {_kind(value)}: give an index such as [0], not `{str(step)[:80]}`."
            )
        if not -len(value) <= index < len(value):
            raise ToolError(f"{_place(where)} is {_kind(value)}: there is no [{index}].")
        return value[index]
    if isinstance(value, dict):
        if str(step) in value:
            return value[str(step)]
        near = difflib.get_close_matches(str(step), list(value)[:1_000], n=1)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        raise ToolError(f"{_place(where)} has no `{str(step)[:80]}`.{hint} It is {_kind(value)}.")
    raise ToolError(f"{_place(where)} is {_kind(value)}: it has no `{str(step)[:80]}`.")


def _place(where: str) -> str:
    return f"`{where[:200]}`" if where else "The whole"


def _kind(value: object) -> str:
    match value:
        case dict():
            names = ", ".join(f"`{name[:80]}`" for name in list(value)[:NAMES])
            more = f" and {len(value) - NAMES:,} more" if len(value) > NAMES else ""
            return f"an object with {names}{more}" if value else "an empty object"
        case list():
            return f"a list of {len(value):,} items" if len(value) != 1 else "a list of 1 item"
        case str():
            return "a text"
        case None:
            return "null"
        case bool():
            return "a boolean"
        case _:
            return "a number"


json_query, http_get = data()
