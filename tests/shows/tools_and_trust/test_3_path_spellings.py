"""Shows 3: at least 60 spellings of paths that lead out of a workspace; none reads or writes outside, by any file tool."""

import contextlib
import itertools
import os
import sys
import threading

import pytest

from harness_nb.errors import ToolError
from harness_nb.messages import ToolCall
from harness_nb.seams import Run
from harness_nb.toolkit.edits import editing
from harness_nb.tools import Toolbox

SECRET = "SECRET"
"""Stands in every file outside; no answer may hold it."""

DOTS = [
    *(
        "..",
        "../",
        "../..",
        "../outside",
        "../outside/x",
        "../outside/new",
        "../proj-evil/x",
        "../proj-evil/new",
    ),
    *(
        "sub/../../outside/x",
        "sub/../../proj-evil/x",
        "./../outside/x",
        "././.././outside/x",
        "sub/./../../outside/x",
    ),
    *(
        "nothing/../../outside/x",
        "nothing/../../outside/new",
        "a.txt/../../outside/x",
        "sub//..//..//outside//x",
    ),
    *(
        "../proj/../outside/x",
        "../PROJ/../outside/x",
        "../" * 40 + "etc/passwd",
        "sub/" + "../" * 40 + "etc/shadow",
    ),
    "sub/deep/../../../outside/x",
]
ABSOLUTE = [
    *(
        "/etc/passwd",
        "//etc/passwd",
        "///etc/passwd",
        "/etc/../etc/passwd",
        "/proc/self/root/etc/passwd",
        "/",
    ),
    *("/proc/self/cwd/../outside/x", "/proc/self/environ", "/dev/stdin", "/dev/fd/0", "{top}/outside/x"),
    *(
        "{top}/proj-evil/x",
        "{top}/proj/../outside/x",
        "{top}/proj/sub/../../outside/new",
        "{top}/proj-evil/new",
    ),
    *(
        "{top}/proj2",
        "{top}/pro",
        "{top}",
        "file:///etc/passwd/../../../../../outside/x",
        "/usr/../etc/passwd",
    ),
]
HOME = ["~", "~/x", "~root/x", "~/../etc/passwd", "~+/x"]
LINKS = [
    *(
        "file-out",
        "folder-out/x",
        "folder-out/new",
        "folder-out/../outside/x",
        "folder-out/sub/../x",
        "folder-out",
    ),
    *(
        "link-to-link",
        "dangling-out",
        "dangling-folder/new",
        "sub/up/outside/x",
        "sub/up/proj-evil/x",
        "absolute/passwd",
    ),
    *(
        "root/etc/passwd",
        "relative-out/x",
        "sub/deep/far/x",
        "chain/x",
        "proc/root/etc/passwd",
        "proc/cwd/../outside/x",
    ),
    *(
        "loop",
        "loop/x",
        "loop-a/x",
        "self/../../outside/x",
        "self/folder-out/x",
        "same/../outside/x",
        "twice/x",
    ),
]
UNICODE = [
    *("\uff0e\uff0e/outside/x", "\u2025/outside/x", "..\u2215outside\u2215x", "..\u2044outside\u2044x"),
    *(
        "..\uff0foutside\uff0fx",
        "..\\outside\\x",
        "%2e%2e/outside/x",
        "..%2foutside%2fx",
        "..%c0%afoutside/x",
    ),
    *(
        "\u202e../outside/x",
        "\u200b../outside/x",
        "..\u200b/outside/x",
        "\ufeff../outside/x",
        "fo\u0308lder-out/x",
    ),
    *(
        "FOLDER-OUT/x",
        "Folder-Out/x",
        "folder\u2010out/x",
        "$HOME/x",
        "${{HOME}}/x",
        "`pwd`/../outside/x",
        "*/../../outside/x",
    ),
]
ODD = [
    *(
        "",
        " ",
        "\0",
        "a.txt\0",
        "../outside/x\0.txt",
        "a\0/../../outside/x",
        "\udce9/../../outside/x",
        "\ud800",
        "\n",
    ),
    *(
        "../outside/x\n",
        " ../outside/x",
        "../outside/x ",
        "\t../outside/x",
        "'../outside/x'",
        '"../outside/x"',
    ),
    *(
        "n" * 300,
        "n" * 5000,
        "n/" * 3000,
        "n/" * 2000,
        "n" * 300 + "/../../outside/x",
        "../" + "n" * 5000 + "/../outside/x",
    ),
    *(
        "C:\\outside\\x",
        "C:/outside/x",
        "\\\\host\\share\\x",
        "CON",
        "NUL",
        "x:stream",
        "../outside/x::$DATA",
        "-rf",
        "--",
    ),
]
SPELLINGS = list(dict.fromkeys([*DOTS, *ABSOLUTE, *HOME, *LINKS, *UNICODE, *ODD]))


@pytest.fixture(scope="module")
def top(tmp_path_factory):
    made = tmp_path_factory.mktemp("top").resolve()
    for folder in ("outside/sub", "proj-evil", "proj/sub/deep", "home"):
        (made / folder).mkdir(parents=True)
    for name in ("outside/x", "outside/passwd", "proj-evil/x", "home/x"):
        (made / name).write_text(f"{SECRET}\n")
    proj = made / "proj"
    (proj / "a.txt").write_text("inside\n")
    links = {
        "file-out": made / "outside" / "x",
        "folder-out": made / "outside",
        "link-to-link": "file-out",
        "dangling-out": made / "outside" / "new",
        "dangling-folder": made / "not-there",
        "sub/up": "../..",
        "absolute": "/etc",
        "root": "/",
        "relative-out": "../outside",
        "sub/deep/far": "../../../outside",
        "chain": "relative-out",
        "proc": "/proc/self",
        "loop": "loop",
        "loop-a": "loop-b",
        "loop-b": "loop-a",
        "self": ".",
        "same": "../proj",
        "twice": "self/self/chain",
    }
    for name, target in links.items():
        (proj / name).symlink_to(target)
    return made


def everything(top):
    """Every name outside the workspace, with what it holds."""
    found = {}
    for path in [
        *(top / "outside").rglob("*"),
        *(top / "proj-evil").rglob("*"),
        *(top / "home").rglob("*"),
        *top.iterdir(),
    ]:
        found[path] = path.read_bytes() if path.is_file() else None
    return found


def calls(path):
    """Every file tool, asked for this path."""
    return {
        "read_file": {"path": path},
        "list_files": {"path": path},
        "glob": {"path": path, "pattern": "**"},
        "grep": {"path": path, "pattern": "S.CRET"},
        "edit_file": {"path": path, "old": SECRET, "new": "edited"},
        "edit_lines": {"path": path, "start_line": 1, "end_line": 1, "text": "edited"},
        "write_file": {"path": path, "text": "written"},
        "append_file": {"path": path, "text": "appended"},
    }


@pytest.fixture
def tools(top, monkeypatch):
    monkeypatch.setenv("HOME", str(top / "home"))
    return {item.name: item for item in editing(top / "proj")}


def test_there_are_enough_spellings():
    print(f"{len(SPELLINGS)} spellings of paths, each with 8 tools and a preview")
    assert len(SPELLINGS) >= 60


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: ascii(spelling[:40]))
def test_no_spelling_reads_or_writes_outside(top, tools, spelling):
    path = spelling.replace("{top}", str(top)).replace("{{", "{").replace("}}", "}")
    before = everything(top)
    for name, arguments in calls(path).items():
        given = dict(arguments)
        if "edit" in name or "write" in name or "append" in name:
            assert f"-{SECRET}" not in tools[name].spec.preview(given).text
            given["run"] = Run()
        try:
            said = str(tools[name](**given))
        except ToolError as fault:
            said = str(fault)
        assert f"{SECRET}\n" not in said, name
        assert f": {SECRET}" not in said, name
        assert "root:" not in said, name
        assert everything(top) == before, name


def test_the_same_call_inside_works(top, tools):
    """So that the test above could fail."""
    (top / "proj" / "told.txt").write_text(f"{SECRET}\n")
    assert f": {SECRET}" in tools["read_file"]("told.txt")
    assert f": {SECRET}" in tools["grep"]("S.CRET", "told.txt")
    assert f"-{SECRET}" in tools["edit_file"].spec.preview(calls("told.txt")["edit_file"]).text
    tools["edit_file"](**calls("told.txt")["edit_file"], run=Run())
    assert (top / "proj" / "told.txt").read_text() == "edited\n"


async def test_through_dispatch_it_is_a_result_with_a_sentence(top):
    dispatch = Toolbox(editing(top / "proj")).dispatch()
    result = await dispatch(ToolCall("1", "write_file", '{"path": "folder-out/new", "text": "x"}'), Run())
    assert result.is_error
    assert result.text == "`folder-out/new` is outside the workspace; only files inside it can be used."


RACES = {
    "read_file": lambda tool, run: tool("box/x"),
    "grep": lambda tool, run: tool("S.CRET", "box"),
    "list_files": lambda tool, run: tool("box"),
    "glob": lambda tool, run: tool("**", "box"),
    "edit_file": lambda tool, run: tool("box/x", "inside", "inside!", run),
    "write_file": lambda tool, run: tool(f"box/new-{os.urandom(4).hex()}", "text", run),
    "append_file": lambda tool, run: tool("box/x", f"more {os.urandom(4).hex()}", run),
}


STEPS = {
    "open",
    "os.scandir",
    "os.listdir",
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.chmod",
    "subprocess.Popen",
}
"""What Python tells its auditors before it asks the system for it."""

_at_step = []


def _tell(event, arguments):
    if event in STEPS and _at_step:
        _at_step[-1]()


sys.addaudithook(_tell)


@contextlib.contextmanager
def just_before(step, act):
    """Act once, right before the system is asked for the nth thing to do with files."""
    steps = itertools.count()

    def told():
        if threading.current_thread() is here and next(steps) == step:
            _at_step.clear()
            act()

    here = threading.current_thread()
    _at_step.append(told)
    try:
        yield steps
    finally:
        _at_step.clear()


@pytest.mark.parametrize("name", RACES)
def test_no_swap_between_check_and_use_leads_outside(tmp_path, name):
    """A folder of the workspace becomes a link to one outside, once before each step that the tool takes."""
    proj, outside = tmp_path / "proj", tmp_path / "outside"
    (proj / "box").mkdir(parents=True)
    outside.mkdir()
    (outside / "x").write_text(f"{SECRET}\n")
    (outside / "only-outside").touch()
    (proj / "evil").symlink_to(outside)

    def swap():
        (proj / "box").rename(proj / "was")
        (proj / "evil").rename(proj / "box")

    swapped = refused = 0
    for step in range(40):
        (proj / "box" / "x").write_text("inside\n")
        tool = {item.name: item for item in editing(proj)}[name]  # has read nothing yet
        with just_before(step, swap):
            try:
                said = str(RACES[name](tool, Run()))
            except ToolError as fault:
                said, refused = str(fault), refused + 1
        assert f": {SECRET}" not in said
        assert "only-outside" not in said
        assert (outside / "x").read_text() == f"{SECRET}\n"
        assert sorted(item.name for item in outside.iterdir()) == ["only-outside", "x"]
        if (proj / "was").exists():
            swapped += 1
            (proj / "box").rename(proj / "evil")
            (proj / "was").rename(proj / "box")
        elif (proj / "evil").exists():
            break
    print(
        f"{name}: the folder became a link before each of {swapped} steps; {refused} of the calls were refused"
    )
    assert 1 <= swapped < 40
