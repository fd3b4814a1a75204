"""One string names a model: `model("anthropic:claude-sonnet-5-5")`. Book chapter 3.

    anthropic:MODEL    openai:MODEL    chat:MODEL@URL    local    local:NAME_OR_PATH    replay:FILE

Keys come from the environment only: ANTHROPIC_API_KEY and OPENAI_API_KEY, read when a model is made, so that
`os.environ["ANTHROPIC_API_KEY"] = getpass()` in a cell is enough. A server's own key goes into the URL,
`chat:MODEL@https://:KEY@HOST/v1`, or into HARNESS_NB_CHAT_KEY; it is taken out before anything is shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit

from harness_nb.errors import UsageError
from harness_nb.providers.clients import KEYS, no_key, no_package
from harness_nb.seams import Model

FORMS = "anthropic:MODEL, openai:MODEL, chat:MODEL@URL, local, local:NAME_OR_PATH or replay:FILE"
CHOICE = "HARNESS_NB_MODEL"
"""Environment variable with the default model: one of the forms, or a path to a .gguf file."""

DEFAULTS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-6.1-sol"}
"""The vendors, and the model used where none is named: of middling size and price."""


def model(name: str | None = None) -> Model:
    """Make the model that `name` names; nothing is sent, started or fetched yet.

    Without a name it is the one in HARNESS_NB_MODEL, else that of a vendor whose key and package are
    there, else the embedded one. Raises UsageError, with the fix, for a name of no form, and for a
    key, package or recording that is missing.
    """
    chosen = (name or default()).strip()
    kind, _, rest = chosen.partition(":")
    if kind not in KINDS:
        raise UsageError(_unknown(chosen))
    return KINDS[kind](rest.strip())


def default() -> str:
    """Name the model that is used where none is named."""
    if chosen := os.environ.get(CHOICE, "").strip():
        return f"local:{chosen}" if _names_weights(chosen) else chosen
    ready = (sdk for sdk in DEFAULTS if _key(sdk) and _installed(sdk))
    return next((f"{sdk}:{DEFAULTS[sdk]}" for sdk in ready), "local")


def _anthropic(rest: str) -> Model:
    _require("anthropic", rest)
    from harness_nb.providers.anthropic import Anthropic

    return Anthropic(rest)


def _openai(rest: str) -> Model:
    _require("openai", rest)
    from harness_nb.providers.openai import OpenAI

    return OpenAI(rest)


def _chat(rest: str) -> Model:
    served, url, key = server(rest)
    _require_package("openai", f"chat:{served}")
    from harness_nb.providers.chat import Chat

    return Chat(served, url, api_key=key or None)


def _local(rest: str) -> Model:
    _require_package("xllamacpp", f"local:{rest}".rstrip(":"), extra="local")
    from harness_nb.providers.local import Local
    from harness_nb.providers.local.known import DEFAULT

    if not rest:
        kind, _, chosen = default().partition(":")
        rest = chosen if kind == "local" else ""
    return Local(rest or DEFAULT)


def _names_weights(name: str) -> bool:
    from harness_nb.providers.local.known import KNOWN

    return name in KNOWN or name.endswith(".gguf")


def _replay(rest: str) -> Model:
    if not rest:
        raise UsageError("`replay:` needs a file: replay:FILE.")
    from harness_nb.providers.recorded import Recorded

    return Recorded(rest)


KINDS: Mapping[str, Callable[[str], Model]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "chat": _chat,
    "local": _local,
    "replay": _replay,
}


def server(rest: str) -> tuple[str, str, str]:
    """Take `MODEL@URL` apart: the model, the URL without credentials, the key. Raises UsageError if it isn't that."""
    found = re.fullmatch(r"(?P<model>.+?)@(?P<url>https?://.+)", rest)
    try:
        url = urlsplit(found["url"]) if found else None
        port = f":{url.port}" if url and url.port else ""
    except ValueError:
        url, port = None, ""
    if not found or url is None or not url.hostname:
        raise UsageError(
            f"`chat:{_shown(rest)}` names no server: write chat:MODEL@URL, e.g. chat:qwen3@http://localhost:11434/v1."
        )
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    plain = url._replace(netloc=f"{host}{port}").geturl()
    return found["model"], plain, unquote(url.password or url.username or "")


def _require(sdk: str, rest: str) -> None:
    if not rest:
        raise UsageError(f"`{sdk}:` needs a model's name, e.g. {sdk}:{DEFAULTS[sdk]}.")
    _require_package(sdk, f"{sdk}:{rest}")
    if not _key(sdk):
        raise no_key(sdk, f"`{sdk}:{rest}`", "The model `local` needs none.")


def _require_package(package: str, name: str, extra: str = "") -> None:
    if not _installed(package):
        raise no_package(f"`{name}`", package, extra)


def _key(sdk: str) -> bool:
    return any(os.environ.get(variable, "").strip() for variable in KEYS[sdk])


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # it stands in sys.modules as absent
        return False


def _unknown(name: str) -> str:
    kind = name.partition(":")[0]
    if not kind:
        return f"A model has a name: {FORMS}."
    if name.startswith("claude"):
        near = [f"anthropic:{name}"]
    elif re.match(r"gpt|o\d|chatgpt", name):
        near = [f"openai:{name}"]
    elif _names_weights(name):
        near = [f"local:{name}"]
    else:
        near = [found + name[len(kind) :] for found in get_close_matches(kind, KINDS, n=1)]
    hint = f" Did you mean `{_shown(near[0])}`?" if near else ""
    return f"No model is called `{_shown(name)}`.{hint} Write {FORMS}."


def _shown(text: str) -> str:
    """Return what a person typed without credentials, and not at any length."""
    return re.sub(r"//\S*@", "//", text)[:100]
