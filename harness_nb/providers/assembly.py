"""Deltas to a message: one turn put together piece by piece, told to the run as it grows. Used by the adapters. Book chapter 5.

Each adapter reads its own events and says here what they mean: words, thinking, a piece of a call, a block to keep.
Nothing is parsed or repaired: a call's argument text is what came, and whether it can run is for the loop to find out.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from harness_nb.events import CallDelta, TextDelta, ThinkingDelta
from harness_nb.messages import Message, Opaque, Part, Text, Thinking, ToolCall, Usage, assistant
from harness_nb.seams import Reply, Run, Stop
from harness_nb.strict import clean


@dataclass(slots=True)
class Words:
    """Text or thinking that is being written."""

    vendor: str | None = None
    """None for text; for thinking, whose it is."""
    pieces: list[str] = field(default_factory=list)
    signature: str = ""
    held: str = ""
    """First half of a character that came in two."""


@dataclass(slots=True)
class Written:
    """A tool call that is being written. `sent_id` is the provider's id, blank or repeated as it may be."""

    id: str
    name: str
    sent_id: str = ""
    pieces: list[str] = field(default_factory=list)
    held: str = ""

    @property
    def raw(self) -> str:
        """The argument text so far."""
        return "".join(self.pieces)


Block = Words | Written | Opaque


class Assembly:
    """The blocks of one turn by slot: whatever the provider numbers them by."""

    def __init__(self, run: Run, names: Mapping[str, str]) -> None:
        """Tell `run` of every piece; `names` maps tool names on the wire to what they are called here."""
        self.blocks: dict[Hashable, Block] = {}
        self._emit = run.emit
        self._transcript = run.transcript
        self._names = names

    def say(self, slot: Hashable, piece: str) -> None:
        """Add a piece of text."""
        block = self.blocks.get(slot)
        if not isinstance(block, Words):
            block = self.blocks[slot] = Words()
        block.pieces.append(piece)
        if shown := _shown(block, piece):
            self._emit(TextDelta(shown))

    def think(self, slot: Hashable, piece: str, vendor: str) -> None:
        """Add a piece of thinking; an empty one opens the block."""
        block = self.blocks.get(slot)
        if not isinstance(block, Words):
            block = self.blocks[slot] = Words(vendor)
        block.pieces.append(piece)
        if shown := _shown(block, piece):
            self._emit(ThinkingDelta(shown))

    def sign(self, slot: Hashable, signature: str) -> None:
        """Set the proof of a thinking block."""
        block = self.blocks.get(slot)
        if isinstance(block, Words):
            block.signature = signature

    def call(self, slot: Hashable, sent_id: str, name: str) -> Written:
        """Open a tool call, under an id that no other call has."""
        known = self._names.get(name, clean(name))
        earlier = [
            ToolCall(block.id, block.name) for block in self.blocks.values() if isinstance(block, Written)
        ]
        distinct = self._transcript.distinct(assistant(*earlier, ToolCall(clean(sent_id).strip(), known)))
        block = self.blocks[slot] = Written(distinct.calls[-1].id, known, sent_id)
        self._emit(CallDelta(block.id, known))
        return block

    def argue(self, slot: Hashable, piece: str) -> None:
        """Add a piece of a call's argument text."""
        block = self.blocks.get(slot)
        if isinstance(block, Written) and piece:
            block.pieces.append(piece)
            if shown := _shown(block, piece):
                self._emit(CallDelta(block.id, block.name, shown))

    def keep(self, slot: Hashable, block: Opaque) -> None:
        """Keep a block as it came, to be sent back."""
        self.blocks[slot] = block

    def parts(self) -> tuple[Part, ...]:
        """Return what the blocks have become: by number where the provider numbers them, else as they came."""
        blocks = list(self.blocks.items())
        numbers = [slot[0] if isinstance(slot, tuple) else slot for slot, _ in blocks]
        if all(isinstance(number, int) for number in numbers):
            blocks.sort(key=lambda item: item[0] if isinstance(item[0], tuple) else (item[0],))
        return tuple(part for _, block in blocks if (part := _part(block)) is not None)


def _part(block: Block) -> Part | None:
    match block:
        case Written():
            return ToolCall(block.id, block.name, block.raw or "{}")
        case Words(vendor=None):
            text = "".join(block.pieces)
            return Text(text) if text.strip() else None
        case Words():
            text = "".join(block.pieces)
            return Thinking(text, block.signature, block.vendor or "") if text or block.signature else None
        case _:
            return block


def _shown(block: Words | Written, piece: str) -> str:
    """Return what can be shown of a piece, holding back the first half of a character that came in two."""
    if piece.isascii() and not block.held and "\0" not in piece:
        return piece
    piece = block.held + piece
    block.held = piece[-1] if "\ud800" <= piece[-1:] <= "\udbff" else ""
    return clean(piece[:-1] if block.held else piece)


def reply(
    parts: tuple[Part, ...], stop: Stop, usage: Usage, detail: str = "", limit: int | None = None
) -> Reply:
    """Make the reply of a whole turn, with the reason to stop set right where a server reports it wrongly.

    Calls make it `calls` whatever was said, except at a limit, where the last call may be cut: a server
    that used up `limit` output tokens has hit it, whatever it says. What a refused turn had begun is not to run.
    """
    called = any(isinstance(part, ToolCall) for part in parts)
    if stop == "refusal":
        parts = tuple(part for part in parts if not isinstance(part, ToolCall))
    elif limit is not None and usage.output >= limit and not usage.estimated:
        stop = "length"
    elif stop != "length":
        stop = "calls" if called else "end" if stop == "calls" else stop
    return Reply(Message("assistant", parts), usage, stop, detail)


def guessed(body: bytes, parts: tuple[Part, ...]) -> Usage:
    """Count four characters as a token, and say that it is a guess: for providers that report no usage."""
    written = sum(
        len(part.raw if isinstance(part, ToolCall) else getattr(part, "text", "")) for part in parts
    )
    return Usage(input=len(body) // 4 + 1, output=written // 4 + 1, estimated=True)
