"""`session.context`: what fills the window of a session's model, each decision about it, and how a person changes it.

    session.context.fill                 # how full it is now
    session.context.undo()               # take the last decision back
    session.context.pin(3)               # keep message 3 word for word
    await session.context.compact()      # summarise now

Theory of operation. Everything is a decision that joins the record; nothing is rewritten. A request that is being
prepared or is on its way must stay what its record says, so a decision that comes meanwhile joins when the reply has.
What takes a measure of its own, to mask or to compact, is done between runs, or else before the next request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from harness_nb.context.account import Account, TurnRecord, records_of
from harness_nb.context.compact import NotCompactedError
from harness_nb.context.count import counter
from harness_nb.context.fates import described
from harness_nb.context.window import Window
from harness_nb.errors import UsageError
from harness_nb.events import Fill, Notice
from harness_nb.jupyter.bridge import blocking
from harness_nb.jupyter.frame import turns_frame
from harness_nb.jupyter.gauge import full
from harness_nb.messages import Decision, Message, Transcript
from harness_nb.seams import Request, Run

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

    from harness_nb.context.relief import Relief
    from harness_nb.jupyter.session import Session

Measure: TypeAlias = "Callable[[Relief, Request, Run], Awaitable[Decision | None]]"

UNCHANGED = "Nothing has changed."


class Context:
    """The context of one session, to be seen and steered; also while a run goes on, and for a transcript set from elsewhere.

    Decisions and messages are numbered from 1 in the order of the record. What can't be done raises UsageError, and
    then nothing has changed. Book chapters 7, 8 and 9.
    """

    def __init__(self, session: Session) -> None:
        """See the context of this session."""
        self._session = session
        self._wishes: list[Measure] = []

    def __repr__(self) -> str:
        return f"Context({self._session.name!r}, {self.fill.total:,} tokens, {len(self.decisions)} decisions)"

    # -- seeing

    @property
    def transcript(self) -> Transcript:
        """The session's record, with what is about to join it."""
        due = self._session.work.due if self._session.work is not None else []
        return Transcript([*self._session.transcript.entries, *due]) if due else self._session.transcript

    @property
    def account(self) -> Account:
        """What counts; before the first run one that knows no window."""
        return self._session.account or Account(Window(), counter())

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Every decision ever taken, oldest first; those that hold are `transcript.standing()`."""
        return tuple(entry for entry in self.transcript.entries if isinstance(entry, Decision))

    @property
    def turns(self) -> list[TurnRecord]:
        """What each turn saw and cost; for a transcript that was loaded, what can be told without the provider's counts."""
        transcript, known = self._session.transcript, self.account.turns
        replies = {message.id for message in transcript.messages if message.role == "assistant"}
        runs = {turn.run for turn in known if turn.message_id in replies}
        own = [turn for turn in known if turn.run in runs]
        seen = {turn.message_id for turn in own}
        if replies <= seen:
            return own
        return [*(turn for turn in records_of(transcript, self.account) if turn.message_id not in seen), *own]

    @property
    def fill(self) -> Fill:
        """What fills the window: of the run at work as measured last, else as the next request would begin."""
        work = self._session.work
        at_work = (
            work.shown.view.fill if work is not None else None
        )  # that run's loop may be measuring just now
        return at_work or self.account.fill(self._request())

    def to_frame(self) -> pd.DataFrame:
        """Return the turns as a pandas table, a row each: tokens by component, window, share and usage. Raises UsageError without pandas."""
        return turns_frame(self.turns)

    # -- steering

    def undo(self, which: int = -1) -> Decision:
        """Take a decision back: the one of this number, or from the end of those that hold. Raises UsageError."""
        decisions, numbers = self.decisions, range(1, len(self.decisions) + 1)
        holding = {decision.id for decision in self.transcript.standing()}
        if which < 0:
            left = [n for n in numbers if decisions[n - 1].id in holding and not decisions[n - 1].undoes]
            if not left:
                raise UsageError(f"There is no decision about the context to take back. {UNCHANGED}")
            if -which > len(left):
                raise UsageError(f"Only {len(left)} decisions hold, so there is no {which}. {UNCHANGED}")
            which = left[which]
        if which not in numbers:
            raise UsageError(
                f"There is no decision {which}: {_range(len(decisions), 'decision')}. {UNCHANGED}"
            )
        decision = decisions[which - 1]
        if decision.id not in holding:
            raise UsageError(f"Decision {which} was taken back already. {UNCHANGED}")
        again = next((n for n in numbers if decisions[n - 1].id == decision.undoes), 0)
        why = f"so decision {again} holds again." if again else decision.why
        undo = Decision(
            "you", f"You took decision {which} back{',' if again else ':'} {why}", undoes=decision.id
        )
        _spare_pinned(self.transcript, undo)
        return self._decide(undo)

    def pin(self, number: int) -> Decision:
        """Keep a message word for word from now on, brought back if it was masked or summarised; with it its call or results."""
        transcript = self.transcript
        message = self._message(transcript, number)
        together = _together(transcript, message)
        shown = dict(transcript.shown())
        changes = {
            one.id: (*(other for other in shown[one] if other.id != one.id), one)
            for one in together
            if one not in shown[one]
        }
        if not changes and {one.id for one in together} <= transcript.pinned():
            raise UsageError(f"Message {number} is pinned already. {UNCHANGED}")
        what = described(message, {call.id: call for m in transcript.messages for call in m.calls})
        back = ", and brought it back" if changes else ""
        why = f"You pinned message {number}{back} ({what})."
        return self._decide(Decision("you", why, changes, pins=tuple(one.id for one in together)))

    def unpin(self, number: int) -> list[Decision]:
        """Let a message be masked or summarised again: takes back every decision that pinned it."""
        transcript = self.transcript
        message = self._message(transcript, number)
        pins = [decision for decision in transcript.standing() if message.id in decision.pins]
        if not pins:
            raise UsageError(f"Message {number} is not pinned. {UNCHANGED}")
        why = f"You unpinned message {number}."
        return [self._decide(Decision("you", why, undoes=pin.id)) for pin in pins]

    def mask(self) -> Decision | None:
        """Mask every old tool result now, however full the window is.

        While a run goes on it is done before the next request, and this returns None. Raises UsageError if there is none.
        """
        return blocking(self._measure(_mask))

    async def compact(self) -> Decision | None:
        """Summarise now, however full the window is; by the session's model, which costs a request.

        While a run goes on it is done before the next request, and this returns None. Raises NotCompactedError with
        the reason where no summary is taken; then nothing has changed.
        """
        return await self._measure(_compact)

    # -- for the session and its views

    async def prepare(self, request: Request, run: Run) -> Request:
        """Do what was wished for while a run was at work: a prepare step."""
        while self._wishes and (relief := self._session.relief) is not None:
            try:
                await self._wishes.pop(0)(relief, request, run)
            except (NotCompactedError, UsageError) as fault:
                run.emit(Notice(str(fault)))
            request = replace(request, messages=run.transcript.live())
        return request

    def clicked(self, click: dict[str, object]) -> str:
        """Do what a button asks for and say what comes of it; a late, double or foreign click does nothing."""
        try:
            match click:
                case {"act": "undo", "decision": str(identity)}:
                    ids = [decision.id for decision in self.decisions]
                    if identity not in ids:
                        return ""
                    self.undo(ids.index(identity) + 1)
                    return self.when("It is taken back", "")
                case {"act": "pin", "message": str(identity)}:
                    ids = [message.id for message in self.transcript.messages]
                    if identity not in ids:
                        return ""
                    number = ids.index(identity) + 1
                    self.pin(number)
                    return self.when(f"Message {number} stays word for word", ".")
                case _:
                    return ""
        except UsageError as fault:
            return str(fault)

    def last_told(self) -> str:
        """Say the last decision, and how full the window is now; or that it waits for a reply."""
        why = self.decisions[-1].why
        if self._session.work is not None and self._session.work.due:
            return f"{why} It takes hold as soon as the reply at hand is complete."
        return f"{why} The context now: {full(self.fill)}."

    def when(self, what: str, otherwise: str) -> str:
        """Say that a decision waits for the reply that is on its way, if it does."""
        if self._session.work is not None and self._session.work.due:
            return f"{what} as soon as the reply at hand is complete."
        return f"{what}{otherwise}" if otherwise else ""

    async def _measure(self, measure: Measure) -> Decision | None:
        if self._session.work is not None:
            self._wishes.append(measure)
            return None
        with self._session.at_rest() as (relief, agent, run):
            last = self.account.turns[-1:]  # of many tools, only those that the model was told of count
            tools = last[0].specs if last else agent.tools.specs
            request = Request(agent.instructions, run.transcript.live(), tools)
            return await measure(relief, request, run)

    def _decide(self, decision: Decision) -> Decision:
        self._session.decide(decision)
        return decision

    def _request(self) -> Request:
        """What the next request would begin with, as far as it is known: the instructions and tools of the last turn."""
        turns, live = self.account.turns, self._session.transcript.live()
        return Request(turns[-1].instructions, live, turns[-1].specs) if turns else Request("", live)

    def _message(self, transcript: Transcript, number: int) -> Message:
        messages = transcript.messages
        if not 1 <= number <= len(messages):
            raise UsageError(f"There is no message {number}: {_range(len(messages), 'message')}. {UNCHANGED}")
        return messages[number - 1]


async def _mask(relief: Relief, request: Request, run: Run) -> Decision | None:
    decision = await relief.mask(request, run)
    if decision is None:
        raise UsageError(f"There is no old tool result to mask: the newest are kept. {UNCHANGED}")
    return decision


async def _compact(relief: Relief, request: Request, run: Run) -> Decision | None:
    return await relief.compact(request, run)


def _together(transcript: Transcript, message: Message) -> tuple[Message, ...]:
    """Return the message with the results of its calls, or with the calls of its results: they are of no use alone."""
    wanted = {call.id for call in message.calls} | {result.call_id for result in message.results}
    if not wanted:
        return (message,)
    return tuple(m for m in transcript.messages if m is message or wanted & _call_ids(m))


def _spare_pinned(transcript: Transcript, undo: Decision) -> None:
    """Refuse to undo what keeps a message in sight that is pinned. Raises UsageError."""
    after = Transcript([*transcript.entries, undo])
    pinned = after.pinned()
    slots = zip(transcript.shown(), after.shown(), strict=True)
    for number, ((message, old), (_, new)) in enumerate(slots, 1):
        if message.id in pinned and message in old and message not in new:
            raise UsageError(
                f"Message {number} is pinned, and this would mask or hide it: unpin it first. {UNCHANGED}"
            )


def _call_ids(message: Message) -> set[str]:
    return {call.id for call in message.calls} | {result.call_id for result in message.results}


def _range(count: int, noun: str) -> str:
    if count == 0:
        return f"there is no {noun} yet"
    return f"there is one {noun}" if count == 1 else f"{noun}s are numbered 1 to {count}"
