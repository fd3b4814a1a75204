"""How well the embedded model calls tools: 60 questions, 48 needing one of six tools and 12 needing none.

    python tests/bench/local_quality.py [MODEL] [--show]

Prints right calls (tool and arguments), right refrainings, and the time. Temperature 0, so the figures repeat on one
engine version; they are figures to look at, not a test.
"""

from __future__ import annotations

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
    ("How many yen (JPY) do I get for 50 GBP?", "convert_currency", {"amount": 50, "source": "GBP", "target": "JPY"}),
    ("What are 20 EUR in CHF?", "convert_currency", {"amount": 20, "source": "EUR", "target": "CHF"}),
    ("Exchange 75 CAD into USD", "convert_currency", {"amount": 75, "source": "CAD", "target": "USD"}),
    ("I have 300 SEK, how much is that in NOK?", "convert_currency", {"amount": 300, "source": "SEK", "target": "NOK"}),
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
