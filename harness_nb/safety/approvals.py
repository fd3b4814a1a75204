"""Asking a person before a call runs: the gate `permitted`, its questions and answers, and what was granted. Book chapter 14.

    policy(call) -> allow: runs
                    deny:  a result that says why, and what to do instead
                    ask:   granted this session? else a Question to the approver, which returns an Answer

An answer is bound to the SHA-256 of the tool's name and its arguments: it counts for exactly the call that
was shown. What runs is a copy made when the question was put, so nothing can change it meanwhile; the
gate `unchanged`, put last, checks it once more at the door.
"""

from __future__ import annotations

import asyncio
import functools
import json
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from harness_nb.errors import RunStop
from harness_nb.events import ApprovalAsked, ApprovalDecided, Preview
from harness_nb.messages import ToolCall, ToolResult
from harness_nb.safety.grants import Approvals, Judgement, canonical, fingerprint
from harness_nb.safety.permission import Policy, Verdict
from harness_nb.seams import Ask, Call, Gate, Proceed, Run
from harness_nb.tasks import off_loop
from harness_nb.tools import refused

__all__ = [
    "Answer",
    "Approvals",
    "Approver",
    "OpenQuestions",
    "Question",
    "canonical",
    "fingerprint",
    "nobody",
    "permitted",
    "unchanged",
]

REFUSALS = 2
"""After a call has been refused so often in one run, the same call is denied without asking."""


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits for a person. `id` is unique; `scopes` is what "for this session" could cover, narrowest first."""

    id: str
    call: Call
    verdict: Verdict
    fingerprint: str
    scopes: tuple[str, ...] = ()
    preview: Preview | None = None

    def allow(
        self, *, scope: str = "", edited: Mapping[str, object] | None = None, by: str = "you"
    ) -> Answer:
        """Make the answer that lets the call run, as it is or as `edited`; `scope` is one of `scopes`, empty for once."""
        return Answer(True, self.fingerprint, by, scope, edited=edited)

    def deny(self, reason: str = "", *, by: str = "you") -> Answer:
        """Make the answer that refuses; the model is told the reason."""
        return Answer(False, self.fingerprint, by, reason=reason)


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision about the call with this fingerprint, and no other. `by` is `you`, `nobody` or `timeout`."""

    allowed: bool
    fingerprint: str
    by: str = "you"
    scope: str = ""
    reason: str = ""
    edited: Mapping[str, object] | None = None


Approver: TypeAlias = Ask[Question, Answer]
"""Puts a question to whoever decides: `async (question, run) -> answer`."""


async def nobody(question: Question, run: Run) -> Answer:
    """Refuse, since nobody is there to be asked: the approver of runs without a person."""
    return question.deny("Nobody is here to allow it.", by="nobody")


class OpenQuestions:
    """An approver that waits until someone decides, from whatever thread: the first decision wins, later ones do nothing."""

    def __init__(self) -> None:
        """Start with none open."""
        self._ahead: dict[str, Answer] = {}
        self._waiting: dict[str, tuple[Question, asyncio.Future[Answer]]] = {}

    async def __call__(self, question: Question, run: Run) -> Answer:
        """Wait for the decision on this question; it is withdrawn when the wait ends, however it ends."""
        if early := self._ahead.pop(question.fingerprint, None):
            return early
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[question.id] = question, future
        try:
            return await future
        finally:
            self._waiting.pop(question.id, None)

    @property
    def open(self) -> tuple[Question, ...]:
        """The questions that wait, oldest first."""
        return tuple(question for question, _ in list(self._waiting.values()))

    def decide(self, id: str, answer: Answer) -> bool:  # noqa: A002 - it is the question's id
        """Settle the open question with this id; return whether this did it. Late, double and foreign answers don't."""
        question, future = self._waiting.get(id, (None, None))
        if question is None or future is None or answer.fingerprint != question.fingerprint:
            return False
        if self._waiting.pop(id, None) is None:  # another thread was first
            return False
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            future.get_loop().call_soon_threadsafe(_settle, future, answer)
            return True
        return False

    def decide_ahead(self, answer: Answer) -> None:
        """Answer the same call when it is asked about next, once: for a run that was suspended and is taken up again."""
        self._ahead[answer.fingerprint] = answer


def _settle(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)


def permitted(
    policy: Policy, ask: Approver, approvals: Approvals | None = None, *, timeout: float | None = None
) -> Gate:
    """Make the gate that lets a call run only if the policy, a grant of this session or a person allows it.

    `approvals` holds what the session granted; `timeout` is how many seconds a question may wait before it
    counts as refused, None for ever. A refusal is an error result; asking is told by ApprovalAsked and
    ApprovalDecided events, also when the run is stopped meanwhile.
    """
    held = approvals if approvals is not None else Approvals()

    async def gate(call: Call, run: Run, proceed: Proceed[Call, ToolResult]) -> ToolResult:
        verdict = policy(call)
        text = canonical(call.arguments)
        if verdict.answer == "deny":
            held.note(Judgement.of(call, verdict, allowed=False, by="rule", text=text))
            return refused(call.id, _denied(call, verdict.why, NO_WAY_ROUND))
        if verdict.answer == "ask":
            if scope := held.covering(call, verdict):
                held.note(Judgement.of(call, verdict, allowed=True, by="granted", scope=scope))
            else:
                decided = await _decided(call, fingerprint(call, text), verdict, run)
                if isinstance(decided, ToolResult):
                    return decided
                call, text = decided, canonical(decided.arguments)
        else:
            held.note(Judgement.of(call, verdict, allowed=True, by="rule", text=text))
        passed = cast("dict[str, tuple[str, str]]", run.state.setdefault(unchanged, {}))
        passed[call.id] = call.spec.name, text
        try:
            return await proceed(call)
        finally:
            passed.pop(call.id, None)

    async def _decided(call: Call, seal: str, verdict: Verdict, run: Run) -> Call | ToolResult:
        """Ask about a call; return what may run in its place, or why nothing may."""
        refusals = cast("Counter[str]", run.state.setdefault(permitted, Counter()))
        if refusals[seal] >= REFUSALS:
            held.note(Judgement.of(call, verdict, allowed=False, by="refused before"))
            return refused(call.id, _denied(call, f"This same call was refused {REFUSALS} times.", GIVE_UP))
        copy = replace(call, arguments=json.loads(json.dumps(call.arguments)))
        scopes = tuple(scope.text for scope in held.scopes(copy))
        question = Question(uuid.uuid4().hex[:12], copy, verdict, seal, scopes, await _preview(copy))
        answer = await _answered(question, run, ask, held, timeout)
        if answer.allowed and fingerprint(call) != seal:
            answer = question.deny("Its arguments changed while the question was open.", by="nobody")
        final, answer = _edited(question, answer, policy)
        scope = held.grant(copy, final, verdict, answer.scope) if answer.allowed else ""
        run.emit(_event(question, replace(answer, scope=scope)))
        held.note(
            Judgement.of(
                final, verdict, allowed=answer.allowed, by=answer.by, scope=scope, reason=answer.reason
            )
        )
        if answer.allowed:
            return final
        refusals[seal] += 1
        return refused(call.id, _refusal(call, answer, verdict))

    return gate


async def unchanged(call: Call, run: Run, proceed: Proceed[Call, ToolResult]) -> ToolResult:
    """Refuse a call that is not, to the letter, what `permitted` let pass: the gate to put last, next to the tool."""
    passed = cast("dict[str, tuple[str, str]]", run.state.get(unchanged, {}))
    if passed.get(call.id) != (call.spec.name, canonical(call.arguments)):
        return refused(
            call.id, f"`{call.spec.name}` was not run: its arguments are not those that were allowed."
        )
    return await proceed(call)


async def _preview(call: Call) -> Preview | None:
    """What the tool shows of such a call, else its command."""
    found = None
    with suppress(Exception):  # it is a help; the arguments are shown in any case
        if call.spec.preview is not None:
            found = await off_loop(functools.partial(call.spec.preview, call.arguments))
    line = call.arguments.get("command")
    return Preview("command", line) if found is None and isinstance(line, str) else found


async def _answered(
    question: Question, run: Run, ask: Approver, held: Approvals, seconds: float | None
) -> Answer:
    """Put the question; an answer comes back whatever the approver does, unless the run is stopped."""
    call, verdict = question.call, question.verdict
    effects = tuple(sorted(call.spec.effects))
    run.emit(
        ApprovalAsked(question.id, _as_asked(call), effects, verdict.why, question.scopes, question.preview)
    )
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            answer = await ask(question, run)
    except (asyncio.CancelledError, KeyboardInterrupt, RunStop) as stop:
        words = str(stop) or "The run was stopped while the question was open."
        run.emit(_event(question, question.deny(words, by="interrupted")))
        held.note(Judgement.of(call, verdict, allowed=False, by="interrupted"))
        raise
    except Exception as fault:  # noqa: BLE001 - whatever keeps a question from being answered, the answer is no
        if isinstance(fault, TimeoutError) and limit.expired():
            return question.deny(f"Nobody answered within {seconds:g} s.", by="timeout")
        return question.deny(f"The question could not be put: {type(fault).__name__}: {fault}", by="nobody")
    if not isinstance(answer, Answer):  # an approver is the user's code
        return question.deny("The answer could not be read.", by="nobody")  # type: ignore[unreachable]
    if answer.allowed and answer.fingerprint != question.fingerprint:
        return question.deny("The answer was for another call.", by="nobody")
    return answer


def _edited(question: Question, answer: Answer, policy: Policy) -> tuple[Call, Answer]:
    """Return the call as the person changed it, which rules may still deny, and the answer that holds."""
    if answer.edited is None or not answer.allowed:
        return question.call, answer
    call = replace(question.call, arguments=json.loads(json.dumps(answer.edited)))
    verdict = policy(call)
    if verdict.answer == "deny":
        return call, replace(answer, allowed=False, by="rule", scope="", reason=f"As edited: {verdict.why}")
    return call, answer


def _as_asked(call: Call) -> ToolCall:
    return ToolCall(call.id, call.spec.name, json.dumps(call.arguments, ensure_ascii=False))


def _event(question: Question, answer: Answer) -> ApprovalDecided:
    edited = "" if answer.edited is None else json.dumps(answer.edited, ensure_ascii=False)
    call = _as_asked(question.call)
    return ApprovalDecided(question.id, call, answer.allowed, answer.by, answer.scope, answer.reason, edited)


NO_WAY_ROUND = "Don't look for a way round it: do it in a way that is allowed, or say what you need and why."
GIVE_UP = "Don't send it again: go on without it, or say what you need and why."


def _denied(call: Call, why: str, instead: str) -> str:
    return f"`{call.spec.name}` was not run. {why} {instead}"


def _refusal(call: Call, answer: Answer, verdict: Verdict) -> str:
    if answer.by == "you":
        said = f": {answer.reason}" if answer.reason else "."
        return _denied(call, f"The person refused it{said}", GIVE_UP)
    return _denied(call, f"{verdict.why} {answer.reason}".strip(), GIVE_UP)
