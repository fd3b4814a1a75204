"""`%agent` in an IPython: options, help, completion, defaults, values, errors, and what is handed to the model."""

import re
from types import MappingProxyType
from typing import NamedTuple

import pytest
from hypothesis import assume, given, strategies as st
from IPython.core.completer import CompletionContext
from IPython.core.interactiveshell import InteractiveShell

import harness_nb
from harness_nb import ProviderError, UsageError, call, say, scripted
from harness_nb.jupyter import session as sessions
from harness_nb.jupyter.agents import tools_of_the_notebook
from harness_nb.jupyter.completion import agent_matcher
from harness_nb.jupyter.options import COMMANDS, OPTIONS, Asked, cell_read, line_read, usage
from harness_nb.jupyter.shell import user_variables
from harness_nb.jupyter.variables import HIDDEN, described
from harness_nb.providers.local.known import KNOWN


def answering(*turns):
    """Give the main session a script, which by default repeats the last message."""
    model = harness_nb.session().model = scripted(*(turns or 9 * [lambda request: request.messages[-1].text]))
    return model


def ran(shell, code):
    done = shell.run_cell(code, store_history=True)
    done.raise_error()
    return done.result


# What is typed


@given(st.text(st.characters(exclude_characters="\n")))
def test_a_line_without_options_is_the_prompt_as_it_stands(text):
    assume(not text.strip().startswith("--") and text.strip() not in COMMANDS)
    assert line_read(text) == Asked(prompt=text.lstrip())


@given(st.text())
def test_after_two_dashes_anything_is_a_prompt(text):
    assert line_read(f"--turns 1 -- {text}") == Asked(prompt=text, turns=1)


@given(st.text().filter(str.strip))
def test_a_body_is_the_prompt_as_it_stands(body):
    assert cell_read("--turns 3", body) == Asked(prompt=body, turns=3)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("--model local hi", Asked("hi", model="local")),
        ("--model=chat:q@http://h/v1  what's up", Asked("what's up", model="chat:q@http://h/v1")),
        ("--model 'replay:my file' \"hi\"", Asked('"hi"', model="replay:my file")),
        ("--with a --with b --new hi --with c", Asked("hi --with c", new=True, variables=("a", "b"))),
        ("--session other --turns 2 hi", Asked("hi", session="other", turns=2)),
        ("- one item", Asked("- one item")),
        ("-1 + 2?", Asked("-1 + 2?")),
        ("help", Asked(command="help")),
        ("help me", Asked("help me")),
        ("-- help", Asked("help")),
        ("approve", Asked(command="approve")),
        (" approve  q012345 ", Asked(command="approve", ticket="q012345")),
        ('deny q012345 "too risky"', Asked(command="deny", ticket="q012345", words="too risky")),
        ("deny q012345 don't", Asked(command="deny", ticket="q012345", words="don't")),
        ('edit q012345 {"a": 1}', Asked(command="edit", ticket="q012345", words='{"a": 1}')),
        ("--session s deny q012345", Asked(command="deny", session="s", ticket="q012345")),
        ("approve the plan in x.md", Asked("approve the plan in x.md")),
        ("edit README.md", Asked("edit README.md")),
        ("deny q12 nothing", Asked("deny q12 nothing")),
        ("-- approve q012345", Asked("approve q012345")),
        ("--help", Asked(command="help")),
        ("--new", Asked(command="new", new=True)),
    ],
)
def test_options_come_before_the_prompt(text, asked):
    assert line_read(text) == asked


def test_words_on_the_first_line_of_a_cell_begin_its_prompt():
    assert cell_read("--new Read this:", "a\nb").prompt == "Read this:\na\nb"
    assert cell_read("hi", "").prompt == "hi"
    assert cell_read("", "--model x").prompt == "--model x"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--modle local hi", "did you mean `--model`?"),
        ("--5 degrees?", "write `-- ` before the prompt"),
        ("--model", "`--model` needs a value: --model NAME"),
        ("--model --new hi", "`--model` needs a value"),
        ("--new=yes hi", "`--new` takes no value"),
        ("--turns few hi", "`--turns` needs a number from 1 up, not `few`"),
        ("--turns 0 hi", "not `0`"),
        ("approve q012345 and go on", "takes a call's name and no more"),
        (f"--turns {'9' * 5000} hi", f"not `{'9' * 20}…`"),
    ],
)
def test_an_option_that_cannot_be_is_one_sentence(text, words):
    with pytest.raises(UsageError) as refused:
        line_read(text)
    assert words in str(refused.value)
    assert "Nothing was sent" in str(refused.value)


def test_help_names_better_models_than_the_embedded_one():
    named = re.findall(r"local:([\w.-]+),", usage())
    assert named
    assert set(named) <= set(KNOWN)


def test_help_names_every_option():
    assert all(name in usage() for name in OPTIONS)


# In a cell


@pytest.mark.parametrize(
    "prompt", ["is df.shape right?", "why??", "done ?", "set {12} and $name", "{x}", "don't;"]
)
def test_a_prompt_reaches_the_model_verbatim(shell, prompt):
    model = answering()
    ran(shell, "name = 'SECRET'; x = 3")
    assert ran(shell, f"%agent {prompt}").text == prompt
    ran(shell, f"%%agent --new\n{prompt}\n  {prompt}")
    assert model.requests[-1].messages[-1].text == f"{prompt}\n  {prompt}"


def test_the_result_is_the_cells_value_and_can_be_assigned(shell):
    answering()
    assert ran(shell, "%agent one").text == "one"
    assert ran(shell, "_.text") == "one"
    assert ran(
        shell, "found = [0, 0]\nfor i in range(2):\n    found[i] = %agent again\n[r.text for r in found]"
    ) == 2 * ["again"]


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    return_value = %agent hi?\n    return return_value\nf()",
        "get_ipython().run_line_magic('agent', 'hi?')",
        "get_ipython().run_cell_magic('agent', '', 'hi?')",
        "%%time\n%agent hi?",
        "async def f():\n    result = %agent hi?\n    return result\nawait f()",
        "await harness_nb.session().run('hi?')",
        "harness_nb.session().run_blocking('hi?')",
    ],
)
def test_every_way_of_asking_asks_the_same(shell, code):
    model = answering("ok")
    ran(shell, "import harness_nb")
    ran(shell, code)
    assert [request.messages[-1].text for request in model.requests] == ["hi?"]


def test_a_run_can_be_timed_on_its_line(shell):
    answering()
    assert ran(shell, "%time %agent hi").text == "hi"


def test_output_can_be_captured(shell):
    answering()
    ran(shell, "%%capture kept\n%agent hi")
    assert "hi" in ran(shell, "kept.stdout")


def test_a_cell_without_await_blocks(shell):
    answering()
    ran(shell, "%autoawait False")
    assert ran(shell, "%agent hi").text == "hi"


def test_the_run_is_shown_once_and_again_where_it_is_displayed_later(shell, capsys):
    answering("forty-two")
    ran(shell, "answer = %agent hi")
    ran(shell, "1")
    assert capsys.readouterr().out.count("forty-two") == 1
    ran(shell, "answer")
    assert capsys.readouterr().out.count("forty-two") == 1


def test_help_is_printed_and_asked_for_as_ever(shell, capsys):
    model = answering()
    ran(shell, "%agent --help")
    ran(shell, "%agent help")
    assert capsys.readouterr().out == 2 * f"{usage()}\n"
    ran(shell, "%agent?")
    assert "%%agent [options]" in capsys.readouterr().out
    assert model.requests == []


def test_a_session_of_another_name_is_another_conversation(shell):
    answering()
    ran(shell, "%agent hi")
    harness_nb.session("b").model = scripted("from b")
    assert ran(shell, "%agent --session b hi").text == "from b"
    assert len(harness_nb.session().transcript.messages) == 2


def test_new_alone_begins_a_new_conversation_and_says_so(shell, capsys):
    answering()
    ran(shell, "%agent hi")
    capsys.readouterr()
    assert ran(shell, "%agent --new") is None
    assert capsys.readouterr().out == "The next prompt begins a new conversation.\n"
    assert len(harness_nb.session().transcript.messages) == 0


# Defaults


def test_config_sets_the_model_by_name_or_as_an_object_and_the_turns(shell):
    ran(shell, "import harness_nb\nmine = harness_nb.scripted('mine')\n%config AgentMagics.model = mine")
    assert ran(shell, "%agent hi").text == "mine"
    ran(shell, "%config AgentMagics.model = 'nonesuch'\n%config AgentMagics.turns = 1")
    with pytest.raises(UsageError, match="No model is called `nonesuch`"):
        ran(shell, "%agent hi")
    answering(say(call("calc", expression="1")))
    assert ran(shell, "%agent hi").reason == "turns"


@pytest.mark.parametrize("shell", [{"AgentMagics": {"model": "from-a-file", "turns": 7}}], indirect=True)
def test_a_configuration_file_sets_them_too(shell):
    assert (sessions.defaults.model, sessions.defaults.turns) == ("from-a-file", 7)


def test_loading_is_silent_and_may_be_done_again(shell, capsys):
    before = ours(shell)
    ran(shell, "%config AgentMagics.turns = 3\n%reload_ext harness_nb\n%reload_ext harness_nb")
    harness_nb.load_ipython_extension(shell)
    assert (ours(shell), sessions.defaults.turns) == (before, 3)
    answering("once")
    assert ran(shell, "%agent hi").text == "once"
    assert capsys.readouterr().err == ""


def ours(shell):
    """How many things of ours the shell holds, kind by kind."""
    magics = [known for known in shell.configurables if type(known).__name__ == "AgentMagics"]
    return len(shell.input_transformers_cleanup), len(shell.Completer.custom_matchers), len(magics)


def test_unloading_takes_everything_away(shell):
    harness_nb.unload_ipython_extension(shell)
    assert shell.find_line_magic("agent") is None
    assert agent_matcher not in shell.Completer.custom_matchers
    assert "AgentMagics" not in {type(known).__name__ for known in shell.configurables}
    harness_nb.unload_ipython_extension(shell)


def test_a_second_ipython_may_have_the_extension_and_lose_it(shell, capsys):
    second = InteractiveShell()
    for take in (harness_nb.load_ipython_extension, harness_nb.unload_ipython_extension):
        take(second)
    answering(UsageError("Say it."))
    shell.run_cell("%agent hi")
    assert capsys.readouterr().out.splitlines()[-1] == "Say it."


def test_help_on_a_tool_is_its_functions_own(shell, capsys):
    ran(shell, TOOL.format("tea"))
    ran(shell, "?shop")
    said = capsys.readouterr().out
    assert "shop() -> str" in said
    assert 0 < said.find("Say what is sold.") < said.find("A function that a model may call")


# Tools and variables


TOOL = """
from harness_nb import tool
@tool(effects={{"read"}})
def shop() -> str:
    "Say what is sold."
    return {!r}
"""


def test_what_resume_does_not_name_stays_as_it_was(shell):
    answering(say(call("calc", expression="1")), "fine")
    ran(shell, "%agent --seconds 5000 --tokens 900000 --turns 1 go")
    assert ran(shell, "%resume --tokens 800000").text == "fine"
    allowed = harness_nb.session().purse.last.levels[0].allowance
    assert (allowed.seconds, allowed.tokens, allowed.dollars) == (5000, 800_000, None)


def test_tools_of_the_notebook_are_found_and_the_newest_definition_wins(shell):
    answering(say(call("shop")), "ok", say(call("shop")), "ok")
    ran(shell, TOOL.format("apples"))
    assert "apples" in ran(shell, "%agent what?").transcript.messages[2].results[0].text
    ran(shell, "first = shop")
    ran(shell, TOOL.format("pears"))
    assert [item.name for item in tools_of_the_notebook()] == ["shop"]
    assert "pears" in ran(shell, "%agent --new what?").transcript.messages[2].results[0].text


def test_a_tool_may_have_the_name_of_something_that_ipython_puts_there(shell):
    ran(shell, 'from harness_nb import tool\n@tool\ndef open(path: str):\n    "Open a shop."')
    assert [item.name for item in tools_of_the_notebook()] == ["open"]
    assert not {"In", "Out", "quit", "get_ipython"} & set(user_variables())


def test_only_the_variables_named_are_told_of(shell):
    model = answering()
    ran(shell, "prices = {'apple': 2, 'api_key': 'sk-1234567890abcdefghij'}; other = 'CONFIDENTIAL'")
    ran(shell, "%agent --with prices which is cheapest?")
    (message,) = model.requests[0].messages
    assert message.parts[0].text == "which is cheapest?"
    assert "`prices` (dict, 2 items)" in message.parts[1].text
    assert '"apple": 2' in message.parts[1].text
    assert "sk-1234" not in message.text
    assert "CONFIDENTIAL" not in str(model.requests)


def test_a_variable_that_is_not_there_is_one_sentence(shell):
    model = answering()
    ran(shell, "prices = 1")
    with pytest.raises(UsageError, match=r"No variable is called `price`\. Did you mean `prices`\?"):
        ran(shell, "%agent --with price hi")
    assert model.requests == []


def test_a_frame_is_told_by_its_shape_and_head():
    class Frame:
        shape = (1000, 2)
        columns = ("item", "price")

        def head(self, _):
            return self

        def __len__(self):
            return 1000

        def to_string(self):
            return "  item price\n0 apple 2"

    Frame.__module__ = "pandas.core.frame"
    told = described("prices", {"prices": Frame()})
    assert "`prices` (Frame, 1,000 x 2)" in told
    assert "0 apple 2" in told


@pytest.mark.parametrize(
    "value", ["x" * 100_000, list(range(100_000)), dict.fromkeys(range(1000), "y" * 500)]
)
def test_a_large_value_is_bounded(value):
    assert len(described("big", {"big": value})) < 3_000


def test_an_iterator_is_not_used_up():
    numbers = iter([1, 2])
    described("numbers", {"numbers": numbers})
    assert list(numbers) == [1, 2]


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-abcdefghijklmnop",
        "ghp_abcdefghijklmnopqrstuvwx",
        "Bearer abcdefghijklmnop.qrs",
        "postgres://ada:hunter2@host/db",
        "https://host/?api_key=abcdefgh",
        "AKIAABCDEFGHIJKLMNOP",
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
        "namespace(api_key='abcdefgh')",
        'password = "abcdefgh"',
        '{"token": "abcdefgh"}',
    ],
)
def test_what_looks_like_a_secret_is_left_out(secret):
    told = described("note", {"note": [f"use {secret} here"]})
    assert HIDDEN in told
    assert secret not in told
    assert "hunter2" not in told


@pytest.mark.parametrize("name", ["api_key", "OPENAI_API_KEY", "password", "auth_token", "client_secret"])
def test_what_has_a_secrets_name_is_left_out(name):
    assert described(name, {name: "swordfish"}).endswith(HIDDEN)
    assert "swordfish" not in described("settings", {"settings": {"db": {name: "swordfish"}}})


@pytest.mark.parametrize("cut", [882, 883])
def test_a_secret_is_left_out_where_the_value_is_shortened_in_the_middle_of_it(cut):
    text = f"{'a' * cut} sk-proj-{'abcdefgh' * 9} {'b' * 5_000}"
    assert "abcdefgh" not in described("log", {"log": text})


def test_a_secrets_name_counts_in_any_mapping_and_in_a_named_tuple():
    settings = MappingProxyType({"password": "swordfish"})
    login = NamedTuple("Login", [("user", str), ("password", str)])("ada", "swordfish")
    told = described("settings", {"settings": settings}) + described("login", {"login": login})
    assert "swordfish" not in told
    assert '"user": "ada"' in told


def test_a_value_that_contains_itself_many_times_is_told_at_once():
    knot = []
    knot.extend([knot] * 20)
    assert "contains itself" in described("knot", {"knot": knot})


class Broken:
    """Raises whatever is asked of it."""

    def __len__(self):
        raise RuntimeError

    def model_dump(self):
        raise RuntimeError


class Lazy:
    """Knows not how long it is, as a frame of Dask's."""

    shape = (None, 3)


@pytest.mark.parametrize(
    ("value", "said"), [(Broken(), "(Broken):\n(it can't be read: RuntimeError)"), (Lazy(), "(Lazy, ? x 3)")]
)
def test_what_a_value_cannot_tell_is_no_failure(value, said):
    assert said in described("value", {"value": value})


def test_an_expression_is_no_variable():
    with pytest.raises(UsageError, match="no variable's name: give a variable the value"):
        described("df.x", {"df": 1})


@pytest.mark.parametrize("name", ["tokens", "author", "keyboard", "key", "secretary"])
def test_what_only_sounds_like_a_secret_is_told(name):
    assert "swordfish" in described(name, {name: "swordfish"})


# Failures


def shown(shell, capsys, code):
    """What a failing cell prints."""
    shell.run_cell(code, store_history=True)
    printed = capsys.readouterr()
    return (printed.out + printed.err).strip()


def test_a_usage_error_is_its_sentence_and_nothing_else(shell, capsys):
    assert shown(shell, capsys, "%agent --modle x hi").splitlines() == [
        str(_raised(line_read, "--modle x hi"))
    ]
    assert "There is no prompt" in shown(shell, capsys, "%agent")


def test_a_failed_run_is_one_line_and_the_traceback_is_one_command_away(shell, capsys):
    answering(ProviderError("No such model."))
    said = shown(shell, capsys, "%agent hi").splitlines()
    assert said[-1] == "ProviderError: see above. (%tb shows the traceback.)"
    assert "".join(said).count("No such model.") == 1
    assert not any("Traceback" in line for line in said)
    assert "Traceback (most recent call last)" in shown(shell, capsys, "%tb")
    assert isinstance(harness_nb.session().last_error, ProviderError)


def test_a_servers_words_cannot_act_on_the_terminal(shell, capsys):
    answering(ProviderError("No \x1b]0;owned\x07 model."))
    assert not {"\x1b", "\x07"} & set(shown(shell, capsys, "%agent hi"))


def test_a_failure_can_be_caught_by_its_kind(shell):
    answering(ProviderError("No such model.", status=404))
    ran(
        shell,
        "from harness_nb import ProviderError\ntry:\n    %agent hi\nexcept ProviderError as fault:\n    code = fault.status",
    )
    assert ran(shell, "code") == 404


def _raised(function, *arguments):
    with pytest.raises(UsageError) as caught:
        function(*arguments)
    return caught.value


# Completion


def completed(text, line=0):
    lines = text.split("\n")
    token = lines[line].split(" ")[-1].split(":")[-1].split("=")[-1]
    context = CompletionContext(
        token=token, full_text=text, cursor_position=len(lines[line]), cursor_line=line, limit=None
    )
    return [choice.text for choice in agent_matcher(context)["completions"]]


@pytest.mark.parametrize("form", ["%agent {}", "%%agent {}", "x = %agent {}", "    %agent {}"])
def test_options_and_their_values_complete(shell, form):
    ran(shell, "prices = 1")
    assert completed(form.format("--mo")) == ["--model"]
    assert completed(form.format("")) == sorted([*OPTIONS, *COMMANDS])
    assert completed(form.format("appr")) == ["approve"]
    assert completed(form.format("--new --tu")) == ["--turns"]
    assert completed(form.format("--model anth")) == ["anthropic:"]
    assert completed(form.format("--model=op")) == ["openai:"]
    harness_nb.session("cooking")
    assert completed(form.format("--session c")) == ["cooking"]
    assert completed(form.format("--with pri")) == ["prices"]


@pytest.mark.parametrize(
    "text", ["%agent tell --mo", "%agent -- --mo", "%agent --model x --new tell ", "x = 1", "%agents --mo"]
)
def test_a_prompt_does_not_complete_to_options(text):
    assert completed(text) == []
