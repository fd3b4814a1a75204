"""`%history`: its commands, read and done. Each answers in one sentence; alone it shows the runs of a session as a tree.

IPython has a magic of this name. A line of options or ranges, such as `-n 1-5`, is its own, and so is the bare name while a
session has no run; see `.github/decisions/0007-a-session-is-a-tree-of-runs.md`.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from harness_nb.errors import UsageError
from harness_nb.jupyter.history_tree import Row, Tree, spans, title
from harness_nb.jupyter.kept import Kept
from harness_nb.jupyter.options import session_named
from harness_nb.jupyter.session import MAIN, Session, session as session_of, session_names

COMMANDS = {
    "undo": "set the last run aside; the next prompt goes on from before it",
    "use": "go on from the end of the run of this number, on whatever branch it is",
    "help": "show this",
}
LONGEST = 9
"""Most digits of a number."""
WORD = re.compile(r"[A-Za-z]+(?![^\s])")
SAID = 60
"""Most characters of a prompt in a sentence."""
UNCHANGED = "Nothing has changed."


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a line asks for; `command` is empty for a look at the tree."""

    command: str = ""
    number: int = 0
    session: str = MAIN


def history_read(text: str) -> Wanted | None:
    """Read what follows `%history`; None for what is IPython's own. Raises UsageError with the fix."""
    name, text = session_named(text, "%history")
    if name:
        if name not in session_names() and not Kept(name).begun:
            raise UsageError(f"No session is called `{_short(name)}`. {UNCHANGED}")
    elif not text:
        return Wanted() if _begun(MAIN) else None
    elif WORD.match(text) is None:
        return None
    command, *rest = text.split() or [""]
    if command and command not in COMMANDS:
        near = difflib.get_close_matches(command, COMMANDS, n=1, cutoff=0.5)
        hint = (
            f"did you mean `{near[0]}`?" if near else f"there is {', '.join(f'`{one}`' for one in COMMANDS)}."
        )
        raise UsageError(f"`%history` knows no `{_short(command)}`: {hint} {UNCHANGED}")
    return Wanted(command, _number(command, rest), name or MAIN)


def _number(command: str, rest: list[str]) -> int:
    if command != "use":
        if rest:
            raise UsageError(f"`%history {command}` takes nothing more: write it alone. {UNCHANGED}")
        return 0
    if len(rest) != 1 or not (rest[0].isascii() and rest[0].isdecimal()) or len(rest[0]) > LONGEST:
        given = f", not `{_short(' '.join(rest))}`" if rest else ""
        raise UsageError(f"Write `%history use NUMBER`, with the number of one run{given}. {UNCHANGED}")
    return int(rest[0])


def _begun(name: str) -> bool:
    kept = session_of(name).kept if name in session_names() else Kept(name)
    return kept.begun


def history_done(wanted: Wanted) -> None:
    """Do what is asked, and answer below the cell. Raises UsageError where it can't be done."""
    match wanted.command:
        case "help":
            print(history_usage())  # noqa: T201 - help is text
        case "undo":
            print(undone(session_of(wanted.session)))  # noqa: T201 - so that a cell answers
        case "use":
            print(used(session_of(wanted.session), wanted.number))  # noqa: T201 - as does this
        case _:
            from harness_nb.jupyter.history import show_history

            show_history(session_of(wanted.session))


def used(session: Session, number: int) -> str:
    """Go on from the end of this run; return a sentence on what that means. Raises UsageError."""
    tree = _tree_at_rest(session)
    row = tree.row(number)
    if row.head:
        return f"The conversation is at run {number} already. {UNCHANGED}"
    before, waits, aside = tree.head, bool(session.pending), tree.aside(row)
    session.use(row.goal)
    return _told(session, f"The next prompt follows {_named(row)}", before, aside, waits=waits) + _open(row)


def undone(session: Session) -> str:
    """Set the last run aside; return a sentence on what that means. Raises UsageError."""
    before, waits = _tree_at_rest(session).head, bool(session.pending)
    run = session.undo()
    head = Tree(session.kept.history).head
    follows = f"follows {_named(head)}" if head is not None else "begins a new conversation"
    aside = [before.number] if before is not None else []
    stands = " What its tools did stands." if run.started else ""
    return _told(session, f"The next prompt {follows}", before, aside, waits=waits) + stands


def _tree_at_rest(session: Session) -> Tree:
    if session.work is not None:
        raise UsageError(
            f"Session `{_short(session.name)}` is at work on a prompt: wait for it or stop it first. {UNCHANGED}"
        )
    return Tree(session.kept.history)


def _told(session: Session, follows: str, before: Row | None, aside: list[int], *, waits: bool) -> str:
    """Say what comes next, what was set aside, and how to take that back."""
    said = [follows]
    if aside:
        said.append(f"{spans(aside)} {'is' if len(aside) == 1 else 'are'} set aside")
    if waits:
        said.append("and what waited for your decision is given up")
    back = f" To take this back: {session.kept.at} use {before.number}." if before is not None else ""
    return f"{'; '.join(said)}.{back}".replace("; and", ", and")


def _open(row: Row) -> str:
    """Say that the run which is gone to can itself go on."""
    return (
        ""
        if row.run.reason == "done"
        else f" That run was left unfinished ({row.ended}): %resume goes on with it."
    )


def _named(row: Row) -> str:
    return f"run {row.number} (“{title(row.run, SAID)}”)"


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


def history_usage() -> str:
    """Write the help of `%history`."""
    return f"""See the runs of a session as a tree, and go back in it. Nothing is ever lost: what is set aside stays on its branch.

    %history              the runs, their branches, and where the conversation is now
    %history undo         {COMMANDS["undo"]}
    %history use NUMBER   {COMMANDS["use"]}
    %history help         show this

Before a command, --session NAME means another session than `main`. A cell that is run again takes the place of its
earlier run, which becomes a branch; %agent --fork begins one on purpose. What tools did is not undone.
In Python: `harness_nb.session()`, with .undo() and .use(run).

IPython's own %history is there as before: %history -n 1-5, %history ~1/, %history -g PATTERN, and all of it as %hist."""
