"""What a call may do: a policy is a plain function of a call that says allow, ask or deny, and why. Book chapter 14.

    policy("ask", ["allow shell git status", "deny shell rm"], workspace)(call)
    -> Verdict("deny", "The rule `deny shell rm` forbids it.", "deny shell rm")

What denies wins over what asks, that over what allows, and where no rule holds the mode decides.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from harness_nb.errors import UsageError
from harness_nb.safety.commands import Segment
from harness_nb.safety.facts import Facts
from harness_nb.safety.rules import Rule, Ruling, rules as read_rules
from harness_nb.seams import Call, ToolSpec

Mode = Literal["ask", "edits", "plan", "auto"]
"""What holds where no rule does; MODES says what each means."""

MODES: dict[Mode, str] = {
    "ask": "Reading in the workspace is allowed; everything else asks.",
    "edits": "Reading and writing files in the workspace is allowed; everything else asks.",
    "plan": "Reading in the workspace is allowed; everything else is denied, whatever other rules say.",
    "auto": "Everything is allowed that no rule asks about or denies: for sandboxes that can be thrown away.",
}

GUARDED_NAMES = "harness_nb.toml", ".git", ".harness_nb", ".envrc", "jupyter_*config.*"

GUARDED = read_rules((f"ask write,mutate {name}" for name in GUARDED_NAMES), "built in")
"""Writing these asks even where writing is allowed: they decide what the agent may do, or are run by other tools."""

NOTES = read_rules(("allow scratchpad_write",), "built in")
"""The agent's own notes, in the session's own folder, are not asked about; a rule can forbid them."""


def built_in(mode: Mode) -> tuple[Rule, ...]:
    """Return the rules that hold in a mode without anybody's writing them."""
    return (*GUARDED, *NOTES) if mode != "auto" else ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a policy says of one call. `rule` is what decided, as written; `why` is one sentence that names it."""

    answer: Ruling
    why: str
    rule: str


SEVERITY: tuple[Ruling, ...] = ("allow", "ask", "deny")

Policy: TypeAlias = Callable[[Call], Verdict]
"""Judges a call without running anything. It must be quick."""


def policy(
    mode: Mode = "ask", rules: Iterable[str | Rule] = (), workspace: str | Path | None = None
) -> Policy:
    """Make a policy of a mode and of rules, in any order; `workspace` None is the current directory at each call.

    Raises UsageError for a mode that there is not, and for a rule that can't be read.
    """
    if mode not in get_args(Mode):
        raise UsageError(f"There is no mode `{mode}`; choose from {', '.join(MODES)}.")
    known = read_rules(rules)
    root = os.path.realpath(workspace) if workspace is not None else None

    @functools.lru_cache(maxsize=256)
    def concerning(name: str, effects: frozenset[str]) -> dict[Ruling, list[Rule]]:
        found = [rule for rule in (*built_in(mode), *known) if rule.concerns(name, effects)]
        return {ruling: [rule for rule in found if rule.answer == ruling] for ruling in SEVERITY}

    blind = any(rule.answer == "deny" and rule.about_effects for rule in known)

    def judge(call: Call) -> Verdict:
        facts = Facts(call, root or os.getcwd())  # noqa: PTH109 - quick
        rules = concerning(facts.name, facts.effects)
        if found := next((rule for rule in rules["deny"] if rule.fits(facts)), None):
            return _by_rule(found)
        if mode == "plan" and not _by_mode(mode, facts):
            return Verdict("deny", f"In mode `plan` only reading is allowed, and {_why(facts)}.", "mode plan")
        if call.doubt:
            return Verdict("ask", call.doubt, "run before")
        if found := next((rule for rule in rules["ask"] if rule.fits(facts)), None):
            return _by_rule(found)
        if found := _allowed(rules["allow"], facts):
            return _by_rule(found)
        unclear = _unclear(facts, denied=bool(rules["deny"]), blind=blind)
        if _by_mode(mode, facts) and not unclear:
            return _allowed_by_mode(mode)
        if unclear:
            return Verdict("ask", unclear, "in doubt")
        return Verdict("ask", f"Mode `{mode}` asks, since {_why(facts, rules['allow'])}.", f"mode {mode}")

    return judge


def strictest(*policies: Policy) -> Policy:
    """Make one policy of several: the first that denies decides, else the first that asks, else the first."""
    if not policies:
        raise UsageError("Give at least one policy: none at all would decide nothing.")

    def judge(call: Call) -> Verdict:
        verdicts = [each(call) for each in policies]
        return max(verdicts, key=lambda verdict: SEVERITY.index(verdict.answer))

    return judge


def hides(policy: Policy) -> Callable[[str], bool]:
    """Tell of a path whether reading it is denied, for searches to pass over what a single read would not give."""
    spec = ToolSpec("read_file", "", {}, frozenset({"read"}))
    return lambda path: policy(Call("", {"path": path}, spec)).answer == "deny"


def explained(policy: Policy, call: Call) -> str:
    """Say in one or two sentences what would become of a call, and why; nothing runs and nobody is asked."""
    verdict = policy(call)
    fate = {"allow": "would run without asking", "ask": "would ask", "deny": "would be denied"}
    return f"`{call.spec.name}` {fate[verdict.answer]}. {verdict.why}"


@functools.lru_cache(maxsize=1024)
def _by_rule(rule: Rule) -> Verdict:
    does = {"allow": "allows it", "ask": "asks", "deny": "forbids it"}[rule.answer]
    return Verdict(rule.answer, f"The rule {rule.cited} {does}.", str(rule))


@functools.lru_cache
def _allowed_by_mode(mode: Mode) -> Verdict:
    return Verdict("allow", f"Mode `{mode}` allows it.", f"mode {mode}")


def _by_mode(mode: Mode, facts: Facts) -> bool:
    """Whether the mode alone allows the call."""
    if mode == "auto":
        return True
    if not facts.effects or facts.outside:
        return False
    if mode == "edits" and facts.places and facts.command is None:
        return facts.effects <= {"read", "write"}
    return facts.effects == {"read"}


def _allowed(rules: Sequence[Rule], facts: Facts) -> Rule | None:
    """Find a rule that allows the call; of a command line, each command needs one."""
    if whole := next((rule for rule in rules if rule.fits(facts)), None):
        return whole
    if not rules or facts.command is None or facts.command.doubt:
        return None
    each = [_allowing(rules, segment, facts) for segment in facts.command.segments]
    return each[0] if each and all(each) else None


def _allowing(rules: Sequence[Rule], segment: Segment, facts: Facts) -> Rule | None:
    return next((rule for rule in rules if rule.allows(segment, facts)), None)


def _unclear(facts: Facts, *, denied: bool, blind: bool) -> str:
    """Say why a call can't be held against the rules that deny, empty if it can.

    `denied`: there are such rules about the tool; `blind`: about effects, which the tool may not declare.
    """
    doubt = facts.command.doubt if facts.command is not None else ""
    if doubt and denied:
        return f"Whether a rule denies the command can't be told: {doubt}."
    if blind and not facts.effects:
        return f"Whether a rule denies it can't be told: `{facts.name}` does not say what it may do."
    return ""


def _why(facts: Facts, allowing: Sequence[Rule] = ()) -> str:
    """Say what about a call goes beyond reading in the workspace, as half a sentence."""
    if facts.outside:
        return f"`{facts.outside[0]}` is outside the workspace"
    if not facts.effects:
        return f"`{facts.name}` does not say what it may do"
    if facts.command is not None and facts.command.doubt:
        return f"the command can't be judged word by word: {facts.command.doubt}"
    parts = facts.command.segments if facts.command is not None and allowing else ()
    if missing := next((part.text for part in parts if not _allowing(allowing, part, facts)), ""):
        return f"no rule allows `{missing}`"
    beyond = [WORDS[effect] for effect in WORDS if effect in facts.effects]
    return f"`{facts.name}` may {' and '.join(beyond) or 'do more than read'}"


WORDS = {
    "write": "change files",
    "network": "use the network",
    "mutate": "change things outside",
    "spend": "cost money",
}
