"""The events of a Messages stream as one turn, for the adapter anthropic.py. Book chapter 5."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias, cast

from harness_nb.messages import Opaque, Part, Usage
from harness_nb.providers.assembly import Assembly, Written
from harness_nb.providers.clearing import Cleared
from harness_nb.providers.spelling import wire_json
from harness_nb.providers.wire import Event
from harness_nb.seams import Stop

VENDOR = "anthropic"

Data: TypeAlias = dict[str, object]

STOPS: dict[object, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause",
    "compaction": "pause",
    "refusal": "refusal",
}
ASKED = frozenset({"message", "fallback_message"})
"""What the model itself was asked, of the requests that one turn may consist of."""

COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


class Turn:
    """The events of one Messages stream, as they come."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.ended = False
        self.stop: Stop = "other"
        self.detail = ""
        self.cleared: Cleared | None = None
        """What the provider says it cleared from the request."""
        self._iterations: list[Data] = []
        self._counts: dict[str, int] = {}
        self._unknown: dict[object, tuple[Data, list[str]]] = {}
        self._given: dict[object, object] = {}

    def take(self, event: Event) -> None:
        """Take the next event; one of an unknown kind means nothing."""
        kind = event.get("type")
        if kind == "content_block_delta":
            self._delta(event.get("index"), cast("Data", event.get("delta") or {}))
        elif kind == "content_block_start":
            self._start(event.get("index"), cast("Data", event.get("content_block") or {}))
        elif kind == "content_block_stop":
            self._finish(event.get("index"))
        elif kind == "message_start":
            self._count(cast("Data", event.get("message") or {}).get("usage"))
        elif kind == "message_delta":
            self._count(event.get("usage"))
            self.cleared = Cleared.read(event.get("context_management")) or self.cleared
            self._ends(cast("Data", event.get("delta") or {}))
        elif kind == "message_stop":
            self._end()

    def _end(self) -> None:
        self.ended = True
        for slot, given in self._given.items():
            block = self.assembly.blocks.get(slot)
            if given and isinstance(block, Written) and not block.pieces:  # a whole input and no pieces of it
                self.assembly.argue(slot, json.dumps(given))

    def _delta(self, slot: object, delta: Data) -> None:
        kind = delta.get("type")
        if kind == "text_delta":
            self.assembly.say(slot, str(delta.get("text") or ""))
        elif kind == "input_json_delta":
            piece = str(delta.get("partial_json") or "")
            if slot in self._unknown:
                self._unknown[slot][1].append(piece)
            else:
                self.assembly.argue(slot, piece)
        elif kind == "thinking_delta":
            self.assembly.think(slot, str(delta.get("thinking") or ""), VENDOR)
        elif kind == "signature_delta" and slot not in self._unknown:
            self.assembly.sign(slot, str(delta.get("signature") or ""))
        elif slot in self._unknown:
            self._unknown[slot][0].update({key: value for key, value in delta.items() if key != "type"})

    def _start(self, slot: object, block: Data) -> None:
        kind = block.get("type")
        if kind == "text":
            self.assembly.say(slot, str(block.get("text") or ""))
        elif kind == "thinking":
            self.assembly.think(slot, str(block.get("thinking") or ""), VENDOR)
            self.assembly.sign(slot, str(block.get("signature") or ""))
        elif kind == "tool_use":
            self.assembly.call(slot, str(block.get("id") or ""), str(block.get("name") or ""))
            self._given[slot] = block.get("input")
        else:
            self._unknown[slot] = (dict(block), [])
            self._keep(slot)

    def _finish(self, slot: object) -> None:
        """Put the pieces of an unknown block into it: a server tool's input, or what its deltas named."""
        if slot in self._unknown:
            block, pieces = self._unknown[slot]
            if pieces:
                try:
                    block["input"] = json.loads("".join(pieces))
                except ValueError:
                    block["input"] = {}
            self._keep(slot)

    def _keep(self, slot: object) -> None:
        self.assembly.keep(slot, Opaque(VENDOR, wire_json(self._unknown[slot][0]).decode()))

    def _ends(self, delta: Mapping[str, object]) -> None:
        reason = delta.get("stop_reason")
        if reason is None:
            return
        self.stop = STOPS.get(reason, "other")
        details = delta.get("stop_details")
        words = [details.get(key) for key in ("explanation", "category")] if isinstance(details, dict) else []
        said = next((str(word) for word in words if word), "")
        self.detail = said or ("" if reason in STOPS else str(reason))

    def _count(self, usage: object) -> None:
        """Counts are totals so far, not additions; a missing one leaves the last."""
        for name, value in usage.items() if isinstance(usage, dict) else ():
            if isinstance(value, int):
                self._counts[name] = value
            elif name == "output_tokens_details" and isinstance(value, dict):
                self._counts["thinking"] = int(value.get("thinking_tokens") or 0)
            elif name == "iterations" and isinstance(value, list):
                self._iterations = [item for item in value if isinstance(item, dict)]

    def parts(self) -> tuple[Part, ...]:
        """Return what the turn has become. A server tool's call that a limit cut off from its result is left out:
        the API refuses it.
        """
        parts = self.assembly.parts()
        if self.stop != "length":
            return parts
        blocks = {part: json.loads(part.block) for part in parts if isinstance(part, Opaque)}
        answered = {block.get("tool_use_id") for block in blocks.values()}
        cut = {
            part
            for part, block in blocks.items()
            if block["type"] == "server_tool_use" and block.get("id") not in answered
        }
        return tuple(part for part in parts if part not in cut)

    def usage(self) -> Usage | None:
        """Return what the turn used, None where the provider did not say. The input counts the cached tokens too.

        What a compaction inside of the turn used is not in the provider's totals, and is added. Where a turn was
        several requests, the last one's tokens are the context.
        """
        counts = [self._counts] + [item for item in self._iterations if item.get("type") == "compaction"]
        totals = [sum(_number(count.get(name)) for count in counts) for name in COUNTS]
        if not any(totals):
            return None
        new, read, made, output = totals
        asked = [item for item in self._iterations if item.get("type") in ASKED]
        last = (
            sum(_number(asked[-1].get(name)) for name in COUNTS[:3])
            if len(self._iterations) > 1 and asked
            else 0
        )
        return Usage(new + read + made, output, read, made, self._counts.get("thinking", 0), context=last)


def _number(count: object) -> int:
    return count if isinstance(count, int) else 0
