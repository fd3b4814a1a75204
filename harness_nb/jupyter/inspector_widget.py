"""The drawing of the inspector on the page; `start` is what it shows first."""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets

_HERE = Path(__file__).parent


class Panel(anywidget.AnyWidget):
    """An ipywidgets widget that asks inspector.py for what a person wants to see."""

    _esm = (_HERE / "inspector.js").read_text(encoding="utf-8")
    _css = (_HERE / "inspector.css").read_text(encoding="utf-8")
    start = traitlets.Dict().tag(sync=True)
