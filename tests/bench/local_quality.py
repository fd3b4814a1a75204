"""How well the embedded model calls tools and answers: 48 questions that need one of six tools, 12 that need none, 12 results.

    python tests/bench/local_quality.py [MODEL]

Prints right calls (tool and arguments), right refrainings, sane answers from a result, what went wrong, and the time. Temperature 0, so the figures repeat on one
engine version; they are figures to look at, not a test.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from harness_nb.errors import ToolError
from harness_nb.messages import Message, Text, ToolCall, ToolResult, assistant, user
from harness_nb.providers.local import Local
from harness_nb.providers.local.conversation import exchanges
from harness_nb.recipes import INSTRUCTIONS
from harness_nb.seams import Request, Run, ToolSpec
from harness_nb.toolkit.calc import calc

# Strings in expected arguments are compared without regard to case and outer blanks.
CALLS: list[tuple[str, str, dict[str, object]]] = [
    ("What is 17 * 23?", "calc", {"expression": "17*23"}),
    ("Compute (4 + 5) * 12.", "calc", {"expression": "(4+5)*12"}),
    ("How much is 1024 divided by 16?", "calc", {"expression": "1024/16"}),
    ("What's 2 to the power of 10?", "calc", {"expression": "2**10"}),
    ("Add 349 and 88.", "calc", {"expression": "349+88"}),
    ("I have 45 apples and give away 17. How many are left?", "calc", {"expression": "45-17"}),
    ("Multiply 3.5 by 8, please.", "calc", {"expression": "3.5*8"}),
    ("What is 15% of 80?", "calc", {"expression": "12"}),
    ("Show me the file notes.txt", "read_file", {"path": "notes.txt"}),
    ("What does README.md say?", "read_file", {"path": "README.md"}),
    ("Open data/prices.csv and tell me what is in it.", "read_file", {"path": "data/prices.csv"}),
    ("Read the contents of config/settings.toml", "read_file", {"path": "config/settings.toml"}),
    ("Can you look into main.py for me?", "read_file", {"path": "main.py"}),
    ("Summarise report.md", "read_file", {"path": "report.md"}),
    ("I'd like to see what's written in todo.txt.", "read_file", {"path": "todo.txt"}),
    ("print the text of src/app.js", "read_file", {"path": "src/app.js"}),
    ("What's the weather like in Oslo?", "weather", {"city": "Oslo"}),
    ("Is it raining in London right now?", "weather", {"city": "London"}),
    ("How warm is it in Cairo today?", "weather", {"city": "Cairo"}),
    ("Do I need an umbrella in Seattle?", "weather", {"city": "Seattle"}),
    ("Tell me the temperature in Buenos Aires.", "weather", {"city": "Buenos Aires"}),
    ("weather Tokyo", "weather", {"city": "Tokyo"}),
    ("Should I wear a coat in Moscow?", "weather", {"city": "Moscow"}),
    ("What will I see in the sky over Lisbon, sun or clouds?", "weather", {"city": "Lisbon"}),
    ("What time is it in Tokyo?", "current_time", {"city": "Tokyo"}),
    ("Tell me the current time in New York.", "current_time", {"city": "New York"}),
    ("What's the clock showing in Berlin?", "current_time", {"city": "Berlin"}),
    ("Is it already late in Sydney? What time do they have?", "current_time", {"city": "Sydney"}),
    ("time in Delhi please", "current_time", {"city": "Delhi"}),
    ("Give me the local time of Madrid.", "current_time", {"city": "Madrid"}),
    ("What hour is it in Rome now?", "current_time", {"city": "Rome"}),
    ("Could you check the time in Nairobi?", "current_time", {"city": "Nairobi"}),
    ("Convert 100 USD to EUR.", "convert_currency", {"amount": 100, "source": "USD", "target": "EUR"}),
    (
        "How many yen (JPY) do I get for 50 GBP?",
        "convert_currency",
        {"amount": 50, "source": "GBP", "target": "JPY"},
    ),
    ("What are 20 EUR in CHF?", "convert_currency", {"amount": 20, "source": "EUR", "target": "CHF"}),
    ("Exchange 75 CAD into USD", "convert_currency", {"amount": 75, "source": "CAD", "target": "USD"}),
    (
        "I have 300 SEK, how much is that in NOK?",
        "convert_currency",
        {"amount": 300, "source": "SEK", "target": "NOK"},
    ),
    ("Turn 12 AUD into NZD", "convert_currency", {"amount": 12, "source": "AUD", "target": "NZD"}),
    ("500 INR in USD?", "convert_currency", {"amount": 500, "source": "INR", "target": "USD"}),
    ("Please change 9 USD to MXN.", "convert_currency", {"amount": 9, "source": "USD", "target": "MXN"}),
    ("Set a timer for 10 minutes.", "set_timer", {"minutes": 10}),
    ("Wake me in 45 minutes.", "set_timer", {"minutes": 45}),
    ("Start a 5 minute timer", "set_timer", {"minutes": 5}),
    ("Remind me when 20 minutes are over.", "set_timer", {"minutes": 20}),
    ("I need a countdown of 3 minutes for my eggs.", "set_timer", {"minutes": 3}),
    ("timer 90 minutes", "set_timer", {"minutes": 90}),
    ("Let me know after 15 minutes.", "set_timer", {"minutes": 15}),
    ("Please ring in 30 minutes.", "set_timer", {"minutes": 30}),
]

NONE = [
    "Hello!",
    "Who are you?",
    "Write a short poem about the sea.",
    "What is the capital of France?",
    "Explain what a Python list is.",
    "Thanks, that was helpful.",
    "Tell me a joke.",
    "Translate 'good morning' into Spanish.",
    "What can you do?",
    "Give me three names for a cat.",
    "Why is the sky blue?",
    "What is the difference between a list and a tuple?",
]

DEFAULT_TOOLS = [
    *NONE,
    "Who wrote Hamlet?",
    "How are you today?",
    "What is machine learning?",
    "Name three planets.",
]
"""Needing none of the two tools that every session has."""

ANSWERS: list[tuple[str, str, dict[str, object], str, str]] = [
    ("What is 17 * 23?", "calc", {"expression": "17 * 23"}, "391", "391"),
    ("I have 45 apples and give away 17. How many are left?", "calc", {"expression": "45 - 17"}, "28", "28"),
    ("What is 15% of 80?", "calc", {"expression": "80 * 0.15"}, "12.0", "12"),
    ("How long is one side of a square of 144?", "calc", {"expression": "sqrt(144)"}, "12", "12"),
    ("What does notes.txt say?", "read_file", {"path": "notes.txt"}, "Call Maria on Friday.", "maria"),
    ("Which port is set in app.toml?", "read_file", {"path": "app.toml"}, 'name = "x"\nport = 8123', "8123"),
    ("What's the weather like in Oslo?", "weather", {"city": "Oslo"}, "snow, -3 degrees", "-3"),
    ("Do I need an umbrella in Seattle?", "weather", {"city": "Seattle"}, "heavy rain, 9 degrees", "rain"),
    ("What time is it in Tokyo?", "current_time", {"city": "Tokyo"}, "21:35", "21:35"),
    ("Convert 100 USD to EUR.", "convert_currency", {"amount": 100}, "92.40 EUR", "92.4"),
    ("Set a timer for 10 minutes.", "set_timer", {"minutes": 10}, "timer set, rings at 14:20", "14:20"),
    ("Who is on call?", "lookup", {"query": "on call"}, "Priya until Sunday", "priya"),
]
"""Question, tool, arguments, result, and what the answer must contain."""


def _schema(**properties: str) -> dict[str, object]:
    kinds = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": kinds, "required": list(properties)}


TOOLS = [
    ToolSpec("calc", "Work out an arithmetic expression exactly.", _schema(expression="string")),
    ToolSpec("read_file", "Read a text file of the workspace.", _schema(path="string")),
    ToolSpec("weather", "Current weather of a city: temperature, sky, rain.", _schema(city="string")),
    ToolSpec("current_time", "The local time in a city.", _schema(city="string")),
    ToolSpec(
        "convert_currency",
        "Convert an amount of money from one currency to another, by three-letter codes.",
        _schema(amount="number", source="string", target="string"),
    ),
    ToolSpec("set_timer", "Start a timer that rings after some minutes.", _schema(minutes="integer")),
]


async def calls_right(
    model: Local, tools: list[ToolSpec], cases: list[tuple[str, str, dict[str, object]]]
) -> int:
    """How many questions are given the right tool with the right arguments; what is wrong is printed."""
    run, right = Run(), 0
    engine = await model._ready(run)
    for question, tool, arguments in cases:
        request = Request("", (user(question),), tuple(tools))
        reply = await model._pick(engine, request, exchanges(request.messages), run)
        picked = [(call.name, call.replayed()) for call in reply.message.calls]
        good = same(picked[0], (tool, arguments)) if picked else not tool
        right += good
        if not good:
            print(f"  {question!r}: {picked or 'none'}")
    return right


async def answers_sane(model: Local) -> int:
    """How many answers hold what the result says."""
    right = 0
    for question, tool, arguments, result, needle in ANSWERS:
        call = ToolCall("a", tool, json.dumps(arguments))
        messages = (user(question), assistant(call), Message("tool", (ToolResult("a", (Text(result),)),)))
        reply = await model(Request(INSTRUCTIONS, messages, tuple(TOOLS)), Run())
        good = needle in reply.message.text.lower()
        right += good
        if not good:
            print(f"  {question!r} with {result!r}: {reply.message.text!r}")
    return right


def same(one: tuple[str, dict[str, object]], other: tuple[str, dict[str, object]]) -> bool:
    """Whether two calls mean the same: strings by their letters, expressions by their value."""
    if one[0] == other[0] == "calc":
        try:
            return bool(evaluate(str(one[1]["expression"])) == evaluate(str(other[1]["expression"])))
        except (ToolError, KeyError):
            return False
    plain = [
        {k: v.strip().lower() if isinstance(v, str) else v for k, v in it[1].items()} for it in (one, other)
    ]
    return one[0] == other[0] and plain[0] == plain[1]


def evaluate(expression: str) -> str:
    """What the calculator says."""
    return str(calc.function(expression.replace("^", "**")))


async def main(name: str) -> None:
    """Print the figures of one model."""
    model = Local(name)
    began = time.perf_counter()
    refrained = [(question, "", {}) for question in NONE]
    print(
        f"{model.name}\n"
        f"six tools: right calls {await calls_right(model, TOOLS, CALLS)}/{len(CALLS)}, "
        f"none where none is due {await calls_right(model, TOOLS, refrained)}/{len(NONE)}"
    )
    two = [case for case in CALLS if case[1] in {"calc", "read_file"}]
    refrained = [(question, "", {}) for question in DEFAULT_TOOLS]
    print(
        f"the two usual tools: right calls {await calls_right(model, TOOLS[:2], two)}/{len(two)}, "
        f"none where none is due {await calls_right(model, TOOLS[:2], refrained)}/{len(DEFAULT_TOOLS)}"
    )
    print(f"sane answers from a result: {await answers_sane(model)}/{len(ANSWERS)}")
    print(f"{time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or [""]))
