"""Show 1, PEERS 2.1: wherever a run with parallel calls is stopped or its record cut, it may be sent on, and no result lies.

That any log of any shape may be sent, through each adapter, and that runs may be stopped at any of their events, is
line 4 of first_light; here they are stopped between any two steps of the event loop, behind the usual gates, with
calls that run side by side, in threads, deaf to a stop, or wait for a person.
"""

import asyncio
import re
from collections import Counter

from hypothesis import HealthCheck, given, settings, strategies as st
from pairing import faults

from harness_nb.agent import NEVER_RAN, Agent
from harness_nb.encoding import decode, encode
from harness_nb.events import RunEnded, ToolFinished, ToolStarted
from harness_nb.messages import Transcript
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.safety.approvals import permitted
from harness_nb.safety.permission import policy
from harness_nb.safety.repeats import unrepeated
from harness_nb.safety.spill import Outputs, spilled
from harness_nb.seams import Run
from harness_nb.tools import Toolbox, tool

many = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NO_EFFECT = re.compile(r"did not run|was not run|not started|never")


class Shop:
    """Tools of each kind that write down when their bodies begin and end: what really happened."""

    def __init__(self):
        self.began, self.done = Counter(), Counter()

        async def steps(name, number):
            for _ in range(number):
                await asyncio.sleep(0)
            self.done[name] += 1
            return f"did {name}"

        @tool(effects={"read"})
        async def look(name: str, steps_: int = 3) -> str:
            """Look."""
            self.began[name] += 1
            return await steps(name, steps_)

        @tool(effects={"write"})
        async def change(name: str, steps_: int = 3) -> str:
            """Change."""
            self.began[name] += 1
            return await steps(name, steps_)

        @tool(effects={"read"})
        def compute(name: str, steps_: int = 0) -> str:
            """Compute, in a thread."""
            self.began[name] += 1
            self.done[name] += 1
            return f"did {name}"

        @tool(effects={"read"})
        async def deaf(name: str, steps_: int = 3) -> str:
            """Swallow a stop, and go on."""
            self.began[name] += 1
            for _ in range(steps_):
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    continue
            self.done[name] += 1
            return f"did {name}"

        @tool(effects={"mutate"})
        async def fail(name: str, steps_: int = 1) -> str:
            """Fail."""
            self.began[name] += 1
            await steps(name, steps_)
            raise ValueError(name)

        self.box = Toolbox([look, change, compute, deaf, fail])


class Person:
    """Answers each question a few steps after it was put: yes, or no."""

    def __init__(self, yes, steps):
        self.yes, self.steps = yes, steps

    async def __call__(self, question, run):
        for _ in range(self.steps):
            await asyncio.sleep(0)
        return question.allow() if self.yes else question.deny("not today")


async def stopped(turns, steps, person, by):
    """Play the turns and stop so many steps of the event loop later; the run, its events and what happened."""
    shop, heard = Shop(), []
    run = Run(None, heard.append)
    gates = (spilled(Outputs()), unrepeated(), permitted(policy("ask", ()), person))
    agent = Agent(scripted(*turns, "The end.", piece=1_000), shop.box, gates=gates)
    task = asyncio.create_task(agent.run("go", run))
    for _ in range(steps):
        await asyncio.sleep(0)
        if task.done():
            break
    run.stop() if by == "stop" else task.cancel()
    await asyncio.wait([task])
    return run, heard, shop


calls = st.builds(
    lambda kind, steps: (kind, steps),
    st.sampled_from(["look", "change", "compute", "deaf", "fail"]),
    st.integers(0, 8),
)
scripts = st.lists(st.lists(calls, min_size=1, max_size=5), min_size=1, max_size=3)
people = st.builds(Person, st.booleans(), st.integers(0, 6))


def turns_of(script):
    """The turns of a script: each call has a name of its own."""
    return [
        say(*(call(kind, name=f"{kind}-{turn}-{n}", steps_=steps) for n, (kind, steps) in enumerate(asked)))
        for turn, asked in enumerate(script)
    ]


def answered(transcript):
    """Each call of the record with its one result: the call's own name, and the result."""
    asked = {c.id: c.replayed()["name"] for message in transcript.messages for c in message.calls}
    found = [r for message in transcript.messages for r in message.results]
    assert Counter(asked.keys()) == Counter(r.call_id for r in found)
    return [(asked[r.call_id], r) for r in found]


def true_of(run, heard, shop):
    """Hold what the record says to what happened; return what it says of each call: `never`, `maybe` or `done`."""
    assert sum(isinstance(event, RunEnded) for event in heard) == 1
    started = {event.call.id for event in heard if isinstance(event, ToolStarted)}
    finished = [event.call.id for event in heard if isinstance(event, ToolFinished)]
    assert len(set(finished)) == len(finished)
    assert started <= set(finished)
    told = {}
    for name, result in answered(run.transcript):
        never = bool(NO_EFFECT.search(result.text))
        assert shop.began[name] == (not never), f"{name}: {result.text}"
        done = result.text == f"did {name}" or f"ValueError: {name}" in result.text
        assert shop.done[name] or not done
        told[name] = "never" if never else "done" if done else "maybe"
    assert {name for name in told if told[name] != "never"} == set(shop.began)
    return told


@many
@given(scripts, st.integers(1, 120), people, st.sampled_from(["stop", "cancel"]))
def test_wherever_it_is_stopped_each_call_has_one_result_and_that_is_true(script, steps, person, by):
    true_of(*asyncio.run(stopped(turns_of(script), steps, person, by)))


def test_at_every_step_of_one_run_too_and_all_three_truths_are_told():
    script = [
        [("look", 8), ("deaf", 12), ("compute", 0), ("change", 16), ("look", 4)],
        [("change", 12), ("fail", 8)],
    ]
    told = Counter()
    for steps in range(1, 100):
        told.update(true_of(*asyncio.run(stopped(turns_of(script), steps, Person(True, 1), "stop"))).values())
    print(f"\n99 stops of one run: {dict(told)}")
    assert min(told["never"], told["maybe"], told["done"]) > 10


@many
@given(scripts, st.integers(1, 120), people)
def test_any_prefix_of_its_record_may_be_sent_to_any_provider_and_goes_on(script, steps, person):
    run, _, _ = asyncio.run(stopped(turns_of(script), steps, person, "stop"))
    entries = [decode(encode(entry)) for entry in run.transcript.entries]
    for length in range(len(entries) + 1):
        cut = Transcript(entries[:length])
        assert faults(cut.live()) == []
        model = scripted("Fine.")
        outcome = asyncio.run(Agent(model).run("go on", Run(cut)))
        assert (outcome.reason, faults(model.requests[0].messages)) == ("done", [])
        assert cut.entries[:length] == tuple(entries[:length])


def test_a_gate_that_swallows_the_stop_does_not_let_the_tool_run():
    shop = Shop()

    async def gate(asked, run, proceed):
        run.stop()
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return await proceed(asked)

    async def play():
        agent = Agent(scripted(say(call("change", name="x"))), shop.box, gates=(gate,))
        return await agent.run("go")

    outcome = asyncio.run(play())
    assert outcome.transcript.messages[-1].results[0].text == NEVER_RAN
    assert shop.began == {}
