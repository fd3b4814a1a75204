"""What code prints, passed on to the cell as it comes and kept for the model, both within bounds. Under run_python."""

from __future__ import annotations

import io
from typing import TextIO

from harness_nb.strict import clean

KEPT = 1_000_000
"""Characters that are held of each end for the model; what it is shown of them is decided later."""

SHOWN = 1_000_000
"""Characters after which no more is put into the notebook, whose file would grow by all of it."""

STOPPED = f"\n[more is printed than {SHOWN:,} characters: the rest is not shown]\n"


class Tee(io.TextIOBase):
    """Stands in for a stream: everything goes on to it, and head and tail stay here."""

    def __init__(self, stream: TextIO) -> None:
        """Pass on to `stream`, which takes no text with half a character in it."""
        self._stream = stream
        self._head = self._tail = ""
        self._written = 0

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's."""
        return self._stream.encoding

    def write(self, text: str, /) -> int:
        """Take a text; like a stream, refuse what is none."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        said = clean(text)
        before, self._written = self._written, self._written + len(said)
        if self._written <= SHOWN:
            self._stream.write(said)
        elif before <= SHOWN:
            self._stream.write(said[: SHOWN - before] + STOPPED)
        room = KEPT - len(self._head)
        self._head += said[:room]
        self._tail += said[room:]
        if len(self._tail) > 2 * KEPT:
            self._tail = self._tail[-KEPT:]
        return len(text)

    def flush(self) -> None:
        """Have the stream show what it has."""
        self._stream.flush()

    def fileno(self) -> int:
        """Return the stream's own, for what writes past us. Raises OSError where it has none."""
        return self._stream.fileno()

    @property
    def kept(self) -> str:
        """What was printed: all of it, or both ends with a line between them that counts what is missing."""
        tail = self._tail[-KEPT:]
        missing = self._written - len(self._head) - len(tail)
        return (
            f"{self._head}\n[... {missing:,} characters not kept ...]\n{tail}"
            if missing
            else self._head + tail
        )
