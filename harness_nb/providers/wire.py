"""The way to a provider and back, through its SDK's client: JSON out, events in. What the three adapters share. Book chapters 3 and 5.

Theory of operation. The client carries: it knows the address, signs, sends and raises. It doesn't translate: it is
handed a finished body, and the stream of events is read raw. The SDKs' typed layers would walk the whole history at
each request and build a model object for each delta.

Two kinds of client need the SDK's own way, slower and right: those that rewrite the body (Azure, Bedrock, Vertex), and
those whose stream is not server-sent events (Bedrock).
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from harness_nb.errors import HarnessError, ProviderError, UsageError
from harness_nb.providers.faults import Redaction, broken, fault, is_page, stated, transport_errors
from harness_nb.providers.sse import EventReader

if TYPE_CHECKING:
    import httpx2

Event: TypeAlias = dict[str, object]
DONE: Event = {"type": "[DONE]"}
"""The event made of the line with which OpenAI's wires end."""

Sdk: TypeAlias = Literal["anthropic", "openai"]
PLAIN = {"anthropic": "AsyncAnthropic", "openai": "AsyncOpenAI"}


class Client(Protocol):
    """Any of an SDK's async clients, seen from here."""

    @property
    def base_url(self) -> object:
        """Where it sends to."""
        ...

    def with_options(self, *, max_retries: int) -> Client:
        """Return a copy with other settings."""
        ...

    async def post(self, path: str, **options: object) -> object:
        """Send a body and return the response."""
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...


class Wire:
    """One provider's endpoint: sends bodies, gives back events or an answer, and raises only ProviderError and UsageError."""

    def __init__(self, sdk: Sdk, client: object | None, settings: Mapping[str, object], idle: float) -> None:
        """Use the caller's `client`, or make one of `settings` when it is needed: one per event loop, closed with it.

        `idle` is how many seconds a made client waits for the next bytes of a stream.
        """
        self._sdk = sdk
        self._settings = settings
        self._idle = idle
        self._given = None if client is None else _retryless(client)
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()
        self._redacted = Redaction()

    def client(self) -> Client:
        """Return the client of this event loop. Raises UsageError where the package or the key is missing."""
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            self._made[loop] = _make(self._sdk, self._settings, self._idle)
        return self._made[loop]

    @property
    def host(self) -> str:
        """The name of the server, without what may be secret in a URL."""
        url = self._given.base_url if self._given is not None else self._settings.get("base_url")
        return (urlsplit(str(url)).hostname or "") if url else f"api.{self._sdk}.com"

    async def close(self) -> None:
        """Close the connections of the client made here; a caller's own client is the caller's to close."""
        client = self._made.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def read(self, path: str, body: bytes, take: Callable[[Event], None]) -> None:
        """Send a body and hand over each event of the answer, to its end. Cancelled, it hangs up at once."""
        async with contextlib.aclosing(self.events(path, body)) as batches:
            async for batch in batches:
                for event in batch:
                    take(event)

    async def events(self, path: str, body: bytes) -> AsyncGenerator[list[Event]]:
        """Send a body and yield the events of the answer, as many at once as have come; closing it hangs up."""
        client = self.client()
        if _rewrites(client, self._sdk):
            async for batch in self._typed_events(client, path, body):
                yield batch
            return
        response = await self._send(client, path, body)
        who, reader = _who(client), EventReader()
        try:
            await self._check_kind(response, who)
            async for chunk in response.aiter_bytes():
                if found := reader.feed(chunk):
                    yield self._read(found, who)
            if found := reader.close():
                with contextlib.suppress(ValueError):  # a last event that was cut in the middle is no event
                    yield self._read(found, who)
        except transport_errors() as error:
            raise self._told(error, client) from None
        finally:
            with contextlib.suppress(Exception):
                await response.aclose()

    async def answer(self, path: str, body: bytes) -> Event:
        """Send a body and return the answer, which is one JSON object."""
        client = self.client()
        try:
            found = await client.post(path, cast_to=object, **_content(client, self._sdk, body))
        except Exception as error:  # noqa: BLE001 - told in one sentence, whatever it is
            raise self._told(error, client) from None
        if not isinstance(found, dict):
            raise ProviderError(f"{_who(client)} answered with something that is not JSON; check the URL.")
        return found

    async def _send(self, client: Client, path: str, body: bytes) -> httpx2.Response:
        import httpx2

        given = _content(client, self._sdk, body)
        try:
            sent = await client.post(path, cast_to=httpx2.Response, stream=True, stream_cls=object, **given)
        except Exception as error:  # noqa: BLE001 - told in one sentence, whatever it is
            raise self._told(error, client) from None
        return cast("httpx2.Response", sent)

    async def _typed_events(self, client: Client, path: str, body: bytes) -> AsyncGenerator[list[Event]]:
        stream_of = importlib.import_module(self._sdk).AsyncStream
        try:
            stream = await client.post(
                path,
                cast_to=object,
                stream=True,
                stream_cls=stream_of[object],
                **_content(client, self._sdk, body),
            )
            async with cast(
                "contextlib.AbstractAsyncContextManager[AsyncGenerator[object]]", stream
            ) as events:
                async for event in events:
                    if isinstance(event, dict):
                        yield [event]
        except HarnessError:
            raise
        except Exception as error:  # noqa: BLE001 - told in one sentence, whatever it is
            raise self._told(error, client) from None

    async def _check_kind(self, response: httpx2.Response, who: str) -> None:
        """Raise unless the answer may be a stream of events."""
        kind = response.headers.get("content-type", "text/event-stream")
        if "html" not in kind and "application/json" not in kind:
            return
        text = (await response.aread()).decode("utf-8", "replace")
        if is_page(text) or "html" in kind:
            raise ProviderError(
                f"{who} answered with a web page, not a model's answer; check the URL.", status=200
            )
        body = _loaded(text)
        if stated(body):
            raise self._fault(who, body, dict(response.headers))
        raise ProviderError(
            f"{who} did not stream its answer, though it was asked to; check the URL.", status=200
        )

    def _read(self, found: list[bytes], who: str) -> list[Event]:
        events: list[Event] = []
        for data in found:
            if data == b"[DONE]":
                events.append(DONE)
                continue
            try:
                event = json.loads(data.decode("utf-8", "replace"))
            except ValueError:
                if events:
                    break
                raise ProviderError(f"{who} sent an event that is not JSON.", retryable=True) from None
            if isinstance(event, dict):
                if stated(event):
                    raise self._fault(who, event, {})
                events.append(event)
        return events

    def _fault(self, who: str, body: object, headers: Mapping[str, str]) -> ProviderError:
        return self._clean(fault(who, body, headers=headers))

    def fault(self, body: Mapping[str, object]) -> ProviderError:
        """Make the error of what the provider says in an event that only its adapter knows to be one."""
        return self._fault(_who(self.client()), {"error": body}, {})

    def cut(self) -> ProviderError:
        """Make the error of a stream that ended before the provider said that the turn was complete."""
        return ProviderError(
            f"{_who(self.client())} broke off its answer before the end.", code="cut", retryable=True
        )

    def _told(self, error: Exception, client: Client) -> HarnessError:
        """Turn whatever the SDK or the connection raised into one sentence, without the key."""
        if isinstance(error, HarnessError):
            return error
        who = _who(client)
        self._redacted.learn(
            getattr(client, name, None) for name in ("api_key", "auth_token", "admin_api_key")
        )
        if (request := getattr(error, "request", None)) is not None:
            self._redacted.learn_headers(request.headers)
        response, status = getattr(error, "response", None), getattr(error, "status_code", None)
        if isinstance(status, int) and response is not None:
            body = getattr(error, "body", None)
            made = fault(who, body, status=status, headers=response.headers)
            if status == 404:
                made = _lost(made, response.request.url.path)
            return self._clean(made)
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if kinds & {"APIConnectionError"} or isinstance(error, transport_errors()):
            return self._clean(broken(who, error, _patience(client)))
        if "authentication method" in str(error):
            return UsageError(_no_key(self._sdk))
        body = getattr(error, "body", None)
        if body is not None:
            return self._clean(fault(who, body))
        return self._clean(ProviderError(f"{who} could not be asked: {type(error).__name__}: {error}"))

    def _clean(self, error: ProviderError) -> ProviderError:
        error.args = (self._redacted(str(error)),)
        return error


def _make(sdk: Sdk, settings: Mapping[str, object], idle: float) -> Client:
    try:
        module: ModuleType = importlib.import_module(sdk)
        import httpx2
    except ModuleNotFoundError as missing:
        if missing.name not in {sdk, "httpx2"}:
            raise
        raise UsageError(f"The {sdk} package is missing: pip install 'harness-nb[{sdk}]'.") from None
    timeout = httpx2.Timeout(600, connect=5, read=idle)
    own: dict[str, object] = (
        {"open_telemetry": False} if sdk == "anthropic" else {}
    )  # ops/trace makes the spans
    try:
        client = getattr(module, PLAIN[sdk])(max_retries=0, timeout=timeout, **own, **settings)
    except Exception as fault:
        if "api_key" not in str(fault):
            raise
        raise UsageError(_no_key(sdk)) from None
    if sdk == "anthropic" and not (client.api_key or client.auth_token or client.credentials):
        raise UsageError(_no_key(sdk))
    return cast("Client", client)


def _no_key(sdk: Sdk) -> str:
    company = {"anthropic": "Anthropic", "openai": "OpenAI"}[sdk]
    return f"There is no {company} key: set the environment variable {sdk.upper()}_API_KEY, or pass client=."


def _retryless(client: object) -> Client:
    """Return the caller's client with the SDK's hidden retries off. Raises UsageError for one that blocks."""
    if not inspect.iscoroutinefunction(getattr(client, "post", None)):
        name = type(client).__name__
        hint = f"use Async{name}" if not name.startswith("Async") else "use one of the SDK's async clients"
        raise UsageError(f"client={name} can't be used here: {hint}.")
    return cast("Client", client).with_options(max_retries=0)


def _rewrites(client: Client, sdk: Sdk) -> bool:
    """Tell whether this client must see the body as data: a cloud's, or the caller's own subclass."""
    return type(client).__name__ != PLAIN[sdk] or getattr(client, "_provider_runtime", None) is not None


def _content(client: Client, sdk: Sdk, body: bytes) -> dict[str, object]:
    options: dict[str, object] = {"headers": {"content-type": "application/json"}}
    if sdk == "openai":
        options["security"] = {"bearer_auth": True}
    if _rewrites(client, sdk):
        return {"body": json.loads(body), "options": options}
    return {"content": body, "options": options}


def _who(client: Client) -> str:
    """Name the provider for people: the company at its own address, else the host."""
    import httpx2

    url = httpx2.URL(str(client.base_url))
    known = {"api.anthropic.com": "Anthropic", "api.openai.com": "OpenAI"}
    return known.get(url.host) or (f"{url.host}:{url.port}" if url.port else url.host)


def _lost(error: ProviderError, path: str) -> ProviderError:
    error.args = (
        f"{str(error).rstrip('.')}. Check the model's name and the URL (the path asked was {path}).",
    )
    return error


def _patience(client: Client) -> float | None:
    timeout = getattr(client, "timeout", None)
    return getattr(timeout, "read", timeout if isinstance(timeout, int | float) else None)


def _loaded(text: str) -> object:
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return text
