"""Line 7, iopub half: what a run of 5,000 deltas of 5 characters puts on the wire, and how its notebook opens."""

import json
import threading
import time
from contextlib import contextmanager

import pytest
import zmq

TEXT = "".join(f"{n:04} " for n in range(5000))

SETUP = """
import asyncio, time
from harness_nb import Agent, Run, say
from harness_nb.events import TextDelta
from harness_nb.jupyter.live import show_run

TEXT = "".join(f"{n:04} " for n in range(5000))

class Steady:
    name = "steady"

    def __init__(self, pace):
        self.pace = pace

    async def __call__(self, request, run):
        began = time.monotonic()
        for n in range(5000):
            run.emit(TextDelta(TEXT[5 * n : 5 * n + 5]))
            await asyncio.sleep(max(0, began + n * self.pace - time.monotonic()))
        return say(TEXT)

async def go(pace):
    shown = show_run("Count.", lambda: None)
    await Agent(Steady(pace)).run("Count.", Run(listener=shown.listener))
    shown.close()
"""


class Wire:
    """Every message on a kernel's iopub: its type, its bytes as sent, when it came."""

    def __init__(self, connection):
        facts = json.loads(connection.read_text())
        self._socket = zmq.Context.instance().socket(zmq.SUB)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._socket.subscribe(b"")
        self._socket.connect(f"{facts['transport']}://{facts['ip']}:{facts['iopub_port']}")
        self._over = threading.Event()
        self.messages = []
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self):
        while not self._over.is_set():
            if self._socket.poll(50):
                frames = self._socket.recv_multipart()
                header = json.loads(frames[frames.index(b"<IDS|MSG>") + 2])
                self.messages.append((header["msg_type"], sum(map(len, frames)), time.monotonic()))
        self._socket.close()

    def close(self):
        self._over.set()
        self._thread.join()

    def of(self, *types):
        return [(size, at) for kind, size, at in self.messages if kind in types]


@contextmanager
def listening(connection):
    wire = Wire(connection)
    try:
        yield wire
    finally:
        wire.close()


def figures(name, wire):
    """Print what a run sent, and return bytes by character of text and messages a second while it streamed."""
    stream = wire.of("comm_msg")
    total = sum(size for _, size, _ in wire.messages)
    ratio = sum(size for size, _ in stream) / len(TEXT)
    lasted = max(stream[-1][1] - stream[0][1], 1.0)
    opened, record = (sum(size for size, _ in wire.of(*kinds)) for kinds in OPEN_AND_RECORD)
    print(
        f"\n{name}: {len(stream)} live messages in {lasted:.1f} s, {ratio:.1f}x the text's size"
        f" (opening the view {opened / 1000:.0f} kB, the record {record / 1000:.0f} kB, all {total / 1000:.0f} kB)"
    )
    return ratio, len(stream) / lasted


OPEN_AND_RECORD = (("comm_open", "display_data"), ("update_display_data", "comm_close"))


@pytest.mark.kernel
@pytest.mark.parametrize(("name", "pace", "target"), [("burst", 0.0, 2), ("paced at 500/s", 0.002, 5)])
def test_the_bytes_on_iopub_follow_the_size_of_the_text(kernel, tmp_path, name, pace, target):
    kernel.execute(SETUP)
    with listening(tmp_path / "connection.json") as wire:
        kernel.start(f"await go({pace})", stdin=True).finish()
        kernel.execute("pass")
    ratio, rate = figures(f"ipykernel {kernel.version}, {name}", wire)
    assert ratio <= target
    assert rate <= 12


@pytest.mark.browser
def test_a_saved_notebook_of_such_a_run_opens_like_one_that_never_ran(desk):
    notebook = desk.open([SETUP, "await go(0)"])
    notebook.run(0)
    notebook.run(1)
    notebook.save()
    notebook.close()
    unrun = desk.lab.place([SETUP, "await go(0)"])
    seconds = {}
    for name in (unrun, notebook.name) * 2:
        began = time.monotonic()
        opened = desk.open(name, kernel=False)
        opened.cell(1).get_by_text("4999" if name == notebook.name else "await").first.wait_for()
        seconds[name] = min(time.monotonic() - began, seconds.get(name, 1e9))
        opened.page.close()
    print(f"\nopening: {seconds[notebook.name]:.1f} s with the run, {seconds[unrun]:.1f} s before it ran")
    assert seconds[notebook.name] < seconds[unrun] + 10
