"""What one run of a session is asked for, and what it is done with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from harness_nb.errors import UsageError
from harness_nb.jupyter.shell import user_variables
from harness_nb.jupyter.variables import described
from harness_nb.messages import Message, Text
from harness_nb.ops.allowance import Allowance
from harness_nb.seams import Model

if TYPE_CHECKING:
    from harness_nb.agent import Agent
    from harness_nb.jupyter.approval import AtTheCell
    from harness_nb.ops.budget import Budget
    from harness_nb.ops.history import KeptRun

ModelOrName: TypeAlias = Model | str
"""A model, or what one is called, such as `local` or `anthropic:MODEL`."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What one run is asked for: the arguments of `Session.run`."""

    prompt: str = ""
    model: ModelOrName | None = None
    turns: int | None = None
    variables: Sequence[str] = ()
    new: bool = False
    show: bool = True
    window: int | None = None
    fork: bool = False
    limits: Allowance | None = None
    """What this run may spend; None for the defaults."""
    goes_on: KeptRun | None = None
    """The run that is taken up again, instead of one with a prompt."""

    def message(self) -> Message | None:
        """Write the message that the model gets; None for a run that goes on. Raises UsageError."""
        if self.goes_on is not None:
            return None
        if not self.prompt.strip():
            raise UsageError(
                "There is no prompt: write it after %agent, or on the lines below %%agent. Nothing was sent."
            )
        scope = user_variables() if self.variables else {}
        told = [Text(f"\n\n{described(name, scope)}") for name in self.variables]
        return Message("user", (Text(self.prompt), *told))


@dataclass(frozen=True, slots=True)
class Means:
    """What a run is done with; another whenever it goes on."""

    ask: Ask
    agent: Agent
    asker: AtTheCell
    """Asks a person."""
    budget: Budget
    """What it may spend."""

    @property
    def turns_more(self) -> int:
        """How many turns a person who has it go on beyond its limit of turns allows."""
        before = self.ask.goes_on.most if self.ask.goes_on is not None else 0
        return before or self.agent.limits.turns

    @property
    def paid(self) -> bool:
        """Whether its model may cost money."""
        from harness_nb.recipes import paid

        return paid(self.agent.model)
