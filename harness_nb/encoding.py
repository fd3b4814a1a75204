"""A transcript's entries as plain JSON data, and back, equal: what stores and recordings keep. Book chapter 21."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any, get_args

from harness_nb.messages import PARTS, Decision, Entry, Image, Message, Part, Role, Text, ToolResult, Usage


def encode(entry: Entry) -> dict[str, object]:
    """Turn a message or a decision into plain JSON data; `decode` turns it back, equal."""
    if isinstance(entry, Decision):
        changes = {key: [encode(message) for message in shown] for key, shown in entry.changes.items()}
        return {
            "kind": "decision",
            "by": entry.by,
            "why": entry.why,
            "changes": changes,
            "undoes": entry.undoes,
            "pins": list(entry.pins),
            "loads": list(entry.loads),
            "before": entry.before,
            "after": entry.after,
            "usage": asdict(entry.usage),
            "id": entry.id,
        }
    parts = [_encode_part(part) for part in entry.parts]
    return {"kind": "message", "role": entry.role, "parts": parts, "id": entry.id, "at": entry.at.isoformat()}


def decode(data: Mapping[str, object]) -> Entry:
    """Rebuild what `encode` made. Raises ValueError for data that it did not make."""
    try:
        if data["kind"] == "decision":
            changes = {key: tuple(decode(m) for m in shown) for key, shown in data["changes"].items()}  # type: ignore[attr-defined]
            return _decided(data, changes)  # type: ignore[arg-type]
        if data["kind"] == "message":
            if data["role"] not in get_args(Role):
                raise ValueError(f"not a transcript entry: role {data['role']!r}")
            parts = tuple(_decode_part(part) for part in data["parts"])  # type: ignore[attr-defined]
            _check("id", data["id"], str)
            return Message(data["role"], parts, data["id"], datetime.fromisoformat(data["at"]))  # type: ignore[arg-type]
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"not a transcript entry: {fault!r}") from fault
    raise ValueError(f"not a transcript entry: kind {data['kind']!r}")


def _decided(data: Mapping[str, Any], changes: Mapping[str, tuple[Message, ...]]) -> Decision:
    """Make the decision; one written before there were pins, loads and counts has none."""
    for name in ("by", "why", "undoes", "id"):
        _check(name, data[name], str)
    for name in ("before", "after"):
        _check(name, data.get(name, 0), int)
    for each in (*data.get("pins", ()), *data.get("loads", ())):
        _check("name", each, str)
    for each in (message for shown in changes.values() for message in shown):
        _check("message", each, Message)
    return Decision(
        data["by"],
        data["why"],
        changes,
        data["undoes"],
        pins=tuple(data.get("pins", ())),
        loads=tuple(data.get("loads", ())),
        before=data.get("before", 0),
        after=data.get("after", 0),
        usage=decode_usage(data.get("usage", {})),
        id=data["id"],
    )


def _encode_part(part: Part) -> dict[str, object]:
    data: dict[str, object] = {"kind": part.kind}
    for item in fields(part):
        value = getattr(part, item.name)
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode()
        elif isinstance(value, tuple):
            value = [_encode_part(inner) for inner in value]
        data[item.name] = value
    return data


def _decode_part(data: Mapping[str, object]) -> Part:
    values = {key: value for key, value in data.items() if key != "kind"}
    kind = PARTS[str(data["kind"])]
    if kind is Image:
        values["data"] = base64.b64decode(str(values["data"]))
    if kind is ToolResult:
        content = tuple(_decode_part(part) for part in values["content"])  # type: ignore[attr-defined]
        for part in content:
            _check("content", part, (Text, Image))
        values["content"] = content
    for item in fields(kind):
        if item.name in values and item.type in PLAIN:
            _check(item.name, values[item.name], PLAIN[str(item.type)])
    return kind(**values)  # type: ignore[arg-type]


MOST = 10**15
"""More tokens than can be: whoever wrote that down changed the record."""


def decode_usage(data: Mapping[str, object]) -> Usage:
    """Read what a request used; what a later version counts besides is passed over. Raises ValueError for no such thing."""
    if data and not {"input", "output"} <= data.keys():
        raise ValueError(f"not a usage: {sorted(data)}"[:200])
    found: dict[str, Any] = {}
    for item in fields(Usage):
        value: Any = data.get(item.name, item.default)
        _check(item.name, value, PLAIN[str(item.type)])
        if not 0 <= value < MOST:
            raise ValueError(f"not a usage: {item.name} is {str(value)[:40]}")
        found[item.name] = value
    return Usage(**found)


PLAIN: dict[str, type] = {"str": str, "int": int, "bool": bool}


def _check(name: str, value: object, kind: type | tuple[type, ...]) -> None:
    """Raise ValueError for a value that could not have been written: somebody changed it."""
    if not isinstance(value, kind):
        raise ValueError(f"not a transcript entry: {name} {value!r}"[:200])  # noqa: TRY004 - it is the data that is wrong
