"""Full disks, closed doors and things in the way: what a session in files does where it can't be kept."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from test_store import said, texts

from harness_nb.ops.jsonl import JsonlStore
from harness_nb.ops.store import StoreError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="these are faults of POSIX systems")

SETUP = """
import os, resource, sys
from pathlib import Path
from harness_nb.ops.disk import HalfWrittenError, write_whole
from harness_nb.ops.jsonl import JsonlStore
from harness_nb.ops.records import Record
from harness_nb.ops.store import StoreError
def said(text): return Record("notice", {"text": text})
def tried(work):
    try: work()
    except StoreError as fault: print(fault)
"""


@pytest.fixture
def store(tmp_path):
    return JsonlStore(tmp_path / "sessions")


@pytest.fixture
def public():
    """A folder that other users may read, as `tmp_path` of root is not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def child(script, *arguments, before=()):
    """Run Python in a process of its own and return the lines that it printed."""
    command = [*before, sys.executable, "-c", SETUP + script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


def test_a_record_that_no_longer_fits_leaves_nothing_and_a_shorter_one_goes_on(store, tmp_path):
    """A limit on a file's size: the system writes what fits of a line, and refuses the rest."""
    script = """
log = JsonlStore(sys.argv[1]).open("main")
log.append(said("a"))
size = Path(sys.argv[1], "main.jsonl").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 300, size + 300))
tried(lambda: log.append(said("x" * 1_000), sync=True))
assert Path(sys.argv[1], "main.jsonl").stat().st_size == size
log.append(said("b"))
"""
    (told,) = child(script, tmp_path / "sessions")
    assert "can't grow, the disk is full" in told
    log = store.open("main", write=False)
    assert texts(log) == ["a", "b"]
    assert [record.seq for record in log.read()] == [1, 2, 3]
    assert not log.warnings


def test_a_session_that_does_not_fit_at_all_leaves_no_file(tmp_path):
    script = """
resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))
tried(lambda: JsonlStore(sys.argv[1]).open("main"))
"""
    (told,) = child(script, tmp_path)
    assert "disk is full" in told
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_told_and_goes_on_when_there_is_room():
    """A disk of 64 kB in memory, of a namespace of our own."""
    script = """
store = JsonlStore("/mnt/sessions")
log = store.open("main")
log.append(said("a"))
with open("/mnt/ballast", "wb", buffering=0) as ballast:
    try:
        while ballast.write(b"x" * 1024): pass
    except OSError: pass
tried(lambda: [log.append(said("x" * 5_000)) for _ in range(9)])
tried(lambda: store.open("other"))
os.unlink("/mnt/ballast")
log.append(said("b"), sync=True)
reader = store.open("main", write=False)
texts = [record.data["text"] for record in reader.read()[1:]]
assert (texts[0], texts[-1], set(texts[1:-1])) in [("a", "b", {"x" * 5_000}), ("a", "b", set())]
assert not reader.warnings
assert [info.name for info in store.sessions()] == ["main"]
"""
    mount = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=64k none /mnt && exec "$@"', "sh"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*mount, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip(
            "no namespace with a disk of its own can be had here; the tests before have limits of another kind"
        )
    first, second = child(script, before=mount)
    assert "`sessions/main.jsonl` can't grow, the disk is full" in first
    assert "other.jsonl` can't grow, the disk is full" in second


def test_what_could_not_be_taken_back_costs_no_later_record(store):
    log = store.open("main")
    with (store._folder / "main.jsonl").open("ab") as file:
        file.write(b'{"seq": 2, "at')
    log._half = True
    log.append(said("a"))
    log.append(said("b"))
    log.close()
    reader = store.open("main", write=False)
    assert texts(reader) == ["a", "b"]
    assert [warning.partition(": ")[2] for warning in reader.warnings] == ["Line 2 is damaged."]


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs a file that can be kept from shrinking")
def test_bytes_that_can_not_be_taken_back_are_told_apart():
    script = """
import fcntl
fd = os.memfd_create("x", os.MFD_ALLOW_SEALING)
fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try: write_whole(fd, b"x" * 20)
except HalfWrittenError: print(os.fstat(fd).st_size)
"""
    assert child(script) == ["10"]


@pytest.mark.parametrize(("folder", "file"), [(0o555, 0o444), (0o555, 0), (0, 0)])
def test_a_folder_that_may_not_be_written_can_still_be_read_if_that_may(public, folder, file):
    """Root may do all, so it becomes somebody else first."""
    script = """
if not os.getuid():
    os.setgid(65534)
    os.setuid(65534)
store = JsonlStore(sys.argv[1])
tried(lambda: store.open("new"))
tried(lambda: store.open("main"))
tried(lambda: store.delete("main"))
tried(lambda: print(len(store.open("main", write=False).read())))
tried(lambda: print([info.name for info in store.sessions()]))
"""
    sessions = public / "sessions"
    JsonlStore(sessions).open("main").close()
    (sessions / "main.jsonl").chmod(file)
    sessions.chmod(folder)
    try:
        *refused, read, listed = child(script, sessions)
    finally:
        sessions.chmod(0o755)
    assert all("permission denied" in told and "HARNESS_NB_STORE" in told for told in refused)
    assert len(refused) == 3
    assert read == "1" if file else "permission denied" in read
    assert listed == str(["main"] if file else []) if folder else "permission denied" in listed
    assert sorted(path.name for path in sessions.iterdir()) == ["main.jsonl"]


def test_a_disk_that_can_only_be_read_is_told(tmp_path):
    script = """
tried(lambda: JsonlStore(sys.argv[1]).open("main"))
tried(lambda: JsonlStore(sys.argv[1]).open("new"))
print(len(JsonlStore(sys.argv[1]).open("main", write=False).read()))
"""
    JsonlStore(tmp_path).open("main").close()
    mount = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        'd=$1; shift; mount --bind "$d" "$d" && mount -o remount,bind,ro "$d" && exec "$@"',
    ]
    mount += ["sh", str(tmp_path)]
    if (
        not shutil.which("unshare")
        or subprocess.run([*mount, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip(
            "no namespace with a disk of its own can be had here; the test before has a folder of that kind"
        )
    main, new, read = child(script, tmp_path, before=mount)
    assert "main.jsonl` can't be written: read-only file system" in main
    assert "new.jsonl` can't be written: read-only file system" in new
    assert read == "1"


@pytest.mark.parametrize("way", ["sessions", "."])
def test_a_file_where_a_folder_should_be_is_named(tmp_path, way):
    (tmp_path / "here").write_text("mine")
    store = JsonlStore(tmp_path / "here" / way)
    for work in (
        lambda: store.open("main"),
        lambda: store.open("main", write=False),
        lambda: store.delete("main"),
    ):
        with pytest.raises(StoreError, match=r"here` is a file|No session"):
            work()
    with pytest.raises(StoreError, match="is a file, and sessions need a folder there"):
        store.open("main")
    assert (tmp_path / "here").read_text() == "mine"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_not_waited_for(store, make):
    store.open("other").close()
    make(store._folder / "main.jsonl")
    with pytest.raises(StoreError, match=r"main.jsonl` (is no plain file|can't be written: is a directory)"):
        store.open("main")
    with pytest.raises(StoreError, match="No session"):
        store.open("main", write=False)
    assert (store._folder / "main.jsonl").exists()
    assert [info.name for info in store.sessions()] == ["other"]


def test_a_session_that_is_deleted_or_replaced_while_written_says_so(store):
    file = store._folder / "main.jsonl"
    log = store.open("main")
    shutil.copy(file, file.with_suffix(".copy"))
    file.with_suffix(".copy").rename(file)
    with pytest.raises(StoreError, match="was deleted or replaced"):
        log.append(said("a"))
    log.close()
    log = store.open("main")
    log.append(said("a"))
    assert texts(log) == ["a"]
    log.close()


def test_a_path_is_told_from_the_current_folder(tmp_path):
    (tmp_path / "here").write_text("mine")
    script = """
os.chdir(sys.argv[1])
tried(lambda: JsonlStore("here/sessions").open("main"))
"""
    assert child(script, tmp_path)[0].startswith("`here` is a file")
