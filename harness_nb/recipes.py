"""The parts put together: the only place that knows which layers, tools and words make an agent. Book chapter 22."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness_nb.agent import Agent
from harness_nb.providers.fallback import falling_back
from harness_nb.providers.named import model as named
from harness_nb.providers.retry import retrying
from harness_nb.safety.approvals import Approver, nobody, permitted, unchanged
from harness_nb.safety.commands import outlined
from harness_nb.safety.grants import Approvals
from harness_nb.safety.permission import Mode, Policy, hides, policy
from harness_nb.safety.repeats import unrepeated
from harness_nb.safety.rulefile import permissions
from harness_nb.safety.sandbox import best
from harness_nb.safety.spill import Outputs, spilled
from harness_nb.safety.trust import FENCE, from_outside, labelled
from harness_nb.seams import Model, layered
from harness_nb.toolkit.calc import calc
from harness_nb.toolkit.data import data
from harness_nb.toolkit.edits import editing
from harness_nb.toolkit.shell import shell
from harness_nb.tools import Tool, Toolbox

INSTRUCTIONS = """\
You are an assistant in a Jupyter notebook. Your answer is shown to the person who wrote the cell.
Use a tool where it gives a surer answer than you can: compute with it, look things up with it, don't guess.
When a tool fails, read what it says and try otherwise; say so when you can't do what was asked.
Answer in plain Markdown, as briefly as the question allows, and say what you did not check."""
"""What every agent is told first. Nothing in it changes from run to run, so that prompt caches hold."""


LOCAL_SMALL = " · local, small"
"""How the embedded model's name ends."""

SMALL = ("calc", "read_file")
"""Our tools that a small local model gets: each tool costs it a part of its few tokens."""


class Kit:
    """Our tools, and what a session keeps for them from run to run.

    That is which files were read, long outputs, and what a person has allowed. Without one, an agent has its
    own. The workspace is the current directory.
    """

    def __init__(self, more: Iterable[Tool] = ()) -> None:
        """Start with nothing read, kept or granted. `more` are tools of the place we are in, such as a notebook."""
        self.outputs = Outputs()
        self.approvals = Approvals()
        self.denied: Callable[[str], bool] = lambda _: False
        """Tells of a path whether reading it is denied in the run at hand: searches pass over it."""
        # The shell's sandbox is looked for at each agent: a person may have installed one meanwhile.
        self._kept = (
            calc,
            *editing(hidden=self._hidden),
            *data(kept=self.outputs.text),
            self.outputs.reader,
            *more,
        )

    def _hidden(self, path: str) -> bool:
        return self.denied(path)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool of ours, in a stable order."""
        return (*self._kept, shell(best(), explain=outlined))


@dataclass(frozen=True, slots=True)
class Permit:
    """What decides whether a call runs: a mode, rules, and whom to ask. See safety/permission.py for both."""

    mode: Mode | None = None
    """`ask`, `edits`, `plan` or `auto`; None for what harness_nb.toml says, else `ask`."""
    rules: tuple[str, ...] = ()
    """Rules beside those of harness_nb.toml."""
    ask: Approver = nobody
    """Whom to ask; nobody, unless said otherwise, and then what asks is denied."""
    patience: float | None = None
    """Seconds that a question waits before it counts as refused; None for ever."""

    def policy(self) -> Policy:
        """Put mode, rules and the folder's file together. Raises UsageError for what can't be read."""
        file = permissions()
        return policy(self.mode or file.mode or "ask", (*file.rules, *self.rules))


def assistant(
    model: str | Model | None = None,
    tools: Iterable[Tool] = (),
    *,
    instructions: str = "",
    fallback: str | Model | None = None,
    permit: Permit | None = None,
    kit: Kit | None = None,
) -> Agent:
    """Make the usual agent: a named model that is asked again when it fails, our tools, and `tools`.

    A model is one, or what names one (see providers/named.py), or None for what is configured. A
    tool of yours replaces one of ours that has its name; your `instructions` follow ours. `fallback`
    takes a turn over when the model is out. Reading in the current directory is allowed; what else is, `permit`
    says. Raises UsageError for a model or a rule that can't be had.
    """
    layers = [falling_back(layered(_made(fallback), retrying()))] if fallback is not None else []
    asked = layered(_made(model), *layers, retrying())
    kit, permit = kit or Kit(), permit or Permit()
    decides = permit.policy()
    kit.denied = hides(decides)
    small = asked.name.endswith(LOCAL_SMALL)
    box = Toolbox(_together(kit, tools, small=small))
    words = f"{INSTRUCTIONS}\n{FENCE}\n\n{instructions.strip()}".strip()
    gates = (  # the first is outermost
        *(() if small else (spilled(kit.outputs),)),  # a small model has no read_output to read on with
        unrepeated(),
        permitted(decides, permit.ask, kit.approvals, timeout=permit.patience),
        labelled(from_outside(), kit.outputs.maker),
        unchanged,
    )
    return Agent(asked, box, words, gates)


def _made(model: str | Model | None) -> Model:
    return named(model) if model is None or isinstance(model, str) else model


def _together(kit: Kit, tools: Iterable[Tool], *, small: bool) -> list[Tool]:
    own = Toolbox(tools)
    names = {tool.name for tool in own}
    ours = (tool for tool in kit.tools if tool.name not in names and (tool.name in SMALL or not small))
    return [*ours, *own]
