"""The messages of a session as documents for the index, those too that the model no longer sees. Part of the search of book chapter 10."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

from harness_nb.context.chunks import Chunk, of_text
from harness_nb.context.index import Document
from harness_nb.messages import Message, Summary, Text, Thinking, ToolCall, ToolResult

OUTSIDE = re.compile(r'<outside-(\w{1,64}) source="[^"<>\n]*">\n?')
"""The mark that opens words from outside (see safety/trust.py): they keep it, and the one that closes it, in every passage."""


def documents(messages: Sequence[Message], own: str = "", asking: str = "") -> Iterator[Document]:
    """Give the messages in order, without what the tool `own` was asked and found: those are copies.

    With the id of a call that is `asking`, its own message and the last prompt are left out: the model sees
    them now, and they hold the words that it looks for.
    """
    names = {call.id: call.name for message in messages for call in message.calls}
    now = {m.id for m in messages if asking and any(call.id == asking for call in m.calls)}
    now |= {next((m.id for m in reversed(messages) if asking and m.role == "user"), "")}
    for number, message in enumerate(messages, 1):
        if message.id not in now:
            yield Document(message.id, number, partial(_passages, message, number, names, own))


def said(message: Message, number: int, names: dict[str, str], own: str = "") -> Iterator[Chunk]:
    """Give each part of a message that has words, whole; `names` are those of the tools that calls by their id are for."""
    for part in message.parts:
        title, text = str(message.role), ""
        match part:
            case Text(text) | Summary(text):
                pass
            case Thinking(text):
                title = "thinking"
            case ToolCall(_, name, raw) if name != own:
                title, text = f"call of {name}", raw
            case ToolResult(call_id) if not own or names.get(call_id) != own:
                title, text = f"result of {names.get(call_id, 'a tool')}", part.text
            case _:
                continue
        for fence, words in _fenced(text):
            if words.strip():
                yield Chunk("", f"message {number}", title, words, fence=fence)


def _passages(message: Message, number: int, names: dict[str, str], own: str) -> Iterator[Chunk]:
    for whole in said(message, number, names, own):
        yield from of_text(whole.text, whole)


def _fenced(text: str) -> Iterator[tuple[tuple[str, str], str]]:
    """Split a text at the marks of words from outside, and give each part with the marks that it stood between."""
    start = 0
    while found := OUTSIDE.search(text, start):
        yield ("", ""), text[start : found.start()]
        closing = f"</outside-{found[1]}>"
        end = text.find(closing, found.end())
        end = len(text) if end < 0 else end
        yield (found[0].strip(), closing), text[found.end() : end]
        start = end + len(closing)
    yield ("", ""), text[start:]


def shown(chunk: Chunk, text: str) -> str:
    """Give a passage's text, or a part of it, between the marks that belong round it."""
    opening, closing = chunk.fence
    return f"{opening}\n{text}\n{closing}" if opening else text
