"""Notebooks of a running JupyterLab in Chromium: a test sees, types and clicks what a person does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from browser.lab import PATIENCE, ROOT, Lab
from playwright.sync_api import Browser, Error, Locator, Page, ViewportSize, expect, sync_playwright

expect.set_options(timeout=PATIENCE * 1000)  # a busy machine is slow, not wrong

ARTEFACTS = ROOT / ".ci" / "artefacts"

VIEWPORT: ViewportSize = {"width": 1200, "height": 900}

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def browser_path() -> str | None:
    """Where this machine keeps Chromium, if anywhere."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


@contextmanager
def browsing(path: str | None) -> Iterator[Pages]:
    """Run this Chromium, headless."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        try:
            yield Pages(browser)
        finally:
            browser.close()


class Pages:
    """The pages of one browser. Those on which JupyterLab is loaded are kept for the next test: loading takes longer than most."""

    def __init__(self, browser: Browser) -> None:
        self._context = browser.new_context()
        self._context.set_default_timeout(PATIENCE * 1000)
        self._loaded: list[Page] = []

    def new_page(self) -> Page:
        """Open an empty page."""
        page = self._context.new_page()
        page.set_viewport_size(VIEWPORT)
        return page

    def loaded(self) -> Page | None:
        """Take a page with JupyterLab on it and nothing open, None where there is none left."""
        while self._loaded:
            page = self._loaded.pop()
            if page.evaluate(_TIDY):
                page.set_viewport_size(VIEWPORT)
                return page
            page.close()
        return None

    def keep(self, page: Page) -> None:
        """Close what is open on a page, and keep it."""
        if not page.is_closed() and page.evaluate(_CLEAR):
            self._loaded.append(page)
        else:
            page.close()


class Desk:
    """Opens the server's notebooks in one browser, and clears up after a test."""

    def __init__(self, lab: Lab, pages: Pages) -> None:
        self.lab = lab
        self._pages = pages
        self._opened: list[tuple[Notebook, bool]] = []

    def open(
        self, notebook: str | Path | list[str], *, kernel: bool = True, sidebar: bool = False
    ) -> Notebook:
        """Open a notebook by name in the served folder, by path, or made of code cells; wait for its kernel.

        With `sidebar`, the whole JupyterLab is shown and not just the document.
        """
        name = notebook if isinstance(notebook, str) else self.lab.place(notebook)
        loaded = None if sidebar else self._pages.loaded()
        opened = Notebook(loaded or self._pages.new_page(), name)
        self._opened.append((opened, sidebar))
        if loaded is None:
            view = f"lab/workspaces/desk{len(self._opened)}" if sidebar else "doc"
            opened.page.goto(f"{self.lab.url}{view}/tree/{name}?token={self.lab.token}")
        else:
            opened.show()
        opened._until("panel?.context?.isReady && panel.content?.widgets.length > 0", 0, PATIENCE)
        if kernel:
            opened.wait_for_kernel()
        return opened

    def clear(self) -> None:
        """Close every notebook, then stop the kernels they leave behind."""
        for opened, sidebar in self._opened:
            opened.forget()
            if sidebar:
                opened.page.close()
            else:
                self._pages.keep(opened.page)
        for session in self.lab.ask("GET", "api/sessions").json():
            self.lab.ask("DELETE", f"api/sessions/{session['id']}")


class Notebook:
    """One notebook open in JupyterLab. Cells are counted from 0."""

    def __init__(self, page: Page, name: str) -> None:
        self.page = page
        self.name = name
        self.faults: list[str] = []
        """Errors that scripts raised and nobody caught, each with its stack, less those of JupyterLab alone."""
        self.passed_over: list[str] = []
        """Those: every frame of the stack is in JupyterLab's own bundle, none in a script of ours or a widget's."""
        page.on("pageerror", self._note)

    def show(self) -> None:
        """Open it on a page where JupyterLab is loaded already."""
        self._ask(
            "app.serviceManager.kernelspecs.refreshSpecs()"
            ".then(() => app.commands.execute('docmanager:open', { path: code, factory: 'Notebook' })).then(() => true)",
            code=self.name,
        )

    def forget(self) -> None:
        """Hear no more of what goes wrong on the page."""
        self.page.remove_listener("pageerror", self._note)

    def _note(self, error: Error) -> None:
        stack = error.stack or str(error)
        frames = [line for line in stack.splitlines() if line.lstrip().startswith("at ")]
        theirs = bool(frames) and all("/static/lab/" in frame for frame in frames)
        (self.passed_over if theirs else self.faults).append(stack)

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


_CLEAR = """() => {
  const app = window.jupyterapp;
  if (!app) return false;
  for (const panel of [...app.shell.widgets('main')]) {
    if (panel.context) panel.context.model.dirty = false;
    panel.dispose();
  }
  delete window.runs;
  return true;
}"""

_TIDY = "() => !document.querySelector('.jp-Dialog, .jp-Notebook')"
"""Whether nothing that was open has left something behind."""

_IN_LAB = """({ n, code, activate }) => {
  const app = window.jupyterapp;
  const panel = app?.shell.currentWidget;
  const kernel = panel?.sessionContext?.session?.kernel;
  if (activate !== null) { panel.content.activeCellIndex = activate; panel.content.deselectAll(); }
  return %s;
}"""
