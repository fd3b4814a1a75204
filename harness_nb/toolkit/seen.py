"""What a session knows of the files it has read: enough to tell that one was changed since."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from harness_nb.workspace import Place

REMEMBERED = 16_000_000
"""Largest file in bytes that is remembered as read, and so the largest that can be edited."""


@dataclass(slots=True)
class Seen:
    """Digests of files as last read or written here; a file that was only touched is still the same."""

    digests: dict[str, bytes] = field(default_factory=dict)

    def note(self, place: Place, data: bytes) -> None:
        """Remember a file as it is now known."""
        self.digests[place.key] = digest(data)


def digest(data: bytes) -> bytes:
    """Tell one content from another."""
    return hashlib.blake2b(data, digest_size=16).digest()
