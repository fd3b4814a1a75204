"""Line 1: a real server refuses a request larger than its window; it is known for what it is, made smaller once and asked once more."""

import anthropic
import openai
import pytest
from wire.llama import llama_server

from harness_nb.context.account import Account, measured
from harness_nb.context.count import counting
from harness_nb.context.relief import Relief, refitted
from harness_nb.context.window import Window
from harness_nb.messages import Decision, Message, Text, ToolCall, ToolResult, Transcript, assistant, user
from harness_nb.providers.anthropic import Anthropic
from harness_nb.providers.chat import Chat
from harness_nb.providers.openai import OpenAI
from harness_nb.providers.retry import retrying
from harness_nb.seams import Request, Run, layered

pytestmark = [pytest.mark.llama, pytest.mark.slow]
WINDOW = 1024
PAGE = "The pear is not on this page, and neither is the apple. " * 20


@pytest.fixture(scope="module")
def peer():
    with llama_server(context=WINDOW) as server:
        yield server


def model(peer, wire):
    given = {"api_key": peer.key, "default_headers": {"connection": "close"}}
    if wire == "anthropic":
        return Anthropic("m", anthropic.AsyncAnthropic(base_url=peer.url, **given), max_output=16)
    made = {"openai": OpenAI, "chat": Chat}[wire]
    return made("m", client=openai.AsyncOpenAI(base_url=f"{peer.url}/v1", **given), max_output=16)


def pages(number):
    """A conversation in which so many pages were read."""
    yield user("Find the pear.")
    for n in range(number):
        yield assistant(ToolCall(f"c{n}", "look", f'{{"n": {n}}}'))
        yield Message("tool", (ToolResult(f"c{n}", (Text(f"{n}: {PAGE}"),)),))
    yield user("Where is it?")


@pytest.mark.parametrize("wire", ["anthropic", "openai", "chat"])
async def test_a_real_server_s_refusal_is_answered_with_a_smaller_request(peer, wire):
    account, run = Account(Window(), counting("characters")), Run(Transcript(pages(8)))
    asked = layered(model(peer, wire), measured(account), refitted(Relief(account)), retrying())
    before = account.fill(Request("", run.transcript.live())).total
    reply = await asked(Request("", run.transcript.live()), run)
    decisions = [entry for entry in run.transcript.entries if isinstance(entry, Decision)]
    assert (account.window.size, account.window.source) == (WINDOW, "learnt")
    assert {decision.by for decision in decisions} == {"mask"}
    assert 0 < reply.usage.input < WINDOW < before
    print(
        f"{wire}: about {before:,} tokens refused, {reply.usage.input:,} accepted, window {WINDOW:,} learnt"
    )
