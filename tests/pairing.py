"""What each provider demands of calls and results in one request, written from their rules and not from our code.

Each function lists the faults of a transcript's view, in words; an empty list means it may be sent.
"""

from collections.abc import Iterable

from harness_nb.messages import Message, Text, ToolCall, ToolResult


def faults(messages: Iterable[Message]) -> list[str]:
    """Faults by the rules of all three."""
    view = list(messages)
    return [*shape(view), *anthropic(view), *responses(view), *chat(view)]


def shape(view: list[Message]) -> list[str]:
    """Every part stands in a message of the right role, and no message or result is empty."""
    found = []
    for message in view:
        found += ["an empty message"] if not message.parts else []
        for part in message.parts:
            right = {ToolCall: "assistant", ToolResult: "tool"}.get(type(part), message.role)
            found += [f"{part.kind} under role {message.role}"] if right != message.role else []
            found += ["a tool message with other things in it"] if _stray(message, part) else []
            empty = isinstance(part, ToolResult) and not any(
                not isinstance(inner, Text) or inner.text.strip() for inner in part.content
            )
            found += ["an empty result"] if empty else []
    return found


def _stray(message: Message, part: object) -> bool:
    return message.role == "tool" and not isinstance(part, ToolResult)


def anthropic(view: list[Message]) -> list[str]:
    """Ids are unique in the request; the user message after a tool_use starts with the results of all, and only those."""
    turns: list[tuple[str, list[tuple[str, str]]]] = []
    for message in view:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = [_block(part) for part in message.parts]
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, blocks))
    uses = [name for _, blocks in turns for kind, name in blocks if kind == "use"]
    found = ["tool_use ids must be unique"] if len(set(uses)) < len(uses) else []
    found += ["a blank id"] if "" in uses else []
    asked: list[str] = []
    for role, blocks in [*turns, ("user", [])]:
        results = [name for kind, name in blocks if kind == "result"]
        leading = [name for kind, name in blocks[: len(results)] if kind == "result"]
        if sorted(results) != sorted(asked):
            found.append(f"results {results} follow calls {asked}")
        if leading != results:
            found.append("something stands before a result")
        asked = [name for kind, name in blocks if kind == "use"] if role == "assistant" else []
    return found


def _block(part: object) -> tuple[str, str]:
    match part:
        case ToolCall(id=name):
            return "use", name
        case ToolResult(call_id=name):
            return "result", name
        case _:
            return "other", ""


def responses(view: list[Message]) -> list[str]:
    """Each function_call has one function_call_output after it, and each output has its call."""
    found: list[str] = []
    waiting: set[str] = set()
    for message in view:
        for kind, name in map(_block, message.parts):
            if kind == "result":
                found += [] if name in waiting else [f"an output without a call: {name}"]
                waiting.discard(name)
            elif kind == "use":
                found += [f"two open calls {name}"] if name in waiting else []
                waiting.add(name)
    return found + [f"no output for call {name}" for name in waiting]


def chat(view: list[Message]) -> list[str]:
    """An assistant message with tool_calls is followed at once by one tool message for each id, and no others."""
    found: list[str] = []
    waiting: list[str] = []
    for message in view:
        results = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        for name in results:
            if name in waiting:
                waiting.remove(name)
            else:
                found.append(f"a tool message without its call: {name}")
        if not results and waiting:
            found.append(f"calls {waiting} have no tool message")
            waiting = []
        waiting += [part.id for part in message.parts if isinstance(part, ToolCall)]
    return found + ([f"calls {waiting} have no tool message"] if waiting else [])
