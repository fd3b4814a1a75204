"""A session's name as the name of a file that every system takes, and back; two names never share a file. Book chapter 21."""

from __future__ import annotations

import hashlib
import unicodedata
from pathlib import Path
from urllib.parse import unquote

SUFFIX = ".jsonl"
LONGEST = 150
"""Most bytes of a name as it stands in a file's name; systems allow 255, and there are endings to add."""

DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}
"""What Windows takes for a device, whatever ending it has."""


def path_of(folder: Path, name: str) -> Path:
    """Where the session of this name is kept, whether it is there or not."""
    plain, marked = file_names(name)
    if (folder / plain).exists() and plain not in {path.name for path in folder.iterdir()}:
        return folder / marked  # this system takes `Main` and `main` for one
    return folder / plain


def file_names(name: str) -> tuple[str, str]:
    """A session's file, and how it is called where that name is taken by another spelling of it."""
    safe = "".join(_safe(letter) for letter in name)
    if safe[0] in "-. " or safe.partition(".")[0].rstrip().lower() in DEVICES:
        safe = _escaped(safe[0]) + safe[1:]
    marked = f"{safe[:40]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}{SUFFIX}"
    return (marked if len(safe.encode()) > LONGEST else f"{safe}{SUFFIX}"), marked


def name_in(path: Path) -> str:
    """Tell the name that a file was given by its own name; what was too long comes out cut."""
    return unquote(path.name.removesuffix(SUFFIX))


def _safe(letter: str) -> str:
    if letter.isascii():
        return letter if letter.isalnum() or letter in "-_. " else _escaped(letter)
    one_form = unicodedata.normalize("NFD", letter) == unicodedata.normalize("NFKC", letter) == letter
    return letter if letter.isalnum() and one_form else _escaped(letter)


def _escaped(letter: str) -> str:
    return "".join(f"%{byte:02X}" for byte in letter.encode())
