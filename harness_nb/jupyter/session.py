"""A conversation with an agent, from run to run: what `%agent` talks to, and the same in Python.

    session = harness_nb.session()
    result = await session.run("Which of these files is the largest?")

It needs no notebook: in a script, `session.run_blocking("...")` does the same and draws nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from harness_nb.agent import Agent
from harness_nb.errors import UsageError
from harness_nb.jupyter.agents import Agents
from harness_nb.jupyter.approval import AtTheCell
from harness_nb.jupyter.at_work import AtWork
from harness_nb.jupyter.context import Context
from harness_nb.jupyter.day import limit_of
from harness_nb.jupyter.defaults import defaults
from harness_nb.jupyter.kept import Kept
from harness_nb.jupyter.purse import Purse, raised, without, written
from harness_nb.jupyter.restored import Restored
from harness_nb.jupyter.result import RunResult
from harness_nb.jupyter.shell import watch_cells
from harness_nb.jupyter.terms import Ask, Means, ModelOrName
from harness_nb.jupyter.words import visible
from harness_nb.jupyter.work import TOO_LATE, Work
from harness_nb.messages import Decision, Transcript
from harness_nb.ops.allowance import Allowance
from harness_nb.ops.history import KeptRun
from harness_nb.ops.redacted import INSTEAD
from harness_nb.ops.resume import missing_tools, take_up
from harness_nb.safety.grants import Approvals, Judgement
from harness_nb.safety.permission import Mode
from harness_nb.safety.questions import Answer, Question
from harness_nb.safety.rulefile import NAME, permissions
from harness_nb.seams import Run
from harness_nb.tools import Tool

if TYPE_CHECKING:
    from harness_nb.context.account import Account
    from harness_nb.context.relief import Relief
    from harness_nb.context.scratchpad import Scratchpad

Value = TypeVar("Value")

MAIN = "main"
"""The session that is meant where none is named."""


class Session:
    """A conversation that goes on from run to run. One run at a time.

    Set `model`, `turns`, `instructions`, `tools`, `mode` or `rules` to have the next runs use them. `tools` is None for
    the functions with `@tool` that the notebook defines, the newest definition of each; a list for
    exactly these. `transcript` is the whole record, `context` what the model sees of it and how that is changed.
    """

    def __init__(self, name: str = MAIN) -> None:
        """Begin a conversation of one's own; `harness_nb.session(name)` finds the one that `%agent` uses."""
        self.name = name
        self.model: ModelOrName | None = None
        self.turns: int | None = None
        self.instructions: str | None = None
        self.tools: Sequence[Tool] | None = None
        self.mode: Mode | None = None
        self.rules: Sequence[str] = ()
        self.transcript = Transcript()
        self.kept = Kept(name, "%history" if name == MAIN else f'%history --session "{name}"')
        """Where the session's journal is, its branches, and what an earlier kernel left."""
        self.context = Context(self)
        self.purse = Purse(self.kept)
        """What its runs may spend."""
        self._told: set[str] = set()
        """Models of which it was said that nothing limits what they cost."""
        self._at_work = AtWork(name)
        self._agents = Agents(self, self.context.prepare)
        watch_cells()

    @property
    def last_error(self) -> BaseException | None:
        """What made the last failed run fail."""
        return self._at_work.last_error

    @property
    def approvals(self) -> Approvals:
        """What has been allowed for this session, and what became of its calls."""
        return self._agents.kit.approvals if self._agents.kit is not None else Approvals()

    @property
    def notes(self) -> Scratchpad:
        """The agent's notes in this session, in files that outlast it; in a notebook they show as a table."""
        return self._agents.kept().notes

    def __repr__(self) -> str:
        return f"Session({self.name!r}, {len(self.transcript.messages)} messages)"

    async def run(
        self,
        prompt: str,
        *,
        model: ModelOrName | None = None,
        turns: int | None = None,
        window: int | None = None,
        variables: Sequence[str] = (),
        limits: Allowance | None = None,
        new: bool = False,
        fork: bool = False,
        show: bool = True,
    ) -> RunResult:
        """Give the agent a prompt, and return how the run ended.

        `model`, `turns`, `window`, the tokens of the model's context window, and `limits`, what the run may spend, hold
        for this run alone. `variables` are names of notebook variables that are described to the model. `new` begins a
        new conversation with it, `fork` a branch, so that the conversation up to here stays one of its own. `show` draws
        the run below the cell, or in IPython's terminal.

        Raises UsageError, before anything is sent, where this can't work, and ProviderError where the
        model could not answer; the conversation is kept either way. A run that was stopped, or met a
        limit, is a result and says so in `reason`. Book chapter 2.

        Where a person has to be asked and can answer only when the cell is over, the reason is `suspended`;
        see `resume`. A prompt instead has the calls that wait answered as not approved.
        """
        ask = Ask(prompt, model, turns, variables, new, show, window, fork, limits)
        return await self._at_work.run(lambda: self._begun(ask))

    def run_blocking(
        self,
        prompt: str,
        *,
        model: ModelOrName | None = None,
        turns: int | None = None,
        window: int | None = None,
        variables: Sequence[str] = (),
        limits: Allowance | None = None,
        new: bool = False,
        fork: bool = False,
        show: bool = True,
    ) -> RunResult:
        """Do what `run` does where one can't await: in a function, a script, a tool."""
        ask = Ask(prompt, model, turns, variables, new, show, window, fork, limits)
        return self._at_work.run_blocking(lambda: self._begun(ask))

    def restore(self) -> Restored:
        """Go back to where the session was left, by an earlier kernel too, and say what there is; nothing runs by that.

        If `.run` is not None, `go_on` takes that run up again. A second time changes nothing. Book chapter 21.
        """
        with self._at_work.alone():
            restored = self.kept.restore()
            self.transcript = self.kept.transcript()
            return restored

    async def go_on(
        self,
        restored: Restored,
        *,
        model: ModelOrName | None = None,
        turns: int | None = None,
        limits: Allowance | None = None,
        show: bool = True,
    ) -> RunResult:
        """Take up the run that `restore` found, and return how it ended. The answers of finished calls stand.

        Calls that had not begun are asked about as usual. One that was cut off runs again only if that does no harm, if
        its tool's own check finds that it had no effect, or if a person allows it. A limit that ended the run is raised
        by as much again, unless `turns` or `limits` names it: what they don't name stays as it was, and so does a model
        that was chosen for the run by its name, unless `model` is given; one with an address must be named again.

        Raises UsageError if there is nothing to go on with, or a tool that a call waits for is missing.
        """
        return await self._at_work.run(lambda: self._continued(restored, model, turns, limits, show=show))

    def go_on_blocking(
        self,
        restored: Restored,
        *,
        model: ModelOrName | None = None,
        turns: int | None = None,
        limits: Allowance | None = None,
        show: bool = True,
    ) -> RunResult:
        """Do what `go_on` does where one can't await."""
        return self._at_work.run_blocking(lambda: self._continued(restored, model, turns, limits, show=show))

    def undo(self) -> KeptRun:
        """Set the last run aside: the conversation goes on from before it. Returns that run. Raises UsageError."""
        return self._gone_back(self.kept.undo)

    def use(self, run: str) -> None:
        """Go on from the end of the run with this id, on whatever branch it is. Raises UsageError."""
        if run not in self.kept.history.runs:
            raise UsageError(f"There is no run `{run}` in session `{self.name}`. Nothing has changed.")
        self._gone_back(lambda: self.kept.use(run))

    def _gone_back(self, step: Callable[[], Value]) -> Value:
        with self._at_work.alone():
            self.kept.keep(self.transcript)
            done = step()
            self._give_up()
            self.transcript = self.kept.transcript()
            return done

    @property
    def pending(self) -> tuple[Question, ...]:
        """The questions that a suspended run waits with, oldest first; empty when nothing waits."""
        return self._suspended.waiting if self._suspended is not None else ()

    @property
    def _suspended(self) -> Work | None:
        """The run that waits for decisions, None where nothing waits in the conversation as it stands."""
        work = self._at_work.held
        return work if work is not None and work.waiting and work.run.transcript is self.transcript else None

    async def resume(self, question: Question, answer: Answer, *, show: bool = True) -> RunResult:
        """Take a suspended run up again with the answer to one of its questions, and return how it ended.

            question = session.pending[0]
            result = await session.resume(question, question.allow())

        What runs is exactly the call that was asked about, or as `answer` edits it; calls that wait beside it
        are asked about again. Raises UsageError if the question doesn't wait any more. Book chapter 14.

        A run that is taken up by a click goes on while no cell is at work: Stop in its view, or `stop`, ends it.
        The front end's ■ interrupts cells, and so does nothing to it.
        """
        return await self._at_work.run(lambda: self._taken_up(question, answer, show=show))

    def resume_blocking(self, question: Question, answer: Answer, *, show: bool = True) -> RunResult:
        """Do what `resume` does where one can't await."""
        return self._at_work.run_blocking(lambda: self._taken_up(question, answer, show=show))

    def waiting_as_text(self) -> str:
        """Write what waits for a decision, whole, with what to type; empty when nothing waits."""
        return self._suspended.waiting_as_text() if self._suspended is not None else ""

    def allowed(self, question: Question) -> Answer:
        """Make the answer that allows a call that waits, with the arguments as its card shows them now. Raises UsageError."""
        return self._waiting(question).asker.allowed(question)

    def edited(self, question: Question, arguments: str) -> Answer:
        """Make the answer that allows a call that waits with other arguments, a JSON object. Raises UsageError if they don't fit."""
        answer = self._waiting(question).asker.edited(question, arguments)
        if isinstance(answer, str):
            raise UsageError(answer)
        return answer

    def _waiting(self, question: Question) -> Work:
        """Return the suspended run that this question is about."""
        work = self._suspended
        if work is None or question not in work.waiting:
            raise UsageError(NOT_PENDING)
        return work

    def new(self) -> None:
        """Begin a new conversation; what was said before stays in the results of its runs, and what waits is given up."""
        self.transcript = Transcript()
        self.kept.forget()
        self._give_up()

    def stop(self) -> None:
        """End the run in progress, from any thread; it returns with reason `interrupted`."""
        if self.work is not None:
            self.work.stop()

    # -- for `context`

    @property
    def account(self) -> Account | None:
        """What fills the context window, and what each turn was; None before the first run."""
        return self._agents.kit.account if self._agents.kit is not None else None

    @property
    def relief(self) -> Relief | None:
        """What is done when the window fills up; None before the first run."""
        return self._agents.kit.relief if self._agents.kit is not None else None

    @property
    def work(self) -> Work | None:
        """The run at work, None between runs; a suspended one is not at work."""
        return self._at_work.work

    def decide(self, decision: Decision) -> None:
        """Have a decision about the context join the record: at once, or when the reply on its way is complete."""
        work = self.work or self._suspended
        if work is not None:
            work.decide(decision)
        else:
            Run(self.transcript, self.kept.hear).append(decision)

    @contextmanager
    def at_rest(self) -> Iterator[tuple[Relief, Agent, Run]]:
        """Hold the session between runs for a measure on its context. Raises UsageError while one is at work."""
        with self._at_work.alone():
            agent = self._agents.made(Ask(), AtTheCell())
            waits = self._suspended
            run = Run(self.transcript, waits.hear if waits is not None else self.kept.hear)
            assert self.relief is not None  # noqa: S101 - an agent has been made
            yield self.relief, agent, run

    def _means(self, ask: Ask) -> Means:
        """Make what a run is done with, before anything is changed for it. Raises UsageError for what can't be had."""
        asker = AtTheCell(defaults.patience, self._clicked)
        agent = self._agents.made(ask, asker)
        if ask.goes_on is not None:
            missing = missing_tools(self.kept.history, (tool.name for tool in agent.tools))
            if missing:
                raise UsageError(MISSING.format(", ".join(f"`{name}`" for name in missing)))
        return Means(ask, agent, asker, self.purse.budget(ask.limits, ask.goes_on))

    def _begun(self, ask: Ask) -> Work:
        """Prepare a run of a prompt. What still waited is given up, and the model is told so."""
        ask.message()  # what can't be sent must not change where the conversation is
        means = self._means(ask)
        before, waits = self.transcript, bool(self.pending)
        self.transcript = transcript = self.kept.begin(ask.prompt, before, new=ask.new, fork=ask.fork)
        chosen = ask.model if isinstance(ask.model, str) else ""
        origin = replace(self.kept.journal.origin, limits=written(ask.limits), chosen=chosen)
        self.kept.journal.origin = origin
        work = self._shown(means)
        work.shown.view.versions = self.kept.versions
        if permissions().loosens(self.mode or defaults.mode):
            work.notice(LOOSENED)
        work.run.waiting = waits and transcript is before
        self._give_up()
        return work

    def _shown(self, means: Means) -> Work:
        work = Work(
            means,
            self.transcript,
            at="%agent" if self.name == MAIN else f'%agent --session "{self.name}"',
            context=self.context,
            journal=self.kept.journal,
            allow=lambda work: self._at_work.by_click(lambda: self._allowed(work)),
        )
        for text in self.kept.notices:
            work.notice(text)
        self.kept.notices.clear()
        self.purse.last = work.budget
        if work.shown.view.bill.unlimited and work.model not in self._told:
            self._told.add(work.model)
            work.notice(UNLIMITED.format(visible(work.model)))
        return work

    def _continued(
        self,
        restored: Restored,
        model: ModelOrName | None,
        turns: int | None,
        limits: Allowance | None,
        *,
        show: bool,
    ) -> Work:
        """Prepare the run that was left to go on; what waits for a decision asks again."""
        left = restored.run
        if left is None or left.id != self.kept.history.head or left.reason == "done":
            raise UsageError("There is nothing to go on with. Nothing was run.")
        # A journal may come from elsewhere: it must not say to which server the conversation goes.
        chosen = "" if INSTEAD in left.chosen or "/" in left.chosen else left.chosen
        ask = Ask(left.prompt, model or chosen or None, turns, show=show, limits=limits, goes_on=left)
        means = self._means(ask)
        if (waited := self._at_work.let_go()) is not None:
            waited.leave()
        if again := left.unbegun:
            self.transcript = self.kept.reopen(left, means.agent.model.name, again)
        work = self._shown(means)
        take_up(work.run, left)
        work.take_up(left)
        for text in restored.told:
            work.notice(text)
        if left.model and left.model != work.model:
            work.notice(OTHER.format(visible(left.model), visible(work.model)))
        self._tell_raised(work, left)
        return work

    def _tell_raised(self, work: Work, left: KeptRun) -> None:
        """Say, on record, what became of the limit that ended the run that goes on."""
        if left.reason == "turns":
            work.notice(f"Its limit of turns was reached; you made it {work.most_turns:,}.", kept=True)
        elif left.reason == "budget" and left.limit is not None:
            work.notice(raised(left.limit, limit_of(work.budget, left.limit)), kept=True)

    def _allowed(self, work: Work) -> Work:
        """Prepare the run that a limit ended to go on beyond it where it stands."""
        left = self.kept.history.runs.get(work.run.id)
        stands = work is self._at_work.held and work.run.transcript is self.transcript
        if left is None or not stands or left.id != self.kept.history.head:
            raise UsageError(TOO_LATE)
        limits = work.ask.limits
        if limits is not None and left.limit is not None:  # the one that was met is raised from where it was
            limits = without(limits, left.limit.what)
        ask = replace(work.ask, turns=None, limits=limits, goes_on=left)
        work.go_beyond(self._means(ask))
        self.purse.last = work.budget
        self._tell_raised(work, left)
        self._at_work.let_go()
        return work

    def _give_up(self) -> None:
        """Have nothing wait any more: a new request came instead of a decision."""
        work = self._at_work.let_go()
        if work is None:
            return
        for question in work.waiting:
            given_up = Judgement.of(question.call, question.verdict, allowed=False, by="superseded")
            self.approvals.note(given_up)
        work.leave(**{question.id: question.deny(by="superseded") for question in work.waiting})

    def _taken_up(self, question: Question, answer: Answer, *, show: bool | None) -> Work:
        """Prepare the suspended run to go on with a decision; `show` None has it go on where it waits."""
        work = self._waiting(question)
        asker = AtTheCell(defaults.patience, self._clicked)
        agent = self._agents.made(work.ask, asker)
        if work.overdue(defaults.patience):
            answer = question.deny("No answer came in time.", by="timeout")
        work.go_on(agent, asker, question, answer, show=show)
        self._at_work.let_go()
        return work

    def _clicked(self, question: Question, answer: Answer) -> str:
        """Take the suspended run up again where it waits; return in a sentence why that can't be."""
        return self._at_work.by_click(lambda: self._taken_up(question, answer, show=None))


_sessions: dict[str, Session] = {}
"""By name, for the process: a notebook's cells and its Python code must find the same one."""


def session(name: str = MAIN) -> Session:
    """Return the session of this name, made on first use: the one that `%agent --session NAME` talks to."""
    return _sessions.setdefault(name, Session(name))


def session_names() -> list[str]:
    """Return the names of the sessions that there are."""
    return list(_sessions)


LOOSENED = (
    f"{NAME} in this folder lets more happen without asking than usual: `%agent permissions` shows what."
)

UNLIMITED = (
    "Nothing limits what `{}` may cost: `%agent --dollars 0.50` sets a limit for a run, "
    "`%config AgentMagics.session_dollars = 5` for a session."
)

OTHER = "It was begun with {}, and {} goes on with it: `%resume --model NAME` asks another."

MISSING = "A call waits for {}, and there is no such tool now: run the cell that defines it, then %resume. Nothing was run."

NOT_PENDING = "This call does not wait for a decision any more: nothing was changed and nothing was run."
