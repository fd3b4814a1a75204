"""A server in a process of its own that answers every request at once with a stream made beforehand.

    with serving() as url:  POST f"{url}/turn/chat/completions", f"{url}/deltas/v1/messages", ...

`turn` is some text and a call of `add`; `deltas` is twenty thousand pieces of text, each a chunk of its own.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wire.speech import WIRES, ask, chat, messages, responses, say

DELTAS = 20_000
ID = "@0000000"
"""Stands where each answer has an id of its own."""
PATHS = {"anthropic": "/v1/messages", "openai": "/responses", "chat": "/chat/completions"}
TURN = [say("I will ", "add ", "these ", "two."), ask("add", '{"a":', " 17", ', "b"', ": 25", "}", as_id=ID)]
PIECES = [say(*(["word "] * DELTAS))]


@contextmanager
def serving() -> Iterator[str]:
    """The URL of a running server."""
    tests = Path(__file__).parents[1]
    code = f"import sys; sys.path[:0] = {[str(tests)]}; from bench.canned import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    try:
        yield f"http://127.0.0.1:{int(child.stdout.readline())}"
    finally:
        child.kill()
        child.communicate()


def main():
    asyncio.run(_serve())


async def _serve():
    made = {
        f"/{kind}{PATHS[wire]}": _chunked(wire, blocks, stop)
        for wire in WIRES
        for kind, blocks, stop in (("turn", TURN, "calls"), ("deltas", PIECES, "end"))
    }
    numbers = iter(range(10**9))

    async def answer(reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                sizes = [line.split(":")[1] for line in lines if line.lower().startswith("content-length")]
                await reader.readexactly(int(sizes[0]))
                body = made[lines[0].split()[1].split("?")[0]]
                writer.write(body.replace(ID.encode(), b"c%07d" % next(numbers)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the parent is gone


def _chunked(wire, blocks, stop):
    """A whole HTTP response, each event in a chunk of its own as real servers send them."""
    events = {"anthropic": messages, "openai": responses, "chat": chat}[wire](blocks, stop, (1000, 40))
    lines = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(line), line) for line in lines) + b"0\r\n\r\n"
