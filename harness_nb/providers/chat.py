"""Any server that speaks Chat Completions, through the openai SDK's client: a `Model`. Book chapters 3 and 5.

    Chat("qwen3", "http://localhost:8000/v1")                   vLLM, llama.cpp, Ollama, LM Studio
    Chat("gpt-6-mini", client=AsyncOpenAI())

These servers agree on little: a call's pieces come with or without number, id and name, so each piece is given to
the call it can only belong to. Thinking goes back beside the calls it led to, to the server that it came from.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import TypeAlias, cast

from harness_nb.messages import (
    Image,
    Message,
    Summary,
    Text,
    Thinking,
)
from harness_nb.providers.assembly import Assembly, guessed, reply
from harness_nb.providers.chat_stream import THINKING, Turn
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

KEY = "HARNESS_NB_CHAT_KEY"
"""Environment variable with the key for servers at a URL of one's own: OpenAI's key is sent to OpenAI only."""

Data: TypeAlias = dict[str, object]


class Chat:
    """A model behind a Chat Completions server: at `base_url`, else at OpenAI, else where `client` points.

    `api_key` is for `base_url` (default: environment variable HARNESS_NB_CHAT_KEY, else none);
    `max_output` is the most output tokens of a turn, None for the server's own limit; `extra` is put into
    the body as it is; `idle` is how many seconds of silence end a stream (a small machine is silent while
    it reads a long prompt).
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        client: object | None = None,
        *,
        api_key: str | None = None,
        max_output: int | None = None,
        extra: Mapping[str, object] | None = None,
        idle: float = 600,
    ) -> None:
        self.name = model
        elsewhere = {"base_url": base_url, "api_key": api_key or os.environ.get(KEY) or "none"}
        self._wire = Wire("openai", client, elsewhere if base_url else {}, idle)
        self.host = self._wire.host
        """The name of the server that is asked."""
        self._max_output = max_output
        self._limit_name = "max_tokens" if base_url else "max_completion_tokens"
        asking = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
        self._settings = {**asking, **(extra or {})}
        self._tools = WrittenTools(_tool)

    def __repr__(self) -> str:
        return f"Chat({self.name!r})"

    async def __call__(self, request: Request, run: Run) -> Reply:
        """Ask once, streaming to `run`. Raises ProviderError, or UsageError where the package or a key is missing."""
        limit = request.max_output or self._max_output
        body = self._body(request, run, {self._limit_name: limit} if limit else {})
        turn = Turn(Assembly(run, spoken_names(request.tools)), self._wire.host)
        await self._wire.read("/chat/completions", body, turn)
        parts = turn.assembly.parts()
        return reply(parts, turn.stop, turn.usage or guessed(body, parts), turn.detail, limit)

    def served_window(self) -> int:
        """Ask the server at `base_url` for its window in tokens; 0 where it doesn't tell.

        Call it off the event loop: it blocks for up to two seconds a list, of three.
        """
        return self._wire.served_window(self.name)

    async def close(self) -> None:
        """Close the connections made on this event loop."""
        await self._wire.close()

    def _body(self, request: Request, run: Run, more: Mapping[str, object]) -> bytes:
        parts = [fields({**self._settings, **more})]
        if tools := self._tools.of(request.tools, run)[0]:
            parts.append(b'"tools":[%b]' % b",".join(tools))
        forms = cast(
            "Forms[list[Piece]]", run.state.setdefault(self, Forms(lambda m: form(m, self._wire.host)))
        )
        written = (
            [wire_json({"role": "system", "content": request.instructions})]
            if request.instructions.strip()
            else []
        )
        written += merged(forms.of(request.messages))
        parts.append(b'"messages":[%b]' % b",".join(written))
        return b"{%b}" % b",".join(parts)


Piece: TypeAlias = tuple[str, bytes, bytes]
"""A message on the wire: its role, its content as JSON, and the fields after it, each with a comma before."""


def _tool(name: str, description: str, schema: Mapping[str, object]) -> Data:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def form(message: Message, host: str) -> list[Piece]:
    """Write a message: one piece for each result, then the words."""
    if message.role == "assistant":
        return _assistant(message, host)
    pieces: list[Piece] = []
    for result in message.results:
        text = result.text if result.text.strip() else "(empty)"
        content = wire_json(f"Error: {text}" if result.is_error else text)
        pieces.append(("tool", content, b',"tool_call_id":%b' % wire_json(token(result.call_id))))
    shown = [part for result in message.results for part in result.content if isinstance(part, Image)]
    said = [part for part in (*shown, *message.parts) if isinstance(part, Image) or _words(part).strip()]
    if any(isinstance(part, Image) for part in said):
        # A result holds text only, so its pictures follow as the user's.
        pieces.append(("user", wire_json([_content(part) for part in said]), b""))
    elif said:
        text = "\n\n".join(map(_words, said))
        # Templates of local models refuse a system message in the middle.
        pieces.append(("user", wire_json(f"[system] {text}" if message.role == "system" else text), b""))
    return pieces


def _assistant(message: Message, host: str) -> list[Piece]:
    text = "".join(map(_words, message.parts))
    content = wire_json(text) if text.strip() else b"null"
    if not message.calls:
        return [("assistant", content, b"")] if text.strip() else []
    rest = b""
    for field in THINKING:
        thoughts = [
            p.text for p in message.parts if isinstance(p, Thinking) and p.vendor == f"{field}@{host}"
        ]
        if thoughts:
            rest += b',"%b":%b' % (field.encode(), wire_json("".join(thoughts)))
    calls = (
        b'{"id":%b,"type":"function","function":{"name":%b,"arguments":%b}}'
        % (wire_json(token(call.id)), wire_json(token(call.name)), quoted(arguments(call)))
        for call in message.calls
    )
    return [("assistant", content, rest + b',"tool_calls":[%b]' % b",".join(calls))]


def _words(part: object) -> str:
    return part.text if isinstance(part, Text | Summary) else ""


def _content(part: object) -> Data:
    if isinstance(part, Image):
        data = base64.b64encode(part.data).decode()
        return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{data}"}}
    return {"type": "text", "text": _words(part)}


def merged(forms: list[list[Piece]]) -> list[bytes]:
    """Write the messages, with neighbours of one role put together: many templates want roles to alternate."""
    pieces: list[Piece] = []
    for form in forms:
        for piece in form:
            if pieces and not pieces[-1][2] and pieces[-1][0] == piece[0]:
                pieces[-1] = (piece[0], _joined(pieces[-1][1], piece[1]), piece[2])
            else:
                pieces.append(piece)
    return [
        b'{"role":"%b","content":%b%b}' % (role.encode(), content, rest) for role, content, rest in pieces
    ]


def _joined(first: bytes, second: bytes) -> bytes:
    if b"null" in (first, second):
        return first if second == b"null" else second
    if first[:1] == second[:1] == b'"':
        return first[:-1] + b"\\n\\n" + second[1:]
    lists = [c[1:-1] if c[:1] == b"[" else b'{"type":"text","text":%b}' % c for c in (first, second)]
    return b"[%b]" % b",".join(lists)
