"""What a decision about the context does, worked out for its card: fates, and how the window is filled before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness_nb.context.account import Account
from harness_nb.context.fates import fates
from harness_nb.context.tally import scaled
from harness_nb.events import Fill
from harness_nb.jupyter.decision_card import Effect
from harness_nb.messages import Decision, Entry, Transcript
from harness_nb.seams import Request


def effect(entries: Sequence[Entry], decision: Decision, account: Account, request: Request) -> Effect:
    """Work out what a decision does to this record, which may hold it or not yet; `request` has what is beside the messages.

    The totals are those that were counted when it was taken; what they are made of is our count, scaled to them.
    """
    place = next((n for n, entry in enumerate(entries) if entry is decision), len(entries))
    before, after = Transcript(entries[:place]), Transcript([*entries[:place], decision])
    number = sum(isinstance(entry, Decision) for entry in entries[:place]) + 1
    return Effect(
        tuple(fates(before, decision, account.counter)),
        _filled(before, account, request, decision.before),
        _filled(after, account, request, decision.after),
        number,
    )


def _filled(transcript: Transcript, account: Account, request: Request, total: int) -> Fill:
    fill = account.fill(replace(request, messages=transcript.live()))
    if total <= 0 or total == fill.total:
        return fill
    return account.judged(scaled(fill.tokens, total), fill.how, request.max_output or 0)
