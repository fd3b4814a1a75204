"""The least that a loop can do: an HTTP client, `json`, and one list of messages, for each wire. What the harness is measured against.

Nothing is checked, typed, kept or shown; each turn sends the whole history again, written anew.
"""

import json

from bench.canned import PATHS


def add(a, b):
    return a + b


async def events(http, url, body):
    headers = {"authorization": "Bearer key", "content-type": "application/json"}
    async with http.stream("POST", url, content=json.dumps(body).encode(), headers=headers) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                yield json.loads(line[6:])


TOOL = {"name": "add", "description": "Add two numbers."}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


class Anthropic:
    def __init__(self, http, url):
        self.http, self.url, self.shown = http, url + PATHS["anthropic"], 0
        self.messages = [{"role": "user", "content": "Add things."}]

    async def turn(self):
        tools = [{**TOOL, "input_schema": SCHEMA}]
        body = {"model": "m", "max_tokens": 4096, "stream": True, "tools": tools, "messages": self.messages}
        blocks = {}
        async for event in events(self.http, self.url, body):
            if event["type"] == "content_block_delta":
                delta = event["delta"]
                if delta["type"] == "text_delta":
                    blocks[event["index"]]["text"] += delta["text"]
                    self.shown += 1
                elif delta["type"] == "input_json_delta":
                    blocks[event["index"]]["input"] += delta["partial_json"]
            elif event["type"] == "content_block_start":
                blocks[event["index"]] = event["content_block"]
                if event["content_block"]["type"] == "tool_use":
                    event["content_block"]["input"] = ""
        results = []
        for block in blocks.values():
            if block["type"] == "tool_use":
                block["input"] = json.loads(block["input"])
                results.append(
                    {"type": "tool_result", "tool_use_id": block["id"], "content": str(add(**block["input"]))}
                )
        self.messages += [
            {"role": "assistant", "content": [*blocks.values()]},
            {"role": "user", "content": results},
        ]


class OpenAI:
    def __init__(self, http, url):
        self.http, self.url, self.shown = http, url + PATHS["openai"], 0
        self.items = [{"role": "user", "content": "Add things."}]

    async def turn(self):
        tools = [{"type": "function", **TOOL, "parameters": SCHEMA}]
        body = {"model": "m", "stream": True, "store": False, "tools": tools, "input": self.items}
        done, text = [], ""
        async for event in events(self.http, self.url, body):
            if event["type"] == "response.output_text.delta":
                text += event["delta"]
                self.shown += 1
            elif event["type"] == "response.output_item.done":
                done.append(event["item"])
        self.items += done
        for item in done:
            if item["type"] == "function_call":
                result = str(add(**json.loads(item["arguments"])))
                self.items.append(
                    {"type": "function_call_output", "call_id": item["call_id"], "output": result}
                )


class Chat:
    def __init__(self, http, url):
        self.http, self.url, self.shown = http, url + PATHS["chat"], 0
        self.messages = [{"role": "user", "content": "Add things."}]

    async def turn(self):
        tools = [{"type": "function", "function": {**TOOL, "parameters": SCHEMA}}]
        body = {"model": "m", "stream": True, "tools": tools, "messages": self.messages}
        text, calls = "", []
        async for event in events(self.http, self.url, body):
            for choice in event["choices"]:
                delta = choice["delta"]
                if delta.get("content"):
                    text += delta["content"]
                    self.shown += 1
                for piece in delta.get("tool_calls", ()):
                    if piece.get("id"):
                        calls.append(piece)
                    else:
                        calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
        self.messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        for call in calls:
            result = str(add(**json.loads(call["function"]["arguments"])))
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


LOOPS = {"anthropic": Anthropic, "openai": OpenAI, "chat": Chat}
