"""A conversation with an agent, from run to run: what `%agent` talks to, and the same in Python.

    session = harness_nb.session()
    result = await session.run("Which of these files is the largest?")

It needs no notebook: in a script, `session.run_blocking("...")` does the same and draws nothing.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeAlias

from harness_nb.agent import Agent, Outcome
from harness_nb.errors import UsageError
from harness_nb.events import Event, Notice, RunStarted
from harness_nb.jupyter.approval import AtTheCell
from harness_nb.jupyter.bridge import attentive, blocking
from harness_nb.jupyter.live import Shown, UnshownRun, show_run
from harness_nb.jupyter.result import RunResult
from harness_nb.jupyter.shell import in_one_line, running_shell, user_variables
from harness_nb.jupyter.variables import described
from harness_nb.messages import Message, Text, Transcript
from harness_nb.safety.grants import Approvals
from harness_nb.safety.permission import Mode
from harness_nb.safety.rulefile import NAME, permissions
from harness_nb.seams import Model, Run
from harness_nb.tools import Tool

if TYPE_CHECKING:
    from harness_nb.recipes import Kit

ModelOrName: TypeAlias = Model | str
"""A model, or what one is called, such as `local` or `anthropic:MODEL`."""

MAIN = "main"
"""The session that is meant where none is named."""


@dataclass
class Defaults:
    """What sessions use where neither they nor a call say otherwise; `%config AgentMagics` sets it."""

    model: ModelOrName | None = None
    """None for what is configured on this machine, else the embedded model."""
    turns: int | None = None
    instructions: str = ""
    mode: Mode | None = None
    """What happens to calls that no rule is about: `ask`, `edits`, `plan`, `auto`; None for what harness_nb.toml says."""
    rules: Sequence[str] = ()
    """Such as `allow shell git status`; see harness_nb/safety/rules.py."""
    patience: float | None = None
    """Seconds that a question waits for an answer before it is no; None for ever."""


defaults = Defaults()


class Session:
    """A conversation that goes on from run to run. One run at a time.

    Set `model`, `turns`, `instructions`, `tools`, `mode` or `rules` to have the next runs use them. `tools` is None for
    the functions with `@tool` that the notebook defines, the newest definition of each; a list for
    exactly these. `transcript` is the whole record, `last_error` what made the last failed run fail.
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
        self.last_error: BaseException | None = None
        self._made: dict[str, tuple[int, Model]] = {}
        self._one_at_a_time = threading.Lock()
        self._work: _Work | None = None
        self._kit: Kit | None = None

    @property
    def approvals(self) -> Approvals:
        """What has been allowed for this session, and what became of its calls."""
        return self._kit.approvals if self._kit is not None else Approvals()

    def __repr__(self) -> str:
        return f"Session({self.name!r}, {len(self.transcript.messages)} messages)"

    async def run(
        self,
        prompt: str,
        *,
        model: ModelOrName | None = None,
        turns: int | None = None,
        variables: Sequence[str] = (),
        new: bool = False,
        show: bool = True,
    ) -> RunResult:
        """Give the agent a prompt, and return how the run ended.

        `model` and `turns` hold for this run alone. `variables` are names of notebook variables that are
        described to the model. `new` begins a new conversation with it. `show` draws the run below the
        cell, or in IPython's terminal.

        Raises UsageError, before anything is sent, where this can't work, and ProviderError where the
        model could not answer; the conversation is kept either way. A run that was stopped, or met a
        limit, is a result and says so in `reason`. Book chapter 2.
        """
        with self._working(_Ask(prompt, model, turns, variables, new, show)) as work:
            async with attentive():
                return work.result(await work.outcome())

    def run_blocking(
        self,
        prompt: str,
        *,
        model: ModelOrName | None = None,
        turns: int | None = None,
        variables: Sequence[str] = (),
        new: bool = False,
        show: bool = True,
    ) -> RunResult:
        """Do what `run` does where one can't await: in a function, a script, a tool."""
        with self._working(_Ask(prompt, model, turns, variables, new, show)) as work:
            return work.result(blocking(work.outcome()))

    def new(self) -> None:
        """Begin a new conversation; what was said before stays in the results of its runs."""
        self.transcript = Transcript()

    def stop(self) -> None:
        """End the run in progress, from any thread; it returns with reason `interrupted`."""
        if self._work is not None:
            self._work.stop()

    @contextmanager
    def _working(self, ask: _Ask) -> Iterator[_Work]:
        """Hold the session for one run, show it while it lasts, and have what goes wrong said in one line."""
        mine = self._one_at_a_time.acquire(blocking=False)
        try:
            if not mine:
                raise UsageError(_BUSY.format(self.name))
            asker = AtTheCell(defaults.patience)
            message, agent = ask.message(), self._agent(ask, asker)
            if ask.new:
                self.new()
            self._work = _Work(agent, message, self.transcript, ask, asker)
            try:
                yield self._work
            finally:
                self._work.shown.close()
        except BaseException as fault:
            in_one_line(fault)
            self.last_error = fault
            raise
        finally:
            if mine:
                self._work = None
                self._one_at_a_time.release()

    def _agent(self, ask: _Ask, asker: AtTheCell) -> Agent:
        # Making tools loads pydantic: not before there is a run, so that %load_ext is quick.
        from harness_nb.jupyter.cell_tools import cell_tools
        from harness_nb.recipes import Kit, Permit, assistant

        tools = tools_of_the_notebook() if self.tools is None else self.tools
        instructions = defaults.instructions if self.instructions is None else self.instructions
        mode, rules = self.mode or defaults.mode, (*defaults.rules, *self.rules)
        self._kit = self._kit or Kit(cell_tools())
        agent = assistant(
            self._model(ask.model),
            tools,
            instructions=instructions,
            permit=Permit(mode, rules, asker, defaults.patience),
            kit=self._kit,
        )
        most = next((one for one in (ask.turns, self.turns, defaults.turns) if one is not None), None)
        return agent if most is None else replace(agent, limits=replace(agent.limits, turns=most))

    def _model(self, asked: ModelOrName | None) -> Model:
        chosen = asked or self.model or defaults.model
        if chosen is not None and not isinstance(chosen, str):
            if not callable(chosen):
                raise UsageError(
                    f"A model is a name, such as local, or a model object, not {type(chosen).__name__}. Nothing was sent."
                )
            return chosen
        from harness_nb.providers.named import default, model

        name, surroundings = chosen or default(), hash(frozenset(os.environ.items()))
        if name.startswith("replay:"):  # its file may have been recorded anew
            return model(name)
        if name not in self._made or self._made[name][0] != surroundings:  # e.g. another key has been set
            self._made[name] = surroundings, model(name)
        return self._made[name][1]


_sessions: dict[str, Session] = {}
"""By name, for the process: a notebook's cells and its Python code must find the same one."""


def session(name: str = MAIN) -> Session:
    """Return the session of this name, made on first use: the one that `%agent --session NAME` talks to."""
    return _sessions.setdefault(name, Session(name))


def session_names() -> list[str]:
    """Return the names of the sessions that there are."""
    return list(_sessions)


def tools_of_the_notebook() -> list[Tool]:
    """Return the notebook's tools by name; where two have one name, the one that is its variable's own."""
    found = [(name, value) for name, value in user_variables().items() if isinstance(value, Tool)]
    found.sort(key=lambda pair: pair[0] == pair[1].name)
    return list({item.name: item for _, item in found}.values())


@dataclass(frozen=True, slots=True)
class _Ask:
    """What one run is asked for: the arguments of `Session.run`."""

    prompt: str
    model: ModelOrName | None
    turns: int | None
    variables: Sequence[str]
    new: bool
    show: bool

    def message(self) -> Message:
        """Write the message that the model gets. Raises UsageError."""
        if not self.prompt.strip():
            raise UsageError(
                "There is no prompt: write it after %agent, or on the lines below %%agent. Nothing was sent."
            )
        scope = user_variables() if self.variables else {}
        told = [Text(f"\n\n{described(name, scope)}") for name in self.variables]
        return Message("user", (Text(self.prompt), *told))


class _Work:
    """One run of a session while it lasts."""

    def __init__(
        self, agent: Agent, message: Message, transcript: Transcript, ask: _Ask, asker: AtTheCell
    ) -> None:
        shell = running_shell()
        self._cell = shell.execution_count if shell is not None and ask.show else None
        shown = self._cell is not None
        self.shown: Shown = (
            show_run(ask.prompt, self.stop, asker.clicked) if shown else UnshownRun(ask.prompt)
        )
        asker.attend(self.shown, agent.tools)
        self._agent = agent
        self._message = message
        self._variables = ask.variables
        self._loosened = permissions().loosens(self.mode or defaults.mode)
        self._run = Run(transcript, self._hear)
        self._loop: asyncio.AbstractEventLoop | None = None

    def _hear(self, event: Event) -> None:
        self.shown.listener(event)
        if isinstance(event, RunStarted) and self._loosened:
            self.shown.listener(Notice(LOOSENED))
        if isinstance(event, RunStarted) and self._variables:
            names = ", ".join(f"`{name}`" for name in self._variables)
            self.shown.listener(Notice(f"Described to the model: {names}."))

    async def outcome(self) -> Outcome:
        self._loop = asyncio.get_running_loop()
        return await self._agent.run(self._message, self._run)

    def result(self, outcome: Outcome) -> RunResult:
        values = {item.name: getattr(outcome.or_raise(), item.name) for item in fields(outcome)}
        values["transcript"] = Transcript(outcome.transcript.entries)  # the session's own grows on
        return RunResult(**values, view=self.shown.view, cell=self._cell)

    def stop(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._run.stop)


LOOSENED = (
    f"{NAME} in this folder lets more happen without asking than usual: `%agent permissions` shows what."
)

_BUSY = (
    "Session `{}` is at work on another prompt: wait for it, stop it, or use another session "
    "(%agent --session NAME). Nothing was sent."
)
