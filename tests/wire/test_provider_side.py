"""What a provider does on its own side of a conversation: it clears, compacts, counts inner requests, searches tools."""

import json
from itertools import pairwise

import anthropic
import httpx2
import pytest
from hypothesis import given, settings, strategies as st
from wire.peer import KEY, STREAM, Peer
from wire.speech import WIRES, ask, say, spoken, sse, vendor

from harness_nb.agent import Agent
from harness_nb.context.account import Account, measured
from harness_nb.context.count import counting
from harness_nb.context.window import Window
from harness_nb.encoding import decode, encode
from harness_nb.errors import UsageError
from harness_nb.events import ContextMeasured
from harness_nb.messages import (
    Decision,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Transcript,
    Usage,
    assistant,
    user,
)
from harness_nb.providers.anthropic import Anthropic
from harness_nb.providers.clearing import Clearing
from harness_nb.providers.openai import OpenAI
from harness_nb.providers.spelling import token
from harness_nb.seams import Request, Run, ToolSpec, layered
from harness_nb.tools import Toolbox, tool

# Old tool results cleared by Claude's API

RESULTS = {"type": "clear_tool_uses_20250919", "cleared_input_tokens": 34_000, "cleared_tool_uses": 12}
THOUGHTS = {"type": "clear_thinking_20251015", "cleared_input_tokens": 1000, "cleared_thinking_turns": 1}


def cleared(*edits, used=60_000):
    """A turn of one word, whose request was cleared by these edits down to `used` tokens."""
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    return sse(
        "anthropic",
        [
            {"type": "message_start", "message": {"usage": {"input_tokens": used}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "ok"}},
            {**ended, "context_management": {"applied_edits": list(edits)}},
            {"type": "message_stop"},
        ],
    )


async def decided(*turns):
    """The provider's decisions in the record after these turns."""
    peer, run = Peer("anthropic", turns, clearing=Clearing()), Run()
    for _ in turns:
        await peer.model(Request("", (user("hi"),)), run)
    return [entry for entry in run.transcript.entries if isinstance(entry, Decision)]


async def test_clearing_is_asked_for_as_the_api_wants_it():
    wish = Clearing(50_000, keep=5, least=9000, exclude=("sérver.tool",), thoughts=2)
    peer = Peer("anthropic", [cleared()], clearing=wish, thinking=2000)
    await peer.ask(user("hi"))
    assert peer.sent[0]["context_management"]["edits"] == [
        {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}},
        {
            "type": "clear_tool_uses_20250919",
            "trigger": {"type": "input_tokens", "value": 50_000},
            "keep": {"type": "tool_uses", "value": 5},
            "clear_at_least": {"type": "input_tokens", "value": 9000},
            "exclude_tools": [token("sérver.tool")],
        },
    ]


async def asked(client, name="claude-x", run=None, **options):
    """The request that goes out through this client."""
    seen = []

    def answer(request):
        seen.append(request)
        return httpx2.Response(200, headers=STREAM, content=cleared())

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    model = Anthropic(name, client(api_key=KEY, http_client=http), **options)
    await model(Request("", (user("hi"),)), run or Run())
    return seen[0]


async def test_the_beta_is_named_beside_those_of_the_client():
    plain = await asked(anthropic.AsyncAnthropic)
    assert ("anthropic-beta" in plain.headers, plain.url.query) == (False, b"")
    sent = await asked(anthropic.AsyncAnthropic, clearing=Clearing())
    assert (sent.headers["anthropic-beta"], sent.url.query) == ("context-management-2025-06-27", b"beta=true")

    def mine(**given):
        return anthropic.AsyncAnthropic(default_headers={"anthropic-beta": "mine-1"}, **given)

    sent = await asked(mine, clearing=Clearing(), betas=("yours-1",))
    assert sent.headers["anthropic-beta"] == "mine-1,yours-1,context-management-2025-06-27"


async def test_a_run_can_ask_for_it_too_where_the_api_is_known_to_clear():
    run = Run()
    run.state[Clearing] = Clearing(trigger=9_000)
    new = await asked(anthropic.AsyncAnthropic, run=run)
    old = await asked(anthropic.AsyncAnthropic, "claude-3-haiku", run=run)
    assert b'"value":9000' in new.content
    assert "anthropic-beta" in new.headers
    assert b"context_management" not in old.content
    assert "anthropic-beta" not in old.headers


async def test_what_was_cleared_is_on_record_with_its_numbers():
    (decision,) = await decided(cleared(RESULTS, THOUGHTS))
    assert (decision.by, decision.before, decision.after) == ("provider", 95_000, 60_000)
    assert decision.why == (
        "The provider cleared 12 old tool results and 1 turn's thinking from what the model sees, 35,000 tokens."
    )
    assert decision.changes == {}


async def test_the_same_clearing_is_recorded_once():
    more = RESULTS | {"cleared_input_tokens": 40_000, "cleared_tool_uses": 13}
    found = await decided(cleared(RESULTS), cleared(RESULTS, used=61_000), cleared(more), cleared(more))
    assert [decision.before - decision.after for decision in found] == [34_000, 40_000]


@pytest.mark.parametrize("edits", [[], [{"type": "new"}], [None], [{"cleared_input_tokens": "x"}]])
async def test_nothing_cleared_is_not_recorded(edits):
    assert await decided(cleared(*edits)) == []


async def test_the_decision_stands_before_the_reply_and_the_record_is_sendable():
    peer = Peer("anthropic", [cleared(RESULTS), cleared(RESULTS)], clearing=Clearing())
    outcome = await Agent(peer.model).run("go")
    kinds = [getattr(entry, "role", entry.__class__.__name__) for entry in outcome.transcript.entries]
    assert kinds == ["user", "Decision", "assistant"]
    again = Transcript(decode(json.loads(json.dumps(encode(entry)))) for entry in outcome.transcript.entries)
    assert (await Agent(peer.model).run("on", Run(again))).reason == "done"


async def test_the_account_goes_by_what_was_left_after_clearing():
    peer = Peer("anthropic", [cleared(RESULTS), cleared(RESULTS)], clearing=Clearing())
    account, heard = Account(Window(200_000, 8000), counting("characters")), []
    agent = Agent(layered(peer.model, measured(account)))
    run = Run(listener=heard.append)
    await agent.run("go", run)
    await agent.run("on", run)
    fills = [event.fill.total for event in heard if isinstance(event, ContextMeasured)]
    assert 60_000 < fills[-1] < 60_200
    first = account.turns[0]
    assert Transcript(run.transcript.entries[: first.entries]).live() == run.transcript.messages[:1]


def test_a_model_tells_whether_its_provider_clears():
    peer = Peer("anthropic", clearing=Clearing())
    assert layered(peer.model).clears
    assert not layered(Peer("anthropic").model).clears
    assert not layered(Peer("chat").model).clears


@pytest.mark.parametrize("wrong", [{"trigger": 0}, {"keep": -1}, {"least": -1}, {"thoughts": 0}])
def test_a_clearing_that_can_not_be_is_refused_in_one_sentence(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Clearing(**wrong)


# Compactions by the provider go back as they came

COMPACTED = '{"type":"compaction","content":"They agreed.","encrypted_content":"E1","signature":"S1"}'
COMPACTION = '{"type":"compaction","id":"cmp_1","encrypted_content":"E1"}'


def compacted():
    """A turn in which Claude's API summarised first: the block in pieces, then an answer."""
    opening = {"type": "compaction", "content": None, "encrypted_content": None}
    deltas = [
        {"type": "compaction_delta", "content": "They agreed.", "encrypted_content": "E1"},
        {"type": "signature_delta", "signature": "S1"},
    ]
    events = [{"type": "content_block_start", "index": 0, "content_block": opening}]
    events += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    text = {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "So."}}
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    return [*events, {"type": "content_block_stop", "index": 0}, text, ended, {"type": "message_stop"}]


async def sent_again(wire, first, *, tools=()):
    """What came in a first turn, and its form in the request of the second, after the record was stored."""
    peer, run = Peer(wire, [first, spoken(wire, [say("ok")])]), Run()
    run.append(user("go"))
    reply = await peer.model(Request("", run.transcript.live(), tools), run)
    run.append(reply.message)
    run.append(user("on"))
    again = Transcript(decode(json.loads(json.dumps(encode(entry)))) for entry in run.transcript.entries)
    await peer.model(Request("", again.live(), tools), Run(again))
    return reply.message.parts, peer.sent[1]["input" if wire == "openai" else "messages"][1:-1]


async def test_a_compaction_of_claudes_goes_back_in_its_place():
    parts, turns = await sent_again("anthropic", sse("anthropic", compacted()))
    assert parts == (Opaque("anthropic", COMPACTED), Text("So."))
    assert turns[0]["content"] == [json.loads(COMPACTED), {"type": "text", "text": "So."}]


async def test_a_turn_that_is_only_a_compaction_goes_on():
    events = [event for event in compacted() if event.get("index") != 1]
    events[-2] = {"type": "message_delta", "delta": {"stop_reason": "compaction"}}
    wanted = {"context_management": {"edits": [{"type": "compact_20260112", "pause_after_compaction": True}]}}
    turns = [sse("anthropic", events), spoken("anthropic", [say("Done.")])]
    peer = Peer("anthropic", turns, extra=wanted, betas=("compact-2026-01-12",))
    outcome = await Agent(peer.model).run("go")
    assert (outcome.reason, outcome.text) == ("done", "Done.")
    assert peer.sent[0]["context_management"] == wanted["context_management"]
    assert peer.sent[1]["messages"][-1] == {"role": "assistant", "content": [json.loads(COMPACTED)]}


async def test_a_compaction_item_goes_back_in_its_place():
    done = {"type": "response.output_item.done", "output_index": 0, "item": json.loads(COMPACTION)}
    first = sse("openai", [done]) + spoken("openai", [say("So.")]).replace(
        b'"output_index": 0', b'"output_index": 1'
    )
    parts, items = await sent_again("openai", first)
    assert parts[0] == Opaque("openai", COMPACTION)
    assert [item["type"] for item in items] == ["compaction", "message"]
    assert json.dumps(items[0], separators=(",", ":")) == COMPACTION


async def test_a_compaction_that_a_person_puts_first_goes_out_first():
    for wire, block in (("anthropic", COMPACTED), ("openai", COMPACTION)):
        peer = Peer(wire, [spoken(wire, [say("ok")])])
        await peer.ask(Message("user", (Opaque(wire, block), Text("on"))))
        body = peer.sent[0]
        first = body["input"][0] if wire == "openai" else body["messages"][0]["content"][0]
        assert first == json.loads(block)


async def test_tokens_of_inner_requests_are_counted():
    inner = [
        {"type": "message", "input_tokens": 150_000, "output_tokens": 10},
        {"type": "compaction", "input_tokens": 5000, "output_tokens": 700, "cache_read_input_tokens": 200},
        {"type": "message", "input_tokens": 9000, "output_tokens": 40, "cache_creation_input_tokens": 100},
    ]
    totals = {"input_tokens": 159_000, "cache_creation_input_tokens": 100, "output_tokens": 50}
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    body = sse("anthropic", [{**ended, "usage": {**totals, "iterations": inner}}, {"type": "message_stop"}])
    reply = await Peer("anthropic", [body]).ask(user("hi"))
    assert reply.usage == Usage(164_300, 750, cache_read=200, cache_write=100, context=9100)


# Reasoning items stand next to what they led to, or not at all

ITEM = '{"type":"reasoning","id":"rs_1","encrypted_content":"E1","summary":[]}'
PARTS = [
    Thinking("", ITEM, "openai"),
    Text("So."),
    Text(" "),
    ToolCall("c", "f"),
    Opaque("openai", '{"phase":"commentary"}'),
    Opaque("openai", '{"namespace":"f"}'),
    Opaque("openai", COMPACTION),
    Thinking("x", "S", "anthropic"),
]


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from(PARTS), max_size=5), max_size=4), st.sets(st.integers(0, 9)))
async def test_no_reasoning_item_ever_stands_alone(said, hidden):
    transcript = Transcript([user("go")])
    for number, parts in enumerate(said):
        message = transcript.distinct(assistant(*parts, Text(f"{number}"), *parts[:1]))
        transcript.append(message)
        results = tuple(ToolResult(call.id, (Text("A"),)) for call in message.calls)
        transcript.append(Message("tool", results) if results else user("on"))
    names = [message.id for message in transcript.messages]
    transcript.append(Decision("compact", "", {names[n]: () for n in hidden if n < len(names)}))
    peer = Peer("openai", [spoken("openai", [say("ok")])])
    await peer.model(Request("", (*transcript.live(), user("x"))), Run(transcript))
    items = peer.sent[0]["input"]
    for item, following in pairwise(items):
        if item["type"] == "reasoning":
            assert following.get("role", "assistant") == "assistant"
            assert following["type"] != "function_call_output"
    assert items[-1]["type"] != "reasoning"


# Tools that are found by the provider's search

SPECS = (
    ToolSpec("add", "Add.", {"type": "object"}),
    ToolSpec("weather", "Tell the weather.", {"type": "object"}, deferred=True),
    ToolSpec("mail", "Send mail.", {"type": "object"}, deferred=True),
)
FOUND = '{"type":"tool_search_tool_result","tool_use_id":"s1","content":{"type":"tool_search_tool_search_result","tool_references":[{"type":"tool_reference","tool_name":"weather"}]}}'
SEARCHED = '{"type":"server_tool_use","id":"s1","name":"tool_search_tool_bm25","input":{"query":"weather"}}'


async def tools_of(wire, specs=SPECS, **options):
    peer = Peer(wire, [spoken(wire, [say("ok")])], **options)
    await peer.ask(user("hi"), tools=specs)
    return peer.sent[0]["tools"]


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_deferred_tools_are_sent_marked_beside_the_search(wire):
    tools = await tools_of(wire, tool_search=True)
    search = {"anthropic": "tool_search_tool_bm25_20251119", "openai": "tool_search"}[wire]
    assert [given.get("name") for given in tools if given is not tools[1]] == ["add", "weather", "mail"]
    assert tools[1]["type"] == search
    assert [given.get("defer_loading") for given in tools] == [None, None, True, True]
    assert [n for n, given in enumerate(tools) if "cache_control" in given] == (
        [1] if wire == "anthropic" else []
    )


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_without_deferred_tools_there_is_no_search(wire):
    assert [given["name"] for given in await tools_of(wire, SPECS[:1], tool_search=True)] == ["add"]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_provider_without_a_search_gets_every_tool(wire):
    tools = await tools_of(wire, **({} if wire == "chat" else {"tool_search": False}))
    assert "defer_loading" not in json.dumps(tools)
    assert "tool_search" not in json.dumps(tools)
    assert len(tools) == 3


@pytest.mark.parametrize(
    ("made", "searches"),
    [
        (lambda: Anthropic("claude-sonnet-5-5"), True),
        (lambda: Anthropic("claude-mythos-preview"), True),
        (lambda: Anthropic("claude-haiku-4-5-20251001"), True),
        (lambda: Anthropic("claude-opus-4-1-20250805"), False),
        (lambda: Anthropic("claude-sonnet-4-20250514"), False),
        (lambda: Anthropic("claude-3-7-sonnet-latest"), False),
        (lambda: Anthropic("m", anthropic.AsyncAnthropic(base_url="http://127.0.0.1:1", api_key=KEY)), False),
        (lambda: OpenAI("gpt-6.1-sol"), True),
        (lambda: OpenAI("gpt-5.4-mini"), True),
        (lambda: OpenAI("gpt-5.3"), False),
        (lambda: OpenAI("gpt-4.1"), False),
        (lambda: OpenAI("o3"), False),
        (lambda: OpenAI("gpt-5.3", tool_search=True), True),
    ],
)  # fmt: skip
def test_a_model_tells_whether_it_searches_tools(made, searches):
    assert layered(made()).searches_tools == searches


def test_a_server_elsewhere_is_not_taken_for_the_company(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    assert not Anthropic("claude-sonnet-5-5").searches_tools


async def test_what_claudes_search_found_goes_back_and_can_be_called():
    events = [
        {"type": "content_block_start", "index": 0, "content_block": json.loads(SEARCHED) | {"input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"query":"weather"}'}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": json.loads(FOUND)},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "c1", "name": "weather", "input": {}}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]  # fmt: skip
    outcome, peer = await run_with_weather("anthropic", sse("anthropic", events))
    assert outcome.text == "Sunny."
    content = peer.sent[1]["messages"][1]["content"]
    assert [json.dumps(block, separators=(",", ":")) for block in content[:2]] == [SEARCHED, FOUND]
    assert content[2]["name"] == "weather"
    assert "sun" in json.dumps(peer.sent[1]["messages"][2])


async def test_what_openais_search_found_goes_back_and_can_be_called():
    items = [
        {"type": "tool_search_call", "id": "ts1", "execution": "server", "arguments": {"paths": ["weather"]}, "status": "completed"},
        {"type": "tool_search_output", "id": "to1", "execution": "server", "status": "completed", "tools": [{"type": "function", "name": "weather"}]},
        {"type": "function_call", "call_id": "c1", "name": "weather", "namespace": "weather", "arguments": "{}"},
    ]  # fmt: skip
    events = [
        {"type": "response.output_item.done", "output_index": n, "item": item} for n, item in enumerate(items)
    ]
    ended = {"type": "response.completed", "response": {"status": "completed"}}
    outcome, peer = await run_with_weather("openai", sse("openai", [*events, ended]))
    assert outcome.text == "Sunny."
    assert peer.sent[1]["input"][1:4] == items
    assert peer.sent[1]["input"][4]["output"] == "sun"


@pytest.mark.parametrize(("stop", "kept"), [("length", ()), ("pause", (Opaque("anthropic", SEARCHED),))])
async def test_a_search_that_the_output_limit_cut_off_does_not_stay(stop, kept):
    body = spoken("anthropic", [say("So."), vendor(**json.loads(SEARCHED))], stop)
    reply = await Peer("anthropic", [body]).ask(user("hi"))
    assert reply.message.parts == (Text("So."), *kept)
    both = [vendor(**json.loads(SEARCHED)), vendor(**json.loads(FOUND))]
    reply = await Peer("anthropic", [spoken("anthropic", both, stop)]).ask(user("hi"))
    assert len(reply.message.parts) == 2


async def test_a_search_whose_tool_is_gone_does_not_go_back():
    thought = Thinking("hm", "S1", "anthropic")
    searches = (Opaque("anthropic", SEARCHED), Opaque("anthropic", FOUND))
    said = assistant(*searches, thought, ToolCall("c1", "weather"))
    entries = [user("go"), said, Message("tool", (ToolResult("c1", (Text("sun"),)),))]
    peer, run = Peer("anthropic", [spoken("anthropic", [say("ok")])] * 3), Run(Transcript(entries))
    for specs in (SPECS, SPECS[:1], SPECS):
        await peer.model(Request("", run.transcript.live(), specs), run)
    kinds = [[block["type"] for block in body["messages"][1]["content"]] for body in peer.sent]
    whole = ["server_tool_use", "tool_search_tool_result", "thinking", "tool_use"]
    assert kinds == [whole, ["tool_use"], whole]


async def run_with_weather(wire, first):
    @tool
    def weather() -> str:
        """Tell the weather."""
        return "sun"

    peer = Peer(wire, [first, spoken(wire, [say("Sunny.")])], tool_search=True)
    return await Agent(peer.model, Toolbox([weather])).run("go"), peer


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_a_deferred_tool_keeps_its_place_when_others_change_nothing(wire):
    peer = Peer(
        wire, [spoken(wire, [ask("add", "{}")], "calls"), spoken(wire, [say("ok")])], tool_search=True
    )
    run = Run(Transcript([user("go")]))
    for _ in range(2):
        await peer.model(Request("", run.transcript.live(), tuple(SPECS)), run)
    assert peer.sent[0]["tools"] == peer.sent[1]["tools"]
