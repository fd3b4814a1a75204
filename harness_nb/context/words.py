"""The words that a text is found by: any script, any case, identifiers whole and in parts. Part of the search of book chapter 10.

Theory of operation. A run of letters, digits, marks and `_` is one word as written. It is brought to one form (NFKC),
cut at its seams (`read_file`, `readFile`, `HTTPServer2`), and gives each part and, joined, the whole, all without
case. Scripts written without blanks have no seams: there each character and each pair of neighbours is a word.
A text and a query go through the same steps, so a word finds itself however it is spelled.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator

LONGEST = 200
"""Characters of a word that count: what is longer is no word that anyone looks for."""

JOINERS = "\u00ad\u200c\u200d\u2060"
"""Characters inside a word that can't be seen: soft hyphen and the joiners of several scripts."""

BLANKLESS = (
    (0x0E00, 0x0FFF),  # Thai, Lao, Tibetan
    (0x1000, 0x109F),  # Burmese
    (0x1100, 0x11FF),  # Hangul letters
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x1AAF),  # Tai scripts
    (0x1B00, 0x1B7F),  # Balinese
    (0x3005, 0x3007),
    (0x3021, 0x318F),  # Kana, Bopomofo, Hangul letters
    (0x31A0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA000, 0xA4CF),  # Yi
    (0xA960, 0xA9FF),  # Javanese, more Burmese
    (0xAA60, 0xAADF),
    (0xAC00, 0xD7FF),  # Hangul: it has blanks, but also endings that no query spells out
    (0xF900, 0xFAFF),
    (0x1AFF0, 0x1B2FF),
    (0x20000, 0x3FFFF),
)
"""First and last code point of the scripts whose words nothing separates."""

ASCII = re.compile(r"\w+")

SEAMS = re.compile(r"(?:A\.*)+(?=A\.*a)|(?:A\.*)?(?:a\.*)+|(?:A\.*)+|(?:1\.*)+|\.+")
"""The parts of an identifier, by the kinds of its characters: A capital, a small letter or one without case, 1 digit, . mark."""

MARKED = (range(0x300, 0x20000), range(0xE0100, 0xE01F0))
"""Where Unicode has marks."""

DENSE = "".join(f"{chr(first)}-{chr(last)}" for first, last in BLANKLESS)


def words(text: str) -> Iterator[str]:
    """Give the words of a text in order, each as often as it stands there."""
    for run in runs(text):
        yield from split(run)


def runs(text: str) -> list[str]:
    """Give the runs of letters, digits, marks and `_` of a text: its words as written."""
    return (ASCII if text.isascii() else _runs()).findall(text)


def split(run: str) -> tuple[str, ...]:
    """Give the words of one run of letters, digits, marks and `_`."""
    if run.isascii() and run.isalpha() and run.islower():  # most are, and this is quick
        return (run[:LONGEST],)
    plain = unicodedata.normalize("NFKC", run.translate(_UNSEEN))
    found: list[str] = []
    for piece in runs(plain):  # the form may have brought blanks in
        for dense, other in _scripts().findall(piece):
            found += _pairs(dense) if dense else _parts(other[:LONGEST])
    return tuple(found)


@functools.cache
def _runs() -> re.Pattern[str]:
    """Return the pattern of a word as written. A regular expression's own idea of one lacks marks, without which Hindi and Thai words fall apart."""
    return re.compile(rf"[\w{JOINERS}{_marks()}]+")


def _pairs(dense: str) -> Iterator[str]:
    """Give each character with its marks, and each two neighbours: with both, one character can be looked for."""
    characters = [unicodedata.normalize("NFKC", one.casefold()) for one in _characters().findall(dense)]
    yield from characters
    yield from map("".join, itertools.pairwise(characters))


def _parts(word: str) -> list[str]:
    pieces = (
        piece[seam.start() : seam.end()]
        for piece in word.split("_")
        for seam in SEAMS.finditer("".join(map(_kind, piece)))
    )
    parts = [unicodedata.normalize("NFKC", piece.casefold()) for piece in pieces]
    if len(parts) > 1:
        parts.append("".join(parts))
    return parts or [word]  # nothing but `_`


def _kind(character: str) -> str:
    if character.isdecimal():
        return "1"
    if unicodedata.category(character).startswith("M"):
        return "."
    return "A" if character.isupper() else "a"


_UNSEEN = dict.fromkeys(map(ord, JOINERS))


@functools.cache
def _scripts() -> re.Pattern[str]:
    """Return the pattern that tells what is written without blanks from what is not."""
    return re.compile(rf"([{DENSE}][{DENSE}{_marks()}]*)|([^{DENSE}]+)")


@functools.cache
def _characters() -> re.Pattern[str]:
    return re.compile(rf".[{_marks()}]*", re.DOTALL)


@functools.cache
def _marks() -> str:
    """Return the ranges of all marks of this Python's Unicode, for a pattern."""
    marks = (code for code in itertools.chain(*MARKED) if unicodedata.category(chr(code)).startswith("M"))
    grouped = itertools.groupby(enumerate(marks), lambda numbered: numbered[1] - numbered[0])
    spans = [[code for _, code in group] for _, group in grouped]
    return "".join(f"{chr(span[0])}-{chr(span[-1])}" for span in spans)
