"""The second of the local model's two prompts: the answer, from the question and what the tools returned."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness_nb.messages import ToolCall, ToolResult
from harness_nb.providers.local.conversation import EARLIER, FAILURE, QUESTION, RESULT, Exchange, shortened

CIRCLE = re.compile(r"(.{20,200}?)\1\1\Z", re.DOTALL)

WORDS = (
    "You are a small language model that runs on this computer. You answer briefly and in plain words. "
    "Where a result is given, answer from it and add nothing to it."
)

FAILED = "Say that this failed, and why."
"""Or the model makes up what the tool would have said."""

WORKED = (
    ('What is 12 times 30?\n\nResult of calc {"expression": "12 * 30"}:\n360', "12 times 30 is 360."),
    (
        'What is in plan.txt?\n\nResult of read_file {"path": "plan.txt"}:\n1. Buy paint\n2. Paint the fence',
        "plan.txt lists two steps: first buy paint, then paint the fence.",
    ),
    (
        f'Is 8 odd?\n\nResult of calc {{"expression": "8 odd"}}:\nFAILED: `8 odd` is not arithmetic.\n\n{FAILED}',
        "I could not find out: calc failed, since `8 odd` is not arithmetic.",
    ),
    (
        "Hello, who are you? What can you do?",
        "I am a small language model on this computer. I answer simple questions, with one tool at a time.",
    ),
)


def prefix(instructions: str) -> list[dict[str, str]]:
    """Everything before the conversation: what the model is told, and the worked examples."""
    said = [{"role": "system", "content": f"{WORDS}\n\n{instructions}".strip()}]
    for asked, answer in WORKED:
        said += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    return said


def question(exchanges: Sequence[Exchange]) -> list[dict[str, str]]:
    """What follows the prefix: earlier questions and answers, then the current question with its results."""
    said = []
    for exchange in exchanges[:-1]:
        said.append({"role": "user", "content": shortened(exchange.question, EARLIER)})
        if exchange.answer:
            said.append({"role": "assistant", "content": shortened(exchange.answer, EARLIER)})
    return [*said, {"role": "user", "content": _asked(exchanges[-1])}]


def repeats(text: str) -> bool:
    """Tell whether the text has begun to go round in circles: its end says the same words three times over."""
    found = CIRCLE.search(text[-3 * 200 :])
    return found is not None and any(letter.isalpha() for letter in found[1])


def _asked(exchange: Exchange) -> str:
    calls = {call.id: call for call in exchange.calls}
    said = [shortened(exchange.question, QUESTION)]
    said += [_told(calls.get(result.call_id), result) for result in exchange.results]
    if any(result.is_error for result in exchange.results):
        said.append(FAILED)
    return "\n\n".join(said)


def _told(call: ToolCall | None, result: ToolResult) -> str:
    source = f"Result of {call.name} {call.raw}" if call else "Result"
    text = f"FAILED: {result.text[:FAILURE]}" if result.is_error else shortened(result.text, RESULT)
    return f"{source}:\n{text or '(no text)'}"
