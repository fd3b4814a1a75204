"""Any of the SDKs' clients carries; what is missing is said in one sentence."""

import asyncio
import json
import subprocess
import sys

import anthropic
import httpx2
import openai
import pytest
from wire.peer import KEY, STREAM
from wire.speech import ask, say, spoken

from harness_nb.errors import ProviderError, UsageError
from harness_nb.messages import Text, ToolCall, user
from harness_nb.providers.anthropic import Anthropic
from harness_nb.providers.chat import Chat
from harness_nb.providers.clearing import Clearing
from harness_nb.providers.named import model as named
from harness_nb.providers.openai import OpenAI
from harness_nb.providers.retry import retrying
from harness_nb.seams import Request, Run, layered

HI = Request("", (user("hi"),))


def http(answer, seen):
    def handler(request):
        seen.append(request)
        return (
            answer
            if isinstance(answer, httpx2.Response)
            else httpx2.Response(200, headers=STREAM, content=answer)
        )

    return httpx2.AsyncClient(transport=httpx2.MockTransport(handler))


AZURE = {"api_key": KEY, "api_version": "2026", "azure_endpoint": "https://me.azure.test"}
CLOUDS = {
    "azure, responses": (OpenAI, "openai", lambda h: openai.AsyncAzureOpenAI(**AZURE, http_client=h), "/openai/responses"),
    "azure, chat": (Chat, "chat", lambda h: openai.AsyncAzureOpenAI(**AZURE, http_client=h), "/openai/deployments/m/chat/completions"),
    "foundry": (Anthropic, "anthropic", lambda h: anthropic.AsyncAnthropicFoundry(api_key=KEY, resource="me", http_client=h), "/anthropic/v1/messages"),
    "vertex": (
        Anthropic,
        "anthropic",
        lambda h: anthropic.AsyncAnthropicVertex(region="eu", project_id="p", access_token=KEY, http_client=h),
        "/v1/projects/p/locations/eu/publishers/anthropic/models/m:streamRawPredict",
    ),
}  # fmt: skip


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_a_clouds_client_finds_its_own_way(cloud):
    kind, wire, client, path = CLOUDS[cloud]
    seen = []
    body = spoken(wire, [say("Hi."), ask("f", '{"x":', "1}")], stop="calls")
    reply = await kind("m", client=client(http(body, seen)))(HI, Run())
    assert reply.message.parts == (Text("Hi."), ToolCall("call_1", "f", '{"x":1}'))
    assert reply.stop == "calls"
    assert seen[0].url.path == path


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_a_clouds_faults_are_told_without_its_key(cloud):
    kind, _, client, _ = CLOUDS[cloud]
    answer = httpx2.Response(
        429, json={"error": {"message": f"slow down, {KEY}"}}, headers={"retry-after": "3"}
    )
    with pytest.raises(ProviderError) as caught:
        await kind("m", client=client(http(answer, [])))(HI, Run())
    assert "slow down, [key]" in str(caught.value)
    assert (caught.value.status, caught.value.retryable, caught.value.retry_after) == (429, True, 3)


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_a_clouds_error_inside_a_stream_is_an_error(cloud):
    kind, wire, client, _ = CLOUDS[cloud]
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}
    body = spoken(wire, [say("Hel")], cut=True) + f"event: error\ndata: {json.dumps(error)}\n\n".encode()
    with pytest.raises(ProviderError, match="Busy") as caught:
        await kind("m", client=client(http(body, [])))(HI, Run())
    assert caught.value.retryable


async def test_a_flat_error_inside_a_clouds_stream_is_an_error():
    body = b'event: error\ndata: {"type":"error","code":"server_error","message":"Busy"}\n\n'
    client = openai.AsyncAzureOpenAI(**AZURE, http_client=http(body, []))
    with pytest.raises(ProviderError, match="Busy"):
        await OpenAI("m", client)(HI, Run())


async def test_a_callers_client_is_asked_once():
    seen = []
    client = openai.AsyncOpenAI(api_key=KEY, http_client=http(httpx2.Response(500), seen), max_retries=9)
    with pytest.raises(ProviderError):
        await OpenAI("m", client)(HI, Run())
    assert len(seen) == 1


async def test_a_key_may_come_from_a_function():
    async def key():
        await asyncio.sleep(0)
        return KEY

    seen = []
    answer = httpx2.Response(401, json={"error": {"message": f"no: {KEY}"}})
    with pytest.raises(ProviderError, match=r"no: \[key\]"):
        await OpenAI("m", openai.AsyncOpenAI(api_key=key, http_client=http(answer, seen)))(HI, Run())
    assert seen[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(("kind", "client"), [(OpenAI, openai.OpenAI), (Anthropic, anthropic.Anthropic)])
def test_a_client_that_blocks_is_refused_with_the_fix(kind, client):
    with client(api_key=KEY) as blocking, pytest.raises(UsageError, match=f"use Async{client.__name__}"):
        kind("m", blocking)


@pytest.mark.parametrize(
    ("kind", "name"), [(OpenAI, "OPENAI_API_KEY"), (Anthropic, "ANTHROPIC_API_KEY"), (Chat, "OPENAI_API_KEY")]
)
async def test_a_missing_key_is_named(kind, name):
    with pytest.raises(UsageError, match=name):
        await kind("m")(HI, Run())


@pytest.mark.parametrize(
    ("module", "kind"), [("anthropic", "Anthropic"), ("openai", "OpenAI"), ("chat", "Chat")]
)
def test_a_missing_package_is_named(module, kind):
    sdk = "openai" if module == "chat" else module
    code = f"""
import asyncio, sys
sys.modules[{sdk!r}] = None
from harness_nb.messages import user
from harness_nb.providers.{module} import {kind}
from harness_nb.seams import Request, Run, layered
try: asyncio.run({kind}("m")(Request("", (user("hi"),)), Run()))
except Exception as error: print(type(error).__name__, error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == f"UsageError This model needs the package {sdk}: pip install 'harness-nb[{sdk}]'."


async def test_openais_key_goes_to_openai_only(monkeypatch, unused_port):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = Chat("m", f"http://127.0.0.1:{unused_port}/v1")
    with pytest.raises(ProviderError, match=r"can't be reached: .* and that the server is running"):
        await model(HI, Run())
    assert (await model._wire.client()).api_key != KEY
    await model.close()


async def test_the_key_of_a_server_of_ones_own_has_its_own_variable(monkeypatch):
    monkeypatch.setenv("HARNESS_NB_CHAT_KEY", KEY)
    model = named("chat:m@http://127.0.0.1/v1")
    assert (await model._wire.client()).api_key == KEY
    await model.close()


@pytest.fixture
def unused_port():
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


async def test_a_server_that_is_not_running_here_is_asked_three_times_in_three_seconds(unused_port):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    model = layered(Chat("m", f"http://127.0.0.1:{unused_port}/v1"), retrying(sleep=sleep, chance=lambda: 1))
    with pytest.raises(ProviderError, match=r"that the server is running\. Asked 3 times\."):
        await model(HI, Run())
    assert waits == [1.5, 1.5]


def test_a_model_serves_one_event_loop_after_another(unused_port):
    model = Chat("m", f"http://127.0.0.1:{unused_port}/v1")

    async def once():
        with pytest.raises(ProviderError, match="can't be reached"):
            await model(HI, Run())
        await model.close()

    asyncio.run(once())
    asyncio.run(once())


@pytest.mark.parametrize("cloud", ["foundry", "vertex"])
async def test_a_beta_reaches_a_cloud_by_its_header(cloud):
    _, wire, client, path = CLOUDS[cloud]
    seen = []
    model = Anthropic("m", client(http(spoken(wire, [say("Hi.")]), seen)), clearing=Clearing())
    await model(HI, Run())
    assert seen[0].url.path == path
    assert seen[0].headers["anthropic-beta"] == "context-management-2025-06-27"
    assert json.loads(seen[0].content)["context_management"]["edits"]


async def test_a_beta_reaches_bedrock_in_the_body():
    seen = []
    refused = httpx2.Response(400, json={"message": "Input is too long for requested model."})
    client = anthropic.AsyncAnthropicBedrock(
        api_key=KEY, aws_region="eu-west-1", http_client=http(refused, seen)
    )
    with pytest.raises(ProviderError) as caught:
        await Anthropic("m", client, clearing=Clearing())(HI, Run())
    assert caught.value.overflow
    assert json.loads(seen[0].content)["anthropic_beta"] == ["context-management-2025-06-27"]
    assert seen[0].url.path == "/model/m/invoke-with-response-stream"
