"""Pictures among results: told by their bytes, never by a name, and sized before they are sent. Book chapter 4.

A provider that refuses one picture refuses every request that has it in its history, so what can't be
sent is put into words instead.
"""

from __future__ import annotations

import struct

from harness_nb.messages import Image, Text

BYTES = 3_700_000
"""Largest file that is sent; written as base64 it stays below 5 MB."""

SIDE = 8_000
"""Most pixels of a side that is sent."""

SIGNATURES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF87a": "gif", b"GIF89a": "gif"}

START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The JPEG markers whose segment holds the size."""


def sniffed(data: bytes) -> str:
    """Return the media type that the first bytes tell, empty for what is no picture that models take."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((f"image/{kind}" for start, kind in SIGNATURES.items() if data.startswith(start)), "")


def size(data: bytes) -> tuple[int, int] | None:
    """Read width and height in pixels from the header of a picture; None where it holds none."""
    readers = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
    try:
        return readers[sniffed(data)](data)
    except (KeyError, struct.error, IndexError):
        return None


def sendable(data: bytes, called: str = "") -> Image | Text:
    """Return the picture, or words where no provider would take it; `called` is what its maker says it is."""
    kind = sniffed(data)
    if not kind:
        return Text(
            f"(data called {called or 'a picture'}, {len(data):,} bytes, that is no PNG, JPEG, GIF or WebP)"
        )
    name = {"png": "PNG", "jpeg": "JPEG", "gif": "GIF", "webp": "WebP"}[kind.removeprefix("image/")]
    pixels = size(data)
    if pixels is None or 0 in pixels:
        return Text(f"({name} picture, {len(data):,} bytes, broken: its size can't be read)")
    if len(data) > BYTES or max(pixels) > SIDE:
        shape = f"{pixels[0]:,} x {pixels[1]:,} pixels, {len(data):,} bytes"
        return Text(
            f"({name} picture, {shape}: too large to be sent; make it at most {SIDE:,} pixels wide and high and {BYTES:,} bytes)"
        )
    return Image(data, kind)


def _png(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _gif(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # a filler byte
            at += 1
        elif marker in START_OF_FRAME:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case _:
            return None
