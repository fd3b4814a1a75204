"""The window on files: what it shows, how it says where to go on, and that it never leaves the workspace (R22)."""

import os
import re
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from harness_nb.errors import ToolError
from harness_nb.messages import ToolCall
from harness_nb.results import LIMIT
from harness_nb.seams import Run
from harness_nb.toolkit.files import ROOM, WIDTH, files, read_file
from harness_nb.tools import Toolbox


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "proj-evil").mkdir()
    (tmp_path / "proj-evil" / "x").write_text("SECRET")
    made = tmp_path / "proj"
    (made / "sub").mkdir(parents=True)
    (made / "notes.txt").write_text("".join(f"line {n}\n" for n in range(1, 251)))
    (made / "sub" / "inner.txt").write_text("inside\n")
    return made


@pytest.fixture
def read(workspace):
    (reader,) = files(workspace)
    return reader


def test_a_file_is_shown_with_line_numbers_and_how_to_go_on(read):
    lines = read("notes.txt").splitlines()
    assert (lines[0], lines[99]) == ("1: line 1", "100: line 100")
    assert lines[100:] == [
        '[notes.txt: lines 1-100 of 250; to go on, read_file(path="notes.txt", offset=100)]'
    ]


def test_the_offset_given_is_the_one_to_go_on_from(read):
    seen, offset = [], 0
    while True:
        *lines, footer = read("notes.txt", offset=offset, limit=70).splitlines()
        seen += lines
        if not (more := re.search(r"offset=(\d+)", footer)):
            break
        offset = int(more[1])
    assert seen == [f"{n}: line {n}" for n in range(1, 251)]
    assert footer == "[notes.txt: lines 211-250 of 250; end of file]"


@pytest.mark.parametrize(("limit", "shown"), [(0, 1), (-5, 1), (1, 1), (500, 250), (10**9, 250)])
def test_the_limit_is_held_between_1_and_500(read, limit, shown):
    assert len(read("notes.txt", limit=limit).splitlines()) == shown + 1


def test_a_negative_offset_is_the_start(read):
    assert read("notes.txt", offset=-7).startswith("1: line 1\n")


def test_past_the_end_the_valid_offsets_are_told(read):
    with pytest.raises(ToolError, match="has 250 lines: give an offset from 0 to 249"):
        read("notes.txt", offset=250)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"", "[f: empty file]"),
        (b"\n", "1: \n[f: lines 1-1 of 1; end of file]"),
        (b"no end", "1: no end\n[f: lines 1-1 of 1; end of file]"),
        (b"a\r\nb\rc\n", "1: a\n2: b\n3: c\n[f: lines 1-3 of 3; end of file]"),
        ("a\u2028b\x0cc\n".encode(), "1: a\u2028b\x0cc\n[f: lines 1-1 of 1; end of file]"),
        ("\ufeffé".encode(), "1: é\n[f: lines 1-1 of 1; end of file]"),
        ("é\nü".encode("utf-16"), "1: é\n2: ü\n[f: lines 1-2 of 2; end of file]"),
        (
            b"caf\xe9\n",
            "1: caf\ufffd\n[f: lines 1-1 of 1; end of file; \ufffd stands for bytes that are not text]",
        ),
    ],
)
def test_all_kinds_of_text_are_shown(workspace, read, data, shown):
    (workspace / "f").write_bytes(data)
    assert read("f") == shown


def test_long_lines_are_shortened_and_what_is_missing_is_counted(workspace, read):
    (workspace / "f").write_text("x" * 3_000_000 + "\n" + "y" * WIDTH + "\n" + "z" * (WIDTH + 1))
    first, second, third, footer = read("f").splitlines()
    assert first == "1: " + "x" * WIDTH + f" [+{3_000_000 - WIDTH:,} characters]"
    assert second == "2: " + "y" * WIDTH
    assert third == "3: " + "z" * WIDTH + " [+1 characters]"
    assert footer.startswith("[f: lines 1-3 of 3")


def test_the_footer_is_right_when_wide_lines_fill_the_room(workspace, read):
    (workspace / "f").write_text(f"{'x' * 400}\n" * 200)
    *lines, footer = read("f", limit=500).splitlines()
    assert len("\n".join(lines)) <= ROOM < LIMIT
    assert f"lines 1-{len(lines)} of 200" in footer
    assert f"offset={len(lines)})" in footer


def test_a_huge_file_is_not_held_in_memory(workspace, read):
    with (workspace / "huge").open("wb") as stream:
        stream.write(b"first\n")
        stream.truncate(10**11)
    (workspace / "log").write_text("line\n" * 13_000_000)
    with pytest.raises(ToolError, match="not a text file"):
        read("huge")
    assert "lines 1-2 of many; to go on" in read("log", limit=2)


# What can't be shown.


def test_a_directory_says_what_it_holds(read):
    with pytest.raises(ToolError, match=r"^`\.` is a directory\. It holds `notes\.txt`, `sub/`\.$"):
        read(".")


def test_an_empty_and_a_full_directory_are_told_apart(workspace, read):
    (workspace / "none").mkdir()
    (workspace / "many").mkdir()
    for n in range(60):
        (workspace / "many" / f"{n:02}").touch()
    with pytest.raises(ToolError, match="It is empty"):
        read("none")
    with pytest.raises(ToolError, match="`49` and 10 more"):
        read("many")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("note.txt", "There is no `note.txt`. Did you mean `notes.txt`?"),
        ("sub/iner.txt", "There is no `sub/iner.txt`. Did you mean `sub/inner.txt`?"),
        ("subs/inner.txt", "There is no `subs/inner.txt`. Did you mean `sub`?"),
        ("zzz", "There is no `zzz`. The directory `.` holds `notes.txt`, `sub/`."),
        ("a/b/c/d", "There is no `a/b/c/d`. The directory `.` holds `notes.txt`, `sub/`."),
        ("notes.txt/x", "There is no `notes.txt/x`. Did you mean `notes.txt`?"),
    ],
)
def test_a_missing_name_is_answered_with_the_nearest(read, path, said):
    with pytest.raises(ToolError) as caught:
        read(path)
    assert str(caught.value) == said


def test_binary_files_pipes_and_sockets_are_not_opened(workspace, read):
    (workspace / "pic.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    os.mkfifo(workspace / "pipe")
    with pytest.raises(ToolError, match=r"`pic.png` is not a text file \(10 bytes\)"):
        read("pic.png")
    with pytest.raises(ToolError, match="a device or a pipe"):
        read("pipe")
    with socket.socket(socket.AF_UNIX) as listening, tempfile.TemporaryDirectory() as short:
        listening.bind(f"{short}/s")
        (reader,) = files(short)
        with pytest.raises(ToolError, match="a device or a pipe"):
            reader("s")


# Inside and outside.


@pytest.mark.parametrize(
    "path",
    [
        "../proj-evil/x",
        "sub/../../proj-evil/x",
        "../proj-evil/nothing",
        "..",
        "/etc/passwd",
        "link-out",
        "folder-out/x",
        "link-to-link",
        "dangling-out",
        "~/x",
        "~",
    ],
)
def test_nothing_outside_is_read_or_told(workspace, read, path):
    (workspace / "link-out").symlink_to("/etc/passwd")
    (workspace / "folder-out").symlink_to(workspace.parent / "proj-evil")
    (workspace / "link-to-link").symlink_to("link-out")
    (workspace / "dangling-out").symlink_to(workspace.parent / "not-there")
    with pytest.raises(ToolError) as caught:
        read(path)
    assert "SECRET" not in str(caught.value)
    assert str(workspace.parent) not in str(caught.value)
    assert "outside the workspace" in str(caught.value) or path.startswith("~")


def test_the_sibling_with_a_longer_name_is_outside(workspace, read):
    with pytest.raises(ToolError, match="outside"):
        read(str(workspace.parent / "proj-evil" / "x"))


def test_links_that_stay_inside_and_absolute_paths_work(workspace, read):
    (workspace / "link").symlink_to("sub/inner.txt")
    (workspace / "folder").symlink_to("sub")
    for path in ("link", "folder/inner.txt", "sub/../sub/inner.txt", str(workspace / "sub" / "inner.txt")):
        assert read(path) == "1: inside\n[sub/inner.txt: lines 1-1 of 1; end of file]"


@pytest.mark.parametrize("path", ["", " ", "a\0b", "loop", "x" * 5000, "\udce9", "sub/\n"])
def test_odd_paths_are_a_sentence(workspace, read, path):
    (workspace / "loop").symlink_to("loop")
    with pytest.raises(ToolError):
        read(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(["..", ".", "sub", "proj", "proj-evil", "x", "/", "~", ""])).map("/".join))
def test_no_path_reads_the_secret(workspace, read, path):
    try:
        assert "SECRET" not in read(path)
    except ToolError as fault:
        assert "SECRET" not in str(fault)  # noqa: PT017 - either is right


def test_a_workspace_that_is_gone_is_a_sentence(tmp_path):
    (reader,) = files(tmp_path / "gone")
    with pytest.raises(ToolError, match="can't be looked up"):
        reader("x")


def test_without_a_workspace_it_is_the_current_directory(workspace, monkeypatch):
    monkeypatch.chdir(workspace)
    assert "1: inside" in read_file("sub/inner.txt")
    monkeypatch.chdir(workspace / "sub")
    assert "1: inside" in read_file("inner.txt")


async def test_a_model_gets_it_through_dispatch(workspace):
    dispatch = Toolbox(files(Path(workspace))).dispatch()
    result = await dispatch(ToolCall("1", "read_file", '{"path": "notes.txt", "offset": "248"}'), Run())
    assert result.text == "249: line 249\n250: line 250\n[notes.txt: lines 249-250 of 250; end of file]"


def test_the_description_answers_what_a_model_must_know():
    words = read_file.spec.description
    for word in ("Show", "Needs", "Does not", "Changes nothing", "Returns", "Prefer"):
        assert word in words
    assert read_file.spec.effects == {"read"}
