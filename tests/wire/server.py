"""A real server on this machine that says what a test tells it to, byte by byte, and notices when it is hung up on.

    async with asked(refusal(429, [(b"retry-after", b"2")]), stream(whole)) as server:
        model = server.model("chat");  server.sent[0] is the JSON that came in

A turn is a sequence of steps: bytes to send, seconds to wait, HANG until the client has gone, END or RESET the connection.
"""

import json
import socket
import ssl
import struct
import threading
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer

import anthropic
import openai

from harness_nb.providers.anthropic import Anthropic
from harness_nb.providers.chat import Chat
from harness_nb.providers.openai import OpenAI

KEY = "test-0123456789abcdef"
CERTIFICATES = ssl.create_default_context()
"""Read once: a client that reads them anew takes a third of a second to make."""
HANG, RESET, END = "hang", "reset", "end"
LAST = b"0\r\n\r\n"
"""The chunk that ends a stream."""
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def piece(data):
    """One chunk of a stream."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream(data):
    """A whole stream in one chunk; the connection stays open."""
    return begun(data, LAST)


def begun(data, *steps):
    """A stream that sends this much, and then goes on with these steps."""
    return [STREAM + piece(data), *steps]


def refusal(status, headers=(), **error):
    """An answer with an error in it; `headers` are pairs of bytes, as odd as they may be."""
    body = json.dumps({"type": "error", "error": {"message": "Slow down.", **error}}).encode()
    lines = [b"HTTP/1.1 %d No" % status, b"content-type: application/json", b"content-length: %d" % len(body)]
    return [b"\r\n".join([*lines, *(b"%b: %b" % pair for pair in headers)]) + b"\r\n\r\n" + body]


class Server:
    """What came in, and how to ask it."""

    def __init__(self, turns):
        self.turns = list(turns)
        self.sent, self.connections, self.gone = [], set(), []
        """Bodies in order, who sent them, and when clients left that were still being answered (time.monotonic)."""
        self.clients = []
        self.url = ""
        self.hung = threading.Event()

    def client(self, wire):
        """An SDK's client for it, made as its users make one."""
        sdk, made, path = anthropic, anthropic.AsyncAnthropic, ""
        if wire != "anthropic":
            sdk, made, path = openai, openai.AsyncOpenAI, "/v1"
        http = sdk.DefaultAsyncHttpxClient(verify=CERTIFICATES)
        self.clients.append(made(api_key=KEY, base_url=f"{self.url}{path}", http_client=http))
        return self.clients[-1]

    def model(self, wire, client=None):
        """An adapter that asks it."""
        made = {"anthropic": Anthropic, "openai": OpenAI, "chat": Chat}[wire]
        return made("model-x", client=client or self.client(wire))

    def left(self, seconds=10.0):
        """Wait until a client has left, and say when that was."""
        until = time.monotonic() + seconds
        while not self.gone and time.monotonic() < until:
            time.sleep(0.005)
        assert self.gone, "nobody hung up"
        return self.gone[-1]


@asynccontextmanager
async def asked(*turns):
    """Serve these turns, and close at the end what was made to ask for them."""
    with serving(*turns) as made:
        try:
            yield made
        finally:
            for client in made.clients:
                await client.close()


@contextmanager
def serving(*turns):
    """Serve these turns, in order, to whoever asks."""
    made = Server(turns)

    class Answer(StreamRequestHandler):
        disable_nagle_algorithm = True

        def handle(self):
            with suppress(ConnectionError):
                while head := self.rfile.readline():
                    self.answer(head)

        def answer(self, head):
            size = 0
            while (line := self.rfile.readline().strip()) and head:
                name, _, value = line.partition(b":")
                size = int(value) if name.lower() == b"content-length" else size
            if not head.startswith(b"POST"):  # looking for the model's window
                self.wfile.write(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")
                return
            made.sent.append(json.loads(self.rfile.read(size)))
            made.connections.add(self.client_address)
            for step in made.turns.pop(0):
                self.take(step)

        def take(self, step):
            match step:
                case bytes():
                    self.wfile.write(step)
                case "hang":
                    made.hung.set()
                    with suppress(ConnectionError):
                        self.connection.recv(1)
                    made.gone.append(time.monotonic())
                    raise ConnectionAbortedError
                case "reset":
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.connection.close()
                    raise ConnectionAbortedError
                case "end":
                    raise ConnectionAbortedError
                case _:
                    time.sleep(step)

    class Threads(ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True
        block_on_close = False

    with Threads(("127.0.0.1", 0), Answer) as listening:
        made.url = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield made
        finally:
            listening.shutdown()
            thread.join()
