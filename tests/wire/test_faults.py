"""What goes wrong on the way, told in one sentence that says whether asking again may help, and never a key."""

import asyncio
import email.utils
import json
import time

import httpx2
import pytest
from wire.peer import KEY, STREAM, Chunks, Peer
from wire.speech import WIRES, say, spoken

from harness_nb.errors import ProviderError, RunStop
from harness_nb.messages import user
from harness_nb.providers.faults import retry_after

every_wire = pytest.mark.parametrize("wire", WIRES)


def refusal(status, error="Sorry", headers=None, **more):
    body = {"type": "error", "error": {"message": error, **more}}
    return httpx2.Response(status, json=body, headers=headers or {})


async def failed(wire, turn):
    with pytest.raises(ProviderError) as caught:
        await Peer(wire, [turn]).ask(user("hi"))
    return caught.value


@every_wire
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 413, 422])
async def test_a_fault_of_the_request_is_not_asked_again(wire, status):
    error = await failed(wire, refusal(status, "No such thing"))
    assert (error.status, error.retryable) == (status, False)
    assert "No such thing" in str(error)


@every_wire
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_a_fault_that_may_pass_is_asked_again(wire, status):
    error = await failed(wire, refusal(status))
    assert (error.status, error.retryable) == (status, True)


@every_wire
@pytest.mark.parametrize(
    ("status", "headers", "retryable"),
    [(501, {}, False), (500, {"x-should-retry": "false"}, False), (400, {"x-should-retry": "true"}, True)],
)
async def test_a_provider_knows_best_what_may_pass(wire, status, headers, retryable):
    assert (await failed(wire, refusal(status, headers=headers))).retryable == retryable


@every_wire
async def test_no_credit_never_passes(wire):
    error = await failed(wire, refusal(429, code="insufficient_quota", type="insufficient_quota"))
    assert (error.code, error.retryable) == ("insufficient_quota", False)


@every_wire
async def test_a_template_misfit_is_the_models_fault(wire):
    words = "Failed to parse input at pos 3: <tool_call>"
    error = await failed(wire, refusal(500, words, code=500, type="server_error"))
    assert (error.status, error.code, error.retryable) == (500, "model_error", False)
    assert words in str(error)


@every_wire
async def test_a_rate_limit_says_how_long_to_wait(wire):
    error = await failed(wire, refusal(429, headers={"retry-after": "2.5"}))
    assert (error.retryable, error.retry_after) == (True, 2.5)


NOW = time.time()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9),
        ({"retry-after": email.utils.formatdate(NOW + 3, usegmt=True)}, pytest.approx(3, abs=1)),
        ({"retry-after": "1209600"}, 1_209_600),
        *(
            ({"retry-after": bad}, None)
            for bad in ("²", "nan", "inf", "-5", "0", "", "soon", "Wed, 99 Foo 2026")
        ),
        ({"retry-after": email.utils.formatdate(NOW - 60, usegmt=True)}, None),
        ({}, None),
    ],
)
def test_retry_after_in_all_its_forms(headers, seconds):
    assert retry_after(headers, NOW) == seconds


@every_wire
@pytest.mark.parametrize("status", [200, 404, 502])
async def test_a_web_page_is_called_one(wire, status):
    page = httpx2.Response(status, html="<!DOCTYPE html><html><body>Welcome to nginx!</body></html>")
    error = await failed(wire, page)
    assert "a web page" in str(error)
    assert "check the URL" in str(error)
    assert "<html" not in str(error)
    assert error.retryable == (status == 502)


@every_wire
async def test_a_lost_path_says_what_was_asked(wire):
    error = await failed(wire, httpx2.Response(404, json={"error": {"message": "model 'x' not found"}}))
    assert "model 'x' not found. Check the model's name and the URL" in str(error)


@every_wire
async def test_an_error_in_place_of_a_stream_is_an_error(wire):
    error = await failed(
        wire, httpx2.Response(200, json={"error": {"type": "overloaded_error", "message": "Busy"}})
    )
    assert error.retryable
    assert "Busy" in str(error)


@every_wire
async def test_an_answer_that_is_no_stream_is_an_error(wire):
    error = await failed(wire, httpx2.Response(200, json={"id": "x"}))
    assert "JSON where a stream was asked for" in str(error)


@every_wire
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (httpx2.ConnectError("Connection refused"), "can't be reached"),
        (httpx2.ConnectTimeout("slow"), "can't be reached"),
        (httpx2.ReadTimeout("silent"), "sent nothing for 600 seconds"),
        (httpx2.RemoteProtocolError("peer closed connection"), "broke: peer closed connection"),
    ],
)
async def test_a_bad_connection_may_pass(wire, fault, words):
    for turn in (fault, Chunks(spoken(wire, [say("Hel")], cut=True), fault)):
        error = await failed(wire, turn)
        assert words in str(error)
        assert (error.status, error.retryable) == (None, True)


@every_wire
@pytest.mark.parametrize("status", [200, 401, 500])
async def test_a_key_that_a_server_echoes_is_taken_out(wire, status):
    error = await failed(wire, refusal(status, f"bad key {KEY}"))
    assert "[key]" in str(error)
    assert KEY not in f"{error!r} {error.__cause__!r} {vars(error)}"


@every_wire
async def test_a_model_shows_no_key(wire):
    peer = Peer(wire)
    assert KEY not in repr(peer.model)


@every_wire
async def test_a_cancelled_turn_hangs_up_at_once(wire):
    begun = asyncio.Event()

    async def forever():
        begun.set()
        await asyncio.Event().wait()

    body = Chunks(spoken(wire, [say("Hel")], cut=True), forever)
    task = asyncio.create_task(Peer(wire, [body]).ask(user("hi")))
    await begun.wait()
    assert not body.closed
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert body.closed


@every_wire
async def test_a_listener_that_fails_hangs_up_too(wire):
    body = Chunks(spoken(wire, [say("Hel")]), b"")
    with pytest.raises(RunStop):
        await Peer(wire, [body]).ask(user("hi"), listener=lambda event: 1 / 0)
    assert body.closed


@every_wire
async def test_a_stream_may_call_itself_anything(wire):
    body = httpx2.Response(
        200, headers=STREAM | {"content-type": "text/plain"}, content=spoken(wire, [say("Hi")])
    )
    assert (await Peer(wire, [body]).ask(user("hi"))).message.text == "Hi"


@every_wire
async def test_a_body_that_is_no_json_is_quoted(wire):
    error = await failed(wire, httpx2.Response(503, text="upstream connect error"))
    assert "upstream connect error" in str(error)
    assert json.dumps(vars(error)) == json.dumps(
        {
            "status": 503,
            "code": "",
            "retryable": True,
            "retry_after": None,
            "overflow": False,
            "window": 0,
        }
    )
