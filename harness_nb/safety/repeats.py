"""Going round in circles: the same calls with the same results, turn after turn. Fits the tool gate socket; book chapter 6.

Theory of operation. What counts is a turn: the set of its calls, each with its result. A call whose
result changes is polling, not a loop. Turns that repeat with a period of 1 to 4 are one: from the third
time on the result says so, and after the fifth the next call of the circle is not run and ends the run.
A write that did something new is progress, and the count starts again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

from harness_nb.errors import RunStop
from harness_nb.messages import Text, ToolResult
from harness_nb.seams import Call, Gate, Proceed, Run

NUDGE, STOP, PERIOD = 3, 5, 4
"""How often a circle is gone round before the model is told, and before the run ends; the longest circle, in turns."""

KEPT = PERIOD * (STOP + 1) + 1
"""How many turns are kept."""

SEEN = 10_000
"""How many calls are remembered, to tell what is new."""

_canonical = json.JSONEncoder(sort_keys=True, default=repr).encode

WRITING = frozenset({"write", "mutate"})
"""Effects that change something; a tool that declares none may."""

ADVICE = "change the arguments, try another way, or say what you found and what is missing"

Asked: TypeAlias = tuple[str, str]
Turn: TypeAlias = set[tuple[Asked, int]]


def circling(turns: Sequence[object], period: int) -> int:
    """Count how many turns at the end equal the one `period` before them."""
    count = 0
    while len(turns) - period > count and turns[-1 - count] == turns[-1 - count - period]:
        count += 1
    return count


@dataclass(slots=True)
class History:
    """The last turns of a run, and which results each of its calls has had at all."""

    turns: list[Turn] = field(default_factory=list)
    number: int = -1
    seen: dict[Asked, set[int]] = field(default_factory=dict)

    def rounds(self, asked: Asked, turn: int, result: int | None = None) -> tuple[int, int]:
        """Return how often the circle that this call goes on with was gone round, and its period; 0, 0 for none.

        With the call's result, it counts as part of the round that it may complete, if that is the same too.
        """
        if asked not in self.seen:
            return 0, 0
        past = self.turns if turn != self.number else self.turns[:-1]
        most = 0, 0
        for period in range(1, min(PERIOD, len(past)) + 1):
            known = past[-period]
            if (asked, result) in known or (result is None and any(asked == call for call, _ in known)):
                times = (circling(past, period) + (result is not None)) // period + 1
                most = max(most, (times, period), key=lambda found: found[0])
        return most

    def add(self, asked: Asked, result: int, turn: int, *, wrote: bool) -> None:
        """Record a call's result; a write that is new starts the count again."""
        known = self.seen.setdefault(asked, set())
        if wrote and result not in known:
            self.turns.clear()
            self.number = -1
        known.add(result)
        if turn != self.number:
            self.turns.append(set())
            self.number = turn
            if len(self.turns) > KEPT:
                del self.turns[0]
        self.turns[-1].add((asked, result))
        if len(self.seen) > SEEN:
            del self.seen[next(iter(self.seen))]


def unrepeated(repeatable: Collection[str] = ()) -> Gate:
    """Make the gate that notices a model going round in circles; `repeatable` names tools that may be called again and again.

    Put it outside of permission, so that nobody is asked the same for ever, and inside of what bounds
    results. Its state is that of the run. Raises RunStop with reason `incomplete`.
    """

    async def gate(call: Call, run: Run, proceed: Proceed[Call, ToolResult]) -> ToolResult:
        if call.spec.name in repeatable:
            return await proceed(call)
        history = cast("History", run.state.get(gate) or run.state.setdefault(gate, History()))
        asked = call.spec.name, _canonical(call.arguments)
        times, period = history.rounds(asked, run.turn)
        if times >= STOP:
            raise RunStop("incomplete", f"{_circle(call, times, period)} The model seems stuck.")
        result = await proceed(call)
        mark = hash((result.content, result.is_error))
        times, period = history.rounds(asked, run.turn, mark)
        wrote = not result.is_error and (not call.spec.effects or bool(call.spec.effects & WRITING))
        history.add(asked, mark, run.turn, wrote=wrote)
        if times < NUDGE:
            return result
        last = " The next time ends the run." if times >= STOP else ""
        note = f"[{_circle(call, times, period)} Once more will not help: {ADVICE}.{last}]"
        return replace(result, content=(*result.content, Text(note)))

    return gate


def _circle(call: Call, times: int, period: int) -> str:
    if period == 1:
        return (
            f"`{call.spec.name}` was called {times} times with the same arguments and gave the same result."
        )
    return (
        f"The same {period} turns, `{call.spec.name}` among them, came {times} times with the same results."
    )
