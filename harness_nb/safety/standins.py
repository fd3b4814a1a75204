"""Stand-ins for files that a command must not make: empty folders, read-only for the sandbox, while it runs. Book chapter 14.

A folder can't forbid one name, and a check after the command would come too late for what reads the file
meanwhile. An empty folder is what git passes over; a person who saves such a file at that moment has to do so again.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SWEPT = (".git/commondir",)
"""What can't have a stand-in, since git would read it: it would have git obey another folder's settings. Taken away after."""

_lock = threading.Lock()
_standing: Counter[Path] = Counter()
"""How many commands each stand-in is there for: two sandboxes may share a workspace."""


@contextmanager
def standing_in(root: Path, names: Iterable[str]) -> Iterator[None]:
    """Keep a stand-in, while this is held, for what is missing of these names below a real path, and take it away after."""
    with _lock:
        places = _put(root, names)
        unwanted = [place for name in SWEPT if not os.path.lexists(place := root / name)]
    try:
        yield
    finally:
        with _lock:
            _standing.subtract(places)
            for place in places:
                if not _standing[place]:
                    del _standing[place]
                    with suppress(OSError):  # what somebody has put there meanwhile stays
                        place.rmdir()
            for place in unwanted:
                with suppress(OSError):
                    place.unlink()


def _put(root: Path, names: Iterable[str]) -> set[Path]:
    places: set[Path] = set()
    for name in names:
        place = _missing(root, name)
        with suppress(OSError):  # what can't be made here can't be made by a command either
            if place is not None and place not in places:
                if not _standing[place]:
                    place.mkdir()
                _standing[place] += 1
                places.add(place)
    return places


def stand_ins(root: Path) -> list[Path]:
    """List those that there are now below a real path."""
    with _lock:
        return [place for place, count in _standing.items() if count and place.is_relative_to(root)]


def _missing(root: Path, name: str) -> Path | None:
    """Find the first part of a path that is not there, or has a stand-in; None where all is there, or can't be."""
    place = root
    for part in Path(name).parts:
        if place.is_symlink() or not place.is_dir():
            return None
        place /= part
        if _standing[place] or not os.path.lexists(place):
            return place
    return None
