"""A real JupyterLab server that keeps to itself: its own settings, its own folder, this Python's kernel."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import nbformat

ROOT = Path(__file__).parents[2]
PATIENCE = 90
"""Seconds to wait for the server, the page, a kernel or a cell: generous, since the machine may be busy."""

SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
    "apputils-extension/themes": {"theme": "JupyterLab Light", "adaptive-theme": False},
}
"""JupyterLab as a person has it, less what would make two runs differ."""


@dataclass(frozen=True, slots=True)
class Lab:
    """A running server: its address, and the folder that it serves."""

    url: str
    token: str
    root: Path

    def place(self, source: Path | list[str], name: str | None = None) -> str:
        """Copy a notebook into the served folder, or make one of these code cells; return its name."""
        if isinstance(source, Path):
            name = name or source.name
            if source.parent == ROOT / "notebooks":  # lessons come with what they import and read
                unwanted = shutil.ignore_patterns("*.ipynb", ".*", "__pycache__")
                shutil.copytree(source.parent, self.root, ignore=unwanted, dirs_exist_ok=True)
            shutil.copy(source, self.root / name)
            return name
        name = name or f"notebook_{len(list(self.root.glob('*.ipynb')))}.ipynb"
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        cells = [nbformat.v4.new_code_cell(code, id=f"cell-{n}") for n, code in enumerate(source)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), self.root / name)
        return name

    def saved(self, name: str) -> dict[str, Any]:
        """Read the notebook as it lies on disk."""
        content: dict[str, Any] = json.loads((self.root / name).read_text(encoding="utf-8"))
        return content

    def ask(self, method: str, path: str) -> httpx.Response:
        """Call the server's own API."""
        with httpx.Client(trust_env=False, timeout=PATIENCE) as client:
            reply = client.request(method, f"{self.url}{path}", params={"token": self.token})
            return reply.raise_for_status()

    def untrusted(self, name: str) -> str:
        """Copy a saved notebook so that its signature no longer fits, as if it came by mail."""
        content = self.saved(name)
        content["metadata"]["came_from"] = "elsewhere"
        copy = f"untrusted_{name}"
        (self.root / copy).write_text(json.dumps(content), encoding="utf-8")
        return copy


@contextmanager
def serving(folder: Path) -> Iterator[Lab]:
    """Run a JupyterLab server that knows only this folder and this Python's kernel."""
    root = folder / "notebooks"
    root.mkdir()
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *_options(root)],
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield _answering(server, folder, root, log)
    finally:
        server.terminate()  # stops its kernels first
        with suppress(subprocess.TimeoutExpired):
            server.wait(30)
        server.kill()
        server.wait()


def _options(root: Path) -> list[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return [
        "--no-browser",
        "--allow-root",
        "--expose-app-in-browser",
        f"--ServerApp.port={port}",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.root_dir={root}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--ServerApp.log_level=WARN",
    ]


def _environment(folder: Path) -> dict[str, str]:
    """Point everything that Jupyter reads and writes into this folder."""
    places = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    for place in places.values():
        (folder / place).mkdir()
    for name, values in SETTINGS.items():
        path = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values), encoding="utf-8")
    own = {variable: str(folder / place) for variable, place in places.items()}
    return os.environ | own


def _answering(server: subprocess.Popen[bytes], folder: Path, root: Path, log: Path) -> Lab:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and server.poll() is None:
        for file in (folder / "runtime").glob("jpserver-*.json"):
            with suppress(httpx.HTTPError, ValueError):
                facts = json.loads(file.read_text(encoding="utf-8"))
                running = Lab(facts["url"], facts["token"], root)
                running.ask("GET", "api/status")
                return running
        time.sleep(0.1)
    message = f"JupyterLab did not start:\n{log.read_text(errors='replace')}"
    raise RuntimeError(message)
