"""One request to the embedded server, streamed: pieces of text, then what it cost and why it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from harness_nb.errors import ProviderError
from harness_nb.messages import Usage
from harness_nb.providers.faults import fault
from harness_nb.providers.local.engine import Engine

if TYPE_CHECKING:
    import httpx2

SILENCE_S = 600.0
"""How long the server may say nothing: it reads a whole prompt before its first word, on a busy machine slowly."""


@dataclass(frozen=True, slots=True)
class Completion:
    """All that one request brought."""

    text: str
    usage: Usage
    cut: bool
    """Whether the limit on output ended it."""


def client(engine: Engine) -> httpx2.AsyncClient:
    """A client for one request; proxies do not apply to a server of our own, and its kept-alive streams can drop."""
    import httpx2

    return httpx2.AsyncClient(
        base_url=engine.url,
        headers={"Authorization": f"Bearer {engine.key}", "Connection": "close"},
        timeout=httpx2.Timeout(SILENCE_S, connect=10),
        trust_env=False,
        verify=False,  # plain HTTP on this machine; saves loading certificates at each call
    )


async def complete(
    engine: Engine,
    body: Mapping[str, object],
    heard: Callable[[str], None] = lambda _: None,
    enough: Callable[[str], bool] = lambda _: False,
) -> Completion:
    """Ask, passing on each piece of text as it comes, until it ends or the text so far is `enough`.

    Raises ProviderError. Leaving early, by cancellation too, stops the engine's work.
    """
    import httpx2

    body = {**body, "stream": True, "stream_options": {"include_usage": True}, "temperature": 0}
    pieces: list[str] = []
    usage, finish = Usage(), ""
    try:
        async with client(engine) as http, http.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.is_error:
                raise _refusal(engine, response.status_code, await response.aread())
            async for line in response.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                chunk = json.loads(line[6:])
                if "error" in chunk:
                    raise fault("The local model", chunk)
                for choice in chunk["choices"]:
                    finish = choice.get("finish_reason") or finish
                    if piece := choice["delta"].get("content"):
                        pieces.append(piece)
                        heard(piece)
                        if enough(text := "".join(pieces)):
                            return Completion(text, Usage(output=len(pieces), estimated=True), cut=False)
                if chunk.get("usage"):
                    usage = _usage(chunk["usage"])
    except httpx2.HTTPError as error:
        raise lost(engine, str(error)) from error
    if not finish:
        raise lost(engine, "its answer broke off")
    return Completion("".join(pieces), usage, finish == "length")


def lost(engine: Engine, words: str) -> ProviderError:
    """The sentence for a server that is gone, or that lives and did not answer."""
    if not engine.died():
        return ProviderError(f"The local model did not answer: {words}.", code="connection", retryable=True)
    last = engine.last_words()
    why = f" It last said: {last}" if last else ""
    text = (
        f"The local model's process has ended in the middle of its work; the next call starts it afresh.{why}"
    )
    return ProviderError(text, code="server_died", retryable=True)


def _refusal(engine: Engine, status: int, content: bytes) -> ProviderError:
    try:
        body = json.loads(content)
    except ValueError:
        body = content.decode(errors="replace")
    error = body.get("error", {}) if isinstance(body, dict) else {}
    if error.get("type") == "exceed_context_size_error":
        text = (
            f"The conversation is {error.get('n_prompt_tokens', 'too many')} tokens long, and the local model reads at most "
            f"{engine.settings.context}: ask less at once, or use a larger model."
        )
        return ProviderError(
            text,
            status=status,
            code="exceed_context_size_error",
            overflow=True,
            window=engine.settings.context,
        )
    return fault("The local model", body, status=status)


def _usage(data: Mapping[str, object]) -> Usage:
    details = cast("Mapping[str, int]", data.get("prompt_tokens_details") or {})
    return Usage(
        input=cast("int", data.get("prompt_tokens", 0)),
        output=cast("int", data.get("completion_tokens", 0)),
        cache_read=details.get("cached_tokens", 0),
    )
