"""The workspace's edge: what is inside by where it really is, and opened so that nothing swapped in can lead out."""

import contextlib
import os
import threading

import pytest

from harness_nb import workspace as edge
from harness_nb.errors import ToolError
from harness_nb.workspace import Folder, Workspace, folder, opened


@pytest.fixture
def proj(tmp_path):
    (tmp_path / "proj-evil").mkdir()
    (tmp_path / "proj-evil" / "x").write_text("SECRET")
    made = tmp_path / "proj"
    (made / "sub").mkdir(parents=True)
    (made / "sub" / "x").write_text("inside")
    return made


def read(place):
    with os.fdopen(opened(place)) as stream:
        return stream.read()


@pytest.mark.parametrize("path", ["sub/x", "./sub/../sub/x", "sub//x", "link", "round/sub/x"])
def test_the_same_place_has_the_same_name_and_key(proj, path):
    (proj / "link").symlink_to("sub/x")
    (proj / "round").symlink_to(".")
    place = Workspace(proj).locate(path)
    assert (place.name, place.key) == ("sub/x", Workspace(proj).locate(proj / "sub" / "x").key)


@pytest.mark.parametrize("path", ["sub/x", "new/file", ".", "sub/.."])
def test_inside_is_inside(proj, path):
    assert Workspace(proj).contains(path)


@pytest.mark.parametrize(
    "path", ["..", "../proj-evil/x", "/etc", "out", "dangling", "loop", "~", "", "a\0b", "loop/x"]
)
def test_outside_and_what_can_not_be_told_is_not_inside(proj, path):
    (proj / "out").symlink_to(proj.parent / "proj-evil")
    (proj / "dangling").symlink_to(proj.parent / "nothing")
    (proj / "loop").symlink_to("loop")
    assert not Workspace(proj).contains(path)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("loop", "its links go round"),
        ("\ud800", "half a character"),
        ("n" * 5000, "too long"),
        (" ", "Give the path"),
    ],
)
def test_a_path_that_can_not_be_looked_up_says_why(proj, path, said):
    (proj / "loop").symlink_to("loop")
    with pytest.raises(ToolError, match=said) as caught:
        Workspace(proj).locate(path)
    assert str(proj) not in str(caught.value)


def test_the_key_minds_neither_case_nor_the_form_of_accents(proj):
    locate = Workspace(proj).locate
    assert locate("Caf\u00e9").key == locate("cafe\u0301").key


def test_a_workspace_reached_by_a_link_is_the_folder_it_leads_to(proj, tmp_path):
    (tmp_path / "alias").symlink_to(proj)
    assert Workspace(tmp_path / "alias").locate(proj / "sub" / "x").name == "sub/x"


@pytest.fixture(params=["step by step", "elsewhere"])
def _both_ways(request, monkeypatch):
    """Open as Linux and macOS do, and as systems without directory handles do."""
    monkeypatch.setattr(edge, "STEPWISE", request.param == "step by step")


@pytest.mark.usefixtures("_both_ways")
def test_a_file_swapped_for_a_link_after_the_check_is_not_opened(proj):
    place = Workspace(proj).locate("sub/x")
    (proj / "sub" / "x").unlink()
    (proj / "sub" / "x").symlink_to(proj.parent / "proj-evil" / "x")
    with pytest.raises(OSError, match=r"links|link"):
        read(place)


@pytest.mark.usefixtures("_both_ways")
def test_a_folder_swapped_for_a_link_after_the_check_is_not_entered(proj):
    place = Workspace(proj).locate("sub/x")
    (proj / "sub").rename(proj / "was")
    (proj / "sub").symlink_to(proj.parent / "proj-evil")
    with pytest.raises(OSError, match=r"directory|links"):
        read(place)


@pytest.mark.usefixtures("_both_ways")
def test_a_pipe_does_not_keep_it_waiting_and_folders_can_be_made(proj):
    os.mkfifo(proj / "pipe")
    with pytest.raises(ToolError, match="a pipe"):
        opened(Workspace(proj).locate("pipe"))
    with folder(proj.resolve(), ["a", "b"], make=True) as made:
        made.mkdir("c")
        assert [entry.name for entry in made.entries()] == ["c"]


@pytest.mark.skipif(not edge.STEPWISE, reason="needs handles of directories")
def test_what_is_done_in_an_open_folder_is_done_there(proj):
    with folder(proj.resolve(), ["sub"]) as inside:
        (proj / "sub").rename(proj / "was")
        (proj / "sub").symlink_to(proj.parent / "proj-evil")
        os.close(inside.open("new", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        inside.replace("new", "x")
    assert (proj / "was" / "x").read_text() == ""
    assert (proj.parent / "proj-evil" / "x").read_text() == "SECRET"


@pytest.mark.skipif(not edge.STEPWISE, reason="needs handles of directories")
def test_no_swap_at_any_moment_reads_the_secret(proj):
    """Swap a folder for a link to the secret as fast as can be, while it is read."""
    place, over, seen = Workspace(proj).locate("sub/x"), threading.Event(), set()

    def swap():
        (proj / "evil").symlink_to(proj.parent / "proj-evil")
        while not over.is_set():
            (proj / "sub").rename(proj / "was")
            (proj / "evil").rename(proj / "sub")
            (proj / "sub").rename(proj / "evil")
            (proj / "was").rename(proj / "sub")

    swapping = threading.Thread(target=swap)
    swapping.start()
    for _ in range(3000):
        with contextlib.suppress(OSError, ToolError):
            seen.add(read(Workspace(proj).locate("sub/x") if len(seen) % 2 else place))
    over.set()
    swapping.join()
    assert seen <= {"inside"}


def test_no_handle_is_left_open(proj):
    if not os.path.isdir("/proc/self/fd"):  # noqa: PTH112 - Linux alone has it
        pytest.skip("needs /proc")
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    for path in ("sub/x", "sub/none", "none/x", "sub", "sub/x/y"):
        with contextlib.suppress(OSError):
            read(Workspace(proj).locate(path))
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def test_a_link_in_a_folder_is_seen_as_itself(proj):
    (proj / "out").symlink_to("/etc")
    assert Folder(proj).stat("out").st_mode & 0o170000 == 0o120000
