"""Cells that are run again, undo and switching: which conversation the model sees then, and what the cell says of its earlier versions."""

import os
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

import harness_nb
from harness_nb import Session, UsageError, call, say, scripted, tool
from harness_nb.errors import RunStop
from harness_nb.jupyter import session as sessions
from harness_nb.jupyter.defaults import defaults
from harness_nb.jupyter.history_tree import Tree, spans
from harness_nb.jupyter.kept import where
from harness_nb.jupyter.record import as_html, as_markdown, as_text, bundle
from harness_nb.messages import Message, Text, Transcript
from harness_nb.ops.allowance import Allowance
from harness_nb.ops.store import open_store


class Notebook:
    """Runs cells in an IPython as a front end does that names them; without a name, as one that doesn't."""

    def __init__(self, shell):
        self.shell = shell
        self.executions = 0

    def run(self, cell, code):
        self.executions += 1
        metadata = {"cellId": cell} if cell else {}
        message = {"header": {"msg_id": f"e{self.executions}"}, "metadata": metadata}
        self.shell.get_parent = lambda: message
        done = self.shell.run_cell(code, store_history=True)
        done.raise_error()
        return done.result


@pytest.fixture
def notebook(shell):
    hearing()
    yield Notebook(shell)
    for session in sessions._sessions.values():
        session.kept.close()


def hearing(session=None):
    """Have a session's model say what it was asked before, so that an answer shows which branch it saw."""
    session = session or harness_nb.session()
    session.model = scripted(*[heard] * 99)


def heard(request):
    return " > ".join(m.text for m in request.messages if m.role == "user")


def asked(session=None):
    return [m.text for m in (session or harness_nb.session()).transcript.messages if m.role == "user"]


def restarted():
    """Do what a restart of the kernel does to the sessions: what is kept of them is all that is left."""
    for session in sessions._sessions.values():
        session.kept.close()
    sessions._sessions.clear()
    hearing()


def notices(result):
    return [s.text for s in result.view.segments if getattr(s, "kind", "") == "notice"]


def tree(session=None):
    found = Tree((session or harness_nb.session()).kept.history)
    return [(row.number, row.depth, row.here, row.head, row.ends) for row in found.rows]


# Running a cell again


def test_a_cell_that_is_run_again_goes_back_to_before_its_earlier_run(notebook):
    for cell, prompt in zip("abc", ("one", "two", "three"), strict=True):
        notebook.run(cell, f"%agent {prompt}")
    again = notebook.run("b", "%agent 2")
    assert again.text == "one > 2"
    assert notices(again) == [
        "Version 2 of this cell: runs 2 and 3 are set aside, and `%history use 3` goes back."
    ]
    assert notebook.run("c", "%agent 3").text == "one > 2 > 3"
    assert tree() == [
        (1, 0, True, False, False),
        (2, 1, False, False, False),
        (3, 1, False, False, True),
        (4, 0, True, False, False),
        (5, 0, True, True, True),
    ]


def test_a_cell_that_is_run_three_times_keeps_each_version(notebook):
    notebook.run("a", "%agent one")
    for prompt in ("two", "zwei"):
        notebook.run("b", f"%agent {prompt}")
    third = notebook.run("b", "%agent deux")
    assert third.text == "one > deux"
    assert third.view.versions.words == "version 3 of 3"
    assert [(e.version, e.run, e.prompt, e.answer) for e in third.view.versions.earlier] == [
        (2, 3, "zwei", "one > zwei"),
        (1, 2, "two", "one > two"),
    ]
    assert notices(third) == ["Version 3 of this cell: run 3 is set aside, and `%history use 3` goes back."]
    assert [row.version for row in Tree(harness_nb.session().kept.history).rows] == [
        (1, 1),
        (1, 3),
        (2, 3),
        (3, 3),
    ]


def test_two_prompts_of_one_cell_are_replaced_together_each_by_its_own_next_version(notebook):
    notebook.run("a", "%agent one\n%agent two")
    assert asked() == ["one", "two"]
    last = notebook.run("a", "%agent eins\n%agent zwei")
    assert last.text == "eins > zwei"
    assert [(e.version, e.prompt) for e in last.view.versions.earlier] == [(1, "two")]
    assert notices(last) == []  # the first of the two has said it
    assert notebook.run("a", "%agent eins\n%agent zwei\n%agent drei").view.versions.earlier == []


def test_without_the_names_of_cells_a_prompt_follows_what_was_said(notebook):
    notebook.run("", "%agent one")
    again = notebook.run("", "%agent one")
    assert again.text == "one > one"
    assert again.view.versions.earlier == ()


def test_rerun_append_has_a_cell_follow_itself(notebook):
    notebook.run("a", "%config AgentMagics.rerun = 'append'")
    notebook.run("b", "%agent one")
    again = notebook.run("b", "%agent one")
    assert again.text == "one > one"
    assert again.view.versions.earlier == ()


def test_each_session_has_branches_of_its_own(notebook):
    hearing(harness_nb.session("b"))
    notebook.run("a", "%agent one")
    notebook.run("a", "%agent --session b uno")
    again = notebook.run("a", "%agent --session b due")
    assert again.text == "due"
    assert '`%history --session "b" use 1` goes back' in notices(again)[0]
    assert asked() == ["one"]
    assert asked(harness_nb.session("b")) == ["due"]


def test_a_fork_leaves_what_it_follows_a_branch(notebook):
    notebook.run("a", "%agent one")
    notebook.run("b", "%agent --fork two")
    assert tree() == [(1, 0, True, False, True), (2, 0, True, True, True)]
    again = notebook.run("b", "%agent --fork zwei")
    assert again.text == "one > zwei"
    assert notices(again) == [
        "Version 2 of this cell: run 2 stays a branch of its own, and `%history use 2` goes back."
    ]


def test_a_new_conversation_in_a_cell_that_is_run_again_says_what_it_sets_aside(notebook):
    notebook.run("a", "%agent one")
    notebook.run("b", "%agent --new two")
    again = notebook.run("b", "%agent --new zwei")
    assert again.text == "zwei"
    assert asked() == ["zwei"]
    assert "run 2 is set aside" in notices(again)[0]
    notebook.run("c", "%agent --new")
    assert notebook.run("a", "%agent one").text == "one"  # in the new conversation, which it begins


# A transcript that was set by hand


def test_a_conversation_that_was_set_comes_before_the_cells_earlier_run(notebook):
    session = harness_nb.session()
    notebook.run("a", "%agent one")
    session.transcript = Transcript([Message("user", (Text("set"),)), Message("assistant", (Text("yes"),))])
    assert notebook.run("a", "%agent two").text == "set > two"
    session.transcript = Transcript([Message("user", (Text("other"),)), Message("assistant", (Text("yes"),))])
    assert notebook.run("a", "%agent two").text == "other > two"
    titles = [row.title for row in Tree(session.kept.history).rows]
    assert titles.count("Set from Python: 2 messages") == 2
    assert notebook.run("a", "%agent three").text == "other > three"


def test_an_empty_one_begins_anew(notebook):
    notebook.run("a", "%agent one")
    harness_nb.session().transcript = Transcript()
    assert notebook.run("a", "%agent two").text == "two"


def test_one_that_was_set_is_kept_when_a_branch_is_chosen(notebook):
    session = harness_nb.session()
    notebook.run("a", "%agent one")
    run = session.kept.history.head
    session.transcript = Transcript([Message("user", (Text("set"),)), Message("assistant", (Text("yes"),))])
    session.use(run)
    assert asked() == ["one"]
    kept = next(row for row in Tree(session.kept.history).rows if row.title.startswith("Set from Python"))
    session.use(kept.run.id)
    assert asked() == ["set"]
    with pytest.raises(UsageError, match="no run to take back"):
        session.undo()


# Undo and switching


def test_undo_goes_down_to_nothing_and_says_so_then(notebook):
    session = harness_nb.session()
    for cell, prompt in zip("ab", ("one", "two"), strict=True):
        notebook.run(cell, f"%agent {prompt}")
    assert [session.undo().prompt, asked()] == ["two", ["one"]]
    assert [session.undo().prompt, asked()] == ["one", []]
    with pytest.raises(UsageError, match="This conversation has no run to take back"):
        session.undo()
    assert notebook.run("a", "%agent again").text == "again"
    assert [row.version for row in Tree(session.kept.history).rows if row.head] == [(2, 2)]


def test_a_cell_is_run_again_on_the_branch_that_was_chosen(notebook):
    session = harness_nb.session()
    for prompt in ("two", "zwei"):
        notebook.run("a", "%agent one")
        notebook.run("b", f"%agent {prompt}")
    notebook.run("c", "%agent three")
    old = next(run for run in session.kept.history.runs.values() if run.prompt == "two")
    session.use(old.id)
    assert notebook.run("d", "%agent four").text == "one > two > four"
    assert notebook.run("b", "%agent due").text == "one > due"
    assert notebook.run("c", "%agent three").text == "one > due > three"


def test_a_decision_between_runs_stays_on_its_branch(notebook):
    session = harness_nb.session()
    notebook.run("a", "%agent one")
    first = session.kept.history.head
    notebook.run("b", "%agent two")
    session.undo()
    session.context.pin(1)
    assert len(session.context.decisions) == 1
    assert notebook.run("b", "%agent zwei").text == "one > zwei"
    assert len(session.context.decisions) == 1
    old = next(run for run in session.kept.history.runs.values() if run.prompt == "two")
    session.use(old.id)
    assert len(session.context.decisions) == 0
    rows = Tree(session.kept.history).rows
    assert [row.number for row in rows] == [1, 3, 2]
    assert rows[0].run.id == first
    assert rows[0].goal != first  # with the pin, which came after it


# In the next kernel


def test_after_a_restart_a_cell_takes_the_place_that_it_had(notebook):
    for cell, prompt in zip("abc", ("one", "two", "three"), strict=True):
        notebook.run(cell, f"%agent {prompt}")
    restarted()
    again = notebook.run("b", "%agent zwei")
    assert again.text == "one > zwei"
    assert again.view.versions.words == "version 2 of 2"
    assert "runs 2 and 3 are set aside" in notices(again)[0]
    assert notebook.run("d", "%agent four").text == "one > zwei > four"


def test_after_a_restart_another_cell_begins_a_new_conversation(notebook):
    notebook.run("a", "%agent one")
    restarted()
    assert notebook.run("z", "%agent hello").text == "hello"
    assert notebook.run("a", "%agent one").text == "hello > one"


def test_after_a_restart_a_cell_of_an_older_conversation_has_what_came_before_it(notebook):
    for cell, prompt in zip("ab", ("one", "two"), strict=True):
        notebook.run(cell, f"%agent {prompt}")
    restarted()
    notebook.run("z", "%agent hello")
    restarted()
    assert notebook.run("b", "%agent zwei").text == "one > zwei"


def test_after_a_restart_a_cell_has_its_place_on_the_branch_that_was_chosen_last(notebook):
    for cell, prompt in zip("abab", ("one", "two", "eins", "zwei"), strict=True):
        notebook.run(cell, f"%agent {prompt}")
    session = harness_nb.session()
    session.use(next(run.id for run in session.kept.history.runs.values() if run.prompt == "two"))
    restarted()
    assert notebook.run("b", "%agent due").text == "one > due"


def test_after_a_restart_new_means_new_for_every_cell(notebook):
    notebook.run("a", "%agent one")
    notebook.run("b", "%agent two")
    restarted()
    notebook.run("z", "%agent --new")
    assert notebook.run("b", "%agent two").text == "two"


def test_after_a_restart_a_run_goes_on_with_the_model_that_was_chosen_for_it(notebook):
    before = notebook.run("a", "%agent --model local --tokens 10 Go").view.model
    restarted()
    result = notebook.run("b", "%resume --tokens 10")
    assert (result.reason, result.view.model) == ("budget", before)
    session = harness_nb.session()
    result = session.go_on_blocking(
        session.restore(), model=scripted("Hi.", name="other"), limits=Allowance(tokens=100_000)
    )
    assert result.text == "Hi."
    told = f"It was begun with {before}, and other goes on with it: `%resume --model NAME` asks another."
    assert told in notices(result)


def test_after_a_restart_no_journal_says_to_which_server_the_conversation_goes(notebook):
    notebook.run("a", "%agent --model chat:m@http://127.0.0.1:9/v1 --tokens 10 Go")
    restarted()
    result = notebook.run("b", "%resume --tokens 100000")
    assert (result.reason, result.text) == ("done", "Go")
    assert any(said.startswith("It was begun with m, and ") for said in notices(result))


def test_a_cell_whose_tool_was_cut_off_warns_of_it_when_it_is_run_again(notebook):
    @tool(effects={"write"})
    def pay() -> str:
        """Pay."""
        raise KeyboardInterrupt

    session = harness_nb.session()
    session.tools, session.mode, session.model = [pay], "auto", scripted(say(call("pay")))
    with pytest.raises(BaseException):  # noqa: B017, PT011 - whichever way the process ends
        notebook.run("a", "%agent pay")
    history = session.kept.history
    history.runs[history.head].reason = None  # as if the process had died there
    history.runs[history.head].finished.clear()
    hearing()
    assert (
        "This cell's earlier run was cut off while `pay` was at work, which may have had its effect."
        in notices(notebook.run("a", "%agent again"))
    )


def test_a_forked_process_keeps_a_journal_of_its_own(notebook):
    notebook.run("a", "%agent one")
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        session = harness_nb.session()
        said = session.run_blocking("two", show=False).text
        os.write(writing, f"{said}|{session.kept.place.split()[0]}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 1000) == b"one > two|main-2"
    assert asked() == ["one"]
    assert notebook.run("b", "%agent three").text == "one > three"


# A journal that is deleted while it is open

DELETED = "This session's journal was deleted or replaced; it goes on with the conversation so far, as main in kept/"


def test_a_session_whose_folder_was_deleted_goes_on_and_says_so_once(notebook):
    notebook.run("a", "%agent one")
    notebook.run("b", "%agent two")
    shutil.rmtree(where())
    after = notebook.run("c", "%agent three")
    assert (after.reason, after.text) == ("done", "one > two > three")
    [told] = notices(after)
    assert told.startswith(DELETED)
    assert notices(notebook.run("d", "%agent four")) == []
    restarted()
    notebook.run("", "%resume")
    assert asked() == ["one", "two", "three", "four"], "the new journal has it all"


@pytest.mark.parametrize("do", ["%history undo", "%history use 1"])
def test_going_back_where_the_journal_was_deleted_goes_back(notebook, do):
    notebook.run("a", "%agent one")
    notebook.run("b", "%agent two")
    shutil.rmtree(where())
    notebook.run("c", do)
    assert notebook.run("d", "%agent three").text == "one > three"


def test_resuming_where_the_journal_was_deleted_says_so(notebook, capsys):
    notebook.run("a", "%agent one")
    Path(where(), "main.jsonl").unlink()
    notebook.run("b", "%resume")
    assert capsys.readouterr().out.splitlines()[-1].startswith(DELETED)
    assert notebook.run("c", "%agent two").text == "one > two"


def test_a_journal_that_an_editor_saved_anew_goes_on_with_its_runs(notebook):
    notebook.run("a", "%agent one")
    path = Path(where(), "main.jsonl")
    Path("copy").write_bytes(path.read_bytes())
    Path("copy").replace(path)
    assert notices(notebook.run("b", "%agent two"))[0].startswith(DELETED)
    assert [run.prompt for run in harness_nb.session().kept.history.runs.values()] == ["one", "two"]


def test_a_session_that_was_deleted_from_a_database_goes_on(notebook, tmp_path):
    defaults.store = f"sqlite:///{tmp_path / 'kept.db'}"
    try:
        notebook.run("a", "%agent one")
        open_store(defaults.store).delete("main")
        after = notebook.run("b", "%agent two")
    finally:
        defaults.store = ""
    assert after.text == "one > two"
    assert notices(after)[0].startswith("This session's journal was deleted")


def test_a_run_whose_journal_is_deleted_meanwhile_ends_with_a_sentence_without_the_whole_path(notebook):
    def deletes(request):
        shutil.rmtree(where())
        return "Hello."

    harness_nb.session().model = scripted(deletes, heard)
    with pytest.raises(RunStop, match=r"/main.jsonl` was deleted or replaced while it was open") as raised:
        notebook.run("a", "%agent one")
    assert where() not in str(raised.value)
    assert "one > two" in notebook.run("b", "%agent two").text


# A session that many processes may write


def test_of_two_kernels_that_resume_one_run_at_once_one_goes_on(notebook, tmp_path, capsys):
    defaults.store = f"sqlite:///{tmp_path / 'kept.db'}"
    try:
        first = harness_nb.session()
        first.model = scripted(lambda _: first.stop() or "This is cut off.")
        notebook.run("a", "%agent one")
        restarted()
        other = Session()
        other.model = scripted("Never asked.")
        found = other.restore()
        harness_nb.session().model = scripted("Done.")
        assert notebook.run("b", "%resume").text == "Done."
        with pytest.raises(RunStop, match="Another process has gone on with this run"):
            other.go_on_blocking(found)
        assert other.model.requests == []
        again = other.restore()
        assert again.run is None
        assert again.told[0].endswith("The last one was done.")
        assert other.transcript.messages[-1].text == "Done."
        other.kept.close()
    finally:
        defaults.store = ""


# The record of a cell that was run again


class Words(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.tags, self.said = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.said += data


def test_the_record_says_which_version_it_is_and_folds_the_earlier_ones_below(notebook):
    hostile = "<script>alert(1)</script> two"
    notebook.run("a", f"%agent {hostile}")
    view = notebook.run("a", "%agent zwei").view
    read = Words(as_html(view))
    assert "script" not in read.tags
    for form in (read.said, as_text(view), as_markdown(view).replace("\\", "")):
        assert "Version 1 of this cell · run 1 · done in 1 turn" in form
        assert hostile in form
    assert "version 2 of 2" in read.said
    assert read.said.index("zwei") < read.said.index("Version 1 of this cell")


def test_many_long_versions_add_little_to_the_record(notebook):
    session = harness_nb.session()
    session.model = scripted(*["long " * 4_000] * 9)
    for _ in range(8):
        view = notebook.run("a", f"%agent {'why ' * 2_000}").view
    alone = as_html(view)
    once = as_html(notebook.run("b", f"%agent {'why ' * 2_000}").view)
    assert 0 < len(alone) - len(once) < 12_000
    assert "4 earlier versions more: " in Words(alone).said
    assert set(bundle(view)) >= {"text/html", "text/plain"}


def test_numbers_of_runs_read_as_a_person_says_them():
    assert spans([3]) == "run 3"
    assert spans([4, 3]) == "runs 3 and 4"
    assert spans([2, 3, 4, 7]) == "runs 2 to 4 and 7"
    assert spans([1, 3, 5]) == "runs 1, 3 and 5"
