"""Line 4, for the transcript: any prefix of any log may be sent to any provider; a broken call never runs."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pairing import faults
from wire.peer import Peer

from harness_nb.agent import Agent, answer_open_calls
from harness_nb.encoding import decode, encode
from harness_nb.events import DecisionMade, MessageAdded
from harness_nb.messages import (
    INTERRUPTED,
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
    paired,
    user,
)
from harness_nb.providers.scripted import say, scripted
from harness_nb.seams import Request, Run
from harness_nb.strict import clean, parse_arguments
from harness_nb.tools import Toolbox, tool

some = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
few = settings(some, max_examples=50)

# Logs: every kind of message and decision, with few ids so that they are repeated, split, late and orphaned.

odd = st.text(st.characters(categories=None), max_size=6) | st.sampled_from(
    ["", " ", "a\u2028b\x85\0c", "\ud83c\udf78", "\ud800"]
)
names = st.sampled_from(["a", "b", "c", ""])
raws = st.sampled_from(["", "{}", "null", '{"x": 1}', '{"x":', "[1]", "NaN", '{"x": "\\ud800"}', "[" * 2000])
results = st.builds(
    ToolResult,
    names,
    st.lists(st.builds(Text, odd.filter(str.strip)), min_size=1, max_size=2).map(tuple),
    st.booleans(),
)
words = st.builds(Text, odd)
spoken = st.one_of(
    words,
    st.builds(Thinking, odd, st.text("aB+/=", max_size=4), st.just("anthropic")),
    st.builds(ToolCall, names, st.sampled_from(["t", "odd name!", ""]), raws),
    st.just(Opaque("anthropic", '{"type":"server_tool_use","id":"s","name":"web","input":{}}')),
)
messages = st.one_of(
    st.builds(
        Message,
        st.just("user"),
        st.lists(words | st.just(Image(b"\x89PNG", "image/png")), max_size=2).map(tuple),
    ),
    st.builds(Message, st.just("assistant"), st.lists(spoken, max_size=5).map(tuple)),
    st.builds(Message, st.just("tool"), st.lists(results, max_size=4).map(tuple)),
    st.builds(Message, st.just("tool"), st.lists(results | words, max_size=3).map(tuple)),
    st.builds(Message, st.just("system"), st.tuples(words)),
)


@st.composite
def logs(draw, *, decisions=True):
    """Draw messages with decisions about earlier ones, and undoings of earlier decisions."""
    log = []
    for message in draw(st.lists(messages, max_size=12)):
        log.append(message)
        if decisions and draw(st.integers(0, 3)) == 0:
            log.append(draw(deciding(log)))
    return log


@st.composite
def deciding(draw, log):
    earlier = [entry.id for entry in log if isinstance(entry, Decision)]
    if earlier and draw(st.booleans()):
        return Decision("person", "undo", undoes=draw(st.sampled_from(earlier)))
    shown = st.sampled_from([(), (user("masked"),), (Message("user", (Summary("so far", 2),)),)])
    targets = st.sampled_from([entry.id for entry in log if isinstance(entry, Message)])
    return Decision("test", "why", draw(st.dictionaries(targets, shown, max_size=3)))


def stored(log):
    """The log as it comes back from a file of one JSON line for each entry."""
    lines = [json.dumps(encode(entry)) for entry in log]
    assert all(len(line.splitlines()) == 1 for line in lines)
    return [decode(json.loads(line)) for line in lines]


@some
@given(logs())
def test_every_prefix_of_any_log_may_be_sent_to_any_provider(log):
    for length in range(len(log) + 1):
        assert faults(Transcript(stored(log[:length])).live()) == []


@some
@given(logs())
def test_what_is_stored_reads_back_equal(log):
    assert stored(log) == log


@some
@given(logs(decisions=False))
def test_each_call_gets_the_result_that_was_recorded_for_it(log):
    shown = [r for message in Transcript(log).live() for r in message.results]
    expected = []
    for index, message in enumerate(log):
        for place, call in enumerate(message.calls):
            later = []
            for following in log[index + 1 :]:
                later += [r for r in following.results if r.call_id == call.id]
                if any(c.id == call.id for c in following.calls):
                    break
            nth = [c.id for c in message.calls[:place]].count(call.id)
            expected.append(later[nth].text if nth < len(later) else INTERRUPTED)
    assert [r.text for r in shown] == expected


@some
@given(logs(), logs(decisions=False))
def test_the_bytes_of_a_request_do_not_change_when_the_conversation_goes_on(log, more):
    run = Run(Transcript(log))
    answer_open_calls(run)
    before = [json.dumps(encode(message)) for message in run.transcript.live()]
    for message in [user("go on"), *more]:
        run.append(message)
    after = [json.dumps(encode(message)) for message in run.transcript.live()]
    assert after[: len(before)] == before


@some
@given(logs())
def test_the_record_is_never_rewritten(log):
    transcript = Transcript()
    for length, entry in enumerate(log, 1):
        transcript.append(entry)
        transcript.live()
        assert transcript.entries == tuple(log[:length])


@some
@given(logs(), st.data())
def test_the_view_kept_step_by_step_is_the_one_worked_out_at_once(log, data):
    transcript = Transcript()
    for entry in log:
        transcript.append(entry)
        if data.draw(st.booleans()):
            at_once = [message for _, shown in transcript.shown() for message in shown]
            assert list(transcript.live()) == list(paired(at_once))


@some
@given(logs())
def test_decisions_hold_until_undone_and_the_later_one_wins(log):
    holds = {}
    for entry in reversed(log):
        if isinstance(entry, Decision):
            holds[entry.id] = not any(
                d.undoes == entry.id and holds[d.id] for d in log if isinstance(d, Decision) and d.id in holds
            )
    plain = []
    for message in (entry for entry in log if isinstance(entry, Message)):
        about = [d for d in log if isinstance(d, Decision) and holds[d.id] and message.id in d.changes]
        plain += about[-1].changes[message.id] if about else [message]
    assert Transcript(log).live() == Transcript(plain).live()


# The same through the adapters, on the JSON that would go out.

WIRES = {name: Peer(name).model for name in ("anthropic", "openai", "chat")}


def body(wire, transcript):
    """The request that the adapter would send, read as strictly as a server does."""
    sent = WIRES[wire]._body(Request("Be brief.", transcript.live()), Run(transcript), {})
    return json.loads(sent, parse_constant=pytest.fail)


def wire_faults(wire, sent):
    """Pairing faults of a request body, by the rules of its own wire."""
    return {"anthropic": _anthropic, "openai": _openai, "chat": _chat}[wire](sent)


def _anthropic(sent):
    found, asked, seen = [], [], []
    for message in [*sent["messages"], {"role": "user", "content": []}]:
        blocks = message["content"]
        kinds = [block["type"] for block in blocks]
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if answered != asked or kinds[: len(answered)] != ["tool_result"] * len(answered):
            found.append(f"{asked} answered by {kinds} {answered}")
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        found += [f"input {block}" for block in blocks if not isinstance(block.get("input", {}), dict)]
        found += ["blank text" for block in blocks if block.get("text", "x").strip() == ""]
        seen += asked
    return found + (["ids twice"] if len(set(seen)) < len(seen) or "" in seen else [])


def _openai(sent):
    found, waiting, seen = [], [], []
    for item in sent["input"]:
        if item.get("type") == "function_call":
            waiting.append(item["call_id"])
            seen.append(item["call_id"])
            found += [] if isinstance(json.loads(item["arguments"]), dict) else ["arguments"]
        elif item.get("type") == "function_call_output":
            found += [] if item["call_id"] in waiting else [f"orphan {item}"]
            waiting = [name for name in waiting if name != item["call_id"]]
    return (
        found + [f"open {name}" for name in waiting] + (["ids twice"] if len(set(seen)) < len(seen) else [])
    )


def _chat(sent):
    found, waiting = [], []
    for message in [*sent["messages"], {"role": "user"}]:
        if message["role"] == "tool":
            found += [] if message["tool_call_id"] in waiting else [f"orphan {message}"]
            waiting = [name for name in waiting if name != message["tool_call_id"]]
            continue
        found += [f"open {waiting} before {message['role']}"] if waiting else []
        waiting = [call["id"] for call in message.get("tool_calls", [])]
        arguments = [json.loads(call["function"]["arguments"]) for call in message.get("tool_calls", [])]
        found += ["arguments" for value in arguments if not isinstance(value, dict)]
    return found


@pytest.mark.parametrize("wire", WIRES)
@some
@given(log=logs())
def test_what_goes_out_keeps_the_rules_of_its_wire(wire, log):
    assert wire_faults(wire, body(wire, Transcript(log))) == []


@pytest.mark.parametrize("wire", WIRES)
def test_the_rules_of_the_wires_can_be_broken(wire):
    for messages in (
        [assistant(ToolCall("a", "t"))],
        [Message("tool", (ToolResult("a", (Text("x"),)),))],
        [assistant(ToolCall("a", "t")), user("x"), Message("tool", (ToolResult("a", (Text("x"),)),))],
    ):
        sent = WIRES[wire]._body(Request("", tuple(messages)), Run(), {})
        late = wire == "openai" and len(messages) == 3  # outputs may come later there
        assert late or wire_faults(wire, json.loads(sent))


# Real runs, stopped anywhere.


@tool(effects={"read"})
async def look(n: int = 0) -> str:
    """Look."""
    await asyncio.sleep(0)
    return f"seen {n}"


@tool(effects={"write"})
async def change(n: int = 0) -> str:
    """Change."""
    await asyncio.sleep(0)
    if n == 3:
        raise ValueError(n)
    return f"changed {n}"


asked = st.builds(
    ToolCall,
    names,
    st.sampled_from(["look", "change", "lok"]),
    st.sampled_from(["{}", '{"n": 3}', '{"n": "4"}', '{"n":']),
)
turns = st.builds(
    lambda parts, stop: say(*parts, stop=stop),
    st.lists(asked | st.just(Text("words")) | st.just(Thinking("hm", "S", "anthropic")), max_size=5),
    st.sampled_from([None, None, None, "length", "pause", "refusal", "other", "calls"]),
)


async def run_until(script, last):
    """Play a script; stop it at its event number `last`. Gives the run and its log."""
    log, count = [], 0

    def listen(event):
        nonlocal count
        count += 1
        if isinstance(event, MessageAdded | DecisionMade):
            log.append(event.message if isinstance(event, MessageAdded) else event.decision)
        if count == last:
            run.stop()

    run = Run(None, listen)
    await Agent(scripted(*script), Toolbox([look, change])).run("go", run)
    return run, log


@few
@given(st.lists(turns, max_size=5), st.integers(0, 60))
def test_any_prefix_of_a_stopped_runs_log_goes_on(script, last):
    run, log = asyncio.run(run_until(script, last))
    assert log == list(run.transcript.entries)
    assert run.transcript.dangling() == []
    for length in range(len(log) + 1):
        model = scripted("Fine.")
        again = Run(Transcript(stored(log[:length])))
        outcome = asyncio.run(Agent(model, Toolbox([look, change])).run("go on", again))
        assert outcome.reason == "done"
        assert faults(model.requests[0].messages) == []
        assert model.requests[0].messages[-1].text == "go on"
        assert faults(again.transcript.live()) == []


# Calls that are cut or broken.

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=5), values, min_size=1, max_size=4).map(json.dumps)


def whole_text(value):
    """The value with its strings clean: the only change that arguments may see."""
    match value:
        case str():
            return clean(value)
        case list():
            return [whole_text(inner) for inner in value]
        case dict():
            return {clean(key): whole_text(inner) for key, inner in value.items()}
        case _:
            return value


def ran_with(raw):
    """What the body of a tool that takes anything was called with, and the text of its result."""
    ran = []

    @tool
    def act(given: dict[str, object]) -> str:
        """Act."""
        ran.append(given)
        return "ran"

    result = asyncio.run(Toolbox([act]).dispatch()(ToolCall("1", "act", raw), Run()))
    assert result.is_error == (not ran)
    return ran


@few
@given(objects, st.data())
def test_a_call_cut_anywhere_never_runs(arguments, data):
    whole = '{"given": ' + arguments + "}"
    assert len(ran_with(whole)) == 1
    cut = data.draw(st.integers(1, len(whole) - 1))
    assert ran_with(whole[:cut]) == []
    with pytest.raises(ValueError, match=r"."):
        parse_arguments(whole[:cut])


@few
@given(objects, st.data())
def test_a_call_with_a_broken_character_runs_only_if_it_is_still_plain_json(arguments, data):
    whole = '{"given": ' + arguments + "}"
    place = data.draw(st.integers(0, len(whole) - 1))
    wrong = data.draw(
        st.sampled_from(['"', "{", "}", "[", "]", ",", ":", "x", "0", "\\", "\n", "", "NaN", "1e999", "-"])
    )
    broken = whole[:place] + wrong + whole[place + 1 :]
    for arrived in ran_with(broken):
        sent = json.loads(broken, parse_constant=pytest.fail)["given"]
        assert json.dumps(arrived) == json.dumps(whole_text(sent))


@some
@given(
    st.text(max_size=40) | st.binary(max_size=40).map(lambda data: data.decode("utf-8", "surrogateescape"))
)
def test_any_argument_text_can_be_answered_and_sent_back(raw):
    sent = json.dumps(ToolCall("1", "act", raw).replayed(), allow_nan=False)
    assert isinstance(json.loads(sent), dict)
    assert ran_with(raw) == []
