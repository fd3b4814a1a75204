"""What is done when the context window fills up, before each request: `Relief` is a prepare step, `refitted` a model layer. Book chapter 8.

    relief = Relief(account, summariser=model)
    Agent(layered(model, measured(account), refitted(relief), retrying()), prepare=(relief,))

Theory of operation. Each measure is a decision in the record, so that it can be shown and undone; each breaks the
prompt cache from the first message that it changes, so that few large ones are better than many small ones. In order:

1. A result that is a large part of the window by itself is cut to its head and tail.
2. At red, old results are masked, if that frees enough to be worth it. Where the provider clears on its own side, it
   comes first: that contradicts none of the model's reasoning.
3. Still red: what lies between the first request and the newest messages is summarised, at most `attempts` times.
4. Over the limit all the same: every result but the newest is masked, and then the oldest messages are left out. What
   remains after that is fixed: the run ends with a sentence on what takes the room, and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import TypeAlias

from harness_nb.context.account import Account
from harness_nb.context.compact import NotCompactedError, Plan, planned, summarised
from harness_nb.context.count import Counter
from harness_nb.context.mask import NEWEST, Again, Changes, Shown, anew, freed, masking, masks, too_large
from harness_nb.context.tally import scaled
from harness_nb.errors import ProviderError, RunStop
from harness_nb.events import Event, Fill, ModelSwitched, Notice, TurnRestarted
from harness_nb.messages import Decision, Message, Role, Text, Transcript
from harness_nb.seams import Model, ModelLayer, Proceed, Reply, Request, Run

Ask: TypeAlias = Callable[[Decision], Awaitable[bool]]
"""Asks the person whether a decision may be taken."""


@dataclass(frozen=True, slots=True)
class Measures:
    """How far each measure goes; shares are of what can be used of the window."""

    keep: int = NEWEST
    """Newest results that are never masked, but in need."""
    goal: float = 0.40
    """Share that masking comes down to, if there is enough to mask."""
    least: float = 0.35
    """Share that masking must free to be worth a break of the prompt cache; with less to free, it is time to summarise."""
    largest: float = 0.50
    """Share above which a single result is cut."""
    recent: float = 0.20
    """Share of the newest messages that a summary leaves alone."""
    words: float = 0.10
    """Share that the person's own older requests may take to stay word for word."""
    worth: float = 0.10
    """Share that a summary must replace to be worth its cost and a break of the prompt cache, while there is room."""
    attempts: int = 2
    """Most summaries that are asked for before a request."""
    patience: float = 0.05
    """Share by which the context must grow before what failed or was refused is tried again."""


FAR = 0.95
"""Share at which even a little masking is worth it."""


@dataclass(slots=True)
class _Now:
    """The request at hand and how it fills the window, kept up with each decision."""

    request: Request
    run: Run
    fill: Fill


class Relief:
    """Keeps the requests of one session within the window; the order of measures is in this module's first lines.

    `summariser` writes summaries, None for none; `again` says how a masked result is had again; `ask` is asked before
    each decision that can wait, None to decide alone; `clears` tells that the provider clears old results itself.
    """

    def __init__(
        self,
        account: Account,
        summariser: Model | None = None,
        measures: Measures | None = None,
        *,
        again: Again = anew,
        ask: Ask | None = None,
        clears: bool = False,
    ) -> None:
        self.account = account
        self.measures = measures or Measures()
        self._summariser = summariser
        self._again = again
        self._ask = ask
        self._clears = clears
        self._given_up_at = self._refused_at = 0
        self._left_to_provider = False

    async def __call__(self, request: Request, run: Run) -> Request:
        """Make the request fit, and return it. Raises RunStop where that can't be done."""
        now = _Now(request, run, await self.account.measure(request))
        if self.account.window.usable <= 0:
            return request
        await self._cut_large(now)
        if now.fill.state == "red":
            await self._relieve(now)
        else:
            self._given_up_at, self._refused_at, self._left_to_provider = 0, 0, False
        return now.request

    async def mask(self, request: Request, run: Run) -> Decision | None:
        """Mask every old result now, however full the window is; None where there is none, or it was refused."""
        now = _Now(request, run, await self.account.measure(request))
        self._refused_at = 0
        changes = self._maskable(now, self.measures.keep, spared(run.transcript))
        return await self._decide(now, _wish(now, changes, "You asked"))

    async def compact(self, request: Request, run: Run) -> Decision | None:
        """Summarise now, however full the window is; None if it was refused. Raises NotCompactedError, with the reason."""
        now = _Now(request, run, await self.account.measure(request))
        self._refused_at = 0
        decision = await self._summary(now, "You asked")
        if decision is None:
            raise NotCompactedError("There is nothing new to summarise.")
        return await self._decide(now, decision)

    async def overflowed(self, request: Request, run: Run, fault: ProviderError) -> Request | None:
        """Learn from a provider that found the request too large, and make it smaller; None where it can't be."""
        fill = await self.account.measure(request)
        guess = min(fill.total * 9 // 10, self.account.window.size or fill.total)
        self.account.learn(fault.window or guess)
        if self.account.window.usable <= 0:
            return None
        self._given_up_at, self._refused_at, self._left_to_provider = 0, 0, True
        fill, usable = await self.account.measure(request), self.account.window.usable
        # Our count may be too low: what the provider says is what holds.
        full = replace(fill, tokens=scaled(fill.tokens, max(fill.total, usable)), state="red")
        now = _Now(request, run, full)
        await self._relieve(now)
        return now.request if now.request.messages != request.messages else None

    async def _relieve(self, now: _Now) -> None:
        if self._clears and now.fill.share < FAR and not self._left_to_provider:
            self._left_to_provider = True  # it clears in this very request: next time its count tells
            return
        if now.fill.total >= self._given_up_at and (not self._clears or now.fill.share >= FAR):
            await self._mask(now, self.measures.least)
        if now.fill.total >= self._given_up_at and now.fill.state == "red":
            await self._compact(now)
        if now.fill.share >= FAR:
            await self._mask(now, 0.0)
        if now.fill.share >= 1.0:
            await self._mask_in_need(now)
        if now.fill.share >= 1.0:
            await self._leave_out(now)
        if now.fill.share >= 1.0:
            raise RunStop("error", self._too_big(now))

    async def _cut_large(self, now: _Now) -> None:
        most = int(self.measures.largest * self.account.window.usable)
        if now.fill.total > most:
            changes = too_large(now.run.transcript.shown(), self.account.counter, most, self._again)
            why = f"A single result had more than {most:,} tokens, so only its head and tail are shown."
            await self._decide(now, Decision("mask", why, changes), must=True)

    async def _mask(self, now: _Now, least: float) -> None:
        usable = self.account.window.usable
        goal = max(1, now.fill.total - int(self.measures.goal * usable))
        changes = self._maskable(now, self.measures.keep, spared(now.run.transcript), goal)
        gain = freed(now.run.transcript.shown(), changes, self.account.counter)
        if gain >= max(1, least * usable):
            await self._decide(now, _wish(now, changes, _full(now.fill)))

    async def _compact(self, now: _Now) -> None:
        for left in reversed(range(self.measures.attempts if self._summariser is not None else 0)):
            try:
                if (decision := await self._summary(now, _full(now.fill), self.measures.worth)) is not None:
                    await self._decide(now, decision)
                break
            except NotCompactedError as fault:
                if not left:
                    now.run.emit(Notice(f"{fault} Nothing has changed."))
        if now.fill.state == "red":
            self._give_up(now)

    def _give_up(self, now: _Now) -> None:
        self._given_up_at = now.fill.total + int(self.measures.patience * self.account.window.usable)

    async def _summary(self, now: _Now, because: str, worth: float = 0.0) -> Decision | None:
        if self._summariser is None:
            raise NotCompactedError("No model writes summaries here.")
        shown, window = now.run.transcript.shown(), self.account.window
        base = min(window.usable or now.fill.total, now.fill.total)
        plan = self._planned(now, int(self.measures.recent * base), int(self.measures.words * base))
        if plan is None or (now.fill.share < FAR and _size(plan, shown, self.account.counter) < worth * base):
            return None
        changes, usage = await summarised(
            shown, plan, self.account.counter, self._summariser, now.run, window=window.size
        )
        why = f"{because}, so {len(plan.replaced):,} earlier messages were summarised."
        return Decision("compact", why, changes, usage=usage)

    async def _mask_in_need(self, now: _Now) -> None:
        """Mask all results but the newest, those too that a person brought back."""
        changes = self._maskable(now, 1, now.run.transcript.pinned())
        await self._decide(now, _wish(now, changes, _full(now.fill)), must=True)

    async def _leave_out(self, now: _Now) -> None:
        """Leave out the oldest messages without a summary: what is left when none can be had. What was brought back goes last."""
        shown, plan = now.run.transcript.shown(), self._planned(now, 0, 0)
        if plan is None:
            plan = self._planned(now, 0, 0, now.run.transcript.pinned())
        if plan is None:
            return
        number = f"{len(plan.replaced):,} earlier messages"
        changes: Changes = {shown[i][0].id: () for i in plan.replaced}
        changes[shown[plan.place][0].id] = (Message("user", (Text(LEFT_OUT.format(number)),)),)
        why = f"{_full(now.fill)} and no summary could be had, so {number} were left out."
        await self._decide(now, Decision("compact", why, changes), must=True)

    def _maskable(self, now: _Now, keep: int, kept: Collection[str], goal: int | None = None) -> Changes:
        shown = now.run.transcript.shown()
        return masking(shown, self.account.counter, keep=keep, goal=goal, spared=kept, again=self._again)

    def _planned(
        self, now: _Now, recent: int, words: int, kept: Collection[str] | None = None
    ) -> Plan | None:
        shown, kept = now.run.transcript.shown(), spared(now.run.transcript) if kept is None else kept
        return planned(shown, self.account.counter, recent=recent, words=words, spared=kept)

    async def _decide(self, now: _Now, wish: Decision, *, must: bool = False) -> Decision | None:
        """Count what a decision does, ask if that is wanted, and put it on record; None if it is empty or was refused."""
        if not wish.changes or (not must and now.fill.total < self._refused_at):
            return None
        seen = Transcript([*now.run.transcript.entries, wish]).live()
        request = replace(now.request, messages=seen)
        fill = await self.account.measure(request)
        decision = replace(wish, before=now.fill.total, after=fill.total)
        if self._ask is not None and not must and not await self._ask(decision):
            now.run.emit(Notice("You kept the context as it was."))
            self._give_up(now)
            self._refused_at = self._given_up_at
            return None
        now.run.append(decision)
        now.request, now.fill = request, fill
        return decision

    def _too_big(self, now: _Now) -> str:
        counter, pinned, tokens = self.account.counter, now.run.transcript.pinned(), now.fill.tokens

        def largest(role: Role) -> int:
            return max((counter.message(m) for m in now.request.messages if m.role == role), default=0)

        parts = {
            "the system prompt": tokens.get("system", 0),
            "the tools": tokens.get("tools", 0),
            "what you pinned": sum(counter.message(m) for m in now.request.messages if m.id in pinned),
            "a request of yours": largest("user"),
            "one turn of the model's": largest("assistant"),
            "the results of one turn": largest("tool"),
        }
        what, size = max(parts.items(), key=lambda part: part[1])
        return (
            f"The request has about {now.fill.total:,} tokens, but beside its reply the model's window holds "
            f"{self.account.window.usable:,}; the largest part that must stay is {what}, with about {size:,}. "
            "Make that smaller, or use a model with a larger window. Nothing was sent."
        )


LEFT_OUT = "[{} are left out here, because the context window was full.]"


def refitted(relief: Relief) -> ModelLayer:
    """Make the layer that answers a provider's `too large`: it learns the window, makes room and asks once more.

    Put it inside of `measured`, outside of fallbacks and retries. The window of a model that only took this turn over
    holds for this turn.
    """

    async def layer(request: Request, run: Run, proceed: Proceed[Request, Reply]) -> Reply:
        switched = list[Event]()
        with run.overheard(
            lambda event: switched.append(event) if isinstance(event, ModelSwitched) else None
        ):
            try:
                return await proceed(request)
            except ProviderError as fault:
                if not fault.overflow:
                    raise
                overflow = fault
        own, others = relief.account.window, bool(switched)
        try:
            if run.streamed:
                run.emit(TurnRestarted("the request was larger than the model's window."))
            smaller = await relief.overflowed(request, run, overflow)
            if smaller is None:
                raise overflow
            return await proceed(smaller)
        finally:
            if others:
                relief.account.window = own

    return layer


def spared(transcript: Transcript) -> frozenset[str]:
    """Name the messages that no measure touches while there is another way: pinned ones, and those a person brought back."""
    by_id = {entry.id: entry for entry in transcript.entries if isinstance(entry, Decision)}
    back = (by_id[d.undoes] for d in transcript.standing() if d.by == "you" and d.undoes in by_id)
    return transcript.pinned().union(*(decision.changes for decision in back))


def _size(plan: Plan, shown: Shown, counter: Counter) -> int:
    return sum(counter.message(message) for i in plan.replaced for message in shown[i][1])


def _full(fill: Fill) -> str:
    return f"The context was {fill.share:.0%} full"


def _wish(now: _Now, changes: Changes, because: str) -> Decision:
    number = masks(now.run.transcript.shown(), changes)
    what = "an old tool result was" if number == 1 else f"{number:,} old tool results were"
    return Decision("mask", f"{because}, so {what} masked.", changes)
