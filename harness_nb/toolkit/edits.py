"""Changing files: tools that replace a text, replace lines, write and append, inside one workspace. Book chapters 4 and 11.

Each shows the change to a person as a diff before it is done, and afterwards tells the model how the place
reads now, with its line numbers, so that the next edit needs no other look.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from harness_nb.errors import ToolError
from harness_nb.events import Preview
from harness_nb.seams import Run
from harness_nb.strict import clean
from harness_nb.toolkit.changes import Added, Change, Exact, Lines, Whole
from harness_nb.toolkit.desk import Desk, Draft
from harness_nb.toolkit.document import Document
from harness_nb.toolkit.files import looking, shortened
from harness_nb.toolkit.search import Hidden, nothing
from harness_nb.toolkit.seen import Seen
from harness_nb.tools import Tool, tool
from harness_nb.workspace import Workspace

AROUND = 2
"""Lines shown on either side of a change."""

SHOWN = 20
"""Most lines shown after an edit; of more, the first and the last."""

CONTEXT = 3
"""Unchanged lines on either side of a change in a diff."""

COMPARED = 4_000
"""Most lines that are compared one by one for a diff; of more, all old ones come before all new ones."""

DIFF = 40_000
"""Most characters of a diff: beyond, its middle is left out, and says so."""

KEPT = "Keeps encoding, line ends, a missing last line end and the mode. Refuses a file changed since it was read."

EXACT = f"""Replace one piece of text in a file of the workspace.

Needs `old` exactly as it stands in the file, blanks and all, without line numbers, and found there exactly once:
quote as much around it as that takes. Changes nothing else, and nothing at all when it fails. {KEPT}
Returns how the place reads now, as `12: text`. Prefer it to write_file and to shell commands such as sed."""

LINES = f"""Replace, insert or delete whole lines of a file in the workspace, by their numbers.

Needs numbers from the last look at the file: read it first. Both ends are included; end_line = start_line - 1
inserts before start_line, an empty text deletes. After it, later lines have other numbers. {KEPT}
Returns how the place reads now, as `12: text`. Prefer edit_file where the text can be quoted."""

WHOLE = f"""Write a whole text file in the workspace: a new one, or all of one that was read before.

Makes the directories that are missing. What the file held is lost. {KEPT}
Returns how its start and end read now. Prefer edit_file to change part of a file, append_file to add to one."""

ADDED = f"""Add text at the end of a file in the workspace; makes the file if there is none.

Begins on a new line, even if the last line has no end. Writes no line end after the text unless you give one. {KEPT}
Returns how the end reads now, as `12: text`. Prefer it to write_file for lists, notes and logs that grow."""

FilePath = Annotated[str, "relative to the workspace"]


def editing(workspace: str | Path | None = None, hidden: Hidden = nothing) -> tuple[Tool, ...]:
    """Make all file tools of a workspace, those that look and those that change; None is the current directory.

    They share what has been read, so that an edit of a file that was changed since is refused: make
    them once a session. `hidden` tells of a path, relative to the workspace, whether glob and grep pass
    over it: a policy decides on the directory that a search names, not on each file below it.
    """
    seen = Seen()
    desk = Desk(Workspace(workspace), seen)

    def made(function: Callable[..., str], words: str, kind: Callable[..., Change]) -> Tool:
        def preview(arguments: Mapping[str, object]) -> Preview:
            given = dict(arguments)
            return previewed(desk, str(given.pop("path")), kind(**given))

        return tool(effects={"read", "write"}, description=words, preview=preview)(function)

    def edit_file(
        path: FilePath,
        old: Annotated[str, "the text to replace, exactly as it stands in the file"],
        new: Annotated[str, "the text to put in its place"],
        run: Run,
    ) -> str:
        return report(desk.change(path, Exact(old, new), run))

    def edit_lines(
        path: FilePath,
        start_line: Annotated[int, "first line to replace, counted from 1"],
        end_line: Annotated[int, "last line to replace; start_line - 1 to insert"],
        text: Annotated[str, "the new lines; empty to delete"],
        run: Run,
    ) -> str:
        return report(desk.change(path, Lines(start_line, end_line, text), run))

    def write_file(path: FilePath, text: Annotated[str, "all that the file shall hold"], run: Run) -> str:
        return report(desk.change(path, Whole(text), run))

    def append_file(path: FilePath, text: Annotated[str, "what to add"], run: Run) -> str:
        return report(desk.change(path, Added(text), run))

    return (
        *looking(workspace, seen, hidden),
        made(edit_file, EXACT, Exact),
        made(edit_lines, LINES, Lines),
        made(write_file, WHOLE, Whole),
        made(append_file, ADDED, Added),
    )


def report(draft: Draft) -> str:
    """Tell how the changed place reads now, with line numbers, and how long the file is."""
    after = Document.read(draft.after)
    total = len(after.lines)
    first = after.text.count("\n", 0, draft.splice.start) + 1
    last = first + draft.splice.new.removesuffix("\n").count("\n")
    start, stop = max(first - AROUND, 1), min(last + AROUND, total)
    rows = [f"{n}: {shortened(after.lines[n - 1])}" for n in range(start, stop + 1)]
    if len(rows) > SHOWN:
        half = SHOWN // 2
        rows[half:-half] = [f"[{len(rows) - 2 * half:,} lines left out]"]
    said = "made" if draft.before is None else "changed"
    return "\n".join([*rows, f"[{draft.place.name}: {said}; {total:,} line{'s' * (total != 1)} now]"])


def previewed(desk: Desk, path: str, change: Change) -> Preview:
    """Show what a change would do as a unified diff, or why it would do nothing."""
    try:
        return Preview("diff", diff(desk.draft(path, change)))
    except ToolError as fault:
        return Preview("diff", f"(this call would fail: {fault})")


def diff(draft: Draft) -> str:
    """Write a change as a unified diff, at most DIFF characters of it."""
    old, new = draft.document.lines, Document.read(draft.after).lines
    name = draft.place.name
    head = max(_same(old, new) - CONTEXT, 0)
    tail = max(_same(old[head:][::-1], new[head:][::-1]) - CONTEXT, 0)
    old, new = (_ended(lines[head : len(lines) - tail]) for lines in (old, new))
    if len(old) + len(new) > COMPARED:
        sizes = f"@@ -{head + 1},{len(old)} +{head + 1},{len(new)} @@\n"
        body = [sizes, *(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    else:
        body = [_moved(line, head) for line in list(difflib.unified_diff(old, new))[2:]]
    before = "/dev/null" if draft.before is None else f"a/{name}"
    text = clean("".join([f"--- {before}\n", f"+++ b/{name}\n", *body]))
    if len(text) <= DIFF:
        return text
    half = DIFF // 2
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters of this diff left out]\n{text[-half:]}"


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the lines that are the same at the start."""
    shorter = min(len(one), len(other))
    return next((n for n in range(shorter) if one[n] != other[n]), shorter)


def _ended(lines: Sequence[str]) -> list[str]:
    return [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]


def _moved(line: str, lines: int) -> str:
    """Count a hunk's line numbers from the file's start, of which so many lines were left out."""
    if not (found := re.fullmatch(r"@@ -(\d+)(\S*) \+(\d+)(\S*) @@\n", line)):
        return line
    return f"@@ -{int(found[1]) + lines}{found[2]} +{int(found[3]) + lines}{found[4]} @@\n"
