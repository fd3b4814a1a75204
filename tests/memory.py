"""A log in memory that forgets nothing but what a test has it lose, and all that a history tells, as data to compare."""

import json
from dataclasses import asdict, replace

from harness_nb.encoding import encode
from harness_nb.ops.records import Record
from harness_nb.ops.store import StoreError


class MemoryLog:
    """A log; `full` has it fail. `synced` are the kinds of the records that had to be on disk."""

    name = "memory"
    warnings = ()
    gone = shared = False

    def __init__(self, records=()):
        self.records, self.synced, self.full, self.closed = list(records), [], False, False

    def read(self):
        return list(self.records)

    def append(self, record, *, sync=False):
        if self.full:
            raise StoreError("The disk is full.")
        data = json.loads(json.dumps(record.data, allow_nan=False))
        kept = replace(record, data=data, seq=len(self.records) + 1)
        self.records.append(kept)
        self.synced += [record.kind] * sync
        return kept

    def close(self):
        self.closed = True

    @property
    def kinds(self):
        return [record.kind for record in self.records]

    def until(self, kind, number=1):
        """Make the log that a crash right after the record of this kind, the first or a later one, leaves."""
        places = [place for place, record in enumerate(self.records) if record.kind == kind]
        return MemoryLog(self.records[: places[number - 1] + 1])


def as_plain(record):
    """What a record says, without its number."""
    return [record.kind, record.run, record.at, json.loads(json.dumps(record.data))]


def snapshot(history):
    """All that a history tells, as JSON data."""
    runs = []
    for run in history.runs.values():
        apart = {"entries", "charges", "limit", "started", "finished", "usage", "asked"}
        told = {name: getattr(run, name) for name in run.__slots__ if name not in apart}
        told["entries"] = [encode(entry) for entry in run.entries]
        told["started"] = {name: asdict(attempt) for name, attempt in run.started.items()}
        told["finished"] = {name: repr(result) for name, result in run.finished.items()}
        told["usage"], told["asked"], told["limit"] = asdict(run.usage), sorted(run.asked), repr(run.limit)
        told["charges"] = [as_plain(record) for record in run.charges]
        runs.append(told)
    return json.loads(json.dumps([history.head, runs]))


def records_of(text):
    """Read records that were written as JSON, each a list of kind, run, at and data."""
    return [Record(kind, data, run, at) for kind, run, at, data in json.loads(text)]
