"""A transcript as a very small model can take it: questions, the calls made for each, and the answers, all bounded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from harness_nb.messages import Message, ToolCall, ToolResult

PAST = 3
"""Earlier exchanges that are kept: each costs reading time, and more of them confuse."""
QUESTION = 12_000
"""Longest question, in characters, before its middle is left out: about half of the context."""
RESULT = 4_000
"""Longest tool result; reading 1,000 tokens takes ten seconds or more."""
FAILURE = 200
"""How much of a failed call's words is shown: a sentence or two, since it takes more for the answer."""
EARLIER = 600
"""Longest question or answer of an earlier exchange."""


@dataclass(slots=True)
class Exchange:
    """A question, the calls made to answer it, and the answer, empty as long as there is none."""

    question: str
    calls: list[ToolCall] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    answer: str = ""


def exchanges(messages: Iterable[Message]) -> list[Exchange]:
    """Read the messages as exchanges, the current one last; at least one, perhaps with an empty question."""
    found: list[Exchange] = []
    for message in messages:
        if message.role in {"user", "system"} and message.text and not message.results:
            found.append(Exchange(message.text))
        elif not found:
            found.append(Exchange(""))
        current = found[-1]
        if message.role == "assistant":
            current.calls += message.calls
            current.answer += message.text
        current.results += message.results
    return found[-PAST - 1 :] or [Exchange("")]


def shortened(text: str, limit: int) -> str:
    """The text if it is short enough, else its beginning and end, and how much was left out between."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit * 3 // 4], text[-(limit // 4) :]
    return f"{head}\n[... {len(text) - limit:,} characters left out ...]\n{tail}"
