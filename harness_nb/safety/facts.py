"""What rules and policies look at in one call: its tool, its effects, its command line, and where its paths really lead."""

# ruff: noqa: PTH111, PTH112, PTH117, PTH118, PTH207 - this runs for every call, and `os.path` is ten times as fast as `pathlib`

from __future__ import annotations

import contextlib
import functools
import glob
import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness_nb.safety.commands import WILDEST, CommandLine, every_word, parsed, wildcards
from harness_nb.seams import Call

PLACES = re.compile(
    r"(\w+_)?(path|file|filename|folder|directory|dir)s?|source|src|destination|dest|dst|target|to|from|cwd|workdir"
)
"""Names of arguments that hold a path."""

WORDY = re.compile(
    r"(\w+_)?(text|content|old|new|pattern|regex|query|prompt|message|body|code|value|data|title|description|reason|url|uri|host)s?"
)
"""Names of arguments that hold something else: what a file is to hold, what is looked for, an address."""


@functools.lru_cache(maxsize=1024)
def holds_path(argument: str) -> bool:
    """Tell whether an argument of this name holds a path."""
    return PLACES.fullmatch(argument) is not None


NAMES = 2_000
"""Most names that one pattern stands for."""

LONGEST = 4_096
"""Most characters of a path."""

WORDS = 500
"""Most words of a command line whose links are followed; more are compared as written."""

FEW = 20
"""Most folders named in a command line that its words are looked for in."""


class Facts:
    """One call, looked at. `command` is its command line, None for a tool without an argument `command`."""

    def __init__(self, call: Call, root: str) -> None:
        """Look at a call; `root` is the real path of the workspace, against which paths are resolved."""
        self.name = call.spec.name
        self.effects: frozenset[str] = call.spec.effects
        line = call.arguments.get("command")
        self.command: CommandLine | None = parsed(line) if isinstance(line, str) else None
        self._arguments = call.arguments
        self._root = root
        self._ways: dict[str, list[str]] = {}

    @functools.cached_property
    def _places(self) -> dict[str, list[tuple[str, str]]]:
        """By argument, each path as it came and where it really leads; many rules don't need to know."""
        return {
            name: [(text, located(self._root, text)) for text in texts(value)]
            for name, value in self._arguments.items()
            if holds_path(name)
        }

    @property
    def places(self) -> list[str]:
        """Where the paths that the call names really lead: relative to the workspace if in it, else absolute."""
        return [real for pairs in self._places.values() for _, real in pairs]

    @property
    def outside(self) -> list[str]:
        """Those places that are not in the workspace."""
        return [place for place in self.places if os.path.isabs(place)]

    def meant(self) -> list[str]:
        """What a pattern that names no argument is for, for a tool without a command: paths, `url`, or the only argument."""
        if self._places:
            return self.places
        if "url" in self._arguments:
            return list(texts(self._arguments["url"]))
        return list(texts(self._arguments)) if len(self._arguments) == 1 else []

    def real(self, name: str) -> list[str]:
        """The texts of one argument, paths as they really are."""
        if name in self._places:
            return [real for _, real in self._places[name]]
        return self.written(name)

    def written(self, name: str) -> list[str]:
        """The texts of one argument as they came."""
        return list(texts(self._arguments[name])) if name in self._arguments else []

    def paths(self, name: str = "") -> list[str]:
        """Every way to write the paths of one argument, or of all and whatever else may be one."""
        if name not in self._ways:
            places = self._places
            pairs = [pair for place, found in places.items() if name in {"", place} for pair in found]
            if not name:  # any other text may be a path, as far as is known
                short = [text for text in self._others() if len(text) <= LONGEST]
                pairs += [(text, located(self._root, text)) for text in short]
            self._ways[name] = self._spelled(pairs)
        return self._ways[name]

    def _others(self) -> Iterator[str]:
        """Texts that may be paths in arguments whose names don't say so; of a call that names paths, only likely ones."""
        for name, value in self._arguments.items():
            if name in self._places or (self._places and WORDY.fullmatch(name)):
                continue
            yield from (text for text in texts(value) if not (self._places and "\n" in text))

    def words(self) -> list[str]:
        """Every way to write what a word of the command line may mean, were it a path, also in a folder that the line names."""
        if " " not in self._ways:
            found = every_word(self.command.text) if self.command is not None else ()
            near = [*found[:WORDS], *self._expanded(found[:WORDS])]
            known = [(word, located(self._root, word)) for word in near]
            folders = {real: None for _, real in known if os.path.isdir(os.path.join(self._root, real))}
            loose = [word for word in found[:WORDS] if not os.path.isabs(word)]
            inner = [os.path.join(top, word) for top in [*folders][:FEW] for word in loose]
            meant = [(name, located(self._root, name)) for name in self._expanded(inner)]
            as_written = ((word, word) for word in (*found[WORDS:], *inner))
            self._ways[" "] = self._spelled([*known, *meant, *as_written])
        return self._ways[" "]

    def _expanded(self, words: Iterable[str]) -> Iterator[str]:
        """What the shell may put in place of words with `*`, `?` or `[`."""
        for word in words:
            if 0 < wildcards(word) <= WILDEST:
                with contextlib.suppress(OSError, ValueError):
                    yield from itertools.islice(glob.iglob(word, root_dir=self._root), NAMES)

    def _spelled(self, pairs: Iterable[tuple[str, str]]) -> list[str]:
        ways: dict[str, None] = {}
        for written, real in pairs:
            home = os.path.expanduser(written) if written.startswith("~") else written
            spellings = (written, home, os.path.normpath(written), real, os.path.join(self._root, real))
            ways.update(dict.fromkeys(spellings))
        return list(ways)

    def texts(self, *, paths: bool) -> list[str]:
        """Every text in the arguments; without those that may be a file's content where the call names paths."""
        if paths:
            return list(texts(self._arguments))
        return [text for name in ("url", "uri", "host") for text in self.written(name)]


def located(root: str, path: str) -> str:
    """Say where a path really leads: relative to the workspace, whose real path is `root`, if in it, else absolute."""
    if path.startswith("~"):  # a tool may take it for the home, as a shell does
        path = os.path.expanduser(path)
    if _leads_straight(root, path):
        return path
    try:
        real = os.path.realpath(os.path.join(root, path))
    except (OSError, ValueError):  # too long, or with a NUL: in no workspace
        return os.path.join(os.sep, path)
    return "." if real == root else real.removeprefix(root.rstrip(os.sep) + os.sep)


def _leads_straight(root: str, path: str) -> bool:
    """Whether a path is plainly below the workspace, without a link: most are, and this is quick to see."""
    names = path.split("/")
    if os.sep != "/" or not {"", ".", ".."}.isdisjoint(names):
        return False
    place = root
    try:
        for name in names:
            place = f"{place}/{name}"
            if stat.S_ISLNK(os.lstat(place).st_mode):
                return False
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return True


def texts(value: object) -> Iterator[str]:
    """Every text, number and truth value in JSON data, as text."""
    match value:
        case str():
            yield value
        case Mapping():
            for inner in value.values():
                yield from texts(inner)
        case Sequence():
            for inner in value:
                yield from texts(inner)
        case None:
            pass
        case _:
            yield str(value).lower() if isinstance(value, bool) else str(value)
