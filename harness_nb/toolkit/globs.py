"""Names of files by pattern: `*`, `?`, `[...]`, `{...}`, and `**` for any directories; in time that grows with both alone."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence

from harness_nb.errors import ToolError

CHOICES = 64
"""Most patterns that one with braces may stand for."""


def patterns(pattern: str) -> list[list[str]]:
    """Split a pattern into one for each name on the way, for each choice that its braces leave; `src/` is `src/**`."""
    choices = [f"{each}**" if each.endswith("/") and each.strip("./") else each for each in _choices(pattern)]
    found = [[name for name in each.split("/") if name not in {"", "."}] for each in choices]
    if any(not names or ".." in names for names in found):
        raise ToolError("Give a pattern of names below the directory, e.g. `*.py` or `src/**/*.py`.")
    return [names if "/" in pattern else ["**", *names] for names in found]


def _choices(pattern: str) -> list[str]:
    """Write out braces: `*.{py,md}` is `*.py` and `*.md`."""
    done, todo = [], [pattern]
    while todo:
        each = todo.pop()
        if not (braces := re.search(r"\{([^{}]*)\}", each)):
            done.append(each)
        else:
            todo += [f"{each[: braces.start()]}{one}{each[braces.end() :]}" for one in braces[1].split(",")]
        if len(done) + len(todo) > CHOICES:
            raise ToolError(f"The pattern's braces leave more than {CHOICES} choices: give fewer.")
    return done


def fits(names: Sequence[str], wanted: Iterable[Sequence[str]]) -> bool:
    """Tell whether the names of a path fit one of the patterns."""
    return any(_fits(names, pattern) for pattern in wanted)


def _fits(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether the names of a path fit a pattern's; `**` stands for any number of them."""
    reached = _past_stars({0}, pattern)
    for name in names:
        passed = {n for n in reached if n < len(pattern) and pattern[n] == "**"}
        passed |= {
            n + 1 for n in reached - passed if n < len(pattern) and fnmatch.fnmatchcase(name, pattern[n])
        }
        reached = _past_stars(passed, pattern)
    return len(pattern) in reached


def _past_stars(reached: set[int], pattern: Sequence[str]) -> set[int]:
    """Add the places behind each `**` reached, since it may stand for none."""
    for n, name in enumerate(pattern):
        if name == "**" and n in reached:
            reached.add(n + 1)
    return reached
