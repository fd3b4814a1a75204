"""The shared table: turns as they come over the wires, and the one message that each must become.

A case holds for every wire it names bytes for; `spoken` gives them where the wires say the same thing. R numbers
are those of public bug reports that the project keeps a list of.
"""

from dataclasses import dataclass

from wire.speech import WIRES, ask, calls, chunk, say, spoken, sse, think, vendor

from harness_nb.messages import Opaque, Text, Thinking, ToolCall, Usage


@dataclass(frozen=True)
class Case:
    name: str
    wires: dict[str, bytes]
    parts: tuple = ()
    stop: str = "end"
    """How the reply must say it ended."""
    detail: str | None = None
    usage: Usage | None = None
    error: dict[str, object] | None = None
    """What must be true of the ProviderError, where there is to be one."""
    max_output: int | None = None
    in_order: bool = True
    """Whether the pieces, as they come, are the message."""

    def __str__(self):
        return self.name


def case(name, blocks, *parts, wires=WIRES, said=None, used=(10, 5), cut=False, **expected):
    """Blocks as spoken on the wires, ending as `said` there (by default as the reply must say)."""
    ending = said or expected.get("stop", "end")
    return Case(name, {wire: spoken(wire, blocks, ending, used, cut) for wire in wires}, parts, **expected)


def quirk(name, *chunks, parts=None, **expected):
    """A Chat Completions stream: two calls `a({"p":1})` and `b({"p":2})`, however they come."""
    two = (ToolCall("c1", "a", A), ToolCall("c2", "b", B))
    return Case(f"R03 {name}", {"chat": sse("chat", chunks)}, parts or two, **({"stop": "calls"} | expected))


def counted(name, first, *later, **expected):
    """A Messages stream with usage at its start and in the events that end it."""
    events = [{"type": "message_start", "message": {"usage": first} if first else {}}]
    events.append(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "ok"}}
    )
    events += [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage} for usage in later
    ]
    body = sse("anthropic", [*events, {"type": "message_stop"}])
    return Case(f"R11 {name}", {"anthropic": body}, (Text("ok"),), usage=Usage(**expected))


def failing(name, wires, **error):
    """Some text, then an error inside the stream, which came with status 200."""
    bodies = {
        wire: spoken(wire, [say("Hel")], cut=True) + sse(wire, [event]) for wire, event in wires.items()
    }
    return Case(f"R08 {name}", bodies, error=error)


A, B = '{"p":1}', '{"p":2}'
END = chunk({}, "tool_calls")
CUT = {"retryable": True, "code": "cut"}
TWO = (ToolCall("c1", "a", A), ToolCall("c2", "b", B))
RAN_OUT = '{"path": "n.txt", "lines": ["one",'

TURNS = [
    case("text in pieces", [say("Hel", "lo")], Text("Hello"), usage=Usage(10, 5)),
    case("a call in pieces", [ask("add", '{"a":', "1}")], ToolCall("call_1", "add", '{"a":1}'), stop="calls"),
    case(
        "text and two calls",
        [say("Both."), ask("a", A, as_id="c1"), ask("b", B, as_id="c2")],
        Text("Both."),
        *TWO,
        stop="calls",
    ),
    case("a call without an id", [ask("a", A, as_id="")], ToolCall("call_2", "a", A), stop="calls"),
    case(
        "one id for two calls",
        [ask("a", A), ask("b", B)],
        ToolCall("call_1", "a", A),
        ToolCall("call_1_2", "b", B),
        stop="calls",
    ),
    Case(
        "rubbish after the end",
        {wire: spoken(wire, [say("Hi")]) + b'data: {"x' for wire in WIRES},
        (Text("Hi"),),
    ),
    case("no usage: a guess", [say("Hello")], Text("Hello"), used=None, usage=None),
]

CUT_ARGUMENTS = [
    case("R01a at the limit", [ask("write", RAN_OUT)], ToolCall("call_1", "write", RAN_OUT), stop="length"),
    case(
        "R01c at the limit, denied",
        [ask("w", '{"c":"abc')],
        ToolCall("call_1", "w", '{"c":"abc'),
        stop="length",
        said="calls",
        max_output=5,
    ),
    case(
        "R01e whole, at the limit",
        [ask("w", '{"p":"x"}')],
        ToolCall("call_1", "w", '{"p":"x"}'),
        stop="length",
    ),
    case(
        "R01f broken", [ask("w", '{"u": celsius}')], ToolCall("call_1", "w", '{"u": celsius}'), stop="calls"
    ),
    case("text at the limit, denied", [say("abc")], Text("abc"), stop="length", said="end", max_output=5),
]

NO_ARGUMENTS = [
    case("R02 no pieces of arguments", [ask("now")], ToolCall("call_1", "now", "{}"), stop="calls"),
    case("R02 a blank", [ask("now", " ")], ToolCall("call_1", "now", " "), stop="calls"),
    case("R02 null", [ask("now", "null")], ToolCall("call_1", "now", "null"), stop="calls"),
    quirk("arguments null", chunk({"tool_calls": [{"id": "c1", "index": 0, "function": {"name": "now", "arguments": None}}]}), END, parts=(ToolCall("c1", "now", "{}"),)),
]  # fmt: skip

QUIRKS = [
    quirk("1 both at index 0", calls((0, "c1", "a", A)), calls((0, "c2", "b", B)), END),
    quirk("2 no index, no id later", calls((None, "c1", "a", '{"p"')), calls((None, None, None, ":1}")), calls((None, "c2", "b", '{"p"')), calls((None, None, None, ":2}")), END),
    quirk("3 blank id later", calls((0, "c1", "a", '{"p"')), calls((0, "", None, ":1}")), calls((1, "c2", "b", '{"p"')), calls((1, "", None, ":2}")), END),
    quirk("4 id and name on each", *(calls((i, c, n, p)) for i, c, n, r in ((0, "c1", "a", A), (1, "c2", "b", B)) for p in r), END),
    quirk("5 id after the first", calls((0, None, "a", "")), calls((0, "x1", None, A)), calls((1, None, "b", "")), calls((1, "x2", None, B)), END, parts=(ToolCall("call_2", "a", A), ToolCall("call_3", "b", B))),
    quirk("6 arguments as an object", calls((0, "c1", "a", {"p": 1})), calls((1, "c2", "b", {"p": 2})), END, parts=(ToolCall("c1", "a", '{"p": 1}'), ToolCall("c2", "b", '{"p": 2}'))),
    quirk("7 arguments twice", calls((0, "c1", "a", A)), calls((0, "c1", "a", A)), END, parts=(ToolCall("c1", "a", A + A),)),
    quirk("8 two ends", calls((0, "c1", "a", A)), calls((1, "c2", "b", B)), END, chunk({}, "stop")),
    quirk("9 usage last, no choices", calls((0, "c1", "a", A), (1, "c2", "b", B)), END, {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}, usage=Usage(7, 3)),
    quirk("10 a chunk without choices", {"object": "ping"}, calls((0, "c1", "a", A), (1, "c2", "b", B)), END),
    quirk("names, no ids, no index", calls((None, None, "a", A)), calls((None, None, "a", B)), END, parts=(ToolCall("call_2", "a", A), ToolCall("call_3", "a", B))),
    quirk("pieces interleaved", calls((0, "c1", "a", '{"p"'), (1, "c2", "b", '{"p"')), calls((1, None, None, ":2}"), (0, None, None, ":1}")), END),
    quirk("ends by [DONE] alone", chunk({"content": "Hi"}), "[DONE]", parts=(Text("Hi"),), stop="end"),
    quirk("thinking in its own field", chunk({"reasoning_content": "hm"}), chunk({"content": "Hi"}, "stop"), parts=(Thinking("hm", "", "reasoning_content@127.0.0.1"), Text("Hi")), stop="end"),
]  # fmt: skip

THOUGHT = '{"type":"reasoning","id":"rs_0","encrypted_content":"S1","summary":[{"type":"summary_text","text":"abc"}]}'
REDACTED = '{"type":"redacted_thinking","data":"R1"}'
SEARCHED = '{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"url":"x"}]}'
THINKING = [
    case(
        "R06 thinking between calls",
        [think("ab", "c"), vendor(type="redacted_thinking", data="R1"), ask("a", A, as_id="c1"), think("d", sign="S2"), ask("b", B, as_id="c2")],
        *(Thinking("abc", "S1", "anthropic"), Opaque("anthropic", REDACTED), TWO[0], Thinking("d", "S2", "anthropic"), TWO[1]),
        wires=("anthropic",),
        stop="calls",
    ),
    case("R06 a reasoning item", [think("ab", "c"), ask("a", A, as_id="c1")], Thinking("abc", THOUGHT, "openai"), TWO[0], wires=("openai",), stop="calls"),
]  # fmt: skip

STOPS = [
    case("R09 calls, and said to stop", [ask("a", A, as_id="c1")], TWO[0], wires=("anthropic", "chat"), said="end", stop="calls"),
    case("R09 no calls, and said to call", [say("Hm.")], Text("Hm."), wires=("anthropic", "chat"), said="calls"),
    case("R09 nothing at all", []),
    case("R09 an empty refusal", [say("")], stop="refusal"),
    case("R09 a refusal drops its calls", [say("No."), ask("a", A)], Text("No."), stop="refusal"),
    case("R09 a reason nobody knows", [say("Hm.")], Text("Hm."), said="foo", stop="other", detail="foo"),
    case("R09 a server's tools, paused", [vendor(type="web_search_tool_result", tool_use_id="s1", content=[{"url": "x"}])], Opaque("anthropic", SEARCHED), wires=("anthropic",), stop="pause"),
    case("the window is full", [say("Hm.")], Text("Hm."), wires=("anthropic",), said="model_context_window_exceeded", stop="length"),
]  # fmt: skip

OVERLOADED = {"type": "overloaded_error", "message": "Overloaded"}
FLAT = {"type": "error", "code": "server_error", "message": "Sorry"}
NO_CREDIT = {"code": "insufficient_quota", "message": "You exceeded your quota"}
BROKEN = [
    failing("overloaded", {"anthropic": {"type": "error", "error": OVERLOADED}, "openai": FLAT, "chat": {"error": OVERLOADED}}, retryable=True, status=None),
    failing("no credit", {wire: {"type": "error", "error": NO_CREDIT} for wire in WIRES}, retryable=False, code="insufficient_quota"),
    failing("a failed response", {"openai": {"type": "response.failed", "response": {"status": "failed", "error": FLAT}}}, retryable=True, code="server_error"),
    failing("llama.cpp's error", {"chat": {"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error"}}}, retryable=False, status=400),
    case("R08b text, then nothing", [say("Hel", "lo")], cut=True, error=CUT),
    case("R08c a call, then nothing", [ask("a", A)], cut=True, error=CUT),
    case("a server that gave up", [ask("a", A)], wires=("chat",), said="error", error=CUT),
    Case("a server that gave up, and said so twice", {"chat": sse("chat", [chunk({"content": "Hi"}, "abort"), "[DONE]"])}, error=CUT),
    Case("R08d pings, then nothing", dict.fromkeys(WIRES, b": ping\n\n"), error=CUT),
    Case("an event that is no JSON", dict.fromkeys(WIRES, b"data: {oops\n\ndata: {}\n\n"), error={"retryable": True}),
]  # fmt: skip

COUNTS = [
    counted("a", {"input_tokens": 25, "output_tokens": 1}, {"output_tokens": 15}, input=25, output=15),
    counted("b", {"input_tokens": 27, "output_tokens": 1}, {"input_tokens": 27, "output_tokens": 47}, input=27, output=47),
    counted("c", {"input_tokens": 27}, {"input_tokens": None, "output_tokens": 9}, input=27, output=9),
    counted("d", {"input_tokens": 2}, {"output_tokens": 5}, {"output_tokens": 9}, {"output_tokens": 15}, input=2, output=15),
    counted("e", None, {"input_tokens": 12, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 3, "output_tokens": 6}, input=19, output=6, cache_read=3, cache_write=4),
    counted("thinking", {"input_tokens": 2}, {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 7}}, input=2, output=9, reasoning=7),
    quirk("R11 cached", chunk({"content": "ok"}, "stop"), {"choices": [], "usage": {"prompt_tokens": 2000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 1500}}}, parts=(Text("ok"),), stop="end", usage=Usage(2000, 100, cache_read=1500)),
]  # fmt: skip

ODD = "a\u2028b\u0085c\u2029\x0b\x0c\x1c"


def streamed(name, wire, *events, **expected):
    """Events as one provider or server is known to send them."""
    return Case(name, {wire: sse(wire, events)}, **expected)


def block(index, **opening):
    return {"type": "content_block_start", "index": index, "content_block": opening}


def delta(index, **more):
    return {"type": "content_block_delta", "index": index, "delta": more}


ENDED = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]
LLAMA = {
    "type": "response.output_item.added",
    "item": {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "a"},
}
SAID = {
    "type": "message",
    "id": "m1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hi"}],
}
CALLED = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "a", "arguments": A}
COMPLETED = {"type": "response.completed", "response": {"status": "completed", "output": [SAID, CALLED]}}
SEARCH = '{"type":"server_tool_use","id":"s1","name":"web_search","input":{"q":"x"}}'
NOTE = '{"phase":"commentary"}'

SHAPES = [
    streamed("blocks out of order", "anthropic", block(1, type="text", text="b"), block(0, type="text", text="a"), *ENDED, parts=(Text("a"), Text("b")), in_order=False),
    streamed("no reason to stop", "anthropic", block(1, type="text", text=""), {"type": "message_stop"}, stop="other"),
    streamed("an input given whole", "anthropic", block(0, type="tool_use", id="c1", name="a", input={"p": 1}), *ENDED, parts=(ToolCall("c1", "a", '{"p": 1}'),), stop="calls"),
    streamed("an input given twice", "anthropic", block(0, type="tool_use", id="c1", name="a", input={"p": 1}), delta(0, type="input_json_delta", partial_json=A), *ENDED, parts=(TWO[0],), stop="calls"),
    streamed("a server's tool in pieces", "anthropic", block(0, type="server_tool_use", id="s1", name="web_search", input={}), delta(0, type="input_json_delta", partial_json='{"q":'), delta(0, type="input_json_delta", partial_json='"x"}'), {"type": "content_block_stop", "index": 0}, *ENDED, parts=(Opaque("anthropic", SEARCH),)),
    streamed("a compaction", "anthropic", block(0, type="compaction", content=None), delta(0, type="compaction_delta", content="They agreed."), {"type": "content_block_stop", "index": 0}, *ENDED, parts=(Opaque("anthropic", '{"type":"compaction","content":"They agreed."}'),)),
    streamed("items without numbers", "openai", LLAMA, {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": A}, {"type": "response.output_item.done", "item": CALLED}, COMPLETED, parts=(TWO[0],), stop="calls"),
    streamed("numbers first, then ids alone", "openai", {**LLAMA, "output_index": 0}, {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": A}, {"type": "response.completed", "response": {"status": "completed"}}, parts=(TWO[0],), stop="calls"),
    streamed("items at the end only", "openai", COMPLETED, parts=(Text("Hi"), TWO[0]), stop="calls"),
    streamed("an item's end counts, not its pieces", "openai", {"type": "response.output_text.delta", "output_index": 0, "item_id": "m1", "delta": "H"}, {"type": "response.output_item.done", "output_index": 0, "item": SAID}, {"type": "response.completed", "response": {"status": "completed"}}, parts=(Text("Hi"),)),
    streamed("an item's end that differs", "openai", {"type": "response.output_text.delta", "output_index": 0, "item_id": "m1", "delta": "Ho"}, {"type": "response.output_item.done", "output_index": 0, "item": SAID}, {"type": "response.completed", "response": {"status": "completed"}}, parts=(Text("Hi"),), in_order=False),
    streamed("items out of order", "openai", {"type": "response.output_item.done", "output_index": 1, "item": CALLED}, {"type": "response.output_item.done", "output_index": 0, "item": SAID}, COMPLETED, parts=(Text("Hi"), TWO[0]), stop="calls"),
    streamed("a message with its phase", "openai", {"type": "response.output_item.done", "output_index": 0, "item": {**SAID, "phase": "commentary"}}, COMPLETED, parts=(Opaque("openai", NOTE), Text("Hi"))),
    streamed("a refusal in its own part", "openai", {"type": "response.output_item.done", "output_index": 0, "item": {**SAID, "content": [{"type": "refusal", "refusal": "No."}]}}, COMPLETED, parts=(Text("No."),), stop="refusal", detail="No."),
    streamed("a search by the provider", "openai", {"type": "response.output_item.done", "output_index": 0, "item": {"type": "web_search_call", "id": "w1"}}, {"type": "response.completed", "response": {"status": "completed"}}, parts=(Opaque("openai", '{"type":"web_search_call","id":"w1"}'),)),
    streamed("a second choice", "chat", {"choices": [{"index": 1, "delta": {"content": "no"}}]}, chunk({"content": "Hi"}, "stop"), parts=(Text("Hi"),)),
    streamed("thinking said twice", "chat", chunk({"reasoning": "hm", "reasoning_content": "hm"}), chunk({"content": "Hi"}, "stop"), parts=(Thinking("hm", "", "reasoning_content@127.0.0.1"), Text("Hi"))),
    streamed("the id of a call, another number", "chat", calls((0, "c1", "a", '{"p"')), calls((1, "c1", None, ":1}")), END, parts=(TWO[0],), stop="calls"),
    streamed("length, then stop", "chat", chunk({"content": "Hi"}, "length"), chunk({}, "stop"), parts=(Text("Hi"),), stop="length"),
    streamed("content in parts", "chat", chunk({"content": [{"type": "text", "text": "Hi"}]}, "stop"), parts=(Text("Hi"),)),
    streamed("a refusal in its own field", "chat", chunk({"refusal": "No."}, "stop"), parts=(Text("No."),), stop="refusal", detail="No."),
]  # fmt: skip

HALVES = {"anthropic": spoken("anthropic", [think("\ud83c", "\udf78")])}
CHARACTERS = [
    Case("R19 thinking in two halves", HALVES, (Thinking("\U0001f378", "S1", "anthropic"),)),
    case("R07 line separators", [say(ODD)], Text(ODD)),
    case("R19 a character in two halves", [say("\ud83c", "\udf78")], Text("\U0001f378")),
    case("R19 half a character, and NUL", [say("x\ud83c", "y\0")], Text("x\ufffdy␀")),
]

TABLE = [
    *TURNS,
    *CUT_ARGUMENTS,
    *NO_ARGUMENTS,
    *QUIRKS,
    *THINKING,
    *STOPS,
    *BROKEN,
    *COUNTS,
    *SHAPES,
    *CHARACTERS,
]
ROWS = [(wire, row) for row in TABLE for wire in row.wires]
