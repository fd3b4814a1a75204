"""Finding files and lines: bounded, in a stable order, never behind a link, and the same with ripgrep and without."""

import os
import shutil

import pytest

from harness_nb.errors import ToolError
from harness_nb.toolkit import matching, search
from harness_nb.toolkit.files import looking
from harness_nb.toolkit.globs import fits
from harness_nb.toolkit.search import MATCHES, NAMES
from harness_nb.workspace import Workspace


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("SECRET\n")
    made = tmp_path / "proj"
    (made / "src" / "deep").mkdir(parents=True)
    (made / ".git").mkdir()
    (made / ".git" / "config.py").write_text("import git\n")
    (made / "a.py").write_text("import os\n\nprint('a')\n")
    (made / "src" / "b.py").write_text("import re\r\nIMPORT = 1\r\n")
    (made / "src" / "deep" / "c.txt").write_text("nothing\n")
    (made / "src" / "wide.txt").write_bytes("import é\n".encode("utf-16"))
    (made / "pic.png").write_bytes(b"\x89PNG\0import")
    (made / "out").symlink_to(tmp_path / "outside")
    (made / "secret").symlink_to(tmp_path / "outside" / "secret.txt")
    return made


@pytest.fixture
def tools(workspace):
    return {item.name: item for item in looking(workspace)}


def test_a_directory_is_listed_with_sizes_and_links(tools):
    assert tools["list_files"]() == (
        ".git/\na.py (22 bytes)\nout (link)\npic.png (11 bytes)\nsecret (link)\nsrc/\n[.: names 1-6 of 6]"
    )


def test_a_long_listing_says_how_to_go_on(workspace, tools):
    (workspace / "many").mkdir()
    for n in range(NAMES + 20):
        (workspace / "many" / f"{n:03}").touch()
    footer = tools["list_files"]("many").splitlines()[-1]
    assert footer == f'[many: names 1-{NAMES} of 120; to go on, list_files(path="many", offset={NAMES})]'
    assert tools["list_files"]("many", NAMES).splitlines()[0] == "100 (0 bytes)"
    with pytest.raises(ToolError, match="holds 120 names"):
        tools["list_files"]("many", 120)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.py", ["a.py", "src/b.py"]),
        ("src/*", ["src/b.py", "src/wide.txt"]),
        ("src/", ["src/b.py", "src/wide.txt", "src/deep/c.txt"]),
        ("**/*.txt", ["src/wide.txt", "src/deep/c.txt"]),
        ("src/**/c.*", ["src/deep/c.txt"]),
        ("?.py", ["a.py", "src/b.py"]),
        ("[ab].py", ["a.py", "src/b.py"]),
        ("./a.py", ["a.py"]),
        ("*.{py,txt}", ["a.py", "src/b.py", "src/wide.txt", "src/deep/c.txt"]),
        ("{a,src/{b,c}}.py", ["a.py", "src/b.py"]),
        ("secret.txt", []),
        ("out/*", []),
    ],
)
def test_files_are_found_by_name(tools, pattern, names):
    assert tools["glob"](pattern).splitlines()[:-1] == names


@pytest.mark.parametrize("pattern", ["", "..", "../*", "/", "src/../../*", "{a,..}/*", "{}"])
def test_a_pattern_leads_nowhere_else(tools, pattern):
    with pytest.raises(ToolError, match="Give a pattern"):
        tools["glob"](pattern)


def test_braces_that_leave_too_many_choices_are_refused(tools):
    with pytest.raises(ToolError, match="more than 64 choices"):
        tools["glob"]("{a,b}" * 30)


def test_stars_take_no_time():
    assert not fits(["a" * 200] * 60, [["**", "*a*a*a*a*a*b", "**", "**", "*a*a*a*b"] * 8])


def test_lines_are_found_with_path_and_number(tools):
    assert tools["grep"]("import").splitlines() == [
        *("a.py:1: import os", "src/b.py:1: import re", "src/wide.txt:1: import é"),
        "[.: 3 matches in 3 files]",
    ]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (
            {"pattern": "import", "ignore_case": True, "names": "b.py"},
            ["src/b.py:1: import re", "src/b.py:2: IMPORT = 1"],
        ),
        ({"pattern": "re$"}, ["src/b.py:1: import re"]),
        ({"pattern": "(?<=import )r"}, ["src/b.py:1: import re"]),
        ({"pattern": "import", "path": "a.py"}, ["a.py:1: import os"]),
        ({"pattern": "import", "path": "src"}, ["src/b.py:1: import re", "src/wide.txt:1: import é"]),
        ({"pattern": "import", "names": "src/*.py"}, ["src/b.py:1: import re"]),
        ({"pattern": "SECRET"}, []),
        ({"pattern": "os\n"}, []),
    ],
)
def test_a_search_can_be_narrowed(tools, asked, found):
    assert tools["grep"](**asked).splitlines()[:-1] == found


def test_many_matches_are_cut_and_said_to_be(workspace, tools):
    (workspace / "log").write_text("hit\n" * 1000)
    *rows, footer = tools["grep"]("hit").splitlines()
    assert len(rows) == MATCHES
    assert (
        footer
        == "[.: first 100 matches in 1 file; there are more: narrow the pattern, the path or the names]"
    )


def test_long_lines_are_shortened(workspace, tools):
    (workspace / "log").write_text("x" * 10_000_000)
    row, _ = tools["grep"]("x").splitlines()
    assert row == "log:1: " + "x" * 240 + " [+9,999,760 characters]"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"pattern": "(a"}, "The pattern can't be read: missing"),
        ({"pattern": ""}, "Give a pattern"),
        ({"pattern": "a", "path": "nope"}, "There is no `nope`"),
        ({"pattern": "a", "path": ".."}, "outside the workspace"),
        ({"pattern": "a", "path": "out"}, "outside the workspace"),
        ({"pattern": "a", "path": "secret"}, "outside the workspace"),
    ],
)
def test_what_can_not_be_searched_is_a_sentence(tools, asked, said):
    with pytest.raises(ToolError, match=said):
        tools["grep"](**asked)


def test_a_pattern_that_takes_for_ever_is_stopped():
    with (
        pytest.raises(ToolError, match="simpler pattern"),
        matching.matching("(a+)+$", ignore_case=False, most=5, seconds=0.5) as matcher,
    ):
        matcher.lines("a" * 5000 + "b", "`f`")


def test_what_is_hidden_is_passed_over(workspace):
    tools = {item.name: item for item in looking(workspace, hidden=lambda name: name.startswith("src/"))}
    assert tools["grep"]("import").splitlines()[:-1] == ["a.py:1: import os"]
    assert tools["grep"]("import", "src/b.py") == "[src/b.py: no match]"
    assert tools["glob"]("*.py").splitlines()[:-1] == ["a.py"]


def test_a_name_keeps_to_its_line(workspace, tools):
    (workspace / "x\n[.: names 1-1 of 1]\x1b").write_text("import")
    assert tools["list_files"]().count("\n") == 7
    assert '"x\\n[.: names 1-1 of 1]\\u001b":1: import' in tools["grep"]("import")


def test_a_search_of_a_huge_tree_stops_and_says_so(workspace, tools):
    walk = search.Walk(Workspace(workspace).locate("."), most=2)
    assert len(list(walk)) == 2
    assert "stopped after 2 files" in walk.note


def test_a_tree_of_any_depth_is_walked(tmp_path, tools, workspace):
    handle = os.open(workspace, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    assert "a.py" in tools["glob"]("*.py")
    shutil.rmtree(workspace / "d")


@pytest.fixture
def odd(workspace):
    """Files that ripgrep takes for something else than we do."""
    (workspace / "latin").write_bytes(b"caf\xe9 noir\n")
    (workspace / "mac").write_bytes(b"one\rtwo\rthree")
    (workspace / "dos").write_bytes(b"one\r\ntwo\r\n")
    (workspace / "wide").write_bytes("one\ntwo\n".encode("utf-16"))
    (workspace / "late").write_bytes(b"y" * 10_000 + b"\n\0\ntwo\n")


@pytest.mark.usefixtures("odd")
@pytest.mark.skipif(not shutil.which("rg"), reason="ripgrep is not here")
@pytest.mark.parametrize(
    "pattern",
    [
        "caf.",
        "caf[^z] noir",
        "^two",
        "two$",
        "^three$",
        "import",
        r"\w+ = \d",
        "re$",
        "^import",
        "é",
        "[ab]",
        "(os|re)",
        "nothing",
        "SECRET",
        "x{2}",
    ],
)
@pytest.mark.parametrize("ignore_case", [True, False])
def test_ripgrep_changes_nothing_but_the_time(tools, workspace, pattern, ignore_case):
    with_it = tools["grep"](pattern, ignore_case=ignore_case)
    path, os.environ["PATH"] = os.environ["PATH"], ""
    try:
        assert tools["grep"](pattern, ignore_case=ignore_case) == with_it
    finally:
        os.environ["PATH"] = path
