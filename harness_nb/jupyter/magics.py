"""`%agent`, `%%agent` and `%context`: read what is asked, and hand it to the session."""

from __future__ import annotations

from dataclasses import fields
from typing import TypedDict

from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class, no_var_expand
from traitlets import Any, Bool, Enum, Float, Int, List, Unicode, default, observe

from harness_nb.jupyter.bridge import blocking
from harness_nb.jupyter.context_commands import context_answered, context_done, context_read, context_usage
from harness_nb.jupyter.decisions import decided
from harness_nb.jupyter.defaults import defaults
from harness_nb.jupyter.options import DECISIONS, Asked, cell_read, line_read, usage
from harness_nb.jupyter.permissions import permissions_told
from harness_nb.jupyter.result import RunResult
from harness_nb.jupyter.session import MAIN, Session, session
from harness_nb.safety.permission import MODES
from harness_nb.safety.questions import Answer, Question


class Arguments(TypedDict):
    """What `Session.run` is called with."""

    prompt: str
    model: str | None
    turns: int | None
    window: int | None
    variables: tuple[str, ...]
    new: bool


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

    @default("context_window")
    def _context_window_so_far(self) -> int | None:
        return defaults.context_window

    @default("context_yellow")
    def _context_yellow_so_far(self) -> float:
        return defaults.context_yellow

    @default("context_red")
    def _context_red_so_far(self) -> float:
        return defaults.context_red

    @default("ask_context")
    def _ask_context_so_far(self) -> bool:
        return defaults.ask_context

    @default("mode")
    def _mode_so_far(self) -> str | None:
        return defaults.mode

    @default("rules")
    def _rules_so_far(self) -> list[str]:
        return list(defaults.rules)

    @default("patience")
    def _patience_so_far(self) -> float | None:
        return defaults.patience

    @default("model")
    def _model_so_far(self) -> object:
        return defaults.model

    @default("turns")
    def _turns_so_far(self) -> int | None:
        return defaults.turns

    @default("instructions")
    def _instructions_so_far(self) -> str:
        return defaults.instructions

    @observe(*(field.name for field in fields(defaults)))
    def _changed(self, change: dict[str, object]) -> None:
        setattr(defaults, str(change["name"]), change["new"])

    async def line(self, text: str) -> RunResult | None:
        """Run what follows `%agent`; a cell is rewritten to await this."""
        return await _done(line_read(text))

    async def cell(self, text: str, body: str) -> RunResult | None:
        """Run a `%%agent` cell; it is rewritten to await this."""
        return await _done(cell_read(text, body))

    async def context_line(self, text: str) -> None:
        """Do what follows `%context`; a cell is rewritten to await this."""
        await context_done(context_read(text))

    @no_var_expand
    @line_magic
    def context(self, line: str) -> None:
        """See or change the context where one can't await."""
        wanted = context_read(line)
        if not context_answered(wanted):
            blocking(context_done(wanted))

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
        new=asked.new,
    )
