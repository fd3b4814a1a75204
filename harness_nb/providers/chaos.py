"""A model with faults put in on purpose, by name or by chance, the same for the same seed; wraps any model. Book chapter 5.

    Chaos(scripted("Hello."), ["overloaded", "cut_stream"])     one fault a call, in order, then none
    Chaos(model, odds={"rate_limit": 0.2}, seed=7)              each call may fail
    layered(Chaos(model, ["cut_stream"]), retrying())

A turn that a fault broke is kept and played when the same request is asked again, so a script doesn't lose its place.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from difflib import get_close_matches
from typing import Literal, TypeAlias, get_args

from harness_nb.errors import ProviderError, UsageError
from harness_nb.events import CallDelta, Event
from harness_nb.messages import ToolCall
from harness_nb.seams import Model, Reply, Request, Run, Stop

Fault: TypeAlias = Literal[
    "rate_limit",
    "overloaded",
    "mid_stream_error",
    "cut_stream",
    "slow_stream",
    "reordered_stream",
    "malformed_arguments",
    "truncated_arguments",
    "hidden_truncation",
    "duplicate_ids",
    "missing_ids",
]
"""A 429, a 529, an error event inside a stream, a stream without its end, pieces that come late or interleaved, arguments
that are not JSON, arguments cut by the output limit with or without the server saying so, one id for all calls, no ids."""


Calls: TypeAlias = Sequence[ToolCall]


class Chaos:
    """Asks `model`, and spoils what comes back."""

    def __init__(
        self,
        model: Model,
        plan: Sequence[Fault | ProviderError | None] = (),
        *,
        odds: Mapping[Fault, float] | None = None,
        seed: int = 0,
        pace: float = 0.1,
    ) -> None:
        """Take the faults of the first calls, in order, and the `odds` of each for all later calls.

        None in a plan is a call without a fault, an error is raised as it is; `pace` is how long a
        slow stream waits between pieces, in seconds. Raises UsageError for an unknown fault.
        """
        for fault in (*plan, *(odds or {})):
            if isinstance(fault, str) and fault not in get_args(Fault):
                near = get_close_matches(fault, get_args(Fault), n=1)
                raise UsageError(
                    f"No fault is called `{fault}`.{f' Did you mean `{near[0]}`?' if near else ''} "
                    f"The faults are: {', '.join(get_args(Fault))}."
                )
        self.name = f"{model.name} · with faults"
        self.model = model
        self.host = str(getattr(model, "host", ""))
        self.free = bool(getattr(model, "free", False))
        self.pace = pace
        self._plan = list(plan)
        self._odds = dict(odds or {})
        self._dice = random.Random(seed)  # noqa: S311 - the same faults each time are the point
        self._kept: tuple[Request, list[Event], Reply] | None = None

    async def __call__(self, request: Request, run: Run) -> Reply:
        """Ask once, with the next fault of the plan."""
        fault = self._next()
        if isinstance(fault, ProviderError):
            raise copy(fault)
        if fault in REFUSED:
            raise copy(REFUSED[fault])
        if fault is None and self._kept is None:
            return await self.model(request, run)
        events, reply = await self._whole(request, run)
        if fault in BROKEN:
            self._kept = request, events, reply
            await self._play(events[: (len(events) + 1) // 2], run)
            raise copy(BROKEN[fault])
        if fault in SPOILED:
            reply = _spoiled(reply, fault)
            events = [event for event in events if not isinstance(event, CallDelta)]
            events += [CallDelta(call.id, call.name, call.raw) for call in reply.message.calls]
        if fault == "reordered_stream":
            events = self._interleaved(events)
        await self._play(events, run, self.pace if fault == "slow_stream" else 0)
        return reply

    def _next(self) -> Fault | ProviderError | None:
        if self._plan:
            return self._plan.pop(0)
        return next((fault for fault, odds in self._odds.items() if self._dice.random() < odds), None)

    async def _whole(self, request: Request, run: Run) -> tuple[list[Event], Reply]:
        """Return the turn that a fault broke if this asks for it again; else ask, out of the run's hearing."""
        kept, self._kept = self._kept, None
        if kept is not None and kept[0] == request:
            return kept[1:]
        events: list[Event] = []
        aside = Run(run.transcript, events.append)
        aside.state = run.state
        return events, await self.model(request, aside)

    def _interleaved(self, events: list[Event]) -> list[Event]:
        """Shuffle text, thinking and calls into each other, each in its own order."""
        lanes: dict[tuple[type, str], deque[Event]] = defaultdict(deque)
        order = [(type(event), event.id if isinstance(event, CallDelta) else "") for event in events]
        for lane, event in zip(order, events, strict=True):
            lanes[lane].append(event)
        self._dice.shuffle(order)
        return [lanes[lane].popleft() for lane in order]

    @staticmethod
    async def _play(events: list[Event], run: Run, pace: float = 0) -> None:
        for event in events:
            run.emit(event)
            await asyncio.sleep(pace)


REFUSED: dict[object, ProviderError] = {
    "rate_limit": ProviderError("Too many requests.", status=429, retryable=True, retry_after=1.0),
    "overloaded": ProviderError("Overloaded.", status=529, code="overloaded_error", retryable=True),
}
"""What comes instead of an answer."""

BROKEN: dict[object, ProviderError] = {
    "mid_stream_error": ProviderError("Overloaded.", status=200, code="overloaded_error", retryable=True),
    "cut_stream": ProviderError("The stream ended before the reply was complete.", retryable=True),
}
"""What comes after half an answer."""


def _spoiled(reply: Reply, fault: object) -> Reply:
    """Put changed calls in the place of a reply's calls; one without calls stays as it is."""
    if not reply.message.calls:
        return reply
    calls = iter(SPOILED[fault](reply.message.calls))
    parts = tuple(next(calls) if isinstance(part, ToolCall) else part for part in reply.message.parts)
    stop: Stop = "length" if fault == "truncated_arguments" else reply.stop
    return replace(reply, message=replace(reply.message, parts=parts), stop=stop)


def _malformed(calls: Calls) -> Calls:
    return [replace(call, raw=f'{call.raw.rstrip()[:-1]} "and": so}}') for call in calls]


def _cut(calls: Calls) -> Calls:
    last = calls[-1]
    return [*calls[:-1], replace(last, raw=last.raw[: max(1, len(last.raw) // 2)])]


SPOILED: dict[object, Callable[[Calls], Calls]] = {
    "malformed_arguments": _malformed,
    "truncated_arguments": _cut,
    "hidden_truncation": _cut,
    "duplicate_ids": lambda calls: [replace(call, id="call_0") for call in calls],
    "missing_ids": lambda calls: [replace(call, id="") for call in calls],
}
"""What comes back whole, but with wrong calls."""
