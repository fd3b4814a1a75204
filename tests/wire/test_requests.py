"""What goes out: the shape that each provider demands, whatever the transcript holds, the same bytes every turn."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st
from wire.peer import Peer
from wire.speech import WIRES, ask, say, spoken, think

from harness_nb.messages import (
    Decision,
    Image,
    Message,
    Opaque,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Transcript,
    assistant,
    user,
)
from harness_nb.providers.past import Stale
from harness_nb.results import as_content
from harness_nb.seams import Request, Run, ToolSpec
from harness_nb.tools import tool

every_wire = pytest.mark.parametrize("wire", WIRES)
PNG = Image(b"\x89PNG\r\n\x1a\n", "image/png")


def results(*pairs, is_error=False):
    return Message("tool", tuple(ToolResult(name, (Text(text),), is_error) for name, text in pairs))


async def sent(wire, *messages, **options):
    """The body of one request, and the part of it that holds the conversation."""
    kept = {key: options.pop(key) for key in ("tools", "instructions", "max_output") if key in options}
    options = {"cache": False, **options} if wire == "anthropic" else options
    peer = Peer(wire, [spoken(wire, [say("ok")])], **options)
    await peer.ask(*messages, **kept)
    body = peer.sent[0]
    return body, body["input" if wire == "openai" else "messages"]


THREE = assistant("Three.", ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}"), ToolCall("c", "f", "{}"))
ANSWERS = results(("a", "A"), ("b", "B"), ("c", "C"))


async def test_results_come_first_in_one_message_of_the_user():
    _, turns = await sent("anthropic", user("go"), THREE, ANSWERS, user("and hurry"))
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert [block.get("tool_use_id", block["type"]) for block in turns[2]["content"]] == [
        "a",
        "b",
        "c",
        "text",
    ]


async def test_results_come_first_even_in_a_message_that_has_them_last():
    said = assistant(ToolCall("a", "f", "{}"))
    mixed = Message("user", (Text("and hurry"), *results(("a", "A")).parts))
    peer = Peer("anthropic", [spoken("anthropic", [say("ok")])])
    await peer.model(Request("", (user("go"), said, mixed)), Run())
    assert [block["type"] for block in peer.sent[0]["messages"][2]["content"]] == ["tool_result", "text"]


async def test_the_first_word_is_the_users():
    _, turns = await sent("anthropic", assistant("Hello."), user("hi"))
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]


async def test_results_are_items_of_their_own():
    _, items = await sent("openai", user("go"), THREE, ANSWERS, user("and hurry"))
    assert [item.get("call_id", item.get("role")) for item in items] == [
        *["user", "assistant", "a", "b", "c", "a", "b", "c", "user"]
    ]


async def test_results_are_messages_of_role_tool():
    _, turns = await sent("chat", user("go"), THREE, ANSWERS, user("and hurry"))
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool", "tool", "tool", "user"]
    assert [turn["tool_call_id"] for turn in turns[2:5]] == ["a", "b", "c"]


@every_wire
async def test_blank_text_is_not_sent(wire):
    _, turns = await sent(wire, user("go"), assistant("\n ", ToolCall("a", "f", "{}")), results(("a", "A")))
    assert "\\n " not in json.dumps(turns)
    assert '""' not in json.dumps(turns)


@every_wire
async def test_an_empty_result_is_sent_as_one_that_says_so(wire):
    _, turns = await sent(wire, user("go"), assistant(ToolCall("a", "f", "{}")), results(("a", "")))
    assert "(empty)" in json.dumps(turns[-1])


@every_wire
async def test_a_failed_result_says_that_it_failed(wire):
    _, turns = await sent(
        wire, user("go"), assistant(ToolCall("a", "f")), results(("a", "no"), is_error=True)
    )
    assert '"is_error": true' in json.dumps(turns[-1]) or "Error: no" in json.dumps(turns[-1])


async def test_only_the_end_of_a_turn_loses_its_spaces():
    said = assistant(Thinking("hm ", "S", "anthropic"), "one ", "title: ")
    _, turns = await sent("anthropic", user("go"), said)
    assert [block.get("text", block.get("thinking")) for block in turns[1]["content"]] == [
        "hm ",
        "one ",
        "title:",
    ]
    assert said.text == "one title: "


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
async def test_neighbours_of_one_role_become_one_message(wire):
    _, turns = await sent(
        wire, user("one"), user("two"), assistant("a"), assistant("b"), Message("user", (PNG,)), user("c")
    )
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert json.dumps(turns).count("two") == 1


async def test_words_and_calls_of_two_neighbours_become_one_message():
    _, turns = await sent(
        "chat", user("go"), assistant("So."), assistant(ToolCall("a", "f")), results(("a", "A"))
    )
    assert [turn["content"] for turn in turns] == ["go", "So.", "A"]
    assert turns[1]["tool_calls"][0]["id"] == "a"


@every_wire
async def test_a_system_message_in_the_middle_is_not_lost(wire):
    _, turns = await sent(
        wire, user("hi"), assistant("yes"), Message("system", (Text("Be brief."),)), user("go on")
    )
    assert "Be brief." in json.dumps(turns)
    assert all(turn["role"] != "system" for turn in turns)


@every_wire
async def test_pictures_are_sent(wire):
    picture = Message("tool", (ToolResult("a", (Text("A plot."), PNG)),))
    _, turns = await sent(wire, user("go"), assistant(ToolCall("a", "f")), picture)
    assert json.dumps(turns).count("iVBORw0KGgo=") == 1
    assert "A plot." in json.dumps(turns)


@every_wire
async def test_a_summary_is_the_users_words(wire):
    _, turns = await sent(wire, Message("user", (Summary("They agreed.", 9),)), user("go"))
    assert "They agreed." in json.dumps(turns[0])
    assert turns[0]["role"] == "user"


@every_wire
async def test_the_instructions_stand_apart(wire):
    body, turns = await sent(wire, user("hi"), instructions="Be kind.")
    where = {"anthropic": lambda: body["system"][0]["text"], "openai": lambda: body["instructions"]}
    assert where.get(wire, lambda: turns[0]["content"])() == "Be kind."


@every_wire
async def test_a_prompt_arrives_word_for_word(wire):
    prompt = '{x} $name {k:v for k,v in d.items()} what\'s up? `a\\b\\` "--"'  # R16
    _, turns = await sent(wire, user(prompt))
    assert turns[0]["content"] == prompt if wire == "chat" else turns[0]["content"][0]["text"] == prompt


# What a model thought (case R06)

SIGNED = (Thinking("abc", "S1", "anthropic"), Opaque("anthropic", '{"type":"redacted_thinking","data":"R1"}'))
ITEM = '{"type":"reasoning","id":"rs_1","encrypted_content":"E1","summary":[]}'
CALL = ToolCall("a", "f", "{}")


async def test_thinking_goes_back_as_it_came():
    said = assistant(*SIGNED, CALL, Thinking("d", "S2", "anthropic"), ToolCall("b", "f", "{}"))
    _, turns = await sent("anthropic", user("go"), said, results(("a", "A"), ("b", "B")))
    kinds = [block["type"] for block in turns[1]["content"]]
    assert kinds == ["thinking", "redacted_thinking", "tool_use", "thinking", "tool_use"]
    assert turns[1]["content"][0] == {"type": "thinking", "thinking": "abc", "signature": "S1"}
    assert turns[1]["content"][1] == {"type": "redacted_thinking", "data": "R1"}


async def test_a_reasoning_item_goes_back_whole_next_to_its_call():
    said = assistant(Thinking("abc", ITEM, "openai"), CALL, Thinking("", ITEM, "openai"))
    _, items = await sent("openai", user("go"), said, results(("a", "A")))
    assert [item["type"] for item in items] == [
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    assert items[1] == json.loads(ITEM)


async def test_thinking_goes_back_to_its_server_beside_calls_only():
    thought = Thinking("abc", "", "reasoning_content@127.0.0.1")
    _, turns = await sent(
        "chat", user("go"), assistant(thought, CALL), results(("a", "A")), assistant(thought, "So.")
    )
    assert [turn.get("reasoning_content") for turn in turns] == [None, "abc", None, None]


@every_wire
async def test_other_vendors_thinking_is_left_out(wire):
    others = (*SIGNED, Thinking("abc", ITEM, "openai"), Thinking("abc", "", "reasoning@elsewhere"))
    foreign = [part for part in others if part.vendor != wire]
    _, turns = await sent(wire, user("go"), assistant(*foreign, "So."), user("on"))
    assert "abc" not in json.dumps(turns)
    assert "R1" not in json.dumps(turns)


@every_wire
async def test_thinking_alone_is_no_turn(wire):
    _, turns = await sent(wire, user("go"), assistant(*SIGNED, Thinking("", ITEM, "openai")), user("on"))
    assert all(turn["role"] == "user" for turn in turns)


async def test_a_paused_turn_is_sent_back_unchanged():
    block = '{"type":"server_tool_use","id":"s1","name":"web_search","input":{"q":"x"}}'
    _, turns = await sent("anthropic", user("go"), assistant(Opaque("anthropic", block)))
    assert turns[1]["content"] == [json.loads(block)]


def stale(*entries):
    return Stale(Transcript(entries)).messages()


def test_thinking_between_a_changed_message_and_the_decision_is_stale():
    first, early, late = user("big"), assistant(SIGNED[0], "a"), assistant(SIGNED[0], "b")
    mask = Decision("mask", "too long", {first.id: (user("small"),)})
    assert stale(first, early, late) == set()
    assert stale(first, early, mask, late) == {early.id}
    assert stale(first, early, mask, late, Decision("me", "back", undoes=mask.id)) == {early.id, late.id}


def test_a_decision_that_changes_no_message_makes_no_thinking_stale():
    first, early = user("big"), assistant(SIGNED[0], "a")
    pin = Decision("you", "Keep it.", pins=(first.id,))
    for decision in (
        pin,
        Decision("select", "Needed.", loads=("f",)),
        Decision("provider", "It cleared.", before=9, after=5),
        Decision("mask", "Too long.", {"of another record": ()}),
    ):
        assert stale(first, early, decision, user("x")) == set()
    assert stale(first, early, pin, Decision("you", "No more.", undoes=pin.id)) == set()


@given(st.lists(st.sampled_from(["says", "masks", "undoes", "pins"]), max_size=30), st.data())
def test_stale_thinking_read_on_is_what_it_is_read_at_once(steps, data):
    transcript = Transcript()
    grown = Stale(transcript)
    for step in steps:
        names = [message.id for message in transcript.messages] or ["none"]
        decided = [entry.id for entry in transcript.entries if isinstance(entry, Decision)] or ["none"]
        transcript.append(
            {
                "says": lambda: assistant("a"),
                "masks": lambda names=names: Decision("mask", "", {data.draw(st.sampled_from(names)): ()}),
                "undoes": lambda ids=decided: Decision("you", "", undoes=data.draw(st.sampled_from(ids))),
                "pins": lambda names=names: Decision("you", "", pins=(names[0],)),
            }[step]()
        )
        assert grown.messages() == Stale(transcript).messages()


class Binding:
    """Claude, as far as it binds thinking: each of its blocks goes back after exactly what stood before it, or not at all."""

    def __init__(self):
        self.peer, self.run = Peer("anthropic", cache=False), Run()
        self.before = {}
        self.run.append(user("go"))

    async def turn(self):
        number = len(self.peer.sent)
        blocks = [think("hm", sign=f"S{number}"), ask("f", "{}", as_id=f"c{number}")]
        self.peer.turns.append(spoken("anthropic", blocks, "calls"))
        reply = await self.peer.model(Request("", self.run.transcript.live()), self.run)
        sent = [(turn["role"], block) for turn in self.peer.sent[-1]["messages"] for block in turn["content"]]
        for place, (_, block) in enumerate(sent):
            assert block["type"] != "thinking" or sent[:place] == self.before[block["signature"]]
        self.before[f"S{number}"] = sent
        self.run.append(reply.message)
        self.run.append(results((f"c{number}", "A" * number)))


DECIDES = st.one_of(
    st.tuples(st.just("turn"), st.just(0)),
    st.tuples(st.sampled_from(["mask", "hide", "undo", "pin"]), st.integers(0, 9)),
)


@settings(deadline=None)
@given(st.lists(DECIDES, max_size=14))
async def test_thinking_is_sent_after_what_it_was_thought_after_or_not_at_all(steps):
    claude = Binding()
    for step, number in [*steps, ("turn", 0)]:
        record = claude.run.transcript
        chosen = record.messages[number % len(record.messages)]
        decided = [entry.id for entry in record.entries if isinstance(entry, Decision)] or ["none"]
        short = tuple(ToolResult(r.call_id, (Text("[masked]"),)) for r in chosen.results)
        stand_in = Message(chosen.role, short or (Text("[masked]"),))
        match step:
            case "turn" if record.live():
                await claude.turn()
            case "turn":
                pass
            case "mask" | "hide":
                shown = (stand_in,) if step == "mask" else ()
                claude.run.append(Decision("mask", "", {chosen.id: shown}))
            case "undo":
                claude.run.append(Decision("you", "", undoes=decided[number % len(decided)]))
            case _:
                claude.run.append(Decision("you", "", pins=(chosen.id,)))


async def test_stale_thinking_is_not_sent():
    first, early, late = (
        user("big"),
        assistant(SIGNED[0], "a"),
        assistant(Thinking("new", "S9", "anthropic"), "b"),
    )
    entries = [
        first,
        early,
        Decision("mask", "too long", {first.id: (user("small"),)}),
        user("x"),
        late,
        user("y"),
    ]
    peer, run = Peer("anthropic", [spoken("anthropic", [say("ok")])]), Run(Transcript(entries))
    await peer.model(Request("", run.transcript.live()), run)
    assert [block.get("signature") for turn in peer.sent[0]["messages"] for block in turn["content"]].count(
        "S1"
    ) == 0
    assert "S9" in json.dumps(peer.sent[0])


async def test_a_messages_phase_goes_back_with_it():
    note = Opaque("openai", '{"phase":"commentary"}')
    _, items = await sent("openai", user("go"), assistant(note, "Hi.", CALL), results(("a", "A")))
    assert [item.get("phase") for item in items] == [None, "commentary", None, None]


# What a provider would refuse (cases R01, R19, R20 and R28)


ODD_ARGUMENTS = [
    *('{"c":"abc', '{"u": celsius}', "[1]", "3", '"{}"', "", " ", "null", '{"a":NaN}', '{"a":1e999}'),
    *("[" * 50_000, '{"x":["\\ud83c"]}', '{"c":"' + "x" * 1_200_000 + '"}'),
]


@every_wire
@pytest.mark.parametrize("raw", ODD_ARGUMENTS, ids=lambda raw: raw[:12])
async def test_arguments_go_back_as_an_object_whatever_they_were(wire, raw):
    _, turns = await sent(wire, user("go"), assistant(ToolCall("a", "f", raw)), results(("a", "A")))
    call = {
        "anthropic": lambda: turns[1]["content"][0]["input"],
        "openai": lambda: json.loads(turns[1]["arguments"]),
        "chat": lambda: json.loads(turns[1]["tool_calls"][0]["function"]["arguments"]),
    }[wire]()
    assert isinstance(call, dict)
    assert len(json.dumps(call)) < 1_000_000
    assert call == {} if raw.strip() in {"", "null"} else call


@every_wire
async def test_odd_ids_and_names_are_respelled_alike(wire):
    odd = ["functions.search", "search<|x|>y", "", "n" * 90, "größe", "ok-1"]
    said = assistant(*(ToolCall(f"id/{n}:{'x' * 70}", name) for n, name in enumerate(odd)))
    _, turns = await sent(wire, user("go"), said, results(*((call.id, "A") for call in said.calls)))
    asked = {
        "anthropic": lambda: [(b["id"], b["name"]) for b in turns[1]["content"]],
        "openai": lambda: [(i["call_id"], i["name"]) for i in turns if i["type"] == "function_call"],
        "chat": lambda: [(c["id"], c["function"]["name"]) for c in turns[1]["tool_calls"]],
    }[wire]()
    answered = {
        "anthropic": lambda: [b["tool_use_id"] for b in turns[2]["content"]],
        "openai": lambda: [i["call_id"] for i in turns if i["type"] == "function_call_output"],
        "chat": lambda: [t["tool_call_id"] for t in turns[2:]],
    }[wire]()
    assert [identity for identity, _ in asked] == answered
    assert len(set(answered)) == len(odd) == len({name for _, name in asked})
    assert all(
        set(part) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
        for pair in asked
        for part in pair
    )
    assert all(0 < len(part) <= 64 for pair in asked for part in pair)
    assert asked[-1][1] == "ok-1"


@every_wire
@pytest.mark.parametrize(
    "value",
    [None, [], {"mean": float("nan"), "max": float("inf")}, {1, 2}, b"\xff", "\udce9", "a\0b", "\x1b[2J"],
    ids=repr,
)
async def test_any_result_makes_a_valid_body(wire, value):
    result = Message("tool", (ToolResult("a", as_content(value)),))
    _, turns = await sent(wire, user("go"), assistant(ToolCall("a", "f")), result)  # the peer reads strictly
    assert "\\u0000" not in json.dumps(turns)
    assert "\\ud" not in json.dumps(turns)


@every_wire
async def test_half_characters_are_replaced_and_whole_ones_joined(wire):
    spec = ToolSpec("f", "\ud83c alone, \ud83c\udf78 together", {"type": "object"})
    body, _ = await sent(wire, user("go"), tools=[spec])
    assert "\ufffd alone, \U0001f378 together" in str(body["tools"])


# What tools are described as (cases R26 and R27)


def parameters(wire, body):
    key = {"anthropic": "input_schema"}.get(wire, "parameters")
    return {t["name"]: t[key] for t in (t["function"] if wire == "chat" else t for t in body["tools"])}


@every_wire
async def test_a_tools_schema_goes_out_as_its_signature_says(wire):
    @tool
    def measure(a: int, mode: str = "r", xs: list[int] | None = None) -> str:
        """Measure."""
        return f"{a} {mode} {xs}"

    body, _ = await sent(wire, user("go"), tools=[measure.spec])
    schema = parameters(wire, body)["measure"]
    assert schema["required"] == ["a"]
    assert set(schema["properties"]) == {"a", "mode", "xs"}
    assert "strict" not in json.dumps(body["tools"]) or body["tools"][0]["strict"] is False


@every_wire
async def test_a_tool_that_can_not_be_sent_is_left_out_with_a_notice(wire):
    heard = []
    peer = Peer(wire, [spoken(wire, [say("ok")])])
    specs = [ToolSpec("bad", "Bad.", {"type": "string"}), ToolSpec("good", "Good.", {"type": "object"})]
    await peer.ask(user("go"), tools=specs, listener=heard.append)
    assert set(parameters(wire, peer.sent[0])) == {"good"}
    assert "`bad` was left out" in str(heard)


@every_wire
async def test_a_tool_is_called_back_by_its_own_name(wire):
    from harness_nb.providers.spelling import token

    spec = ToolSpec("server.größe", "Size.", {"type": "object"})
    peer = Peer(wire, [spoken(wire, [ask(token(spec.name), "{}")], stop="calls")])
    reply = await peer.ask(user("go"), tools=[spec])
    assert set(parameters(wire, peer.sent[0])) == {token(spec.name)}
    assert reply.message.calls[0].name == spec.name


# Bytes that stay (prompt cache)


def growing(turns):
    messages = [user("go")]
    for n in range(turns):
        messages += [assistant(f"t{n}", ToolCall(f"c{n}", "f", "{}")), results((f"c{n}", "A" * n))]
    return messages


@every_wire
async def test_a_request_begins_with_the_one_before(wire):
    raw = []
    peer = Peer(wire, [spoken(wire, [say("ok")])] * 3, **({"cache": False} if wire == "anthropic" else {}))
    peer.model._wire._given._client.event_hooks["request"].append(_kept(raw))
    messages, run = growing(3), Run()
    for upto in (3, 5, 7):
        await peer.model(Request("Be kind.", tuple(messages[:upto]), (ToolSpec("f", "F.", {}),)), run)
    for before, after in pairwise(raw):
        assert after.startswith(before.removesuffix(b"]}"))


def _kept(raw):
    async def keep(request):
        raw.append(request.content)

    return keep


@every_wire
async def test_a_message_that_takes_anothers_place_is_sent(wire):
    peer, run = Peer(wire, [spoken(wire, [say("ok")])] * 2), Run()
    for text in ("early", "late"):
        await peer.model(Request("", (Message("user", (Text(text),), id="same"),)), run)
    assert "late" in json.dumps(peer.sent[1])


async def test_four_marks_keep_the_prefix_in_the_cache():
    peer = Peer("anthropic", [spoken("anthropic", [say("ok")])])
    await peer.ask(
        *growing(3), tools=[ToolSpec("f", "F.", {}), ToolSpec("g", "G.", {})], instructions="Be kind."
    )
    body = peer.sent[0]
    assert json.dumps(body).count("cache_control") == 4
    assert "cache_control" in body["tools"][1]
    assert "cache_control" in body["system"][0]
    marked = [n for n, turn in enumerate(body["messages"]) if "cache_control" in turn["content"][-1]]
    assert marked == [4, 6]  # the two newest of the user's


async def test_the_marks_stay_at_the_newest_turns_after_a_decision():
    peer = Peer("anthropic", [spoken("anthropic", [say("ok")])] * 2)
    run = Run(Transcript(growing(9)))
    tools = (ToolSpec("f", "F.", {}),)
    await peer.model(Request("Be kind.", run.transcript.live(), tools), run)
    masked = run.transcript.messages[4]
    run.append(Decision("mask", "Full.", {masked.id: (results((masked.results[0].call_id, "[masked]")),)}))
    await peer.model(Request("Be kind.", run.transcript.live(), tools), run)
    before, after = (
        [n for n, turn in enumerate(body["messages"]) if "cache_control" in turn["content"][-1]]
        for body in peer.sent
    )
    assert before == after == [16, 18]
    assert [json.dumps(body).count("cache_control") for body in peer.sent] == [4, 4]
    assert "[masked]" in json.dumps(peer.sent[1])


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
async def test_a_mark_of_one_request_is_a_mark_of_the_next(sizes):
    peer, run = Peer("anthropic", [spoken("anthropic", [say("ok")])] * len(sizes)), Run()
    run.append(user("go"))
    for number, size in enumerate(sizes):
        await peer.model(Request("", run.transcript.live()), run)
        ids = [f"c{number}_{n}" for n in range(size)]
        run.append(assistant("So.", *(ToolCall(name, "f") for name in ids)))
        run.append(results(*((name, "A") for name in ids)) if ids else user("on"))
    marks = [
        [n for n, turn in enumerate(body["messages"]) if "cache_control" in turn["content"][-1]]
        for body in peer.sent
    ]
    assert all(earlier[-1] in later for earlier, later in pairwise(marks))


async def test_no_marks_where_none_are_wanted():
    body, _ = await sent("anthropic", *growing(3), instructions="Be kind.", tools=[ToolSpec("f", "F.", {})])
    assert "cache_control" not in json.dumps(body)


# Settings


async def test_settings_reach_the_provider():
    body, _ = await sent(
        "anthropic", user("x"), thinking="adaptive", effort="high", extra={"metadata": {"user_id": "u"}}
    )
    assert body["thinking"]["type"] == "adaptive"
    assert body["output_config"] == {"effort": "high"}
    assert body["metadata"] == {"user_id": "u"}
    body, _ = await sent("openai", user("x"), effort="high", max_output=50)
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])
    assert (body["reasoning"], body["max_output_tokens"]) == ({"effort": "high"}, 50)
    body, _ = await sent("chat", user("x"), max_output=50)
    assert body["max_completion_tokens"] == 50
    assert body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_tokens_are_counted_by_the_provider(wire):
    import httpx2

    peer = Peer(wire, [httpx2.Response(200, json={"input_tokens": 42})])
    assert await peer.model.count_tokens(Request("Be kind.", (user("hi"),))) == 42
    assert "stream" not in peer.sent[0]
    assert "max_tokens" not in peer.sent[0]
