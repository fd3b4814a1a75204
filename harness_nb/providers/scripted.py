"""A model that says what a script tells it to: the double of tests and lessons, offline and always the same. Book chapter 2.

    scripted("Hello.")                                    one turn of text
    scripted(say(call("add", a=1, b=2)), "It is 3.")      a tool call, then the answer
    scripted(lambda request: f"You said {request.messages[-1].text}")

Each turn is streamed in small pieces, as a real model would.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

from harness_nb.errors import ProviderError
from harness_nb.events import CallDelta, TextDelta, ThinkingDelta
from harness_nb.messages import Message, Part, Text, Thinking, ToolCall, Usage
from harness_nb.seams import Reply, Request, Run, Stop

Turn: TypeAlias = "str | Reply | BaseException | Callable[[Request], str | Reply | Awaitable[str | Reply]]"
"""Text, a whole reply, an error to raise, or a function of the request that makes one of the first two."""


def call(name: str, /, **arguments: object) -> ToolCall:
    """Make a tool call; its id is set when the turn is played."""
    return ToolCall("", name, json.dumps(arguments))


def say(*parts: Part | str, stop: Stop | None = None, usage: Usage | None = None, detail: str = "") -> Reply:
    """Make a turn of several parts; `stop` is worked out from them unless given."""
    made = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    ended: Stop = "calls" if any(isinstance(part, ToolCall) for part in made) else "end"
    return Reply(Message("assistant", made), usage or Usage(), stop or ended, detail)


def scripted(
    *turns: Turn, pace: float = 0.0, piece: int = 12, name: str = "scripted", window: int = 0
) -> Scripted:
    """Make a model of a script: `pace` seconds between pieces of `piece` characters, a context window of `window` tokens, 0 for no end."""
    return Scripted(turns, pace, piece, name, window)


@dataclass
class Scripted:
    """Plays its turns in order; `requests` keeps what it was asked, for tests to look at."""

    turns: tuple[Turn, ...]
    pace: float
    piece: int
    name: str
    window: int = 0
    requests: list[Request] = field(default_factory=list, repr=False)
    free: ClassVar[bool] = True
    """It costs nothing."""

    async def __call__(self, request: Request, run: Run) -> Reply:
        """Play the next turn. Raises ProviderError when the script is over."""
        number = len(self.requests)
        self.requests.append(request)
        if number >= len(self.turns):
            raise ProviderError(f"The script has {len(self.turns)} turns and was asked for one more.")
        turn = self.turns[number]
        if isinstance(turn, BaseException):
            raise turn
        if callable(turn):
            made = turn(request)
            turn = await made if inspect.isawaitable(made) else made
        reply = say(turn) if isinstance(turn, str) else turn
        reply = replace(reply, message=_fresh(reply.message, number), usage=_counted(reply, request))
        for event in _deltas(reply.message, self.piece):
            run.emit(event)
            await asyncio.sleep(self.pace)
        return reply


def _fresh(message: Message, number: int) -> Message:
    """Give the message an id of its own and its calls ids that say which turn they are of."""
    parts = tuple(
        replace(part, id=part.id or f"call_{number + 1}_{index + 1}") if isinstance(part, ToolCall) else part
        for index, part in enumerate(message.parts)
    )
    return Message(message.role, parts)


def _counted(reply: Reply, request: Request) -> Usage:
    """Count four characters as a token where the script gives no usage, and say that it is a guess."""
    if reply.usage != Usage():
        return reply.usage
    sent = len(request.instructions) + sum(_size(message) for message in request.messages)
    return Usage(input=sent // 4 + 1, output=_size(reply.message) // 4 + 1, estimated=True)


def _size(message: Message) -> int:
    calls = sum(len(part.name) + len(part.raw) for part in message.calls)
    return len(message.text) + calls + sum(len(result.text) for result in message.results)


def _deltas(message: Message, size: int) -> Iterator[TextDelta | ThinkingDelta | CallDelta]:
    for part in message.parts:
        match part:
            case Text(text):
                yield from (TextDelta(piece) for piece in _pieces(text, size))
            case Thinking(text=text):
                yield from (ThinkingDelta(piece) for piece in _pieces(text, size))
            case ToolCall(identity, name, raw):
                yield CallDelta(identity, name)
                yield from (CallDelta(identity, name, piece) for piece in _pieces(raw, size))
            case _:
                pass


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))
