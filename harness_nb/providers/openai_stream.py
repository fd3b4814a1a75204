"""The events of a Responses stream as one turn, for the adapter openai.py. Book chapter 5."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias, cast

from harness_nb.messages import Opaque, Usage
from harness_nb.providers.assembly import Assembly, Words, Written
from harness_nb.providers.spelling import wire_json
from harness_nb.providers.wire import Event
from harness_nb.seams import Stop

VENDOR = "openai"

Data: TypeAlias = dict[str, object]

NOTES = ('{"phase":', '{"namespace":')
"""How the notes begin that we keep of an item, to send it back as it was."""

ENDS = {"response.completed", "response.incomplete"}
INCOMPLETE: dict[object, Stop] = {"max_output_tokens": "length", "content_filter": "refusal"}


class Turn:
    """The events of one Responses stream, as they come. Items are known by number, or by id where a server gives none."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.ended = False
        self.stop: Stop = "end"
        self.detail = ""
        self.usage: Usage | None = None
        self._numbers: dict[object, object] = {}
        self._done: set[object] = set()

    def take(self, event: Event) -> None:
        """Take the next event; one of an unknown kind means nothing."""
        kind = event.get("type")
        piece = event.get("delta")
        if kind == "response.output_text.delta":
            self.assembly.say((self._item(event), _number(event.get("content_index"))), str(piece or ""))
        elif kind == "response.function_call_arguments.delta":
            self.assembly.argue((self._item(event), 0), str(piece or ""))
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            self.assembly.think((self._item(event), 0), str(piece or ""), VENDOR)
        elif kind == "response.refusal.delta":
            self.assembly.say((self._item(event), _number(event.get("content_index"))), str(piece or ""))
            self.stop = "refusal"
        elif kind == "response.reasoning_summary_part.added" and event.get("summary_index"):
            self.assembly.think((self._item(event), 0), "\n\n", VENDOR)
        elif kind == "response.output_item.added":
            self._added(self._item(event), cast("Data", event.get("item") or {}))
        elif kind == "response.output_item.done":
            self._finished(self._item(event), cast("Data", event.get("item") or {}))
        elif kind in ENDS:
            self._end(cast("Data", event.get("response") or {}))

    def _item(self, event: Event) -> object:
        number = event.get("output_index")
        item = event.get("item")
        name = event.get("item_id") or (item.get("id") if isinstance(item, dict) else None)
        if isinstance(number, int):
            self._numbers[name] = number
            return number
        return self._numbers.get(name, name)

    def _added(self, slot: object, item: Data) -> None:
        if item.get("type") == "function_call":
            self.assembly.call((slot, 0), str(item.get("call_id") or ""), str(item.get("name") or ""))
        elif item.get("type") == "reasoning":
            self.assembly.think((slot, 0), "", VENDOR)

    def _finished(self, slot: object, item: Data) -> None:
        """Take an item as the provider states it at its end: that counts, whatever its deltas were."""
        self._done.add(slot)
        kind = item.get("type")
        if kind == "message":
            self._message(slot, item)
        elif kind == "function_call":
            if (slot, 0) not in self.assembly.blocks:
                self._added(slot, item)
            self._keep_note(slot, item, "namespace")
            self._replace((slot, 0), _argued(item.get("arguments")), self.assembly.argue)
        elif kind == "reasoning":
            if not self._pieces((slot, 0)):
                self.assembly.think((slot, 0), _thoughts(item), VENDOR)
            self.assembly.sign((slot, 0), wire_json(item).decode())
        else:
            self.assembly.keep((slot, 0), Opaque(VENDOR, wire_json(item).decode()))

    def _message(self, slot: object, item: Data) -> None:
        self._keep_note(slot, item, "phase")
        content = item.get("content")
        for number, part in enumerate(content if isinstance(content, list) else []):
            if part.get("type") == "refusal":
                self.stop = "refusal"
                self.detail = str(part.get("refusal") or "")
            text = part.get("text") or part.get("refusal") or ""
            self._replace((slot, number), str(text), self.assembly.say)

    def _keep_note(self, slot: object, item: Data, name: str) -> None:
        if value := item.get(name):
            self.assembly.keep((slot, -1), Opaque(VENDOR, wire_json({name: value}).decode()))

    def _pieces(self, slot: tuple[object, object]) -> list[str]:
        block = self.assembly.blocks.get(slot)
        return block.pieces if isinstance(block, Words | Written) else []

    def _replace(
        self, slot: tuple[object, object], whole: str, add: Callable[[tuple[object, object], str], None]
    ) -> None:
        pieces = self._pieces(slot)
        written = "".join(pieces)
        if whole.startswith(written):
            add(slot, whole[len(written) :])
        elif whole:
            pieces[:] = [whole]

    def _end(self, response: Data) -> None:
        self.ended = True
        self.usage = _counted(response.get("usage"))
        output = response.get("output")
        if not self._done and isinstance(output, list):
            for number, item in enumerate(output):
                self._finished(number, item)
        details = response.get("incomplete_details")
        if response.get("status") == "incomplete":
            reason = details.get("reason") if isinstance(details, dict) else None
            self.stop = INCOMPLETE.get(reason, "other")
            self.detail = "" if self.stop == "length" else str(reason or "incomplete")


def _number(index: object) -> int:
    return index if isinstance(index, int) else 0


def _argued(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""


def _thoughts(item: Data) -> str:
    shown = item.get("summary") or item.get("content")
    return "\n\n".join(str(part.get("text") or "") for part in shown) if isinstance(shown, list) else ""


def _counted(usage: object) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    inside, made = usage.get("input_tokens_details") or {}, usage.get("output_tokens_details") or {}
    return Usage(
        int(usage.get("input_tokens") or 0),
        int(usage.get("output_tokens") or 0),
        int(inside.get("cached_tokens") or 0),
        int(inside.get("cache_write_tokens") or 0),
        int(made.get("reasoning_tokens") or 0),
    )
