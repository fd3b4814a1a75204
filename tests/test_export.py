"""A kept session as a file: what it tells, that nothing in it acts, and that its records stay what they were."""

import asyncio
import dataclasses
import re

import pytest
from hypothesis import given, settings, strategies as st
from markdown_it import MarkdownIt
from test_record import ATTRIBUTES, ELEMENTS, PAYLOADS, Elements

from harness_nb import call, say, scripted, tool
from harness_nb.agent import Agent
from harness_nb.encoding import encode
from harness_nb.errors import ProviderError, UsageError
from harness_nb.events import Notice
from harness_nb.jupyter.export import as_document, as_lines, as_page, exported, keep
from harness_nb.jupyter.history_tree import numbers
from harness_nb.jupyter.reading import Session, label, read, steps
from harness_nb.jupyter.record import as_html
from harness_nb.jupyter.sessions_told import shown
from harness_nb.messages import Decision, Message, Text, Thinking, ToolCall
from harness_nb.ops.history import History
from harness_nb.ops.journal import Journal, Origin
from harness_nb.ops.jsonl import JsonlStore
from harness_nb.ops.records import Record
from harness_nb.ops.sql import SqlStore
from harness_nb.safety.approvals import Approvals, permitted, unchanged
from harness_nb.safety.permission import policy
from harness_nb.seams import Run
from harness_nb.tools import Toolbox

PAGE = {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "section", "footer", "ol", "li"}
PAGE_ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "id", "open"}


@pytest.fixture
def store(tmp_path):
    return JsonlStore(tmp_path / "sessions")


def no(question, run):
    return question.deny(question.call.arguments.get("x", ""))


def lived(store, prompt, *turns, name="main", after=None, tools=(), model=None):
    """Run once for real and keep it, `after` another run than the head; return the run's id."""
    journal = Journal(store.open(name))
    parent = journal.history.head if after is None else after
    journal.origin = Origin(prompt, parent=parent)
    gates = permitted(policy("ask"), no, Approvals()), unchanged
    agent = Agent(model or scripted(*turns), Toolbox(tools), gates=gates)
    asyncio.run(agent.run(prompt, Run(journal.history.transcript(parent), journal)))
    journal.close()
    return journal.history.head


def branched(store):
    """One, then two that was set aside with what followed it, then another two, which failed, and a third."""
    one = lived(store, "One?", "It is one.")
    lived(store, "Two?", "It is two.")
    lived(store, "Two and a half?", "It is a half.")
    two = lived(store, "Two again?", "It is 22.", after=one)
    lived(store, "Three?", ProviderError("Out of order."))
    lived(store, "Four?", "It is four.", after=two)
    return read(store, "main")


def test_runs_on_the_way_stand_one_below_the_other_and_what_was_set_aside_before_what_took_its_place(store):
    told = [(label(step.run), step.number, step.depth) for step in branched(store).steps]
    assert told == [
        ("One?", 1, 0),
        ("Two?", 2, 1),
        ("Two and a half?", 3, 1),
        ("Two again?", 4, 0),
        ("Three?", 5, 1),
        ("Four?", 6, 0),
    ]


def test_runs_have_the_numbers_that_history_gives_them_and_decisions_have_none(store):
    branched(store)
    log = store.open("main")
    journal = Journal(log)
    journal.go_to(journal.history.path()[0].id)
    journal.decide(Decision("you", "Hidden for now."))
    journal.close()
    session = read(store, "main")
    assert {step.run.id: step.number for step in session.runs} == numbers(session.history)
    assert [step.run.id for step in session.steps if not step.number] == [session.history.head]
    assert "6 runs, 5 of them set aside" in shown(session)
    assert "── decision · " in shown(session)
    for heading in ("## Run 1 · ", "### Run 4, set aside · ", "## Decision · "):
        assert f"\n{heading}" in as_document(session)
    assert "<strong>Run 4, set aside</strong>" in as_page(session)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=30), st.integers(0, 30))
def test_every_run_is_told_once_after_the_one_that_it_follows(parents, head):
    """Whatever the tree: run n follows an earlier one, or none."""
    records = [
        Record("run_started", {"parent": "" if p % (n + 1) == n else f"r{p % (n + 1)}"}, f"r{n}")
        for n, p in enumerate(parents)
    ]
    history = History([*records, Record("head", {"to": f"r{head}"})])
    told = [step.run.id for step in steps(history)]
    assert sorted(told) == sorted(history.runs)
    assert all(not (p := history.runs[r].parent) or told.index(p) < told.index(r) for r in told)
    assert [step.run for step in steps(history) if step.here] == history.path()


def test_a_deep_session_can_be_told():
    records = [Record("run_started", {"parent": f"r{n - 1}" if n else ""}, f"r{n}") for n in range(3000)]
    assert len(steps(History([*records, Record("head", {"to": ""})]))) == 3000


def test_the_page_tells_all_runs_as_the_notebook_does_and_folds_what_was_set_aside(store):
    session = branched(store)
    page = as_page(session)
    words = Elements(page).words
    places = [
        words.rindex(part)
        for part in ("It is one.", "It is a half.", "It is 22.", "Out of order.", "It is four.")
    ]
    assert places == sorted(places)
    assert "6 runs, 3 of them set aside, 6 messages." in words
    for step in session.steps:
        view = session.view(step)
        view.continues = False
        assert as_html(view) in page
    assert page.count('<details class="aside">') == 2
    folded = re.findall(r'<details class="aside">.*?</div></details>\n<section', page, re.DOTALL)
    assert ["a half." in part for part in folded] == [True, False]
    assert not any("It is 22." in part for part in folded)


def test_the_list_of_runs_leads_to_each(store):
    page = as_page(branched(store))
    assert re.findall(r'href="#(run-[0-9]+)"', page) == re.findall(r'id="(run-[0-9]+)"', page) != []


@tool(effects={"write"})
def write(x: str) -> str:
    """Write."""
    return x


def echoing(payload):
    @tool(effects={"read"})
    def echo(x: str) -> str:
        """Echo."""
        if x == "fail":
            raise OSError(payload)
        return payload

    return echo


def hostile(store, payload):
    """A session with the payload wherever text from outside can stand: for real, and in what only a journal could hold."""
    calls = (
        call("echo", x=payload),
        call("echo", x="fail"),
        call(payload, x=payload),
        ToolCall("", "echo", payload),
    )
    turns = say(Thinking(payload), payload, *calls, call("write", x=payload)), payload
    name = f"s {payload}"
    lived(store, payload, *turns, name=name, tools=[echoing(payload), write])
    lived(store, payload, ProviderError(payload), name=name)
    log = store.open(name)
    journal = Journal(log)
    journal.take_up(journal.history.head, payload)
    journal(Notice(payload))
    journal.close()
    session = read(store, name)
    aside = Record("run_started", {"parent": "", "prompt": payload, "model": payload}, payload, payload)
    more = dataclasses.replace(aside, run=f"{payload} more")  # so many that the page has a list of them
    return dataclasses.replace(session, records=[*session.records, aside, more], warnings=[payload])


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_in_the_page_acts(store, payload):
    page = as_page(hostile(store, payload))
    found = Elements(page)
    assert found.tags <= ELEMENTS | PAGE
    assert found.attributes <= ATTRIBUTES | PAGE_ATTRIBUTES
    assert all(link.startswith(("http://", "https://", "#run-")) for link in found.links)
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    "payload", ["<script>top.x=1</script>", "&lt;b&gt;", '" onmouseover="x', "</style></title><b>"]
)
def test_hostile_text_can_be_read_as_it_stands_in_the_page(store, payload):
    words = Elements(as_page(hostile(store, payload))).words
    assert words.count(payload) > 10
    assert f"Session s {payload}" in words


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_in_the_markdown_acts_even_where_raw_html_is_allowed(store, payload):
    written = as_document(hostile(store, payload))
    found = Elements(MarkdownIt("commonmark", {"html": True}).enable("table").render(written))
    assert found.tags <= ELEMENTS | {"summary", "details"}
    assert all(link.startswith(("http://", "https://")) for link in found.links)


ODD = ["\udce9.txt", "\ud800", "a\0b", "\x1b[2J\x1b]0;t\x07", "10%\r50%\r100%", "\u202egnp.exe", "\U0001f378"]


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_odd_characters_are_kept_and_shown_and_act_nowhere(tmp_path, kind):
    where = tmp_path / "s"
    store = JsonlStore(where) if kind == "jsonl" else SqlStore(f"sqlite:///{where}.db")
    odd = " ".join(ODD)
    lived(store, odd, say(call("echo", x="1"), call("echo", x="fail")), odd, tools=[echoing(odd)])
    session = read(store, "main", where if kind == "jsonl" else None)
    for form in ("html", "markdown"):
        text = exported(session, form)
        assert text.encode().decode() == text
        assert not {"\x1b", "\x07", "\r", "\0", "\u202e"} & set(text)
        assert "␛" in text
        assert "\U0001f378" in text
        assert len(text) < 60_000
    lines = as_lines(session)
    assert not {"\x1b", "\x07", "\r", "\0", "\u202e", "\u2028"} & set(lines)
    lines.encode()


def test_records_come_out_of_a_database_as_a_folder_keeps_them(tmp_path):
    database, folder = SqlStore(f"sqlite:///{tmp_path}/s.db"), tmp_path / "folder"
    lived(database, "Why?", say(call("echo", x="1")), "So.", tools=[echoing("one")])
    session = read(database, "main")
    folder.mkdir()
    (folder / "main.jsonl").write_text(as_lines(session), encoding="utf-8")
    again = read(JsonlStore(folder), "main", folder)
    assert again.records == session.records
    assert again.warnings == ()
    assert as_page(again) == as_page(session)


def test_the_records_of_a_folder_come_out_byte_for_byte(store, tmp_path):
    branched(store)
    assert as_lines(read(store, "main")).encode() == (tmp_path / "sessions" / "main.jsonl").read_bytes()


@pytest.mark.parametrize(
    "open_end", ["```\ncode", "~~~~py\ncode", "- item\n  ```\n  code", "> ```\n> code", "fine"]
)
def test_a_block_of_code_that_a_model_left_open_ends_with_its_run(store, open_end):
    lived(store, "One?", open_end)
    lived(store, "Two?", "Second answer.")
    tokens = MarkdownIt("commonmark", {"html": True}).parse(as_document(read(store, "main")))
    headings = [tokens[n + 1].content for n, token in enumerate(tokens) if token.type == "heading_open"]
    assert [heading.split(" · ")[0] for heading in headings] == ["Session main", "Run 1", "Run 2"]


def test_from_a_file_nobody_is_told_to_go_on(store):
    lived(store, "One?", ProviderError("Out of order."))
    session = read(store, "main")
    for form in ("html", "markdown"):
        assert "run this again" not in exported(session, form)


def test_an_unknown_format_names_the_nearest(store):
    lived(store, "One?", "It is one.")
    session = read(store, "main")
    for wrong, right in (("htm", "html"), ("md", "markdown"), ("json", "jsonl"), ("HTML", "html")):
        with pytest.raises(UsageError, match=f"`{wrong}`: did you mean `{right}`"):
            exported(session, wrong)
    with pytest.raises(UsageError, match="there are `html`, `markdown`, `jsonl`"):
        exported(session, "zzz")


def test_a_file_that_is_there_stays_as_it_is(tmp_path):
    path = tmp_path / "x.html"
    assert keep("one\r\né", path) == f"Written to {path}, 7 bytes."
    assert path.read_bytes() == b"one\r\n\xc3\xa9"
    with pytest.raises(UsageError, match="is there already"):
        keep("two", path)
    with pytest.raises(UsageError, match="can't be written"):
        keep("two", tmp_path / "none" / "x.html")
    assert path.read_bytes() == b"one\r\n\xc3\xa9"


def test_a_session_without_runs_and_a_damaged_one_can_be_exported():
    empty = Session("main", [Record("session", {"name": "main"})])
    odd = [Record("message", encode(Message("assistant", (Text("Hi."),))), "r", at="yesterday")]
    for session in (empty, Session("x", []), Session("x", odd)):
        assert all(exported(session, form) is not None for form in ("html", "markdown", "jsonl"))
    assert "Hi." in as_page(Session("x", odd))
