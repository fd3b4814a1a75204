"""Line 2: a session's process is killed at random moments and at every write boundary, taken up again, and finished; nothing is lost or done twice."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import killed
import pytest
from cluster import schema

POINTS = 500
"""Random moments; there is also every boundary."""
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made there
"""A disk that is quick to write to: what is written outlasts a process there as on any other."""
PLACES = {
    "jsonl": lambda folder: str(folder / "sessions"),
    "sqlite": lambda folder: f"sqlite:///{folder / 'sessions.db'}",
    "postgres": schema,
}


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither SIGKILL nor fork")
@pytest.mark.slow
@pytest.mark.parametrize("store", PLACES)
def test_a_session_that_is_killed_anywhere_goes_on_and_does_nothing_twice(store, tmp_path):
    path = os.pathsep.join([str(Path(killed.__file__).parent), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as folder:
        command = [sys.executable, killed.__file__, PLACES[store](Path(folder)), str(POINTS)]
        env = {**os.environ, "PYTHONPATH": path, "TMPDIR": folder}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout)
    counts = told["counts"]
    print(
        f"{store}: {counts['points']} points ({counts['boundaries']} at boundaries, {counts['random']} at random), "
        f"{counts['killed']} killed, {counts['killed again']} of these once more while taken up. Of effects that must "
        f"not be repeated {counts['1 times']:,} were had once, {counts.get('0 times', 0)} never, "
        f"{counts.get('2 times', 0)} twice. {counts['in doubt']} calls in doubt, {counts['asked']} asked about, "
        f"{counts['yes']} times allowed again. {told['seconds']:.0f} s."
    )
    assert not told["wrong"], told["wrong"][:5]
    assert counts["random"] >= POINTS
    assert counts["killed"] == counts["random"] + counts["boundaries"]
    assert counts["killed again"] >= 0.1 * POINTS
    assert counts["in doubt"] >= counts["asked"] / 2 > 1
    assert 0 < counts["yes"] < counts["asked"]
    assert counts.get("2 times", 0) <= counts["yes"]
