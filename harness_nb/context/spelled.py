"""A request written down line by line, the same for every provider: what is compared, and what a person reads. Book chapters 3 and 12.

Each line is JSON: the system prompt, then the tools, then the messages, in the order in which a provider's prompt cache
reads them. It has all that the model is told and nothing else, so no ids of messages and no times; a picture is
its kind and a digest. Adapters spell the same content in their own words.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from harness_nb.context.account import TurnRecord
from harness_nb.context.turns import request
from harness_nb.messages import (
    REPLAY_LIMIT,
    Image,
    Message,
    Opaque,
    Part,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Transcript,
)
from harness_nb.redaction import without_keys
from harness_nb.seams import Request, ToolSpec

KEY = "[key left out]"
"""What stands in the place of a key in what a person reads."""


@dataclass(frozen=True)
class Line:
    """One line of a request; `name` says which tool or message it is, for a person."""

    kind: Literal["system", "tool", "message"]
    name: str
    of: str | ToolSpec | Message

    @cached_property
    def text(self) -> str:
        """The line as JSON, with its end."""
        return json.dumps(self.data, ensure_ascii=False, default=str) + "\n"

    @property
    def data(self) -> dict[str, object]:
        """What the line holds."""
        match self.of:
            case str(text):
                return {"system": text}
            case Message() as message:
                return {"role": message.role, "content": [_part(part) for part in message.parts]}
            case ToolSpec() as spec:
                return {"tool": spec.name, "description": spec.description, "input_schema": spec.input_schema}


def lines(asked: Request) -> list[Line]:
    """Write a request as lines; one without a system prompt has none for it."""
    system = [Line("system", "the system prompt", asked.instructions)] if asked.instructions else []
    tools = [Line("tool", spec.name, spec) for spec in asked.tools]
    messages = [
        Line("message", f"message {number:,} ({message.role})", message)
        for number, message in enumerate(asked.messages, 1)
    ]
    return [*system, *tools, *messages]


def request_text(record: TurnRecord, transcript: Transcript) -> str:
    """Write the exact request of a turn as JSON to be read, without whatever looks like a key."""
    return readable(request(record, transcript))


def readable(asked: Request, most: int = 0) -> str:
    """Write a request as JSON to be read, without keys; with `most`, only its newest lines of at most so many characters."""
    shown: list[str] = []
    size = 0
    written = lines(asked)
    for line in reversed(written):
        text = without_keys(json.dumps(line.data, ensure_ascii=False, indent=2, default=str), KEY)
        size += len(text)
        if most and size > most:
            left = len(written) - len(shown)
            shown.append(f"[… {left:,} earlier {'part is' if left == 1 else 'parts are'} not shown …]")
            break
        shown.append(text)
    return "\n".join(reversed(shown))


def _part(part: Part) -> dict[str, object]:
    match part:
        case Text(text):
            return {"text": text}
        case Thinking():
            return {"thinking": part.text, "signature": part.signature, "vendor": part.vendor}
        case Summary(text):
            return {"summary": text}
        case Image(data, kind):
            return {"image": kind, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        case ToolCall(identity, name, raw):
            given = raw if len(raw) <= REPLAY_LIMIT else part.replayed()
            return {"call": name, "id": identity, "arguments": given}
        case ToolResult(identity, content, is_error):
            return {"result_of": identity, "is_error": is_error, "content": [_part(one) for one in content]}
        case Opaque(vendor, block):
            return {"vendor": vendor, "block": block}
