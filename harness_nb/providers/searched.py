"""What Claude's own search of tools leaves in a conversation, and how it is taken out where a tool it found is gone. Used by anthropic.py. Book chapter 12."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from harness_nb.messages import Message, Opaque, Part

SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
"""The tool that searches, as it is sent."""
MARKS = ('"name":"tool_search_tool_', '"type":"tool_search_tool_result"')
"""What is in a search's call and in its result."""


def is_search(part: Part) -> bool:
    """Tell whether a part is of a search, its call or its result."""
    return isinstance(part, Opaque) and any(mark in part.block for mark in MARKS)


def found(message: Message) -> frozenset[str]:
    """Name the tools, as on the wire, that the searches in a message found."""
    return frozenset(name for part in message.parts if is_search(part) for name in _named(part))


def forgotten(message: Message) -> Message:
    """Return the message without its searches: the API refuses the name of a tool that it isn't told of."""
    return replace(message, parts=tuple(part for part in message.parts if not is_search(part)))


def _named(part: Part) -> Iterator[str]:
    waiting = [json.loads(part.block)] if isinstance(part, Opaque) else []
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if item.get("type") == "tool_reference":
                yield str(item.get("tool_name"))
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
