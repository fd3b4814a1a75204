"""Line 3, files: a session has one writer; a second process is refused, may read, or goes on in a copy of its own."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from harness_nb.ops.jsonl import JsonlStore
from harness_nb.ops.records import Record
from harness_nb.ops.store import BusyError

WRITER = """
import sys
from harness_nb.ops.jsonl import JsonlStore
from harness_nb.ops.records import Record
log = JsonlStore(sys.argv[1]).open("main")
log.append(Record("notice", {"text": "first"}))
print("open", flush=True)
for line in sys.stdin:
    if line == "fork\\n":
        import os, time
        if not os.fork():
            try:
                log.append(Record("notice", {"text": "forked"}))
                print("written", os.getpid(), flush=True)
            except Exception as fault:
                print(type(fault).__name__, os.getpid(), flush=True)
            time.sleep(600)
        continue
    log.append(Record("notice", {"text": line.strip()}))
    print("kept", flush=True)
"""


@contextmanager
def writer(folder):
    """Another process that writes the session `main`."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


def asked(process, line):
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline()


def texts(log):
    return [record.data["text"] for record in log.read()[1:]]


def test_a_second_process_is_refused_and_told_who_has_it(tmp_path):
    with writer(tmp_path) as process:
        store = JsonlStore(tmp_path)
        for work in (store.open, store.delete):
            with pytest.raises(
                BusyError, match=rf"`main` is being written by another process, {process.pid},"
            ):
                work("main")
        assert asked(process, "still here") == "kept\n"
        assert texts(store.open("main", write=False)) == ["first", "still here"]


def test_a_second_process_reads_all_that_is_kept_meanwhile(tmp_path):
    with writer(tmp_path) as process:
        reader = JsonlStore(tmp_path).open("main", write=False)
        for n in range(200):
            assert asked(process, n) == "kept\n"
            assert texts(reader)[-1] == str(n)
        assert len(texts(reader)) == 201
        assert not reader.warnings
        assert [info.records for info in JsonlStore(tmp_path).sessions()] == [202]


def test_a_second_process_goes_on_in_a_session_of_its_own(tmp_path):
    with writer(tmp_path) as process:
        store = JsonlStore(tmp_path)
        fork = store.open("main fork")
        for record in store.open("main", write=False).read()[1:]:
            fork.append(record)
        fork.append(Record("notice", {"text": "mine"}))
        assert asked(process, "theirs") == "kept\n"
        assert texts(fork) == ["first", "mine"]
        assert texts(store.open("main", write=False)) == ["first", "theirs"]
        fork.close()


def test_when_the_first_is_killed_the_next_may_write_at_once(tmp_path):
    store = JsonlStore(tmp_path)
    waited = []
    for n in range(5):
        with writer(tmp_path) as process:
            process.send_signal(signal.SIGKILL)
            process.wait()
            start = time.perf_counter()
            log = store.open("main")
            waited.append(time.perf_counter() - start)
            assert len(texts(log)) == n + 1
            log.close()
    print(f"opened after a kill within {max(waited) * 1000:.1f} ms at most, of {len(waited)}")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_a_process_that_was_forked_off_writes_nothing_and_keeps_nobody_out(tmp_path):
    with writer(tmp_path) as process:
        fault, child = asked(process, "fork").split()
        try:
            assert fault == "BusyError"
            with pytest.raises(BusyError):
                JsonlStore(tmp_path).open("main")
            process.kill()
            process.wait()
            log = JsonlStore(tmp_path).open("main")
            assert texts(log) == ["first"]
            log.close()
            os.kill(int(child), 0)
        finally:
            os.kill(int(child), signal.SIGKILL)


def test_in_one_process_a_session_is_open_once_too_and_again_when_it_was_closed(tmp_path):
    log = JsonlStore(tmp_path).open("main")
    with pytest.raises(BusyError, match="by this process already"):
        JsonlStore(tmp_path).open("main")
    log.close()
    JsonlStore(tmp_path).open("main").close()


def test_a_log_that_was_forgotten_keeps_nobody_out(tmp_path):
    log = JsonlStore(tmp_path).open("main")
    del log
    JsonlStore(tmp_path).open("main").close()


def test_by_another_way_to_the_folder_it_is_the_same_session(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real").mkdir()
    log = JsonlStore(tmp_path / "link").open("main")
    with pytest.raises(BusyError):
        JsonlStore(tmp_path / "real").open("main")
    log.close()


def test_many_who_want_it_at_once_have_it_one_after_another(tmp_path):
    """Open, append, close, over and over, in four processes: no record is lost, and no two have it at a time."""
    script = """
import sys, time
from harness_nb.ops.jsonl import JsonlStore
from harness_nb.ops.records import Record
from harness_nb.ops.store import BusyError
store = JsonlStore(sys.argv[1])
refused = done = 0
while done < 50:
    try:
        log = store.open("main")
    except BusyError:
        refused += 1
        time.sleep(0.001)
        continue
    log.append(Record("notice", {"text": sys.argv[2]}))
    log.close()
    done += 1
print(refused)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    processes = [
        subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for n in range(4)
    ]
    said = [process.communicate(timeout=60) for process in processes]
    assert [fault for _, fault in said] == [""] * 4
    log = JsonlStore(tmp_path).open("main", write=False)
    records = log.read()
    assert [record.seq for record in records] == list(range(1, 202))
    assert not log.warnings
    assert {path.name for path in tmp_path.iterdir()} == {"main.jsonl"}
    print(f"200 records by 4 processes in turn, {sum(int(refused) for refused, _ in said):,} times refused")
