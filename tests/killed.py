"""A session that is killed and taken up again: what `tests/shows/nothing_lost/test_2_killed_anywhere.py` runs.

    python tests/killed.py STORE POINTS        # STORE is a folder, or a database's URL

One process has everything imported and forks a child for each life of a session: one that is killed, one that takes it
up (and may be killed, too), and one that finishes it; another looks at what is there. SIGKILL comes from outside at a
random moment, or from within at a boundary: before a record is written, in the middle of its bytes, after it, and
between a tool's effect and the record that it finished. What is found wrong is printed as JSON, with the counts.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pairing

from harness_nb.agent import Agent
from harness_nb.encoding import encode
from harness_nb.ops.history import History
from harness_nb.ops.journal import Journal, Origin
from harness_nb.ops.lines import json_text, line
from harness_nb.ops.names import path_of
from harness_nb.ops.once import key, once
from harness_nb.ops.resume import left, settle, take_up
from harness_nb.ops.store import open_store
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.safety.approvals import permitted, unchanged
from harness_nb.safety.permission import policy
from harness_nb.seams import Call, Run
from harness_nb.tools import Toolbox, tool

WORKERS = 4
"""Points that are at work at once: a slow store mostly sleeps."""
SLOW = 0.0004
"""Seconds that it takes before and after each record."""
EACH = 10
"""At one point in so many a finished session is taken up twice more."""

PROMPTS = "Look round, and note it → „ü“.", "Now do the rest."
SCRIPTS = (
    (say("First a look.", call("look", at="a"), call("note", text="same")), "Noted: {}."),
    (
        say(call("look", at="b"), call("send", to="x"), call("send", to="y")),
        say(call("put", name="n", value="ü\u2028"), call("book", item="seat")),
        say("The same again.", call("note", text="same"), call("pay", amount=3)),
        "All of it: {}.",
    ),
)


def model():
    """A model that goes by what it is shown, so that it can be asked in any process; it answers with what it read."""

    def turn(request):
        asked = [n for n, m in enumerate(request.messages) if m.role == "user" and m.text in PROMPTS]
        script, since = SCRIPTS[len(asked) - 1], request.messages[asked[-1] :]
        said = script[sum(message.role == "assistant" for message in since)]
        read = (result.text for message in since for result in message.results if result.text[:3] == "at ")
        return said.format(" ".join(read)) if isinstance(said, str) else said

    return scripted(*[turn] * 20)


LIVING = []
"""The life that this process has, for its tools."""


def effect(made):
    LIVING[0].tell("effects", made.key, made.spec.name, sync=True)
    LIVING[0].at(f"effect of {made.spec.name}")


@tool(effects={"read"})
def look(at: str) -> str:
    """Look."""
    return f"at {at}"


@tool(effects={"write"})
def note(text: str, made: Call) -> str:
    """Note."""
    effect(made)
    return f"Noted {text}."


@tool(effects={"network"})
async def send(to: str, made: Call) -> str:
    """Send."""
    await asyncio.sleep(0.002)
    effect(made)
    await asyncio.sleep(0.002)
    return f"Sent to {to}."


@tool(effects={"mutate"})
def pay(amount: int, made: Call) -> str:
    """Pay."""
    effect(made)
    return f"Paid {amount}."


@tool(effects={"write"}, idempotent=True)
def put(name: str, value: str, made: Call) -> str:
    """Put."""
    (LIVING[0].folder / f"put-{name}").write_text(value)
    effect(made)
    return "Put."


@tool(effects={"mutate"}, verify=lambda made: any(made.key == told for told, _ in LIVING[0].told("effects")))
def book(item: str, made: Call) -> str:
    """Book."""
    effect(made)
    return f"Booked {item}."


TOOLS = Toolbox([look, note, send, pay, put, book])


class Life:
    """One process's part of a session: its folder, when it is to die, and what the person says to a call in doubt."""

    def __init__(self, place, store, name, folder, *, dies_at="", yes=True, cut=0.5):
        self.place, self.store, self.name, self.folder = place, store, name, folder
        self.dies_at, self.yes, self.cut = dies_at, yes, cut
        self.boundaries = []

    def at(self, boundary):
        """Come to a boundary, perhaps the last one."""
        self.boundaries.append(boundary)
        if boundary == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def tell(self, file, *words, sync=False):
        """Add a line to a file."""
        fd = os.open(self.folder / file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, (json.dumps(words) + "\n").encode())
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)

    def told(self, file):
        """Read those lines."""
        path = self.folder / file
        return [json.loads(told) for told in path.read_text().splitlines()] if path.exists() else []

    # -- what it does

    async def person(self, question, _):
        """Say yes to what is asked for the first time, and to a call in doubt what this person says to those."""
        await asyncio.sleep(0.004)
        yes = self.yes or not question.call.doubt
        self.tell("asked", question.call.key, bool(question.call.doubt), yes)
        return question.allow() if yes else question.deny("Not again.")

    def play(self):
        """Take the session up from where it is, to its end; return what was in doubt, and the last words."""
        LIVING[:] = [self]
        log = SlowLog(self.store.open(self.name), self)
        journal = Journal(log)
        faults = pairing.faults(journal.history.transcript().live())
        doubts = [made.name for made in left(journal.history).uncertain]
        words = asyncio.run(self._session(journal))
        log.close()
        return {"faults": faults, "doubts": doubts, "words": words, "history": snapshot(journal.history)}

    async def _session(self, journal):
        history, words = journal.history, ""
        gates = once, permitted(policy("auto", ["ask pay"]), self.person), unchanged
        agent = Agent(model(), TOOLS, gates=gates)
        transcript = history.transcript()
        settle(transcript, journal)
        if history.head and history.runs[history.head].reason != "done":
            run = Run(transcript, journal)
            take_up(run, history.runs[history.head])
            words = (await agent.run(None, run)).or_raise().text
        for prompt in PROMPTS[len(history.path()) :]:
            journal.origin = Origin(prompt)
            words = (await agent.run(prompt, Run(transcript, journal))).or_raise().text
        return words or history.runs[history.head].text

    # -- what is there in the end

    def looked_over(self, records, expected):
        """Say what is wrong, and count."""
        wrong, counts, history = [], Counter(), History(records)
        transcript = history.transcript()
        wrong += pairing.faults(transcript.live())
        kept = {record.seq: as_plain(record) for record in records}
        wrong += [
            f"a committed record is gone: {seq} {told}"
            for seq, told in self.told("committed")
            if kept.get(seq) != told
        ]
        wrong += ["numbers are not unique"] if len(kept) < len(records) else []
        wrong += ["a run did not end"] if [r.reason for r in history.runs.values()] != ["done"] * 2 else []
        if [run.text for run in history.path()] != expected:
            wrong.append(f"another answer: {[run.text for run in history.path()]}")
        effects = Counter(told for told, _ in self.told("effects"))
        results = {result.call_id: result for message in transcript.messages for result in message.results}
        for made in (made for message in transcript.messages for made in message.calls):
            identity = key(made, transcript)
            times = effects.pop(identity, 0)
            asked = [yes for told, doubt, yes in self.told("asked") if told == identity and doubt]
            wrong += judged(made, results[made.id], times, asked)
            if made.name in {"note", "send", "pay"}:
                counts[f"{times} times"] += 1
                counts["asked"] += len(asked)
                counts["yes"] += sum(asked)
        wrong += ["an effect of a call that nobody made"] if effects else []
        return wrong, counts


def judged(made, result, times, asked):
    """Say what is wrong about one call: how often it had its effect, and what the model was told of it."""
    wrong = []
    said = f"{made.name} {made.raw}: {times} times, asked {asked}, told {result.text!r}"
    if made.name == "look":
        return [] if result.text.startswith("at ") else [said]
    unknown = "may have" in result.text
    if made.name == "put":
        wrong += [] if times and not result.is_error else ["not done"]
    elif made.name == "book":
        wrong += [] if times == 1 else ["not once"]
    elif not asked:
        wrong += [] if times == 1 else ["not once, and nobody asked"]
    elif times > 1 + sum(asked):
        wrong += ["more often than anybody allowed"]
    if not unknown and result.is_error and times:
        wrong += ["told that it did not run"]
    if not unknown and not result.is_error and not times:
        wrong += ["told that it ran"]
    if made.name not in {"put", "book"} and asked and not asked[-1] and not unknown:
        wrong += ["not told of the doubt"]
    return [f"{', '.join(wrong)}: {said}"] if wrong else []


class SlowLog:
    """A log that takes its time, tells what it has committed, and comes to a boundary before and after each record."""

    def __init__(self, log, life):
        self.log, self.life, self.written = log, life, 0
        self.name, self.warnings, self.gone = log.name, log.warnings, False
        self.shared = log.shared

    def read(self):
        return self.log.read()

    def append(self, record, *, sync=False):
        self.written += 1
        where = f"record {self.written}"  # what it is of may differ: some tools run side by side
        time.sleep(SLOW)
        self.life.at(f"before {where}")
        if self.life.dies_at == f"inside {where}":
            self._half(record)
        self.life.boundaries.append(f"inside {where}")
        kept = self.log.append(record, sync=sync)
        self.life.tell("committed", kept.seq, [kept.kind, kept.run, kept.at, kept.data])
        self.life.at(f"after {where}")
        time.sleep(SLOW)
        return kept

    def close(self):
        self.log.close()

    def _half(self, record):
        """Write a part of the record's line, as a crash may leave it, and die."""
        path = path_of(Path(self.life.place), self.name)
        whole = line(record, json_text(record.data)).encode()
        with path.open("ab", buffering=0) as file:
            file.write(whole[: max(1, int(len(whole) * self.life.cut))])
        os.kill(os.getpid(), signal.SIGKILL)


def as_plain(record):
    return [record.kind, record.run, record.at, json.loads(json.dumps(record.data))]


def snapshot(history):
    """All that a history tells, as JSON data."""
    runs = []
    for run in history.runs.values():
        told = {
            name: getattr(run, name) for name in run.__slots__ if name not in {"entries", "charges", "limit"}
        }
        told["entries"] = [encode(entry) for entry in run.entries]
        told["started"] = {name: asdict(attempt) for name, attempt in run.started.items()}
        told["finished"] = {name: repr(result) for name, result in run.finished.items()}
        told["usage"], told["asked"] = asdict(run.usage), sorted(run.asked)
        told["charges"] = [as_plain(record) for record in run.charges]
        runs.append(told)
    return json.loads(json.dumps([history.head, runs]))


# -- the processes


def forked(work):
    """Do this in a process of its own; return its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - nothing of it may get back into the loop of the parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(child, after=None):
    """Wait for a process; with `after`, kill it so many seconds from now. Tells whether it was killed."""
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
        raise RuntimeError("a life ended with an error")
    return os.WIFSIGNALED(status)


class Worker:
    """Plays points one after the other. Its store has been used before it forks, so that no life sets up everything anew."""

    def __init__(self, place, number, top):
        self.place, self.number, self.top, self.counts, self.wrong = place, number, top, Counter(), []
        self.random = random.Random(number)
        self.store = open_store(place)
        self.life(self.folder()).play()
        gc.collect()
        gc.freeze()  # nor is what there is looked through in each fork
        self.ended = []
        """What there is to look over: the folder of a point, what was done to it, and what its last life reported."""

    def folder(self):
        return Path(tempfile.mkdtemp(dir=self.top))

    def life(self, folder, **how):
        return Life(self.place, self.store, f"point {self.number} {folder.name}", folder, **how)

    def reported(self, life, folder, report="report"):
        """Fork a life that plays, and leaves a report if it gets to its end."""

        def work():
            played = life.play()
            (folder / report).write_text(json.dumps({**played, "boundaries": life.boundaries}))

        return forked(work)

    def unkilled(self):
        """Play one to its end; return its last words of each run, its boundaries and how long it took."""
        folder = self.folder()
        began = time.monotonic()
        ended(self.reported(self.life(folder), folder))
        seconds = time.monotonic() - began
        report = json.loads((folder / "report").read_text())
        texts = [
            next(e for e in reversed(run["entries"]) if e["role"] == "assistant")["parts"][0]["text"]
            for run in report["history"][1]
        ]
        return texts, report["boundaries"], seconds

    def point(self, *, dies_at="", after=None, again=None):
        """Kill one, take it up, perhaps kill it again, and finish it; tell whether it was killed."""
        folder, yes = self.folder(), len(self.ended) % 2 == 0
        first = self.life(folder, dies_at=dies_at, cut=self.random.random())
        killed = ended(self.reported(first, folder, "first"), after)
        self.counts["killed"] += killed
        if again is not None:
            self.counts["killed again"] += ended(
                self.reported(self.life(folder, yes=yes), folder, "second"), again
            )
        ended(self.reported(self.life(folder, yes=yes), folder))
        report = json.loads((folder / "report").read_text())
        self.ended.append((folder, f"{dies_at or after} {again}", report))
        self.counts["points"] += 1
        self.counts["in doubt"] += len(report["doubts"])
        return killed

    def look_over(self, expected):
        """Have another process look at all that is there, and take in what it finds."""
        over = self.folder() / "over"
        ended(
            forked(
                lambda: over.write_text(
                    json.dumps([self._over(*each, expected) for each in enumerate(self.ended)])
                )
            )
        )
        for (_, how, _), (wrong, counts) in zip(self.ended, json.loads(over.read_text()), strict=True):
            self.wrong += [f"{how}: {each}" for each in wrong]
            self.counts.update(counts)

    def _over(self, number, point, expected):
        """Look at one point's session; at each few take it up twice more, and see that nothing changes."""
        folder, _, report = point
        life = self.life(folder)
        log = life.store.open(life.name, write=False)
        records = log.read()
        wrong, counts = life.looked_over(records, expected)
        wrong += report["faults"]
        if report["words"] != expected[-1]:
            wrong.append(f"the last words are {report['words']!r}")
        if report["history"] != (kept := snapshot(History(records))):
            wrong.append("another process reads another history")
        if number % EACH == 0:
            effects = life.told("effects")
            plays = [life.play() for _ in range(2)]
            if log.read() != records:
                wrong.append("taking it up twice more changed it")
            if [play["history"] for play in plays] != [kept] * 2 or life.told("effects") != effects:
                wrong.append("taking it up twice more had an effect")
        log.close()
        return wrong, counts


def worked(place, number, points, top):
    """Play a worker's share of the points; return its counts and what was wrong."""
    # SQLite has one writer at a time.
    worker = Worker(f"{place}.{number}" if place.startswith("sqlite") else place, number, top)
    played = [worker.unkilled() for _ in range(3)]
    expected, boundaries, _ = played[0]
    seconds = sum(each[2] for each in played) / len(played)
    if "://" in place:
        boundaries = [boundary for boundary in boundaries if not boundary.startswith("inside")]
    for boundary in boundaries[number::WORKERS]:
        worker.point(dies_at=boundary)
        worker.counts["boundaries"] += 1
    for point in range(number, points, WORKERS):
        if point % 100 < WORKERS:
            _, _, seconds = worker.unkilled()  # the machine may be faster or slower now
        again = worker.random.uniform(0, seconds) if point % 5 == 0 else None
        while not worker.point(after=(after := worker.random.uniform(0, seconds)), again=again):
            seconds = min(seconds, after)  # it came too late
        worker.counts["random"] += 1
    worker.look_over(expected)
    return {"counts": worker.counts, "wrong": worker.wrong}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place")
    parser.add_argument("points", type=int)
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as top:
        first = Path(tempfile.mkdtemp(dir=top))
        Life(arguments.place, open_store(arguments.place), "to import all once", first).play()

        def work(number):
            told = worked(arguments.place, number, arguments.points, top)
            Path(top, f"worker-{number}").write_text(json.dumps(told))

        for child in [forked(lambda number=number: work(number)) for number in range(WORKERS)]:
            ended(child)
        told = [json.loads(Path(top, f"worker-{number}").read_text()) for number in range(WORKERS)]
    counts = sum((Counter(each["counts"]) for each in told), Counter())
    wrong = [each for one in told for each in one["wrong"]]
    print(json.dumps({"counts": counts, "wrong": wrong, "seconds": time.monotonic() - began}))


if __name__ == "__main__":
    main()
