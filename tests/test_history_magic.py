"""`%history` in an IPython: what is ours and what stays IPython's own, the tree, going back, bad input, completion."""

import pytest
from hypothesis import given, strategies as st
from IPython.core.completer import CompletionContext

import harness_nb
from harness_nb import UsageError, call, say, scripted, tool
from harness_nb.jupyter import session as sessions
from harness_nb.jupyter.completion import commands_matcher
from harness_nb.jupyter.history_commands import COMMANDS, history_read, history_usage
from harness_nb.jupyter.history_told import Told
from harness_nb.jupyter.history_tree import LISTED
from harness_nb.jupyter.kept import Kept


def ran(shell, code):
    done = shell.run_cell(code, store_history=True)
    done.raise_error()
    return done.result


@pytest.fixture
def answer(shell, capsys):
    def answered(code):
        capsys.readouterr()
        ran(shell, code)
        return capsys.readouterr().out.strip()

    harness_nb.session().model = scripted(*[lambda request: request.messages[-1].text.upper()] * 99)
    yield answered
    for session in sessions._sessions.values():
        session.kept.close()


@pytest.fixture
def branched(answer):
    """Runs 1 and 2, of which 2 was undone, and 3 in its place."""
    for code in ("%agent one", "%agent two", "%history undo", "%agent three"):
        answer(code)
    return answer


def prompts():
    return [m.text for m in harness_nb.session().transcript.messages if m.role == "user"]


# Whose it is


def test_before_any_run_the_bare_name_is_ipythons(answer):
    assert answer("a = 1\n%history") == "a = 1\n%history"
    assert not harness_nb.session().kept.opened  # nothing was made by asking


@pytest.mark.parametrize(
    "line", ["-n 1-2", "1-2", "~1/", "-g three", "-l 2", "-o", "~2/1-~1/3", "3", "-t -n", "-p"]
)
def test_options_and_ranges_stay_ipythons(shell, branched, capsys, line):
    said = []
    for name in ("hist", "history"):
        shell.run_line_magic(name, line)
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert history_read(line) is None


def test_what_ipython_prints_for_them_is_the_cells(branched):
    assert branched("%history -n 2") == "2: %agent two"
    assert branched("%history 1-2").splitlines() == ["%agent one", "%agent two"]


def test_hist_stays_ipythons_own_altogether(branched):
    said = branched("%hist")
    assert said.splitlines()[:2] == ["%agent one", "%agent two"]
    assert "branches" not in said


def test_unloading_gives_ipython_its_own_back_and_loading_twice_changes_nothing(shell, answer):
    answer("%agent one")
    harness_nb.load_ipython_extension(shell)
    assert answer("%history").startswith("history · 1 run on 1 branch")
    harness_nb.unload_ipython_extension(shell)
    try:
        assert answer("%history -n 1") == answer("%hist -n 1") == "1: %agent one"
        assert answer("%history").splitlines()[0] == "%agent one"
        assert shell.find_line_magic("history").__self__.__class__.__name__ == "HistoryMagics"
    finally:
        harness_nb.load_ipython_extension(shell)


def test_a_history_that_somebody_put_there_meanwhile_is_left_alone(shell):
    mine = lambda line: line  # noqa: E731
    shell.register_magic_function(mine, magic_name="history")
    harness_nb.unload_ipython_extension(shell)
    assert shell.find_line_magic("history") is mine
    harness_nb.load_ipython_extension(shell)


def test_variables_are_put_into_the_line_for_both(branched):
    assert "run 2 (“two”)" in branched("n = 2\n%history use {n}")
    assert branched("first = 1\n%history -n {first}") == "1: %agent one"


# The tree


def test_it_tells_of_each_run_and_of_where_the_conversation_is(branched):
    lines = branched("%history").splitlines()
    assert lines[0].startswith("history · 3 runs on 2 branches · session main · main in ")
    assert [line.split("  ")[-1].strip() for line in lines[1::2] if line.startswith("  ")][:3] == [
        "one",
        "two",
        "three",
    ]
    assert "done in 1 turn · " in lines[2]
    assert "In [1]" in lines[2]
    assert lines[4].endswith("set aside")
    assert lines[3].index("two") > lines[1].index("one")
    assert lines[6].endswith("<- the next prompt follows this")
    assert "Go on from any run: %history use NUMBER." in lines[-1]


def test_what_earlier_kernels_left_is_listed_before_anything_is_run(branched):
    harness_nb.session().kept.close()
    sessions._sessions.clear()
    said = branched("%history")
    assert "history · 3 runs on 2 branches" in said
    assert "The next prompt begins a new conversation." in said
    assert prompts() == []
    assert branched("%history use 3").startswith("The next prompt follows run 3 (“three”).")
    assert prompts() == ["one", "three"]


def test_another_session_is_named_and_not_made_by_asking(answer):
    harness_nb.session("b c").model = scripted("Hi.")
    answer('%agent --session "b c" hello')
    said = answer('%history --session "b c"')
    assert "session b c" in said
    assert '%history --session "b c" use NUMBER' in said
    assert answer('%history --session "b c" undo') == (
        'The next prompt begins a new conversation; run 1 is set aside. To take this back: %history --session "b c" use 1.'
    )
    with pytest.raises(UsageError, match="No session is called `nobody`"):
        answer("%history --session nobody")
    assert "nobody" not in sessions.session_names()


@pytest.mark.parametrize("at", ["", "yesterday", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_run_whose_time_is_none_is_told_without_it(branched, at):
    for run in harness_nb.session().kept.history.runs.values():
        run.at = at
    assert "1  one\n       done in 1 turn · In [1]\n" in Told(harness_nb.session()).text()


def test_the_drawing_holds_hostile_prompts_and_answers_as_text_and_stays_small(answer):
    session = harness_nb.session()
    session.model = scripted(*["</pre><script>alert(1)</script>\x1b[31m" * 400] * 70)
    for n in range(70):
        session.run_blocking(f"<img src=x onerror=alert({n})>" * 50, show=False)
    html, text = Told(session).html(), Told(session).text()
    assert "<script" not in html
    assert "<img" not in html
    assert "\x1b" not in html + text
    assert len(html) < 90_000
    assert html.count('class="hnb-row"') == LISTED
    assert "30 earlier runs not listed here" in text


# Going back


def test_undo_says_what_is_set_aside_and_how_to_take_that_back(answer):
    answer("%agent one\n%agent two")
    said = answer("%history undo")
    assert (
        said
        == "The next prompt follows run 1 (“one”); run 2 is set aside. To take this back: %history use 2."
    )
    assert prompts() == ["one"]
    answer("%history use 2")
    assert prompts() == ["one", "two"]
    answer("%history undo\n%history undo")
    with pytest.raises(UsageError, match="no run to take back"):
        answer("%history undo")


def test_undo_says_that_what_tools_did_stands(shell, answer):
    @tool(effects={"read"})
    def look() -> str:
        """Look."""
        return "seen"

    talk = harness_nb.session()
    talk.tools, talk.model = [look], scripted(say(call("look")), "Seen.")
    answer("%agent look")
    assert answer("%history undo").endswith(" What its tools did stands.")


def test_use_says_what_the_next_prompt_follows_and_what_is_set_aside(branched):
    said = branched("%history use 2")
    assert (
        said
        == "The next prompt follows run 2 (“two”); run 3 is set aside. To take this back: %history use 3."
    )
    assert prompts() == ["one", "two"]
    assert branched("%history use 2") == "The conversation is at run 2 already. Nothing has changed."
    assert branched("%history use 1").startswith("The next prompt follows run 1 (“one”); run 2 is set aside.")


def test_a_run_that_was_left_unfinished_says_how_to_go_on_with_it(answer):
    talk = harness_nb.session()
    talk.model = scripted(*[say(call("nothing"))] * 9)
    answer("%agent --turns 1 count")
    answer("%agent --new other")
    assert "That run was left unfinished (stopped at the turn limit): %resume goes on with it." in answer(
        "%history use 1"
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("use", "Write `%history use NUMBER`, with the number of one run"),
        ("use 0", "There is no run 0: runs are numbered 1 to 3"),
        ("use 9", "There is no run 9"),
        ("use x", "not `x`"),
        ("use ²", "not `²`"),
        (f"use {'9' * 5000}", "not `9999"),
        ("use 1 2", "not `1 2`"),
        ("undo 2", "`%history undo` takes nothing more"),
        ("undoo", "did you mean `undo`"),
        ("please", "`%history` knows no `please`"),
        ("--session", "`--session` needs a value"),
    ],
)
def test_bad_input_is_one_sentence_and_changes_nothing(branched, line, why):
    before = harness_nb.session().kept.history.head, prompts()
    with pytest.raises(UsageError) as fault:
        branched(f"%history {line}")
    assert why in str(fault.value)
    assert str(fault.value).endswith("Nothing has changed.")
    assert len(str(fault.value)) < 200
    assert (harness_nb.session().kept.history.head, prompts()) == before


@given(st.text(st.characters(exclude_characters="\n")))
def test_whatever_is_typed_is_ours_ipythons_or_refused_in_a_sentence(text):
    try:
        wanted = history_read(text)
    except UsageError as fault:
        assert str(fault).endswith("Nothing has changed.")  # noqa: PT017 - either may be
    else:
        assert wanted is None or wanted.command in {*COMMANDS, ""}


def test_while_a_run_is_at_work_it_says_so_and_nothing_changes(shell, answer):
    @tool(effects={"read"})
    def go_back() -> str:
        """Try to go back."""
        for line in ("undo", "use 1"):
            with pytest.raises(
                UsageError, match="is at work on a prompt: wait for it or stop it first"
            ) as fault:
                ran(shell, f"%history {line}")
            said.append(str(fault.value))
        said.append(answer("%history"))
        return "tried"

    said = []
    answer("%agent one")
    talk = harness_nb.session()
    talk.tools, talk.model = [go_back], scripted(say(call("go_back")), "Done.")
    ran(shell, "%agent go back")
    assert len(said) == 3
    assert " at work · " in said[-1]
    assert prompts() == ["one", "go back"]


# Help and completion


def test_help_names_every_command_and_ipythons(shell, answer):
    assert answer("%history help") == history_usage()
    assert all(f"%history {name}" in history_usage() for name in COMMANDS)
    assert "%hist" in history_usage()
    assert shell.find_line_magic("history").__doc__ == history_usage()


def completed(text):
    token = text.rsplit(" ", 1)[-1]
    found = commands_matcher(CompletionContext(token, text, len(text), 0, 100))
    return [choice.text for choice in found["completions"]]


def test_tab_completes_commands_sessions_and_the_numbers_of_other_branches(branched):
    assert completed("%history ") == sorted(["--session", *COMMANDS])
    assert completed("%history u") == ["undo", "use"]
    assert completed("%history use ") == ["2"]
    assert completed("%history --session ") == ["main"]
    assert completed("%history -g o") == completed("%history undo ") == []


def test_tab_opens_no_journal(answer):
    assert completed("%history use ") == []
    assert not harness_nb.session().kept.opened
    assert not Kept("main").begun
