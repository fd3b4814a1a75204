"""The words of `%agent`: its options, read off the front of a line, and everything after them as the prompt.

Options are only looked for at the start of a line, never in a cell's body. A word that is no option
begins the prompt; `--` ends the options where the prompt itself begins with two dashes.

Commands, such as `help`, are told from prompts by being the whole of what was typed: `%agent help` is
the command, `%agent help me` and `%agent -- help` are prompts, and a cell's body is always a prompt.
A decision on a call that waits is `approve`, `deny` or `edit` alone or with the call's name behind it, such
as `q041775`: `%agent approve the plan` is a prompt.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field, replace
from decimal import Decimal

from harness_nb.errors import UsageError


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name, what stands for its value in the help (empty for none), and what it does."""

    name: str
    value: str
    does: str


OPTIONS = {
    option.name: option
    for option in (
        Option("--model", "NAME", "ask this model this time, e.g. local or anthropic:MODEL"),
        Option("--session", "NAME", "carry on the conversation of this name; it is made on first use"),
        Option("--new", "", "begin a new conversation; what was said before is set aside"),
        Option("--fork", "", "begin a branch: the conversation up to here stays one of its own (%history)"),
        Option("--with", "VARIABLE", "describe this notebook variable to the model; may be repeated"),
        Option("--turns", "NUMBER", "end the run after so many turns of the model"),
        Option("--seconds", "NUMBER", "end the run after so many seconds, waiting for you left out"),
        Option("--tokens", "NUMBER", "end the run before it uses more tokens, in and out"),
        Option("--dollars", "AMOUNT", "end the run before it costs more, e.g. 0.50"),
        Option("--window", "NUMBER", "take the model's context window to be so many tokens"),
        Option("--help", "", "show this"),
    )
}
COMMANDS = {
    "approve": "let a call run that waits for you",
    "deny": "refuse it, with a reason for the model",
    "edit": "let it run with other arguments",
    "help": "show this",
    "permissions": "say which rules there are, what was allowed, and what they decided",
}

DECISIONS = ("approve", "deny", "edit")
DECISION = re.compile(rf"({'|'.join(DECISIONS)})(?:\s+(q\d{{6}})(?:\s+(.*))?)?\s*", re.DOTALL)
AMOUNT = re.compile(r"\$?[0-9]{1,6}(\.[0-9]{1,6})?")
WORD = re.compile(r"(--[^\s=]*)(=?)")
VALUE = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|(\S+))(?=\s|$)""")
SESSION = re.compile(r"""--session(?:\s+|=)(?:"([^"]*)"|'([^']*)'|(?!--)(\S+))(?:\s+|$)""")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a line or a cell asks for. `command` is what to do instead of a run: `help`, `new`, or empty for a run."""

    prompt: str = ""
    command: str = ""
    model: str = ""
    session: str = ""
    new: bool = False
    fork: bool = False
    variables: tuple[str, ...] = field(default=())
    turns: int | None = None
    window: int | None = None
    seconds: int | None = None
    tokens: int | None = None
    dollars: Decimal | None = None
    ticket: str = ""
    """Which call is decided, `words` the reason or the arguments that follow."""
    words: str = ""


def line_read(text: str) -> Asked:
    """Read what follows `%agent`. Raises UsageError with the fix, before anything is sent."""
    asked, prompt, ended = _options(text)
    if not ended and (found := DECISION.fullmatch(prompt)):
        return _decision(asked, found)
    if prompt.strip() in COMMANDS and not ended:
        return replace(asked, command=prompt.strip())
    if asked.new and not prompt.strip():
        return replace(asked, command=asked.command or "new")
    return replace(asked, prompt=prompt)


def cell_read(text: str, body: str) -> Asked:
    """Read a `%%agent` cell: options on its first line, words after them and the body are the prompt."""
    if not body.strip():
        asked = line_read(text)  # the prompt was forgotten: don't give up a conversation for that
        return replace(asked, command="") if asked.command == "new" else asked
    asked, words, _ = _options(text)
    return replace(asked, prompt=f"{words}\n{body}" if words.strip() else body)


def _decision(asked: Asked, found: re.Match[str]) -> Asked:
    command, ticket, words = found[1], found[2] or "", (found[3] or "").strip()
    if command == "approve" and words:
        raise UsageError(
            f"`approve` takes a call's name and no more: %agent approve {ticket}. Nothing was sent or run."
        )
    if command == "deny" and len(words) > 1 and words[0] == words[-1] and words[0] in "\"'":
        words = words[1:-1]
    return replace(asked, command=command, ticket=ticket, words=words)


def resume_read(text: str) -> Asked:
    """Read what follows `%resume`: options, and the name of a session. Raises UsageError with the fix."""
    asked, rest, _ = _options(text)
    name = rest.strip()
    found = VALUE.fullmatch(rest.rstrip()) if name else None
    if name and (found is None or asked.session):
        raise UsageError(
            f"%resume takes the name of one session and no prompt, not `{_cut(name)}`. Nothing was run."
        )
    if asked.new or asked.fork or asked.variables or asked.window:
        raise UsageError(
            "%resume takes --model, --turns, --seconds, --tokens and --dollars. Nothing was run."
        )
    return replace(asked, session=asked.session or (found[found.lastindex or 0] if found else ""))


def session_named(text: str, magic: str) -> tuple[str, str]:
    """Take `--session NAME` off the front of what follows a magic; return the name, empty where none is said, and the rest.

    Raises UsageError where the name is missing.
    """
    text = text.strip()
    if re.match(r"--session(?![^\s=])", text) is None:
        return "", text
    if (found := SESSION.match(text)) is None:
        raise UsageError(f"`--session` needs a value: {magic} --session NAME. Nothing has changed.")
    return found[1] or found[2] or found[3] or "", text[found.end() :].strip()


def usage() -> str:
    """Write the help of `%agent`."""
    rows = [(f"{option.name} {option.value}".strip(), option.does) for option in OPTIONS.values()]
    width = max(len(name) for name, _ in rows)
    options = "\n".join(f"    {name:{width}}   {does}" for name, does in rows)
    return f"""Ask the agent, and watch it work in the cell.

    %agent [options] PROMPT     one line; every character reaches the model as it stands
    %%agent [options]           the rest of the cell is the prompt
    answer = %agent PROMPT      a value: answer.text, .reason, .usage, .transcript
    %resume                     go on with a run that was cut off, stopped, or met a limit
    %history                    the runs of the session as a tree, to go back to any of them
    %cost                       what the session has cost, and what is left of its limits
    %agent permissions          what may run, what you allowed, and what was decided why
    %agent approve NAME         decide about a call that waits for you, by the name it is shown with:
    %agent deny NAME "reason"   let it run, refuse it, or let it run with other arguments; without
    %agent edit NAME {{...}}      a name, see what waits

Options, before the prompt (-- ends them):
{options}

Without a key a small embedded model answers, often wrongly beyond one question with one tool.
Better: local:qwen2.5-coder-1.5b, chat:MODEL@URL, or with a key anthropic:MODEL, openai:MODEL.

Functions with `@tool` in this notebook are the agent's tools. Stop ends a run, and the
next prompt carries on. In Python: `await harness_nb.session().run("...")`. Defaults:
`%config AgentMagics`."""


def _options(text: str) -> tuple[Asked, str, bool]:
    """Take the options off the front; return what they ask, the rest, and whether `--` ended them."""
    asked = Asked()
    rest = text.lstrip()
    while rest.startswith("--"):
        found = WORD.match(rest)
        assert found is not None  # noqa: S101 - the loop's condition
        rest, name = rest[found.end() :], found[1]
        if name == "--":
            return asked, rest[1:], True
        asked, rest = _taken(asked, name, bool(found[2]), rest)
        rest = rest.lstrip()
    return asked, rest, False


def _taken(asked: Asked, name: str, given: bool, rest: str) -> tuple[Asked, str]:  # noqa: FBT001
    """Take one option and its value; return what is asked now and what is left of the line."""
    option = OPTIONS.get(name)
    if option is None:
        raise UsageError(_unknown(name))
    if not option.value:
        if given:
            raise UsageError(f"`{name}` takes no value: write {name} alone. Nothing was sent.")
        return _flagged(asked, name), rest
    found = VALUE.match(rest)
    if found is None or (given and found.start(found.lastindex or 0) > 1) or _is_option(found):
        raise UsageError(f"`{name}` needs a value: {name} {option.value}. Nothing was sent.")
    value = found[found.lastindex or 0]
    return _set(asked, name, value), rest[found.end() :]


def _is_option(found: re.Match[str]) -> bool:
    return (found[3] or "").startswith("--")


def _set(asked: Asked, name: str, value: str) -> Asked:
    match name:
        case "--model":
            return replace(asked, model=value)
        case "--session":
            return replace(asked, session=value)
        case "--with":
            return replace(asked, variables=(*asked.variables, value))
        case "--dollars":
            return replace(asked, dollars=_amount(value))
        case "--turns":
            return replace(asked, turns=_number(name, value))
        case "--seconds":
            return replace(asked, seconds=_number(name, value))
        case "--tokens":
            return replace(asked, tokens=_number(name, value))
        case _:
            return replace(asked, window=_number(name, value))


def _flagged(asked: Asked, name: str) -> Asked:
    match name:
        case "--new":
            return replace(asked, new=True)
        case "--fork":
            return replace(asked, fork=True)
        case _:
            return replace(asked, command="help")


def _number(name: str, value: str) -> int:
    if not value.isdecimal() or len(value) > 9 or int(value) < 1:
        raise UsageError(f"`{name}` needs a number from 1 up, not `{_cut(value)}`. Nothing was sent.")
    return int(value)


def _amount(value: str) -> Decimal:
    if not AMOUNT.fullmatch(value) or not Decimal(value.removeprefix("$")):
        raise UsageError(
            f"`--dollars` needs an amount such as 0.50, above 0, not `{_cut(value)}`. Nothing was sent."
        )
    return Decimal(value.removeprefix("$"))


def _cut(value: str) -> str:
    return value if len(value) <= 20 else f"{value[:20]}…"


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, OPTIONS, n=1, cutoff=0.5)
    hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(OPTIONS)}."
    return (
        f"No option is called `{name}`: {hint} "
        "Nothing was sent; if it belongs to the prompt, write `-- ` before the prompt."
    )


RESUME = """Go on with the last run of this notebook's session, also after the kernel has died.

    %resume                     where it was left: cut off, stopped by you, out of budget, failed, or waiting for you
    %resume NAME                of the session of this name
    %resume --model NAME        with another model; --turns, --seconds, --tokens and --dollars set other limits

Calls that had their result keep it. One that had not begun asks as usual. One that was cut off runs again only if
that does no harm, if the tool's own check finds that it had no effect, or if you allow it. Where the last run was
done, the conversation comes back and nothing runs; a second time changes nothing."""
