"""The second of the local model's two prompts: the answer, from the question and what the tools returned."""

from __future__ import annotations

from collections.abc import Sequence

from harness_nb.messages import ToolCall, ToolResult
from harness_nb.providers.local.conversation import EARLIER, QUESTION, RESULT, Exchange, shortened

WORDS = (
    "You answer briefly and in plain words. Where a result is given, answer from it and add nothing to it."
)

WORKED = (
    ("Who are you?", "I am a small language model that runs on this computer."),
    ('What is 12 times 30?\n\nResult of calc {"expression": "12 * 30"}:\n360', "12 times 30 is 360."),
    (
        'What is in plan.txt?\n\nResult of read_file {"path": "plan.txt"}:\n1. Buy paint\n2. Paint the fence',
        "plan.txt lists two steps: first buy paint, then paint the fence.",
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


def _asked(exchange: Exchange) -> str:
    calls = {call.id: call for call in exchange.calls}
    told = (_told(calls.get(result.call_id), _text(result)) for result in exchange.results)
    return "\n\n".join([shortened(exchange.question, QUESTION), *told])


def _told(call: ToolCall | None, result: str) -> str:
    return f"Result of {call.name} {call.raw}:\n{result}" if call else f"Result:\n{result}"


def _text(result: ToolResult) -> str:
    text = shortened(result.text, RESULT) or "(no text)"
    return f"It failed: {text}" if result.is_error else text
