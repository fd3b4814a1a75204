"""A shell's command line, read into the commands it would start, so that rules can judge each. Book chapter 14.

This is no shell. It understands plain words, quotes, `;`, `&&`, `||`, `|` and new lines, and says so
when it meets anything else: then `doubt` is set, no rule that allows can match, and rules that deny look
for their words anywhere in the text. Reading too little costs a question; reading wrongly would cost more.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

from harness_nb.safety.programs import names, starter

LONGEST = 20_000
"""Characters up to which a command line is read; a longer one is in doubt."""

DEEPEST = 20
"""Deepest nesting of commands inside commands that is read."""

MARKS = frozenset(" \t\n;&|()<>")
"""What ends a word."""

WILD = re.compile(r"[*?[]")
WILDEST = 2
"""Most parts of a path with `*`, `?` or `[` that are followed: more may lead through a whole disk."""

WILDS = 100
"""Most `*`, `?` and `[` of a line: all that they stand for is looked up."""

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
HARMLESS = re.compile(r"(\d?>&\d|\d?>>?[ \t]*/dev/null|<[ \t]*/dev/null)(?=[ \t\n;&|)]|$)")
REDIRECT = re.compile(r"\d*(&>>?|<<<|<<-?|<>|<&|>>|>\||>&|[<>])|&>>?")
OPERATOR = re.compile(r"&&|\|\||\|&|[;&|\n]")

KEYWORDS = names(
    "! [[ case coproc do done elif else esac fi for function if in select then time until while { }"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """One command of a line: its words without quotes, and its text as written.

    The first `fixed` words are exactly what the command gets; the shell may replace the others, as it does
    with `*.py` and `~`.
    """

    words: tuple[str, ...]
    fixed: int
    text: str


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What a line would start, as far as seen. `doubt` says why it can't be judged word by word, empty if it can."""

    text: str
    segments: tuple[Segment, ...]
    doubt: str = ""


@functools.lru_cache(maxsize=256)
def parsed(text: str) -> CommandLine:
    """Read a command line. Never raises: what can't be read is in doubt."""
    if len(text) > LONGEST:
        return CommandLine(text, (), f"it is longer than {LONGEST:,} characters")
    reader = _Reader(text)
    reader.line()
    if any(not (mark.isprintable() or mark in "\n\t") for mark in text):
        reader.doubts.insert(0, "it holds characters that can't be seen")
    if len(WILD.findall(text)) > WILDS:
        reader.doubts.append("it holds many patterns")
    if not reader.segments and not reader.doubts:
        reader.doubts.append("it is empty")
    return CommandLine(text, tuple(reader.segments), reader.doubts[0] if reader.doubts else "")


def outlined(text: str) -> str:
    """List the commands that a line would start, for the person who is asked; empty for a plain single one."""
    line = parsed(text)
    told = [f"{number}. {segment.text}" for number, segment in enumerate(line.segments, 1)]
    listed = [f"starts {len(told)} commands:", *told] if len(told) > 1 else []
    return "\n".join([*listed, *([f"can't be judged word by word: {line.doubt}"] if line.doubt else [])])


def loose_words(text: str) -> tuple[list[str], ...]:
    """Split a text every way a shell might, for rules that deny: quotes taken away, kept apart, or split at."""
    bare = re.sub(r"\\\n|['\"\\]", "", text)
    spaced = re.sub(r"\\\n|['\"\\]", " ", text)
    fine = r"[\s;&|()<>`${}=,!:@\[\]]+"
    glued = [word[2:] for word in bare.split() if re.match(r"-\w.", word)]  # as in `-fNAME`
    return bare.split(), re.split(fine, bare), re.split(fine, spaced), glued


@functools.lru_cache(maxsize=16)
def every_word(text: str) -> tuple[str, ...]:
    """Each word that a shell might see in a text, once."""
    return tuple(dict.fromkeys(word for words in loose_words(text) for word in words))


def wildcards(word: str) -> int:
    """Count the parts of a path that a shell would look up."""
    return sum(WILD.search(part) is not None for part in word.split("/"))


@dataclass(slots=True)
class _Reader:
    """Reads one line from left to right; `segments` and `doubts` are what it found."""

    text: str
    at: int = 0
    depth: int = 0
    segments: list[Segment] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def line(self, closing: str = "") -> None:
        """Read commands up to the closing mark or the end."""
        words: list[tuple[str, bool]] = []
        start = self.at
        while True:
            while self.peek in {" ", "\t"}:
                self.at += 1
            mark = self.peek
            if not mark or (closing and mark == closing):
                self._close(words, start)
                if closing:
                    self._expect(closing)
                return
            if found := HARMLESS.match(self.text, self.at):
                self.at = found.end()
            elif self.text.startswith(("<(", ">("), self.at):
                self.at += 1
                self._inside("it runs a command inside another")
            elif found := REDIRECT.match(self.text, self.at):
                self._redirect(found)
            elif found := OPERATOR.match(self.text, self.at):
                self._close(words, start, found[0])
                self.at = start = found.end()
                words = []
            elif mark == "(":
                self._inside("it runs a subshell")
            elif mark == ")":
                self.doubt("its brackets don't match")
                self.at += 1
            elif mark == "#":
                self.doubt("it holds a comment")
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                words.append(self._word())

    @property
    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def doubt(self, why: str) -> None:
        self.doubts.append(why)

    def _expect(self, closing: str) -> None:
        if self.peek != closing:
            self.doubt("its brackets don't match")
        self.at += 1

    def _inside(self, why: str) -> None:
        """Read the commands in the brackets that open here."""
        self.doubt(why)
        self.at += 1
        if self.depth >= DEEPEST:
            self.at = len(self.text)
            return
        self.depth += 1
        self.line(")")
        self.depth -= 1

    def _redirect(self, found: re.Match[str]) -> None:
        self.at = found.end()
        if "<<" in found[0]:
            self.doubt("it holds a text for its input")
            self.at = len(self.text)  # where that text ends is the shell's business
            return
        self.doubt("it reads from or writes to a file by `<` or `>`")
        while self.peek in {" ", "\t"}:
            self.at += 1
        if self.peek and self.peek not in MARKS:
            self._word()

    def _close(self, words: list[tuple[str, bool]], start: int, operator: str = "") -> None:
        """Keep the command that ends here, and say what is odd about it."""
        if operator == "&":
            self.doubt("it leaves a command running in the background")
        text = self.text[start : self.at].strip()
        if not words:
            if operator not in {"", "\n"}:
                self.doubt(f"there is no command before `{operator}`")
            return
        bare = list(words)
        while bare and ASSIGNMENT.match(bare[0][0]):
            bare.pop(0)
        if len(bare) < len(words):
            self.doubt("it sets a variable")
        if not bare:
            return
        fixed = next((index for index, (_, exact) in enumerate(bare) if not exact), len(bare))
        segment = Segment(tuple(word for word, _ in bare), fixed, text)
        self.segments.append(segment)
        if why := _odd(segment):
            self.doubt(why)

    def _word(self) -> tuple[str, bool]:
        """Read one word; return it without quotes, and whether it is exactly what the command gets."""
        made: list[str] = []
        exact = True
        start = self.at
        while (mark := self.peek) and mark not in MARKS:
            self.at += 1
            if mark == "'":
                made.append(self._until_quote())
            elif mark == '"':
                made.append(self._double_quoted())
            elif mark == "\\":
                made.append(self._escaped())
            elif mark in "$`":
                self._expansion(mark)
                exact = False
            else:
                if mark in "{}":
                    self.doubt("it holds a brace that a shell may expand")
                if mark in "*?[" or (mark == "~" and (self.at - 1 == start or made[-1:] in (["="], [":"]))):
                    exact = False
                made.append(mark)
        word = "".join(made)
        if not exact and wildcards(word) > WILDEST:
            self.doubt("it holds a pattern for many folders")
        return word, exact

    def _until_quote(self) -> str:
        end = self.text.find("'", self.at)
        if end < 0:
            self.doubt("a quote is not closed")
            end = len(self.text)
        found, self.at = self.text[self.at : end], end + 1
        return found

    def _double_quoted(self) -> str:
        made: list[str] = []
        while (mark := self.peek) and mark != '"':
            self.at += 1
            if mark == "\\" and self.peek in {"$", "`", '"', "\\", "\n"}:
                made.append(self._escaped())
            elif mark in "$`":
                self._expansion(mark)
            else:
                made.append(mark)
        if not mark:
            self.doubt("a quote is not closed")
        self.at += 1
        return "".join(made)

    def _escaped(self) -> str:
        mark = self.peek
        if mark in {"", "\n"}:
            self.doubt("a line is continued by `\\`")
        self.at += 1
        return mark

    def _expansion(self, mark: str) -> None:
        """Read on after `$` or a backtick: whatever it becomes can't be known here."""
        if mark == "`":
            end = self.text.find("`", self.at)
            inner = self.text[self.at : end if end >= 0 else len(self.text)]
            self.at = end + 1 if end >= 0 else len(self.text)
            self.doubt("it runs a command inside another")
            if self.depth < DEEPEST:
                reader = _Reader(inner.replace("\\", ""), depth=self.depth + 1, segments=self.segments)
                reader.line()
        elif self.peek == "(":
            self._inside("it runs a command inside another")
        else:
            self.doubt("it depends on a variable or an expansion by `$`")


def _odd(segment: Segment) -> str:
    """Say why a command of plain words is still in doubt, empty if it is not."""
    command = segment.words[0]
    if segment.fixed == 0:
        return "the name of a command is a pattern"
    if command in KEYWORDS:
        return f"`{command}` is part of a shell program"
    if not command or not command.isascii() or any(mark.isspace() for mark in command):
        return "the name of a command is not plain"
    return starter(segment.words)
