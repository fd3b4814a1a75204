"""One run of a session while it lasts, and for as long as it waits for a decision after its cell has ended."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from harness_nb.agent import Agent, Outcome
from harness_nb.events import (
    ApprovalAsked,
    ApprovalDecided,
    Charged,
    Event,
    Listener,
    Notice,
    RunEnded,
    RunStarted,
    TurnEnded,
    TurnStarted,
    fan_out,
)
from harness_nb.jupyter.approval import AtTheCell
from harness_nb.jupyter.asking import waiting_as_text
from harness_nb.jupyter.bridge import running_loop
from harness_nb.jupyter.decision_card import Effect
from harness_nb.jupyter.effects import effect
from harness_nb.jupyter.live import Shown, UnshownRun, show_run
from harness_nb.jupyter.result import RunResult
from harness_nb.jupyter.segments import ToolUse
from harness_nb.jupyter.shell import running_shell
from harness_nb.jupyter.terms import Means
from harness_nb.jupyter.view import RunView
from harness_nb.messages import Decision, Message, Transcript
from harness_nb.ops.budget import Budget
from harness_nb.ops.spending import charges
from harness_nb.safety.questions import Answer, Question
from harness_nb.seams import Request, Run

if TYPE_CHECKING:
    from harness_nb.jupyter.context import Context
    from harness_nb.ops.history import KeptRun

TOO_LATE = "This run doesn't wait to go on any more. Nothing was run."


class Work:
    """One run of a session: shown, stopped, and taken up again if it was suspended."""

    def __init__(
        self,
        means: Means,
        transcript: Transcript,
        *,
        at: str,
        context: Context,
        journal: Listener,
        allow: Callable[[Work], str],
    ) -> None:
        """Show the run, which has not begun; `at` is how its session is spoken to, `context` that session's.

        `journal` hears each event before it is shown. `allow` has it go on beyond the limit that ended it; it returns
        in a sentence why it can't.
        """
        self.hear = fan_out(journal, self._shown_and_joined)
        """Keeps an event, and shows it."""
        self.run = Run(transcript, self.hear)
        self.due: list[Decision] = []
        """Decisions of the person that join the record when the reply on its way is complete."""
        self._use(means, means.ask.message())
        self._allow = allow
        self._context = context
        self._in_turn = False
        self._at = at
        self._notices: list[tuple[str, Listener | None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._since = 0.0
        self.shown = self._show(show=self.ask.show)
        self.asker.attend(self.shown, means.agent.tools)
        if names := self.ask.variables:
            self.notice(f"Described to the model: {', '.join(f'`{name}`' for name in names)}.")

    def _use(self, means: Means, message: Message | None) -> None:
        """Begin, or go on without a message, with these means."""
        self.ask, self.asker, self.budget = means.ask, means.asker, means.budget
        self._means, self._message = means, message
        self.run.state[Budget] = means.budget

    def _show(self, *, show: bool) -> Shown:
        shell = running_shell()
        self._cell = shell.execution_count if shell is not None and show else None
        prompt = self.ask.prompt
        shown: Shown = (
            UnshownRun(prompt) if self._cell is None else show_run(prompt, self.stop, self._clicked)
        )
        shown.view.at = self._at
        shown.view.effect_of = self._effect
        self._agree(shown.view)
        return shown

    def _agree(self, view: RunView) -> None:
        """Have the view know what may be spent."""
        view.turns_more = self._means.turns_more
        view.bill.limited = self.budget.limits_dollars
        view.bill.unlimited = self._means.paid and not self.budget.limits_dollars

    def notice(self, text: str, *, kept: bool = False) -> None:
        """Have this said once the run has begun; with `kept`, its record says so too."""
        self._notices.append((text, self.hear if kept else None))

    def _shown_and_joined(self, event: Event) -> None:
        """Show an event, and let what a person decided join the record where no request is on its way."""
        match event:
            case TurnStarted():
                self._in_turn = True
            case RunEnded():
                self._join()
            case _:
                pass
        self.shown.listener(event)
        match event:
            case RunStarted():
                notices, self._notices = self._notices, []
                for text, hear in notices:
                    (hear or self.shown.listener)(Notice(text))
            case TurnEnded():
                self._join()
            case _:
                pass

    def decide(self, decision: Decision) -> None:
        """Have a decision about the context join the record: at once, or when the reply on its way is complete."""
        self.due.append(decision)
        if self._loop is None or self._loop is running_loop():
            self._join_if_idle()
        else:
            self._loop.call_soon_threadsafe(self._join_if_idle)

    def _join_if_idle(self) -> None:
        if not self._in_turn:
            self._join()

    def _join(self) -> None:
        self._in_turn = False
        while self.due:
            self.run.append(self.due.pop(0))

    def _effect(self, decision: Decision) -> Effect:
        account = self._context.account
        tools = account.turns[-1].specs if account.turns else self._means.agent.tools.specs
        request = Request(self._means.agent.instructions, (), tools)
        return effect(self.run.transcript.entries, decision, account, request)

    def _clicked(self, click: dict[str, object]) -> str:
        if click.get("ask") == "context":
            return self._context.clicked(click)
        if click.get("answer") == "more":
            offer = self.shown.view.offer
            return self._allow(self) if offer is not None and offer.id == click.get("question") else TOO_LATE
        return self.asker.clicked(click)

    async def outcome(self) -> Outcome:
        """Run to the end."""
        self._loop = asyncio.get_running_loop()
        try:
            with self.budget.timed(self.run):
                return await self._means.agent.run(self._message, self.run)
        finally:
            self._since, self._loop = time.monotonic(), None

    def result(self, outcome: Outcome) -> RunResult:
        """Make the cell's value of how the run ended. Raises the provider's error if that is what ended it."""
        values = {item.name: getattr(outcome.or_raise(), item.name) for item in fields(outcome)}
        values["transcript"] = Transcript(outcome.transcript.entries)  # the session's own grows on
        return RunResult(**values, view=self.shown.view, cell=self._cell)

    @property
    def told(self) -> bool:
        """Whether the cell shows what made the run fail."""
        return self._cell is not None and self.shown.view.reason == "error"

    def stop(self) -> None:
        """End the run, from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.run.stop)

    @property
    def model(self) -> str:
        """The name of the model that is asked."""
        return self._means.agent.model.name

    @property
    def most_turns(self) -> int:
        """How many turns it may take now."""
        return self._means.agent.limits.turns

    def take_up(self, left: KeptRun) -> None:
        """Have the view begin with what a run that goes on took so far."""
        view = self.shown.view
        view.usage = left.usage
        for charge in charges(left.charges):
            view.bill.add(Charged(charge.model, charge.usage, charge.cost))

    # -- once a limit has ended it

    @property
    def held(self) -> bool:
        """Whether it has ended and still hears a person."""
        return bool(self.waiting) or self.shown.view.offer is not None

    def go_beyond(self, means: Means) -> None:
        """Have it go on where it stands."""
        self._use(means, None)
        self._agree(self.shown.view)
        self.shown.view.offer = None
        self.shown.go_on(self.stop, self._clicked)
        self.asker.attend(self.shown, means.agent.tools)

    # -- once it is suspended

    @property
    def waiting(self) -> tuple[Question, ...]:
        """The questions that it was suspended with, in the order of the calls; none while it runs or when it is over."""
        if not self.run.waiting:
            return ()
        order = [call.id for call in self.run.transcript.dangling()]
        found = [question for question in self.asker.waiting if question.call.id in order]
        return tuple(sorted(found, key=lambda question: order.index(question.call.id)))

    def waiting_as_text(self) -> str:
        """Write the questions that it waits with, whole, and what decides them."""
        ids = {question.id for question in self.waiting}
        uses = (s.asking for s in self.shown.view.segments if isinstance(s, ToolUse) and s.asking)
        return "\n".join(waiting_as_text(asking, self._at) for asking in uses if asking.asked.id in ids)

    def overdue(self, patience: float | None) -> bool:
        """Tell whether its questions have waited longer than so many seconds."""
        return patience is not None and time.monotonic() - self._since > patience

    def leave(self, **decided: Answer) -> None:
        """Show where it waited that it doesn't any more: for each question's id its answer, else as `moved`."""
        for use in [use for use in self.shown.view.segments if isinstance(use, ToolUse)]:
            if use.state == "asking" and use.asking is not None:
                answer = decided.get(use.asking.asked.id) or Answer(False, "", "moved")
                self.shown.listener(_told(use.asking.asked, answer))
        self.shown.view.withdraw()
        self.shown.close()

    def go_on(
        self, agent: Agent, asker: AtTheCell, question: Question, answer: Answer, *, show: bool | None
    ) -> None:
        """Take it up again with a decision: in the cell at work now if `show`, where it waits if `show` is None."""
        self._use(replace(self._means, agent=agent, asker=asker), None)
        asker.decide_ahead(question, answer)
        if show is None:
            self.shown.go_on(self.stop, self._clicked)
        else:
            self.leave(**{question.id: answer})
            self.shown = self._show(show=show)
            self.notice("Goes on from an earlier cell, which waited for your decision.")
        asker.attend(self.shown, agent.tools)


def _told(asked: ApprovalAsked, answer: Answer) -> ApprovalDecided:
    edited = "" if answer.edited is None else json.dumps(answer.edited, ensure_ascii=False)
    by, scope, reason = answer.by, answer.scope, answer.reason
    return ApprovalDecided(asked.id, asked.call, answer.allowed, by, scope, reason, edited)
