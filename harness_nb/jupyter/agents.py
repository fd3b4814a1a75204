"""The agent of each run: made of what is asked for that run, what its session is set to, and what is configured."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from harness_nb.agent import Agent
from harness_nb.errors import UsageError
from harness_nb.jupyter.approval import AtTheCell
from harness_nb.jupyter.defaults import defaults
from harness_nb.jupyter.shell import user_variables
from harness_nb.jupyter.terms import Ask, ModelOrName
from harness_nb.safety.permission import Mode
from harness_nb.seams import Model, Prepare
from harness_nb.tools import Tool

if TYPE_CHECKING:
    from harness_nb.recipes import Kit


class Settings(Protocol):
    """What a session is set to: see `Session`. None is what is configured."""

    name: str
    model: ModelOrName | None
    turns: int | None
    instructions: str | None
    tools: Sequence[Tool] | None
    mode: Mode | None
    rules: Sequence[str]


class Agents:
    """Makes the agents of one session, which share its kit. A model that was named is made once."""

    def __init__(self, settings: Settings, first: Prepare) -> None:
        """Go by these settings, as they are whenever an agent is made; `first` comes before its other prepare steps."""
        self.kit: Kit | None = None
        """What lasts from run to run; None as long as nothing needed it."""
        self._settings, self._first = settings, first
        self._models: dict[str, tuple[int, Model]] = {}
        """By name: what the environment was when it was made, and the model."""

    def kept(self) -> Kit:
        """Return the kit, made on first use: its tools load pydantic, and %load_ext is to be quick."""
        if self.kit is None:
            from harness_nb.jupyter.cell_tools import cell_tools
            from harness_nb.recipes import Kit

            self.kit = Kit(cell_tools(), self._settings.name)
        return self.kit

    def made(self, ask: Ask, asker: AtTheCell) -> Agent:
        """Make the agent of a run, with `asker` to ask a person. Raises UsageError for what can't be had."""
        from harness_nb.recipes import Permit, Room, assistant

        to = self._settings
        agent = assistant(
            self._model(ask.model),
            tools_of_the_notebook() if to.tools is None else to.tools,
            instructions=defaults.instructions if to.instructions is None else to.instructions,
            permit=Permit(to.mode or defaults.mode, (*defaults.rules, *to.rules), asker, defaults.patience),
            room=Room(
                defaults.context_window if ask.window is None else ask.window,
                defaults.context_yellow,
                defaults.context_red,
                ask=asker.proposals if defaults.ask_context else None,
            ),
            kit=self.kept(),
        )
        limits = replace(agent.limits, turns=self._turns(ask, agent.limits.turns))
        return replace(agent, limits=limits, prepare=(self._first, *agent.prepare))

    def _turns(self, ask: Ask, usual: int) -> int:
        """Return the most turns of a run; one that goes on has what it had, and as many again where it used them up."""
        goes_on = ask.goes_on
        before = (goes_on.most or None) if goes_on is not None else None
        chosen = (ask.turns, before, self._settings.turns, defaults.turns)
        turns = next((one for one in chosen if one is not None), usual)
        return turns + goes_on.turns if goes_on is not None and goes_on.turns >= turns else turns

    def _model(self, asked: ModelOrName | None) -> Model:
        chosen = asked or self._settings.model or defaults.model
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
        if name not in self._models or self._models[name][0] != surroundings:  # e.g. another key has been set
            self._models[name] = surroundings, model(name)
        return self._models[name][1]


def tools_of_the_notebook() -> list[Tool]:
    """Return the notebook's tools by name; where two have one name, the one that is its variable's own."""
    found = [
        (name, value)
        for name, value in user_variables().items()
        if issubclass(type(value), Tool) and isinstance(value, Tool)  # a proxy may raise when asked itself
    ]
    found.sort(key=lambda pair: pair[0] == pair[1].name)
    return list({item.name: item for _, item in found}.values())
