"""Asks the person at the cell before a decision about the context that can wait. Fits context/relief.py's Ask.

It goes the way of a question about a call: by buttons where a click would be heard, else as text. Where nobody can be asked
now the decision is taken, since a window that overflows helps nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from harness_nb.jupyter.bridge import in_the_cell
from harness_nb.jupyter.decision_card import DecisionCard
from harness_nb.jupyter.view import RunView
from harness_nb.messages import Decision

CHOICES = "Do it (y), or keep the context as it is (n): "


class Place(Protocol):
    """Where a run is shown, as far as a proposal needs it."""

    @property
    def view(self) -> RunView:
        """What is shown, as data."""
        ...

    async def clickable(self) -> bool:
        """Tell whether a click would be heard now."""
        ...

    @property
    def input(self) -> Callable[[str], str] | None:
        """How a line is read from the person, if they can be asked for one."""
        ...


class Proposals:
    """Puts the decisions of one run to its person, one at a time."""

    def __init__(self, timeout: float | None = None) -> None:
        """A click that doesn't come within `timeout` seconds counts as yes; None to wait for ever."""
        self.place: Place | None = None
        self._timeout = timeout
        self._open: tuple[str, asyncio.Future[bool]] | None = None

    async def __call__(self, decision: Decision) -> bool:
        """Return whether the person wants it taken."""
        place = self.place
        if place is None:
            return True
        card = place.view.propose(decision)
        answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._open = (
            decision.id,
            answered,
        )  # open before it is known whether clicks arrive: one may come first
        taken = True
        try:
            if await place.clickable():
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._timeout):
                        taken = await answered
            elif (read := place.input) is not None:
                taken = await in_the_cell(lambda: _by_text(card, read))
        finally:
            self._open = None
            place.view.settle(card, taken=taken)
        return taken

    def clicked(self, click: dict[str, object]) -> bool:
        """Take a decision from the live view; return whether it was about what is proposed now."""
        if self._open is None or self._open[0] != click.get("question"):
            return False
        answered = self._open[1]
        if click.get("answer") in {"allow", "deny"} and not answered.done():
            answered.set_result(click["answer"] == "allow")
        return True


def _by_text(card: DecisionCard, read: Callable[[str], str]) -> bool:
    print(f"\n{card.question}\n{card.because}\n", flush=True)  # noqa: T201 - the question
    while True:
        try:
            choice = read(CHOICES).strip().lower()
        except (EOFError, NotImplementedError):
            return True
        if choice in {"y", "n"}:
            return choice == "y"
