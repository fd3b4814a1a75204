"""Claude by the Messages API, through the anthropic SDK's client: a `Model`. Book chapters 3, 5 and 20.

    Anthropic("claude-sonnet-5-5")                                   key from ANTHROPIC_API_KEY
    Anthropic("claude-opus-5-5", AsyncAnthropicVertex(...), thinking="adaptive", effort="high")

Thinking goes back as it came, byte for byte, or not at all: a block is bound to everything before it, so a decision
that changes an earlier message makes the thinking between that message and the decision useless.

The prompt cache wants a stable prefix. Four marks: after the tools, after the instructions, and at the two newest
user messages, so that the second still hits when what is newest was only passing through.
"""

from __future__ import annotations

import base64
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
from harness_nb.providers.anthropic_stream import VENDOR, Turn
from harness_nb.providers.assembly import Assembly, guessed, reply
from harness_nb.providers.clearing import BETA, Clearing
from harness_nb.providers.past import Past
from harness_nb.providers.searched import SEARCH
from harness_nb.providers.spelling import (
    WrittenTools,
    arguments,
    fields,
    spoken_names,
    token,
    wire_json,
)
from harness_nb.providers.wire import Wire
from harness_nb.seams import Reply, Request, Run

MAX_OUTPUT = 16_000
"""Output tokens asked for where neither the request nor the model says: the API wants a number."""

Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
Form: TypeAlias = tuple[str, bytes]
"""A message on the wire: its role, and its blocks as JSON with commas between."""

OLD = re.compile(r"claude-(\d|instant)|claude-[a-z]+-4(-[01])?(-\d{8})?$")
"""Models before 4.5, whose API clears and searches less."""

MARK = b',"cache_control":{"type":"ephemeral"}}'
OPENING = b'{"type":"text","text":"(the conversation goes on)"}'


class Anthropic:
    """A Claude model. `client` may be any of the SDK's async clients; its own retries are turned off.

    `thinking` is `"adaptive"`, a budget in tokens, or None for the API's default; `effort` how hard it
    works; `max_output` the most output tokens of a turn; `cache=False` leaves out the cache marks;
    `clearing` lets the API clear old tool results on its side; `tool_search` lets it search tools that are deferred
    (default: where we know that it can); `extra` is put into the body as it is, and `betas` into the header that asks
    for betas; `idle` is how many seconds of silence end a stream.
    """

    def __init__(
        self,
        model: str,
        client: object | None = None,
        *,
        max_output: int | None = None,
        thinking: Literal["adaptive"] | int | None = None,
        effort: Effort | None = None,
        cache: bool = True,
        clearing: Clearing | None = None,
        tool_search: bool | None = None,
        betas: tuple[str, ...] = (),
        extra: Mapping[str, object] | None = None,
        idle: float = 120,
    ) -> None:
        self.name = model
        self._wire = Wire("anthropic", client, {}, idle)
        self.host = self._wire.host
        """The name of the server that is asked."""
        self._max_output = max_output or MAX_OUTPUT + (thinking if isinstance(thinking, int) else 0)
        self._cache = cache
        self._asked = betas
        self.clearing = clearing
        """What the API clears on its side; where it is None, what the run at hand asks for, if anything."""
        self._settings = {"model": model, **_thinking(thinking), **_effort(effort), **(extra or {})}
        self.offers_clearing = self._wire.official and not OLD.match(model)
        """Whether we know that its API can clear."""
        self.searches_tools = self.offers_clearing if tool_search is None else tool_search
        """Whether its API searches tools that are deferred."""
        self._tools = WrittenTools(_tool, SEARCH if self.searches_tools else None)

    def __repr__(self) -> str:
        return f"Anthropic({self.name!r})"

    @property
    def clears(self) -> bool:
        """Whether the provider clears old tool results itself."""
        return self.clearing is not None

    async def __call__(self, request: Request, run: Run) -> Reply:
        """Ask once, streaming to `run`. Raises ProviderError, or UsageError where the package or a key is missing."""
        limit = request.max_output or self._max_output
        body = self._body(request, run, {"max_tokens": limit, "stream": True})
        turn = Turn(Assembly(run, spoken_names(request.tools)))
        betas = self._betas(run)
        await self._wire.read(_path("/v1/messages", betas), body, turn, betas)
        parts = turn.parts()
        usage = turn.usage() or guessed(body, parts)
        if turn.cleared is not None:
            turn.cleared.tell(run, usage.context or usage.input)
        return reply(parts, turn.stop, usage, turn.detail, limit)

    async def count_tokens(self, request: Request, run: Run | None = None) -> int:
        """Ask the provider how many input tokens this request has."""
        run = run or Run()
        body, betas = self._body(request, run, {}), self._betas(run)
        answer = await self._wire.answer(_path("/v1/messages/count_tokens", betas), body, betas)
        return cast("int", answer["input_tokens"])

    async def close(self) -> None:
        """Close the connections made on this event loop."""
        await self._wire.close()

    def _clears(self, run: Run) -> Clearing | None:
        asked = run.state.get(Clearing) if self.offers_clearing else None
        return self.clearing or cast("Clearing | None", asked)

    def _betas(self, run: Run) -> tuple[str, ...]:
        return self._asked if self._clears(run) is None else tuple(dict.fromkeys((*self._asked, BETA)))

    def _body(self, request: Request, run: Run, more: Mapping[str, object]) -> bytes:
        clearing = self._clears(run)
        wanted = clearing.wanted(thinks="thinking" in self._settings) if clearing else {}
        parts = [fields({**wanted, **self._settings, **more})]
        seen, hidden = self._tools.of(request.tools, run)
        if seen:  # a tool that is deferred can't have a mark
            parts.append(b'"tools":[%b]' % b",".join([*seen[:-1], self._marked(seen[-1]), *hidden]))
        if request.instructions.strip():
            system = wire_json({"type": "text", "text": request.instructions})
            parts.append(b'"system":[%b]' % self._marked(system))
        turns = grouped(self._forms(request, run))
        for _, blocks in [turn for turn in turns[-4:] if turn[0] == "user"][-2:]:
            blocks[-1] = self._marked(blocks[-1])
        written = (
            b'{"role":"%b","content":[%b]}' % (role.encode(), b",".join(blocks)) for role, blocks in turns
        )
        parts.append(b'"messages":[%b]' % b",".join(written))
        return b"{%b}" % b",".join(parts)

    def _forms(self, request: Request, run: Run) -> list[Form]:
        past = cast("Past[Form]", run.state.setdefault(self, Past(run.transcript, form, _unthinking)))
        return past.forms(request.messages, {token(spec.name) for spec in request.tools})

    def _marked(self, blocks: bytes) -> bytes:
        return blocks[:-1] + MARK if self._cache else blocks


def _path(path: str, betas: tuple[str, ...]) -> str:
    return f"{path}?beta=true" if betas else path


def _tool(name: str, description: str, schema: Mapping[str, object]) -> dict[str, object]:
    return {"name": name, "description": description, "input_schema": schema}


def _thinking(thinking: Literal["adaptive"] | int | None) -> dict[str, object]:
    if thinking is None:
        return {}
    if thinking == "adaptive":
        return {"thinking": {"type": "adaptive", "display": "summarized"}}
    return {"thinking": {"type": "enabled", "budget_tokens": thinking}}


def _effort(effort: Effort | None) -> dict[str, object]:
    return {} if effort is None else {"output_config": {"effort": effort}}


def grouped(forms: list[Form]) -> list[tuple[str, list[bytes]]]:
    """Put neighbours of one role together, a user's turn first: what the API calls a message."""
    turns: list[tuple[str, list[bytes]]] = []
    last = ""
    for role, blocks in forms:
        if role == last and blocks:
            turns[-1][1].append(blocks)
        elif blocks:
            turns.append((role, [blocks]))
            last = role
    if turns and turns[0][0] != "user":
        turns.insert(0, ("user", [OPENING]))
    return turns


def form(message: Message, *, thinking: bool = True) -> Form:
    """Write a message: results first, blank text left out, no space at a turn's end, which the API refuses."""
    if message.role == "system":
        return "user", wire_json(
            {"type": "text", "text": f"[system] {message.text}"}
        ) if message.text.strip() else b""
    if message.role != "assistant":
        ordered = sorted(message.parts, key=lambda part: not isinstance(part, ToolResult))
        return "user", b",".join(block for part in ordered if (block := _user_block(part)) is not None)
    sent = [part for part in message.parts if _is_sent(part, thinking=thinking)]
    if all(isinstance(part, Thinking) or _is_redacted(part) for part in sent):
        return "assistant", b""  # thinking alone is no turn
    if isinstance(sent[-1], Text):
        sent[-1] = Text(sent[-1].text.rstrip())
    return "assistant", b",".join(_assistant_block(part) for part in sent)


def _unthinking(message: Message) -> Form:
    return form(message, thinking=False)


def _is_sent(part: Part, *, thinking: bool) -> bool:
    match part:
        case Text(text) | Summary(text):
            return bool(text.strip())
        case Thinking(signature=signature, vendor=vendor):
            return thinking and vendor == VENDOR and bool(signature)
        case Opaque(vendor=vendor):
            return vendor == VENDOR and (thinking or not _is_redacted(part))
        case _:
            return isinstance(part, ToolCall)


def _is_redacted(part: Part) -> bool:
    return isinstance(part, Opaque) and '"type":"redacted_thinking"' in part.block


def _assistant_block(part: Part) -> bytes:
    match part:
        case ToolCall(identity, name):
            head = fields({"type": "tool_use", "id": token(identity), "name": token(name)})
            return b'{%b,"input":%b}' % (head, arguments(part))
        case Thinking(text, signature):
            return wire_json({"type": "thinking", "thinking": text, "signature": signature})
        case Opaque(_, block):
            return block.encode()
        case _:
            return wire_json({"type": "text", "text": getattr(part, "text", "")})


def _user_block(part: Part) -> bytes | None:
    match part:
        case Text(text) | Summary(text):
            return wire_json(_text(text)) if text.strip() else None
        case Image():
            return wire_json(_image(part))
        case ToolResult(call_id, content, is_error):
            shown = [
                _image(item) if isinstance(item, Image) else _text(item.text)
                for item in content
                if _says(item)
            ]
            error = {"is_error": True} if is_error else {}
            result = {
                "type": "tool_result",
                "tool_use_id": token(call_id),
                "content": shown or [_text("(empty)")],
            }
            return wire_json({**result, **error})
        case Opaque(vendor, block):
            return block.encode() if vendor == VENDOR else None
        case _:
            return None


def _says(part: Text | Image) -> bool:
    return isinstance(part, Image) or bool(part.text.strip())


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def _image(part: Image) -> dict[str, object]:
    data = base64.b64encode(part.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": data}}
