"""A real wire peer: one llama.cpp server that speaks Messages, Responses and Chat Completions, on small weights.

    with llama_server() as peer:
        anthropic.AsyncAnthropic(base_url=peer.url, api_key=peer.key)
        openai.AsyncOpenAI(base_url=f"{peer.url}/v1", api_key=peer.key)

Its replies are a small model's: to get a tool call, put WORKED_CALLS in the history and set the tool choice to required
(`any` on Messages), then to none for the answer. On Responses it wants an assistant item as `{"type": "message",
"role": "assistant", "content": [{"type": "output_text", ...}]}`; a plain `{"role", "content"}` is a 400 there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness_nb.providers.local.engine import Engine, Settings
from harness_nb.providers.local.known import KNOWN
from harness_nb.providers.local.weights import fetch

BARE_JSON_TOOLS = """\
{%- if tools %}<|im_start|>system
You can call a function. Functions:
{% for tool in tools %}{{ tool.function | tojson }}
{% endfor %}To call one, write one JSON object: {"name": "FUNCTION", "arguments": {...}}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ 'user' if message.role == 'tool' else message.role }}
{% if message.role == 'tool' %}Result: {% endif %}
{%- if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] -%}
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""A chat template in which a tool call is one bare JSON object: models this small write no tags."""


WORKED_CALLS = [
    ("What is 2 plus 3?", "add", {"a": 2, "b": 3}, "5", "2 plus 3 is 5."),
    ("What is 4 times 5?", "multiply", {"a": 4, "b": 5}, "20", "4 times 5 is 20."),
    ("What is 10 plus 7?", "add", {"a": 10, "b": 7}, "17", "10 plus 7 is 17."),
]
"""Question, tool, arguments, result, answer: with these in the history, "What is 12 times 3?" is called rightly."""


@contextmanager
def llama_server(
    model: Path | None = None, *, chat_template: str = BARE_JSON_TOOLS, context: int = 8192
) -> Iterator[Engine]:
    """A running server on these weights, by default SmolLM2's (`.url`, `.key`); stopped on the way out."""
    model = model or fetch(KNOWN["smollm2-135m"], lambda done, total: None)
    engine = Engine(Settings(model, context, template=chat_template))
    try:
        yield engine
    finally:
        engine.stop()
