"""The agent and its loop: ask the model, run the tools it calls, until there is an answer or a named reason to end. Book chapter 2.

    answer calls left open -> append the prompt -> [ prepare -> ask -> append -> act ]* -> accept -> end

The loop knows no provider, no tool and no policy; those plug into the sockets of seams.py. Whatever
happens, every call in the transcript ends up with one result, and the run ends with one reason.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TypeVar

from harness_nb.errors import HarnessError, ProviderError, Reason, RunStop, UsageError
from harness_nb.events import Notice, RunEnded, RunStarted, ToolFinished, TurnEnded, TurnStarted
from harness_nb.messages import INTERRUPTED, Message, ToolCall, ToolResult, Transcript, Usage, assistant, user
from harness_nb.seams import Accept, Dispatch, Gate, Model, Prepare, Reply, Request, Run
from harness_nb.tasks import being_cancelled, settled, side_by_side
from harness_nb.tools import Toolbox, refused

ORDERED = frozenset({"write", "mutate", "spend"})
"""Tools that declare one of these effects run alone, in call order; all others run side by side."""

CUT = "This call was cut off by the output limit, so it was not run. Send it again, whole; split long content into smaller calls."
GO_ON = (
    "Your reply was cut off by the output limit. Go on exactly where it stopped, without repeating anything."
)
NO_ANSWER = "Your last reply was empty. Give your answer, or call a tool."

STOPPED_TEXT = "[interrupted here by the user]"

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a run."""

    turns: int = 50
    """Most times the model is asked."""
    nudges: int = 3
    """Most times it is told to go on, to answer at all, or to finish what an accept check found missing."""
    pauses: int = 8
    """Most times a turn that the provider paused is sent back."""
    parallel: int = 8
    """Most tool calls of one turn that run at once."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `text` is the answer, as far as there is one; `cost` is None where no price is known."""

    text: str
    reason: Reason
    detail: str
    turns: int
    usage: Usage
    transcript: Transcript = field(repr=False)
    cost: Decimal | None = None
    error: HarnessError | None = None

    def or_raise(self) -> Outcome:
        """Return the outcome, or raise the provider's error if that is what ended the run."""
        if self.error is not None:
            raise self.error
        return self


@dataclass(frozen=True, slots=True)
class Agent:
    """A model, its tools, and what is plugged in between. Immutable: one agent serves any number of runs."""

    model: Model
    tools: Toolbox = field(default_factory=Toolbox)
    instructions: str = ""
    gates: tuple[Gate, ...] = ()
    prepare: tuple[Prepare, ...] = ()
    accept: tuple[Accept, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Raise UsageError for a model's name in the place of a model."""
        if isinstance(self.model, str):
            raise UsageError(f'Agent takes a model, not a name: write assistant("{self.model}").')

    async def run(self, prompt: str | Message | None = None, run: Run | None = None) -> Outcome:
        """Run until there is an answer or a named reason to end; None goes on from the transcript as it is.

        A run that ended with reason `suspended` has calls that wait for a person. Given again with None it
        starts with these, through every gate; given with a prompt it answers them as not approved.

        A failure of the provider or of a listener is an outcome with reason `error`, not an exception:
        the record comes back either way. `Run.stop` ends it with reason `interrupted`. If the task
        itself is cancelled, the record is made valid, RunEnded is emitted, and the cancellation goes on.
        """
        run = run or Run()
        progress = _Progress()
        reason: Reason = "error"
        detail = ""
        error: HarnessError | None = None
        if prompt is None:
            prompt, run.past = run.past.prompt or None, replace(run.past, prompt="")
        else:
            run.past = replace(run.past, prompt="", reply=None)
        try:
            run.emit(RunStarted(run.id, self.model.name, self.limits.turns))
            if prompt is not None or not run.waiting:
                answer_open_calls(run)
            run.waiting = False
            if prompt is not None:
                run.append(user(prompt) if isinstance(prompt, str) else prompt)
            run.work = asyncio.create_task(self._work(run, progress))
            reason, detail = await run.work
        except RunStop as stop:
            reason, detail, error = stop.reason, stop.detail, stop if stop.reason == "error" else None
        except ProviderError as fault:
            error, detail = fault, str(fault)
        except asyncio.CancelledError:
            reason, detail = "interrupted", "Stopped by the user."
            if being_cancelled():
                raise
            if run.work is not None and not run.work.cancelling():  # nobody asked for it
                reason, detail = "error", "A model, a step or a check cancelled itself."
                error = HarnessError(detail)
        except Exception as fault:
            detail = str(fault) if isinstance(fault, HarnessError) else f"{type(fault).__name__}: {fault}"
            raise
        finally:
            run.work = None
            failed = _close(run, progress, reason, detail)
        if failed is not None and error is None:
            reason, detail, error = "error", failed.detail, failed
        return Outcome(progress.text, reason, detail, run.turn, run.usage, run.transcript, run.cost, error)

    async def _work(self, run: Run, progress: _Progress) -> tuple[Reason, str]:
        if calls := run.transcript.dangling():  # they waited for a person
            run.started.clear()
            await self._answer(calls, run, self.tools.dispatch(*self.gates))
            _heed_stop()
        elif (reply := run.past.reply) is not None:
            run.past = replace(run.past, reply=None)
            if ended := await self._next(reply, run, progress):
                return ended
        return await self._turns(run, progress)

    async def _turns(self, run: Run, progress: _Progress) -> tuple[Reason, str]:
        dispatch = self.tools.dispatch(*self.gates)
        while run.turn < self.limits.turns:
            reply = await self._ask(run)
            if reply.message.calls:
                progress.pieces.clear()
                await self._act(reply, run, dispatch)
                ended = self._cut_short(reply, progress)
            else:
                ended = await self._next(reply, run, progress)
            if ended:
                return ended
            _heed_stop()
        most = self.limits.turns
        return "turns", f"The run reached its limit of {most} turn{'s' * (most != 1)}."

    async def _ask(self, run: Run) -> Reply:
        run.turn += 1
        run.started.clear()
        run.emit(TurnStarted(run.turn))
        request = Request(self.instructions, run.transcript.live(), self.tools.specs)
        for step in self.prepare:
            request = await settled(step(request, run))
        try:
            reply = await self.model(request, run)
        except RunStop as stop:
            run.turn -= stop.reason == "budget"  # it was not asked
            raise
        _heed_stop()
        reply = replace(reply, message=run.transcript.distinct(reply.message))
        run.usage += reply.usage
        if reply.message.parts:
            run.append(reply.message)
        run.emit(TurnEnded(run.turn, reply.usage, reply.stop))
        return reply

    def _cut_short(self, reply: Reply, progress: _Progress) -> tuple[Reason, str] | None:
        """Bound how often calls that the output limit cut off may be sent again."""
        progress.nudges += reply.stop == "length"
        over = progress.nudges > self.limits.nudges
        return ("incomplete", "The output limit kept cutting off the model's tool calls.") if over else None

    async def _next(self, reply: Reply, run: Run, progress: _Progress) -> tuple[Reason, str] | None:
        """Decide what follows a reply without calls: None to ask again, or how the run ends."""
        text = reply.message.text
        match reply.stop:
            case "refusal":
                progress.pieces.append(text)
                return "refused", reply.detail or "The model declined to answer."
            case "pause":
                progress.pauses += 1
                over = progress.pauses > self.limits.pauses
                return ("incomplete", "The provider paused the turn too many times.") if over else None
            case "length":
                progress.pieces.append(text)
                return self._nudge(run, progress, GO_ON, "The reply was cut off by the output limit.")
            case "other":
                run.emit(
                    Notice(f"The model stopped for a reason unknown here: {reply.detail or 'none given'}.")
                )
            case _:
                pass
        progress.pieces.append(text)
        if not progress.text.strip():
            progress.pieces.clear()
            return self._nudge(run, progress, NO_ANSWER, "The model gave no answer.")
        whole = reply if progress.text == text else replace(reply, message=assistant(progress.text))
        for check in self.accept:
            if missing := await settled(check(whole, run)):
                ended = self._nudge(run, progress, missing, f"The answer was not accepted: {missing}")
                if not ended:
                    progress.pieces.clear()
                return ended
        return "done", ""

    def _nudge(self, run: Run, progress: _Progress, words: str, otherwise: str) -> tuple[Reason, str] | None:
        progress.nudges += 1
        if progress.nudges > self.limits.nudges:
            return "incomplete", otherwise
        run.append(user(words))
        return None

    async def _act(self, reply: Reply, run: Run, dispatch: Dispatch) -> None:
        """Answer the calls of one turn; none of them if the output limit cut the turn off."""
        await self._answer(reply.message.calls, run, _cut_off if reply.stop == "length" else dispatch)

    async def _answer(self, calls: Sequence[ToolCall], run: Run, dispatch: Dispatch) -> None:
        """Answer calls and append the results together, in call order, whatever happens; but some may wait for a person."""
        answers = Answers(run)
        suspended = False
        try:
            await self._dispatch_all(calls, run, dispatch, answers)
        except RunStop as stop:
            suspended = stop.reason == "suspended"
            raise
        finally:
            answers.close(calls, suspended=suspended)

    async def _dispatch_all(
        self, calls: Sequence[ToolCall], run: Run, dispatch: Dispatch, answers: Answers
    ) -> None:
        slots = asyncio.Semaphore(self.limits.parallel)

        async def one(call: ToolCall) -> None:
            async with slots:
                began = time.perf_counter()
                answers.began[call.id] = began
                try:
                    result = await dispatch(call, run)
                except BaseException as stop:
                    answers.ended[call.id] = " ".join(getattr(stop, "__notes__", ()))
                    raise
                answers.add(call, result, time.perf_counter() - began)

        effects = {spec.name: spec.effects for spec in self.tools.specs}
        for group in grouped(calls, lambda call: bool(effects.get(call.name, frozenset()) & ORDERED)):
            await side_by_side([one(call) for call in group])


@dataclass(slots=True)
class _Progress:
    """How far a run has come: the pieces of its answer, and how often it was helped along."""

    pieces: list[str] = field(default_factory=list)
    nudges: int = 0
    pauses: int = 0

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Answers:
    """The results of one turn's calls, as they come in; what is missing at the end is answered honestly."""

    def __init__(self, run: Run) -> None:
        """Start with none."""
        self.began: dict[str, float] = {}
        self.ended: dict[str, str] = {}
        """Calls that are over and have no result, and what the tool told of that."""
        self._run = run
        self._results: dict[str, ToolResult] = {}
        self._closed = False

    def add(self, call: ToolCall, result: ToolResult, seconds: float) -> None:
        """Take a result and tell the listeners; one that comes too late is dropped."""
        if not self._closed:
            self._results[call.id] = result
            self._run.emit(ToolFinished(call, result, seconds))

    def close(self, calls: Sequence[ToolCall], *, suspended: bool = False) -> None:
        """Append the results in call order, even if a listener fails; a call without one is told how far it came.

        Of a suspended run, calls that have not begun stay open.
        """
        if suspended:
            calls = [call for call in calls if call.id in self._results or call.id in self._run.started]
        missing = [call for call in calls if call.id not in self._results]
        try:
            for call in missing:
                now = time.perf_counter()
                begun = self._run.started.get(call.id)
                seconds = now - (self.began.get(call.id, now) if begun is None else begun)
                how = self.ended.get(call.id, LEFT_BEHIND)
                never = self._run.past.begun.get(call.id, NEVER_RAN)
                why = never if begun is None else interrupted_text(seconds, how)
                self.add(call, refused(call.id, why), seconds)
        finally:
            self._closed = True
            results = (self._results.get(call.id) or refused(call.id, INTERRUPTED) for call in calls)
            if calls:
                self._run.append(Message("tool", tuple(results)))


NEVER_RAN = "The run was stopped before this call was started. It did not run."
LEFT_BEHIND = "It did not end when it was told to, so it may still be at work."

SUPERSEDED = "Not approved: a new request came instead of a decision. It did not run."


async def _cut_off(call: ToolCall, _: Run) -> ToolResult:
    return refused(call.id, CUT)


def interrupted_text(seconds: float, how: str = "") -> str:
    """Say that a call was cut off so long after its tool had started, and how that ended, without claiming to know what it did."""
    return f"Interrupted after {seconds:.1f} s. The tool had started and may have had an effect: check before you repeat the call. {how}".rstrip()


def answer_open_calls(run: Run) -> None:
    """Give every call that has no result one that says so, as a store, a crash or a suspended run may have left it."""
    why = SUPERSEDED if run.waiting else INTERRUPTED
    if calls := run.transcript.dangling():
        results = (refused(call.id, run.past.begun.get(call.id, why)) for call in calls)
        run.append(Message("tool", tuple(results)))


def _heed_stop() -> None:
    """End the run if what it awaited was told to stop and swallowed that."""
    if being_cancelled():
        raise asyncio.CancelledError


def _close(run: Run, progress: _Progress, reason: Reason, detail: str) -> RunStop | None:
    """Leave a valid record and say that the run is over; return the fault of a listener that could not hear it."""
    run.waiting = reason == "suspended"
    told = RunEnded(reason, detail, run.turn, run.usage, run.waited)
    steps: list[Callable[[], None]] = [lambda: run.emit(told)]
    if not run.waiting:
        steps.insert(0, lambda: answer_open_calls(run))
    if reason == "interrupted":
        steps.insert(0, lambda: _keep_partial(run, progress))
    failed = None
    for step in steps:
        try:
            step()
        except RunStop as stop:
            failed = failed or stop
    if failed is not None and run.waiting:  # what waits could not be told, so nobody could decide it
        run.waiting = False
        with suppress(RunStop):
            answer_open_calls(run)
    return failed


def _keep_partial(run: Run, progress: _Progress) -> None:
    """Keep what had been streamed when the run was stopped, marked as cut."""
    if run.partial.strip():
        progress.pieces.append(run.partial)
        run.append(assistant(f"{run.partial.rstrip()}\n\n{STOPPED_TEXT}"))


def grouped(calls: Sequence[ToolCall], alone: Callable[[ToolCall], bool]) -> list[list[ToolCall]]:
    """Split calls into groups that may run at once, in order; a call that must be alone is its own group."""
    groups: list[list[ToolCall]] = [[]]
    for call in calls:
        if alone(call):
            groups += [[call], []]
        else:
            groups[-1].append(call)
    return [group for group in groups if group]
