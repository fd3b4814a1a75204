"""What a measure would do to a turn's request, worked out without taking it. Book chapters 7 and 8.

    what_if(account, turns[-1], transcript, "mask").after

No model is asked and nothing is kept: neither the record nor the account changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness_nb.context.account import Account, TurnRecord
from harness_nb.context.compact import planned, summary_message
from harness_nb.context.mask import Changes, masking
from harness_nb.context.relief import Measures, spared
from harness_nb.context.tally import scaled
from harness_nb.context.turns import seen
from harness_nb.context.window import HEADROOM, Window
from harness_nb.errors import UsageError
from harness_nb.events import Fill
from harness_nb.messages import Decision, Transcript
from harness_nb.seams import Request

Measure: TypeAlias = Literal["mask", "compact"] | int
"""Mask every old result, summarise what lies between the first request and the newest messages, or have a window of so many tokens."""

SUMMARY = 800
"""Tokens that a summary is taken to have: about the 600 words that are asked for."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """How full the window is, and how full it would be; `said` says in one sentence what would change."""

    before: Fill
    after: Fill
    said: str


def what_if(
    account: Account, record: TurnRecord, transcript: Transcript, measure: Measure, *, summary: int = SUMMARY
) -> WhatIf:
    """Work out what the turn's request would have been with this measure; a summary is taken to have `summary` tokens.

    Raises UsageError for a window or a summary of less than one token.
    """
    if isinstance(measure, int):
        return _windowed(account, record, measure)
    if summary < 1:
        raise UsageError(f"A summary of {summary:,} tokens can't be: give a number above 0.")
    then = seen(record, transcript)
    changes, said = (
        _masked(account, then) if measure == "mask" else _compacted(account, record, then, summary)
    )
    after = Transcript([*then.entries, Decision(measure, "what if", changes)])
    return WhatIf(record.fill, _filled(account, record, then, after), said)


def _windowed(account: Account, record: TurnRecord, size: int) -> WhatIf:
    if size < 1:
        raise UsageError(f"A window of {size:,} tokens can't be: give a number above 0.")
    headroom = min(record.fill.headroom or HEADROOM, size // 4)
    after = _aside(account, Window(size, headroom, source="configuration")).judged(
        record.fill.tokens, record.fill.how
    )
    over = after.total - (size - headroom)
    said = f"In a window of {size:,} tokens, with {headroom:,} kept for the reply"
    return WhatIf(record.fill, after, f"{said}, it would {f'be {over:,} too many' if over > 0 else 'fit'}.")


def _masked(account: Account, then: Transcript) -> tuple[Changes, str]:
    changes = masking(then.shown(), account.counter, spared=spared(then))
    number = len(changes)
    if not number:
        return changes, "There is nothing to mask: the newest results stay, and so do small ones."
    return changes, f"{number:,} old tool {'result' if number == 1 else 'results'} would be one line each."


def _compacted(account: Account, record: TurnRecord, then: Transcript, summary: int) -> tuple[Changes, str]:
    measures, usable = Measures(), record.fill.window - record.fill.headroom
    base = min(usable, record.fill.total) if usable > 0 else record.fill.total
    recent, words = int(measures.recent * base), int(measures.words * base)
    shown = then.shown()
    plan = planned(shown, account.counter, recent=recent, words=words, spared=spared(then))
    if plan is None:
        return {}, "There is nothing to summarise: what is there stays word for word."
    replaced = [shown[i][0] for i in plan.replaced]
    changes: Changes = {message.id: () for message in replaced}
    changes[shown[plan.place][0].id] = (summary_message(" word" * summary, replaced),)
    number = f"{len(replaced):,} {'message' if len(replaced) == 1 else 'messages'}"
    return (
        changes,
        f"{number} would become one summary, taken to have {summary:,} tokens and a list of calls.",
    )


def _filled(account: Account, record: TurnRecord, then: Transcript, after: Transcript) -> Fill:
    """Measure both requests by estimate, and move what was measured then by the difference."""
    aside = _aside(account, Window())
    was, now = (aside.fill(Request(record.instructions, view.live(), record.specs)) for view in (then, after))
    total = round(record.fill.total * now.total / max(1, was.total))
    tokens = record.fill.tokens if was.tokens == now.tokens else scaled(now.tokens, total)
    window = Window(record.fill.window, record.fill.headroom) if record.fill.window > 0 else Window()
    return _aside(account, window).judged(tokens, record.fill.how)


def _aside(account: Account, window: Window) -> Account:
    """Make an account that measures alike and keeps to itself."""
    return Account(window, account.counter, account.yellow, account.red, retrieved=account.retrieved)
