"""Some tests at a time: who gets which file, and how a test that measures time has the machine to itself.

The whole suite, or a folder of it, goes to a worker process per core and one more, since many tests wait; a file or a
single test runs in this process. Tests that use `alone` come first, one after the other, and no other runs meanwhile.
Every other worker then takes the files whose tests mostly wait, for a browser, a model or a kernel; the rest take the
others, from the busiest on. They meet in the middle, where files are short, so that all end at about the same time. A
file is otherwise not divided: its browser, server or engine is started once.
"""

import gc
import os
import re
from collections import defaultdict
from pathlib import Path
from tempfile import gettempdir

import pytest

WAITING = ("browser", "llama", "kernel")
"""Markers of tests that mostly wait, those that take longest first."""

ALONE = re.compile(r"[\[-]alone[\]-]")
"""Is in the names of tests that are handed out together, to be alone in turn."""


def pytest_xdist_auto_num_workers(config):
    """Count the workers: none for a file or a test, since starting them takes longer than it saves."""
    here = config.invocation_params.dir
    if os.name == "nt" or not all(Path(here, argument).is_dir() for argument in config.args):
        return 0
    cores = os.cpu_count() or 1
    return min(cores + 1, 4) if cores > 1 else 0


def pytest_collection_modifyitems(config, items):
    """Put files that wait first, busy ones last, and tests that are to be alone after those."""
    if not hasattr(config, "workerinput"):
        return
    marks = defaultdict(set)
    for item in items:
        marks[item.path].update(mark.name for mark in item.iter_markers())

    def place(item):
        if is_alone(item):
            return len(WAITING) + 2
        found = marks[item.path]
        waits = [n for n, name in enumerate(WAITING) if name in found]
        return waits[0] if waits else len(WAITING) + ("slow" in found)

    items.sort(key=place)


@pytest.fixture(params=["alone"])
def alone():
    """Has a test run while no other worker's does: what measures time. Its name says so, for who hands out the tests."""


def is_alone(item):
    """Tell whether no other test may run beside this one."""
    return "alone" in getattr(item, "fixturenames", ())


def pytest_xdist_make_scheduler(config, log):
    """Hand out files from both ends of that order."""
    from xdist.scheduler import LoadFileScheduling

    class FromBothEnds(LoadFileScheduling):
        def _assign_work_unit(self, node):
            if int(node.gateway.id.removeprefix("gw")) % 2:
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
            super()._assign_work_unit(node)

        def _split_scope(self, nodeid):
            return "alone" if ALONE.search(nodeid) else super()._split_scope(nodeid)

    config.option.loadscopereorder = False
    return FromBothEnds(config, log)


class Company:
    """A lock that every test shares with those of the other workers, or holds alone."""

    def __init__(self, run):
        # Whoever wants to be alone holds the door, so that no next test slips in before.
        names = (f"harness-nb-tests-{run}-{part}" for part in ("lock", "door"))
        self._paths = [Path(gettempdir(), name) for name in names]
        self._lock, self._door = (path.open("wb") for path in self._paths)
        self._alone = False

    def join(self, *, alone):
        """Begin a test as soon as none is alone; to be alone, as soon as the others have ended."""
        if self._alone:
            return
        self._take(self._door, "LOCK_EX")
        self._take(self._lock, "LOCK_EX" if alone else "LOCK_SH")
        self._alone = alone
        if not alone:
            self._take(self._door, "LOCK_UN")

    def leave(self):
        """End it, and let those who wait begin."""
        self._take(self._lock, "LOCK_UN")
        self._take(self._door, "LOCK_UN")
        self._alone = False

    def close(self):
        """Forget the lock."""
        for file, path in zip((self._lock, self._door), self._paths, strict=True):
            file.close()
            path.unlink(missing_ok=True)

    @staticmethod
    def _take(file, how):
        import fcntl

        fcntl.flock(file, getattr(fcntl, how))


_company = pytest.StashKey()


def pytest_configure(config):
    """Let a worker meet the others of its run, and its tests take the longer for it."""
    if not hasattr(config, "workerinput"):
        return
    import hypothesis

    # A busy machine is slow, not wrong; fewer examples than usual, unless a test asks for more.
    hypothesis.settings.register_profile("patient", deadline=None, max_examples=30)
    hypothesis.settings.load_profile("patient")
    if os.name == "posix":
        config.stash[_company] = Company(config.workerinput["testrunuid"])


def pytest_unconfigure(config):
    """Leave nothing behind."""
    if company := config.stash.get(_company, None):
        company.close()


_file = pytest.StashKey()


def _let_be(item):
    """Once a file, have Python's collector pass over what is there by now: it would look through all of it at each turn."""
    if item.config.stash.get(_file, None) != item.path:
        item.config.stash[_file] = item.path
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Run each test, with its fixtures, beside those of the other workers; those that are to be alone in one go."""
    _let_be(item)
    company = item.config.stash.get(_company, None)
    if company is None:
        return (yield)
    company.join(alone=is_alone(item))
    try:
        return (yield)
    finally:
        if not (is_alone(item) and is_alone(nextitem)):
            company.leave()
