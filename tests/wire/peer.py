"""A provider that says what a test tells it to, behind the real SDK client: only the network is made up.

peer = Peer("chat", [body_of_turn_1, body_of_turn_2])
reply = await peer.ask(user("hi"));  peer.sent[0] is the JSON that went out
"""

import json

import anthropic
import httpx2
import openai

from harness_nb.messages import Transcript, user
from harness_nb.providers.anthropic import Anthropic
from harness_nb.providers.chat import Chat
from harness_nb.providers.openai import OpenAI
from harness_nb.seams import Request, Run

KEY = "test-0123456789abcdef"
STREAM = {"content-type": "text/event-stream"}


class Chunks(httpx2.AsyncByteStream):
    """A body in chunks; an exception among them is raised there. Remembers whether it was closed."""

    def __init__(self, *chunks):
        self.chunks = chunks
        self.closed = False

    async def __aiter__(self):
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            if callable(chunk):
                await chunk()
            else:
                yield chunk

    async def aclose(self):
        self.closed = True


class Peer:
    """Answers with `turns` in order: bytes (a stream), `Chunks`, a whole response, or an exception to raise."""

    def __init__(self, wire, turns=(), **options):
        self.turns = list(turns)
        self.sent = []
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))
        if wire == "anthropic":
            self.model = Anthropic(
                "claude-x", anthropic.AsyncAnthropic(api_key=KEY, http_client=http), **options
            )
        else:
            made = {"openai": OpenAI, "chat": Chat}[wire]
            client = openai.AsyncOpenAI(api_key=KEY, http_client=http, base_url="http://127.0.0.1:1/v1")
            self.model = made("gpt-x", client=client, **options)

    def _answer(self, request):
        self.sent.append(json.loads(request.content, parse_constant=_refused))
        turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        if isinstance(turn, httpx2.Response):
            return turn
        if isinstance(turn, bytes):
            return httpx2.Response(200, headers=STREAM, content=turn)
        return httpx2.Response(200, headers=STREAM, stream=turn)

    async def ask(self, *messages, tools=(), instructions="", max_output=None, listener=lambda event: None):
        run = Run(Transcript(messages), listener)
        request = Request(instructions, run.transcript.live() or (user("hi"),), tuple(tools), max_output)
        return await self.model(request, run)


def _refused(name):
    raise AssertionError(f"{name} is not JSON")
