"""The turns of a session as its account kept them, and the exact request of each, rebuilt from the record. Book chapter 7.

    turns = turns_of(transcript, account)
    request(turns[-1], transcript)      rows(turns)

The record is only ever added to, so a turn needs no copy of what it saw: what stood in the record at the time says it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from harness_nb.context.account import Account, TurnRecord, records_of
from harness_nb.context.tally import COMPONENTS
from harness_nb.messages import Transcript
from harness_nb.seams import Request

Row: TypeAlias = dict[str, str | int | float | None]
"""One turn in numbers, by column."""


def turns_of(transcript: Transcript, account: Account | None = None) -> list[TurnRecord]:
    """Return the turns of this transcript in order, those that the account doesn't have rebuilt without usage.

    Turns of other conversations, and turns whose reply never joined the record, are left out.
    """
    kept = {record.message_id: record for record in (account.turns if account is not None else ())}
    replies = [m.id for m in transcript.messages if m.role == "assistant"]
    if all(identity in kept for identity in replies):
        return [kept[identity] for identity in replies]
    return [kept.get(record.message_id, record) for record in records_of(transcript, account)]


def seen(record: TurnRecord, transcript: Transcript) -> Transcript:
    """Return the record as it stood when the model was asked."""
    return Transcript(transcript.entries[: record.entries])


def request(record: TurnRecord, transcript: Transcript, then: Transcript | None = None) -> Request:
    """Return what the model was sent in this turn; `then` is what `seen` returned, where that is at hand."""
    then = seen(record, transcript) if then is None else then
    return Request(record.instructions, then.live(), record.specs)


def rows(turns: Iterable[TurnRecord]) -> list[Row]:
    """Put turns into a table: tokens by component, how full the window was, and what the provider counted, None where it didn't."""
    return [_row(number, record) for number, record in enumerate(turns, 1)]


def _row(number: int, record: TurnRecord) -> Row:
    fill, usage = record.fill, record.usage
    counted = not usage.estimated and usage.input > 0
    row: Row = {"turn": number, "run": record.run, "model": record.model}
    row |= {component: fill.tokens.get(component, 0) for component in COMPONENTS}
    row |= {
        "total": fill.total,
        "window": fill.window,
        "headroom": fill.headroom,
        "share": fill.share,
        "state": fill.state,
        "how": fill.how,
        "counted": (usage.context or usage.input) if counted else None,
        "error": record.error,
        "cache_read": usage.cache_read if counted else None,
        "cache_write": usage.cache_write if counted else None,
        "output": usage.output if counted else None,
    }
    return row
