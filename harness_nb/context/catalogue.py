"""Tools found by what they are called and what is said of them. Part of the selection of book chapter 12.

Theory of operation. A word of the query counts the more, the fewer tools have it (BM25). One that stands in a tool's
name counts more than it ever can in the rest of what is said of the tool. A word also finds others that begin like it,
such as `invoice` and `invoices`, for half. Tools with no more than LEAST of the best one's points are not worth their room.
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness_nb.context.words import words
from harness_nb.results import readable
from harness_nb.seams import ToolSpec

NAME = 3.0
"""What a word is worth in a name; in the rest it is worth less than 1 + GROWTH, however often it stands there."""

GROWTH, LENGTH = 1.2, 0.75
"""BM25's two numbers: how soon a word that comes again stops to count, and how much a long text weighs against it."""

ALIKE, BEGINNING = 0.5, 4
"""What a word that only begins like the one asked for is worth, and how many first letters it must share."""

LEAST = 0.5
"""Share of the best tool's points; what has no more than that is left out."""

ASKED = 50
"""Most different words of a query."""

PARAMETERS, DESCRIBED = 12, 160
"""Most parameters of a tool that are named, and characters of its first line that are shown."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that a query found."""

    spec: ToolSpec
    score: float


class Catalogue:
    """Tools in a stable order, to be searched; made once, as the tools don't change."""

    def __init__(self, specs: Iterable[ToolSpec]) -> None:
        self.specs = tuple(specs)
        self._names = [frozenset(words(spec.name)) for spec in self.specs]
        texts = [Counter(words(_text(spec))) for spec in self.specs]
        sizes = [text.total() for text in texts]
        self._lengths = [size / (sum(sizes) / len(sizes) or 1) for size in sizes]
        self._places: dict[str, dict[int, int]] = {}
        for place, (name, text) in enumerate(zip(self._names, texts, strict=True)):
            for word in name | text.keys():
                self._places.setdefault(word, {})[place] = text[word]

    def found(self, query: str, most: int) -> list[Hit]:
        """Find the best tools, best first and equals in their order; none that has no word of the query."""
        points = [0.0] * len(self.specs)
        for word in itertools.islice(dict.fromkeys(words(query)), ASKED):
            known = {other: worth for other in self._places if (worth := _alike(word, other))}
            having = set().union(*(self._places[other] for other in known))
            rare = math.log(1 + (len(self.specs) - len(having) + 0.5) / (len(having) + 0.5))
            for place in having:
                points[place] += rare * self._worth(place, known)
        best = sorted(range(len(points)), key=lambda place: -points[place])[:most]
        least = LEAST * max(points, default=0.0)
        return [Hit(self.specs[n], points[n]) for n in best if points[n] > least]

    def _worth(self, place: int, known: Mapping[str, float]) -> float:
        named = max((worth for other, worth in known.items() if other in self._names[place]), default=0.0)
        times = sum(worth * self._places[other].get(place, 0) for other, worth in known.items())
        damped = GROWTH * (1 - LENGTH + LENGTH * self._lengths[place])
        return NAME * named + times * (GROWTH + 1) / (times + damped)

    def near(self, query: str, most: int = 5) -> list[str]:
        """Name the tools whose names are spelled somewhat like the query or one of its words."""
        spelled = {word: place for place, name in enumerate(self._names) for word in sorted(name)}
        asked = itertools.islice(dict.fromkeys(words(query)), ASKED)
        close = (difflib.get_close_matches(word, spelled, n=most, cutoff=0.6) for word in asked)
        parts = dict.fromkeys(itertools.chain.from_iterable(close))
        places = dict.fromkeys(n for part in parts for n, name in enumerate(self._names) if part in name)
        return [self.specs[place].name for place in itertools.islice(places, most)]


def topics(names: Iterable[str], most: int = 12) -> list[str]:
    """Give the words with which most names begin, in the order of the names: what there is to search for."""
    first = [name.replace("-", "_").strip("_").split("_")[0] for name in names]
    common = dict(Counter(first).most_common(most))
    return [word for word in dict.fromkeys(first) if word in common]


def outline(spec: ToolSpec) -> str:
    """Tell of a tool in two lines: how it is called, and the first line of its description. What a server sent does nothing here."""
    properties = spec.input_schema.get("properties")
    named = list(properties.items()) if isinstance(properties, Mapping) else []
    required = spec.input_schema.get("required")
    needed = {str(name) for name in required} if isinstance(required, Sequence) else set()
    shown = [
        f"{_line(str(name), 40)}{'' if name in needed else '?'}: {_type(schema)}"
        for name, schema in named[:PARAMETERS]
    ]
    more = ["..."] if len(named) > PARAMETERS else []
    first = spec.description.strip().partition("\n")[0]
    return f"{spec.name}({', '.join([*shown, *more])})\n  {_line(first, DESCRIBED)}"


def _alike(word: str, other: str) -> float:
    if word == other:
        return 1.0
    if word[:BEGINNING] != other[:BEGINNING]:
        return 0.0
    shared = sum(
        1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False))
    )
    return ALIKE if shared >= 0.6 * max(len(word), len(other)) else 0.0


def _text(spec: ToolSpec) -> str:
    return "\n".join([spec.description, *_described(spec.input_schema)])


def _described(schema: Mapping[str, object]) -> Iterator[str]:
    """Give the names and descriptions of a tool's parameters, as far as there are any."""
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        yield str(name)
        if isinstance(inner, Mapping) and isinstance(words := inner.get("description"), str):
            yield words


def _type(schema: object) -> str:
    """Say in a word what a parameter takes, as far as its schema tells."""
    if not isinstance(schema, Mapping):
        return "any"
    if isinstance(allowed := schema.get("enum"), Sequence) and allowed:
        return _line(" | ".join(repr(value) for value in allowed[:8]), 80)
    kinds = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(kinds, Sequence) and not isinstance(kinds, str):
        found = dict.fromkeys(_kind(kind) for kind in kinds if isinstance(kind, Mapping))
        return " | ".join([kind for kind in found if kind != "null"][:4]) or "any"
    return _kind(schema)


def _kind(schema: Mapping[str, object]) -> str:
    kind = schema.get("type")
    return _line(" | ".join(map(str, kind)) if isinstance(kind, list) else str(kind or "any"), 40)


def _line(text: str, most: int) -> str:
    """Keep words to one line of so many characters, and to what can be seen of them."""
    plain = readable(" ".join(text[: 4 * most].split()))
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."
