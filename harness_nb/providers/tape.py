"""The file form of recordings: what identifies a request, and one JSON line a model call; see recorded.py. Book chapter 3.

A request is kept as marks, one for each thing in it that can differ (instructions, each tool, each message): what it is,
a digest, its first words. A line holds only the marks that differ from the line before, what was streamed, and the reply
or error. Ids of messages and times are left out, so the same run makes the same file.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias, cast

from harness_nb.encoding import decode, encode
from harness_nb.errors import ProviderError, UsageError
from harness_nb.events import CallDelta, TextDelta, ThinkingDelta
from harness_nb.messages import Message, Usage
from harness_nb.redaction import without_keys
from harness_nb.seams import Reply, Request, Stop

HEADER = '{"harness_nb": "recording", "version": 1}'
"""The first line of every recording."""

Delta: TypeAlias = TextDelta | ThinkingDelta | CallDelta


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """One thing in a request: what it is (`message 2 (tool)`), a digest of it, its first words."""

    what: str
    digest: str
    start: str


Asked: TypeAlias = tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Take:
    """One recorded call: what was asked, what was streamed, and how it ended."""

    asked: Asked
    stream: tuple[Delta, ...]
    end: Reply | ProviderError


def marks(request: Request) -> Asked:
    """Return what identifies a request, in the order of a prompt."""
    return tuple(_marks(request))


def shared(one: Asked, other: Asked) -> int:
    """Count the marks that two requests have in common from the start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _marks(request: Request) -> Iterator[Mark]:
    yield _mark("the instructions", request.instructions, request.instructions)
    if request.max_output is not None:
        yield _mark("the output limit", request.max_output, str(request.max_output))
    for spec in request.tools:
        yield _mark(f"tool `{spec.name}`", [spec.description, spec.input_schema], spec.description)
    for number, message in enumerate(request.messages, 1):
        calls = [f"{call.name} {call.raw}" for call in message.calls]
        words = " ".join([message.text, *calls, *(result.text for result in message.results)])
        yield _mark(f"message {number} ({message.role})", _parts(message, without={"id", "call_id"}), words)


def _mark(what: str, data: object, words: str) -> Mark:
    digest = hashlib.sha256(_dumped(data).encode()).hexdigest()[:16]
    line = without_keys(" ".join(words[:1000].split()), "[key]")
    return Mark(what, digest, line if len(line) <= 60 else f"{line[:59]}…")


def _parts(message: Message, without: Iterable[str] = ()) -> list[dict[str, object]]:
    parts = cast("list[dict[str, object]]", encode(message)["parts"])
    return [{key: value for key, value in part.items() if key not in without} for part in parts]


def line(take: Take, before: Asked) -> str:
    """Write one call as a line; `before` is what the line before it asked."""
    kept = shared(before, take.asked)
    data: dict[str, object] = {"kept": kept, "asked": [asdict(mark) for mark in take.asked[kept:]]}
    data["stream"] = list(_runs(take.stream))
    if isinstance(take.end, Reply):
        data["reply"] = {**asdict(take.end), "message": _parts(take.end.message)}
    else:
        facts = ("status", "code", "retryable", "retry_after", "overflow", "window")
        data["error"] = {"message": str(take.end), **{fact: getattr(take.end, fact) for fact in facts}}
    return _dumped(data)


def _read(text: str, before: Asked) -> Take:
    data = json.loads(text)
    asked = before[: data["kept"]] + tuple(Mark(**mark) for mark in data["asked"])
    return Take(asked, tuple(_deltas(data["stream"])), _end(data))


def _end(data: Mapping[str, dict[str, object]]) -> Reply | ProviderError:
    if "error" in data:
        return ProviderError(**data["error"])  # type: ignore[arg-type]
    reply = data["reply"]
    message = _message(reply["message"])
    return Reply(message, Usage(**reply["usage"]), cast("Stop", reply["stop"]), str(reply["detail"]))  # type: ignore[arg-type]


def _message(parts: object) -> Message:
    made = {"kind": "message", "role": "assistant", "parts": parts}
    return cast("Message", decode({**made, "id": uuid.uuid4().hex, "at": datetime.now(UTC).isoformat()}))


def load(path: Path) -> tuple[list[Take], bool]:
    """Read a recording: its calls, and whether its last line is cut off. Raises UsageError if it is not one."""
    try:
        first, *lines = path.read_text("utf-8").split("\n")
    except FileNotFoundError:
        raise UsageError(f"There is no recording {path}.") from None
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"{path} can't be read as a recording: {fault}.") from None
    if first != HEADER:
        raise UsageError(f"{path} is not a recording of harness_nb, or not of this version: record it again.")
    takes: list[Take] = []
    for number, text in enumerate(lines, 2):
        try:
            if text:
                takes.append(_read(text, takes[-1].asked if takes else ()))
        except (ValueError, TypeError, KeyError, AttributeError):
            if number == len(lines) + 1:
                return takes, True
            raise UsageError(f"Line {number} of the recording {path} is damaged: record it again.") from None
    return takes, False


def _runs(stream: Sequence[Delta]) -> Iterator[list[str]]:
    """Write deltas of one kind that follow each other as one list: what they are, then their texts."""
    run: list[str] = []
    for delta in stream:
        head = [delta.id, delta.name] if isinstance(delta, CallDelta) else []
        head = [type(delta).__name__, *head]
        if run[: len(head)] != head:
            yield from [run] if run else []
            run = head
        run.append(delta.text)
    yield from [run] if run else []


def _deltas(runs: Sequence[Sequence[str]]) -> Iterator[Delta]:
    for kind, *rest in runs:
        match kind:
            case "TextDelta":
                yield from map(TextDelta, rest)
            case "ThinkingDelta":
                yield from map(ThinkingDelta, rest)
            case _:
                yield from (CallDelta(rest[0], rest[1], text) for text in rest[2:])


def _dumped(data: object) -> str:
    return without_keys(json.dumps(data), "[key]")
