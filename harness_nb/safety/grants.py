"""What a person has allowed for longer than one call, and what became of the calls so far. Book chapter 14."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from harness_nb.safety.commands import CommandLine, Segment, parsed
from harness_nb.safety.facts import holds_path, texts
from harness_nb.safety.permission import Verdict
from harness_nb.safety.programs import BROAD, INTERPRETERS, WRAPPERS, program
from harness_nb.seams import Call, ToolSpec

HISTORY = 200
"""How many judgements a session remembers."""

SHOWN = 300
"""Most characters of a call's arguments in its history."""

ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))
SUBCOMMAND = re.compile(r"[a-z][a-z0-9-]*")


def canonical(arguments: Mapping[str, object]) -> str:
    """Write arguments as the one JSON text they have, in whatever order they came."""
    return ENCODER.encode(arguments)


def fingerprint(call: Call, text: str | None = None) -> str:
    """The SHA-256 of a call's tool and arguments: what an approval is bound to. `text` is their `canonical`, if at hand."""
    text = f"{call.spec.name}\0{canonical(call.arguments) if text is None else text}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Scope:
    """What "for this session" may cover, and the words it is offered with.

    `value` is the fingerprint of the arguments, the first words of a command, or the file, by `kind`.
    `tool` is the SHA-256 of all that is known of the tool: one that becomes another by the same name is not covered.
    """

    kind: Literal["arguments", "command", "file", "tool"]
    tool: str
    value: str
    text: str


def scopes_of(call: Call, root: str = ".") -> tuple[Scope, ...]:
    """Return what a person could allow at once with this call, narrowest first."""
    name, tool = call.spec.name, _definition(call.spec)
    found = [
        Scope("arguments", tool, fingerprint(call), f"`{name}` with exactly these arguments"),
        Scope("tool", tool, "", f"every call of `{name}`"),
    ]
    files = _files(call, root)
    if isinstance(line := call.arguments.get("command"), str):
        if not files and (words := _first_words(parsed(line))):
            found.insert(1, Scope("command", tool, words, f"`{name}` commands that start with `{words}`"))
    elif len(files) == 1:
        found.insert(1, Scope("file", tool, files[0], f"`{name}` on `{_shown(files[0], root)}`"))
    return tuple(found)


def _shown(path: str, root: str) -> str:
    """Name a file as it is seen from the workspace: a notebook that is passed on should not tell where it once lay."""
    inside = os.path.relpath(path, os.path.realpath(root))
    return path if inside.startswith("..") else inside


def _definition(spec: ToolSpec) -> str:
    known = (spec.name, spec.description, sorted(spec.effects), spec.input_schema)
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=repr).encode()).hexdigest()


def _first_words(line: CommandLine) -> str:
    """The words that say what a line does, empty where they don't say enough: several commands, or any program."""
    if line.doubt or len(line.segments) != 1:
        return ""
    words = line.segments[0].words
    name = program(words[0])
    if name in WRAPPERS | INTERPRETERS or any(mark.isspace() for mark in words[0]):
        return ""
    if len(words) > 1 and line.segments[0].fixed > 1 and SUBCOMMAND.fullmatch(words[1]):
        return " ".join(words[:2])
    return words[0] if name not in BROAD else ""


def _files(call: Call, root: str) -> list[str]:
    """Where the paths that a call names really lead."""
    named = [value for name, value in call.arguments.items() if holds_path(name)]
    try:
        return [os.path.realpath(Path(root, text)) for value in named for text in texts(value)]
    except (OSError, ValueError):
        return []


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of one call. `by` is `rule`, `granted`, `you`, `nobody`, `timeout`, `interrupted`, `superseded` or `refused before`."""

    tool: str
    arguments: str
    allowed: bool
    by: str
    why: str
    rule: str
    scope: str = ""
    reason: str = ""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @classmethod
    def of(
        cls,
        call: Call,
        verdict: Verdict,
        *,
        allowed: bool,
        by: str,
        scope: str = "",
        reason: str = "",
        text: str | None = None,
    ) -> Judgement:
        """Note a decision on a call, its arguments shortened; `text` is their `canonical`, if at hand."""
        shown = (canonical(call.arguments) if text is None else text)[:SHOWN]
        return cls(call.spec.name, shown, allowed, by, verdict.why, verdict.rule, scope, reason)


class Approvals:
    """What one session has been granted, and the history of its calls. Nothing here outlives the session."""

    def __init__(self, workspace: str | Path | None = None) -> None:
        """Start with nothing granted; paths are relative to `workspace`, None for the current directory."""
        self.granted: dict[Scope, str] = {}
        """Each scope, and the rule that asked when it was granted."""
        self.history: deque[Judgement] = deque(maxlen=HISTORY)
        self._root = str(workspace or ".")

    def scopes(self, call: Call) -> tuple[Scope, ...]:
        """Return what a person could allow at once with this call, narrowest first."""
        return () if call.doubt else scopes_of(call, self._root)

    def grant(self, asked: Call, final: Call, verdict: Verdict, text: str) -> str:
        """Grant the scope offered for the call as `text`, for the call as it was edited; return its words, "" for once."""
        kind = next((scope.kind for scope in self.scopes(asked) if scope.text == text), "")
        scope = next((scope for scope in self.scopes(final) if scope.kind == kind), None)
        if scope is None:
            return ""
        self.granted[scope] = verdict.rule
        return scope.text

    def revoke(self, text: str = "") -> int:
        """Take back the grant with these words, or all; return how many there were."""
        gone = [scope for scope in self.granted if text in {"", scope.text}]
        for scope in gone:
            del self.granted[scope]
        return len(gone)

    def covering(self, call: Call, verdict: Verdict) -> str:
        """Return the words of the grant that covers a call a policy asks about, "" where none does.

        A rule that asks is answered by a grant that was given in the face of that rule, or for exactly
        these arguments; any other grant answers only the mode. None covers a call that may have run before.
        """
        if not self.granted or call.doubt:
            return ""
        tool, seal = _definition(call.spec), fingerprint(call)
        usable = []
        for scope, rule in self.granted.items():
            if scope.tool != tool:
                continue
            if scope.kind == "arguments":
                if scope.value == seal:
                    return scope.text
            elif verdict.rule == rule or verdict.rule.startswith("mode "):
                usable.append(scope)
        return self._covering(call, usable) if usable else ""

    def _covering(self, call: Call, usable: list[Scope]) -> str:
        if whole := next((scope for scope in usable if scope.kind == "tool"), None):
            return whole.text
        files = _files(call, self._root)
        if isinstance(line := call.arguments.get("command"), str):
            command = parsed(line)
            if files:  # a command that runs elsewhere is another command
                return ""
            found = [_starting(usable, segment) for segment in command.segments]
            return found[0] if found and all(found) and not command.doubt else ""
        covered = {scope.value: scope.text for scope in usable if scope.kind == "file"}
        return covered[files[0]] if files and all(file in covered for file in files) else ""

    def note(self, judgement: Judgement) -> None:
        """Keep what became of a call."""
        self.history.append(judgement)


def _starting(scopes: list[Scope], segment: Segment) -> str:
    for scope in scopes:
        words = tuple(scope.value.split()) if scope.kind == "command" else ()
        if words and segment.fixed >= len(words) and segment.words[: len(words)] == words:
            return scope.text
    return ""
