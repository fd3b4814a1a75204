"""`%agent`, `%%agent`, `%context`, `%cost`, `%history` and `%resume`: read what is asked, and hand it to the session."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import fields
from decimal import Decimal
from typing import TypedDict

from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class, no_var_expand
from traitlets import Any, Bool, Enum, Float, Int, List, Unicode, default, observe

from harness_nb.jupyter.bridge import blocking
from harness_nb.jupyter.context_commands import context_answered, context_done, context_read, context_usage
from harness_nb.jupyter.cost_commands import cost_done, cost_read, cost_usage
from harness_nb.jupyter.decisions import decided
from harness_nb.jupyter.defaults import defaults
from harness_nb.jupyter.history_commands import Wanted, history_done, history_read, history_usage
from harness_nb.jupyter.options import DECISIONS, RESUME, Asked, cell_read, line_read, resume_read, usage
from harness_nb.jupyter.permissions import permissions_told
from harness_nb.jupyter.restored import Restored
from harness_nb.jupyter.result import RunResult
from harness_nb.jupyter.session import MAIN, Session, session
from harness_nb.ops.allowance import Allowance
from harness_nb.safety.permission import MODES
from harness_nb.safety.questions import Answer, Question


class Arguments(TypedDict):
    """What `Session.run` is called with."""

    prompt: str
    model: str | None
    turns: int | None
    window: int | None
    variables: tuple[str, ...]
    limits: Allowance | None
    new: bool
    fork: bool


def _so_far(name: str) -> object:
    return default(name)(lambda _: copy(getattr(defaults, name)))


class GoingOn(TypedDict):
    """What `Session.go_on` is called with."""

    model: str | None
    turns: int | None
    limits: Allowance | None


@magics_class
class AgentMagics(Magics):
    """Defaults of `%agent`, set by `%config AgentMagics.model = "..."` or in ipython_config.py."""

    model = Any(
        help="The model that is asked: its name, e.g. 'local' or 'anthropic:MODEL', or a model object. "
        "None for what is configured on this machine, else the embedded model."
    ).tag(config=True)
    turns = Int(allow_none=True, min=1, help="Most turns of a run. None for the agent's own limit.").tag(
        config=True
    )
    instructions = Unicode(help="What the agent is told before every conversation.").tag(config=True)

    mode = Enum(
        tuple(MODES),
        allow_none=True,
        help="What happens to calls that no rule is about: 'ask', 'edits', 'plan' or 'auto'. "
        "None for what harness_nb.toml says, else 'ask'.",
    ).tag(config=True)
    rules = List(Unicode(), help="Rules for calls, such as 'allow shell git status'.").tag(config=True)
    patience = Float(
        allow_none=True, min=0, help="Seconds that a question waits before it counts as no. None for ever."
    ).tag(config=True)

    context_window = Int(
        allow_none=True,
        min=1,
        help="Tokens of the model's context window. None for what the model, or the price list, says.",
    ).tag(config=True)
    context_yellow = Float(min=0, max=1, help="Share of the window at which it counts as filling up.").tag(
        config=True
    )
    context_red = Float(min=0, max=1, help="Share of the window at which it is relieved.").tag(config=True)
    ask_context = Bool(help="Whether to ask before each decision about the context that can wait.").tag(
        config=True
    )

    store = Unicode(
        help="A folder or a database's URL in which sessions are kept, 'off' for nowhere. "
        "Empty for HARNESS_NB_STORE, else .harness_nb/sessions."
    ).tag(config=True)
    redact = List(
        Unicode(),
        help="Regular expressions of what is taken out of a session before it is kept, beside keys and passwords.",
    ).tag(config=True)
    rerun = Enum(
        ("replace", "append"),
        help="Whether a cell that is run again takes the place of its earlier run, or follows what has been said since.",
    ).tag(config=True)
    seconds = Float(
        allow_none=True, min=0, help="Seconds a run may take, waiting for you left out. None for no limit."
    ).tag(config=True)
    tokens = Int(allow_none=True, min=1, help="Tokens, in and out, that a run may use.").tag(config=True)
    dollars = Float(allow_none=True, min=0, help="Dollars that a run may cost.").tag(config=True)
    session_dollars = Float(allow_none=True, min=0, help="Dollars that a session may cost.").tag(config=True)
    day_dollars = Float(
        allow_none=True, min=0, help="Dollars that the sessions kept in one place may cost in one day (UTC)."
    ).tag(config=True)

    # Until they are set, each is what sessions use so far.
    vars().update({f"_{one.name}_so_far": _so_far(one.name) for one in fields(defaults)})

    @observe(*(field.name for field in fields(defaults)))
    def _changed(self, change: dict[str, object]) -> None:
        setattr(defaults, str(change["name"]), change["new"])

    ipythons_history: Callable[[str], object] | None = None
    """IPython's own magic of that name, which has all lines that aren't ours."""

    async def line(self, text: str) -> RunResult | None:
        """Run what follows `%agent`; a cell is rewritten to await this."""
        return await _done(line_read(text))

    async def cell(self, text: str, body: str) -> RunResult | None:
        """Run a `%%agent` cell; it is rewritten to await this."""
        return await _done(cell_read(text, body))

    async def context_line(self, text: str) -> None:
        """Do what follows `%context`; a cell is rewritten to await this."""
        await context_done(context_read(text))

    async def resume_line(self, text: str) -> RunResult | None:
        """Do what follows `%resume`; a cell is rewritten to await this."""
        asked = resume_read(text)
        if asked.command == "help":
            print(RESUME)  # noqa: T201 - help is text
            return None
        restored = _found(asked)
        return await _session(asked).go_on(restored, **_going_on(asked)) if restored else None

    @no_var_expand
    @line_magic
    def resume(self, line: str) -> RunResult | None:
        """Go on with a run where one can't await."""
        asked = resume_read(line)
        if asked.command == "help":
            print(RESUME)  # noqa: T201 - help is text
            return None
        restored = _found(asked)
        return _session(asked).go_on_blocking(restored, **_going_on(asked)) if restored else None

    @no_var_expand
    @line_magic
    def cost(self, line: str) -> None:
        """Show what a session has cost."""
        cost_done(cost_read(line))

    @no_var_expand
    @line_magic
    def context(self, line: str) -> None:
        """See or change the context where one can't await."""
        wanted = context_read(line)
        if not context_answered(wanted):
            blocking(context_done(wanted))

    @line_magic
    def history(self, line: str) -> object:
        """See a session's runs and go back; what is IPython's own goes on to that."""
        wanted = history_read(line)
        if wanted is None and self.ipythons_history is not None:
            return self.ipythons_history(line)
        history_done(wanted or Wanted())
        return None

    @no_var_expand
    @line_cell_magic
    def agent(self, line: str, cell: str | None = None) -> RunResult | None:
        """Ask where one can't await: in a function, or through `get_ipython().run_line_magic`."""
        asked = line_read(line) if cell is None else cell_read(line, cell)
        if _answered(asked):
            return None
        if asked.command in DECISIONS:
            decision = _decided(asked)
            return _session(asked).resume_blocking(*decision) if decision else None
        return _session(asked).run_blocking(**_arguments(asked))


AgentMagics.agent.__doc__ = usage()
AgentMagics.context.__doc__ = context_usage()
AgentMagics.cost.__doc__ = cost_usage()
AgentMagics.history.__doc__ = history_usage()
AgentMagics.resume.__doc__ = RESUME


async def _done(asked: Asked) -> RunResult | None:
    """Do what is asked, awaiting the run that it takes, if any."""
    if _answered(asked):
        return None
    if asked.command in DECISIONS:
        decision = _decided(asked)
        return await _session(asked).resume(*decision) if decision else None
    return await _session(asked).run(**_arguments(asked))


def _decided(asked: Asked) -> tuple[Question, Answer] | None:
    """Read a decision; where there is nothing to decide, say so and let later cells run."""
    decision = decided(_session(asked), asked)
    if isinstance(decision, str):
        print(decision)  # noqa: T201 - so that a cell answers
        return None
    return decision


def _answered(asked: Asked) -> bool:
    """Do what needs no run, if that is all that is asked."""
    match asked.command:
        case "help":
            print(usage())  # noqa: T201 - help is text
        case "permissions":
            print(permissions_told(_session(asked)))  # noqa: T201 - as is this
        case "new":
            _session(asked).new()
            print("The next prompt begins a new conversation.")  # noqa: T201 - so that a cell answers
        case _:
            return False
    return True


def _session(asked: Asked) -> Session:
    return session(asked.session or MAIN)


def _arguments(asked: Asked) -> Arguments:
    return Arguments(
        prompt=asked.prompt,
        model=asked.model or None,
        turns=asked.turns,
        window=asked.window,
        variables=asked.variables,
        limits=_limits(asked),
        new=asked.new,
        fork=asked.fork,
    )


def _limits(asked: Asked) -> Allowance | None:
    """Return what the run may spend, None for the defaults; what is not said stays as it is set."""
    if (said := _said(asked)) is None:
        return None
    dollars = None if defaults.dollars is None else Decimal(str(defaults.dollars))
    return Allowance(
        seconds=defaults.seconds if said.seconds is None else said.seconds,
        tokens=defaults.tokens if said.tokens is None else said.tokens,
        dollars=dollars if said.dollars is None else said.dollars,
    )


def _said(asked: Asked) -> Allowance | None:
    """Return the limits that are said, and no others; None where none is."""
    said = Allowance(seconds=asked.seconds, tokens=asked.tokens, dollars=asked.dollars)
    return None if said == Allowance() else said


def _found(asked: Asked) -> Restored | None:
    """Find the run to go on with; where there is none, say what there is, and let later cells run."""
    restored = _session(asked).restore()
    if restored.run is None:
        print("\n".join(restored.told))  # noqa: T201 - so that a cell answers
        return None
    return restored


def _going_on(asked: Asked) -> GoingOn:
    return GoingOn(model=asked.model or None, turns=asked.turns, limits=_said(asked))
