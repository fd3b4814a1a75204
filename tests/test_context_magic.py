"""`%context` in an IPython: its commands, what it answers to bad input, completion, and the options that set the window."""

import pytest
from hypothesis import given, strategies as st
from IPython.core.completer import CompletionContext

import harness_nb
from harness_nb import UsageError, call, say, scripted, tool
from harness_nb.context.compact import NotCompactedError
from harness_nb.errors import HarnessError
from harness_nb.jupyter import session as sessions
from harness_nb.jupyter.completion import commands_matcher
from harness_nb.jupyter.context_commands import COMMANDS, Wanted, context_read, context_usage
from harness_nb.jupyter.decision_card import DecisionCard

PAGE = "twelve green apples and a pear " * 60


def ran(shell, code):
    done = shell.run_cell(code, store_history=True)
    done.raise_error()
    return done.result


@pytest.fixture
def looked(shell):
    """The main session, in which ten pages were looked at in a window that is far from full."""

    @tool(effects={"read"})
    def look(n: int) -> str:
        """Look at a page."""
        return f"{n}: {PAGE}"

    talk = harness_nb.session()
    talk.tools = [look]
    asked = [say(*(call("look", n=n) for n in (2 * m, 2 * m + 1))) for m in range(5)]
    talk.model = scripted(*asked, "All seen.", "A short summary.", window=200_000)
    talk.run_blocking("Look at <b>all</b> of them.", show=False)
    return talk


def answer(shell, capsys, code):
    capsys.readouterr()
    ran(shell, code)
    return capsys.readouterr().out.strip()


def test_each_command_answers_in_a_sentence_and_does_it(looked, shell, capsys):
    said = answer(shell, capsys, "%context mask")
    assert said.startswith("You asked, so ")
    assert "old tool results were masked." in said
    assert "To take it back: %context undo 1." in said
    undone = f"You took decision 1 back: {looked.context.decisions[0].why} The context now: "
    assert answer(shell, capsys, "%context undo").startswith(undone)
    pinned = "You pinned message 3 (result of look n=0, and 1 more). The context now: "
    assert answer(shell, capsys, "%context pin 3").startswith(pinned)
    assert answer(shell, capsys, "%context unpin 3").startswith("You unpinned message 3.")
    assert [decision.by for decision in looked.context.decisions] == ["mask", "you", "you", "you"]


def test_compact_is_awaited_in_a_cell_and_blocks_in_a_function(looked, shell, capsys):
    said = answer(shell, capsys, "%context compact")
    assert "earlier messages were summarised" in said
    assert "| A short summary." in said
    ran(shell, "%context undo")
    looked.model = scripted("Another summary.", window=200_000)
    with pytest.raises(NotCompactedError, match="nothing new"):
        ran(shell, "def f():\n    %context compact\nf()")


def test_a_pin_survives_a_summary(looked, shell):
    ran(shell, "%context pin 3\n%context compact")
    assert looked.transcript.messages[2] in looked.transcript.live()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("undo", "no decision about the context to take back"),
        ("undo 1", "no decision 1: there is no decision yet"),
        ("undo 0", "There is no decision 0"),
        ("undo x", r"Write `%context undo \[NUMBER\]`, with one number, not `x`"),
        ("pin", "Write `%context pin NUMBER`, with one number"),
        ("pin 99", "There is no message 99: messages are numbered 1 to 12"),
        ("pin 1 2", "not `1 2`"),
        ("pin ²", "not `²`"),
        (f"pin {'9' * 5000}", "not `9999"),
        ("unpin 3", "Message 3 is not pinned"),
        ("mask 3", "`%context mask` takes nothing more"),
        ("maks", "did you mean `mask`"),
        ("please tidy up", "`%context` knows no `please`"),
        ("--session nobody undo", "No session is called `nobody`"),
    ],
)
def test_bad_input_is_one_sentence_and_changes_nothing(looked, shell, line, why):
    entries = looked.transcript.entries
    with pytest.raises(UsageError, match=why) as fault:
        ran(shell, f"%context {line}")
    assert str(fault.value).endswith("Nothing has changed.")
    assert len(str(fault.value)) < 250
    assert looked.transcript.entries == entries


@given(st.text(st.characters(exclude_characters="\n")))
def test_whatever_is_typed_is_understood_or_refused_in_a_sentence(text):
    try:
        assert context_read(text).command in {*COMMANDS, ""}
    except HarnessError as fault:
        assert str(fault).endswith("Nothing has changed.")  # noqa: PT017 - either may be


def test_before_any_run_each_says_that_there_is_nothing_yet(shell, capsys):
    assert "has no conversation yet" in answer(shell, capsys, "%context")
    for line, why in (("undo", "to take back"), ("pin 1", "no message yet"), ("mask", "no old tool result")):
        with pytest.raises(UsageError, match=why):
            ran(
                shell,
                f"harness_nb = __import__('harness_nb')\nharness_nb.session().model = 'local'\n%context {line}",
            )


def test_alone_it_says_what_fills_the_window_and_the_numbers_to_undo_and_pin_by(looked, shell, capsys):
    ran(shell, "%context mask\n%context pin 3")
    said = answer(shell, capsys, "%context")
    assert said.startswith("The context has ")
    for part in (
        "tool results",
        "1  You asked, so ",
        "3  result of look n=0",
        "pinned",
        "masked",
        "turn 6",
    ):
        assert part in said
    assert len(said.splitlines()) < 40


def test_another_session_is_named_before_the_command(looked, shell, capsys):
    harness_nb.session("b c").model = scripted("Hi.")
    ran(shell, '%agent --session "b c" hello')
    assert answer(shell, capsys, '%context --session "b c" pin 1').startswith(
        "You pinned message 1 (you: hello)."
    )
    assert looked.context.decisions == ()
    assert context_read("--session='b c'") == Wanted(session="b c")


def test_help_names_every_command(shell, capsys):
    assert answer(shell, capsys, "%context help") == context_usage()
    ran(shell, "%context?")
    assert all(f"%context {name}" in context_usage() for name in COMMANDS)


def completed(text):
    token = text.rsplit(" ", 1)[-1]
    found = commands_matcher(CompletionContext(token, text, len(text), 0, 100))
    return [choice.text for choice in found["completions"]]


def test_tab_completes_commands_sessions_and_the_numbers_that_can_be_used(looked, shell):
    assert completed("%context ") == sorted(["--session", *COMMANDS])
    assert completed("%context un") == ["undo", "unpin"]
    ran(shell, "%context mask\n%context pin 3\n%context pin 1")
    assert completed("%context undo ") == ["1", "2", "3"]
    assert completed("%context unpin ") == ["1", "2", "3"]
    assert completed("%context --session ") == ["main"]
    assert completed("%context --session main unp") == ["unpin"]
    assert completed("%context mask ") == completed("x = 3") == completed("%contextual u") == []


def test_unloading_takes_it_away(shell):
    harness_nb.unload_ipython_extension(shell)
    assert shell.find_line_magic("context") is None
    assert commands_matcher not in shell.Completer.custom_matchers


# The window


def test_config_sets_the_window_its_states_and_whether_to_ask(looked, shell):
    ran(shell, "%config AgentMagics.context_window = 150_000\n%config AgentMagics.context_yellow = 0.1")
    ran(shell, "%config AgentMagics.context_red = 0.2\n%config AgentMagics.ask_context = True")
    looked.model = scripted("Hi.", "Hi.", "Hi.")
    ran(shell, "%agent hello")
    account = looked.context.account
    assert (account.window.size, account.window.source) == (150_000, "configuration")
    assert (account.yellow, account.red, sessions.defaults.ask_context) == (0.1, 0.2, True)
    ran(shell, "%agent --window 90000 hello")
    assert looked.context.account.window.size == 90_000
    ran(shell, "%agent hello")
    assert looked.context.account.window.size == 150_000


@pytest.mark.parametrize("line", ["--window", "--window 0", "--window many", "--window -5"])
def test_a_window_that_is_no_number_is_one_sentence(shell, line):
    with pytest.raises(UsageError, match="`--window` needs a"):
        ran(shell, f"%agent {line} hello")


def test_states_that_contradict_each_other_are_one_sentence_and_nothing_is_sent(looked, shell):
    looked.model = model = scripted("Hi.")
    ran(shell, "%config AgentMagics.context_yellow = 0.9")
    with pytest.raises(UsageError, match=r"can't turn yellow at 0[.]9 and red at 0[.]8"):
        ran(shell, "%agent hello")
    assert model.requests == []


def test_a_small_window_is_relieved_and_the_cell_shows_why(looked, shell, capsys):
    looked.model = scripted(*[say(call("look", n=n)) for n in range(12)], "Done.", "So.", "So.", "So.")
    capsys.readouterr()
    result = ran(shell, "%agent --window 9000 Look again.")
    cards = [segment for segment in result.view.segments if isinstance(segment, DecisionCard)]
    assert cards
    assert cards[0].effect.before.state == "red"
    assert cards[0].effect.before.total == cards[0].decision.before
    assert cards[0].effect.after.total == cards[0].decision.after
    told = capsys.readouterr().out
    assert "% full, so " in told
    assert f"To take it back: %context undo {cards[0].effect.number}." in told
