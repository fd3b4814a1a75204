"""`%context`: its commands, read and done. Each answers in one sentence; alone it shows what fills the context window."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from harness_nb.errors import UsageError
from harness_nb.jupyter.context import UNCHANGED
from harness_nb.jupyter.context_told import context_told
from harness_nb.jupyter.decision_card import DecisionCard
from harness_nb.jupyter.decision_record import card_as_html, card_as_text
from harness_nb.jupyter.effects import effect
from harness_nb.jupyter.options import session_named
from harness_nb.jupyter.session import MAIN, Session, session as session_of, session_names
from harness_nb.jupyter.shell import in_kernel, running_shell
from harness_nb.messages import Decision
from harness_nb.seams import Request

COMMANDS = {
    "undo": "take the last decision back, or the one of this number",
    "pin": "keep the message of this number word for word, brought back if need be",
    "unpin": "let it be masked or summarised again",
    "mask": "show each old tool result as one line",
    "compact": "put a summary in the place of earlier messages; the model writes it",
    "--plot": "draw what filled the window, turn by turn, as a picture",
    "help": "show this",
}
NUMBERED = {"undo": "[NUMBER]", "pin": "NUMBER", "unpin": "NUMBER"}
LONGEST = 9
"""Most digits of a number."""

ROWS, SUMMARY = 60, 4_000
"""Most lines of a decision's table, and most characters of its summary, below the cell that took it."""

PUT_OFF = "It is done before the next request of this session."


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a line asks for; `command` is empty for a look at the context."""

    command: str = ""
    number: int | None = None
    session: str = MAIN


def context_read(text: str) -> Wanted:
    """Read what follows `%context`. Raises UsageError with the fix."""
    name, text = session_named(text, "%context")
    if name and name not in session_names() and name != MAIN:
        raise UsageError(
            f"No session is called `{_short(name)}`: there is {_listed(session_names())}. {UNCHANGED}"
        )
    command, *rest = text.split() or [""]
    if command not in COMMANDS and command:
        near = difflib.get_close_matches(command, COMMANDS, n=1, cutoff=0.5)
        hint = f"did you mean `{near[0]}`?" if near else f"there is {_listed(list(COMMANDS))}."
        raise UsageError(f"`%context` knows no `{_short(command)}`: {hint} {UNCHANGED}")
    number = _number(command, rest)
    return Wanted(command, number, name or MAIN)


def _number(command: str, rest: list[str]) -> int | None:
    if command not in NUMBERED:
        if rest:
            raise UsageError(f"`%context {command}` takes nothing more: write it alone. {UNCHANGED}")
        return None
    if not rest and command == "undo":
        return None
    if len(rest) != 1 or not rest[0].isdecimal() or len(rest[0]) > LONGEST:
        given = f", not `{_short(' '.join(rest))}`" if rest else ""
        raise UsageError(
            f"Write `%context {command} {NUMBERED[command]}`, with one number{given}. {UNCHANGED}"
        )
    return int(rest[0])


async def context_done(wanted: Wanted) -> None:
    """Do what is asked, and answer below the cell. Raises UsageError or NotCompactedError where it can't be done."""
    session = session_of(wanted.session)
    if wanted.command == "compact":
        _answer(session, await session.context.compact())
        return
    context_answered(wanted)


def context_answered(wanted: Wanted) -> bool:
    """Do what needs no awaiting, if that is all that is asked, and answer below the cell; return whether it was."""
    session, number = session_of(wanted.session), wanted.number
    match wanted.command:
        case "compact":
            return False
        case "mask":
            _answer(session, session.context.mask())
        case "undo":
            session.context.undo(-1 if number is None else number)
            _say(session)
        case "pin":
            session.context.pin(number or 0)
            _say(session)
        case "unpin":
            session.context.unpin(number or 0)
            _say(session)
        case "help":
            print(context_usage())  # noqa: T201 - help is text
        case _:
            _look(session, plot=wanted.command == "--plot")
    return True


def context_usage() -> str:
    """Write the help of `%context`."""
    rows = [(f"%context {name} {NUMBERED.get(name, '')}".strip(), does) for name, does in COMMANDS.items()]
    width = max(len(name) for name, _ in rows)
    lines = "\n".join(f"    {name:{width}}   {does}" for name, does in rows)
    return f"""See what fills the model's context window, and change it. Nothing is ever lost: the record keeps all of it.

    {"%context":{width}}   look into it turn by turn: each part, each decision, the exact request
{lines}

Before a command, --session NAME means another session than `main`. In Python: `harness_nb.session().context`,
with .undo(), .pin(3), .unpin(3), .mask(), await .compact(), .fill, .turns, .decisions and .to_frame()."""


def _look(session: Session, *, plot: bool) -> None:
    """Open the inspector; where nothing is drawn, say the same as text, with the numbers to undo and pin by."""
    if in_kernel(running_shell()):
        from harness_nb.jupyter.inspector import show_context

        show_context(session, plot=plot)
    else:
        print(context_told(session))  # noqa: T201 - so that a cell answers


def _say(session: Session) -> None:
    """Say what the person just did, and how full the window is now."""
    print(session.context.last_told())  # noqa: T201 - so that a cell answers


def _answer(session: Session, decision: Decision | None) -> None:
    """Show the card of a decision that was just taken."""
    if decision is None:
        print(PUT_OFF)  # noqa: T201 - so that a cell answers
        return
    turns = session.context.turns
    request = Request(turns[-1].instructions, (), turns[-1].specs) if turns else Request("", ())
    card = DecisionCard(
        decision, effect(session.transcript.entries, decision, session.context.account, request)
    )
    at = "%agent" if session.name == MAIN else f'%agent --session "{session.name}"'
    text = card_as_text(card, at, ROWS, SUMMARY)
    if not in_kernel(running_shell()):
        print(text)  # noqa: T201 - so that a cell answers
        return
    from IPython.display import display

    drawn = {"text/html": card_as_html(card, at, ROWS, SUMMARY), "text/plain": text}
    display(drawn, raw=True)  # type: ignore[no-untyped-call]


def _listed(names: list[str]) -> str:
    return " or ".join(
        part for part in (", ".join(f"`{_short(n)}`" for n in names[:-1]), f"`{_short(names[-1])}`") if part
    )


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"
