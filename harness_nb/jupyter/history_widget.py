"""The drawing of the branch picker on the page; `start` is what it shows first."""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets

_HERE = Path(__file__).parent


class Branches(anywidget.AnyWidget):
    """An ipywidgets widget that asks history.py to go on from another run."""

    _esm = (_HERE / "history.js").read_text(encoding="utf-8")
    _css = (_HERE / "history.css").read_text(encoding="utf-8")
    start = traitlets.Dict().tag(sync=True)
