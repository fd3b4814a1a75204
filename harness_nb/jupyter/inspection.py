"""What the inspector looks at: a session's turns and record, and what they say about a turn, worked out when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness_nb.context.account import Account, TurnRecord
from harness_nb.context.compare import Difference, compared
from harness_nb.context.count import counter
from harness_nb.context.parts import PartRow, out_of_sight, parts
from harness_nb.context.spelled import readable
from harness_nb.context.turns import request, turns_of
from harness_nb.context.whatif import SUMMARY, Measure, WhatIf, what_if
from harness_nb.context.window import Window
from harness_nb.messages import Decision, Transcript

if TYPE_CHECKING:
    from harness_nb.jupyter.session import Session


KEPT = 8
"""Measures whose effect is remembered."""


@dataclass(slots=True)
class Inspection:
    """A session as far as it has come. Turns are counted from 1."""

    name: str
    transcript: Transcript
    turns: list[TurnRecord]
    account: Account
    _changes: dict[int, Difference | None] = field(default_factory=dict)
    _parts: dict[int, list[PartRow]] = field(default_factory=dict)
    _supposed: dict[tuple[int, Measure, int], WhatIf] = field(default_factory=dict)

    @classmethod
    def of(cls, session: Session) -> Inspection:
        """Look at a session: live, finished, or with a transcript that was loaded."""
        return cls._of(session, session.transcript)

    @classmethod
    def _of(cls, session: Session, transcript: Transcript) -> Inspection:
        account = session.account or Account(Window(), counter())
        return cls(session.name, transcript, turns_of(transcript, account), account)

    def fresh(self, session: Session) -> Inspection:
        """Return what there is by now of the same conversation; this one where nothing has happened since."""
        since = self.transcript.entries[self.turns[-1].entries + 1 :]
        return Inspection._of(session, self.transcript) if any(map(_is_reply, since)) else self

    def parts(self, turn: int) -> list[PartRow]:
        """List the parts of a turn's request, in order."""
        if turn not in self._parts:
            self._parts = {
                turn: parts(
                    self.turns,
                    turn,
                    self.transcript,
                    self.account.counter,
                    retrieved=self.account.retrieved,
                    against=self.change(turn),
                )
            }
        return self._parts[turn]

    def hidden(self, turn: int) -> list[PartRow]:
        """List what the model no longer saw in this turn."""
        return out_of_sight(self.turns[turn - 1], self.transcript, self.account.counter)

    def change(self, turn: int) -> Difference | None:
        """Compare a turn's request with that of the turn before; None for the first."""
        if turn < 2:
            return None
        if turn not in self._changes:
            old, new = self.turns[turn - 2 : turn]
            self._changes = {turn: compared(old, new, self.transcript, self.account.counter)}
        return self._changes[turn]

    def decisions(self, turn: int) -> list[Decision]:
        """List the decisions that came between the turn before and this one."""
        begin = self.turns[turn - 2].entries if turn > 1 else 0
        between = self.transcript.entries[begin : self.turns[turn - 1].entries]
        return [entry for entry in between if isinstance(entry, Decision)]

    def request(self, turn: int, most: int) -> str:
        """Write the request of a turn, at most so many characters of its newest parts."""
        return readable(request(self.turns[turn - 1], self.transcript), most)

    def what_if(self, turn: int, measure: Measure, summary: int = SUMMARY) -> WhatIf:
        """Work out a measure at a turn. Raises UsageError for sizes that can't be."""
        asked = turn, measure, summary
        if asked not in self._supposed:
            if len(self._supposed) >= KEPT:
                self._supposed.clear()
            found = what_if(self.account, self.turns[turn - 1], self.transcript, measure, summary=summary)
            self._supposed[asked] = found
        return self._supposed[asked]


def _is_reply(entry: object) -> bool:
    return getattr(entry, "role", "") == "assistant"
