"""Two processes and a thread write one session while a reader looks: nothing is lost, and numbers rise in order."""

import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import pairwise

import pytest
from cluster import schema

from harness_nb.ops.records import Record
from harness_nb.ops.store import open_store

EACH = 200
WRITER = """
import sys, time
from harness_nb.ops.records import Record
from harness_nb.ops.store import open_store

log = open_store(sys.argv[1]).open("shared")
print("ready", flush=True)
sys.stdin.readline()
for n in range(int(sys.argv[3])):
    kept = log.append(Record("notice", {"who": sys.argv[2], "n": n}), sync=n % 4 == 0)
    print(kept.seq)
    time.sleep(0.001)
log.close()
"""


@pytest.fixture(params=["sqlite", "postgres"])
def where(request, tmp_path):
    return f"sqlite:///{tmp_path / 'sessions.db'}" if request.param == "sqlite" else schema(tmp_path)


def grown(reader, before):
    """Read once more: what was there stays, and what came is at its end, without a gap."""
    now = reader.read()
    assert now[: len(before)] == before
    assert [record.seq for record in now] == list(range(1, len(now) + 1))
    return now


def test_six_hundred_records_of_three_writers_are_there_in_order_whenever_one_looks(where):
    store = open_store(where)
    log = store.open("shared")
    reader = open_store(where).open("shared", write=False)
    told = {"thread": []}

    def write():
        for n in range(EACH):
            kept = log.append(Record("notice", {"who": "thread", "n": n}), sync=n % 4 == 0)
            told["thread"].append(kept.seq)
            time.sleep(0.001)  # or the first one might be done before the last one begins

    others = {
        who: subprocess.Popen(
            [sys.executable, "-c", WRITER, where, who, str(EACH)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for who in ("one", "two")
    }
    assert all(other.stdout.readline() == "ready\n" for other in others.values())
    thread = threading.Thread(target=write)
    began = time.perf_counter()
    thread.start()
    for other in others.values():
        other.stdin.write("go\n")
        other.stdin.flush()
    seen, sizes = [], Counter()
    while thread.is_alive() or any(other.poll() is None for other in others.values()):
        now = grown(reader, seen)
        sizes[len(now) - len(seen)] += 1
        seen = now
    took = time.perf_counter() - began
    thread.join()
    for who, other in others.items():
        said, faults = other.communicate()
        assert (other.returncode, faults) == (0, "")
        told[who] = [int(number) for number in said.split()]

    records = grown(reader, seen)[1:]
    assert len(records) == 3 * EACH
    for who, numbers in told.items():
        own = [record for record in records if record.data["who"] == who]
        assert [record.data["n"] for record in own] == list(range(EACH))
        assert [record.seq for record in own] == numbers == sorted(numbers)
    order = [record.data["who"] for record in records]
    turns = sum(left != right for left, right in pairwise(order))
    assert turns > 3, "the writers did not write at the same time"
    log.close()
    reader.close()
    print(
        f"{where.partition(':')[0]}: {len(records)} records of 3 writers in {took:.1f} s, 0 lock errors, numbers "
        f"{records[0].seq} to {records[-1].seq}; the writer changed {turns} times; {sizes.total()} readings, "
        f"{sizes.total() - sizes[0]} with something new, none with a gap or a change"
    )


@pytest.mark.usefixtures("alone")
def test_what_an_append_costs(where):
    log = open_store(where).open("main")
    record = Record("message", {"text": "word " * 100}, "run")
    costs = {}
    for sync in (False, True):
        laps = []
        for _ in range(200):
            began, busy = time.perf_counter(), time.process_time()
            log.append(record, sync=sync)
            laps.append((time.perf_counter() - began, time.process_time() - busy))
        costs[sync] = [statistics.median(lap) * 1000 for lap in zip(*laps, strict=True)]
    began, busy = time.perf_counter(), time.process_time()
    assert len(log.read()) == 401
    reading = (time.process_time() - busy) * 1000
    log.close()
    print(
        f"{where.partition(':')[0]}: an append {costs[False][0]:.2f} ms ({costs[False][1]:.2f} ms of CPU here), "
        f"synced {costs[True][0]:.2f} ms ({costs[True][1]:.2f} ms); reading 401 records {reading:.0f} ms of CPU"
    )
