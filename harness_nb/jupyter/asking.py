"""A question about a call, and what became of it, in the words that every view uses. segments.py hangs it on its call."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256

from harness_nb.events import ApprovalAsked, ApprovalDecided, Preview
from harness_nb.jupyter.words import one_line, pretty, readable_json, visible
from harness_nb.messages import ToolCall

COMMAND = 200
"""Longest JSON (characters) that stands in the command to edit a call."""

CHECK = "Look whether it has, then decide: denied, the model is told that it may have."
"""What a person can do about a call that was cut off."""

TITLE = 100
"""Most characters of a file's name in a question; the arguments below it hold all of it."""


@dataclass(slots=True)
class Asking:
    """What a person is asked, as it stands now, and the decision once there is one."""

    asked: ApprovalAsked
    began: float
    edited: bool = False
    """Whether the person has changed the arguments since they were asked."""
    decided: ApprovalDecided | None = None

    @property
    def seal(self) -> str:
        """Stands for exactly this call with exactly these arguments: a decision on other ones must not count."""
        return seal(self.asked.call)

    @property
    def title(self) -> tuple[str, str, str]:
        """The question in one sentence, split round the part that is a name: `Allow an edit of`, `x.csv`, `?`."""
        preview, path = self.asked.preview, _path(self.asked.call.raw)
        if self.asked.again:
            return "Run ", self._name, " again?"
        match preview:
            case Preview("diff") if path:
                return "Allow an edit of ", path, "?"
            case Preview("code"):
                return "Allow this code in your notebook with ", self._name, "?"
            case Preview("command"):
                return "Allow this command with ", self._name, "?"
            case _:
                return "Allow a call of ", self._name, "?"

    @property
    def question(self) -> str:
        """The same as plain text."""
        before, name, after = self.title
        return f"{before}`{name}`{after}"

    @property
    def _name(self) -> str:
        return one_line(visible(self.asked.call.name), TITLE)

    @property
    def why(self) -> str:
        """Why it asks, and that nothing has happened, as far as that is known."""
        changed = "You changed the arguments. " if self.edited else ""
        not_yet = CHECK if self.asked.again else "Nothing has run yet."
        return f"{changed}{visible(self.asked.why)} {not_yet}"

    @property
    def preview(self) -> str:
        """What the call would do, in full."""
        return visible(self.asked.preview.text) if self.asked.preview is not None else ""

    @property
    def effects(self) -> tuple[str, ...]:
        """What the call may do, beyond looking if there is more; undeclared is unknown."""
        said = tuple(visible(effect) for effect in self.asked.effects)
        return tuple(effect for effect in said if effect != "read") or said or ("unknown effects",)

    @property
    def scopes(self) -> tuple[str, ...]:
        """What can be allowed for the session; nothing where the person wrote the arguments, since no rule knows them."""
        return () if self.edited else tuple(visible(scope) for scope in self.asked.scopes)

    @property
    def arguments(self) -> str:
        """All arguments, laid out to be read."""
        return pretty(self.asked.call.raw) or "none"

    @property
    def editable(self) -> str:
        """All arguments as JSON text that can be changed; what can't be seen stands there as an escape."""
        return readable_json(self.asked.call.raw)

    @property
    def ticket(self) -> str:
        """What a person types to mean this question and no other."""
        return ticket(self.asked.id)

    def commands(self, at: str = "%agent") -> str:
        """What decides it from a cell, a line each; `at` is how its session is spoken to."""
        lines = self.editable.split("\n")
        given = "".join(line.strip() + (" " if line.endswith(",") else "") for line in lines)
        given = given if len(given) <= COMMAND else ""
        edit = given or "{...all arguments as JSON...}"
        return f'{at} approve {self.ticket}\n{at} deny {self.ticket} "reason"\n{at} edit {self.ticket} {edit}'

    @property
    def decision(self) -> str:
        """The decision in a few words, `allowed by you, once`; empty while there is none."""
        told = self.decided
        if told is None:
            return ""
        if told.allowed:
            how = f"for this session: {visible(told.scope).replace('`', '')}" if told.scope else "once"
            return f"{'edited and ' if told.edited else ''}allowed by {visible(told.by)}, {one_line(how, 2 * TITLE)}"
        reason = one_line(visible(told.reason), 2 * TITLE)
        match told.by:
            case "nobody":
                return "denied: there was nobody to ask"
            case "interrupted":
                return "stopped before it was decided"
            case "timeout":
                return "denied: no answer came in time"
            case "superseded":
                return "not approved: a new prompt came instead"
            case "moved":
                return "asked again in a later cell"
            case _:
                return f"denied by {visible(told.by)}{f': {reason}' if reason else ''}"


def seal(call: ToolCall) -> str:
    """Return a short digest of a call's tool and arguments."""
    return sha256(f"{call.id}\0{call.name}\0{call.raw}".encode("utf-8", "replace")).hexdigest()[:16]


def ticket(identity: str) -> str:
    """Return the short name of the question with this id: a word that begins no prompt by chance."""
    return f"q{int(sha256(identity.encode()).hexdigest(), 16) % 10**6:06}"


def _path(raw: str) -> str:
    try:
        path = json.loads(raw).get("path", "")
    except (ValueError, RecursionError, AttributeError):
        return ""
    return one_line(visible(path), TITLE) if isinstance(path, str) else ""


def put_as_text(asking: Asking) -> str:
    """Write the question with everything a card shows, for those who answer by text."""
    lines = ["", f"{asking.question} ({', '.join(asking.effects)})", asking.why]
    if asking.preview:
        lines += ["", asking.preview.rstrip("\n")]
    return "\n".join([*lines, "", "All arguments:", asking.arguments, ""])


def waiting_as_text(asking: Asking, at: str) -> str:
    """Write the question of a run that has ended, and what to type."""
    return f"{put_as_text(asking)}\nTo decide, run one of these in a cell:\n{asking.commands(at)}\n"
