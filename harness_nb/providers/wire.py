"""The way to a provider and back: JSON out through its SDK's client, events in. What the three adapters share. Book chapters 3 and 5.

Theory of operation. The client carries: it knows the address, signs, sends and raises. It doesn't translate: it is
handed a finished body, and the stream of events is read raw. The SDKs' typed layers would walk the whole history at
each request and build a model object for each delta.

Some clients need the SDK's own way, slower and right: those that rewrite the body (Azure, Bedrock, Vertex), of which
Bedrock's stream is not even server-sent events.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from harness_nb.errors import HarnessError, ProviderError
from harness_nb.providers.clients import (
    Client,
    Sdk,
    elsewhere,
    host,
    made,
    no_key,
    official,
    patience,
    posting,
    retryless,
    rewrites,
    who,
)
from harness_nb.providers.faults import Redaction, broken, fault, is_page, stated, transport_errors
from harness_nb.providers.served import served_window
from harness_nb.providers.sse import EventReader
from harness_nb.tasks import off_loop

if TYPE_CHECKING:
    import httpx2

Event: TypeAlias = dict[str, object]
DONE: Event = {"type": "[DONE]"}
"""The event made of the line with which OpenAI's wires end."""


class Turn(Protocol):
    """One turn of a model as its events come in."""

    @property
    def ended(self) -> bool:
        """Whether the provider has said that the turn is complete."""
        ...

    def take(self, event: Event) -> None:
        """Take the next event."""
        ...


class Wire:
    """One provider's endpoint: sends bodies, gives back events or an answer, and raises only ProviderError and UsageError."""

    def __init__(self, sdk: Sdk, client: object | None, settings: Mapping[str, object], idle: float) -> None:
        """Use the caller's `client`, or make one of `settings` when it is needed; each event loop has connections of its own.

        `idle` is how many seconds a client made here waits for the next bytes of a stream.
        """
        self._sdk = sdk
        self._settings = settings
        self._idle = idle
        self._given = None if client is None else retryless(client)
        self._home: weakref.ref[asyncio.AbstractEventLoop] | None = None
        """The loop that the caller's client was used on first; others get a copy."""
        self._made: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = weakref.WeakKeyDictionary()
        self._redacted = Redaction()
        self.host = host(
            self._given.base_url if self._given else settings.get("base_url") or f"https://api.{sdk}.com"
        )
        """The server's name."""
        self.official = official(self._given, sdk)
        """Whether it is the company itself."""

    async def client(self) -> Client:
        """Return the client of this event loop. Raises UsageError where the package or the key is missing."""
        loop = asyncio.get_running_loop()
        if self._given is not None:
            self._home = self._home or weakref.ref(loop)
            if self._home() is loop:
                return self._given
            if loop not in self._made:
                self._made[loop] = elsewhere(self._given)
        if loop not in self._made:
            # An SDK takes seconds to import: in a thread, so that Stop and the live view go on.
            self._made[loop] = await off_loop(partial(made, self._sdk, self._settings, self._idle))
        return self._made[loop]

    async def close(self) -> None:
        """Close the connections of the client made here; a caller's own client is the caller's to close."""
        client = self._made.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def served_window(self, model: str) -> int:
        """Ask a server at a URL of one's own for the window of a model, in tokens; 0 where it doesn't tell. It blocks."""
        if self._given is not None or "base_url" not in self._settings:
            return 0
        return served_window(str(self._settings["base_url"]), model, str(self._settings["api_key"]))

    async def read(self, path: str, body: bytes, turn: Turn, betas: Sequence[str] = ()) -> None:
        """Send a body and let the turn take each event of the answer, to its end. Cancelled, it hangs up at once.

        `betas` names what Anthropic wants to be asked for by a header.

        A stream that ends before the turn has is a ProviderError: what it said so far is not an answer.
        """
        client = await self.client()
        events = self._typed_events if rewrites(client, self._sdk) else self._raw_events
        async with contextlib.aclosing(events(client, path, body, betas)) as batches:
            async for batch in batches:
                for event in batch:
                    try:
                        turn.take(event)
                    except (AttributeError, TypeError, ValueError) as error:
                        raise self._told(
                            Unreadable(f"an event of no known form ({error})", True), client
                        ) from None
        if not turn.ended:
            words = f"{who(client)} broke off its answer before the end."
            raise ProviderError(words, code="cut", retryable=True)

    async def answer(self, path: str, body: bytes, betas: Sequence[str] = ()) -> Event:
        """Send a body and return the answer, which is one JSON object."""
        client = await self.client()
        found = await self._post(client, path, body, betas, cast_to=object)
        if not isinstance(found, dict):
            raise ProviderError(f"{who(client)} answered with something that is not JSON; check the URL.")
        return found

    async def _raw_events(
        self, client: Client, path: str, body: bytes, betas: Sequence[str]
    ) -> AsyncGenerator[list[Event]]:
        import httpx2

        sent = await self._post(
            client, path, body, betas, cast_to=httpx2.Response, stream=True, stream_cls=object
        )
        response, reader = cast("httpx2.Response", sent), EventReader()
        try:
            await _check_kind(response)
            async for chunk in response.aiter_bytes():
                if found := reader.feed(chunk):
                    yield _loaded_events(found)
            yield _loaded_events(reader.close(), cut=True)
        except Exception as error:  # noqa: BLE001 - told in one sentence, whatever it is
            raise self._told(error, client, response.request) from None
        finally:
            with contextlib.suppress(Exception):
                await response.aclose()

    async def _typed_events(
        self, client: Client, path: str, body: bytes, betas: Sequence[str]
    ) -> AsyncGenerator[list[Event]]:
        stream_of = importlib.import_module(self._sdk).AsyncStream[object]
        sent = await self._post(client, path, body, betas, cast_to=object, stream=True, stream_cls=stream_of)
        try:
            async with cast("contextlib.AbstractAsyncContextManager[AsyncIterator[object]]", sent) as events:
                async for event in events:
                    if isinstance(event, dict):
                        yield [_checked(event)]
        except Exception as error:  # noqa: BLE001 - told in one sentence, whatever it is
            raise self._told(error, client) from None

    async def _post(
        self, client: Client, path: str, body: bytes, betas: Sequence[str], **how: object
    ) -> object:
        try:
            return await client.post(path, **posting(client, self._sdk, body, betas), **how)
        except Exception as error:  # noqa: BLE001 - told in one sentence, whatever it is
            raise self._told(error, client) from None

    def _told(self, error: Exception, client: Client, request: httpx2.Request | None = None) -> HarnessError:
        """Turn whatever the SDK or the connection raised into one sentence that holds no key."""
        if "authentication method" in str(error):
            return no_key(self._sdk)
        request = request or getattr(error, "request", None)
        told = _sentence(error, who(client), patience(client), request)
        self._redacted.learn(
            getattr(client, name, None) for name in ("api_key", "auth_token", "admin_api_key")
        )
        self._redacted.learn_headers(request.headers if request is not None else {})
        told.args = (self._redacted(str(told)),)
        return told


class Said(Exception):
    """A fault that came inside an answer; `args` is its body."""


class Unreadable(Exception):
    """Something came that is not what was asked for; `args` says what, and whether it may be better next time."""


def _sentence(
    error: Exception, name: str, silence: float | None, request: httpx2.Request | None
) -> HarnessError:
    status, body = getattr(error, "status_code", None), getattr(error, "body", None)
    if isinstance(error, HarnessError):
        return error
    if isinstance(error, Said):
        return fault(name, error.args[0])
    if isinstance(error, Unreadable):
        words, passing = error.args
        return ProviderError(f"{name} answered with {words}.", code="unreadable", retryable=passing)
    if isinstance(status, int):
        told = fault(
            name, body, status=status, headers=getattr(getattr(error, "response", None), "headers", None)
        )
        if status == 404 and request is not None:
            where = f"Check the model's name and the URL (asked was {request.url.path})."
            told.args = (f"{str(told).rstrip('.')}. {where}",)
        return told
    if isinstance(error, transport_errors()) or type(error).__name__.startswith(
        ("APIConnection", "APITimeout")
    ):
        return broken(name, error, silence)
    if body:
        return fault(name, body)
    return ProviderError(f"{name} could not be asked: {type(error).__name__}: {error}")


async def _check_kind(response: httpx2.Response) -> None:
    """Raise unless the answer may be a stream of events."""
    kind = response.headers.get("content-type", "text/event-stream")
    if "html" not in kind and "application/json" not in kind:
        return
    text = (await response.aread()).decode("utf-8", "replace")
    if is_page(text) or "html" in kind:
        raise Unreadable("a web page, not a model's answer; check the URL", False)
    with contextlib.suppress(ValueError):
        _checked(json.loads(text))
    raise Unreadable("JSON where a stream was asked for; check the URL", False)


def _checked(event: Event) -> Event:
    if stated(event):
        raise Said(event)
    return event


def _loaded_events(found: list[bytes], *, cut: bool = False) -> list[Event]:
    """Read events; with `cut` the last may be one that the end of the stream cut in the middle."""
    events: list[Event] = []
    for data in found:
        if data == b"[DONE]":
            events.append(DONE)
            continue
        try:
            event = json.loads(data.decode("utf-8", "replace"))
        except ValueError:
            if cut:
                break
            raise Unreadable("an event that is not JSON", True) from None
        if isinstance(event, dict):
            events.append(_checked(event))
    return events
