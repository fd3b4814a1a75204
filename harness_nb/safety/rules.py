"""Rules about tool calls, written as one line of text and matched strictly to allow, generously to deny. Book chapter 14.

    answer  subject  [pattern]

    allow   shell    git status          exactly this command
    allow   shell    git diff *          this command, with any further words
    deny    shell    rm                  every command that starts, or may start, `rm`
    ask     write    prices/**           tools that write, on these paths
    allow   http_get url=https://api.example.com/**

The answer is `allow`, `ask` or `deny`. The subject is a tool's name, in which `*` stands for anything, or
effects: `read`, `write`, `network`, `mutate`, `spend` joined by commas, or `undeclared`. Without a pattern the
rule is about every call of them. A pattern is for the command of a tool that has an argument `command`,
else for the paths it names, else for its `url` or its only argument; `name=glob` names the argument. In a
glob `*` stands for anything but `/`, and `**` for anything. Paths are relative to the workspace, or absolute,
and compared where they really lead.

The order of rules does not matter: what denies wins over what asks, and that over what allows. A rule that
allows is read strictly. One that asks or denies is read generously: in any case of letters, for whatever is
in a folder, for a name without `/` anywhere, for a command's words with others between them.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from harness_nb.errors import UsageError
from harness_nb.safety.commands import CommandLine, Segment, loose_words, parsed
from harness_nb.safety.facts import Facts
from harness_nb.safety.programs import INTERPRETERS, WRAPPERS, program
from harness_nb.seams import Effect

Ruling = Literal["allow", "ask", "deny"]
"""What a rule or a policy says of a call."""

EFFECTS = frozenset({*get_args(Effect), "undeclared"})

SUBJECT = re.compile(r"[\w.,*?!\[\]-]+")
NAMED = re.compile(r"[A-Za-z_]\w*=")

EXAMPLE = "write it like `allow shell git status`, `ask write prices/**` or `deny shell rm`"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `str()` gives its text back; `source` says where it was written, empty for Python."""

    answer: Ruling
    subject: str
    pattern: str = ""
    source: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.answer, self.subject, self.pattern) if part)

    @property
    def cited(self) -> str:
        """The rule as a sentence names it: its text, and where it was written."""
        return f"`{self}`" + (f" ({self.source})" if self.source else "")

    @property
    def about_effects(self) -> bool:
        """Whether the subject is effects and not a tool's name."""
        return _names(self.subject) <= EFFECTS

    def concerns(self, name: str, effects: frozenset[str]) -> bool:
        """Tell whether the rule is about this tool or its effects, whatever the arguments are."""
        if self.answer != "allow" and name.casefold() == self.subject.casefold():
            return True
        if not self.about_effects:
            return _glob(self.subject, folded=self.answer != "allow").fullmatch(name) is not None
        named = _names(self.subject)
        if not effects:
            return "undeclared" in named
        # To allow, all that the tool may do must be named; reading is the least of it. To deny, any will do.
        enough = self.answer != "allow" or effects - named <= {"read"}
        return enough and not named.isdisjoint(effects)

    def fits(self, facts: Facts) -> bool:
        """Tell whether a call of a tool that the rule concerns is one it means, by its arguments.

        It is strict if the rule allows, generous if it asks or denies. A pattern that allows commands is
        judged for each command of a line by `allows`, not here.
        """
        if not self.pattern:
            return True
        if facts.command is not None and self.answer == "allow":
            return False
        if NAMED.match(self.pattern):
            return all(self._fits_argument(facts, name, glob) for name, glob in _wanted(self.pattern))
        if facts.command is not None:
            return self._may_concern(facts, facts.command)
        if self.answer == "allow":
            return _all_match(self.pattern, facts.meant())
        paths = facts.paths()
        near = any(_within(self.pattern, path) for path in paths)
        return near or any(_looks_like(self.pattern, text) for text in facts.texts(paths=not facts.places))

    def allows(self, segment: Segment, facts: Facts) -> bool:
        """Tell whether a rule that allows and concerns the tool allows this one command of its command line."""
        named = bool(NAMED.match(self.pattern)) or self.about_effects  # such a pattern is not for commands
        return bool(self.pattern) and not named and not facts.outside and _covers(self.pattern, segment)

    def _may_concern(self, facts: Facts, line: CommandLine) -> bool:
        """Tell whether a command line may do what the rule is about: name its paths, or start its command."""
        if not self.about_effects:
            return _may_start(self.pattern, line)
        return any(_within(self.pattern, word) for word in facts.words())

    def _fits_argument(self, facts: Facts, name: str, pattern: str) -> bool:
        if self.answer == "allow":
            return _all_match(pattern, facts.real(name))
        return any(_within(pattern, path) for path in facts.paths(name)) or any(
            _looks_like(pattern, text) for text in facts.written(name)
        )


def rule(text: str, source: str = "") -> Rule:
    """Read a rule from its text. Raises UsageError, in one sentence, for one that can't be meant."""
    answer, subject, pattern = [*text.strip().split(None, 2), "", "", ""][:3]
    where = f" in {source}" if source else ""
    if answer not in get_args(Ruling):
        raise UsageError(f"The rule `{text}`{where} must start with allow, ask or deny: {EXAMPLE}.")
    if not subject:
        raise UsageError(f"The rule `{text}`{where} names no tool and no effect: {EXAMPLE}.")
    if not SUBJECT.fullmatch(subject):
        raise UsageError(f"The rule `{text}`{where} names no tool by `{subject}`: {EXAMPLE}.")
    names = subject.split(",")
    if len(names) > 1 and (wrong := [name for name in names if name not in EFFECTS]):
        raise UsageError(
            f"The rule `{text}`{where} joins effects by commas, and no effect is called `{wrong[0]}`."
        )
    pattern = pattern.strip()
    try:
        _glob(pattern), _glob(subject)
    except re.error:
        raise UsageError(f"The rule `{text}`{where} has brackets that say nothing.") from None
    if NAMED.match(pattern):
        try:
            wrong = [item for item in shlex.split(pattern) if not NAMED.match(item)]
        except ValueError:
            wrong = [pattern]
        if wrong:
            raise UsageError(f"The rule `{text}`{where} needs name=glob throughout; `{wrong[0]}` is not.")
    elif subject == "shell" and pattern and (why := _no_command(pattern, strict=answer == "allow")):
        raise UsageError(f"The rule `{text}`{where} must hold one plain command: {why}.")
    return Rule(cast("Ruling", answer), subject, pattern, source)


def rules(texts: Iterable[str | Rule], source: str = "") -> tuple[Rule, ...]:
    """Read rules from their texts; those that are rules already stay as they are. Raises UsageError."""
    return tuple(item if isinstance(item, Rule) else rule(item, source) for item in texts)


@functools.lru_cache(maxsize=1024)
def _wanted(pattern: str) -> tuple[tuple[str, str], ...]:
    """The arguments that a pattern names, and the glob of each."""
    return tuple(item.partition("=")[::2] for item in shlex.split(pattern))


def _all_match(pattern: str, texts: Sequence[str]) -> bool:
    """Whether there are texts and all match; an address whose host is spelled oddly never does."""
    glob = _glob(_as_path(pattern))
    return bool(texts) and all(glob.fullmatch(text) and _plain_address(text) for text in texts)


def _plain_address(text: str) -> bool:
    return "://" not in text or re.match(r"[a-z]+://[A-Za-z0-9.-]+(:\d+)?(/|$)", text) is not None


def _within(pattern: str, path: str) -> bool:
    """Whether the glob may be about the path or a folder above it; one without `/` may be about any name in it."""
    return _path_glob(pattern).fullmatch(_same_form(path)) is not None


@functools.lru_cache(maxsize=1024)
def _path_glob(pattern: str) -> re.Pattern[str]:
    glob = _loose_glob(_as_path(pattern).removesuffix("/**"))
    above = "" if "/" in pattern else "(?:.*/)?"
    return re.compile(f"{above}(?:{glob.pattern})(?:/.*)?", glob.flags)


def _as_path(pattern: str) -> str:
    home = os.path.expanduser(pattern) if pattern.startswith("~/") else pattern  # noqa: PTH111 - it is a text
    return home.removeprefix("./")


def _looks_like(pattern: str, text: str) -> bool:
    return _loose_glob(pattern).fullmatch(_same_form(text)) is not None


@functools.lru_cache(maxsize=1024)
def _loose_glob(pattern: str) -> re.Pattern[str]:
    return _glob(pattern if "/" in pattern else re.sub(r"\*+", "**", pattern), folded=True)


@functools.lru_cache(maxsize=1024)
def _names(subject: str) -> frozenset[str]:
    return frozenset(subject.split(","))


def _same_form(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _covers(pattern: str, segment: Segment) -> bool:
    """Whether a command is word for word what the pattern says; a last lone `*` is any further words."""
    wanted = pattern.split()
    if any(mark in pattern for mark in "'\"\\"):
        wanted = list(parsed(pattern).segments[0].words) if not _no_command(pattern) else []
    head = wanted[:-1] if wanted[-1:] == ["*"] else wanted
    few = len(segment.words) < len(head) or (head is wanted and len(segment.words) > len(head))
    if not wanted or few or segment.fixed < len(head):
        return False
    return all(_same_word(want, word) for want, word in zip(head, segment.words, strict=False))


def _same_word(pattern: str, word: str) -> bool:
    if not any(mark in pattern for mark in "*?["):
        return pattern == word
    return ".." not in word.split("/") and _glob(pattern).fullmatch(word) is not None


def _may_start(pattern: str, line: CommandLine) -> bool:
    """Whether a command line starts, or may start, what a rule that asks or denies says."""
    wanted = _loose_globs(pattern)
    names = {program(segment.words[0]) for segment in line.segments}
    if line.doubt or not names.isdisjoint(WRAPPERS | INTERPRETERS):
        return any(_in_order(wanted, words) for words in loose_words(line.text))
    return any(
        _in_order(wanted[:1], segment.words[:1]) and _in_order(wanted[1:], segment.words[1:])
        for segment in line.segments
    )


@functools.lru_cache(maxsize=1024)
def _loose_globs(pattern: str) -> tuple[re.Pattern[str], ...]:
    """The words of a command to look for; a last lone `*` says nothing."""
    words = loose_words(pattern)[0]
    if len(words) > 1 and words[-1] == "*":
        words.pop()
    return tuple(_glob(re.sub(r"\*+", "**", word), folded=True) for word in words)


def _in_order(wanted: Sequence[re.Pattern[str]], words: Sequence[str]) -> bool:
    """Whether the wanted words come in this order, whatever stands between them."""
    rest = iter(words)
    return all(any(want.fullmatch(word) or want.fullmatch(_name(word)) for word in rest) for want in wanted)


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _no_command(pattern: str, *, strict: bool = True) -> str:
    """Say why a pattern is not one plain command, empty if it is."""
    line = parsed(pattern)
    if len(line.segments) != 1:
        return line.doubt or "it has several"
    if any(mark in pattern for mark in "'\"\\") and any(mark in pattern for mark in "*?["):
        return "quotes and wildcards don't go together"
    first = line.segments[0].words[0]
    return line.doubt if strict and not any(mark in first for mark in "*?[") else ""


@functools.lru_cache(maxsize=1024)
def _glob(pattern: str, *, folded: bool = False) -> re.Pattern[str]:
    """Compile a glob: `*` and `?` stay within a name, `**` goes on through folders, `[abc]` is one of these."""
    made = ""
    at = 0
    pattern = _same_form(pattern)
    while at < len(pattern):
        mark = pattern[at]
        end = pattern.find("]", at + 2) if mark == "[" else -1
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            made, at = made + "(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            made, at = made + ".*", at + 2
        elif end > 0:
            inner = pattern[at + 1 : end].replace("\\", r"\\").replace("[", r"\[")
            negated = inner.startswith("!")
            made, at = made + (f"[^{inner[1:]}]" if negated else f"[{inner}]"), end + 1
        else:
            made, at = made + {"*": "[^/]*", "?": "[^/]"}.get(mark, re.escape(mark)), at + 1
    return re.compile(made, re.DOTALL | (re.IGNORECASE if folded else 0))
