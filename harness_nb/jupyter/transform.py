"""Cells with `%agent`, `%context` or `%resume` in them, rewritten before IPython reads them: the call is awaited, the prompt arrives word for word.

Theory of operation. IPython would expand `{x}` and `$x` in a magic's line, take a trailing `?` for a
question about an object, and not await anything. So the line is replaced by a Python call with the
prompt as a string literal, and IPython has nothing left to change:

    %agent why??                 await ....line('why??')
    answer = %agent add {a}      answer = await ....line('add {a}')
    def f():                     def f():
        %agent hello                 get_ipython().run_line_magic('agent', 'hello')

Only a statement is rewritten, never text that looks like one: the lines above it are tokenised, which
tells whether it stands at the start of a statement or inside a string or brackets, and in which block.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

How: TypeAlias = Literal["await", "block"]
Transformer: TypeAlias = Callable[[list[str]], list[str]]
"""What IPython takes in `input_transformers_cleanup`: the lines of a cell, each with its end."""

CALLS = {
    ("await", "agent"): "await get_ipython().magics_manager.registry['AgentMagics'].line({0!r})",
    ("await", "context"): "await get_ipython().magics_manager.registry['AgentMagics'].context_line({0!r})",
    ("await", "cell"): "await get_ipython().magics_manager.registry['AgentMagics'].cell({0!r}, {1!r})",
    ("await", "resume"): "await get_ipython().magics_manager.registry['AgentMagics'].resume_line({0!r})",
    ("block", "agent"): "get_ipython().run_line_magic('agent', {0!r})",
    ("block", "context"): "get_ipython().run_line_magic('context', {0!r})",
    ("block", "resume"): "get_ipython().run_line_magic('resume', {0!r})",
    ("block", "cell"): "get_ipython().run_cell_magic('agent', {0!r}, {1!r})",
}

GAP = r"[ \t\u00a0\u202f\u3000]+"
"""What may stand between `%agent` and the prompt: pasted text has spaces of other kinds."""

LINE = re.compile(
    rf"(?P<before>[ \t]*|.*?=[ \t]*|[ \t]*return[ \t]+)%(?P<magic>agent|context|resume)(?:{GAP}(?P<text>.*))?",
    re.DOTALL,
)
CELL = re.compile(rf"(?P<indent>[ \t]*)%%agent(?:{GAP}(?P<text>.*))?", re.DOTALL)
OTHER = re.compile(r"(?P<before>[ \t]*|[\w., \t]+=[ \t]*)[%!?]")
"""Another line of IPython's own that Python's tokeniser can't read."""

MARK = "_here_"
ERROR = "?"
OPENING, CLOSING = {"(", "[", "{"}, {")", "]", "}"}


def transformers(awaits: Callable[[], bool]) -> tuple[Transformer, Transformer]:
    """Make the transformers for `%%agent` and for `%agent`; `awaits` says whether the cell may await."""

    def cells(lines: list[str]) -> list[str]:
        return _kept("".join(lines), cell_rewritten("".join(lines), _how(awaits)), lines)

    def statements(lines: list[str]) -> list[str]:
        return _kept("".join(lines), lines_rewritten("".join(lines), _how(awaits)), lines)

    # So that a terminal goes on asking for lines of a `%%agent` cell, as for every cell magic.
    cells.has_side_effects = True  # type: ignore[attr-defined]
    return cells, statements


def _how(awaits: Callable[[], bool]) -> How:
    return "await" if awaits() else "block"


def _kept(before: str, after: str, lines: list[str]) -> list[str]:
    return lines if after == before else after.splitlines(keepends=True)


def cell_rewritten(source: str, how: How) -> str:
    """Rewrite a `%%agent` cell, which may have comments above it; return any other source as it is."""
    lines = source.split("\n")
    start = _first(lines)
    found = CELL.fullmatch(lines[start])
    if found is None:
        return source
    body = "\n".join(lines[start + 1 :]).removesuffix("\n")
    call = CALLS[how, "cell"].format(_text(found), body)
    return "\n".join([*lines[:start], found["indent"] + call, ""])


def lines_rewritten(source: str, how: How) -> str:
    """Rewrite each `%agent`, `%context` and `%resume` statement; return the source as it is where there is none."""
    lines = source.split("\n")
    if not any(f"%{magic}" in source for magic in ("agent", "context", "resume")) or lines[
        _first(lines)
    ].lstrip().startswith("%%"):
        return source
    python: list[str] = []  # what stands for the lines so far, readable to Python's tokeniser
    goes_on = False  # a line of IPython's own, ended by a backslash
    for number, line in enumerate(lines):
        if goes_on:
            python.append("")
            goes_on = line.endswith("\\")
        elif (found := LINE.fullmatch(line)) and (place := _place(python, found["before"], how)):
            python.append(found["before"] + MARK)
            lines[number] = found["before"] + CALLS[place, found["magic"]].format(_text(found))
        elif (found := OTHER.match(line)) and _place(python, found["before"], how):
            python.append(found["before"] + MARK)
            goes_on = line.endswith("\\")
        else:
            python.append(line)
    return "\n".join(lines)


def _first(lines: Sequence[str]) -> int:
    """Find the first line that is neither blank nor a comment."""
    said = (n for n, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#"))
    return next(said, 0)


def _text(found: re.Match[str]) -> str:
    return (found["text"] or "").removesuffix("\r")


def _place(above: Sequence[str], before: str, how: How) -> How | None:
    """Say how a call that follows `before` on the line below `above` is made; None if it is no statement."""
    source = "\n".join([*above, f"{before}{MARK}\n"])
    blocks: list[str] = []
    opener = ""
    statement: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            match token.type:
                case tokenize.INDENT:
                    blocks.append(opener)
                case tokenize.DEDENT:
                    blocks.pop()
                case tokenize.NEWLINE:
                    opener, statement = _opened(statement), []
                case tokenize.NAME if token.start == (len(above) + 1, len(before)):
                    return _called([*blocks, _opened(statement)], how) if _stands(statement) else None
                case tokenize.NAME | tokenize.OP:
                    statement.append(token.string)
                case tokenize.NL | tokenize.COMMENT:
                    pass
                case tokenize.ERRORTOKEN:
                    statement.append("" if token.string.isspace() else ERROR)
                case _:
                    statement.append("a value")
    except (tokenize.TokenError, SyntaxError):
        pass  # the cell ends inside a string or brackets, or is no Python: then IPython says so
    return None


def _opened(statement: Sequence[str]) -> str:
    """Name the kind of block that a statement opens, as far as it matters: `def`, `async def`, `class`."""
    kind = " ".join(statement[:2]) if statement[:1] == ["async"] else "".join(statement[:1])
    return kind if kind in {"def", "async def", "class"} else ""


def _called(blocks: Sequence[str], how: How) -> How:
    """Await in an `async def`, block in a `def` or a class, do as the cell does elsewhere."""
    match next((kind for kind in reversed(blocks) if kind), ""):
        case "":
            return how
        case "async def":
            return "await"
        case _:
            return "block"


def _stands(statement: Sequence[str]) -> bool:
    """Say whether a call may stand after these tokens of a statement: none, `return`, or a whole `target =`."""
    if not statement or statement == ["return"]:
        return True
    depth = sum((part in OPENING) - (part in CLOSING) for part in statement)
    return statement[-1] == "=" and depth == 0 and ERROR not in statement
