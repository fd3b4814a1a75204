"""`harness-nb sessions`, as a person meets it: what it lists, shows, writes and deletes, and what it refuses."""

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from harness_nb import call, say, scripted, tool
from harness_nb.agent import Agent
from harness_nb.cli import commands
from harness_nb.errors import RunStop, UsageError
from harness_nb.jupyter.export import FORMATS
from harness_nb.jupyter.sessions_told import Pruning, Shelf, listed, prune, pruning, seconds, shown
from harness_nb.ops.journal import Journal, Origin
from harness_nb.ops.jsonl import JsonlStore
from harness_nb.ops.records import Record
from harness_nb.ops.sql import SqlStore
from harness_nb.safety.approvals import permitted, unchanged
from harness_nb.safety.permission import policy
from harness_nb.seams import Run
from harness_nb.tools import Toolbox

FOLDER = ".harness_nb/sessions"


def command(*arguments, where, typed=""):
    """A command in this process: what it prints."""
    done = CliRunner().invoke(commands, ["sessions", *arguments, "--where", str(where)], input=typed)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def sessions(*arguments, cwd, typed="", **surroundings):
    command = [sys.executable, "-m", "harness_nb.cli", "sessions", *arguments]
    usual = {name: value for name, value in os.environ.items() if name != "HARNESS_NB_STORE"}
    env = {**usual, **surroundings}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, input=typed, env=env, encoding="utf-8"
    )


@tool(effects={"write"})
def write(x: str) -> str:
    """Write."""
    return x


async def later(question, run):
    raise RunStop("suspended", "It waits.")


def lived(store, name, *turns, prompt="Why?", after=None):
    journal = Journal(store.open(name))
    parent = journal.history.head if after is None else after
    journal.origin = Origin(prompt, parent=parent)
    agent = Agent(scripted(*turns), Toolbox([write]), gates=(permitted(policy("ask"), later), unchanged))
    asyncio.run(agent.run(prompt, Run(journal.history.transcript(parent), journal)))
    journal.close()
    return journal.history.head


def aged(store, name, days):
    """A session that has not changed for so many days."""
    at = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")
    log = store.open(name)
    log.append(Record("run_started", {"parent": "", "prompt": name, "model": "m", "limit": 1}, "r", at))
    ended = {"reason": "done", "detail": "", "turns": 1, "seconds": 0, "waited": 0}
    log.append(Record("run_ended", ended, "r", at))
    log.close()


@pytest.fixture
def store(tmp_path):
    return JsonlStore(tmp_path / FOLDER)


@pytest.fixture
def shelf(tmp_path):
    return Shelf(str(tmp_path / FOLDER))


def rows(text):
    """By name, what the table says of each session."""
    return {line.split()[0]: line for line in text.splitlines()[2:]}


def cut_off(store, name):
    """A session whose process died while its run was at work."""
    log = store.open(name)
    log.append(Record("run_started", {"parent": "", "prompt": name, "model": "m", "limit": 1}, "r"))
    log.close()


def test_the_list_says_how_each_session_ended_and_how_long_it_is(store, shelf):
    lived(store, "main", "So.")
    lived(store, "main", "Therefore.")
    lived(store, "asked", say(call("write", x="1")))
    cut_off(store, "cut")
    busy = store.open("busy")
    busy.append(Record("run_started", {"parent": "", "prompt": "Go"}, "r"))
    aged(store, "old", 40)
    store.open("new").close()
    text = listed(shelf)
    busy.close()
    told = rows(text)
    assert text.startswith("6 sessions in ")
    assert list(told)[-1] == "old"
    ends = {
        "main": "done",
        "asked": "waits for you",
        "cut": "cut off",
        "busy": "at work",
        "new": "nothing yet",
    }
    assert all(end in told[name] for name, end in ends.items())
    assert "40 days ago" in told["old"]
    assert told["main"].split()[-4:-2] == ["2", "4"]


def test_looking_at_a_session_leaves_its_file_as_it_is(store, shelf, tmp_path):
    cut_off(store, "main")
    path = tmp_path / FOLDER / "main.jsonl"
    path.write_bytes(path.read_bytes() + b'{"seq": 3, "at')
    before = path.read_bytes()
    listed(shelf)
    text = shown(shelf.read("main"))
    assert "Line 3 is cut off" in text
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_session_that_cannot_be_read_does_not_hide_the_others(store, shelf, tmp_path):
    lived(store, "main", "So.")
    (tmp_path / FOLDER / "junk.jsonl").write_bytes(b"\x00\xff junk\n" * 3)
    assert "done" in rows(listed(shelf))["main"]


def test_a_session_is_shown_as_a_tree_and_a_conversation(store, shelf):
    one = lived(store, "main", "It is one.", prompt="One?")
    lived(store, "main", "It is two.", prompt="Two?")
    lived(store, "main", "It is 22.", prompt="Two again?", after=one)
    text = shown(shelf.read("main"))
    tree, conversation = text.split("── run 1", 1)
    assert [line.split("  (")[0].strip() for line in tree.splitlines() if "done in" in line] == [
        "1  One?",
        "2    set aside: Two?",
        "3  Two again?",
    ]
    assert "(done in 1 turn, under 1 s)   ← the conversation stands here" in tree
    assert conversation.index("It is one.") < conversation.index("It is 22.")
    assert "── run 3 " in conversation
    assert "It is two." not in conversation


def test_what_was_said_cannot_act_on_the_terminal(store, tmp_path):
    name, where = "a\x1b[2J", tmp_path / FOLDER
    lived(store, name, "So \x1b]0;t\x07.", prompt="\x1b[2J\u202eWhy?\r")
    for told in (
        command("list", where=where),
        command("show", name, where=where),
        command("prune", "--keep", "0", where=where),
        *(command("export", name, "--format", form, where=where) for form in FORMATS),
        command("prune", "--keep", "0", "--yes", where=where),
        sessions("show", name, cwd=tmp_path).stderr,
    ):
        assert told
        assert not {"\x1b", "\x07", "\u202e", "\r"} & set(told)


def test_where_nothing_is_kept_a_sentence_says_so(tmp_path):
    done = sessions("list", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("No sessions are kept in .harness_nb/sessions yet.")
    assert len(done.stdout.splitlines()) == 1
    off = sessions("list", cwd=tmp_path, HARNESS_NB_STORE="off")
    assert off.returncode == 1
    assert off.stderr.startswith("harness-nb: No sessions are kept: HARNESS_NB_STORE says `off`.")


@pytest.mark.parametrize("wrong", ["main", "05_streming.main", "zzz"])
def test_a_wrong_name_names_near_ones(store, shelf, wrong):
    lived(store, "05_streaming.main", "So.")
    with pytest.raises(UsageError) as told:
        shelf.read(wrong)
    assert f"No session is called `{wrong}` in " in str(told.value)
    assert str(told.value).endswith(": `05_streaming.main`.")


def test_another_store_is_named_by_an_option_or_the_environment(tmp_path):
    lived(JsonlStore(tmp_path / "other"), "there", "So.")
    assert "there" in command("list", where=tmp_path / "other")
    assert "there" in sessions("list", cwd=tmp_path, HARNESS_NB_STORE="other").stdout


def test_an_export_is_printed_or_written_to_a_new_file(store, tmp_path):
    lived(store, "main", "Sö.")
    printed = sessions("export", "main", cwd=tmp_path)
    assert printed.stdout.startswith("<!doctype html>"), printed.stderr
    path, where = tmp_path / "x.html", tmp_path / FOLDER
    assert command("export", "main", "--output", str(path), where=where).startswith("Written to ")
    assert path.read_text("utf-8") == printed.stdout
    lines = command("export", "main", "--format", "jsonl", where=where)
    assert lines.encode() == (where / "main.jsonl").read_bytes()
    with pytest.raises(UsageError, match="is there already"):
        command("export", "main", "--output", str(path), where=where)


@pytest.mark.parametrize("age", [("30d", 2_592_000), ("12h", 43_200), (" 1.5w ", 907_200), ("0m", 0)])
def test_an_age_is_a_number_and_a_unit(age):
    assert seconds(age[0]) == age[1]


@pytest.mark.parametrize("age", ["30", "d", "-1d", "1y", "1e9d", "30 days", "\u0661d", ""])
def test_what_is_no_age_is_refused(age):
    with pytest.raises(UsageError, match="Nothing was deleted"):
        seconds(age)


def test_old_sessions_go_the_newest_stay_and_so_does_one_at_work(store, shelf):
    for days in (50, 40, 35, 5):
        aged(store, f"s{days}", days)
    at_work = store.open("s40")

    def names(infos):
        return [info.name for info in infos]

    chosen = pruning(shelf, "30d", None)
    assert (names(chosen.going), names(chosen.at_work)) == (["s35", "s50"], ["s40"])
    assert names(pruning(shelf, "30d", 2).going) == ["s50"]
    assert names(pruning(shelf, "", 1).going) == ["s35", "s50"]
    assert "At work, so kept: `s40`." in chosen.told()
    assert "2 sessions would be deleted, " in chosen.told()
    assert list(prune(shelf, chosen))[-1].startswith("Deleted 2 sessions, ")
    assert sorted(names(shelf.infos())) == ["s40", "s5"]
    at_work.close()


def test_a_session_that_begins_to_work_after_the_question_stays(store, shelf):
    aged(store, "s50", 50)
    chosen = pruning(shelf, "30d", None)
    at_work = store.open("s50")
    said = list(prune(shelf, chosen))
    at_work.close()
    assert said == ["`s50` was kept: it is at work.", "Deleted 0 sessions, 0 bytes."]
    assert len(shelf.infos()) == 1


def test_without_an_age_or_a_number_nothing_is_deleted(shelf):
    with pytest.raises(UsageError, match="--older-than 30d"):
        pruning(shelf, "", None)


def test_a_session_whose_time_cannot_be_read_counts_as_no_age(store, shelf):
    log = store.open("odd")
    log.append(Record("notice", {"text": "x"}, "r", "once upon a time"))
    log.close()
    assert pruning(shelf, "0d", None) == Pruning(())


def test_prune_asks_first_unless_it_is_told_not_to(store, tmp_path):
    where, old = tmp_path / FOLDER, ("prune", "--older-than", "30d")
    aged(store, "old", 50)
    for answer in ("", "n\n"):
        assert "1 session would be deleted, " in command(*old, where=where, typed=answer)
        assert (where / "old.jsonl").exists()
    assert "Deleted 1 session, " in command(*old, where=where, typed="y\n")
    aged(store, "old", 50)
    assert "Deleted 1 session, " in command(*old, "--yes", where=where)
    assert not any(where.iterdir())
    assert command(*old, where=where) == "There is nothing to delete.\n"


def test_a_database_is_listed_shown_and_pruned(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    store = SqlStore(url)
    lived(store, "main", "So.")
    aged(store, "old", 50)
    cut_off(store, "recent")
    shelf = Shelf(url)
    told = rows(listed(shelf))
    assert "done" in told["main"]
    assert "not finished" in told["recent"]
    assert "So." in shown(shelf.read("main"))
    assert [info.name for info in pruning(shelf, "0d", None).at_work] == ["recent"]
    list(prune(shelf, pruning(shelf, "30d", None)))
    assert sorted(rows(listed(shelf))) == ["main", "recent"]


def test_a_password_is_told_nowhere():
    assert Shelf("postgresql://me:secret@127.0.0.1:1/kept").place == "postgresql://127.0.0.1:1/kept"
    assert Shelf("postgresql://127.0.0.1:1/kept?password=secret").place == "postgresql://127.0.0.1:1/kept"
