"""The chunks of a Chat Completions stream as one turn, for the adapter chat.py. Book chapter 5."""

from __future__ import annotations

import json
from typing import TypeAlias, cast

from harness_nb.messages import Usage
from harness_nb.providers.assembly import Assembly, Written
from harness_nb.providers.wire import DONE, Event
from harness_nb.seams import Stop
from harness_nb.strict import parse_arguments

THINKING = ("reasoning_content", "reasoning")
"""Fields in which servers put the model's thinking."""

Data: TypeAlias = dict[str, object]

STOPS: dict[object, Stop] = {
    "stop": "end",
    "eos": "end",
    "stop_sequence": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refusal",
}
BROKEN = frozenset({"error", "abort", "aborted", "insufficient_system_resource"})
"""What servers call an end that is none: the answer broke off there."""


class Turn:
    """The events of one Chat Completions stream, as they come."""

    def __init__(self, assembly: Assembly, host: str) -> None:
        self.assembly = assembly
        self.ended = False
        self.stop: Stop = "end"
        self.detail = ""
        self.usage: Usage | None = None
        self._host = host
        self._broken = False
        self._slot = 0
        self._kind = ""
        self._calls: list[tuple[object, Written, int]] = []

    def take(self, event: Event) -> None:
        """Take the next chunk; it may have no choices, or none that says anything."""
        if event is DONE:
            self.ended = not self._broken
            return
        if usage := event.get("usage"):
            self.usage = _counted(cast("Data", usage))
        for choice in cast("list[Data]", event.get("choices") or []):
            if choice.get("index") in (0, None):
                if delta := choice.get("delta") or choice.get("message"):
                    self._delta(cast("Data", delta))
                if reason := choice.get("finish_reason"):
                    self._finished(reason)

    def _delta(self, delta: Data) -> None:
        for field in THINKING:
            if thought := delta.get(field):
                self.assembly.think(self._place(field), str(thought), f"{field}@{self._host}")
                break  # a server that fills both says the same twice
        if content := delta.get("content"):
            self.assembly.say(self._place("text"), content if isinstance(content, str) else _texts(content))
        if refusal := delta.get("refusal"):
            self.assembly.say(self._place("text"), str(refusal))
            self.stop, self.detail = "refusal", self.detail + str(refusal)
        for piece in cast("list[Data]", delta.get("tool_calls") or []):
            self._call(piece)

    def _place(self, kind: str) -> int:
        if kind != self._kind:
            self._slot, self._kind = self._slot + 1, kind
        return self._slot

    def _call(self, piece: Data) -> None:
        function = cast("Data", piece.get("function") or {})
        name, given = str(function.get("name") or ""), function.get("arguments")
        sent_id, number = str(piece.get("id") or "").strip(), piece.get("index")
        found = self._continued(sent_id, number, name)
        if found is None:
            self._slot, self._kind = self._slot + 1, "call"
            found = (number, self.assembly.call(self._slot, sent_id, name), self._slot)
            self._calls.append(found)
        found[1].sent_id = found[1].sent_id or sent_id
        self.assembly.argue(found[2], given if isinstance(given, str) else json.dumps(given) if given else "")

    def _continued(self, sent_id: str, number: object, name: str) -> tuple[object, Written, int] | None:
        """Find the call that a piece goes on with; None if it begins one."""
        same_number = [call for call in self._calls if number is None or call[0] == number]
        same_id = [call for call in self._calls if sent_id and call[1].sent_id == sent_id]
        if sent_id:
            both = [call for call in same_id if call in same_number]
            if both or (same_id and not name):
                return (both or same_id)[-1]
            nameless = same_number and not same_number[-1][1].sent_id and not name
            return same_number[-1] if nameless else None
        if not same_number:
            return None
        last = same_number[-1]
        return last if not name or (name == last[1].name and not _is_whole(last[1].raw)) else None

    def _finished(self, reason: object) -> None:
        self._broken = self._broken or reason in BROKEN
        self.ended = not self._broken
        if self.stop in ("length", "refusal"):
            return
        self.stop = STOPS.get(reason, "other")
        self.detail = str(reason) if self.stop in ("other", "refusal") else ""


def _is_whole(raw: str) -> bool:
    try:
        return bool(raw.strip()) and parse_arguments(raw) is not None
    except ValueError:
        return False


def _texts(content: object) -> str:
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def _counted(usage: Data) -> Usage:
    inside = cast("Data", usage.get("prompt_tokens_details") or {})
    made = cast("Data", usage.get("completion_tokens_details") or {})
    cached = inside.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or 0
    counts = (
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        cached,
        made.get("reasoning_tokens"),
    )
    sent, written, read, reasoning = (int(cast("int", count or 0)) for count in counts)
    return Usage(sent, written, cache_read=read, reasoning=reasoning)
