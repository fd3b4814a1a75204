"""The window that a server of one's own tells, asked over a real connection on this machine."""

import json
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from wire.llama import llama_server

from harness_nb.providers.chat import Chat
from harness_nb.providers.local import Local
from harness_nb.providers.served import served_window
from harness_nb.seams import layered

OTHER = {"id": "other", "max_model_len": 7}


@contextmanager
def serving(lists, wait=0.0):
    """A server with these lists by path; yields its address, and what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers["authorization"]))
            time.sleep(wait)
            found = lists.get(self.path)
            body = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(200 if found is not None else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):  # who asked has gone
                self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


TOLD = [
    ("llama.cpp", {"/v1/models": {"data": [{"id": "/m.gguf", "meta": {"n_ctx": 4096, "n_ctx_train": 32768}}]}}, 4096),
    ("vLLM", {"/v1/models": {"data": [OTHER, {"id": "m", "max_model_len": 32768}]}}, 32_768),
    ("a router", {"/v1/models": {"data": [OTHER, {"id": "m", "context_length": 131072}]}}, 131_072),
    ("a router with a bare list", {"/v1/models": [OTHER, {"id": "m", "context_window": 131072}]}, 131_072),
    ("LM Studio", {"/v1/models": {"data": [{"id": "m"}]}, "/api/v0/models": {"data": [{"id": "m", "max_context_length": 32768, "loaded_context_length": 8192}]}}, 8192),
    ("Ollama", {"/v1/models": {"data": [{"id": "m"}]}, "/api/ps": {"models": [{"name": "m", "context_length": 4096}]}}, 4096),
    ("what it was trained on alone", {"/v1/models": {"data": [{"id": "m", "meta": {"n_ctx_train": 32768}}]}}, 0),
    ("another model", {"/v1/models": {"data": [OTHER, OTHER]}}, 0),
    ("nothing", {}, 0),
    ("no JSON", {"/v1/models": b"<html>", "/api/ps": b"{oops"}, 0),
    ("deep JSON", {"/v1/models": b"[" * 200_000}, 0),
    ("odd JSON", {"/v1/models": {"data": [None, 3, {"id": "m", "max_model_len": "many", "meta": 5}]}}, 0),
    ("a size that can't be", {"/v1/models": {"data": [{"id": "m", "max_model_len": 10**30, "n_ctx": -1}]}}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("who", "lists", "window"), TOLD, ids=[row[0] for row in TOLD])
def test_a_server_tells_its_window(who, lists, window):
    with serving(lists) as (url, asked):
        assert (who, Chat("m", f"{url}/v1", api_key="k-123456").served_window()) == (who, window)
    assert asked[0] == ("/v1/models", "Bearer k-123456")


def test_nothing_is_asked_before_it_is_wanted():
    with serving({}) as (url, asked):
        model = Chat("m", f"{url}/v1")
        assert layered(model).window is None
    assert asked == []


def test_a_list_without_end_is_left():
    with serving({"/v1/models": {"data": [{"id": "m", "max_model_len": 32768}]}}) as (url, _):
        assert served_window(f"{url}/v1", "m", "none", longest=20) == 0


def test_a_server_that_is_gone_or_silent_is_not_waited_for():
    assert Chat("m", "http://127.0.0.1:1/v1").served_window() == 0
    with serving({}, wait=1.0) as (url, asked):
        began = time.monotonic()
        assert served_window(f"{url}/v1", "m", "none", patience=0.1) == 0
        assert time.monotonic() - began < 0.9
    assert len(asked) == 1


def test_a_client_of_ones_own_is_not_asked():
    assert Chat("gpt-x", client=None).served_window() == 0


def test_the_embedded_model_tells_its_window():
    assert layered(Local("smollm2-135m")).window == 8192


@pytest.mark.llama
@pytest.mark.slow
def test_a_real_server_tells_its_window():
    with llama_server(context=768) as peer:
        assert Chat("m", f"{peer.url}/v1", api_key=peer.key).served_window() == 768
