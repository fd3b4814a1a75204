"""Tool schemas as providers accept them: the same meaning, minus what one of them refuses. Used by the adapters.

A refused schema fails every request, even one that needs no tool. Ours are fine; those of foreign tools (MCP) may
lack `properties` or `items`, point to definitions that are not there, or choose between shapes at the top level.
Arguments are still checked against the original schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias, cast

Schema: TypeAlias = Mapping[str, object]

ONE = frozenset(
    {"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"}
    | {"unevaluatedProperties", "unevaluatedItems"}
)
"""Keywords that hold one schema."""
CHOICES = frozenset({"anyOf", "oneOf", "allOf"})
MANY = CHOICES | {"prefixItems"}
"""Keywords that hold a list of schemas."""
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords that hold schemas by name."""


def accepted(schema: object) -> dict[str, object] | None:
    """Return the schema as every provider here accepts it, or None where it can't describe a tool's arguments."""
    if not isinstance(schema, Mapping):
        return None
    kinds = schema.get("type", "object")
    if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
        return None
    whole = cast("Schema", _mended(schema, schema))
    kept = {key: value for key, value in whole.items() if key not in CHOICES | {"$ref", "required"}}
    properties, required = _parameters(whole, whole, 0)
    mended = {**kept, "type": "object", "properties": properties}
    return {**mended, "required": [name for name in properties if name in required]} if required else mended


def _mended(schema: object, root: Schema) -> object:
    if not isinstance(schema, Mapping):
        return schema
    mended: dict[str, object] = {}
    for key, value in schema.items():
        if key == "$ref" and _lookup(value, root) is None:
            continue  # a reference to nothing says nothing
        if key in ONE:
            mended[key] = _mended(value, root)
        elif key in MANY and isinstance(value, list):
            mended[key] = [_mended(item, root) for item in value]
        elif key in NAMED and isinstance(value, Mapping):
            mended[key] = {name: _mended(item, root) for name, item in value.items()}
        else:
            mended[key] = value
    kinds = mended.get("type")
    if kinds == "array" or (isinstance(kinds, list) and "array" in kinds):
        mended.setdefault("items", {})
    return mended


def _lookup(reference: object, root: Schema) -> object | None:
    """Find what a `$ref` names inside the schema itself; None if it is nowhere."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: object = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found


def _parameters(schema: Schema, root: Schema, depth: int) -> tuple[dict[str, object], set[str]]:
    """Gather the parameters of an object, of its top-level choices too; required is what each choice requires."""
    given, needed = schema.get("properties"), schema.get("required")
    properties: dict[str, object] = dict(given) if isinstance(given, Mapping) else {}
    required = {name for name in needed if isinstance(name, str)} if isinstance(needed, list) else set()
    if depth > 8:  # a schema that is made of itself
        return properties, required
    for every, branches in _alternatives(schema, root):
        gathered = [_parameters(branch, root, depth + 1) for branch in branches]
        for name, value in (pair for named, _ in gathered for pair in named.items()):
            other = properties.setdefault(name, value)
            if other != value:
                properties[name] = {"anyOf": [other, value]}
        demands = [names for _, names in gathered]
        required |= set.union(*demands) if every else set.intersection(*demands)
    return properties, required


def _alternatives(schema: Schema, root: Schema) -> Iterator[tuple[bool, list[Schema]]]:
    """Yield the schemas that this one is made of, with whether all of them hold at once."""
    for key in ("$ref", "allOf", "anyOf", "oneOf"):
        value = schema.get(key)
        items = [schema] if key == "$ref" and value else value if isinstance(value, list) else []
        found = [_lookup(i["$ref"], root) if isinstance(i, Mapping) and "$ref" in i else i for i in items]
        if branches := [item for item in found if isinstance(item, Mapping)]:
            yield key in {"$ref", "allOf"}, branches
