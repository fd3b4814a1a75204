"""Changing files: only the edited bytes change, one file at a time, never one that was changed since it was read."""

import asyncio
import os
import re
import stat
import threading

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from harness_nb.errors import ToolError
from harness_nb.messages import ToolCall
from harness_nb.seams import Run
from harness_nb.toolkit.changes import Lines
from harness_nb.toolkit.document import Document
from harness_nb.toolkit.edits import DIFF, editing
from harness_nb.tools import Toolbox


class Hands:
    """The tools of a workspace, called as a model in one turn would."""

    def __init__(self, folder):
        self.tools = {item.name: item for item in editing(folder)}
        self.run = Run()

    def read(self, path):
        return self.tools["read_file"](path)

    def edit(self, path, old, new):
        return self.tools["edit_file"](path, old, new, self.run)

    def lines(self, path, start, end, text):
        self.run.turn += 1  # a turn of its own, after a look at the one before
        return self.lines_again(path, start, end, text)

    def lines_again(self, path, start, end, text):
        return self.tools["edit_lines"](path, start, end, text, self.run)

    def write(self, path, text):
        return self.tools["write_file"](path, text, self.run)

    def append(self, path, text):
        return self.tools["append_file"](path, text, self.run)

    def preview(self, name, **arguments):
        return self.tools[name].spec.preview(arguments).text


@pytest.fixture
def hands(tmp_path):
    return Hands(tmp_path)


@pytest.fixture
def file(tmp_path):
    made = tmp_path / "f.txt"
    made.write_bytes(b"one\ntwo\nthree\n")
    return made


# What changes, and what stays.


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\nb\nc\n", "b", "B", b"a\nB\nc\n"),
        (b"a\r\nb\r\nc", "a\nb\n", "a\nx\nb\n", b"a\r\nx\r\nb\r\nc"),
        (b"a\r\nb\nc\r\n", "b\nc", "b\nC", b"a\r\nb\nC\r\n"),
        (b"a\rb\rc", "b", "b\nx", b"a\rb\rx\rc"),
        (b"no end", "end", "end\nmore", b"no end\nmore"),
        ("\ufeffé\r\n".encode(), "é", "éü", "\ufefféü\r\n".encode()),
        ("é\nü".encode("utf-16"), "ü", "ö", "é\nö".encode("utf-16")),
        ("\ufeffa\r\nb".encode("utf-16-be"), "b", "x\ny", "\ufeffa\r\nx\r\ny".encode("utf-16-be")),
        (b"caf\xe9\nb\n", "b", "B", b"caf\xe9\nB\n"),
        (b"a\r\nb\r\n", "a\r\nb", "a\r\nc", b"a\r\nc\r\n"),
        (b"a\n\nb\n", "\n\n", "\n", b"a\nb\n"),
    ],
)
def test_an_edit_keeps_encoding_line_ends_mark_and_the_rest(tmp_path, hands, *, before, old, new, after):
    (tmp_path / "f").write_bytes(before)
    hands.edit("f", old, new)
    assert (tmp_path / "f").read_bytes() == after


@pytest.mark.parametrize(
    ("before", "start", "end", "text", "after"),
    [
        (b"a\nb\nc\n", 2, 2, "B", b"a\nB\nc\n"),
        (b"a\nb\nc\n", 2, 3, "B\nC\nD\n", b"a\nB\nC\nD\n"),
        (b"a\nb\n", 1, 0, "first", b"first\na\nb\n"),
        (b"a\nb\n", 3, 2, "last", b"a\nb\nlast\n"),
        (b"a\nb", 3, 2, "last", b"a\nb\nlast"),
        (b"a\nb", 2, 2, "B\n", b"a\nB"),
        (b"a\r\nb\r\n", 2, 1, "x\ny", b"a\r\nx\r\ny\r\nb\r\n"),
        (b"a\nb\nc\n", 1, 2, "", b"c\n"),
        (b"a\nb\n", 1, 2, "", b""),
        (b"", 1, 0, "a", b"a\n"),
        (b"a\n\nb\n", 2, 2, "\n\n", b"a\n\n\nb\n"),
        ("a\u2028b\x0cc\nd\n".encode(), 2, 2, "D", "a\u2028b\x0cc\nD\n".encode()),
    ],
)
def test_lines_are_replaced_inserted_and_deleted(tmp_path, hands, *, before, start, end, text, after):
    (tmp_path / "f").write_bytes(before)
    hands.read("f")
    hands.lines("f", start, end, text)
    assert (tmp_path / "f").read_bytes() == after


@pytest.mark.parametrize(("start", "end"), [(0, 1), (1, 4), (5, 4), (3, 1), (-1, -1), (4, 4)])
def test_lines_that_there_are_not_are_named(file, hands, start, end):
    hands.read("f.txt")
    with pytest.raises(ToolError, match=r"3 lines: give a start_line from 1 to 4"):
        hands.lines("f.txt", start, end, "x")
    assert file.read_bytes() == b"one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        (b"a\n", "b", b"a\nb"),
        (b"a", "b\n", b"a\nb\n"),
        (b"", "b", b"b"),
        (b"a\r\nb", "c\nd", b"a\r\nb\r\nc\r\nd"),
    ],
)
def test_what_is_appended_begins_a_line(tmp_path, hands, before, text, after):
    (tmp_path / "f").write_bytes(before)
    hands.append("f", text)
    assert (tmp_path / "f").read_bytes() == after


def test_a_whole_file_keeps_its_line_ends_and_mark(tmp_path, hands):
    (tmp_path / "f").write_bytes("\ufeffa\r\nb\r\n".encode())
    hands.read("f")
    hands.write("f", "b\nc\n")
    assert (tmp_path / "f").read_bytes() == "\ufeffb\r\nc\r\n".encode()


PIECES = st.lists(
    st.sampled_from([b"a", b"b ", b"\n", b"\r\n", b"\r", "é".encode(), b"\xff", b"\x0c", b"\xe2\x80\xa8"])
).map(b"".join)
WORDS = st.text(st.sampled_from("xy \n"), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(before=PIECES, after=PIECES, mark=st.sampled_from([b"", b"\xef\xbb\xbf"]), new=WORDS)
def test_an_edit_changes_only_the_bytes_between(tmp_path, hands, *, before, after, mark, new):
    assume(new != "<here>")
    path = tmp_path / "f"
    path.write_bytes(mark + before + b"<here>" + after)
    hands.read("f")
    try:
        hands.edit("f", "<here>", new)
    except ToolError as refusal:
        assert "line ends are mixed" in str(refusal)  # noqa: PT017 - rare, and then nothing changed
        assert path.read_bytes() == mark + before + b"<here>" + after
        return
    data = path.read_bytes()
    assert data.startswith(mark + before)
    assert data.endswith(after)
    middle = data[len(mark + before) : len(data) - len(after)].decode()
    assert middle.replace("\r\n", "\n").replace("\r", "\n") == new


@settings(deadline=None, max_examples=300)
@given(data=PIECES, numbers=st.tuples(st.integers(1, 8), st.integers(0, 8)), text=WORDS)
def test_lines_outside_the_range_are_the_same_bytes(data, numbers, text):
    document = Document.read(data)
    try:
        after = document.edited(Lines(*numbers, text).find(document).trimmed(document.text))
    except ToolError:
        return
    start, end = numbers
    old, new = (re.findall(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", each) for each in (data, after))
    assert new[: start - 1] == old[: start - 1] or start > len(old)
    assert end >= len(old) or new[len(new) - (len(old) - end) :] == old[end:]


def test_mode_bits_survive_and_a_link_stays_a_link(tmp_path, hands, file):
    file.chmod(0o751)
    (tmp_path / "link").symlink_to("f.txt")
    hands.edit("link", "two", "2")
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert (tmp_path / "link").is_symlink()
    assert file.read_bytes() == b"one\n2\nthree\n"


def test_a_hard_link_outside_keeps_what_it_had(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "outside").write_text("one\n")
    os.link(tmp_path / "outside", tmp_path / "in" / "f")
    Hands(tmp_path / "in").edit("f", "one", "two")
    assert ((tmp_path / "outside").read_text(), (tmp_path / "in" / "f").read_text()) == ("one\n", "two\n")


def test_nothing_else_is_left_in_the_folder(tmp_path, hands, file):
    hands.edit("f.txt", "two", "2")
    with pytest.raises(ToolError):
        hands.edit("f.txt", "nothing", "2")
    assert [item.name for item in tmp_path.iterdir()] == ["f.txt"]


def test_a_new_file_gets_its_folders(tmp_path, hands):
    assert hands.write("a/b/c.txt", "x\ny\n").endswith("[a/b/c.txt: made; 2 lines now]")
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "x\ny\n"


# What is refused, with nothing changed.


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("four", "x", "was not found in it. Read the file again"),
        ("two", "two", "nothing would change"),
        ("", "x", "`old` is empty"),
        ("o", "0", r"more than once \(lines 1, 2\)"),
        ("one\r\ntwo", "one\ntwo", "nothing would change"),
        ("  two", "x", "other blanks or line breaks, from line 2"),
        ("2: two\n3: three", "x", "Leave out the line numbers"),
        ("thre e", "x", "most like its first is line 3: `three`"),
        ("two", "a\0b", "NUL"),
        ("two", "\ud800", "half a character"),
        ("\n \n", "x", "It is blank"),
    ],
)
def test_an_edit_that_can_not_be_made_says_what_to_do(file, hands, old, new, said):
    with pytest.raises(ToolError, match=said):
        hands.edit("f.txt", old, new)
    assert file.read_bytes() == b"one\ntwo\nthree\n"


def test_matches_that_overlap_are_two(tmp_path, hands):
    (tmp_path / "f").write_text("aaa")
    with pytest.raises(ToolError, match="more than once"):
        hands.edit("f", "aa", "b")


def test_a_file_changed_since_it_was_read_is_refused_until_it_is_read_again(file, hands):
    hands.read("f.txt")
    file.write_bytes(b"one\ntwo\nTHREE\n")
    edits = [
        lambda: hands.edit("f.txt", "two", "2"),
        lambda: hands.lines("f.txt", 2, 2, "2"),
        lambda: hands.write("f.txt", "2"),
        lambda: hands.append("f.txt", "2"),
    ]
    for edit in edits:
        with pytest.raises(ToolError, match="changed since it was read"):
            edit()
    assert file.read_bytes() == b"one\ntwo\nTHREE\n"
    hands.read("f.txt")
    hands.edit("f.txt", "two", "2")


def test_a_touched_file_is_the_same_file(file, hands):
    hands.read("f.txt")
    os.utime(file, (1, 1))
    hands.edit("f.txt", "two", "2")


def test_a_file_removed_since_it_was_read_is_not_made_anew(file, hands):
    hands.read("f.txt")
    file.unlink()
    with pytest.raises(ToolError, match="There is no"):
        hands.edit("f.txt", "two", "2")
    with pytest.raises(ToolError, match="changed since"):
        hands.write("f.txt", "2")
    assert not file.exists()


def test_numbers_and_whole_files_need_a_look_first(file, hands):
    for edit in (lambda: hands.lines("f.txt", 1, 1, "x"), lambda: hands.write("f.txt", "x")):
        with pytest.raises(ToolError, match="was not read yet"):
            edit()
    hands.edit("f.txt", "two", "2")  # says itself what it replaces
    hands.lines("f.txt", 1, 1, "1")  # and the answer was a look


def test_line_numbers_that_an_edit_of_the_same_turn_made_wrong_are_refused(file, hands):
    hands.read("f.txt")
    hands.lines("f.txt", 2, 2, "2\n2b")
    with pytest.raises(ToolError, match=r"moved the lines of `f.txt` from line 2 on"):
        hands.lines_again("f.txt", 3, 3, "3")
    hands.lines_again("f.txt", 1, 1, "1")  # above, the numbers still hold
    hands.lines("f.txt", 4, 4, "3")  # in the next turn the model has seen the new ones
    assert file.read_bytes() == b"1\n2\n2b\n3\n"


@pytest.mark.parametrize("data", [b"\x89PNG\0", b"\xff\xfe\0\0a\0\0\0", b"\xff\xfea"])
def test_what_is_not_text_is_not_edited(tmp_path, hands, data):
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(ToolError, match=r"no text|not a text"):
        hands.append("f", "a")
    assert (tmp_path / "f").read_bytes() == data


def test_a_file_in_another_encoding_takes_only_ascii(tmp_path, hands):
    (tmp_path / "f").write_bytes(b"caf\xe9 x")
    with pytest.raises(ToolError, match="only ASCII"):
        hands.edit("f", "x", "ü")
    hands.edit("f", "x", "y")
    assert (tmp_path / "f").read_bytes() == b"caf\xe9 y"


def test_write_protected_huge_and_odd_files_are_refused(tmp_path, hands, file):
    file.chmod(0o444)
    with pytest.raises(ToolError, match="write-protected"):
        hands.edit("f.txt", "two", "2")
    with (tmp_path / "huge").open("wb") as stream:
        stream.truncate(16_000_001)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "sub").mkdir()
    for name, said in {
        "huge": "too large",
        "pipe": "a device",
        "sub": "a directory",
        "new/": "a directory",
    }.items():
        with pytest.raises(ToolError, match=said):
            hands.append(name, "x")


def test_a_new_name_can_be_seen(tmp_path, hands):
    for name in ("a\nb", "a\u202eb", "\x1b[2J", "\udce9"):
        with pytest.raises(ToolError, match="not seen"):
            hands.write(name, "x")
    assert not list(tmp_path.iterdir())


# Together.


async def test_edits_of_one_file_in_one_turn_all_happen_however_it_is_spelled(tmp_path, file):
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("f.txt")
    dispatch, run = Toolbox(editing(tmp_path)).dispatch(), Run()
    paths = ["f.txt", "./f.txt", "sub/../f.txt", "link", str(file)]

    def asked(n, path):
        return ToolCall(str(n), "append_file", f'{{"path": "{path}", "text": "line {n}"}}')

    results = await asyncio.gather(*(dispatch(asked(n, paths[n % 5]), run) for n in range(40)))
    assert not any(result.is_error for result in results)
    assert sorted(file.read_text().splitlines()[3:]) == sorted(f"line {n}" for n in range(40))


def test_a_reader_sees_the_old_text_or_the_new(tmp_path, hands):
    path, over = tmp_path / "f", threading.Event()
    texts = ["a" * 300_000, "b" * 300_000]
    path.write_text(texts[0])
    seen = set()

    def look():
        while not over.is_set():
            seen.add(path.read_text())

    watcher = threading.Thread(target=look)
    watcher.start()
    hands.read("f")
    for n in range(30):
        hands.write("f", texts[(n + 1) % 2])
    over.set()
    watcher.join()
    assert seen <= set(texts)


# What a person and a model are shown.


def test_the_model_sees_the_place_as_it_is_now(file, hands):
    assert hands.edit("f.txt", "two", "2\n2b") == (
        "1: one\n2: 2\n3: 2b\n4: three\n[f.txt: changed; 4 lines now]"
    )


def test_after_a_long_edit_first_and_last_lines_are_shown(hands):
    rows = hands.write("f", "".join(f"{n}\n" for n in range(100))).splitlines()
    assert (rows[0], rows[10], rows[-2]) == ("1: 0", "[80 lines left out]", "100: 99")


def test_a_diff_shows_the_change_and_does_nothing(file, hands):
    shown = hands.preview("edit_file", path="f.txt", old="two", new="2")
    assert shown == "--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert file.read_bytes() == b"one\ntwo\nthree\n"


def test_a_diff_counts_lines_from_the_start_of_the_file(tmp_path, hands):
    (tmp_path / "f").write_text("".join(f"{n}\n" for n in range(1, 1001)))
    shown = hands.preview("edit_file", path="f", old="\n500\n", new="\nfive hundred\n")
    assert shown.splitlines()[2:] == [
        *("@@ -497,7 +497,7 @@", " 497", " 498", " 499", "-500", "+five hundred", " 501", " 502", " 503")
    ]


def test_a_diff_tells_a_new_file_and_a_missing_line_end(hands):
    shown = hands.preview("write_file", path="new", text="a\nb")
    assert shown == "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"


def test_a_long_diff_is_bounded_and_says_so(hands):
    shown = hands.preview("write_file", path="new", text="word\n" * 100_000)
    assert len(shown) < DIFF + 100
    assert "characters of this diff left out]" in shown


def test_a_call_that_would_fail_is_shown_as_one(file, hands):
    assert "would fail: `f.txt` was not changed: `old` was not found" in hands.preview(
        "edit_file", path="f.txt", old="four", new="4"
    )
    assert "outside the workspace" in hands.preview("append_file", path="/etc/passwd", text="x")


def test_what_was_approved_is_what_is_done(file, hands):
    hands.preview("edit_file", path="f.txt", old="two", new="2")
    file.write_bytes(b"zero\none\ntwo\n")
    with pytest.raises(ToolError, match="after this edit was shown for approval"):
        hands.edit("f.txt", "two", "2")
    hands.edit("f.txt", "two", "2")  # asked anew, it is a new question


async def test_a_model_gets_them_through_dispatch(tmp_path, file):
    box = Toolbox(editing(tmp_path))
    dispatch, run = box.dispatch(), Run()
    asks = [
        ToolCall("1", "read_file", '{"path": "f.txt"}'),
        ToolCall("2", "edit_lines", '{"path": "f.txt", "start_line": "2", "end_line": 2, "text": "2"}'),
    ]
    results = [await dispatch(ask, run) for ask in asks]
    assert not any(result.is_error for result in results), results
    assert file.read_text() == "one\n2\nthree\n"


def test_descriptions_and_effects_are_honest(hands):
    for name, item in hands.tools.items():
        writes = name in {"edit_file", "edit_lines", "write_file", "append_file"}
        assert item.spec.effects == ({"read", "write"} if writes else {"read"})
        assert (item.spec.preview is not None) == writes
        for words in ("Returns", "Prefer"):
            assert words in item.spec.description, name
        assert len(item.spec.description) < 700
