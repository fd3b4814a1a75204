"""The parts put together: the only place that knows which layers, tools and words make an agent. Book chapter 22."""

from __future__ import annotations

from collections.abc import Iterable

from harness_nb.agent import Agent
from harness_nb.providers.fallback import falling_back
from harness_nb.providers.named import model as named
from harness_nb.providers.retry import retrying
from harness_nb.seams import Model, layered
from harness_nb.toolkit.calc import calc
from harness_nb.toolkit.files import files
from harness_nb.tools import Tool, Toolbox

INSTRUCTIONS = """\
You are an assistant in a Jupyter notebook. Your answer is shown to the person who wrote the cell.
Use a tool where it gives a surer answer than you can: compute with it, look things up with it, don't guess.
When a tool fails, read what it says and try otherwise; say so when you can't do what was asked.
Answer in plain Markdown, as briefly as the question allows, and say what you did not check."""
"""What every agent is told first. Nothing in it changes from run to run, so that prompt caches hold."""


def assistant(
    model: str | Model | None = None,
    tools: Iterable[Tool] = (),
    *,
    instructions: str = "",
    fallback: str | Model | None = None,
) -> Agent:
    """Make the usual agent: a named model that is asked again when it fails, a calculator, a file reader, and `tools`.

    A model is one, or what names one (see providers/named.py), or None for what is configured. A
    tool of yours replaces one of ours that has its name; your `instructions` follow ours. `fallback`
    takes a turn over when the model is out. Raises UsageError for a model that can't be had.
    """
    layers = [falling_back(layered(_made(fallback), retrying()))] if fallback is not None else []
    asked = layered(_made(model), *layers, retrying())
    words = f"{INSTRUCTIONS}\n\n{instructions.strip()}".strip()
    return Agent(asked, Toolbox(_together(tools)), words)


def _made(model: str | Model | None) -> Model:
    return named(model) if model is None or isinstance(model, str) else model


def _together(tools: Iterable[Tool]) -> list[Tool]:
    own = Toolbox(tools)
    names = {tool.name for tool in own}
    return [*(tool for tool in (calc, *files()) if tool.name not in names), *own]
