"""What went wrong on the wire, as one ProviderError in the provider's words, with every key taken out. Used by the adapters.

Classed by what the body says first and by the HTTP status after that: a fault inside a stream comes with status
200, and a rate limit for want of credit never passes.
"""

from __future__ import annotations

import json
import math
import re
import ssl
import sys
import time
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import TypeAlias, cast

from harness_nb.errors import ProviderError
from harness_nb.providers.overflow import overflow
from harness_nb.redaction import without_keys

Body: TypeAlias = Mapping[str, object]

RETRYABLE = frozenset({408, 409, 425, 429, 529})
"""Statuses that may pass, besides 5xx."""

LASTING = frozenset(
    {
        *("invalid_request_error", "authentication_error", "permission_error", "not_found_error"),
        *("request_too_large", "billing_error", "insufficient_quota", "billing_hard_limit_reached"),
        *("context_length_exceeded", "exceed_context_size_error", "invalid_prompt", "invalid_api_key"),
        *("model_not_found", "content_filter", "content_policy_violation", "not_supported_error"),
        *("unsupported_value", "model_error", "invalid_image", "invalid_encrypted_content"),
    }
)
"""A provider's names for faults that the same request meets again."""

PASSING = frozenset(
    {
        *("overloaded_error", "api_error", "rate_limit_error", "timeout_error", "server_error"),
        *("rate_limit_exceeded", "internal_server_error", "server_overloaded", "service_unavailable"),
    }
)
"""A provider's names for faults that may pass."""

MISFIT = re.compile(
    r"(?i)failed to parse|jinja|chat template|unable to generate parser|grammar|input is not supported"
)
"""llama.cpp answers 500 when a reply or a history doesn't fit the model's chat template, or when it can't see
pictures: no outage, so no retry."""

LOCAL = re.compile(r"\('(?:127\.|::1')")
"""How Python names an address of this machine that refused a connection."""

SECRET_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "proxy-authorization"})


class Redaction:
    """Takes secrets out of text: those it was told of, and those that redaction.py knows."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()

    def learn(self, values: Iterable[object]) -> None:
        """Remember secrets; a `Bearer` before one is not part of it."""
        for value in values:
            if isinstance(value, str) and len(secret := value.removeprefix("Bearer ").strip()) >= 6:
                self._secrets.add(secret)

    def learn_headers(self, headers: Mapping[str, str]) -> None:
        """Remember the secrets that a request carried."""
        self.learn(value for name, value in headers.items() if name.lower() in SECRET_HEADERS)

    def __call__(self, text: str) -> str:
        """Return the text without them."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "[key]")
        return without_keys(text, "[key]")


def stated(body: object) -> Body | None:
    """Find the fault in a body or an event: a nested `error`, a flat `error` event, a failed response."""
    if not isinstance(body, dict):
        return None
    if error := body.get("error"):
        return error if isinstance(error, dict) else {"message": str(error)}
    kind = body.get("type")
    if kind == "error":
        return body
    if kind == "response.failed":
        return stated(body.get("response")) or {"message": "no more was said"}
    return None


def fault(
    who: str, body: object, *, status: int | None = None, headers: Mapping[str, str] | None = None
) -> ProviderError:
    """Make the error of what a provider said; `who` is its name for people."""
    said = stated(body) or (body if isinstance(body, Mapping) else {})
    code = _code(said)
    if status in (None, 200):
        number = said.get("code", said.get("status_code"))
        status = number if isinstance(number, int) and 400 <= number < 600 else None
    words = _words(said, body)
    if status == 500 and MISFIT.search(words):
        code = "model_error"
    too_large, window = overflow(status, code, words, said)
    label = " ".join(str(part) for part in (status, code) if part) or "no code"
    return ProviderError(
        f"{who} answered with an error ({label}): {words}",
        status=status,
        code=code,
        retryable=not too_large and _may_pass(status, code, headers or {}),
        retry_after=retry_after(headers or {}),
        overflow=too_large,
        window=window,
    )


def _code(said: Body) -> str:
    """Return the most telling name for a fault: a code that we know, else the type, else the code."""
    names = [
        name
        for key in ("code", "type", "error_code")
        if isinstance(name := said.get(key), str) and name != "error"
    ]
    known = [name for name in names if name in LASTING or name in PASSING]
    return (known or names[::-1] or [""])[0]


def _may_pass(status: int | None, code: str, headers: Mapping[str, str]) -> bool:
    if code in LASTING:
        return False
    if (told := headers.get("x-should-retry")) in {"true", "false"}:
        return told == "true"
    if status is None:
        return True  # it broke off in the middle of an answer
    return status in RETRYABLE or (status >= 500 and status != 501)


def _words(said: Body, body: object) -> str:
    message = said.get("message") or said.get("detail")
    if isinstance(message, str) and message.strip():
        return _short(message)
    if isinstance(body, str) and body.strip():
        return "a web page, not an answer; check the URL" if is_page(body) else _short(body)
    return _short(json.dumps(body, default=str)) if body else "no more was said"


def _short(text: str, limit: int = 1000) -> str:
    text = text.strip()
    return text if len(text) <= limit else f"{text[:limit]}..."


def is_page(text: str) -> bool:
    """Tell whether text is a web page."""
    return bool(re.match(r"\s*<(!doctype|html|head|body|\?xml)", text, re.IGNORECASE))


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Read how many seconds a provider asks to wait: milliseconds, seconds or a date; None for none or nonsense."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) / unit
        except ValueError:
            seconds = _until(text, time.time() if now is None else now)
        if math.isfinite(seconds) and seconds > 0:
            return seconds
    return None


def _until(date: str, now: float) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return math.nan


def transport_errors() -> tuple[type[Exception], ...]:
    """List what a broken connection raises, with either SDK and either generation of its HTTP library."""
    modules = [sys.modules[name] for name in ("httpx2", "httpx") if name in sys.modules]
    return (
        *(cast("type[Exception]", module.HTTPError) for module in modules),
        ssl.SSLError,
        OSError,
        EOFError,
    )


def broken(who: str, error: BaseException, wait: float | None = None) -> ProviderError:
    """Make the error of a connection that could not be made, broke, or fell silent."""
    names = {kind.__name__ for cause in _causes(error) for kind in type(cause).__mro__}
    if names & {
        "ConnectError",
        "ConnectTimeout",
        "ConnectionRefusedError",
        "gaierror",
        "UnsupportedProtocol",
    }:
        text = f"{who} can't be reached: {_cause_words(error)}. Check the address, and that the server is running."
    elif names & {"TimeoutException", "APITimeoutError", "TimeoutError"}:
        text = f"{who} sent nothing for {wait:g} seconds." if wait else f"{who} took too long to answer."
    else:
        text = f"The connection to {who} broke: {_cause_words(error)}."
    here = "ConnectionRefusedError" in names and any(LOCAL.search(str(cause)) for cause in _causes(error))
    code = "not_running" if here else "connection"
    return ProviderError(text, code=code, retryable="UnsupportedProtocol" not in names)


def _causes(error: BaseException | None) -> Iterable[BaseException]:
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__
    return seen


def _cause_words(error: BaseException) -> str:
    words = [str(cause).strip() for cause in _causes(error)]
    return next(
        (text.rstrip(".") for text in words if text and text != "Connection error."), type(error).__name__
    )
