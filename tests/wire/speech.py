"""One turn, said once, as each of the three wires carries it: `spoken("chat", [say("Hel", "lo")])` gives the bytes.

A turn is a list of blocks; how it ends and what it used are given beside it. Nothing here is read from our adapters.
"""

import json
from dataclasses import dataclass, field

WIRES = ("anthropic", "openai", "chat")

STOPS = {
    "anthropic": {
        "end": "end_turn",
        "calls": "tool_use",
        "length": "max_tokens",
        "refusal": "refusal",
        "pause": "pause_turn",
    },
    "chat": {"end": "stop", "calls": "tool_calls", "length": "length", "refusal": "content_filter"},
    "openai": {
        "end": "completed",
        "calls": "completed",
        "length": "max_output_tokens",
        "refusal": "content_filter",
    },
}


@dataclass(frozen=True)
class Block:
    kind: str
    pieces: tuple[str, ...]
    more: dict[str, object] = field(default_factory=dict)

    @property
    def whole(self):
        return "".join(self.pieces)


def say(*pieces):
    return Block("text", pieces)


def think(*pieces, sign="S1"):
    return Block("thinking", pieces, {"sign": sign})


def ask(name, *pieces, as_id="call_1"):
    return Block("call", pieces, {"name": name, "id": as_id})


def vendor(**block):
    return Block("vendor", (), block)


def spoken(wire, blocks, stop="end", used=(10, 5), cut=False):
    """The bytes of the whole stream; `cut` leaves out the terminal event."""
    return sse(
        wire,
        {"anthropic": messages, "openai": responses, "chat": chat}[wire](blocks, stop, used)[
            : -1 if cut else None
        ],
    )


def sse(wire, events):
    if wire == "chat":
        lines = [
            f"data: {json.dumps(event)}\n\n" if event != "[DONE]" else "data: [DONE]\n\n" for event in events
        ]
    else:
        lines = [f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n" for event in events]
    return "".join(lines).encode()


def messages(blocks, stop, used):
    usage = {"input_tokens": used[0], "output_tokens": 1} if used else None
    events = [
        {
            "type": "message_start",
            "message": {"id": "msg_1", "role": "assistant", "content": [], "usage": usage},
        }
    ]
    for index, block in enumerate(blocks):
        opening, deltas = _messages_block(block)
        events.append({"type": "content_block_start", "index": index, "content_block": opening})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    reason = STOPS["anthropic"].get(stop, stop)
    total = {"output_tokens": used[1]} if used else None
    events.append(
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": total}
    )
    return [*events, {"type": "message_stop"}]


def _messages_block(block):
    match block.kind:
        case "text":
            return {"type": "text", "text": ""}, [
                {"type": "text_delta", "text": piece} for piece in block.pieces
            ]
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in block.pieces]
            signed = [{"type": "signature_delta", "signature": block.more["sign"]}]
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas + signed
        case "call":
            opening = {"type": "tool_use", "id": block.more["id"], "name": block.more["name"], "input": {}}
            return opening, [{"type": "input_json_delta", "partial_json": piece} for piece in block.pieces]
        case _:
            return block.more, []


def responses(blocks, stop, used):
    events, output = [{"type": "response.created", "response": {"status": "in_progress", "output": []}}], []
    for index, block in enumerate(blocks):
        item, deltas = _responses_item(block, index)
        at = {"output_index": index, "item_id": item.get("id")}
        added = {
            **item,
            **{
                key: empty
                for key, empty in (("content", []), ("summary", []), ("arguments", ""))
                if key in item
            },
        }
        events.append(
            {
                "type": "response.output_item.added",
                "output_index": index,
                "item": {**added, "status": "in_progress"},
            }
        )
        events += [{**at, **delta} for delta in deltas]
        cut = stop == "length" and block is blocks[-1]
        events += [] if cut else [{"type": "response.output_item.done", "output_index": index, "item": item}]
        output.append(item)
    reason = STOPS["openai"].get(stop, stop)
    status = "completed" if reason == "completed" else "incomplete"
    details = None if status == "completed" else {"reason": reason}
    last = {
        "status": status,
        "incomplete_details": details,
        "error": None,
        "output": output,
        "usage": _tokens(used),
    }
    return [*events, {"type": f"response.{status}", "response": last}]


def _tokens(used):
    return {"input_tokens": used[0], "output_tokens": used[1], "total_tokens": sum(used)} if used else None


def _responses_item(block, index):
    match block.kind:
        case "text":
            item = {"type": "message", "id": f"msg_{index}", "role": "assistant", "status": "completed"}
            deltas = [
                {"type": "response.output_text.delta", "content_index": 0, "delta": piece}
                for piece in block.pieces
            ]
            return {
                **item,
                "content": [{"type": "output_text", "text": block.whole, "annotations": []}],
            }, deltas
        case "thinking":
            item = {"type": "reasoning", "id": f"rs_{index}", "encrypted_content": block.more["sign"]}
            deltas = [
                {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": p}
                for p in block.pieces
            ]
            return {**item, "summary": [{"type": "summary_text", "text": block.whole}]}, deltas
        case "call":
            item = {
                "type": "function_call",
                "id": f"fc_{index}",
                "call_id": block.more["id"],
                "name": block.more["name"],
            }
            deltas = [
                {"type": "response.function_call_arguments.delta", "delta": piece} for piece in block.pieces
            ]
            return {**item, "arguments": block.whole, "status": "completed"}, deltas
        case _:
            return {"id": f"item_{index}", **block.more}, []


def chunk(delta, finish=None, **more):
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **more,
    }


def calls(*pieces):
    """A chunk with pieces of tool calls, each `(index, id, name, arguments)`; None leaves the field out."""
    made = []
    for index, identity, name, arguments in pieces:
        function = {
            key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None
        }
        named = {key: value for key, value in (("index", index), ("id", identity)) if value is not None}
        made.append({**named, "type": "function", "function": function})
    return chunk({"tool_calls": made})


def chat(blocks, stop, used):
    events, number = [chunk({"role": "assistant", "content": ""})], -1
    for block in blocks:
        match block.kind:
            case "text":
                events += [chunk({"content": piece}) for piece in block.pieces]
            case "thinking":
                events += [chunk({"reasoning_content": piece}) for piece in block.pieces]
            case "call":
                number += 1
                events.append(calls((number, block.more["id"], block.more["name"], "")))
                events += [calls((number, None, None, piece)) for piece in block.pieces]
    usage = (
        {"prompt_tokens": used[0], "completion_tokens": used[1], "total_tokens": sum(used)} if used else None
    )
    events += [{"choices": [], "usage": usage}] if used else []
    return [*events, chunk({}, STOPS["chat"].get(stop, stop))]
