"""The live view of a run in a notebook: one anywidget, fed joined deltas, replaced by the static record at the end.

Theory of operation. The listener folds each event and sends what is new at most once in `INTERVAL`
seconds: a timer on the running loop sends the rest, and where the loop is blocked the next event does.
Messages are numbered. A front end that misses one, or that comes late (a reload, a second window),
asks for the whole and gets it once. Where nothing has been heard from a front end, because it can't
talk to a busy kernel, the whole is sent unasked, ever less often, so that it still catches up.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import anywidget
import traitlets
from IPython.display import display, update_display

from harness_nb.events import Event, RunEnded
from harness_nb.jupyter.bridge import running_loop
from harness_nb.jupyter.feed import Feed, Json
from harness_nb.jupyter.limit_card import LimitCard
from harness_nb.jupyter.record import bundle, stand_in
from harness_nb.jupyter.shell import answerable
from harness_nb.jupyter.view import RunView

INTERVAL = 0.12
"""Seconds between two messages to the front end."""

CATCH_UP = 0.75
"""Seconds after which the whole is sent for the first time to a front end that stays silent."""

LISTEN = 5.0
"""Seconds from its start that a run waits to hear from its front end before a question is put as text."""

LISTEN_LONGER, LISTEN_LESS = 30.0, 0.5
"""The same where a run of this kind, awaited or not, was heard last time, so that it is only slow; and where not."""

_HERE = Path(__file__).parent


def _together(*names: str) -> str:
    return "\n".join((_HERE / name).read_text(encoding="utf-8") for name in names)


class Live(anywidget.AnyWidget):
    """The drawing; `start` is the whole state, worked out whenever a front end asks for it."""

    _esm = _together("markdown.js", "card.js", "context.js", "cut.js", "live.js")
    _css = _together("live.css", "context.css")
    start = traitlets.Dict().tag(sync=True)


class LiveRun:
    """One run shown in the output of the cell that made this."""

    patience: ClassVar[dict[bool, float]] = {}
    """How long to wait for a front end: for runs on the main thread, which are awaited, and for others."""

    def __init__(
        self,
        prompt: str,
        stop: Callable[[], None],
        decide: Callable[[Json], str] = lambda _: "",
        *,
        takes_input: bool = True,
    ) -> None:
        """Show the run at once, before its first event; `stop` and `decide` hear what a person asks for.

        `takes_input` is whether the front end can ask them for a line.
        """
        self.view = RunView(prompt)
        self._takes_input = takes_input
        self._in_main_thread = threading.current_thread() is threading.main_thread()
        self._stop = stop
        self._decide = decide
        self._heard = asyncio.Event()
        self._began = time.monotonic()
        self._feed = Feed(self.view)
        self._loop = self._home = running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._number = 0
        self._sent_at = 0.0
        self._answered = False
        self._catch_up = CATCH_UP
        self._closed = False
        self._display = uuid.uuid4().hex
        self._below = ""
        """Where the buttons are while the record of a suspended run stands in the place of the view."""
        self._waits = False
        self._card: LimitCard | None = None
        self._live = Live(model_id=self._display, start=self._whole() | {"id": self._display})
        self._live.on_msg(self._hear)
        display(self._drawing(), raw=True, display_id=self._display)  # type: ignore[no-untyped-call]

    def _drawing(self) -> Json:
        drawn = {"version_major": 2, "version_minor": 0, "model_id": self._live.model_id}
        return {"application/vnd.jupyter.widget-view+json": drawn, **stand_in(self.view.prompt)}

    @property
    def input(self) -> Callable[[str], str] | None:
        """How a line is read from the person, None in the background: an alarm ends it on the main thread alone."""
        return answerable() if self._in_main_thread and self._takes_input else None

    async def attended(self) -> bool:
        """Somebody does."""
        return True

    async def clickable(self) -> bool:
        """Wait a little for a sign of life from the front end; what can't be heard now won't be clicked either."""
        self._loop = asyncio.get_running_loop()
        awaited = threading.current_thread() is threading.main_thread()
        patience = self.patience.get(awaited, LISTEN)
        self._send()  # the question, before anything else blocks the loop
        with suppress(TimeoutError):
            left = self._began + patience - time.monotonic()
            async with asyncio.timeout(left):  # wait_for may swallow a cancel
                await self._heard.wait()
        self.patience[awaited] = LISTEN_LONGER if self._heard.is_set() else LISTEN_LESS
        return self._heard.is_set()

    def listener(self, event: Event) -> None:
        """Fold an event in, and send what is new when it is time."""
        if self._closed:
            return
        self._feed.hear(event)
        if self._waits:
            self._put(bundle(self.view), self._display)
        wait = self._sent_at + INTERVAL - time.monotonic()
        if wait <= 0 or isinstance(event, RunEnded):
            self._send()
        elif self._timer is None:
            self._timer = self._later(wait)

    def close(self) -> None:
        """Put the record in the place of the live view; buttons that wait go below it. Does nothing the second time."""
        if self._closed or (self._waits and self.view.held):
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.view.finish()
        self._put(bundle(self.view), self._display)
        if self.view.held:
            self._wait()
            return
        self._closed = True
        self._remove_buttons()
        self._live.layout.close()
        self._live.close()

    def _wait(self) -> None:
        self._send()
        self._waits, self._loop, self._below = True, self._home, uuid.uuid4().hex
        if self.view.offer is not None:
            self._card = LimitCard(self.view.offer, self._below)
            self._card.on_msg(self._hear)
            return
        buttons = self._drawing() | {"text/html": "", "text/plain": ""}  # the record above has the words
        display(buttons, raw=True, display_id=self._below)  # type: ignore[no-untyped-call]

    def go_on(self, stop: Callable[[], None], decide: Callable[[Json], str]) -> None:
        """Put the live view back in the place of the record: the run goes on, whether or not its cell is over."""
        self._stop, self._decide = stop, decide
        self._remove_buttons()
        self._waits = False
        self._put(self._drawing(), self._display)

    def _remove_buttons(self) -> None:
        if self._card is not None:
            self._card.close()
            self._card = None
        if self._below:
            self._put({"text/plain": ""}, self._below)
            self._below = ""

    def _put(self, forms: Mapping[str, object], place: str) -> None:
        update_display(forms, raw=True, display_id=place)  # type: ignore[no-untyped-call]

    def _later(self, wait: float) -> asyncio.TimerHandle | None:
        if (loop := running_loop()) is None:
            return None
        self._loop = loop
        return loop.call_later(wait, self._send)

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closed:
            return
        self._sent_at = time.monotonic()
        new = self._feed.changes()
        if not self._answered and self.view.elapsed > self._catch_up:
            self._catch_up *= 4
            self._live.send(self._whole())
        elif new:
            self._number += 1
            self._live.send(new | {"number": self._number})

    def _whole(self) -> Json:
        """Everything, as the next message: those who have it all find nothing new in it."""
        self._feed.changes()
        self._number += 1
        return self._feed.whole() | {"number": self._number, "whole": True}

    def _hear(self, _: object, content: Json, __: object) -> None:
        """Take a message from a front end, on whichever thread the kernel delivers it."""
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._answer, content)
                return
        except RuntimeError:  # that loop is closed
            self._loop = None
        self._answer(content)

    def _answer(self, content: Json) -> None:
        if self._closed:
            return
        self._answered = True
        self._heard.set()
        match content.get("ask"):
            case "whole":
                self._live.send(self._whole())
            case "mounted" if self._card is not None:
                self._card.mounted()
            case "decide" if self._card is not None:
                if fault := self._decide(content):
                    self._card.refused(fault)
            case "decide":
                if fault := self._decide(content):
                    self._live.send({"refused": content.get("question"), "why": fault})
            case "context":
                self._live.send({"heard": content.get("decision"), "told": self._decide(content)})
            case "stop":
                self._live.send({"stopping": True})
                self._stop()
            case _:
                pass
