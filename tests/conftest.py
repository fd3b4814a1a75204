"""Fixtures that every test may use, and the walls round all of them: no key, no outside network."""

import dataclasses
import os
import signal
import sys
import uuid

import pytest
from workers import (  # noqa: F401 - pytest looks for hooks and fixtures here
    alone,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_runtest_protocol,
    pytest_unconfigure,
    pytest_xdist_auto_num_workers,
    pytest_xdist_make_scheduler,
)

KEYS = ("_API_KEY", "_AUTH_TOKEN")
for _name in [name for name in os.environ if name.endswith(KEYS) or name.startswith("HARNESS_NB_")]:
    del os.environ[_name]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a suite started in the background would pass that on
    signal.signal(signal.SIGINT, signal.default_int_handler)

_outside_allowed = False


def _refuse_outside(event: str, arguments: tuple[object, ...]) -> None:
    """Audit every connection: a test that reaches out of this machine is a mistake."""
    if _outside_allowed or event not in {"socket.connect", "socket.getaddrinfo"}:
        return
    address = arguments[1] if event == "socket.connect" else arguments
    host = address[0] if isinstance(address, tuple) else None  # a UNIX socket has a path, no host
    if host and not str(host).startswith(("127.", "localhost", "::1", "0.0.0.0")):
        message = f"a test tried to reach {host}; only marker `llama` may leave this machine"
        raise PermissionError(message)


sys.addaudithook(_refuse_outside)


def pytest_terminal_summary(terminalreporter):
    """Show what the shows and the bench printed: their figures are for a person to judge."""
    passed = terminalreporter.getreports("passed")
    for report in sorted(passed, key=lambda report: report.nodeid.partition("::")[0]):
        if report.nodeid.startswith(("tests/shows/", "tests/bench/")) and (said := report.capstdout.strip()):
            terminalreporter.section(report.nodeid, sep="-")
            terminalreporter.line(said)


@pytest.fixture(autouse=True)
def _walls(request, tmp_path_factory):
    """Sessions of this process are kept in a place of the test's own; kernels and JupyterLab have a folder of their own."""
    global _outside_allowed  # noqa: PLW0603 - an audit hook cannot be taken off, only told
    _outside_allowed = request.node.get_closest_marker("llama") is not None
    own = not any(request.node.get_closest_marker(name) for name in ("browser", "kernel"))
    if own:
        os.environ["HARNESS_NB_STORE"] = str(tmp_path_factory.getbasetemp() / "kept" / uuid.uuid4().hex)
    yield
    os.environ.pop("HARNESS_NB_STORE", None)
    _outside_allowed = False


@pytest.fixture
def anyio_backend():
    """Async tests run on asyncio, as a kernel does."""
    return "asyncio"


@pytest.fixture
def shell(request):
    """An IPython in this process with the extension loaded, and a main session of its own."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from harness_nb.jupyter import session as sessions

    config = Config(HistoryManager={"enabled": False}, InteractiveShell={"colors": "nocolor"})
    config.merge(Config(getattr(request, "param", {})))
    hook = sys.displayhook, sys.excepthook
    started = InteractiveShell.instance(config=config)
    started.extension_manager.load_extension("harness_nb")
    yield started
    started.extension_manager.unload_extension("harness_nb")
    InteractiveShell.clear_instance()
    sys.displayhook, sys.excepthook = hook
    sessions._sessions.clear()
    for field in dataclasses.fields(sessions.defaults):
        setattr(sessions.defaults, field.name, field.default)


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """A JupyterLab server for the whole run."""
    from browser.lab import serving

    with serving(tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(scope="module")
def chromium():
    """A browser for one module: Playwright's event loop must not outlive it, or async tests could not run."""
    from browser.desk import browser_path, browsing

    path = browser_path()
    if path is None and not os.environ.get("CI"):
        pytest.skip("no Chromium on this machine")
    with browsing(path) as browser:
        yield browser


@pytest.fixture
def desk(lab, chromium):
    """Opens notebooks: `desk.open(["print(1)"]).run(0)`; its pages and kernels end with the test."""
    from browser.desk import Desk

    opened = Desk(lab, chromium)
    yield opened
    opened.clear()


@pytest.fixture(params=["newest", "6.31"])
def kernel(request, tmp_path):
    """A real kernel with harness_nb in it: `kernel.execute("1 + 1").text`; once per ipykernel supported."""
    from kernel.rig import running

    with running(request.param, tmp_path) as started:
        yield started
