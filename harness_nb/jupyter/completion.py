"""Tab after `%agent`: its options, and the models, sessions and variables that they take."""

from __future__ import annotations

import re
from collections.abc import Iterable

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from harness_nb.jupyter.options import OPTIONS
from harness_nb.jupyter.session import session_names
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
    waiting = ""  # for a value of this option
    for word in filter(None, before):
        name, equals, _ = word.partition("=")
        if waiting:
            waiting = ""
        elif name not in OPTIONS:
            return fragment, ()
        elif OPTIONS[name].value and not equals:
            waiting = name
    if waiting:
        return fragment, _values(waiting)
    name, equals, value = fragment.partition("=")
    if equals:
        return value, _values(name)
    return fragment, OPTIONS if not fragment or fragment.startswith("-") else ()


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
