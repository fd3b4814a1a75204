"""The first of the local model's two prompts: which tool, with which arguments, or none. Bound by a JSON schema.

Theory of operation. A model this small does not call tools in any native format; it copies worked examples. So the
prompt holds a line and two examples for each tool, and the reply is held to a grammar: `{"tool": NAME, "args": {...}}`
or `{"tool": "none"}`. Everything up to the question is the same at every call with the same tools, so that its state
can be kept. The figures behind each choice are printed by tests/bench/local_quality.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from harness_nb.messages import ToolCall
from harness_nb.providers.local.conversation import EARLIER, QUESTION, Exchange, shortened
from harness_nb.seams import ToolSpec

Said: TypeAlias = dict[str, str]
Schema: TypeAlias = Mapping[str, object]

NONE = "none"
LEAN = [(NONE, -0.5)]
"""Added to the log odds of the word `none`, which the model is a little too fond of."""

WORDS = """\
You pick the tool for the user's message. Reply with JSON only.

Tools:
{tools}
none: only if no tool above fits"""

WORKED: Mapping[str, Sequence[tuple[str, dict[str, object]]]] = {
    "calc": (
        ("What is 12 times 30?", {"expression": "12 * 30"}),
        ("I had 50 euros and spent 8. What is left?", {"expression": "50 - 8"}),
    ),
    "read_file": (
        ("What is in plan.txt?", {"path": "plan.txt"}),
        ("Summarise docs/guide.md", {"path": "docs/guide.md"}),
    ),
}
"""Examples for the tools that ship with the harness."""

NO_TOOL = (
    "Hi there!",
    "Translate 'thank you' into German.",
    "Write a haiku about rain.",
    "Why do leaves fall?",
    "Who painted the Mona Lisa?",
    "What is the capital of Italy?",
)
"""Questions that need none: with fewer, it calls tools to greet people."""


def prefix(tools: Sequence[ToolSpec]) -> list[Said]:
    """Everything before the question: the tools and the worked examples."""
    lines = (f"{tool.name}({', '.join(_parameters(tool))}): {_first(tool)}" for tool in tools)
    said = [{"role": "system", "content": WORDS.format(tools="\n".join(lines))}]
    for question in NO_TOOL:
        said += _worked(question, {"tool": NONE})
    for tool in tools:
        for question, arguments in _examples(tool):
            said += _worked(question, {"tool": tool.name, "args": arguments})
    return said


def question(exchanges: Sequence[Exchange]) -> list[Said]:
    """What follows the prefix: earlier questions with what was picked for them, then the current one."""
    said = []
    for exchange in exchanges[:-1]:
        call = exchange.calls[0] if exchange.calls else None
        picked = {"tool": call.name, "args": call.replayed()} if call else {"tool": NONE}
        said += _worked(shortened(exchange.question, EARLIER), picked)
    return [*said, {"role": "user", "content": shortened(exchanges[-1].question, QUESTION)}]


def schema(tools: Sequence[ToolSpec]) -> dict[str, object]:
    """The JSON schema that the reply is held to."""
    choices: list[object] = [_choice(NONE)]
    definitions: dict[str, object] = {}
    for tool in tools:
        arguments = cast("dict[str, object]", _bound(_offered(tool), tool.name))
        for name, value in cast("Schema", tool.input_schema.get("$defs", {})).items():
            definitions[f"{tool.name}.{name}"] = _bound(value, tool.name)
        choices.append(_choice(tool.name, {"type": "object", "additionalProperties": False, **arguments}))
    return {"oneOf": choices, **({"$defs": definitions} if definitions else {})}


def picked(text: str, call_id: str) -> ToolCall | None:
    """The call that a reply asks for, None for none. A reply that was cut off keeps its broken arguments as they are."""
    try:
        reply = json.loads(text)
    except ValueError:
        name, _, arguments = text.partition('"args":')
        return ToolCall(call_id, name.partition('"tool":')[2].strip(' ",'), arguments.strip() or "{")
    if reply["tool"] == NONE:
        return None
    return ToolCall(call_id, reply["tool"], json.dumps(reply["args"], ensure_ascii=False))


def _worked(question: str, picked: object) -> list[Said]:
    answer = json.dumps(picked, ensure_ascii=False)
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def _choice(name: str, arguments: object = None) -> dict[str, object]:
    properties: dict[str, object] = {"tool": {"const": name}, **({"args": arguments} if arguments else {})}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


KEPT = frozenset(
    {
        "type",
        "enum",
        "const",
        "required",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
    }
)
"""Keywords that the engine's grammar knows and that hold no schemas."""


def _bound(schema: object, tool: str) -> object:
    """A tool's schema as the grammar takes it: no key that is not named, nothing that it cannot express."""
    if not isinstance(schema, Mapping):
        return schema
    bound: dict[str, object] = {key: value for key, value in schema.items() if key in KEPT}
    for key, value in schema.items():
        if key in {"anyOf", "oneOf", "allOf", "prefixItems"}:
            bound[key] = [_bound(item, tool) for item in cast("Sequence[object]", value)]
        elif key == "properties":
            bound[key] = {name: _bound(item, tool) for name, item in cast("Schema", value).items()}
            bound.setdefault("additionalProperties", False)
        elif key in {"items", "additionalProperties"}:
            bound[key] = _bound(value, tool)
        elif key == "$ref":
            bound[key] = str(value).replace("#/$defs/", f"#/$defs/{tool}.")
    return bound


def _first(tool: ToolSpec) -> str:
    """The first sentence or so of what the tool says of itself."""
    return " ".join(tool.description.split("\n\n")[0].split())[:200]


def _offered(tool: ToolSpec) -> Schema:
    """The tool's schema without optional parameters, if it has others: the model would invent values for them."""
    required = cast("Sequence[str]", tool.input_schema.get("required", ()))
    properties = cast("Schema", tool.input_schema.get("properties", {}))
    kept = {name: value for name, value in properties.items() if name in required} or properties
    return {**tool.input_schema, "properties": kept}


def _parameters(tool: ToolSpec) -> Schema:
    return cast("Schema", _offered(tool)["properties"])


def _examples(tool: ToolSpec) -> Iterator[tuple[str, dict[str, object]]]:
    """Two questions that a tool answers: ours, or made from its name, description and parameters."""
    ours = WORKED.get(tool.name, ())
    if ours and ours[0][1].keys() <= _parameters(tool).keys():
        yield from ours
        return
    for words, nth in ((_first(tool).rstrip(".") + " for", 0), (tool.name.replace("_", " "), 1)):
        arguments = _object(tool.input_schema, nth, tool.input_schema)
        told = ", ".join(v if isinstance(v, str) else json.dumps(v) for v in arguments.values())
        yield (f"{words} {told}" if told else words.removesuffix(" for")), arguments


def _object(schema: Schema, nth: int, root: Schema) -> dict[str, object]:
    """Return an example's object: what is required of it, and no more."""
    properties = cast("Schema", schema.get("properties", {}))
    required = cast("Sequence[str]", schema.get("required", ()))
    return {name: _value(name, properties.get(name), nth, root) for name in required}


def _value(name: str, schema: object, nth: int, root: Schema) -> object:
    """Return a value for an example, of the kind that the schema asks for."""
    if not isinstance(schema, Mapping):
        return "something"
    if reference := schema.get("$ref"):
        definitions = cast("Schema", root.get("$defs", {}))
        return _value(name, definitions.get(str(reference).removeprefix("#/$defs/")), nth, root)
    for key in ("anyOf", "oneOf", "allOf"):
        if choices := cast("Sequence[object]", schema.get(key)):
            return _value(name, choices[0], nth, root)
    if values := cast("Sequence[object]", schema.get("enum")):
        return values[nth % len(values)]
    match schema.get("type"):
        case "integer" | "number":
            return 7 + 5 * nth
        case "boolean":
            return nth == 0
        case "array":
            return [_value(name, schema.get("items"), nth, root)]
        case "object":
            return _object(schema, nth, root)
        case _:
            return f"{'other' if nth else 'some'} {name.replace('_', ' ')}"
