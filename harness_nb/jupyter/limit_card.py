"""The card below a run that a limit ended: one button, which allows more and has the run go on in its place.

Theory of operation. A run that ended stays as it is in the notebook that is saved, so no widget may stay in there: once the
card is on the page it moves into an empty output that takes the widget's place. What it says, the record above says too,
with the command that does the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import anywidget
import traitlets
from IPython.display import display, update_display

from harness_nb.jupyter.money import Offer

_HERE = Path(__file__).parent
PLACE = {"text/html": '<div class="hnb-limit-place"></div>', "text/plain": ""}
"""What is saved where the card is."""


class LimitCard(anywidget.AnyWidget):
    """The drawing; `offer` is what it says and what a click sends."""

    _esm = (_HERE / "limit_card.js").read_text(encoding="utf-8")
    _css = (_HERE / "live.css").read_text(encoding="utf-8")
    offer = traitlets.Dict().tag(sync=True)

    def __init__(self, offer: Offer, place: str) -> None:
        """Show it in a display of this id."""
        words = {"id": offer.id, "title": offer.title, "why": offer.promise, "act": offer.act}
        super().__init__(offer=words)
        self._place = place
        drawn = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        self._show(display, {"application/vnd.jupyter.widget-view+json": drawn, **PLACE})

    def mounted(self) -> None:
        """Have the notebook keep the place alone: the page has taken the drawing."""
        self._show(update_display, PLACE)

    def refused(self, why: str) -> None:
        """Say why it did not go on."""
        self.send({"refused": why})

    def close(self) -> None:
        """Take it off the page."""
        self.layout.close()
        super().close()

    def _show(self, show: object, forms: Mapping[str, object]) -> None:
        show(forms, raw=True, display_id=self._place)  # type: ignore[operator]
