"""An agent harness that lives in a notebook: `%load_ext harness_nb`, then `%agent PROMPT`.

    from harness_nb import Agent, Toolbox, model, tool       build an agent and run it anywhere
    harness_nb.session()                                     the conversation that `%agent` carries on

Names are imported when they are first used, so that `import harness_nb` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness_nb.agent import Agent, Limits, Outcome
    from harness_nb.errors import HarnessError, ProviderError, RunStop, ToolError, UsageError
    from harness_nb.jupyter.result import RunResult
    from harness_nb.jupyter.session import Session, session
    from harness_nb.jupyter.shell import Shell
    from harness_nb.messages import Message, Transcript, Usage
    from harness_nb.providers.named import model
    from harness_nb.providers.scripted import call, say, scripted
    from harness_nb.recipes import assistant
    from harness_nb.seams import Call, Model, Reply, Request, Run, layered
    from harness_nb.tools import Tool, Toolbox, tool

__all__ = [
    "Agent",
    "Call",
    "HarnessError",
    "Limits",
    "Message",
    "Model",
    "Outcome",
    "ProviderError",
    "Reply",
    "Request",
    "Run",
    "RunResult",
    "RunStop",
    "Session",
    "Tool",
    "ToolError",
    "Toolbox",
    "Transcript",
    "Usage",
    "UsageError",
    "assistant",
    "call",
    "layered",
    "model",
    "say",
    "scripted",
    "session",
    "tool",
]

_HOMES = {
    "agent": ("Agent", "Limits", "Outcome"),
    "errors": ("HarnessError", "ProviderError", "RunStop", "ToolError", "UsageError"),
    "jupyter.result": ("RunResult",),
    "jupyter.session": ("Session", "session"),
    "messages": ("Message", "Transcript", "Usage"),
    "providers.named": ("model",),
    "providers.scripted": ("call", "say", "scripted"),
    "recipes": ("assistant",),
    "seams": ("Call", "Model", "Reply", "Request", "Run", "layered"),
    "tools": ("Tool", "Toolbox", "tool"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name from its module."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Shell) -> None:
    """Give this IPython `%agent` and `%%agent`: what `%load_ext harness_nb` calls."""
    from harness_nb.jupyter.extension import load

    load(shell)


def unload_ipython_extension(shell: Shell) -> None:
    """Take `%agent` away again; sessions and their conversations stay."""
    from harness_nb.jupyter.extension import unload

    unload(shell)
