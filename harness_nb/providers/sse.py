"""Server-sent events from bytes: what every streaming wire has in common, with no I/O. Book chapter 5.

Lines end in LF, CRLF or CR and in nothing else: a Unicode line separator inside a JSON string is text. A blank
line ends an event; its `data:` lines, joined, are all that the wires here need of it.
"""

from __future__ import annotations

BOM = b"\xef\xbb\xbf"


class EventReader:
    """Takes a stream's bytes in chunks of any size and gives the data of each event that is complete."""

    __slots__ = ("_after_cr", "_begun", "_data", "_line")

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._after_cr = False
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that this chunk completes."""
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self._line.append(chunk)
            return []
        self._line.append(chunk)
        *lines, rest = b"".join(self._line).split(b"\n")
        self._line = [rest]
        return self._events(lines)

    def close(self) -> list[bytes]:
        """Return the data of a last event that the end of the stream completes; call it once, at the end."""
        return self._events([b"".join(self._line), b""])

    def _events(self, lines: list[bytes]) -> list[bytes]:
        if not self._begun and lines:
            self._begun = True
            lines[0] = lines[0].removeprefix(BOM)
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif line == b"data":
                data.append(b"")
            elif not line and data:
                events.append(data[0] if len(data) == 1 else b"\n".join(data))
                data.clear()
        return events
