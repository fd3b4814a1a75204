"""Tools for the notebook itself: its variables, and code in it. Book chapter 11.

Code runs on the cell's own thread and in the notebook's own variables, as if the person had run it: so it is
asked about, always shown, and ended by Stop. What it prints and draws appears in the cell, and goes to
the model, too.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Annotated

from harness_nb.errors import ToolError, UsageError
from harness_nb.events import Preview
from harness_nb.jupyter.bridge import in_the_cell
from harness_nb.jupyter.shell import Shell, running_shell, user_variables
from harness_nb.jupyter.variables import described, extent
from harness_nb.messages import Image, Text
from harness_nb.redaction import is_secret_name
from harness_nb.tools import Tool, tool

MOST = 100
"""Most variables that are listed."""

FRAMES = 3
"""Most lines of the failing code that a model is shown."""


def cell_tools() -> tuple[Tool, ...]:
    """Return the tools of the notebook that this runs in, none outside of one."""
    return (list_variables, inspect_variable, run_python, add_cell) if running_shell() is not None else ()


@tool(effects={"read"})
def list_variables() -> str:
    """List the notebook's variables with their types and sizes. Changes nothing; look at a value with inspect_variable."""
    scope = {name: value for name, value in user_variables().items() if not isinstance(value, Tool)}
    lines = [f"{name}: {type(value).__name__}{extent(value)}" for name, value in list(scope.items())[:MOST]]
    if len(scope) > MOST:
        lines.append(f"[{len(scope) - MOST:,} more are not listed; inspect_variable shows any by name]")
    return "\n".join(lines) or "The notebook has no variables yet."


@tool(effects={"read"})
def inspect_variable(name: Annotated[str, "one variable's name, no expression"]) -> list[Text | Image]:
    """Show one variable of the notebook: type, size and the start of its value; of a table its columns, of numbers their range.

    Changes nothing and runs no code of yours. What looks like a secret is left out.
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
    dtypes = getattr(value, "dtypes", None)
    columns = getattr(value, "columns", None)
    if dtypes is None or columns is None:
        return ""
    try:
        pairs = [f"{column}: {kind}" for column, kind in zip(columns, dtypes, strict=False)]
    except Exception:  # noqa: BLE001 - a value's own code may raise anything
        return ""
    kept = [pair for pair in pairs if not is_secret_name(pair.partition(":")[0])][:MOST]
    return f"Columns: {', '.join(kept)}"


def _range(value: object) -> str:
    if type(value).__module__.partition(".")[0] != "numpy" or not getattr(value, "size", 0):
        return ""
    try:
        known = value[value == value]  # type: ignore[index]  # noqa: PLR0124 - NaN alone is not itself
        facts = (
            [f"{name} {getattr(known, name)():.6g}" for name in ("min", "max", "mean")] if known.size else []
        )
        missing = value.size - known.size  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - not numbers
        return ""
    kind = f"dtype {getattr(value, 'dtype', '?')}"
    return ", ".join([kind, *facts, *([f"{missing:,} NaN"] if missing else [])])


def _picture(value: object) -> Image | None:
    if not (type(value).__module__.startswith("matplotlib.") and hasattr(value, "savefig")):
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
    unless asked to. Plots appear in the cell. The person is asked first. An error is returned with its last lines.
    """
    shell = _shell()
    return await in_the_cell(lambda: _run(shell, code))


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

    try:
        compile(shell.transform_cell(code), "<code>", "exec")  # type: ignore[no-untyped-call]
    except SyntaxError as wrong:
        raise ToolError(
            f"Nothing was run, since this is not Python: {wrong}. Top-level await does not work here."
        ) from None
    with capture_output() as captured:
        result = shell.run_cell(code, store_history=False)  # type: ignore[no-untyped-call]
    captured.show()  # type: ignore[no-untyped-call]
    fault = result.error_before_exec or result.error_in_exec
    if isinstance(fault, KeyboardInterrupt):
        raise fault
    shown: list[Text | Image] = [
        Text(text) for text in (captured.stdout, captured.stderr) if text.strip() and fault is None
    ]
    for output in captured.outputs:
        shown += _forms(output.data)
    if fault is not None:
        raise ToolError("\n".join([*(part.text for part in shown if isinstance(part, Text)), _told(fault)]))
    return shown or [Text("It ran, and showed nothing.")]


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
