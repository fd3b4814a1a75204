"""A real server on this machine that says what a test tells it to, byte by byte, and notices when it is hung up on.

    with serving(stream(whole), [refusal(429), {"retry-after": "2"}]) as server:
        model = server.model("chat")        server.sent[0] is the JSON that came in

A turn is a sequence of steps: bytes to send, seconds to wait, HANG until the client has gone, or RESET the connection.
"""

import json
import socket
import struct
import threading
import time
from contextlib import contextmanager, suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer

import anthropic
import openai

from harness_nb.providers.anthropic import Anthropic
from harness_nb.providers.chat import Chat
from harness_nb.providers.openai import OpenAI

KEY = "test-0123456789abcdef"
HANG, RESET = "hang", "reset"
STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{connection}transfer-encoding: chunked\r\n\r\n"
)


def piece(data):
    """One chunk of a stream."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream(data, *, keep=True):
    """A whole stream in one chunk; the connection stays open after it unless told otherwise."""
    return [_head(keep=keep) + piece(data) + b"0\r\n\r\n"]


def begun(data, *steps, keep=True):
    """A stream that sends this much, and then goes on with these steps, or ends without its last chunk."""
    return [_head(keep=keep) + (piece(data) if data else b""), *steps]


def _head(*, keep):
    return STREAM.replace(b"{connection}", b"" if keep else b"connection: close\r\n")


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
        self.url = ""
        self.hung = threading.Event()

    def client(self, wire):
        """An SDK's client for it, made as its users make one."""
        if wire == "anthropic":
            return anthropic.AsyncAnthropic(api_key=KEY, base_url=self.url)
        return openai.AsyncOpenAI(api_key=KEY, base_url=f"{self.url}/v1")

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


@contextmanager
def serving(*turns):
    """Serve these turns, in order, to whoever asks."""
    made = Server(turns)

    class Answer(StreamRequestHandler):
        def handle(self):
            with suppress(ConnectionError):
                while head := self.rfile.readline():
                    self.answer(head)

        def answer(self, head):
            size = 0
            while (line := self.rfile.readline().strip()) and head:
                name, _, value = line.partition(b":")
                size = int(value) if name.lower() == b"content-length" else size
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
