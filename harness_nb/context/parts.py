"""The parts of a turn's request, each with its tokens, its age, what a cache has of it and what became of it. Pure; book chapter 7.

for part in parts(turns, 4, transcript, counter):
    print(part.kind, part.what, part.tokens, part.share, part.cache, part.fate)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from harness_nb.context.account import TurnRecord
from harness_nb.context.compare import Difference, compared
from harness_nb.context.count import Counter
from harness_nb.context.fates import Kind
from harness_nb.context.mask import MARK, called
from harness_nb.context.spelled import Line, lines
from harness_nb.context.turns import request, seen
from harness_nb.messages import (
    Decision,
    Image,
    Message,
    Opaque,
    Part,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Transcript,
)
from harness_nb.seams import ToolSpec

What: TypeAlias = Literal[
    "system",
    "tool",
    "user",
    "assistant",
    "thinking",
    "call",
    "result",
    "retrieved",
    "image",
    "summary",
    "other",
]
"""What a part is, for a person; `other` is a block that only its vendor reads."""

Cache: TypeAlias = Literal["cached", "again", "new"]
"""`cached`: it begins the request as it began the one before, so a prompt cache may hold it; `again`: it was sent before, but stands behind a change; `new`: it was not in the request before."""


PARAGRAPH = "\n\n"
"""What ends the heading of a summary."""


@dataclass(frozen=True, slots=True)
class PartRow:
    """One part of a request, or of the record where the model no longer sees it.

    `age` is how many turns it has been there for, `tokens` its part of the request's total and `share` the same from
    0 to 1. `what` and what `line` holds are other people's words.
    """

    number: int
    kind: What
    what: str
    tokens: int
    share: float
    age: int
    cache: Cache
    fate: Kind
    line: Line
    message: int = 0
    """The number of the message in the record, from 1; 0 for the system prompt and the tools."""
    place: int = -1
    """Which part of its message it is; -1 for all of the line."""

    @property
    def text(self) -> str:
        """All of it, to be read."""
        if self.place < 0 or not isinstance(self.line.of, Message):
            return self.line.text
        return written(self.line.of.parts[self.place])


@dataclass(frozen=True, slots=True)
class _Fate:
    """Where a shown message comes from, and how old that is."""

    recorded: Message
    number: int
    age: int
    decision: Decision | None
    pinned: bool


def parts(
    turns: Sequence[TurnRecord],
    turn: int,
    transcript: Transcript,
    counter: Counter,
    *,
    retrieved: Collection[str] = (),
    against: Difference | None = None,
) -> list[PartRow]:
    """List the parts of the request of turn `turn`, from 1, in order; their tokens sum up to what was measured.

    `retrieved` names the tools whose results count as retrieved; `against` is the comparison with the turn before,
    made if it isn't given.
    """
    record, before = turns[turn - 1], turns[turn - 2] if turn > 1 else None
    if against is None and before is not None:
        against = compared(before, record, transcript, counter)
    then = seen(record, transcript)
    asked = request(record, transcript, then)
    known = _sent(before, transcript) if before is not None else set()
    origins = _origins(then)
    calls = {call.id: call for message in asked.messages for call in message.calls}
    found: list[PartRow] = []
    for number, line in enumerate(lines(asked)):
        cache: Cache = "again" if _key(line) in known else "new"
        if against is not None and number < against.lines:
            cache = "cached"
        fate = origins.get(line.of.id) if isinstance(line.of, Message) else None
        age = turn - 1 if not isinstance(line.of, Message) else fate.age if fate else 0
        for place, kind, what, tokens in _of(line, counter, calls, retrieved):
            became = _became(line, place, fate)
            message = fate.number if fate else 0
            row = PartRow(len(found) + 1, kind, what, tokens, 0.0, age, cache, became, line, message, place)
            found.append(row)
    return _scaled(found, record.fill.total)


def out_of_sight(record: TurnRecord, transcript: Transcript, counter: Counter) -> list[PartRow]:
    """List the recorded messages that the model no longer saw in this turn, oldest first, with the tokens they would have."""
    then = seen(record, transcript)
    calls = {call.id: call for message in then.messages for call in message.calls}
    ages, by = _ages(then), _decided(then)
    found: list[PartRow] = []
    for number, (message, shown) in enumerate(then.shown(), 1):
        if any(one.id == message.id for one in shown):
            continue
        decision = by.get(message.id)
        fate: Kind = "summarised" if decision is not None and _sums_up(decision) else "dropped"
        line = Line("message", f"message {number:,} ({message.role})", message)
        for place, kind, what, tokens in _of(line, counter, calls, ()):
            row = PartRow(
                len(found) + 1, kind, what, tokens, 0.0, ages[message.id], "new", fate, line, number, place
            )
            found.append(row)
    return found


def _sent(record: TurnRecord, transcript: Transcript) -> set[object]:
    return {_key(line) for line in lines(request(record, transcript))}


def _key(line: Line) -> object:
    """What two equal lines have in common, without writing them out: messages are compared as they are."""
    return line.of if isinstance(line.of, Message | str) else line.text


def written(part: Part) -> str:
    """Write a part out as a person reads it: the words themselves, a call with its arguments, a picture's size."""
    match part:
        case Text(text) | Summary(text) | Thinking(text=text):
            return text
        case ToolCall():
            return f"{part.name}\n{part.raw}"
        case ToolResult():
            return "\n".join(written(one) for one in part.content)
        case Image(data, kind):
            return f"[{kind}, {len(data):,} bytes]"
        case Opaque():
            return part.block


def _of(
    line: Line, counter: Counter, calls: Mapping[str, ToolCall], retrieved: Collection[str]
) -> Iterator[tuple[int, What, str, int]]:
    """Yield the place, the kind, a description and the tokens of each part of a line."""
    match line.of:
        case str(text):
            yield -1, "system", _quoted(text), counter.instructions(text)
        case ToolSpec() as spec:
            yield -1, "tool", f"{spec.name}: {_quoted(spec.description)}", counter.spec(spec)
        case Message() as message:
            for place, (part, tokens) in enumerate(zip(message.parts, sizes(message, counter), strict=True)):
                yield place, *_described(part, message, calls, retrieved), tokens


def sizes(message: Message, counter: Counter) -> list[int]:
    """Count the tokens of each part of a message; they sum up to those of the message, and what is known isn't counted again.

    What the message has beside its parts goes to the largest of them.
    """
    whole = counter.message(message)
    if len(message.parts) == 1:
        return [whole]
    given = iter(counter.results(message))
    lengths = [len(written(part)) for part in message.parts]
    largest = lengths.index(max(lengths)) if lengths else -1
    found = [
        next(given)
        if isinstance(part, ToolResult)
        else 0
        if place == largest
        else sum(counter.part(part, message.role).values())
        for place, part in enumerate(message.parts)
    ]
    if found:
        found[largest] += whole - sum(found)
    return found


def _described(
    part: Part, message: Message, calls: Mapping[str, ToolCall], retrieved: Collection[str]
) -> tuple[What, str]:
    match part:
        case Text(text):
            return ("user" if message.role in {"user", "system"} else "assistant"), _quoted(text)
        case Thinking(text=text):
            return "thinking", _quoted(text) or "hidden by its vendor"
        case Summary(text, replaced):
            return "summary", f"of {replaced:,} messages: {_quoted(text.partition(PARAGRAPH)[2] or text)}"
        case Image(data, kind):
            return "image", f"{kind}, {len(data):,} bytes"
        case ToolCall():
            return "call", called(part, 80)
        case ToolResult(call_id=identity):
            call = calls.get(identity, ToolCall(identity, "a tool"))
            found: What = "retrieved" if call.name in retrieved else "result"
            return found, f"{'error of ' if part.is_error else ''}{called(call, 80)}"
        case Opaque(vendor):
            return "other", f"a block of {vendor}"


def _became(line: Line, place: int, fate: _Fate | None) -> Kind:
    """Tell what became of a part that the model sees."""
    if fate is None or not isinstance(line.of, Message):
        return "kept"
    part = line.of.parts[place]
    if line.of == fate.recorded or part in fate.recorded.parts:
        return "pinned" if fate.pinned else "kept"
    if isinstance(part, Summary):
        return "summarised"
    if fate.decision is not None and fate.decision.by == "provider":
        return "cleared"
    if isinstance(part, ToolResult):
        return "masked" if part.text.startswith(MARK) else "cut"
    return "changed"


def _origins(then: Transcript) -> dict[str, _Fate]:
    """Find for each message that is shown what was recorded in its place, by the id of what is shown."""
    ages, by, pinned = _ages(then), _decided(then), then.pinned()
    return {
        one.id: _Fate(message, number, ages[message.id], by.get(message.id), message.id in pinned)
        for number, (message, shown) in enumerate(then.shown(), 1)
        for one in shown
    }


def _ages(then: Transcript) -> dict[str, int]:
    """Count the turns since each message was first sent; 0 for those that are new."""
    age, ages = 0, dict[str, int]()
    for message in reversed(then.messages):
        if message.role == "assistant":
            ages[message.id] = age
            age += 1
        else:
            ages[message.id] = age
    return ages


def _decided(then: Transcript) -> dict[str, Decision]:
    return {identity: decision for decision in then.standing() for identity in decision.changes}


def _sums_up(decision: Decision) -> bool:
    shown = (part for messages in decision.changes.values() for m in messages for part in m.parts)
    return any(isinstance(part, Summary) for part in shown)


def _scaled(rows: list[PartRow], total: int) -> list[PartRow]:
    """Correct the estimates of the parts alike, so that they sum up to `total` exactly."""
    whole = sum(row.tokens for row in rows)
    if whole <= 0:
        return rows
    done = given = 0
    scaled: list[PartRow] = []
    for row in rows:
        done += row.tokens
        tokens = done * total // whole - given
        given += tokens
        scaled.append(replace(row, tokens=tokens, share=tokens / total if total else 0.0))
    return scaled


def _quoted(text: str, most: int = 90) -> str:
    flat = " ".join(text[: 4 * most].split())
    return flat if len(flat) <= most and len(text) <= 4 * most else f"{flat[: most - 1]}…"
