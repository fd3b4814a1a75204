"""Shows 1, case R22: a sibling with a longer name, links and dots lead nowhere; what is inside works."""

import pytest

from harness_nb.errors import ToolError
from harness_nb.seams import Run
from harness_nb.toolkit.edits import editing

OUTSIDE = [
    *("../proj-evil/x", "{top}/proj-evil/x", "sub/../../proj-evil/x", "link-to-passwd", "linked-parent/x"),
    *("dangling-out", "~/x", "a\0b", "", "."),
]


@pytest.fixture
def top(tmp_path):
    (tmp_path / "proj-evil").mkdir()
    (tmp_path / "proj-evil" / "x").write_text("SECRET")
    proj = tmp_path / "proj"
    (proj / "sub").mkdir(parents=True)
    (proj / "sub" / "inner").write_text("inside\n")
    (proj / "link-to-passwd").symlink_to("/etc/passwd")
    (proj / "linked-parent").symlink_to(tmp_path / "proj-evil")
    (proj / "dangling-out").symlink_to(tmp_path / "out")
    (proj / "link-in").symlink_to("sub/inner")
    return tmp_path


@pytest.fixture
def tools(top):
    return {item.name: item for item in editing(top / "proj")}


@pytest.mark.parametrize("path", OUTSIDE)
def test_outside_is_an_error_and_nothing_is_read_or_made(top, tools, path):
    path = path.replace("{top}", str(top))
    before = sorted(top.rglob("*"))
    calls = [
        lambda: tools["read_file"](path),
        lambda: tools["write_file"](path, "x", Run()),
        lambda: tools["append_file"](path, "x", Run()),
        lambda: tools["edit_file"](path, "SECRET", "x", Run()),
        lambda: tools["list_files"](path),
        lambda: tools["grep"]("SECRET|root", path),
        lambda: tools["glob"]("*", path),
    ]
    for call in calls[:4] if path == "." else calls:
        with pytest.raises(ToolError) as caught:
            call()
        assert "SECRET" not in str(caught.value)
        assert "root:" not in str(caught.value)
    assert sorted(top.rglob("*")) == before
    assert (top / "proj-evil" / "x").read_text() == "SECRET"


def test_searches_follow_no_link_out(tools):
    assert "no match" in tools["grep"]("SECRET|root:")
    assert "linked-parent/x" not in tools["glob"]("**")


def test_what_is_inside_works(top, tools):
    assert "1: inside" in tools["read_file"]("link-in")
    assert "sub/inner:1: inside" in tools["grep"]("inside", ".")
    assert "sub/" in tools["list_files"](".")
    tools["write_file"]("new/folder/file", "text\n", Run())
    assert (top / "proj" / "new" / "folder" / "file").read_text() == "text\n"
    tools["edit_file"]("link-in", "inside", "still inside", Run())
    assert (top / "proj" / "sub" / "inner").read_text() == "still inside\n"
