"""Which thinking a decision has made useless: it is bound to the past that the model had seen. Used by anthropic.py. Book chapter 8."""

from __future__ import annotations

from harness_nb.messages import Decision, Transcript


class Stale:
    """The messages of one transcript whose thinking is bound to a past that a later decision has changed.

    What was read of the transcript is not read again, so that a turn costs what is new.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._messages: set[str] = set()
        self._order: dict[str, int] = {}
        self._names: list[str] = []
        self._touched: dict[str, tuple[str, ...]] = {}
        self._read = 0

    def messages(self) -> set[str]:
        """Read on, and return the ids of those messages."""
        if len(self._transcript) > self._read:
            fresh = self._transcript.entries[self._read :]
            self._read += len(fresh)
            for entry in fresh:
                if isinstance(entry, Decision):
                    self._decided(entry)
                else:
                    self._order[entry.id] = len(self._names)
                    self._names.append(entry.id)
        return self._messages

    def _decided(self, decision: Decision) -> None:
        """Mark what comes after the first message that this decision, or the one it undoes, has changed."""
        changed = self._touched[decision.id] = (
            *decision.changes,
            *self._touched.get(decision.undoes, ()),
        )
        places = [self._order[name] for name in changed if name in self._order]
        if places:
            self._messages.update(self._names[min(places) + 1 :])
