"""The state that a prompt leaves in the engine, kept on disk: the first answer of a session comes in seconds.

Reading the tools and examples costs ten seconds or more on two cores, and is the same work each time. The server can
save what it made of them and load it again. Losing such a file costs time only, so every failure here is silent.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from harness_nb.providers.local.engine import Engine
from harness_nb.providers.local.wire import client

KEPT = 8
"""Files kept, the newest; each is some megabytes."""


def key(engine: Engine, prefix: object) -> str:
    """Name the state: by the prompt, the weights and the engine's version, since it fits no other."""
    file = engine.settings.model.stat()
    parts = (prefix, str(engine.settings.model), file.st_size, file.st_mtime_ns, engine.settings.context)
    return hashlib.sha256(json.dumps([*parts, version("xllamacpp")]).encode()).hexdigest()[:24]


async def recall(engine: Engine, name: str) -> bool:
    """Load a saved state into the engine; False if there is none that fits."""
    path = _path(engine, name)
    if not path or not path.exists():
        return False
    if await _slot(engine, "restore", path.name):
        with suppress(OSError):
            path.touch()
        return True
    path.unlink(missing_ok=True)
    return False


async def remember(engine: Engine, name: str) -> None:
    """Save the engine's present state under this name, and let go of the oldest ones."""
    path = _path(engine, name)
    if not path:
        return
    fresh = path.with_name(f"{name}.{os.getpid()}")
    if await _slot(engine, "save", fresh.name):
        with suppress(OSError):
            fresh.replace(path)
            kept = sorted(path.parent.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
            for old in kept[KEPT:]:
                old.unlink()


def _path(engine: Engine, name: str) -> Path | None:
    return engine.settings.slots / name if engine.settings.slots else None


async def _slot(engine: Engine, action: str, filename: str) -> bool:
    import httpx2

    try:
        async with client(engine) as http:
            done = await http.post("/slots/0", params={"action": action}, json={"filename": filename})
    except httpx2.HTTPError:
        return False
    return done.is_success
