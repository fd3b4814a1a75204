"""A real JupyterLab server and its notebooks in Chromium, for tests that see and click what a person does."""

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
from typing import Any, Literal

import httpx
import nbformat
from playwright.sync_api import Browser, Locator, Page, sync_playwright

ROOT = Path(__file__).parents[2]
ARTEFACTS = ROOT / ".ci" / "artefacts"
PATIENCE = 90
"""Seconds to wait for the server, the page, a kernel or a cell: generous, since the machine may be busy."""

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

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


class Notebook:
    """One notebook open in JupyterLab. Cells are counted from 0."""

    def __init__(self, page: Page, name: str) -> None:
        self.page = page
        self.name = name

    def outputs(self, n: int) -> list[dict[str, Any]]:
        """The outputs of cell n as the notebook file would hold them."""
        outputs: list[dict[str, Any]] = self._ask("panel.content.widgets[n].model.outputs?.toJSON() ?? []", n)
        return outputs

    def cell(self, n: int) -> Locator:
        """Cell n on the page, scrolled into view."""
        self._ask("panel.content.scrollToItem(n)", n)
        return self.page.locator(f".jp-Notebook .jp-Cell[data-windowed-list-index='{n}']")

    def output(self, n: int) -> Locator:
        """The output area of cell n on the page."""
        return self.cell(n).locator(".jp-Cell-outputArea")

    def text(self, n: int) -> str:
        """What a person reads below cell n."""
        area = self.output(n)
        return area.inner_text() if area.count() else ""

    def html(self, n: int) -> str:
        """The markup below cell n."""
        area = self.output(n)
        return area.inner_html() if area.count() else ""

    def write(self, n: int, code: str) -> None:
        """Replace the source of cell n, adding cells at the end until there is one."""
        while self.count() <= n:
            self._ask("app.commands.execute('notebook:insert-cell-below')", activate=self.count() - 1)
        self._ask("panel.content.widgets[n].model.sharedModel.setSource(code)", n, code=code)

    def type(self, n: int, text: str) -> None:
        """Type into cell n by keyboard, at its end."""
        self.cell(n).locator(".cm-content").click()
        self.page.keyboard.press("Control+End")
        self.page.keyboard.type(text)

    def count(self) -> int:
        """How many cells there are."""
        return int(self._ask("panel.content.widgets.length"))

    def start(self, n: int) -> None:
        """Run cell n without waiting for its end."""
        self._ask(
            "(() => { const runs = (window.runs ??= {}); runs[n] = false;"
            " app.commands.execute('notebook:run-cell').finally(() => { runs[n] = true }) })()",
            n,
            activate=n,
        )

    def run(self, n: int, timeout: float = PATIENCE) -> str:
        """Run cell n to its end and return what a person reads below it."""
        self.start(n)
        self.wait(n, timeout)
        return self.text(n)

    def running(self, n: int) -> bool:
        """Whether cell n was started and has not ended."""
        return self._ask("window.runs?.[n]", n) is False

    def wait(self, n: int, timeout: float = PATIENCE) -> None:
        """Wait until cell n, once started, has ended and the kernel is idle."""
        self._until("window.runs[n] === true && kernel?.status === 'idle'", n, timeout)

    def wait_for_kernel(self, timeout: float = PATIENCE) -> None:
        """Wait until the kernel is there and idle."""
        self._until("panel?.sessionContext?.isReady && kernel?.status === 'idle'", 0, timeout)

    def wait_for_text(self, n: int, text: str, timeout: float = PATIENCE) -> None:
        """Wait until a person can read this below cell n."""
        self.output(n).get_by_text(text).first.wait_for(timeout=timeout * 1000)

    def press(self, label: str, n: int | None = None) -> None:
        """Click the button of this name, below cell n or anywhere."""
        place = self.page if n is None else self.output(n)
        place.get_by_role("button", name=label, exact=True).first.click(timeout=PATIENCE * 1000)

    def interrupt(self) -> None:
        """Click JupyterLab's own stop button."""
        self.page.locator("[data-command='notebook:interrupt-kernel']").first.click()

    def save(self) -> None:
        """Save, and wait until JupyterLab says it is saved."""
        self._ask("app.commands.execute('docmanager:save')")
        self._until("panel.context.model.dirty === false", 0, PATIENCE)

    def close(self) -> None:
        """Stop the kernel and close the page."""
        self._ask("panel.sessionContext.shutdown()")
        self.page.close()

    def theme(self, name: Literal["light", "dark"]) -> None:
        """Switch JupyterLab's theme."""
        self._ask(
            "app.commands.execute('apputils:change-theme', { theme: code })",
            code=f"JupyterLab {name.title()}",
        )
        light = "true" if name == "light" else "false"
        self.page.wait_for_selector(f"body[data-jp-theme-light={light}]", state="attached")

    def resize(self, width: int, height: int = 900) -> None:
        """Give the browser window this size in CSS pixels."""
        self.page.set_viewport_size({"width": width, "height": height})

    def screenshot(self, name: str, n: int | None = None) -> Path:
        """Save a picture of the page, or of cell n, among CI's artefacts."""
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        path = ARTEFACTS / f"{name}.png"
        (self.page if n is None else self.cell(n)).screenshot(path=path, animations="disabled")
        return path

    def _ask(self, expression: str, n: int = 0, *, code: str = "", activate: int | None = None) -> Any:
        return self.page.evaluate(_IN_LAB % expression, {"n": n, "code": code, "activate": activate})

    def _until(self, condition: str, n: int, timeout: float) -> None:
        argument = {"n": n, "code": "", "activate": None}
        self.page.wait_for_function(_IN_LAB % condition, arg=argument, timeout=timeout * 1000, polling=50)


_IN_LAB = """({ n, code, activate }) => {
  const app = window.jupyterapp;
  const panel = app?.shell.currentWidget;
  const kernel = panel?.sessionContext?.session?.kernel;
  if (activate !== null) { panel.content.activeCellIndex = activate; panel.content.deselectAll(); }
  return %s;
}"""


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


def browser_path() -> str | None:
    """Where this machine keeps Chromium, if anywhere."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


@contextmanager
def browsing(path: str | None) -> Iterator[Browser]:
    """Run this Chromium, headless."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Desk:
    """Opens the server's notebooks in one browser, and clears up after a test."""

    def __init__(self, lab: Lab, browser: Browser) -> None:
        self.lab = lab
        self._context = browser.new_context(viewport={"width": 1200, "height": 900})
        self._context.set_default_timeout(PATIENCE * 1000)
        self._opened = 0

    def open(
        self, notebook: str | Path | list[str], *, kernel: bool = True, sidebar: bool = False
    ) -> Notebook:
        """Open a notebook by name in the served folder, by path, or made of code cells; wait for its kernel.

        With `sidebar`, the whole JupyterLab is shown and not just the document.
        """
        name = notebook if isinstance(notebook, str) else self.lab.place(notebook)
        self._opened += 1
        view = f"lab/workspaces/desk{self._opened}" if sidebar else "doc"
        page = self._context.new_page()
        page.goto(f"{self.lab.url}{view}/tree/{name}?token={self.lab.token}")
        opened = Notebook(page, name)
        opened._until("panel?.context?.isReady && panel.content?.widgets.length > 0", 0, PATIENCE)
        if kernel:
            opened.wait_for_kernel()
        return opened

    def clear(self) -> None:
        """Close every page, then stop the kernels they leave behind."""
        self._context.close()
        for session in self.lab.ask("GET", "api/sessions").json():
            self.lab.ask("DELETE", f"api/sessions/{session['id']}")
