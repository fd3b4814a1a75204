"""A prompt longer than the window of a real llama.cpp server, on each wire it speaks, whole and cut to fit."""

import anthropic
import openai
import pytest
from wire.llama import llama_server

from harness_nb.errors import ProviderError
from harness_nb.messages import user
from harness_nb.providers.anthropic import Anthropic
from harness_nb.providers.chat import Chat
from harness_nb.providers.openai import OpenAI
from harness_nb.seams import Request, Run

pytestmark = [pytest.mark.llama, pytest.mark.slow]
WINDOW = 512


@pytest.fixture(scope="module")
def peer():
    with llama_server(context=WINDOW) as server:
        yield server


def model(peer, wire):
    given = {"api_key": peer.key, "default_headers": {"connection": "close"}}
    if wire == "anthropic":
        return Anthropic("m", anthropic.AsyncAnthropic(base_url=peer.url, **given), max_output=8)
    made = {"openai": OpenAI, "chat": Chat}[wire]
    return made("m", client=openai.AsyncOpenAI(base_url=f"{peer.url}/v1", **given), max_output=8)


@pytest.mark.parametrize("wire", ["anthropic", "openai", "chat"])
async def test_a_prompt_longer_than_the_window(peer, wire):
    asked = model(peer, wire)
    with pytest.raises(ProviderError) as caught:
        await asked(Request("", (user("word " * 3 * WINDOW),)), Run())
    assert (caught.value.overflow, caught.value.window, caught.value.retryable) == (True, WINDOW, False)
    reply = await asked(Request("", (user("word " * (WINDOW // 4)),)), Run())
    assert 0 < reply.usage.input < WINDOW
