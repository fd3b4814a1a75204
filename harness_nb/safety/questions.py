"""A question about one call, its answer, and who is asked: an approver is an async function of question and run. Book chapter 14."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from harness_nb.events import Preview
from harness_nb.safety.permission import Verdict
from harness_nb.seams import Ask, Call, Run


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
        self._ahead: dict[tuple[str, str], tuple[Question, Answer]] = {}
        self._waiting: dict[str, tuple[Question, asyncio.Future[Answer]]] = {}

    async def __call__(self, question: Question, run: Run) -> Answer:
        """Wait for the decision on this question; it is withdrawn when the wait ends, however it ends."""
        if early := self.early(question):
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

    def decide_ahead(self, question: Question, answer: Answer) -> None:
        """Answer the same call when it is asked about next, once: for a run that was suspended and is taken up again."""
        self._ahead[question.call.id, answer.fingerprint] = question, answer

    def early(self, question: Question) -> Answer | None:
        """Take the answer that was given ahead for exactly this call, if there is one, and the tool is still the same."""
        before, answer = self._ahead.pop((question.call.id, question.fingerprint), (None, None))
        return answer if before is not None and before.call.spec == question.call.spec else None


def _settle(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)
