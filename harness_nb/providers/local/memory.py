"""The state that a prompt leaves in the engine, kept on disk: the first answer of a session comes in seconds.

Reading the tools and examples costs ten seconds or more on two cores, and is the same work each time. The server can
save what it made of them and load it again. Losing such a file costs time only, so every failure here is silent.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from harness_nb.providers.local.engine import Engine
from harness_nb.providers.local.wire import client, complete

KEPT = 16
"""Files kept, the newest; each is some megabytes."""


async def prepare(engine: Engine, slot: int, prefix: Sequence[Mapping[str, str]]) -> None:
    """Have the state of this beginning of a prompt in the slot: as it stands, as it was saved, or made now and saved."""
    name = _name(engine, prefix)
    if engine.settings.slots is None or engine.held.get(slot) == name:
        return
    path = engine.settings.slots / name
    engine.held.pop(slot, None)
    if not await _act(engine, slot, "restore", path.name):
        # Made with a greeting, so that no question of a person's is in the file.
        greeting = [*prefix, {"role": "user", "content": "Hi"}]
        await complete(engine, {"messages": greeting, "max_tokens": 1, "id_slot": slot})
        fresh = path.with_name(f"{name}.{os.getpid()}")  # whole or not at all
        if await _act(engine, slot, "save", fresh.name):
            _keep(fresh, path)
    engine.held[slot] = name


def _name(engine: Engine, prefix: object) -> str:
    """Name the state by the prompt, the weights and the engine's version: it fits no other."""
    file = engine.settings.model.stat()
    settings = (engine.settings.context, engine.settings.template)
    parts = (
        prefix,
        str(engine.settings.model),
        file.st_size,
        file.st_mtime_ns,
        settings,
        version("xllamacpp"),
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def _keep(fresh: Path, path: Path) -> None:
    """Put a new file in its place, and let go of the oldest ones."""
    with suppress(OSError):
        fresh.replace(path)
        for old in sorted(path.parent.iterdir(), key=lambda file: file.stat().st_mtime)[:-KEPT]:
            old.unlink()


async def _act(engine: Engine, slot: int, action: str, filename: str) -> bool:
    import httpx2

    try:
        async with client(engine) as http:
            done = await http.post(f"/slots/{slot}", params={"action": action}, json={"filename": filename})
    except httpx2.HTTPError:
        return False
    return done.is_success
