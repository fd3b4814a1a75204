"""A run as plain text while it happens, for IPython in a terminal, for scripts and for `harness-nb demo`.

Words stream as they come; everything else is one line once it is over. Nothing that a model or a tool
says can act on the terminal: control codes are shown, not sent. Fits the listener socket.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

from harness_nb.events import Event, LimitMet, Progress, RetryWaiting, RunStarted, TextDelta, TurnRestarted
from harness_nb.jupyter.decision_card import DecisionCard
from harness_nb.jupyter.decision_record import card_as_text
from harness_nb.jupyter.segments import Note, Segment, ToolUse, Words
from harness_nb.jupyter.view import RunView
from harness_nb.jupyter.words import tokens, visible

ROWS, SUMMARY = 12, 600
"""Most lines of a decision's table, and most characters of its summary."""

DIM, RED, PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[0m"


class TerminalRun:
    """Writes one run by `write`, a function of text that shows it at once; `colour` allows dim and red.

    `read` asks the person for a line, where there is one who can be asked.
    """

    def __init__(
        self,
        prompt: str,
        write: Callable[[str], object],
        *,
        colour: bool = False,
        read: Callable[[str], str] | None = None,
    ) -> None:
        """Write nothing yet."""
        self.input = read
        self.view = RunView(prompt)
        self._write = write
        self._colour = colour
        self._done = 0
        """Segments that need nothing more to be written."""
        self._streaming = False
        """Whether the segment after those is text that has begun to be written."""

    async def clickable(self) -> bool:
        """A terminal has no buttons."""
        return False

    async def attended(self) -> bool:
        """Who can be asked is asked at once."""
        return False

    def go_on(self, stop: Callable[[], None], decide: Callable[[dict[str, object]], str]) -> None:
        """A terminal has no buttons."""

    def listener(self, event: Event) -> None:
        """Write what is new."""
        self.view.take(event)
        match event:
            case RunStarted():
                self._line(f"agent · {self.view.model}", DIM)
            case TurnRestarted():
                self._end_text()
                self._done = len(self.view.segments) - 1
            case RetryWaiting():  # its note takes the place of the last wait's, which is written already
                self._done = min(self._done, len(self.view.segments) - 1)
            case LimitMet():  # what was written stays
                self._done = min(self._done, len(self.view.segments))
            case _:
                pass
        while self._done < len(self.view.segments) and self._is_over(self.view.segments[self._done]):
            self._finish(self.view.segments[self._done])
            self._done += 1
        if isinstance(event, Progress) and self._colour and event.done < event.total:
            self._write(f"\r  {self.view.doing}\r")
        if isinstance(event, TextDelta):
            self._write(visible(event.text))
            self._streaming = True
        if self.view.reason is not None:
            self._end()

    def close(self) -> None:
        """Leave the cursor at the start of a line."""
        self._end_text()

    def _is_over(self, segment: Segment) -> bool:
        match segment:
            case Words():
                return segment.ended is not None
            case ToolUse():
                return not segment.busy
            case Note(share=share):
                return (
                    share in {None, 1.0}
                    or segment is not self.view.segments[-1]
                    or self.view.reason is not None
                )
            case DecisionCard():
                return segment.state != "asking"

    def _finish(self, segment: Segment) -> None:
        match segment:
            case Words(kind="text"):
                if not self._streaming:
                    self._write(visible(segment.text))
                self._streaming = True
                self._end_text()
            case Words():
                self._line(f"  thinking, {segment.aside}", DIM)
            case ToolUse():
                self._line(f"  {segment.line}", RED if segment.state == "failed" else DIM)
            case Note():
                self._line(f"  {segment.text}", DIM)
            case DecisionCard():
                self._line(card_as_text(segment, self.view.at, ROWS, SUMMARY), DIM)

    def _end(self) -> None:
        self._end_text()
        if ending := self.view.ending:
            self._line(ending, RED if self.view.reason == "error" else PLAIN)
        said = (self.view.headline, tokens(self.view.usage), self.view.bill.words, self.view.context)
        self._line(" · ".join(part for part in said if part), DIM)

    def _end_text(self) -> None:
        if self._streaming:
            self._write("\n")
            self._streaming = False

    def _line(self, text: str, look: str) -> None:
        shown = visible(text)
        self._write(f"{look}{shown}{PLAIN}\n" if self._colour else f"{shown}\n")


def wants_colour(stream: TextIO) -> bool:
    """Tell whether colour is welcome: a terminal, and nobody has said no."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
