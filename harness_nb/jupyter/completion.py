"""Tab after `%agent`, `%context`, `%cost` and `%history`: options and commands, and the models, sessions, variables, calls and numbers that they take."""

from __future__ import annotations

import re
from collections.abc import Iterable

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from harness_nb.jupyter.asking import ticket
from harness_nb.jupyter.context_commands import COMMANDS as CONTEXT_COMMANDS
from harness_nb.jupyter.cost_commands import COMMANDS as COST_COMMANDS
from harness_nb.jupyter.history_commands import COMMANDS as HISTORY_COMMANDS
from harness_nb.jupyter.history_tree import Tree
from harness_nb.jupyter.options import COMMANDS, DECISIONS, OPTIONS
from harness_nb.jupyter.session import MAIN, session, session_names
from harness_nb.jupyter.shell import user_variables

COMMANDS_LINE = re.compile(r"\s*(?:[^%]*=\s*)?%(?P<magic>context|cost|history)\s+(?P<text>.*)", re.DOTALL)
LINE = re.compile(r"\s*(?:[^%]*=\s*)?%%?agent\s+(?P<text>.*)", re.DOTALL)
STEPS = {"context": CONTEXT_COMMANDS, "cost": COST_COMMANDS, "history": HISTORY_COMMANDS}


@context_matcher()  # type: ignore[untyped-decorator]
def agent_matcher(context: CompletionContext) -> SimpleMatcherResult:
    """Complete what stands between `%agent` and the prompt; leave the prompt itself alone."""
    found = LINE.fullmatch(context.text_until_cursor)
    return _matches(context, *(_choices(found["text"]) if found else ("", ())))


@context_matcher()  # type: ignore[untyped-decorator]
def commands_matcher(context: CompletionContext) -> SimpleMatcherResult:
    """Complete the commands of `%context`, `%cost` and `%history`, and the numbers that they take."""
    found = COMMANDS_LINE.fullmatch(context.text_until_cursor)
    return _matches(context, *(_steps(found["magic"], found["text"]) if found else ("", ())))


def _matches(context: CompletionContext, fragment: str, choices: Iterable[str]) -> SimpleMatcherResult:
    fitting = sorted(choice for choice in choices if choice.startswith(fragment) and choice != fragment)
    known = max(0, len(fragment) - len(context.token))  # IPython's token may begin inside the fragment
    return SimpleMatcherResult(
        completions=[SimpleCompletion(choice[known:], type="option") for choice in fitting],
        matched_fragment=fragment[known:],
        suppress=bool(choices),
    )


def _choices(text: str) -> tuple[str, Iterable[str]]:
    """Return the fragment that ends the text, and what may stand in its place."""
    *before, fragment = text.split(" ")
    waiting, named = "", MAIN  # for a value of this option; the session
    for place, word in enumerate(before):
        name, equals, value = word.partition("=")
        if not word:
            continue
        if waiting:
            named = word if waiting == "--session" else named
            waiting = ""
        elif name not in OPTIONS:
            rest = [other for other in before[place + 1 :] if other]
            tickets = _tickets(named) if name in DECISIONS and not rest else []
            return fragment, [name for name in tickets if name.startswith(fragment)]
        elif OPTIONS[name].value and not equals:
            waiting = name
        elif name == "--session":
            named = value
    if waiting:
        return fragment, _values(waiting)
    name, equals, value = fragment.partition("=")
    if equals:
        return value, _values(name)
    if not fragment or fragment.startswith("-"):
        return fragment, OPTIONS if fragment else (*OPTIONS, *COMMANDS)
    return fragment, [command for command in COMMANDS if command.startswith(fragment)]


def _steps(magic: str, text: str) -> tuple[str, Iterable[str]]:
    """Do the same for the other magics."""
    before = text.split()
    fragment = "" if not before or text[-1].isspace() else before.pop()
    named = MAIN
    if before[:1] == ["--session"]:
        if len(before) == 1:
            return fragment, session_names()
        named, before = before[1], before[2:]
    match before:
        case []:
            return fragment, ["--session", *STEPS[magic]]
        case _ if magic == "cost":
            return fragment, ["--plot"] if len(before) == 1 and before[0] not in {"help", "--plot"} else ()
        case ["use"] if magic == "history":
            return fragment, _numbers(_branches(named))
        case _ if magic == "history":
            return fragment, ()
        case ["undo"]:
            return fragment, _numbers(_holding(named))
        case ["unpin"]:
            return fragment, _numbers(_pinned(named))
        case _:
            return fragment, ()


def _numbers(numbers: Iterable[int]) -> list[str]:
    return [str(number) for number in numbers]


def _holding(name: str) -> list[int]:
    """Number the decisions that can be taken back."""
    if name not in session_names():
        return []
    context = session(name).context
    holding = {decision.id for decision in context.transcript.standing()}
    return [n for n, d in enumerate(context.decisions, 1) if d.id in holding and not d.undoes]


def _pinned(name: str) -> list[int]:
    if name not in session_names():
        return []
    transcript = session(name).context.transcript
    pinned = transcript.pinned()
    return [n for n, message in enumerate(transcript.messages, 1) if message.id in pinned]


def _branches(name: str) -> list[int]:
    """Number the last run of each branch, where the journal is open: it is not opened by asking."""
    if name not in session_names() or not session(name).kept.opened:
        return []
    return [row.number for row in Tree(session(name).kept.history).rows if row.ends and not row.head]


def _tickets(name: str) -> list[str]:
    """Name the calls that wait in this session, which is not made by asking."""
    return [ticket(question.id) for question in session(name).pending] if name in session_names() else []


def _values(option: str) -> Iterable[str]:
    match option:
        case "--model":
            return ("local", "anthropic:", "openai:", "chat:", "replay:")
        case "--session":
            return session_names()
        case "--with":
            return user_variables()
        case _:
            return ()
