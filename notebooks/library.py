"""A library for the lessons on the context window: the notes of its desk, what a provider refuses, and a bill.

Everything here is made up, and the same on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from harness_nb import call, say, tool
from harness_nb.context.count import counting
from harness_nb.messages import Message
from harness_nb.seams import Reply, Request

COUNT = counting("characters")
"""Estimates tokens without a vocabulary."""

View = list[Message]
"""What a model is shown."""


@tool(effects={"read"}, limit=100_000)
def desk(day: int) -> str:
    """Read what the lending desk noted on one day."""
    return json.dumps(
        [
            {
                "at": f"{9 + n // 4}:{n % 4}5",
                "book": f"B-{day * 37 + n * 11}",
                "by": f"R-{n * 7}",
            }
            for n in range(32)
        ]
    )


def careful(request: Request) -> str | Reply:
    """Remind R-7, but only if nothing in sight says that this has been done."""
    calls = [asked.name for message in request.messages for asked in message.calls]
    heard = "\n".join(message.text for message in request.messages)
    if "remind" in calls or "remind member=R-7" in heard:
        return "R-7 has been reminded."
    return say(call("remind", member="R-7"))


def refused(messages: Iterable[Message]) -> str:
    """Say what a provider says to these messages; empty if it takes them.

    A result stands right behind the call that asked for it, and no call is without one.
    """
    waiting: set[str] = set()
    for message in messages:
        given = {result.call_id for result in message.results}
        if orphans := given - waiting:
            return f"400: no call for the result {min(orphans)}"
        if missing := waiting - given:
            return f"400: no result for the call {min(missing)}"
        waiting = {asked.id for asked in message.calls}
    return ""


def told(messages: Iterable[Message]) -> dict[str, str]:
    """Name each call with its arguments, by its id."""
    calls = [asked for message in messages for asked in message.calls]
    given = [" ".join(f"{k}={v}" for k, v in asked.replayed().items()) for asked in calls]
    return {c.id: f"{c.name} {words}" for c, words in zip(calls, given, strict=True)}


def size(messages: Iterable[Message]) -> int:
    """Estimate the tokens of messages."""
    return sum(map(COUNT.message, messages))


def parts(messages: Iterable[Message]) -> dict[str, int]:
    """Estimate the tokens of messages by what they are."""
    found = {"user": 0, "assistant": 0, "results": 0}
    for message in messages:
        for what, tokens in COUNT.parts(message).items():
            found[what] = found.get(what, 0) + tokens
    return found


def play(messages: Iterable[Message], policy: Callable[[View], View]) -> list[View]:
    """Go through a session turn by turn, and return what each request shows.

    Before each request `policy` may change what is shown from there on.
    """
    shown: View = []
    requests = []
    for message in messages:
        if message.role == "assistant":
            shown = policy(shown)
            requests.append(list(shown))
        shown.append(message)
    return requests


def bill(requests: Sequence[Sequence[Message]]) -> tuple[int, int, int, int]:
    """Return the largest request, all tokens sent, how often the prompt cache broke, and the cost.

    What a request has in common with the start of the one before costs a tenth.
    """
    full = cached = breaks = 0
    for before, after in zip([[], *requests], requests, strict=False):
        same = _common(before, after)
        cached += size(after[:same])
        full += size(after[same:])
        breaks += same < len(before)
    return max(map(size, requests)), full + cached, breaks, full + cached // 10


def _common(before: Sequence[Message], after: Sequence[Message]) -> int:
    pairs = enumerate(zip(before, after, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(before), len(after)))
