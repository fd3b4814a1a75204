"""Old tool results shown as one line each: the first relief of a window that fills up. A pure function of the record; book chapter 8.

    changes = masking(transcript.shown(), counter, keep=3)
    run.append(Decision("mask", "why", changes))

By the tenth turn tool results are most of what a model reads, and it has drawn from the old ones what it needs. The
call itself stays in sight, so that the model knows what it did, and the line says how to see the result again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from harness_nb.context.count import Counter, pictured
from harness_nb.messages import Image, Message, Text, ToolCall, ToolResult
from harness_nb.results import bounded

Shown: TypeAlias = Sequence[tuple[Message, tuple[Message, ...]]]
"""What `Transcript.shown` gives: each recorded message, and what stands in its place."""
Changes: TypeAlias = dict[str, tuple[Message, ...]]
"""What a decision changes: what is shown from now on in the place of a recorded message."""
Again: TypeAlias = Callable[[ToolCall, ToolResult], str]
"""Says in one sentence how the model gets a result once more; it may keep the result somewhere for that."""

NEWEST = 3
"""Results that are never masked: the model is at work on them."""

WORTH = 200
"""Tokens below which a result stays: its line would take a good part of that."""

MARK = "[Masked to make room: "


def anew(call: ToolCall, result: ToolResult) -> str:
    """Say that the call can be made again: all there is to say where nothing keeps results."""
    return "Make the call again if you need it."


@dataclass(frozen=True, slots=True)
class _Old:
    """A result that may be masked: where it is, how large, and how many results came after it."""

    slot: int
    result: ToolResult
    tokens: int
    age: int


def masking(
    shown: Shown,
    counter: Counter,
    *,
    keep: int = NEWEST,
    goal: int | None = None,
    spared: Collection[str] = (),
    again: Again = anew,
) -> Changes:
    """Choose the results to mask and return the changes, empty for none.

    The newest `keep` results stay, and those in messages whose ids are `spared`. Of the others go the largest
    and oldest first, until `goal` tokens are freed; None for all of them. Masking twice masks nothing more.
    """
    calls = _asked(shown)
    chosen: list[_Old] = []
    freed = 0
    for old in sorted(_maskable(shown, counter, keep, spared), key=lambda old: -old.tokens * old.age):
        if goal is not None and freed >= goal:
            break
        chosen.append(old)
        freed += old.tokens
    changes: Changes = {}
    for old in sorted(chosen, key=lambda old: old.slot):
        recorded, messages = shown[old.slot]
        call = calls[old.slot, old.result.call_id]
        line = replace(old.result, content=(Text(placeholder(call, old.tokens, again(call, old.result))),))
        changes[recorded.id] = _swapped(changes.get(recorded.id, messages), old.result, line)
    return changes


def _asked(shown: Shown) -> dict[tuple[int, str], ToolCall]:
    """Find the call of each result by its slot and id: the last one before it, as another may have the id later on."""
    known: dict[str, ToolCall] = {}
    found: dict[tuple[int, str], ToolCall] = {}
    for slot, (_, messages) in enumerate(shown):
        for message in messages:
            known |= {call.id: call for call in message.calls}
            for result in message.results:
                found[slot, result.call_id] = known.get(result.call_id, ToolCall(result.call_id, "a tool"))
    return found


def freed(shown: Shown, changes: Changes, counter: Counter) -> int:
    """Count the tokens that the changes free."""
    gone = sum(counter.message(m) for message, now in shown if message.id in changes for m in now)
    return gone - sum(counter.message(m) for now in changes.values() for m in now)


def masks(shown: Shown, changes: Changes) -> int:
    """Count the results that the changes mask: a message may hold several."""
    before = [m for recorded, messages in shown if recorded.id in changes for m in messages]
    after = [m for messages in changes.values() for m in messages]
    return _marked(after) - _marked(before)


def _marked(messages: Sequence[Message]) -> int:
    return sum(result.text.startswith(MARK) for message in messages for result in message.results)


def placeholder(call: ToolCall, tokens: int, how: str) -> str:
    """Write the line that stands for a result."""
    return f"{MARK}{called(call)} gave about {tokens:,} tokens here. {how}]"


def called(call: ToolCall, most: int = 160) -> str:
    """Write a call in one short line: its name and its arguments as far as they fit."""
    given = " ".join(f"{name}={_short(value)}" for name, value in call.replayed().items())
    line = f"{call.name[:64]} {given}".strip()
    return line if len(line) <= most else f"{line[: most - 1]}…"


def too_large(shown: Shown, counter: Counter, most: int, again: Again = anew) -> Changes:
    """Cut each result of more than `most` tokens to its head and tail, whether it is new or pinned: it could not be sent."""
    calls = _asked(shown)
    changes: Changes = {}
    for slot, (recorded, messages) in enumerate(shown):
        for message in messages:
            for result, tokens in zip(message.results, counter.results(message), strict=True):
                if tokens > most:
                    short = _cut(result, tokens, most, again(calls[slot, result.call_id], result))
                    changes[recorded.id] = _swapped(changes.get(recorded.id, messages), result, short)
    return changes


def _cut(result: ToolResult, tokens: int, most: int, how: str) -> ToolResult:
    texts = [part.text for part in result.content if isinstance(part, Text)]
    room = max(200, len("\n".join(texts)) * most // (tokens * 2))  # dense parts may be what is kept
    return replace(result, content=(Text(bounded("\n".join(texts), room, lambda _: how.rstrip("."))),))


def _maskable(shown: Shown, counter: Counter, keep: int, spared: Collection[str]) -> Iterator[_Old]:
    age = 0
    for slot in range(len(shown) - 1, -1, -1):
        recorded, messages = shown[slot]
        for message in reversed(messages):
            sizes = zip(message.results, counter.results(message), strict=True)
            for result, tokens in reversed(list(sizes)):
                age += 1
                seen = sum(pictured(part.data) for part in result.content if isinstance(part, Image))
                masked = result.text.startswith(MARK)
                if age > keep and tokens + seen >= WORTH and not masked and recorded.id not in spared:
                    yield _Old(slot, result, tokens + seen, age)


def _swapped(messages: tuple[Message, ...], old: ToolResult, new: ToolResult) -> tuple[Message, ...]:
    return tuple(
        replace(message, parts=tuple(new if part is old else part for part in message.parts))
        if any(part is old for part in message.parts)
        else message
        for message in messages
    )


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"
