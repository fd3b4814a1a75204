"""A session played to its end without a model: every turn fetches a large result, and a provider counts a little more than we do."""

from harness_nb.context.account import Account, TurnRecord
from harness_nb.context.count import counting
from harness_nb.context.mask import masking
from harness_nb.context.window import Window
from harness_nb.messages import (
    Decision,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Transcript,
    Usage,
    assistant,
    user,
)
from harness_nb.seams import Request, ToolSpec

WINDOW = Window(20_000, 4_000, source="configuration")
FETCH = ToolSpec("fetch", "Fetch a page.", {"type": "object", "properties": {"n": {"type": "integer"}}})


def played(
    turns=8, size=2_000, *, window=WINDOW, encoding="characters", masked_at=0, said="Fetch all of them."
):
    """Return the account and the transcript; old results are masked before turn `masked_at`, from 1."""
    account, transcript = Account(window, counting(encoding)), Transcript([user(said)])
    for number in range(turns):
        if number + 1 == masked_at:
            changes = masking(transcript.shown(), account.counter)
            transcript.append(Decision("mask", f"{len(changes)} old tool results were masked.", changes))
        asked = Request("Be brief.", transcript.live(), (FETCH,))
        fill = account.fill(asked)
        usage = Usage(fill.total + 100, 20, fill.total // 2)
        account.anchor(asked, usage)
        reply = assistant("Next.", ToolCall(f"c{number}", "fetch", f'{{"n": {number}}}'))
        record = TurnRecord(
            "r", number + 1, len(transcript), "Be brief.", (FETCH,), fill, usage, "m", reply.id
        )
        account.turns.append(record)
        transcript.append(reply)
        result = ToolResult(f"c{number}", (Text(f"{number} " + "words " * size),))
        transcript.append(Message("tool", (result,)))
    return account, transcript
