"""Show 8, models: whatever is wrong with a model, a person gets one sentence with the fix, and nothing is lost."""

import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness_nb.agent import Agent
from harness_nb.errors import UsageError
from harness_nb.events import TextDelta
from harness_nb.providers.named import model
from harness_nb.providers.recorded import recording
from harness_nb.providers.retry import retrying
from harness_nb.providers.scripted import scripted
from harness_nb.seams import Run, layered

KEY = "sk-not-a-real-key-0123456789"
WIRES = ["anthropic", "openai", "chat"]


@pytest.fixture
def environ():
    before = dict(os.environ)
    yield os.environ
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def at(environ):
    """Names a model of each wire at an address: `at("chat", "http://127.0.0.1:80")`."""

    def named(wire, url):
        environ["ANTHROPIC_API_KEY"] = environ["OPENAI_API_KEY"] = KEY
        environ["ANTHROPIC_BASE_URL"], environ["OPENAI_BASE_URL"] = url, f"{url}/v1"
        return {
            "anthropic": "anthropic:claude-sonet",
            "openai": "openai:gpt-sonet",
            "chat": f"chat:sonet@{url.replace('//', f'//me:{KEY}@')}/v1",
        }[wire]

    return named


@pytest.fixture
def serve():
    """Starts a server that gives every request the same answer, and counts them."""
    started = []

    def start(status, kind, body):
        class Answer(BaseHTTPRequestHandler):
            def do_POST(self):
                server.asked += 1
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        server.asked = 0
        server.url = f"http://127.0.0.1:{server.server_port}"
        started.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


async def no_wait(_):
    pass


async def fail(name, listener=lambda event: None):
    """Run on this model; return the sentence it ends with, having checked that nothing is lost."""
    agent = Agent(layered(model(name), retrying(sleep=no_wait)))
    outcome = await agent.run("Keep this prompt.", Run(listener=listener))
    assert outcome.reason == "error"
    assert [message.text for message in outcome.transcript.messages] == ["Keep this prompt."]
    after = await Agent(scripted("Hello.")).run("And now?", Run(outcome.transcript))
    assert after.text == "Hello."
    return sentence(outcome.detail)


def sentence(text):
    """Check that it is fit for a person: one line, no traceback, no key."""
    for unfit in ("\n", "Traceback", "<html", KEY, "Error code:", "httpx"):
        assert unfit not in text
    assert len(text) < 400
    return text


@pytest.mark.parametrize("name", ["anthropc:claude-sonnet-5-5", "gpt-6.1-sol", "lokal", "http://localhost:1"])
def test_an_unknown_model_is_named_with_what_there_is(name):
    with pytest.raises(UsageError) as caught:
        model(name)
    assert "chat:MODEL@URL" in sentence(str(caught.value))


@pytest.mark.parametrize("wire", WIRES)
async def test_a_model_that_the_provider_does_not_know_is_told_once(wire, at, serve):
    error = {"type": "not_found_error", "code": "model_not_found", "message": "model: claude-sonet"}
    server = serve(404, "application/json", json.dumps({"type": "error", "error": error}))
    told = await fail(at(wire, server.url))
    assert "model: claude-sonet" in told
    assert "Check the model's name" in told
    assert server.asked == 1


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
def test_a_missing_key_names_the_variable_before_anything_is_sent(wire):
    with pytest.raises(UsageError) as caught:
        model(f"{wire}:any")
    assert f"{wire.upper()}_API_KEY" in sentence(str(caught.value))


@pytest.mark.parametrize("wire", WIRES)
def test_a_missing_package_names_the_command(wire, at):
    program = "import sys; sys.modules['anthropic'] = sys.modules['openai'] = None\n"
    program += "from harness_nb.providers.named import model\n"
    program += "try: model(sys.argv[1])\nexcept Exception as fault: print(fault)"
    command = [sys.executable, "-c", program, at(wire, "http://127.0.0.1:1")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert "pip install 'harness-nb[" in sentence(told)


@pytest.mark.parametrize("wire", WIRES)
async def test_an_unreachable_server_is_asked_about(wire, at):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers here
        port = taken.getsockname()[1]
        told = await fail(at(wire, f"http://127.0.0.1:{port}"))
    assert f"127.0.0.1:{port}" in told
    assert "Asked 3 times." in told


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("kind", "body"), [("text/plain", "404 page not found\n"), ("application/json", "{}")]
)
async def test_a_wrong_url_says_which_path_was_asked(wire, kind, body, at, serve):
    server = serve(404, kind, body)
    told = await fail(at(wire, f"{server.url}/wrong"))
    assert "/wrong/v1/" in told
    assert server.asked == 1


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [200, 403, 404])
async def test_a_server_that_returns_a_web_page_is_told_to_be_one(wire, status, at, serve):
    page = "<!DOCTYPE html><html><body><h1>Log in</h1></body></html>"
    told = await fail(at(wire, serve(status, "text/html", page).url))
    assert "web page" in told
    assert "URL" in told


async def test_a_recording_that_does_not_fit_says_where(tmp_path):
    path = tmp_path / "trip.jsonl"
    await Agent(layered(scripted("Hello."), recording(path))).run("Something else.")
    told = await fail(f"replay:{path}")
    assert "at message 1 (user): it was “Something else.” and is “Keep this prompt.”" in told


@pytest.mark.parametrize("content", ["", "just text\n", '{"harness_nb": "rec'])
def test_what_is_no_recording_is_refused_before_anything_is_sent(tmp_path, content):
    (tmp_path / "trip.jsonl").write_text(content)
    with pytest.raises(UsageError) as caught:
        model(f"replay:{tmp_path / 'trip.jsonl'}")
    assert "not a recording" in sentence(str(caught.value))


DYING = """
import json, socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
first = {"anthropic": [
    {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Half an ans"}},
], "openai": [
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m", "content": []}},
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "m", "delta": "Half an ans"},
], "chat": [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Half an ans"}}]}]}[sys.argv[1]]
body = "".join(f"event: {e.get('type')}\\ndata: {json.dumps(e)}\\n\\n" for e in first)
peer, _ = server.accept()
peer.recv(65536)
peer.sendall(("HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\nconnection: close\\r\\n\\r\\n" + body).encode())
sys.stdin.read()
"""


def dying(wire):
    command = [sys.executable, "-c", DYING, wire]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_killed_in_the_middle_of_its_answer(wire, at):
    server, shown = dying(wire), []

    def kill(event):
        if isinstance(event, TextDelta):
            shown.append(event.text)
            server.kill()
            server.wait()

    with server:
        port = server.stdout.readline().strip()
        told = await fail(at(wire, f"http://127.0.0.1:{port}"), kill)
    assert shown == ["Half an ans"]
    assert f"127.0.0.1:{port}" in told
    assert "Asked 3 times." in told
