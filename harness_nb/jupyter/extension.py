"""What `%load_ext harness_nb` adds to an IPython, and takes away again."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from harness_nb.errors import HarnessError
from harness_nb.jupyter.completion import agent_matcher, commands_matcher
from harness_nb.jupyter.magics import AgentMagics
from harness_nb.jupyter.shell import Shell, one_line, watch_cells
from harness_nb.jupyter.transform import transformers

_loaded: WeakKeyDictionary[Shell, Extension] = WeakKeyDictionary()


def load(shell: Shell) -> None:
    """Give this IPython our magics; a second time replaces the first."""
    unload(shell)
    _loaded[shell] = Extension(shell)
    HarnessError._render_traceback_ = one_line  # type: ignore[attr-defined]


def unload(shell: Shell) -> None:
    """Take them away; sessions, their conversations and the defaults stay."""
    if shell in _loaded:
        _loaded.pop(shell).remove()
        if not _loaded:
            del HarnessError._render_traceback_  # type: ignore[attr-defined]


class Extension:
    """The parts of one IPython that are ours."""

    def __init__(self, shell: Shell) -> None:
        """Add them."""
        self._shell = shell
        self._magics = AgentMagics(shell)
        self._transformers = transformers(self._may_await)
        self._cells_running = 0
        watch_cells()  # for the sessions too, so it stays when the rest is taken away
        # IPython has a magic of this name, which its `%hist` is another name for; to find it is to load it.
        before = shell.find_line_magic("history")  # type: ignore[no-untyped-call]
        lines = shell.magics_manager.magics["line"]
        self._before = {name: lines[name] for name in ("history", "hist") if name in lines}
        self._magics.ipythons_history = before
        shell.register_magics(self._magics)
        if "hist" in lines and before is not None:
            lines["hist"] = before
        # First, so that prompts are out of IPython's reach before it strips, dedents or expands anything.
        shell.input_transformers_cleanup[:0] = self._transformers
        shell.Completer.custom_matchers.extend((agent_matcher, commands_matcher))
        shell.events.register("pre_execute", self._cell_begins)
        shell.events.register("post_execute", self._cell_ends)

    def remove(self) -> None:
        """Take them away."""
        shell = self._shell
        shell.events.unregister("pre_execute", self._cell_begins)
        shell.events.unregister("post_execute", self._cell_ends)
        for matcher in (agent_matcher, commands_matcher):
            shell.Completer.custom_matchers.remove(matcher)
        for transformer in self._transformers:
            shell.input_transformers_cleanup.remove(transformer)
        shell.configurables.remove(self._magics)  # type: ignore[arg-type]
        shell.magics_manager.registry.pop(type(self._magics).__name__, None)
        for magics in shell.magics_manager.magics.values():
            for name in ("agent", "context", "cost", "resume"):
                magics.pop(name, None)
        lines = shell.magics_manager.magics["line"]
        if getattr(lines.get("history"), "__self__", None) is self._magics:
            lines.pop("history")
            lines.update(self._before)

    def _may_await(self) -> bool:
        """Code inside a running cell, such as that of `%%time` or `%%capture`, is compiled where nothing is awaited."""
        return bool(self._shell.autoawait) and not self._cells_running

    def _cell_begins(self) -> None:
        self._cells_running += 1

    def _cell_ends(self) -> None:
        self._cells_running = max(0, self._cells_running - 1)
