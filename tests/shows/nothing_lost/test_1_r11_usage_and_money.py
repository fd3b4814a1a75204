"""Line 1, R11: tokens are counted once, cached ones too, and what nobody knows is unknown.

From the bytes on the wire, through the SDK and our adapter, to what the run, its budget and its record say.
"""

from decimal import Decimal

import anthropic
import httpx2
import openai
import pytest
from wire.peer import KEY, STREAM
from wire.speech import chunk, say, spoken, sse

from harness_nb.agent import Agent
from harness_nb.events import Charged
from harness_nb.messages import Usage
from harness_nb.ops.budget import Budget
from harness_nb.ops.meter import budget_of_run, metered
from harness_nb.ops.prices import Prices, Rates
from harness_nb.ops.spending import Charge, Spending
from harness_nb.providers.anthropic import Anthropic
from harness_nb.providers.chat import Chat
from harness_nb.providers.openai import OpenAI
from harness_nb.seams import Run, layered


def speaking(wire, name, body):
    """The adapter for this wire at the vendor's own address, with a network that answers with these bytes."""
    http = httpx2.AsyncClient(
        transport=httpx2.MockTransport(lambda _: httpx2.Response(200, headers=STREAM, content=body))
    )
    if wire == "anthropic":
        return Anthropic(name, anthropic.AsyncAnthropic(api_key=KEY, http_client=http))
    client = openai.AsyncOpenAI(api_key=KEY, http_client=http)
    return {"openai": OpenAI, "chat": Chat}[wire](name, client=client)


async def paid(wire, name, body, known=None):
    """One run of one turn: what was charged, once everyone who counts has said the same."""
    model, known, heard = speaking(wire, name, body), known or Prices(), []
    run, budget = Run(listener=heard.append), Budget("run", parent=Budget("day"))
    run.state[Budget] = budget
    asked = layered(model, metered(known.of(model), budget_of_run, model=model.name))
    outcome = await Agent(asked).run("Hi.", run)
    assert outcome.reason == "done"
    (charged,) = [event for event in heard if isinstance(event, Charged)]
    assert (outcome.usage, outcome.cost) == (charged.usage, charged.cost)
    for level in budget.levels:
        assert level.spent.tokens == charged.usage.input + charged.usage.output
        assert level.spent.dollars == (charged.cost or 0)
    return charged


def messages(first, *later):
    """A Messages stream with these counts at its start, and in the events that end it."""
    events = [{"type": "message_start", "message": {"usage": first} if first else {}}]
    opening = {"type": "text", "text": "ok"}
    events.append({"type": "content_block_start", "index": 0, "content_block": opening})
    ends = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    events += [{**ends, "usage": usage} for usage in later]
    return sse("anthropic", [*events, {"type": "message_stop"}])


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        pytest.param(messages({"input_tokens": 25, "output_tokens": 1}, {"output_tokens": 15}), Usage(25, 15), id="a"),
        pytest.param(messages({"input_tokens": 27}, {"input_tokens": 27, "output_tokens": 47}), Usage(27, 47), id="b"),
        pytest.param(messages({"input_tokens": 27}, {"input_tokens": None, "output_tokens": 9}), Usage(27, 9), id="c"),
        pytest.param(messages({"input_tokens": 2}, *({"output_tokens": n} for n in (5, 9, 15))), Usage(2, 15), id="d"),
        pytest.param(
            messages(None, {"input_tokens": 12, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 3, "output_tokens": 6}),
            Usage(19, 6, cache_read=3, cache_write=4),
            id="e",
        ),
    ],
)  # fmt: skip
async def test_counts_in_a_stream_are_totals_so_far_and_not_added_up(body, usage):
    known = Prices({"claude-x": (Rates(*map(Decimal, ("3", "15", "0.30", "3.75"))),)})
    charged = await paid("anthropic", "claude-x", body, known)
    assert charged.usage == usage
    new = usage.input - usage.cache_read - usage.cache_write
    millionths = 3 * new + Decimal("0.30") * usage.cache_read + Decimal("3.75") * usage.cache_write
    assert charged.cost == (millionths + 15 * usage.output) / 1_000_000


async def test_f_tokens_written_to_the_cache_are_paid_for_once():
    counts = {"input_tokens": 3, "cache_creation_input_tokens": 12304, "cache_read_input_tokens": 0}
    body = messages({**counts, "output_tokens": 1}, {"output_tokens": 550})
    own = Prices({"claude-sonnet-4-5": (Rates(*map(Decimal, ("3", "15", "0.30", "3.75"))),)})
    for known in (own, Prices()):
        charged = await paid("anthropic", "claude-sonnet-4-5", body, known)
        assert charged.usage == Usage(12307, 550, cache_write=12304)
        assert charged.cost == Decimal("0.054399")


@pytest.mark.parametrize("wire", ["chat", "openai"])
async def test_g_tokens_read_from_the_cache_are_paid_for_once(wire):
    if wire == "chat":
        counts = {
            "prompt_tokens": 2000,
            "completion_tokens": 100,
            "prompt_tokens_details": {"cached_tokens": 1500},
        }
        body = sse("chat", [chunk({"content": "ok"}, "stop"), {"choices": [], "usage": counts}])
    else:
        said = {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "ok"}],
        }
        counts = {"input_tokens": 2000, "output_tokens": 100, "input_tokens_details": {"cached_tokens": 1500}}
        done = {"status": "completed", "output": [said], "usage": counts}
        body = sse("openai", [{"type": "response.completed", "response": done}])
    own = Prices({"gpt-4o": (Rates(*map(Decimal, ("2.50", "10", "1.25", "1.25"))),)})
    for known in (own, Prices()):
        charged = await paid(wire, "gpt-4o", body, known)
        assert charged.usage == Usage(2000, 100, cache_read=1500)
        assert charged.cost == Decimal("0.004125")


@pytest.mark.parametrize("wire", ["anthropic", "openai", "chat"])
async def test_h_a_price_that_nobody_knows_is_unknown_and_not_nothing(wire):
    charged = await paid(wire, "nonesuch-9", spoken(wire, [say("ok")]))
    assert charged.usage == Usage(10, 5)
    assert charged.cost is None
    kept = Charge("r", 1, "", charged.model, "turn", charged.usage, charged.cost, None)
    assert (Spending([kept]).total.cost, Spending([kept]).total.unknown) == (None, 1)


@pytest.mark.parametrize("wire", ["anthropic", "openai", "chat"])
async def test_h_a_stream_without_any_count_is_an_estimate_and_marked_as_one(wire):
    charged = await paid(wire, "gpt-4o", spoken(wire, [say("Hello there.")], used=None))
    assert charged.usage.estimated
    assert charged.usage.input > 0
    assert charged.usage.output > 0


async def test_a_session_adds_up_what_its_turns_cost_and_nothing_twice():
    body = messages({"input_tokens": 25, "output_tokens": 1}, {"output_tokens": 15})
    model, heard = speaking("anthropic", "claude-sonnet-4-5", body), []
    asked = layered(model, metered(Prices().of(model), budget_of_run, model=model.name))
    run = Run(listener=heard.append)
    run.state[Budget] = Budget("run")
    for _ in range(3):
        outcome = await Agent(asked).run("Hi.", run)
    assert (outcome.usage, outcome.cost) == (Usage(75, 45), 3 * Decimal("0.0003"))
    assert run.state[Budget].spent.dollars == outcome.cost
