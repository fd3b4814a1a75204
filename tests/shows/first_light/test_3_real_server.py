"""Line 3: the adapters against a real llama.cpp server that speaks all three wires, streaming, through the official SDKs."""

import asyncio
import time

import anthropic
import openai
import pytest
from wire.llama import WORKED_CALLS, llama_server

from harness_nb.agent import Agent
from harness_nb.errors import ProviderError
from harness_nb.events import CallDelta, TextDelta
from harness_nb.messages import Message, Text, ToolCall, ToolResult, Transcript, assistant, user
from harness_nb.providers.anthropic import Anthropic
from harness_nb.providers.chat import Chat
from harness_nb.providers.openai import OpenAI
from harness_nb.seams import Request, Run
from harness_nb.tools import Toolbox, tool

pytestmark = [pytest.mark.llama, pytest.mark.slow]
every_wire = pytest.mark.parametrize("wire", ["anthropic", "openai", "chat"])
TWO_STEPS = [
    ("What is 12 times 3?", "multiply", {"a": 12, "b": 3}, "36"),
    ("What is 6 times 7?", "multiply", {"a": 6, "b": 7}, "42"),
]


@pytest.fixture(scope="module")
def peer():
    with llama_server() as server:
        yield server


def model(peer, wire, key="", path="", **options):
    """An adapter of this wire that asks the server; keep-alive is off, as a single small server likes it."""
    extra = {"temperature": 0, **options.pop("extra", {})}
    given = {"api_key": key or peer.key, "default_headers": {"connection": "close"}}
    if wire == "anthropic":
        client = anthropic.AsyncAnthropic(base_url=peer.url + path, **given)
        return Anthropic("m", client, extra=extra, **{"max_output": 64, **options})
    made = {"openai": OpenAI, "chat": Chat}[wire]
    return made(
        "m", client=openai.AsyncOpenAI(base_url=f"{peer.url}/v1{path}", **given), extra=extra, **options
    )


class CallsThenAnswers:
    """Must call a tool on the first turn, and must not on the second: a model this small needs to be told."""

    name = "smollm2"

    def __init__(self, peer, wire, **first):
        choices = ({"type": "any"}, {"type": "none"}) if wire == "anthropic" else ("required", "none")
        limits = (first, {})
        self.turns = [
            model(peer, wire, extra={"tool_choice": choice}, **limit)
            for choice, limit in zip(choices, limits, strict=True)
        ]

    def __call__(self, request, run):
        return self.turns[run.turn > 1](request, run)


def lessons():
    """Three worked calls, as the record of a conversation."""
    for number, (question, name, arguments, result, answer) in enumerate(WORKED_CALLS):
        raw = str(arguments).replace("'", '"')
        yield user(question)
        yield assistant(ToolCall(f"call_{number}", name, raw))
        yield Message("tool", (ToolResult(f"call_{number}", (Text(result),)),))
        yield assistant(answer)


@every_wire
@pytest.mark.parametrize(("question", "name", "arguments", "result"), TWO_STEPS)
async def test_a_question_is_answered_with_a_tool(peer, wire, question, name, arguments, result):  # noqa: PLR0917
    ran, heard = [], []

    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        ran.append(("add", {"a": a, "b": b}))
        return a + b

    @tool
    def multiply(a: int, b: int) -> int:
        """Multiply two numbers."""
        ran.append(("multiply", {"a": a, "b": b}))
        return a * b

    agent = Agent(CallsThenAnswers(peer, wire), Toolbox([add, multiply]))
    outcome = await agent.run(question, Run(Transcript(lessons()), heard.append))
    print(f"\n{wire}: {question} -> {ran} -> {outcome.text!r}; {outcome.usage}")
    assert ran == [(name, arguments)]
    assert (outcome.reason, outcome.turns) == ("done", 2)
    assert result in outcome.text
    assert outcome.usage.input > 0 < outcome.usage.output
    assert not outcome.usage.estimated
    assert sum(isinstance(event, TextDelta) for event in heard) > 3
    assert sum(isinstance(event, CallDelta) for event in heard) > 1


@every_wire
async def test_a_call_cut_at_the_limit_does_not_run(peer, wire):
    ran = []

    @tool
    def multiply(a: int, b: int = 1) -> int:
        """Multiply two numbers."""
        ran.append((a, b))
        return a * b

    agent = Agent(CallsThenAnswers(peer, wire, max_output=12), Toolbox([multiply]))
    outcome = await agent.run("What is 12 times 3?", Run(Transcript(lessons())))
    cut = outcome.transcript.messages[-2].results[0]
    assert ran == []
    assert cut.is_error
    assert "cut off by the output limit" in cut.text


@every_wire
async def test_an_answer_cut_at_the_limit_says_so(peer, wire):
    reply = await model(peer, wire, max_output=4)(Request("", (user("Count to fifty."),)), Run())
    assert reply.stop == "length"
    assert reply.usage.output == 4


@every_wire
async def test_a_wrong_key_is_told_and_not_shown(peer, wire):
    with pytest.raises(ProviderError) as caught:
        await model(peer, wire, key="wrong-key-0123456789")(Request("", (user("hi"),)), Run())
    assert (caught.value.status, caught.value.retryable) == (401, False)
    assert "wrong-key" not in str(caught.value)


@every_wire
async def test_a_wrong_url_is_told(peer, wire):
    with pytest.raises(ProviderError, match=r"404.*Check the model's name and the URL") as caught:
        await model(peer, wire, path="/nowhere")(Request("", (user("hi"),)), Run())
    assert not caught.value.retryable


@every_wire
async def test_a_conversation_too_long_for_the_model_is_told(peer, wire):
    with pytest.raises(ProviderError) as caught:
        await model(peer, wire)(Request("", (user("word " * 9000),)), Run())
    assert (caught.value.status, caught.value.code, caught.value.retryable) == (
        400,
        "exceed_context_size_error",
        False,
    )


@every_wire
async def test_a_stopped_run_frees_the_server_at_once(peer, wire):
    streaming, run = (
        asyncio.Event(),
        Run(listener=lambda event: streaming.set() if isinstance(event, TextDelta) else None),
    )
    task = asyncio.create_task(
        Agent(model(peer, wire, max_output=2000)).run("Count from one to a thousand.", run)
    )
    await streaming.wait()
    run.stop()
    began = time.monotonic()
    assert (await task).reason == "interrupted"
    # The server has one slot: an answer now means that it has let go of the other.
    await model(peer, wire, max_output=2)(Request("", (user("hi"),)), Run())
    print(f"\n{wire}: free for the next question after {time.monotonic() - began:.2f} s")


async def test_tokens_are_counted(peer):
    request = Request("Be kind.", (user("hello " * 50),))
    assert 40 < await model(peer, "anthropic").count_tokens(request) < 200


async def test_a_server_that_is_gone_is_told():
    with llama_server() as server:
        gone = server
    with pytest.raises(ProviderError, match="can't be reached") as caught:
        await model(gone, "chat")(Request("", (user("hi"),)), Run())
    assert caught.value.retryable
