"""A kept run as it was seen: the view that its records make. Book chapter 21.

    history, records = History(log.read()), log.read()
    view = view_of(history.runs[history.head], records, history)      # as_html(view), as_text(view), ...

Beside its events a view knows what only somebody who looks back can: that a run was cut off, what became of the messages
that a decision was about, and that nothing waits any more. How long the model thought is not on record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import cast

from harness_nb.context.count import Counter, counter
from harness_nb.context.fates import fates
from harness_nb.encoding import encode
from harness_nb.events import ApprovalDecided, RunEnded, ThinkingDelta
from harness_nb.jupyter.decision_card import Effect
from harness_nb.jupyter.replay import replayed
from harness_nb.jupyter.segments import ToolUse, Words
from harness_nb.jupyter.view import HEADLINES, RunView
from harness_nb.messages import Decision, Message, ToolResult, Transcript
from harness_nb.ops.history import History, KeptRun
from harness_nb.ops.records import Record

CUT_OFF = "cut off"
"""A run without an end whose process is gone, in a few words."""

WHY_CUT_OFF = "Its process ended before it did; what its tools had done by then stands."


def is_set(run: KeptRun) -> bool:
    """Tell whether this is no run, but a conversation that was set from Python."""
    return run.id.startswith("set-")


def by_run(records: Iterable[Record]) -> Mapping[str, Sequence[Record]]:
    """Sort the records of a journal by the run that they belong to."""
    found: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[record.run].append(record)
    return found


def view_of(
    run: KeptRun,
    records: Iterable[Record] = (),
    history: History | None = None,
    *,
    at_work: bool = False,
) -> RunView:
    """Return a run as it was seen, from the records of its journal; those of other runs are passed over.

    Without records it is told from what its history remembers: calls and answers, but neither questions nor times.
    With `history` a decision's card says what became of each message. A run without an end was cut off, unless it is
    `at_work`.
    """
    own = [record for record in records if record.run == run.id] or list(_remembered(run))
    view = (RunView if at_work or run.reason is not None else _CutOff)(run.prompt, clock=lambda: now)
    now = 0.0
    view.prompted = is_set(run)
    view.effect_of = _effects(run, history)
    view.turns_more = run.most
    for now, event in replayed(own):  # noqa: B007 - the view's clock reads it
        index = view.take(event)
        if isinstance(event, ThinkingDelta) and index is not None:
            cast("Words", view.segments[index]).began = None
    if run.reason is None and not at_work:
        view.take(RunEnded("incomplete", WHY_CUT_OFF, run.turns, run.usage))
    if run.reason == "suspended" and run.children:
        _give_up(view)
    if run.children or (history is not None and history.head != run.id):
        view.withdraw()
    return view


class _CutOff(RunView):
    """A run that nobody ended."""

    @property
    def headline(self) -> str:
        return super().headline.replace(HEADLINES["incomplete"], CUT_OFF, 1)


def _effects(run: KeptRun, history: History | None) -> Callable[[Decision], Effect]:
    """Make what works out a decision's effect: what became of each message. How full the window was is not on record."""
    if history is None:
        return lambda _: Effect()
    earlier = [entry for one in history.path(run.parent) for entry in one.entries] if run.parent else []
    entries = [*earlier, *run.entries]

    def effect(decision: Decision) -> Effect:
        place = next(
            (n for n, e in enumerate(entries) if isinstance(e, Decision) and e.id == decision.id), None
        )
        return Effect(tuple(fates(Transcript(entries[:place]), decision, _counter(run.model))))

    return effect


@cache
def _counter(model: str) -> Counter:
    """Keep one for each model: it remembers what it has counted."""
    return counter(model)


def _give_up(view: RunView) -> None:
    """Have questions that were left open wait no more: the conversation went on without them."""
    for use in [segment for segment in view.segments if isinstance(segment, ToolUse)]:
        if use.state == "asking" and use.asking is not None:
            asked = use.asking.asked
            view.take(ApprovalDecided(asked.id, asked.call, allowed=False, by="superseded"))


def _remembered(run: KeptRun) -> Iterator[Record]:
    """Make records of what a history knows of a run, for a journal that is kept nowhere."""

    def record(kind: str, /, **data: object) -> Record:
        return Record(kind, data, run.id, run.at)

    yield record("run_started", model=run.model)
    for entry in run.entries:
        written = encode(entry)
        if isinstance(entry, Message):
            for part, kept in zip(entry.parts, cast("list[object]", written["parts"]), strict=True):
                if not isinstance(part, ToolResult):
                    continue
                if (began := run.started.get(part.call_id)) is not None:
                    what = {"name": began.name, "arguments": began.arguments, "key": began.key}
                    yield record("tool_started", call=part.call_id, **what)
                yield record("tool_finished", call=part.call_id, result=kept, seconds=0)
        yield record("message" if isinstance(entry, Message) else "decision", **written)
    if run.turns:
        yield record("turn_ended", turn=run.turns, usage=asdict(run.usage), stop="")
    if run.reason is not None:
        told = {"reason": run.reason, "detail": run.detail, "turns": run.turns}
        yield record("run_ended", **told, seconds=run.seconds, waited=run.waited)
