"""An index of passages in memory, searched by BM25 and brought up to date by what changed. Part of the search of book chapter 10."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from harness_nb.context.chunks import Chunk
from harness_nb.context.words import runs, split, words
from harness_nb.errors import UsageError

if TYPE_CHECKING:
    import numpy

ASKED = 200
"""Most different words of a query."""

REMEMBERED = 48
"""Longest run of characters whose words are remembered: longer ones seldom come twice."""

NEEDED = "Search needs the package bm25s: pip install 'harness-nb[context]'."


class PassedOver(Exception):
    """Raised by what reads a document that can't be searched; the message says which kind it is, e.g. `binary file`."""


class Stopped(Exception):
    """Nobody waits for the index any more. What was done up to then is kept."""


@dataclass(frozen=True, slots=True)
class Document:
    """What may be searched: `key` names it, `stamp` changes whenever its text may have, `read` cuts it into passages."""

    key: str
    stamp: object
    read: Callable[[], Iterable[Chunk]]
    """Called for a new stamp only. Raises PassedOver for what can't be searched."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that a query found. `same` are passages of the same text that it stands for too."""

    chunk: Chunk
    score: float
    same: tuple[Chunk, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, in how many passages of how many documents, and what was passed over, by kind."""

    hits: Sequence[Hit]
    chunks: int
    documents: int
    passed_over: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Read:
    """A document as the index knows it: its passages, the numbers of their words, or why there are none."""

    stamp: object
    chunks: tuple[Chunk, ...]
    numbers: tuple[list[int], ...]
    fault: str = ""


class Index:
    """Passages by document. One at a time may update or search it; others wait."""

    def __init__(self) -> None:
        """Start with nothing in it. Raises UsageError without the package bm25s."""
        if not installed():
            raise UsageError(NEEDED)
        self._lock = threading.RLock()
        self._documents: dict[str, _Read] = {}
        self._chunks: list[Chunk] = []
        self._vocabulary = _Vocabulary()
        self._gone = 0
        self._ranking: _Ranking | None = None

    def update(self, documents: Iterable[Document], stop: threading.Event | None = None) -> None:
        """Make the index one of exactly these documents, in their order, reading only what is new or changed.

        Raises Stopped once `stop` is set.
        """
        with self._lock:
            found: dict[str, _Read] = {}
            try:
                for document in documents:
                    if stop is not None and stop.is_set():
                        raise Stopped
                    known = self._documents.get(document.key)
                    fresh = known is None or known.stamp != document.stamp
                    found[document.key] = self._read(document) if known is None or fresh else known
            except BaseException:
                self._become(self._documents | found)
                raise
            self._become(found)

    def search(self, query: str, k: int) -> list[Hit]:
        """Find the best `k` passages of different texts, best first; none that has no word of the query."""
        with self._lock:
            if self._ranking is None:
                self._ranking = self._ranked()
            numbers = self._vocabulary.known(query)
            return _distinct(self._ranking, numbers, self._chunks, k) if numbers and self._chunks else []

    def find(
        self, documents: Iterable[Document], query: str, k: int, stop: threading.Event | None = None
    ) -> Found:
        """Update and search as one step, whoever else uses the index meanwhile. Raises Stopped once `stop` is set."""
        with self._lock:
            self.update(documents, stop)
            return Found(self.search(query, k), self.chunks, self.documents, self.passed_over)

    @property
    def chunks(self) -> int:
        """How many passages it holds."""
        return len(self._chunks)

    @property
    def documents(self) -> int:
        """How many documents have passages in it."""
        return sum(not read.fault for read in self._documents.values())

    @property
    def passed_over(self) -> Mapping[str, int]:
        """How many documents could not be searched, by kind, in a stable order."""
        return dict(sorted(Counter(read.fault for read in self._documents.values() if read.fault).items()))

    def _read(self, document: Document) -> _Read:
        try:
            chunks = [(chunk, self._vocabulary.numbers(_searched(chunk))) for chunk in document.read()]
        except PassedOver as fault:
            return _Read(document.stamp, (), (), str(fault))
        kept = [(chunk, numbers) for chunk, numbers in chunks if numbers]
        return _Read(document.stamp, tuple(c for c, _ in kept), tuple(n for _, n in kept))

    def _become(self, found: dict[str, _Read]) -> None:
        before = self._documents
        self._documents = found
        if [(key, id(read)) for key, read in before.items()] == [(k, id(read)) for k, read in found.items()]:
            return
        kept = {id(read) for read in found.values()}
        self._gone += sum(len(read.chunks) for read in before.values() if id(read) not in kept)
        self._chunks = [chunk for read in found.values() for chunk in read.chunks]
        self._ranking = None
        if self._gone > len(self._chunks):  # words that nothing holds any more would stay for ever
            self._forget()

    def _forget(self) -> None:
        """Number the words anew."""
        self._vocabulary, self._gone = _Vocabulary(), 0
        for key, read in self._documents.items():
            numbers = tuple(self._vocabulary.numbers(_searched(chunk)) for chunk in read.chunks)
            self._documents[key] = _Read(read.stamp, read.chunks, numbers, read.fault)

    def _ranked(self) -> _Ranking:
        numbers = [each for read in self._documents.values() for each in read.numbers]
        return _Ranking(numbers, self._vocabulary.words)


def installed() -> bool:
    """Tell whether there can be an index: whether the extra `context` is installed."""
    return find_spec("bm25s") is not None


def _searched(chunk: Chunk) -> str:
    return f"{chunk.source} {chunk.title}\n{chunk.text}"


class _Vocabulary(dict[str, tuple[int, ...]]):
    """Numbers of words, by the run of characters that they come from; `words` gives each word its number."""

    def __init__(self) -> None:
        super().__init__()
        self.words: dict[str, int] = {}

    def __missing__(self, run: str) -> tuple[int, ...]:
        numbers = tuple(self.words.setdefault(word, len(self.words)) for word in split(run))
        if len(run) <= REMEMBERED:
            self[run] = numbers
        return numbers

    def numbers(self, text: str) -> list[int]:
        """Number all words of a text."""
        return list(itertools.chain.from_iterable(map(self.__getitem__, runs(text))))

    def known(self, query: str) -> list[int]:
        """Number the words of a query that some passage has."""
        asked = itertools.islice(dict.fromkeys(words(query)), ASKED)
        return [self.words[word] for word in asked if word in self.words]


class _Ranking:
    """BM25 over the numbered words of passages. `best` leaves out bm25s's own choice: it fails for few, and takes score 0."""

    def __init__(self, numbers: list[list[int]], vocabulary: dict[str, int]) -> None:
        self._engine: Any = None
        if not numbers:  # it can't index nothing
            return
        import bm25s  # type: ignore[import-untyped]

        self._engine = bm25s.BM25(backend="numpy", csc_backend="numpy", auto_compile=False)
        self._engine.index((numbers, vocabulary), create_empty_token=False, show_progress=False)

    def best(self, numbers: list[int], count: int) -> tuple[Sequence[int], numpy.ndarray[Any, Any]]:
        """Return the positions of the best passages, best first and equals in their order, and all scores."""
        import numpy as np

        scores = self._engine.get_scores(numbers)
        least = np.partition(scores, -count)[-count] if count < len(scores) else 0
        found = np.flatnonzero((scores >= least) & (scores > 0))
        return found[np.argsort(-scores[found], kind="stable")][:count].tolist(), scores


def _distinct(ranking: _Ranking, numbers: list[int], chunks: Sequence[Chunk], k: int) -> list[Hit]:
    """Take the best passages, those of one text together; look further while copies leave too few."""
    count = 4 * k
    while True:
        positions, scores = ranking.best(numbers, count)
        groups: dict[str, list[int]] = {}
        for position in positions:
            groups.setdefault(" ".join(chunks[position].text.casefold().split()), []).append(position)
        if len(groups) >= k or len(positions) < count:
            break
        count *= 4
    taken = list(groups.values())[:k]
    return [
        Hit(chunks[first], float(scores[first]), tuple(chunks[position] for position in same))
        for first, *same in taken
    ]
