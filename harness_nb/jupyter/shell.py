"""The IPython that we run in, if any: its variables, and how it shows what went wrong."""

from __future__ import annotations

import asyncio
import builtins
import inspect
import sys
from collections.abc import Callable, Mapping
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, TypeAlias

from harness_nb.errors import HarnessError, UsageError
from harness_nb.jupyter.words import visible

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

Shell: TypeAlias = "InteractiveShell"


def running_shell() -> Shell | None:
    """Return the IPython that runs in this process; None in a plain script, which then need not import IPython."""
    if "IPython" not in sys.modules:
        return None
    from IPython.core.getipython import get_ipython

    return get_ipython()


def in_kernel(shell: Shell | None) -> bool:
    """Say whether the shell is a kernel's, with a front end that shows more than text."""
    return shell is not None and hasattr(shell, "kernel")


def takes_input(kernel: object) -> bool:
    """Tell whether a person is at the cell: a machine that executes notebooks, such as nbclient, says that nobody answers."""
    try:
        return bool(kernel.get_parent()["content"].get("allow_stdin", True))  # type: ignore[attr-defined]
    except (AttributeError, KeyError, LookupError, TypeError):
        return True


def answerable() -> Callable[[str], str] | None:
    """Return `input` where a person can answer it; in a kernel, while the cell that this code belongs to is executed.

    A front end drops what any other cell asks for, and the kernel would wait for ever.
    """
    parent = getattr(running_shell(), "get_parent", None)
    if parent is None:
        return input
    at_work = not inspect.isbuiltin(builtins.input)  # a kernel puts its own there while a cell is executed
    ours = parent() == Context().run(parent)  # without a context it is that of the cell being executed
    began = _cell.get()  # older kernels know one cell at a time, whoever asks
    return input if at_work and ours and began in {"", _request(parent())} else None


_cell: ContextVar[str] = ContextVar("cell", default="")
"""The request of the cell that this code was begun in, empty where that is not known."""


def watch_cells() -> None:
    """Have code know from now on which cell it belongs to, however long it runs."""
    shell = running_shell()
    if shell is not None and _begins not in shell.events.callbacks["pre_execute"]:
        shell.events.register("pre_execute", _begins)
        _begins()


def _begins() -> None:
    _cell.set(_request(getattr(running_shell(), "get_parent", dict)()))


def _request(parent: Mapping[str, Mapping[str, str]]) -> str:
    return parent.get("header", {}).get("msg_id", "")


def cell_at_work() -> tuple[str, str]:
    """Return the id of the notebook cell that is executed, and what names this execution; empty where not known."""
    parent: Mapping[str, Mapping[str, str]] = getattr(running_shell(), "get_parent", dict)()
    metadata = parent.get("metadata", {})
    return str(metadata.get("cellId") or metadata.get("cell_id") or ""), _request(parent)


def execution_count() -> int:
    """Return the number that the cell which is executed shows, as in `In [3]`; 0 where there is none."""
    inputs = getattr(getattr(running_shell(), "history_manager", None), "input_hist_parsed", ())
    return max(0, len(inputs) - 1)  # the shell's own count may be that of the next cell already


def user_variables() -> Mapping[str, object]:
    """Return what the person has defined: the notebook's variables, without IPython's own."""
    shell = running_shell()
    if shell is None:
        return {}
    own = shell.user_ns_hidden  # what is there at the start, such as `open`; a person may define it anew
    return {
        name: value
        for name, value in shell.user_ns.items()
        if name[:1] != "_" and not (name in own and own[name] is value)
    }


def in_one_line(fault: BaseException, *, told: bool = False) -> None:
    """Have IPython say this fault in one line in the cell where it happens; `%tb` shows all of it later.

    `told` is whether the cell shows the words of it already: then the line only points to them. A machine that executes
    notebooks reports nothing but this line, which then has the words.
    """
    if (shell := running_shell()) is None:
        return
    told = told and takes_input(getattr(shell, "kernel", None))
    cell, name = shell.execution_count, type(fault).__name__
    short = told and not isinstance(fault, UsageError)  # which is a sentence, and says what to do
    line = f"{name}: see above. (%tb shows the traceback.)" if short else _in_words(fault)

    def render() -> list[str]:
        if shell.execution_count == cell:
            return [line]
        return list(shell.InteractiveTB.structured_traceback(type(fault), fault, fault.__traceback__))

    fault._render_traceback_ = render  # type: ignore[attr-defined]


def one_line(fault: HarnessError) -> list[str]:
    """Say an error of ours in one line: what `HarnessError._render_traceback_` is while the extension is loaded."""
    in_one_line(fault)
    return [_in_words(fault)]


def _in_words(fault: BaseException) -> str:
    """All that the log of a notebook's run shows of a fault; a server's words can't act on the terminal."""
    match fault:
        case asyncio.CancelledError() | KeyboardInterrupt():
            return "Interrupted."
        case UsageError():
            return visible(str(fault))
        case _:
            return f"{type(fault).__name__}: {visible(str(fault))} (%tb shows the traceback.)"
