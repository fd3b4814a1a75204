"""The past as it can still go back to Claude: without thinking that a decision has made useless. Used by anthropic.py. Book chapter 8.

Thinking is bound to everything before it. Where a decision changes a message, or a tool that a search had found is gone,
what the model thought after that and before now goes back no more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic

from harness_nb.messages import Decision, Message, Transcript
from harness_nb.providers.searched import forgotten, found
from harness_nb.providers.spelling import Form, Forms


class Past(Generic[Form]):
    """The messages of one run, written once each, and otherwise where part of them can't go back any more."""

    def __init__(
        self, transcript: Transcript, write: Callable[[Message], Form], bare: Callable[[Message], Form]
    ) -> None:
        """Use `write` for a whole message and `bare` for one without its thinking."""
        self._stale = Stale(transcript)
        self._found: dict[str, frozenset[str]] = {}
        self._write = write
        self._whole = Forms(self._noted)
        self._bare = Forms(bare)
        self._forgotten = Forms(lambda message: bare(forgotten(message)))

    def forms(self, messages: tuple[Message, ...], tools: Collection[str]) -> list[Form]:
        """Write these messages for a request with these tools, as they are named on the wire."""
        forms, stale = self._whole.of(messages), self._stale.messages()
        lost = {name for name, names in self._found.items() if not names.issubset(tools)}
        if not stale and not lost:
            return forms
        after = False
        for place, message in enumerate(messages):
            if message.id in lost:
                after = True
                forms[place] = self._forgotten.of((message,))[0]
            elif after or message.id in stale:
                forms[place] = self._bare.of((message,))[0]
        return forms

    def _noted(self, message: Message) -> Form:
        if names := found(message):
            self._found[message.id] = names
        return self._write(message)


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
