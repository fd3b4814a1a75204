"""Some tests at a time: who gets which file, and how a test that measures time has the machine to itself.

The whole suite, or a folder of it, goes to a worker process per core and one more, since many tests wait; a file or a
single test runs in this process.
The first worker takes the files whose tests mostly wait, for a browser, a model or a kernel; the others take the
rest, from the busiest on. They meet in the middle, so that all end at about the same time. A file is never divided:
its browser, server or engine is started once.
"""

import gc
import os
from collections import defaultdict
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import gettempdir

import pytest

WAITING = ("browser", "llama", "kernel")
"""Markers of tests that mostly wait, those that take longest first."""


def pytest_xdist_auto_num_workers(config):
    """Count the workers: none for a file or a test, since starting them takes longer than it saves."""
    here = config.invocation_params.dir
    if os.name == "nt" or not all(Path(here, argument).is_dir() for argument in config.args):
        return 0
    cores = os.cpu_count() or 1
    return min(cores + 1, 4) if cores > 1 else 0


def pytest_collection_modifyitems(config, items):
    """Put files that wait first and busy ones last; alone in its process, a test keeps its place."""
    if not hasattr(config, "workerinput"):
        return
    marks = defaultdict(set)
    for item in items:
        marks[item.path].update(mark.name for mark in item.iter_markers())

    def place(item):
        found = marks[item.path]
        waits = [n for n, name in enumerate(WAITING) if name in found]
        return waits[0] if waits else len(WAITING) + ("slow" in found)

    items.sort(key=place)


def pytest_xdist_make_scheduler(config, log):
    """Hand out files from both ends of that order."""
    from xdist.scheduler import LoadFileScheduling

    class FromBothEnds(LoadFileScheduling):
        def _assign_work_unit(self, node):
            if node.gateway.id != "gw0":
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False
    return FromBothEnds(config, log)


class Company:
    """Every test shares a lock with those of the other workers, but for moments when it holds the lock alone."""

    def __init__(self, run):
        # Whoever wants to be alone holds the door, so that no next test slips in before.
        names = (f"harness-nb-tests-{run}-{part}" for part in ("lock", "door"))
        self._paths = [Path(gettempdir(), name) for name in names]
        self._lock, self._door = (path.open("wb") for path in self._paths)

    @contextmanager
    def joined(self):
        """Run a test beside others, as soon as none is alone."""
        self._take(self._door, "LOCK_EX")
        self._take(self._lock, "LOCK_SH")
        self._take(self._door, "LOCK_UN")
        try:
            yield
        finally:
            self._take(self._lock, "LOCK_UN")

    @contextmanager
    def alone(self):
        """Wait for the others' tests to end, and keep their next ones waiting."""
        self._take(self._lock, "LOCK_UN")
        self._take(self._door, "LOCK_EX")
        self._take(self._lock, "LOCK_EX")
        try:
            yield
        finally:
            self._take(self._lock, "LOCK_SH")
            self._take(self._door, "LOCK_UN")

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
def pytest_runtest_protocol(item):
    """Run each test, with its fixtures, beside those of the other workers."""
    _let_be(item)
    company = item.config.stash.get(_company, None)
    with company.joined() if company else nullcontext():
        return (yield)


@pytest.fixture
def alone(request):
    """Has the machine for a moment: in `with alone():` no test of another worker runs. For what measures time."""
    company = request.config.stash.get(_company, None)
    return company.alone if company else nullcontext
