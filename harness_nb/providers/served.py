"""What a server at a URL of one's own says of the window it gives a model. Used by chat.py. Book chapter 7.

There is no standard for it: llama.cpp, vLLM, SGLang and most routers tell it in their list of models, LM Studio and
Ollama in lists of their own. What a model was trained on is not what it is served with, so that only a served size counts.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import httpx2

Entry: TypeAlias = dict[str, object]

PATIENCE = 2.0
"""Seconds that a server may take for each list."""
LONGEST = 8_000_000
"""Most bytes of a list that are read."""

LISTS = ("/v1/models", "/api/v0/models", "/api/ps")
"""Where servers list their models: everyone, LM Studio, Ollama (those that are loaded)."""
NAMES = ("id", "name", "model")
SIZES = (
    "max_model_len",
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_input_tokens",
    "n_ctx",
)
"""Fields that give the served window in tokens."""


def served_window(
    base_url: str, model: str, key: str, *, patience: float = PATIENCE, longest: int = LONGEST
) -> int:
    """Ask the server for the window of this model, in tokens; 0 where it doesn't tell, or doesn't answer soon."""
    import httpx2

    root = base_url.rstrip("/").removesuffix("/v1")
    headers = {"authorization": f"Bearer {key}"}
    with (
        contextlib.suppress(httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, RecursionError),
        httpx2.Client(headers=headers, timeout=patience) as http,
    ):
        for path in LISTS:
            asked = base_url.rstrip("/") + "/models" if path == LISTS[0] else root + path
            entries = list(_entries(_listed(http, asked, longest)))
            mine = [entry for entry in entries if model in map(entry.get, NAMES)] or entries[
                : len(entries) == 1
            ]
            if size := next((size for entry in mine for size in _sizes(entry)), 0):
                return size
    return 0


def _listed(http: httpx2.Client, url: str, longest: int) -> object:
    content = b""
    with http.stream("GET", url) as answer:
        if answer.status_code == 200:
            for chunk in answer.iter_bytes():
                content += chunk
                if len(content) > longest:
                    return None
    return json.loads(content) if content[:1] in {b"{", b"["} else None


def _entries(listed: object) -> Iterator[Entry]:
    found = listed.get("data") or listed.get("models") if isinstance(listed, dict) else listed
    for entry in found if isinstance(found, list) else ():
        if isinstance(entry, dict):
            yield entry


def _sizes(entry: Entry) -> Iterator[int]:
    meta = entry.get("meta")
    for place in (entry, meta if isinstance(meta, dict) else {}):
        for key in SIZES:
            size = place.get(key)
            if isinstance(size, int) and 0 < size <= 100_000_000:
                yield size
