"""Tab after `%agent`: its options and commands, and the models, sessions, variables and calls that they take."""

from __future__ import annotations

import re
from collections.abc import Iterable

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from harness_nb.jupyter.asking import ticket
from harness_nb.jupyter.options import COMMANDS, DECISIONS, OPTIONS
from harness_nb.jupyter.session import MAIN, session, session_names
from harness_nb.jupyter.shell import user_variables

LINE = re.compile(r"\s*(?:[^%]*=\s*)?%%?agent\s+(?P<text>.*)", re.DOTALL)


@context_matcher()  # type: ignore[untyped-decorator]
def agent_matcher(context: CompletionContext) -> SimpleMatcherResult:
    """Complete what stands between `%agent` and the prompt; leave the prompt itself alone."""
    found = LINE.fullmatch(context.text_until_cursor)
    fragment, choices = _choices(found["text"]) if found else ("", ())
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
