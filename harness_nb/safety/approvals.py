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
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

from harness_nb.errors import RunStop
from harness_nb.events import ApprovalAsked, ApprovalDecided, Preview
from harness_nb.messages import ToolCall, ToolResult
from harness_nb.safety.grants import Approvals, Judgement, canonical, fingerprint
from harness_nb.safety.permission import Policy, Verdict
from harness_nb.safety.questions import Answer, Approver, OpenQuestions, Question, nobody
from harness_nb.seams import Call, Gate, Proceed, Run
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


def permitted(
    policy: Policy, ask: Approver, approvals: Approvals | None = None, *, timeout: float | None = None
) -> Gate:
    """Make the gate that lets a call run only if the policy, a grant of this session or a person allows it.

    `approvals` holds what the session granted; `timeout` is how many seconds a question may wait before it
    counts as refused, None for ever. A refusal is an error result; asking is told by ApprovalAsked and
    ApprovalDecided events, also when the run is stopped meanwhile.
    """
    held = approvals if approvals is not None else Approvals()
    asking = _Asking(policy, ask, held, timeout)

    async def gate(call: Call, run: Run, proceed: Proceed[Call, ToolResult]) -> ToolResult:
        verdict, text = policy(call), canonical(call.arguments)
        if verdict.answer == "deny":
            held.note(Judgement.of(call, verdict, allowed=False, by="rule", text=text))
            return refused(call.id, _denied(call, verdict.why, NO_WAY_ROUND))
        scope = held.covering(call, verdict) if verdict.answer == "ask" else ""
        if verdict.answer == "allow" or scope:
            by = "granted" if scope else "rule"
            held.note(Judgement.of(call, verdict, allowed=True, by=by, scope=scope, text=text))
        else:
            decided = await asking.decided(call, verdict, run)
            if isinstance(decided, ToolResult):
                return decided
            call, text = decided, canonical(decided.arguments)
        passed = cast("dict[str, tuple[str, str]]", run.state.setdefault(unchanged, {}))
        passed[call.id] = call.spec.name, text
        try:
            return await proceed(call)
        finally:
            passed.pop(call.id, None)

    return gate


async def unchanged(call: Call, run: Run, proceed: Proceed[Call, ToolResult]) -> ToolResult:
    """Refuse a call that is not, to the letter, what `permitted` let pass: the gate to put last, next to the tool."""
    passed = cast("dict[str, tuple[str, str]]", run.state.get(unchanged, {}))
    if passed.get(call.id) != (call.spec.name, canonical(call.arguments)):
        return refused(
            call.id, f"`{call.spec.name}` was not run: its arguments are not those that were allowed."
        )
    return await proceed(call)


@dataclass(frozen=True, slots=True)
class _Asking:
    """How a call comes to be decided that the policy asks about and no grant covers."""

    policy: Policy
    ask: Approver
    held: Approvals
    timeout: float | None

    async def decided(self, call: Call, verdict: Verdict, run: Run) -> Call | ToolResult:
        """Ask about a call; return what may run in its place, or why nothing may."""
        seal = fingerprint(call)
        refusals = cast("Counter[str]", run.state.setdefault(permitted, Counter()))
        if refusals[seal] >= REFUSALS:
            self.held.note(Judgement.of(call, verdict, allowed=False, by="refused before"))
            return refused(call.id, _denied(call, f"This same call was refused {REFUSALS} times.", GIVE_UP))
        copy = replace(call, arguments=json.loads(json.dumps(call.arguments)))
        scopes = tuple(scope.text for scope in self.held.scopes(copy))
        question = Question(uuid.uuid4().hex[:12], copy, verdict, seal, scopes, await _preview(copy))
        answer = await self._answered(question, run)
        if answer.allowed and {fingerprint(call), fingerprint(copy)} != {seal}:
            answer = question.deny("Its arguments changed while the question was open.", by="nobody")
        final, answer = self._judged_again(question, answer)
        scope = self.held.grant(copy, final, verdict, answer.scope) if answer.allowed else ""
        run.emit(_event(question, replace(answer, scope=scope)))
        allowed, by, reason = answer.allowed, answer.by, answer.reason
        self.held.note(Judgement.of(final, verdict, allowed=allowed, by=by, scope=scope, reason=reason))
        if allowed:
            return final
        refusals[seal] += 1
        return refused(call.id, _refusal(call, answer, verdict))

    async def _answered(self, question: Question, run: Run) -> Answer:
        """Put the question; an answer comes back whatever the approver does, unless the run is stopped."""
        call, verdict = question.call, question.verdict
        effects = tuple(sorted(call.spec.effects))
        again, shown = bool(call.doubt), question.preview
        run.emit(
            ApprovalAsked(question.id, _as_asked(call), effects, verdict.why, question.scopes, shown, again)
        )
        limit = asyncio.timeout(self.timeout)
        try:
            async with limit:
                with run.for_people():
                    answer = await self.ask(question, run)
        except (asyncio.CancelledError, KeyboardInterrupt, RunStop) as stop:
            if isinstance(stop, RunStop) and stop.reason == "suspended":
                raise  # it stays open, and the run ends here until it is decided
            words = str(stop) or "The run was stopped while the question was open."
            run.emit(_event(question, question.deny(words, by="interrupted")))
            self.held.note(Judgement.of(call, verdict, allowed=False, by="interrupted"))
            raise
        except Exception as fault:  # noqa: BLE001 - whatever keeps a question from being answered, the answer is no
            if isinstance(fault, TimeoutError) and limit.expired():
                return question.deny(f"Nobody answered within {self.timeout:g} s.", by="timeout")
            return question.deny(
                f"The question could not be put: {type(fault).__name__}: {fault}", by="nobody"
            )
        if not isinstance(answer, Answer):  # an approver is the user's code
            return question.deny("The answer could not be read.", by="nobody")  # type: ignore[unreachable]
        if answer.allowed and answer.fingerprint != question.fingerprint:
            return question.deny("The answer was for another call.", by="nobody")
        return answer

    def _judged_again(self, question: Question, answer: Answer) -> tuple[Call, Answer]:
        """Return the call as it would run, and the answer that holds: rules may deny what was edited, or has become of a path."""
        if not answer.allowed:
            return question.call, answer
        call = question.call
        if answer.edited is not None:
            call = replace(call, arguments=json.loads(json.dumps(answer.edited)))
        verdict = self.policy(call)
        if verdict.answer == "deny":
            return call, replace(
                answer, allowed=False, by="rule", scope="", reason=f"As it stands now: {verdict.why}"
            )
        return call, answer


async def _preview(call: Call) -> Preview | None:
    """What the tool shows of such a call, else its command."""
    found = None
    with suppress(Exception):  # it is a help; the arguments are shown in any case
        if call.spec.preview is not None:
            found = await off_loop(functools.partial(call.spec.preview, call.arguments))
    line = call.arguments.get("command")
    return Preview("command", line) if found is None and isinstance(line, str) else found


def _as_asked(call: Call) -> ToolCall:
    return ToolCall(call.id, call.spec.name, json.dumps(call.arguments, ensure_ascii=False))


def _event(question: Question, answer: Answer) -> ApprovalDecided:
    edited = "" if answer.edited is None else json.dumps(answer.edited, ensure_ascii=False)
    call = _as_asked(question.call)
    return ApprovalDecided(question.id, call, answer.allowed, answer.by, answer.scope, answer.reason, edited)


NO_WAY_ROUND = "Don't look for a way round it: do it in a way that is allowed, or say what you need and why."
GIVE_UP = "Don't send it again: go on without it, or say what you need and why."


def _denied(call: Call, why: str, instead: str) -> str:
    again = " again" if call.doubt else ""  # it may have run
    return f"`{call.spec.name}` was not run{again}. {call.doubt}{' ' * bool(call.doubt)}{why} {instead}"


def _refusal(call: Call, answer: Answer, verdict: Verdict) -> str:
    if answer.by == "you":
        end = "" if answer.reason.endswith((".", "!", "?")) else "."
        said = f": {answer.reason}{end}" if answer.reason else "."
        return _denied(call, f"The person refused it{said}", GIVE_UP)
    why = "" if call.doubt else verdict.why  # there it is the doubt itself
    return _denied(call, f"{why} {answer.reason}".strip(), GIVE_UP)
