"""A PostgreSQL of the tests' own: a fresh cluster in a folder, on a free port of 127.0.0.1 that anyone here may use.

As a command, for `.ci/run`: `python3 tests/cluster.py start FOLDER` prints its URL, `stop FOLDER` ends it and
removes the folder. It needs the standard library alone.
"""

import argparse
import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import quote
from uuid import uuid4

USER = "tests"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "on",  # what these tests are about
    "shared_buffers": "16MB",
    "max_connections": "100",
    "log_min_messages": "log",
}

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None  # noqa: S108 - a folder of our own is made there
"""Where a cluster lies: no test cuts the power, and a write there takes no time."""


def binaries():
    """Find the folder with the newest server, None if there is none: Debian keeps it off the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    initdb = found[-1] if found else shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


class Cluster:
    """A server: `start` makes or restarts it, `kill` is a crash, `stop` ends it, `remove` leaves nothing."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.database = "postgres"
        self.data = self.folder / "data"
        self._port = self.folder / "port"

    @property
    def port(self):
        return int(self._port.read_text(encoding="utf-8"))

    @property
    def url(self):
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{self.database}"

    def start(self):
        if not self.data.exists():
            self._make()
        settings = [f"{name} = '{value}'" for name, value in {**SETTINGS, "port": self.port}.items()]
        (self.data / "postgresql.auto.conf").write_text("\n".join(settings) + "\n", encoding="utf-8")
        self._run("pg_ctl", "-D", self.data, "-l", self.folder / "log", "-w", "-t", "60", "-s", "start")
        return self

    def _make(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        if owner := _owner():
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port.write_text(str(free.getsockname()[1]), encoding="utf-8")
        how = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        self._run("initdb", "-D", self.data, "-U", USER, *how)

    def kill(self):
        """Have it end at once, in the middle of whatever it does; the next start recovers from that."""
        lock = self.data / "postmaster.pid"
        os.kill(int(lock.read_text().split()[0]), signal.SIGQUIT)
        while lock.exists():
            time.sleep(0.01)

    def stop(self):
        self._run("pg_ctl", "-D", self.data, "-m", "immediate", "-s", "-w", "stop")

    def remove(self):
        if (self.data / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder)

    def _run(self, name, *arguments):
        """Run one of its programs; they refuse to be root."""
        owner = _owner()
        who = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if owner else {}
        # What the server writes goes to its log; a pipe would stay open as long as it runs.
        with (self.folder / "output").open("w+", encoding="utf-8") as output:
            command = [str(binaries() / name), *map(str, arguments)]
            done = subprocess.run(
                command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd="/", check=False, **who
            )
            if done.returncode:
                output.seek(0)
                log = self.folder / "log"
                said = output.read() + (log.read_text(encoding="utf-8") if log.exists() else "")
                raise RuntimeError(f"{name} failed: {said}")


def _owner():
    """Who runs the server where we are root: the one whom Debian's package makes, or nobody."""
    import pwd

    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("no user to run a PostgreSQL server")


@cache
def schema(folder):
    """Return the URL of an empty schema, always the same one for this folder, so that tests don't meet."""
    import psycopg

    server, name = _server(), f"harness_nb_{uuid4().hex}"

    def run(command):
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(command)

    run(f"CREATE SCHEMA {name}")
    if "TEST_POSTGRES_URL" in os.environ:
        atexit.register(run, f"DROP SCHEMA {name} CASCADE")
    return f"{server}{'&' if '?' in server else '?'}options={quote(f'-csearch_path={name}')}"


def fresh():
    """Make a cluster that one test may break, skip where there are no programs for it. `remove` it afterwards."""
    import pytest

    if binaries() is None:
        if os.environ.get("CI"):
            pytest.fail("no PostgreSQL on this machine, and `.ci/run` should have installed it")
        pytest.skip("no PostgreSQL on this machine: apt install postgresql, or set TEST_POSTGRES_URL")
    return Cluster(mkdtemp(prefix="harness-nb-postgres-", dir=MEMORY)).start()


@cache
def _server():
    """Return the URL of a server for all tests of this process: the one there is, or one that ends with the process."""
    if given := os.environ.get("TEST_POSTGRES_URL"):
        return given
    cluster = fresh()
    atexit.register(cluster.remove)
    return cluster.url


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["start", "stop"])
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    cluster = Cluster(arguments.folder)
    if arguments.what == "start":
        print(cluster.start().url)
    else:
        cluster.remove()


if __name__ == "__main__":
    sys.exit(main())
