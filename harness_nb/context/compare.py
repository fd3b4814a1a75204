"""Where a turn's request parts from that of the turn before, and who parted them: why a prompt cache broke. Pure; book chapter 12.

    found = compared(turns[-2], turns[-1], transcript, counter)
    if found.broke:
        print(found.why, found.same)

A provider's prompt cache holds the beginning of a request up to the first byte that differs. A turn that only adds to
the end keeps all of it. What breaks it is a word changed further up: the system prompt, a tool, or a message that a
decision replaced; all that follows is read anew, at full price.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import AnyStr

from harness_nb.context.account import TurnRecord
from harness_nb.context.count import Counter
from harness_nb.context.spelled import KEY, Line, lines
from harness_nb.context.turns import request, seen
from harness_nb.messages import Decision, Message, Transcript
from harness_nb.redaction import without_keys
from harness_nb.seams import Request, ToolSpec

AROUND = 60
"""Characters that are shown on either side of the break."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a request differs from the one before it, as both are written in spelled.py.

    `same` is how many bytes both begin with, of `before` and `after` in all; `tokens` about how many tokens that is;
    `lines` how many whole lines. Where the prefix broke, `part` names what changed, `why` says it in one sentence,
    `was` and `now` are the characters round the break, without keys, and `decision` is the one that did it, if any did.
    """

    same: int
    before: int
    after: int
    tokens: int
    lines: int
    part: str = ""
    why: str = ""
    was: str = ""
    now: str = ""
    decision: Decision | None = None

    @property
    def broke(self) -> bool:
        """Whether something changed that had been sent before."""
        return self.same < self.before


def compared(old: TurnRecord, new: TurnRecord, transcript: Transcript, counter: Counter) -> Difference:
    """Compare the requests of two turns of one transcript, and say which decision between them broke the prefix.

    Tokens are corrected as those of the new turn's `fill` were.
    """
    was, now = seen(old, transcript), seen(new, transcript)
    asked = request(new, transcript, now)
    found = difference(request(old, transcript, was), asked, counter)
    estimate = sum(_tokens(line, counter) for line in lines(asked))
    found = replace(found, tokens=found.tokens * new.fill.total // estimate if estimate else 0)
    if not found.broke or not found.part.startswith("message "):
        return found
    number, decision = responsible(was, now)
    if number:
        found = replace(found, part=f"message {number:,} ({transcript.messages[number - 1].role})")
    why = f"{found.part[0].upper()}{found.part[1:]} {_by(decision)}"
    return replace(found, why=why, decision=decision)


def difference(old: Request, new: Request, counter: Counter) -> Difference:
    """Compare two requests byte by byte, as they are written in spelled.py."""
    was, now = lines(old), lines(new)
    whole = 0
    for a, b in zip(was, now, strict=False):
        if a.of is not b.of and a.text != b.text:
            break
        whole += 1
    texts = [found[whole].text if whole < len(found) else "" for found in (was, now)]
    old_bytes, new_bytes = (text.encode("utf-8", "surrogatepass") for text in texts)
    inside = _shared(old_bytes, new_bytes)
    start = [_size(line) for line in now[:whole]]
    same = sum(start) + inside
    sizes = (sum(start) + sum(map(_size, found[whole:])) for found in (was, now))
    tokens = sum(_tokens(line, counter) for line in now[:whole])
    tokens += counter.text(new_bytes[:inside].decode("utf-8", "ignore"))
    before, after = sizes
    if same == before:
        return Difference(same, before, after, tokens, whole)
    part = _part(was[whole], now[whole] if whole < len(now) else None)
    why = _why(was, now, whole)
    return Difference(same, before, after, tokens, whole, part, why, *_excerpts(*texts))


def responsible(was: Transcript, now: Transcript) -> tuple[int, Decision | None]:
    """Find the first message that is shown otherwise now than it was, by its number in the record, and the decision that did it.

    The number is 0 and the decision None where there is none.
    """
    before = dict(_shown(was))
    new = now.entries[len(was) :]
    decisions = {entry.id: entry for entry in now.entries if isinstance(entry, Decision)}
    for number, (identity, shown) in enumerate(_shown(now), 1):
        if identity not in before or before[identity] == shown:
            continue
        for entry in reversed(new):
            if isinstance(entry, Decision):
                undone = decisions.get(entry.undoes)
                if identity in entry.changes or (undone is not None and identity in undone.changes):
                    return number, entry
        return number, None
    return 0, None


def _shown(transcript: Transcript) -> list[tuple[str, tuple[Message, ...]]]:
    return [(message.id, shown) for message, shown in transcript.shown()]


def _by(decision: Decision | None) -> str:
    if decision is None:
        return "reads otherwise than in the turn before, though no decision changed it."
    return f'was changed by a decision, "{decision.by}": {decision.why}'


def _part(old: Line, new: Line | None) -> str:
    """Name what differs: what was added before a line, if something was, else the line."""
    order = ("system", "tool", "message")
    line = new if new is not None and order.index(new.kind) < order.index(old.kind) else old
    return f"tool {line.name}" if line.kind == "tool" else line.name


def _why(was: list[Line], now: list[Line], whole: int) -> str:
    """Say what happened at the first line that differs."""
    old = was[whole]
    new = now[whole] if whole < len(now) else None
    if old.kind == "system":
        return "The system prompt changed." if new and new.kind == "system" else "The system prompt is gone."
    if old.kind == "message" and (new is None or new.kind == "message"):
        return f"{old.name[0].upper()}{old.name[1:]} reads otherwise than in the turn before."
    if new is not None and new.kind == "system":
        return "A system prompt was added."
    tools = (
        {line.name for line in was if line.kind == "tool"},
        {line.name for line in now if line.kind == "tool"},
    )
    if new is not None and new.kind == "tool" and new.name not in tools[0]:
        return f"The tool `{new.name}` was added before what had been sent."
    if old.kind == "tool" and old.name not in tools[1]:
        return f"The tool `{old.name}` was taken away."
    if new is not None and new.name != old.name:
        return f"The order of the tools changed, from `{old.name}` on."
    return f"The {_changed(old.of, new.of if new else None)} of the tool `{old.name}` changed."


def _changed(old: object, new: object) -> str:
    same = isinstance(old, ToolSpec) and isinstance(new, ToolSpec) and old.description == new.description
    return "parameters" if same else "description"


def _excerpts(a: str, b: str) -> tuple[str, str]:
    """Return what stands round the place where two lines part; without keys first, so that no half of one is left."""
    a, b = without_keys(a, KEY), without_keys(b, KEY)
    place = _shared(a, b)
    start = max(0, place - AROUND)
    return a[start : place + AROUND].rstrip("\n"), b[start : place + AROUND].rstrip("\n")


def _shared(a: AnyStr, b: AnyStr) -> int:
    """Count the bytes, or characters, that both begin with."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _size(line: Line) -> int:
    return len(line.text.encode("utf-8", "surrogatepass"))


def _tokens(line: Line, counter: Counter) -> int:
    match line.of:
        case str(text):
            return counter.instructions(text)
        case Message() as message:
            return counter.message(message)
        case ToolSpec() as spec:
            return counter.spec(spec)
