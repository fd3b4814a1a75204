"""OpenAI's models by the Responses API, through the openai SDK's client: a `Model`. Book chapters 3 and 5.

    OpenAI("gpt-6-mini")                                        key from OPENAI_API_KEY
    OpenAI("gpt-6", AsyncAzureOpenAI(...), effort="high")

Nothing is stored at the provider: the whole conversation goes with each request. A reasoning item comes
encrypted, is kept whole, and goes back next to what it led to, or not at all.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

from harness_nb.messages import (
    Image,
    Message,
    Opaque,
    Part,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from harness_nb.providers.assembly import Assembly, guessed, reply
from harness_nb.providers.openai_stream import NOTES, VENDOR, Turn
from harness_nb.providers.spelling import (
    Forms,
    WrittenTools,
    arguments,
    fields,
    quoted,
    spoken_names,
    token,
    wire_json,
)
from harness_nb.providers.wire import Wire
from harness_nb.seams import Reply, Request, Run

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Data: TypeAlias = dict[str, object]

NEW = re.compile(r"gpt-(5\.([4-9]|\d\d)|[6-9]|1\d)")
"""Models from 5.4 on, whose API searches tools."""


class OpenAI:
    """An OpenAI model. `client` may be any of the SDK's async clients; its own retries are turned off.

    `effort` is how hard it thinks, `summary` whether it tells of it, `max_output` the most output tokens of
    a turn, None for the model's own limit; `tool_search` lets the API search tools that are deferred (default:
    where we know that it can); `extra` is put into the body as it is; `idle` is how many seconds of silence
    end a stream (a model that thinks hard may be silent for minutes).
    """

    def __init__(
        self,
        model: str,
        client: object | None = None,
        *,
        max_output: int | None = None,
        effort: Effort | None = None,
        summary: Literal["auto", "concise", "detailed"] | None = None,
        tool_search: bool | None = None,
        extra: Mapping[str, object] | None = None,
        idle: float = 300,
    ) -> None:
        self.name = model
        self._wire = Wire("openai", client, {}, idle)
        self.host = self._wire.host
        """The name of the server that is asked."""
        self._max_output = max_output
        reasoning = {key: value for key, value in (("effort", effort), ("summary", summary)) if value}
        self._settings = {"model": model, **({"reasoning": reasoning} if reasoning else {})}
        self._asking = {
            "store": False,
            "stream": True,
            "include": ["reasoning.encrypted_content"],
            **(extra or {}),
        }
        known = self._wire.official and bool(NEW.match(model))
        self.searches_tools = known if tool_search is None else tool_search
        """Whether its API searches tools that are deferred."""
        self._tools = WrittenTools(_tool, {"type": "tool_search"} if self.searches_tools else None)

    def __repr__(self) -> str:
        return f"OpenAI({self.name!r})"

    async def __call__(self, request: Request, run: Run) -> Reply:
        """Ask once, streaming to `run`. Raises ProviderError, or UsageError where the package or a key is missing."""
        limit = request.max_output or self._max_output
        body = self._body(request, run, {**self._asking, **({"max_output_tokens": limit} if limit else {})})
        turn = Turn(Assembly(run, spoken_names(request.tools)))
        await self._wire.read("/responses", body, turn)
        parts = turn.assembly.parts()
        return reply(parts, turn.stop, turn.usage or guessed(body, parts), turn.detail, limit)

    async def count_tokens(self, request: Request, run: Run | None = None) -> int:
        """Ask the provider how many input tokens this request has."""
        answer = await self._wire.answer("/responses/input_tokens", self._body(request, run or Run(), {}))
        return cast("int", answer["input_tokens"])

    async def close(self) -> None:
        """Close the connections made on this event loop."""
        await self._wire.close()

    def _body(self, request: Request, run: Run, more: Mapping[str, object]) -> bytes:
        given = {**self._settings, **more}
        if request.instructions.strip():
            given["instructions"] = request.instructions
        parts = [fields(given)]
        seen, hidden = self._tools.of(request.tools, run)
        if seen:
            parts.append(b'"tools":[%b]' % b",".join([*seen, *hidden]))
        forms = cast("Forms[bytes]", run.state.setdefault(self, Forms(form)))
        parts.append(b'"input":[%b]' % b",".join(items for items in forms.of(request.messages) if items))
        return b"{%b}" % b",".join(parts)


def _tool(name: str, description: str, schema: Mapping[str, object]) -> Data:
    # Not strict: that would make optional parameters required.
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": schema,
        "strict": False,
    }


def form(message: Message) -> bytes:
    """Write a message as input items, with commas between."""
    match message.role:
        case "assistant":
            return b",".join(_assistant_items(message.parts))
        case "system":
            return _said("developer", [_input(Text(message.text))]) if message.text.strip() else b""
        case _:
            items = [_result(part) for part in message.parts if isinstance(part, ToolResult)]
            items += [p.block.encode() for p in message.parts if isinstance(p, Opaque) and p.vendor == VENDOR]
            content = [_input(part) for part in message.parts if _is_input(part)]
            return b",".join([*items, _said("user", content)] if content else items)


def _assistant_items(parts: tuple[Part, ...]) -> list[bytes]:
    items: list[bytes] = []
    reasoning: list[bytes] = []  # waits for what it led to: alone, the API refuses it
    note: Data = {}
    for part in parts:
        match part:
            case Text(text) | Summary(text):
                item = (
                    _said("assistant", [{"type": "output_text", "text": text}], note) if text.strip() else b""
                )
                note = {}
            case ToolCall(identity, name):
                called = {"type": "function_call", "call_id": token(identity), "name": token(name)}
                head, note = fields({**called, **note}), {}
                item = b'{%b,"arguments":%b}' % (head, quoted(arguments(part)))
            case Thinking(signature=signature, vendor=vendor):
                item = b""
                if vendor == VENDOR and '"encrypted_content":"' in signature:
                    reasoning.append(signature.encode())
            case Opaque(vendor, block) if vendor == VENDOR:
                note = _note(block)
                item = b"" if note else block.encode()
            case _:
                item = b""
        if item:
            items += [*reasoning, item]
            reasoning = []
    return items


def _note(block: str) -> Data:
    """Read the note that stands before a message or a call: its phase, or the namespace that its tool was found in."""
    return cast("Data", json.loads(block)) if block.startswith(NOTES) else {}


def _said(role: str, content: list[Data], more: Mapping[str, object] | None = None) -> bytes:
    return wire_json({"type": "message", "role": role, "content": content, **(more or {})})


def _is_input(part: Part) -> bool:
    return isinstance(part, Image) or (isinstance(part, Text | Summary) and bool(part.text.strip()))


def _input(part: Part) -> Data:
    if isinstance(part, Image):
        data = base64.b64encode(part.data).decode()
        return {"type": "input_image", "image_url": f"data:{part.media_type};base64,{data}"}
    return {"type": "input_text", "text": getattr(part, "text", "")}


def _result(result: ToolResult) -> bytes:
    return wire_json(
        {"type": "function_call_output", "call_id": token(result.call_id), "output": _output(result)}
    )


def _output(result: ToolResult) -> object:
    """Write a result's content: text where it is only text. There is no field for errors, so the text says it."""
    text = result.text if result.text.strip() else "(empty)"
    text = f"Error: {text}" if result.is_error else text
    if all(isinstance(part, Text) for part in result.content):
        return text
    pictures = [_input(part) for part in result.content if isinstance(part, Image)]
    return [_input(Text(text)), *pictures] if result.text.strip() else pictures
