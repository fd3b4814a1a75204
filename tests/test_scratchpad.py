"""Notes are files beside the session: bounded, private, found again, and nothing else is ever touched."""

import json
import os
import stat
import string
import tempfile

import pytest
from hypothesis import given, settings, strategies as st

from harness_nb.context.scratchpad import GUIDANCE, LARGEST, LONGEST, MOST, Scratchpad
from harness_nb.errors import ToolError
from harness_nb.messages import ToolCall
from harness_nb.safety.approvals import nobody, permitted
from harness_nb.safety.permission import policy
from harness_nb.seams import Run
from harness_nb.tools import Toolbox

LETTERS = frozenset(string.ascii_letters + string.digits + "-_")
KEYS = st.one_of(
    st.text(max_size=70),
    st.text(alphabet="./\\\0~ ab", max_size=12),
    st.text(alphabet=string.ascii_letters + "-_09", min_size=1, max_size=66),
)


async def call(pad, name, *gates, **arguments):
    dispatch = Toolbox(pad.tools).dispatch(*gates)
    return await dispatch(ToolCall("c1", name, json.dumps(arguments)), Run())


def below(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@settings(deadline=None)
@given(KEYS, st.text(min_size=1, max_size=50))
def test_no_key_leads_out_of_the_folder(tmp_path_factory, key, text):
    home = tmp_path_factory.mktemp("home")
    pad = Scratchpad(home / "notes")
    good = 1 <= len(key) <= 64 and set(key) <= LETTERS
    if not good or not text.strip():
        with pytest.raises(ToolError, match=r"is no key: use 1 to 64 letters|The note is empty"):
            pad.write(key, text)
        with pytest.raises(ToolError):
            pad.read(key)
        assert below(home) == []
        return
    pad.write(key, text)
    assert pad.read(key) == text.replace("\0", "␀")
    assert below(home) == sorted(["notes", "notes/.gitignore", f"notes/{key}.txt"])


@settings(deadline=None, max_examples=30)
@given(st.dictionaries(st.text(alphabet="abZ9-_", min_size=1, max_size=3), st.text("x日\r\n ", min_size=1)))
def test_the_list_is_what_was_written_last_in_order_of_keys(tmp_path_factory, notes):
    folder = tmp_path_factory.mktemp("notes")
    notes = {key: f"{text}." for key, text in notes.items()}
    for key, text in notes.items():
        Scratchpad(folder).write(key, "before")
        Scratchpad(folder).write(key, text)
    listed = Scratchpad(folder).list()
    assert [note.key for note in listed] == sorted(notes)
    assert {note.key: Scratchpad(folder).read(note.key) for note in listed} == notes


async def test_the_tools_write_read_and_list(tmp_path):
    pad = Scratchpad(tmp_path / "deep" / "notes")
    assert (await call(pad, "scratchpad_list")).text == "There are no notes yet."
    said = await call(pad, "scratchpad_write", key="plan", text="1. look\n2. decide")
    assert (said.text, said.is_error) == ("Noted `plan`: 17 characters.", False)
    assert (await call(pad, "scratchpad_read", key="plan")).text == "1. look\n2. decide"
    listed = (await call(Scratchpad(pad.folder), "scratchpad_list")).text
    assert listed.startswith("plan: 1. look (17 characters, 20")


async def test_a_missing_note_is_answered_with_the_keys_there_are(tmp_path):
    pad = Scratchpad(tmp_path / "notes")
    assert "There are no notes yet." in (await call(pad, "scratchpad_read", key="plan")).text
    pad.write("a", "x")
    said = await call(pad, "scratchpad_read", key="plan")
    assert (said.text, said.is_error) == ("There is no note `plan`. The keys are: a.", True)


def test_files_and_folder_are_the_owners_alone(tmp_path):
    pad = Scratchpad(tmp_path / "notes")
    pad.write("plan", "secret")
    assert stat.S_IMODE(pad.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((pad.folder / "plan.txt").stat().st_mode) == 0o600
    assert (pad.folder / ".gitignore").read_text() == "*\n"


def test_links_are_neither_followed_nor_listed(tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("theirs")
    pad = Scratchpad(tmp_path / "notes")
    pad.folder.mkdir()
    (pad.folder / "plan.txt").symlink_to(outside)
    assert pad.list() == ()
    with pytest.raises(ToolError, match="There is no note `plan`"):
        pad.read("plan")
    pad.write("plan", "ours")
    assert (outside.read_text(), pad.read("plan")) == ("theirs", "ours")


def test_a_link_on_the_way_from_the_current_directory_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    monkeypatch.chdir(tmp_path / "ours")
    pad = Scratchpad("kept/notes/main")
    (tmp_path / "ours/kept").mkdir()
    (tmp_path / "ours/kept/notes").symlink_to(tmp_path / "theirs")
    for wish in (lambda: pad.write("plan", "x"), lambda: pad.read("plan"), pad.list):
        with pytest.raises(ToolError, match="not a directory"):
            wish()
    assert list((tmp_path / "theirs").iterdir()) == []


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a file system that keeps any time")  # noqa: S108
def test_a_time_beyond_the_calendar_is_the_last_there_is():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        pad = Scratchpad(place)
        pad.write("plan", "x")
        os.utime(pad.folder / "plan.txt", (0, 10**12))
        assert [note.changed.year for note in pad.list()] == [9999]


def test_a_folder_that_is_a_link_or_a_file_is_one_sentence(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "link").symlink_to("theirs")
    (tmp_path / "file").write_text("x")
    for name in ("link", "file"):
        with pytest.raises(ToolError, match=r"^`plan` can't be written: [a-z ]+\.$"):
            Scratchpad(tmp_path / name).write("plan", "x")
        assert "can&#x27;t be listed" in Scratchpad(tmp_path / name)._repr_html_()
    assert below(tmp_path) == ["file", "link", "theirs"]


def test_what_a_person_wrote_is_a_note_and_is_kept_under_its_name(tmp_path):
    (tmp_path / "conventions.md").write_bytes(b"\xef\xbb\xbfUse SI units.\r\n")
    (tmp_path / "not a key.md").write_text("x")
    pad = Scratchpad(tmp_path)
    assert [(note.key, note.start) for note in pad.list()] == [("conventions", "Use SI units.")]
    pad.write("conventions", "Use SI units. Round to 3 digits.")
    assert below(tmp_path) == ["conventions.md", "not a key.md"]
    (tmp_path / "long.txt").write_text("y" * (LARGEST + 5))
    assert pad.read("long").endswith(
        f"[the note is longer: these are its first 100,000 bytes of {LARGEST + 5:,}]"
    )


def test_size_and_number_are_bounded_and_the_bound_loses_nothing(tmp_path):
    pad = Scratchpad(tmp_path)
    pad.write("full", "z" * LONGEST)
    with pytest.raises(ToolError, match="has 12,001 characters and may have 12,000: shorten it"):
        pad.write("full", "z" * (LONGEST + 1))
    assert pad.read("full") == "z" * LONGEST
    for number in range(MOST - 1):
        (tmp_path / f"n{number}.txt").write_text("x")
    with pytest.raises(ToolError, match="There are 200 notes, and no more are kept: write over one"):
        pad.write("one-more", "x")
    pad.write("n5", "still changes")
    assert len(pad.list()) == MOST


def test_a_write_that_fails_leaves_the_note_as_it_was(tmp_path):
    pad = Scratchpad(tmp_path)
    (tmp_path / "plan.txt").mkdir()
    with pytest.raises(ToolError, match="`plan` can't be written: is a directory"):
        pad.write("plan", "x")
    pad.write("other", "kept")
    assert below(tmp_path) == ["other.txt", "plan.txt"]
    assert not list(tmp_path.glob(".*"))


def test_the_table_shows_hostile_notes_as_text(tmp_path):
    pad = Scratchpad(tmp_path)
    assert pad._repr_html_() == "<p>No notes yet.</p>"
    pad.write("x", "<script>alert(1)</script> \N{RIGHT-TO-LEFT OVERRIDE}gpj")
    html = pad._repr_html_()
    assert "&lt;script&gt;alert(1)" in html
    assert r"\u{202e}gpj" in html
    assert "<script" not in html


async def test_notes_are_written_without_asking_until_a_rule_or_the_mode_forbids_it(tmp_path):
    pad = Scratchpad(tmp_path)
    for mode, rules, wrote in (
        ("ask", (), True),
        ("plan", (), False),
        ("ask", ("deny scratchpad_*",), False),
        ("ask", ("ask scratchpad_write",), False),
    ):
        gate = permitted(policy(mode, rules, tmp_path), nobody)
        said = await call(pad, "scratchpad_write", gate, key="plan", text="x")
        assert said.is_error is not wrote


def test_a_person_who_is_asked_sees_what_would_change(tmp_path):
    pad = Scratchpad(tmp_path)
    pad.write("plan", "one\ntwo")
    preview = pad.tools[0].spec.preview({"key": "plan", "text": "one\nthree"})
    assert preview.kind == "diff"
    assert preview.text.splitlines()[-2:] == ["-two", "+three"]


def test_the_guidance_names_tools_that_there_are(tmp_path):
    names = {item.name for item in Scratchpad(tmp_path).tools}
    assert names == {"scratchpad_write", "scratchpad_read", "scratchpad_list"}
    assert "scratchpad_list" in GUIDANCE
    assert len(GUIDANCE) < 600


def test_a_long_first_line_is_shown_cut_and_a_pad_names_its_folder_without_the_machines_path(tmp_path):
    notes = Scratchpad(tmp_path / "notes")
    notes.write("plan", "x" * 300)
    assert notes.list()[0].start == "x" * 99 + "…"
    assert repr(notes) == "Scratchpad('notes')"
