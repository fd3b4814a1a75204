"""Holds a request's estimate before it is sent, and says afterwards what it cost; a model layer. Book chapter 20.

    layered(model, retrying(), metered(prices.of(model), budget_of_run, model=model.name))

Put it last, right at the model, so that every attempt is counted. An attempt that failed before anything came costs
nothing. One that was cut off after it had begun to answer is paid for, though nobody says what: it is charged by
estimate, what was sent and what had come, and marked so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeAlias

from harness_nb.errors import RunStop
from harness_nb.events import CallDelta, Charged, Event, Listener, Notice, TextDelta, ThinkingDelta, fan_out
from harness_nb.messages import Image, Opaque, Part, Summary, Text, Thinking, ToolCall, ToolResult, Usage
from harness_nb.ops.allowance import Allowance, LimitError
from harness_nb.ops.budget import Budget, Reservation
from harness_nb.ops.prices import Price
from harness_nb.seams import ModelLayer, Proceed, Reply, Request, Run

Estimate: TypeAlias = Callable[[Request, Run], tuple[int, int]]
"""Guesses the tokens that a request sends, and those that its answer will have."""

PER_TOKEN = 3
"""Characters that are taken for a token: rather too few than too many."""
ANSWER = 1_000
"""Tokens that an answer is expected to have, unless the request allows less."""
PICTURE = 1_600
"""Tokens of a picture."""


def metered(
    price: Price,
    budget_of: Callable[[Run], Budget | None],
    estimate: Estimate | None = None,
    *,
    model: str,
    agent: str = "",
    purpose: str = "turn",
) -> ModelLayer:
    """Make the layer for the model of this name. `budget_of` finds the budget of a run, None for one without limits.

    Each answer is told as `Charged`, with `agent` as who asked, or else the child whose budget it is, and `purpose` as
    what for. What would go beyond a limit is told as `LimitMet`, and ends the run with reason `budget`.
    """
    guess = estimate or by_characters

    async def layer(request: Request, run: Run, proceed: Proceed[Request, Reply]) -> Reply:
        budget = budget_of(run)
        asker = agent or (budget.scope if budget is not None and budget.is_child else "")
        sent, expected = guess(request, run)
        at, heard = datetime.now(UTC), _Heard()
        held: Reservation | None = None
        if budget is not None:
            dollars = price(model, Usage(sent, expected), at)
            held = _held(budget, run, sent + expected, dollars, turns=purpose == "turn", model=model)

        def charge(usage: Usage) -> None:
            cost = price(model, usage, at)
            alerts = held.settle(usage, cost) if held is not None else ()
            run.emit(Charged(model, usage, cost, asker, purpose))
            for words in alerts:
                run.emit(Notice(words))

        with held or nullcontext():
            try:
                with run.overheard(heard):
                    reply = await proceed(request)
            except BaseException:
                if heard.any:
                    with suppress(RunStop):  # a listener's fault must not hide this one
                        charge(Usage(sent, heard.tokens, estimated=True))
                raise
            if reply.usage.input <= 0 and reply.usage.output <= 0:
                reply = replace(reply, usage=Usage(sent, heard.tokens, estimated=True))
            charge(reply.usage)
            return reply

    return layer


def _held(
    budget: Budget, run: Run, tokens: int, dollars: Decimal | None, *, turns: bool, model: str
) -> Reservation:
    """Hold the estimate; a limit that is met is told before it ends the run."""
    budget.begin(run)
    try:
        return budget.reserve(tokens, dollars, turns=int(turns), model=model)
    except LimitError as fault:
        run.emit(fault.met)
        raise


def budget_of_run(run: Run) -> Budget | None:
    """Return the budget that hangs on a run, at `run.state[Budget]`; None where there is none."""
    found = run.state.get(Budget)
    return found if isinstance(found, Budget) else None


class _Child(Run):
    """A run whose waiting for people is its parent's too."""

    def __init__(self, parent: Run, listener: Listener) -> None:
        super().__init__(listener=listener)
        self._parent = parent

    @contextmanager
    def for_people(self) -> Iterator[None]:
        with self._parent.for_people(), super().for_people():
            yield


def spawned(run: Run, name: str, allowance: Allowance | None = None, listener: Listener | None = None) -> Run:
    """Make the run of an agent that works for this run: it shares what is left of its budget, within limits of its own.

    What it is charged for and its tokens are counted to `run` too, each once, and its limits that come near are told
    there. `listener` hears all of its events. A run without a budget gets one, so that the number of agents is
    limited. Raises ToolError where there may be no more of them, or none so deep.
    """
    budget = budget_of_run(run)
    if budget is None:
        budget = run.state[Budget] = Budget("run")

    def hear(event: Event) -> None:
        if isinstance(event, Charged):
            run.usage += event.usage
        if isinstance(event, Charged | Notice):
            run.emit(event)

    child = _Child(run, fan_out(hear, listener) if listener is not None else hear)
    child.state[Budget] = budget.child(name, allowance)
    return child


def by_characters(request: Request, run: Run) -> tuple[int, int]:
    """Guess from the length of what is sent; an estimate for where nobody has a better one."""
    size = len(request.instructions) + sum(
        _size(part) for message in request.messages for part in message.parts
    )
    for spec in request.tools:
        size += len(spec.name) + len(spec.description) + len(json.dumps(spec.input_schema, default=str))
    return size // PER_TOKEN + 1, min(ANSWER, request.max_output or ANSWER)


def _size(part: Part) -> int:
    match part:
        case Text(text) | Summary(text) | Opaque(block=text):
            return len(text)
        case Thinking(text, signature):
            return len(text) + len(signature)
        case Image():
            return PICTURE * PER_TOKEN
        case ToolCall(_, name, raw):
            return len(name) + len(raw)
        case ToolResult(content=content):
            return sum(map(_size, content))


class _Heard:
    """What an attempt has streamed so far."""

    def __init__(self) -> None:
        self.any = False
        self._characters = 0

    @property
    def tokens(self) -> int:
        return self._characters // PER_TOKEN + self.any

    def __call__(self, event: Event) -> None:
        match event:
            case TextDelta(text) | ThinkingDelta(text) | CallDelta(text=text):
                self.any = True
                self._characters += len(text)
            case _:
                pass
