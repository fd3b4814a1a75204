"""Tools for the notebook itself: its variables, and code in it. Book chapter 11.

Code runs on the cell's own thread and in the notebook's own variables, as if the person had run it: so it is
asked about, always shown, and ended by Stop. What it prints and draws appears in the cell, and goes to
the model, too.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Annotated, Any, cast

from harness_nb.errors import ToolError, UsageError
from harness_nb.events import Preview
from harness_nb.jupyter.bridge import in_the_cell
from harness_nb.jupyter.shell import Shell, in_kernel, running_shell, user_variables
from harness_nb.jupyter.tee import Tee
from harness_nb.jupyter.variables import described, extent, library
from harness_nb.messages import Image, Text
from harness_nb.redaction import is_secret_name
from harness_nb.tasks import being_cancelled
from harness_nb.tools import Tool, tool

MOST = 100
"""Most variables that are listed with type and size, and most columns of a table."""

NUMBERS = 20_000_000
"""Most numbers that are looked through for their range: it copies them."""

OUTPUTS = 20
"""Most plots and other displays of one piece of code that a model gets: each picture costs as much as pages of text."""

ENDED = "Interrupted while the code ran: it ended where it was, and what it had done stays done. Check before you repeat it."

FRAMES = 3
"""Most lines of the failing code that a model is shown."""


def cell_tools() -> tuple[Tool, ...]:
    """Return the tools of the notebook that this runs in, none outside of one."""
    return (list_variables, inspect_variable, run_python, add_cell) if running_shell() is not None else ()


@tool(effects={"read"})
def list_variables() -> str:
    """List the notebook's variables with their types and sizes. Changes nothing; look at a value with inspect_variable."""
    scope = {name: value for name, value in user_variables().items() if not issubclass(type(value), Tool)}
    older, newer = list(scope)[:-MOST], list(scope)[-MOST:]
    lines = [_told_of(name, scope[name]) for name in newer]
    if older:
        lines.append(f"[{len(older):,} older ones, by name alone: {', '.join(older)}]")
    return "\n".join(lines) or "The notebook has no variables yet."


def _told_of(name: str, value: object) -> str:
    try:
        return f"{name}: {type(value).__name__}{extent(value)}"
    except Exception:  # noqa: BLE001 - a value's own code may raise anything
        return f"{name}: (it can't be looked at)"


@tool(effects={"read"})
def inspect_variable(name: Annotated[str, "one variable's name, no expression"]) -> list[Text | Image]:
    """Show one variable of the notebook: type, size and the start of its value; of a table its columns, of numbers their range.

    Changes nothing and runs no code of yours, so nobody is asked. What looks like a secret is left out.
    """
    scope = user_variables()
    try:
        shown: list[Text | Image] = [Text(described(name, scope))]
    except UsageError as fault:
        raise ToolError(str(fault).removesuffix(" Nothing was sent.")) from None
    value = scope[name]
    if is_secret_name(name):
        return shown
    shown += [Text(line) for line in (_columns(value), _range(value)) if line]
    if (picture := _picture(value)) is not None:
        shown.append(picture)
    return shown


def _columns(value: object) -> str:
    frame = cast("Any", value)
    try:
        if library(value) not in {"pandas", "polars", "geopandas"}:
            return ""
        types = zip(frame.columns, frame.dtypes, strict=False)
        pairs = [f"{column}: {kind}" for column, kind in types if not is_secret_name(str(column))]
    except Exception:  # noqa: BLE001 - a series has no columns, and a value's own code may raise anything
        return ""
    more = f", and {len(pairs) - MOST:,} more" if len(pairs) > MOST else ""
    return f"Columns: {', '.join(pairs[:MOST])}{more}"


def _range(value: object) -> str:
    array = cast("Any", value)
    try:
        if library(value) != "numpy" or not array.size or array.dtype.kind not in "biuf":
            return ""
        if array.size > NUMBERS:
            return f"dtype {array.dtype}; of more than {NUMBERS:,} numbers the range is not worked out"
        known = array[array == array] if array.dtype.kind == "f" else array  # noqa: PLR0124 - NaN alone is not itself
        names = ("min", "max", "mean") if known.size else ()
        facts = [f"{name} {getattr(known, name)():.6g}" for name in names]
    except Exception:  # noqa: BLE001 - a masked array may have none
        return ""
    missing = [f"{array.size - known.size:,} NaN"] if known.size < array.size else []
    return ", ".join([f"dtype {array.dtype}", *facts, *missing])


def _picture(value: object) -> Image | None:
    if library(value) != "matplotlib" or not hasattr(value, "savefig"):
        return None
    import io

    file = io.BytesIO()
    try:
        value.savefig(file, format="png", dpi=72)
    except Exception:  # noqa: BLE001 - a figure may hold what can't be drawn; its text is there
        return None
    return Image(file.getvalue(), "image/png")


def _code(arguments: Mapping[str, object]) -> Preview:
    return Preview("code", str(arguments["code"]))


@tool(effects={"read", "write", "mutate", "network"}, preview=_code)
async def run_python(
    code: Annotated[str, "Python, as in one cell; the last expression's value is shown"],
) -> list[Text | Image]:
    """Run Python code in the person's notebook, with its variables, and return what it prints and shows.

    It is the person's own session: names you assign stay, so choose new ones, and don't change their data
    unless asked to. Plots appear in the cell, and `input()` asks the person. Top-level await does not work. The
    person is asked first. An error is returned with its last lines. Prefer inspect_variable to look at a value.
    """
    shell = _shell()
    try:
        return await in_the_cell(lambda: _run(shell, code))
    except asyncio.CancelledError:
        if being_cancelled():
            raise
        raise ToolError(ENDED) from None  # the interrupt was the code's; the run hears of it next


@tool(effects={"write"}, preview=_code)
def add_cell(code: Annotated[str, "the source of the new cell"]) -> str:
    """Propose code as the notebook's next cell, for the person to read, change and run. Nothing is run.

    There is one next cell: code of a second call is put below that of the first.
    """
    shell = _shell()
    # A cell has one next cell, and a second payload would replace the first: what is proposed adds up.
    waiting = shell.payload_manager.read_payload() if shell.payload_manager is not None else []
    before = [str(item["text"]) for item in waiting if item.get("source") == "set_next_input"]
    shell.set_next_input("\n\n".join([*before, code]))
    return "The code stands in a new cell below. It has not run: the person decides."


def _shell() -> Shell:
    shell = running_shell()
    if shell is None:
        raise ToolError("There is no notebook here to run code in.")
    return shell


def _run(shell: Shell, code: str) -> list[Text | Image]:
    """Run code as a cell is run, show what comes of it, and return the same for the model."""
    from IPython.utils.capture import capture_output

    _check(shell, code)
    out, err = Tee(sys.stdout), Tee(sys.stderr)
    drawing = capture_output(stdout=False, stderr=False)
    with redirect_stdout(out), redirect_stderr(err), _kept_alive(shell), drawing as drawn:
        result = shell.run_cell(code, store_history=False)  # type: ignore[no-untyped-call]
    drawn.show()  # type: ignore[no-untyped-call]
    fault = result.error_before_exec or result.error_in_exec
    if isinstance(fault, KeyboardInterrupt):
        raise fault
    # Outside of a kernel IPython prints the traceback, too, among what the code printed.
    readable = fault is None or in_kernel(shell)
    shown: list[Text | Image] = [Text(tee.kept) for tee in (out, err) if readable and tee.kept.strip()]
    for output in drawn.outputs[:OUTPUTS]:
        shown += _forms(output.data)
    if (more := len(drawn.outputs) - OUTPUTS) > 0:
        shown.append(Text(f"[{more:,} more outputs stand in the cell alone]"))
    if fault is not None:
        raise ToolError("\n".join([*(part.text for part in shown if isinstance(part, Text)), _told(fault)]))
    return shown or [Text("It ran, and showed nothing.")]


def _check(shell: Shell, code: str) -> None:
    """Refuse what is no Python, before any of it runs. Raises ToolError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they come when it runs
            compile(shell.transform_cell(code), "<code>", "exec")  # type: ignore[no-untyped-call]
    except (SyntaxError, ValueError) as wrong:
        hint = " Top-level await does not work here." if "await" in str(wrong) else ""
        raise ToolError(f"Nothing was run, since this is not Python: {wrong}.{hint}") from None


@contextmanager
def _kept_alive(shell: Shell) -> Iterator[None]:
    """Refuse `exit()`, with which models like to end a script: here it would end the kernel, and lose all variables."""

    def refuse() -> None:
        raise RuntimeError("exit() would end the notebook's kernel, and was not done")

    shell.ask_exit = refuse  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del shell.ask_exit  # type: ignore[attr-defined]


def _forms(forms: Mapping[str, object]) -> list[Text | Image]:
    import base64

    if isinstance(picture := forms.get("image/png"), str):
        return [Image(base64.b64decode(picture), "image/png")]
    if isinstance(picture, bytes):
        return [Image(picture, "image/png")]
    return [Text(str(forms["text/plain"]))] if forms.get("text/plain") else []


def _told(fault: BaseException) -> str:
    """The end of a traceback: the lines of the code that failed, and why."""
    frames = [
        f
        for f in traceback.extract_tb(fault.__traceback__)
        if "ipython-input" in f.filename or "ipykernel" in f.filename
    ]
    lines = [f"line {frame.lineno}: {frame.line}" for frame in frames[-FRAMES:] if frame.line]
    return "\n".join([*lines, "".join(traceback.format_exception_only(fault)).strip()])
