"""The SDKs' clients as the adapters use them: made from the environment or the caller's own. Used by wire.py. Book chapter 3."""

from __future__ import annotations

import importlib
import inspect
import json
import os
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Literal, Protocol, TypeAlias, cast
from urllib.parse import urlsplit

from harness_nb.errors import UsageError

Sdk: TypeAlias = Literal["anthropic", "openai"]
KEYS = {"anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), "openai": ("OPENAI_API_KEY",)}
"""The environment variables that may hold a company's key, the usual one first."""

PLAIN = {"anthropic": "AsyncAnthropic", "openai": "AsyncOpenAI"}
COMPANIES = {"api.anthropic.com": "Anthropic", "api.openai.com": "OpenAI"}


class Client(Protocol):
    """Any of an SDK's async clients, seen from here."""

    @property
    def base_url(self) -> object:
        """Where it sends to."""
        ...

    def with_options(self, **settings: object) -> Client:
        """Return a copy with other settings."""
        ...

    async def post(self, path: str, **options: object) -> object:
        """Send a body and return the response."""
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...


def made(sdk: Sdk, settings: Mapping[str, object], idle: float) -> Client:
    """Make a client from the environment, without the SDK's hidden retries; a stream silent for `idle` seconds is broken.

    Raises UsageError, with the fix, where the package or the key is missing.
    """
    try:
        module = importlib.import_module(sdk)
        import httpx2
    except ModuleNotFoundError as missing:
        if missing.name not in {sdk, "httpx2"}:
            raise
        raise no_package("This model", sdk) from None
    timeout = httpx2.Timeout(600, connect=5, read=idle)
    # The anthropic SDK would make a span of its own for each request.
    own: dict[str, object] = {"open_telemetry": False} if sdk == "anthropic" else {}
    try:
        client = getattr(module, PLAIN[sdk])(max_retries=0, timeout=timeout, **own, **settings)
    except Exception as fault:
        if "api_key" not in str(fault):
            raise
        raise no_key(sdk) from None
    if sdk == "anthropic" and not (client.api_key or client.auth_token or client.credentials):
        raise no_key(sdk)
    return cast("Client", client)


def no_package(who: str, package: str, extra: str = "") -> UsageError:
    """Make the error of a missing package; `extra` is ours that brings it, if that has another name."""
    return UsageError(f"{who} needs the package {package}: pip install 'harness-nb[{extra or package}]'.")


def no_key(sdk: str, who: str = "", otherwise: str = "Or pass client=.") -> UsageError:
    """Make the error of a missing key; `who` is what needs it, `otherwise` what goes without."""
    name = KEYS[sdk][0]
    return UsageError(
        f"{who or COMPANIES[f'api.{sdk}.com']} needs a key: set {name} in the environment, "
        f'or in a cell with os.environ["{name}"] = getpass.getpass(). {otherwise}'
    )


def retryless(client: object) -> Client:
    """Return the caller's client with the SDK's hidden retries off. Raises UsageError for one that blocks."""
    if not inspect.iscoroutinefunction(getattr(client, "post", None)):
        name = type(client).__name__
        hint = "use one of the SDK's async clients" if name.startswith("Async") else f"use Async{name}"
        raise UsageError(f"client={name} can't be used here: {hint}.")
    return cast("Client", client).with_options(max_retries=0)


def elsewhere(client: Client) -> Client:
    """Copy the caller's client for another event loop, with connections of its own: one belongs to the loop it was made on.

    A transport that isn't the HTTP library's own is shared, as what it holds isn't known.
    """
    http = getattr(client, "_client", None)
    transport = getattr(http, "_transport", None)
    if http is None or transport is None:
        return client
    mounts = {where: _unconnected(mounted) for where, mounted in getattr(http, "_mounts", {}).items()}
    http = copy(http)
    vars(http).update(_transport=_unconnected(transport), _mounts=mounts)
    return client.with_options(http_client=http)


def _unconnected(transport: object) -> object:
    """Copy a transport without its connections."""
    pool = getattr(transport, "_pool", None)
    if not (hasattr(pool, "_connections") and hasattr(pool, "_requests")):
        return transport
    pool, transport = copy(pool), copy(transport)
    vars(pool).update(_connections=[], _requests=[])
    vars(transport).update(_pool=pool)
    return transport


def rewrites(client: Client, sdk: Sdk) -> bool:
    """Tell whether this client must see a body as data to rewrite it: a cloud's, or the caller's own subclass."""
    return type(client).__name__ != PLAIN[sdk] or getattr(client, "_provider_runtime", None) is not None


def official(client: Client | None, sdk: Sdk) -> bool:
    """Tell whether requests go to the company itself: clouds and servers that speak its wire lack its newer features."""
    if client is not None:
        return not rewrites(client, sdk) and host(client.base_url) in COMPANIES
    elsewhere = os.environ.get(f"{sdk.upper()}_BASE_URL", "").strip()
    return not elsewhere or host(elsewhere) in COMPANIES


def posting(client: Client, sdk: Sdk, body: bytes, betas: Sequence[str] = ()) -> dict[str, object]:
    """Return the arguments with which `post` sends this body; betas are added to those that the client has."""
    headers = {"content-type": "application/json"}
    if betas:
        own = str(dict(getattr(client, "default_headers", {})).get("anthropic-beta", ""))
        headers["anthropic-beta"] = ",".join(dict.fromkeys([*filter(None, own.split(",")), *betas]))
    options = {"headers": headers}
    if rewrites(client, sdk):
        return {"body": json.loads(body), "options": options}
    return {"content": body, "options": options}


def host(url: object) -> str:
    """Return the name of the server, without what may be secret in its URL."""
    return urlsplit(str(url)).hostname or ""


def who(client: Client) -> str:
    """Name the provider for people: the company at its own address, else the server."""
    url = urlsplit(str(client.base_url))
    name = url.hostname or "the server"
    return COMPANIES.get(name) or (f"{name}:{url.port}" if url.port else name)


def patience(client: Client) -> float | None:
    """Return the seconds of silence after which this client gives up, if it does."""
    timeout = getattr(client, "timeout", None)
    return getattr(timeout, "read", timeout if isinstance(timeout, int | float) else None)
