"""A run as a person sees it: a fold of events into a prompt, segments and an end state. Fits the listener socket.

    view = RunView("What is 6 x 7?")
    for event in events:
        view.take(event)

It knows nothing of Jupyter, draws nothing and asks no clock but the one it is given. A delta costs the
same however long the run is. Strings meant for a person are made here or in words.py, once, so that
the live view, the record and the terminal tell one story.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from typing import Literal

from harness_nb.agent import GO_ON, NO_ANSWER, SUPERSEDED
from harness_nb.errors import Reason
from harness_nb.events import (
    ApprovalAsked,
    ApprovalDecided,
    CallDelta,
    Charged,
    ContextMeasured,
    DecisionMade,
    Event,
    Fill,
    LimitMet,
    MessageAdded,
    ModelChosen,
    ModelSwitched,
    Notice,
    Progress,
    RetryWaiting,
    RunEnded,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)
from harness_nb.jupyter.asking import Asking
from harness_nb.jupyter.decision_card import DecisionCard, Effect
from harness_nb.jupyter.gauge import full
from harness_nb.jupyter.history_versions import Versions
from harness_nb.jupyter.money import Bill, Offer
from harness_nb.jupyter.segments import Note, NoteKind, Segment, ToolUse, Words
from harness_nb.jupyter.words import counted, one_line, took, visible, weight
from harness_nb.messages import Decision, Message, Text, Thinking, ToolCall, ToolResult, Usage
from harness_nb.ops.allowance import near

NAME = 60
"""Most characters of a tool's name in a header."""

HEADLINES: dict[Reason, str] = {
    "done": "done",
    "turns": "stopped at the turn limit",
    "budget": "stopped at its budget",
    "interrupted": "stopped by you",
    "refused": "declined by the model",
    "incomplete": "ended without an answer",
    "suspended": "stopped to ask you",
    "error": "failed",
}
"""Each end state in a few words, for a header."""


class RunView:
    """The state of one run; `take` each event in order, then read."""

    def __init__(self, prompt: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        """Start before the first event. `clock` tells seconds, from any origin."""
        self.prompt = prompt
        self.model = ""
        self.turn = 0
        self.limit = 0
        """Most turns that the run may take."""
        self.usage = Usage()
        self.bill = Bill()
        """What it has cost."""
        self.offer: Offer | None = None
        """What a person may allow so that it goes on; None unless a limit ended it, and once something else followed."""
        self.turns_more = 0
        """Turns that going on would allow beyond `limit`; 0 for as many again."""
        self.fill: Fill | None = None
        """What fills the context window, as measured last; None before the first request."""
        self.effect_of: Callable[[Decision], Effect] = lambda _: Effect()
        """Works out what a decision does; without one its card has no table and no bars."""
        self.segments: list[Segment] = []
        self.reason: Reason | None = None
        self.detail = ""
        self.doing = "starting"
        """What is going on right now, in a few words."""
        self.at = "%agent"
        """How the session is spoken to: what a person types before a decision."""
        self.versions = Versions()
        """Which version of its cell it is, and those before it."""
        self.prompted = False
        """Whether it is several runs in one, a conversation that was set from Python: each of its prompts is told."""
        self.continues = True
        """Whether another prompt can go on from here: what an ending may offer."""
        self._clock = clock
        self._started: float | None = None
        self._ended: float | None = None
        self._own_model = ""
        self._turn_start = self._last_start = 0
        self._open: Words | None = None
        self._calls: dict[str, tuple[int, ToolUse]] = {}
        self._altered: set[int] = set()
        self._met: LimitMet | None = None
        self._ends = 0
        self._followed = False
        self._chosen: ModelChosen | None = None

    @property
    def context(self) -> str:
        """How full the context window is, in a few words; empty where its size is unknown."""
        return f"context {full(self.fill)}" if self.fill is not None and self.fill.window > 0 else ""

    @property
    def elapsed(self) -> float:
        """Seconds from the start to the end, or to now."""
        if self._started is None:
            return 0.0
        return (self._ended if self._ended is not None else self._clock()) - self._started

    @property
    def waits(self) -> bool:
        """Whether the run has ended with questions that can still be decided."""
        return self.reason == "suspended" and any(use.state == "asking" for use in self._asked)

    @property
    def held(self) -> bool:
        """Whether the run has ended and still hears a person: decisions, or that it may go on beyond a limit."""
        return self.waits or self.offer is not None

    @property
    def _asked(self) -> list[ToolUse]:
        return [segment for segment in self.segments if isinstance(segment, ToolUse) and segment.asking]

    @property
    def headline(self) -> str:
        """The whole run in a few words: `done in 2 turns, 6.2 s`; while it runs, what it is doing."""
        if self.reason is None:
            return self.doing
        match self.reason:
            case "done":
                turns = f" in {counted(self.turn, 'turn')}"
            case "budget":
                turns = f" after {counted(self.turn, 'turn')}"
            case _:
                turns = f" in turn {self.turn}"
        return f"{HEADLINES[self.reason]}{turns if self.turn else ''}, {took(self.elapsed)}"

    @property
    def ending(self) -> str:
        """A sentence or two on why the run ended and what can be done; empty for `done` and while it runs."""
        detail = _sentence(visible(self.detail))
        match self.reason:
            case None | "done":
                return ""
            case "interrupted":
                said, next_step = (
                    "Stopped by you.",
                    "What was finished is kept, and the next prompt goes on from here.",
                )
            case "error":
                said = f"The run failed: {detail or 'no reason was given.'}"
                next_step = "The conversation is kept: run this again, or go on with another prompt."
            case "refused":
                reason = detail or "it gave no reason."
                return f"The model declined: {reason} Ask in other words, or ask another model."
            case "suspended" if self.waits:
                said, next_step = (
                    f"{detail} Nothing of it has run.",
                    "Decide by a command in a cell, as it stands at the call, or by the buttons below while there are any.",
                )
            case "suspended" if self._asked:
                return "The conversation went on in a later cell."
            case "turns" | "budget" if self._followed:
                return f"{detail} What it did so far stands. The conversation went on in a later cell."
            case "turns" | "budget" if self.offer is not None and self.continues:
                said = self.offer.told(detail)
                next_step = self.offer.commands(self.at)
            case "budget" if (
                self._met is None
            ):  # a price is not known: the sentence says what helps, and nothing else does
                return detail or "The run met its budget."
            case "turns":
                said, next_step = detail, "What was done stands, and the next prompt goes on from here."
            case _:
                said = detail or "The run ended early."
                next_step = "What was done is kept; ask again, or ask it to go on."
        return f"{said} {next_step}" if self.continues else said

    @property
    def answer(self) -> str:
        """The text after the last tool call."""
        return "".join(
            s.text for s in self.segments[self.answer_start :] if isinstance(s, Words) and s.kind == "text"
        )

    @property
    def answer_start(self) -> int:
        """The index of the first segment after the last tool call."""
        uses = (i for i in reversed(range(len(self.segments))) if isinstance(self.segments[i], ToolUse))
        return next(uses, -1) + 1

    def take(self, event: Event) -> int | None:
        """Fold one event in; return the index of the segment it touched, None if none.

        After TurnRestarted and LimitMet all segments from the returned index on are other ones than before.
        """
        match event:
            case TextDelta(text):
                return self._say("text", "answering", text)
            case ThinkingDelta(text):
                return self._say("thinking", "thinking", text)
            case CallDelta(identity, name, text):
                return self._write_call(identity, name, text)
            case TurnStarted(turn):
                self._start_turn(turn)
            case RunEnded():
                self._end(event)
            case RunStarted(model=model, limit=limit):
                self._begin(model, limit)
            case Charged():
                self.bill.add(event)
            case LimitMet():
                self._met = event
                return self._unsay(event)
            case TurnEnded(usage=usage):
                self.usage += usage
                return self._close(usage.reasoning)
            case MessageAdded(message):
                return self._settle(message)
            case ApprovalAsked():
                return self._ask(event)
            case ApprovalDecided():
                return self._decide(event)
            case ToolStarted(call):
                return self._start_call(call)
            case ToolFinished(call, result, seconds):
                return self._finish_call(call, result, seconds)
            case TurnRestarted(why):
                return self._restart(why)
            case ContextMeasured(fill=fill):
                self.fill = fill
            case DecisionMade(decision):
                return self._take_decision(decision)
            case _:
                return self._note(event)
        return None

    def finish(self) -> None:
        """Close a run whose end nobody told, so that it is not shown as if it went on."""
        if self.reason is None:
            self._end(RunEnded("incomplete", "The run broke off without a word.", self.turn, self.usage))

    def _begin(self, model: str, limit: int) -> None:
        self.model = self._own_model = model
        self.limit = limit
        self._started = self._clock() - self.elapsed  # that of a suspended run goes on, without the wait
        self.reason, self._ended = None, None
        self._met = self.offer = self._chosen = None
        self._followed = False

    def _say(self, kind: Literal["text", "thinking"], doing: str, piece: str) -> int:
        if self._open is None or self._open.kind != kind:
            self._close()
            self._open = Words(kind, self._clock())
            self.segments.append(self._open)
            self.doing = doing
        self._open.add(piece)
        return len(self.segments) - 1

    def _unsay(self, met: LimitMet) -> int | None:
        """Take back that a limit comes near, if the turn before said so: it is reached, and the end says that."""
        said = near(met.scope, met.what, met.limit)
        for index in range(len(self.segments) - 1, self._last_start - 1, -1):
            segment = self.segments[index]
            if isinstance(segment, Note) and segment.kind == "notice" and segment.text.startswith(said):
                del self.segments[index]
                self._turn_start -= index < self._turn_start
                self._calls = {i: (at - (at > index), use) for i, (at, use) in self._calls.items()}
                return index
        return None

    def _close(self, reasoning: int = 0) -> int | None:
        """End the words that are open; give this turn's thinking its tokens if there is just one piece of it."""
        if self._open is not None:
            self._open.ended = self._clock()
            self._open = None
        if reasoning:
            of_turn = range(self._turn_start, len(self.segments))
            thoughts = [i for i in of_turn if getattr(self.segments[i], "kind", "") == "thinking"]
            match [self.segments[i] for i in thoughts]:
                case [Words() as thought]:
                    thought.tokens = reasoning
                    return thoughts[0]
        return None

    def _start_turn(self, turn: int) -> None:
        self._close()
        self.turn = turn
        self.model = self._own_model
        self._last_start, self._turn_start = self._turn_start, len(self.segments)
        self._calls.clear()
        self.doing = "waiting for the model"

    def _call(self, identity: str, name: str) -> tuple[int, ToolUse]:
        """Find the call of this turn, or begin it."""
        if identity not in self._calls:
            self._close()
            self._calls[identity] = len(self.segments), ToolUse(identity, name)
            self.segments.append(self._calls[identity][1])
            self.doing = f"calling {one_line(visible(name), NAME)}"
        return self._calls[identity]

    def _write_call(self, identity: str, name: str, piece: str) -> int:
        index, use = self._call(identity, name)
        use.add(piece)
        return index

    def _settle(self, message: Message) -> int | None:
        """Take a finished message: what was streamed is known, what was not joins now."""
        if message.role == "user":
            return self._hear(message.text)
        open_before = [result for result in message.results if result.call_id not in self._calls]
        if message.role == "tool" and self.turn == 0 and open_before:
            left = counted(len(open_before), "call")
            told = "may have run" if open_before[0].text != SUPERSEDED else "was not approved and did not run"
            return self._add("notice", f"{left} left open by an earlier run: told the model that it {told}.")
        if message.role != "assistant":
            return None
        said = {segment.kind for segment in self.segments[self._turn_start :] if isinstance(segment, Words)}
        self._rename(message.calls)
        for part in message.parts:
            match part:
                case Text(text) if "text" not in said:
                    self._say("text", "answering", text)
                case Thinking(text=text) if "thinking" not in said and text:
                    self._say("thinking", "thinking", text)
                case ToolCall(identity, name, raw):
                    _, use = self._call(identity, name)
                    if use.state == "writing":
                        use.name, use.raw, use.state = name, raw, "waiting"
                case _:
                    pass
        return None

    def _rename(self, calls: tuple[ToolCall, ...]) -> None:
        """Know streamed calls by the ids on record: those that a server sent may have been another call's already."""
        ids = [call.id for call in calls]
        streamed = [i for i, (_, use) in self._calls.items() if use.state == "writing" and i not in ids]
        for sent, kept in zip(streamed, [i for i in ids if i not in self._calls], strict=False):
            self._calls[kept] = self._calls.pop(sent)
            self._calls[kept][1].id = kept

    def _hear(self, text: str) -> int | None:
        if self.turn == 0:
            self.prompt = self.prompt or text
            return None
        if self.prompted and text not in {GO_ON, NO_ANSWER}:
            return self._add("prompt", f"Prompt: {text}")
        return self._add("nudge", f"The harness told the model: {text}")

    def propose(self, decision: Decision) -> DecisionCard:
        """Show a decision about the context that is not taken yet."""
        card = DecisionCard(decision, self.effect_of(decision), "asking")
        self.doing = f"waiting for you: {card.question}"
        return self._show(card)

    def settle(self, card: DecisionCard, *, taken: bool) -> None:
        """Say what the person decided about it."""
        card.state = "taken" if taken else "declined"
        self.doing = "waiting for the model"
        self._altered.add(self.segments.index(card))

    def altered(self) -> set[int]:
        """Return the indices of the segments that changed beside the one that `take` names, once."""
        indices, self._altered = self._altered, set()
        return indices

    def _show(self, card: DecisionCard) -> DecisionCard:
        self._close()
        self.segments.append(card)
        return card

    def _take_decision(self, decision: Decision) -> int:
        """Show what changes the model's sight as a card; what a person did is one line, and ends what it undoes."""
        effect = self.effect_of(decision)
        self.fill = effect.after or self.fill
        cards = {s.decision.id: (i, s) for i, s in enumerate(self.segments) if isinstance(s, DecisionCard)}
        if decision.undoes in cards:
            index, card = cards[decision.undoes]
            card.state = "undone"
            self._altered.add(index)
        if decision.id in cards:
            index, card = cards[decision.id]
            card.decision, card.effect, card.state = decision, effect, "taken"
            self._altered.add(index)
            return index
        if not decision.changes or decision.by == "you":
            return self._add("decision", decision.why)
        self._show(DecisionCard(decision, effect))
        return len(self.segments) - 1

    def _ask(self, event: ApprovalAsked) -> int:
        """Hang a question on its call; asked a second time, it is about other arguments."""
        index, use = self._call(event.call.id, event.call.name)
        again = use.asking is not None and use.asking.asked.id == event.id
        began = use.asking.began if use.asking is not None and again else self._clock()
        use.raw = use.raw or event.call.raw  # a run that is taken up again does not write its calls anew
        use.asking = Asking(event, began, edited=again)
        use.state = "asking"
        self._tell_running()
        return index

    def _decide(self, event: ApprovalDecided) -> int:
        index, use = self._call(event.call.id, event.call.name)
        if use.asking is None:  # denied without a question, because there is nobody to ask
            use.asking = Asking(ApprovalAsked(event.id, event.call, (), ""), self._clock())
        use.asking.decided = event
        use.waited += self._clock() - use.asking.began
        use.state = "waiting" if event.allowed else "denied"
        self._tell_running()
        return index

    def _start_call(self, call: ToolCall) -> int:
        index, use = self._call(call.id, call.name)
        use.state = "running"
        self._tell_running()
        return index

    def _finish_call(self, call: ToolCall, result: ToolResult, seconds: float) -> int:
        index, use = self._call(call.id, call.name)
        use.finish(call, result, seconds)
        self._tell_running()
        return index

    def _tell_running(self) -> None:
        asked = [use.asking for _, use in self._calls.values() if use.state == "asking" and use.asking]
        if asked:
            more = f" ({len(asked)} questions wait)" if len(asked) > 1 else ""
            self.doing = f"waiting for you: {asked[0].question}{more}"
            return
        names = [use.name for _, use in self._calls.values() if use.state == "running"]
        one = f"running {one_line(visible(names[0]), NAME)}" if names else "waiting for the model"
        self.doing = f"running {len(names)} tools" if len(names) > 1 else one

    def _restart(self, why: str) -> int:
        """Drop what the turn has streamed; what the harness said in it stays."""
        start = self._turn_start
        kept = (segment for segment in self.segments[start:] if isinstance(segment, Note | DecisionCard))
        self.segments[start:] = kept
        self._open = None
        self._calls.clear()
        self.doing = "asking again"
        self._add("restart", f"Asked the model again: {why}")
        return start

    def _note(self, event: Event) -> int | None:
        match event:
            case Notice(text):
                return self._add("notice", text)
            case Progress():
                return self._progress(event)
            case RetryWaiting(seconds, attempt, attempts, why):
                self.doing = f"waiting {took(seconds)} to ask again"
                last = self.segments[-1] if len(self.segments) > self._turn_start else None
                if isinstance(last, Note) and last.kind == "wait":
                    self.segments.pop()
                return self._add(
                    "wait",
                    f"Attempt {attempt} of {attempts} failed: {_sentence(why)} Next attempt {_after(seconds)}.",
                )
            case ModelSwitched(model, why):
                self.model = model
                return self._add("switch", f"Went on with {model} for this turn: {why}")
            case ModelChosen(model, tier, why):
                self.model = model
                before, self._chosen = self._chosen, event
                return self._add("switch", f"The {tier} tier, {model}: {why}") if event != before else None
            case _:
                return None

    def _progress(self, event: Progress) -> int:
        """Move the bar of what is on its way, or begin one."""
        there = event.done >= event.total
        index = len(self.segments) - 1
        last = self.segments[index] if self.segments else None
        if not (isinstance(last, Note) and last.kind == "progress" and last.share != 1.0):
            index = self._add("progress", "")
        share = 1.0 if there else event.done / event.total
        size = weight(event.total) if there else f"{weight(event.done)} of {weight(event.total)}"
        self.segments[index] = Note(
            "progress", f"{'Fetched' if there else 'Fetching'} {event.what}: {size}.", share
        )
        self.doing = "waiting for the model" if there else f"fetching, {share:.0%}"
        return index

    def _add(self, kind: NoteKind, text: str) -> int:
        self._close()
        self.segments.append(Note(kind, text))
        return len(self.segments) - 1

    def _end(self, event: RunEnded) -> None:
        self._close()
        for segment in self.segments:
            if isinstance(segment, ToolUse) and segment.busy and event.reason != "suspended":
                segment.state = "interrupted" if segment.state == "running" else "not run"
        self.reason, self.detail = event.reason, event.detail
        self.turn, self.usage = event.turns, event.usage
        self._ended = self._clock()
        self._ends += 1
        self.doing = HEADLINES[event.reason]
        self.offer = self._offered(event)

    def _offered(self, event: RunEnded) -> Offer | None:
        """Say what going on would take, if a limit ended the run."""
        met = self._met
        if event.reason == "turns":
            limit = max(self.limit, self.turn)
            met = LimitMet("turns", "run", *map(Decimal, (limit, self.turn, self.turns_more or limit)))
        if met is None or event.reason not in {"budget", "turns"} or not self.continues:
            return None
        return Offer(f"limit-{self._ends}", met, event.waited)

    def withdraw(self) -> None:
        """Offer nothing any more: something else followed."""
        self._followed = self._followed or self.offer is not None
        self.offer = None


def _after(seconds: float) -> str:
    return f"after {took(seconds) if seconds >= 0.95 else f'{seconds:.1f} s'}"


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text[-1] in ".!?…" else f"{text}."
