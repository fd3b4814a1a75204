"""What a decision about the context does to each message, in words and tokens. A pure function of the record; book chapters 8 and 9.

for fate in fates(transcript, decision, counter):
    print(fate.number, fate.what, fate.fate, fate.before, fate.after)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness_nb.context.count import Counter
from harness_nb.context.mask import MARK, called
from harness_nb.messages import Decision, Message, Summary, ToolCall, Transcript

Kind: TypeAlias = Literal[
    "kept", "pinned", "masked", "cleared", "cut", "summarised", "dropped", "brought back", "changed"
]
"""What became of a message: `cleared` by its provider, `cut` to head and tail, `dropped` without a summary of it."""

Shown: TypeAlias = tuple[Message, ...]
"""What stands in the place of a message."""

WORDS = 60
"""Most characters that are quoted of a message."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What a decision does to one message: its tokens as the model saw it before, and as it sees it after.

    `number` is its place in the record, from 1. `what` describes it in one line; its words are a model's or a tool's.
    """

    number: int
    id: str
    what: str
    fate: Kind
    before: int
    after: int


def fates(transcript: Transcript, decision: Decision, counter: Counter) -> list[Fate]:
    """Tell what `decision` does to each message, in the order of the record, which doesn't hold it yet.

    Messages that the model saw neither before nor after are left out.
    """
    after = Transcript([*transcript.entries, decision])
    slots = [
        (message, old, new)
        for (message, old), (_, new) in zip(transcript.shown(), after.shown(), strict=True)
    ]
    known = {call.id: call for message in transcript.messages for call in message.calls}
    pinned = after.pinned()
    summed = any(_has_summary(new) and not _has_summary(old) for _, old, new in slots)
    told: list[Fate] = []
    for number, (message, old, new) in enumerate(slots, 1):
        if not old and not new:
            continue
        if old == new:
            fate: Kind = "pinned" if message.id in pinned else "kept"
        else:
            fate = _changed(decision, message, old, new, summed=summed)
        sizes = (sum(map(counter.message, shown)) for shown in (old, new))
        told.append(Fate(number, message.id, described(message, known), fate, *sizes))
    return told


def described(message: Message, known: Mapping[str, ToolCall], most: int = WORDS) -> str:
    """Describe a message in one line: whose it is, and its first words or its calls; `known` are the calls by id."""
    if results := message.results:
        names = [called(known.get(r.call_id, ToolCall(r.call_id, "a tool")), most) for r in results]
        return f"result of {_first(names)}"
    if any(isinstance(part, Summary) for part in message.parts):
        return f"summary: {_quoted(message.text, most)}"
    if calls := message.calls:
        return f"call of {_first([called(call, most) for call in calls])}"
    whose = {"user": "you", "assistant": "the model"}.get(message.role, message.role)
    said = _quoted(message.text, most)
    return f"{whose}: {said}" if said else f"{whose}: no words"


def _changed(decision: Decision, message: Message, old: Shown, new: Shown, *, summed: bool) -> Kind:
    now = _version(message, new)
    if now is None:
        return "summarised" if summed else "dropped"
    was = _version(message, old)
    if was is None or now == message:
        return "brought back"
    if decision.by == "provider":
        return "cleared"
    pairs = [(a.text, b.text) for a, b in zip(was.results, now.results, strict=False) if a != b]
    if pairs and all(text.startswith(MARK) for _, text in pairs):
        return "masked"
    if pairs and all(len(text) < len(before) for before, text in pairs):
        return "cut"
    return "brought back" if decision.undoes else "changed"


def _version(message: Message, shown: Shown) -> Message | None:
    """Find the message in what stands in its place, whole or in part: a version of it keeps its id."""
    return next((one for one in shown if one.id == message.id), None)


def _has_summary(shown: Shown) -> bool:
    return any(isinstance(part, Summary) for message in shown for part in message.parts)


def _first(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]}, and {len(names) - 1:,} more"


def _quoted(text: str, most: int) -> str:
    flat = " ".join(text[: 4 * most].split())
    return flat if len(flat) <= most and len(text) <= 4 * most else f"{flat[: most - 1]}…"
