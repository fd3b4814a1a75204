"""Line 1, R31: agents that start agents share one budget, and one task does not grow into hundreds.

The model calls `agent` three times in every turn, at every level, and never has enough.
"""

import asyncio
import time
from decimal import Decimal

import pytest

from harness_nb.agent import Agent, Limits
from harness_nb.events import Charged, LimitMet, ToolFinished
from harness_nb.messages import Usage
from harness_nb.ops.allowance import Allowance, Spent
from harness_nb.ops.budget import Budget
from harness_nb.ops.meter import budget_of_run, metered, spawned
from harness_nb.providers.scripted import call, say
from harness_nb.seams import Run, layered
from harness_nb.tools import Toolbox, tool

SENT, WRITTEN = 90, 10
EACH = SENT + WRITTEN
"""Tokens of each request, as estimated and as reported."""
CENT = Decimal("0.01")


class Greedy:
    """Asks for three agents whatever it is told; `pace` is how many seconds it takes."""

    name = "greedy"

    def __init__(self, pace=0.0):
        self.pace = pace
        self.asked = 0

    async def __call__(self, request, run):
        self.asked += 1
        number = self.asked
        await asyncio.sleep(self.pace)
        calls = (call("agent", task=f"part {part}") for part in range(3))
        reply = say(*calls, usage=Usage(SENT, WRITTEN))
        named = [type(c)(f"c{number}-{n}", c.name, c.raw) for n, c in enumerate(reply.message.parts)]
        return say(*named, usage=reply.usage)


class Tree:
    """A run of such a model, with what was heard at the top; its agents have so many `turns` each."""

    def __init__(self, allowance, *, pace=0.0, parent=None, turns=100_000):
        self.model = Greedy(pace)
        self.begun, self.ended, self.heard = [], [], []
        price = metered(lambda *_: CENT, budget_of_run, lambda *_: (SENT, WRITTEN), model="greedy")
        asked = layered(self.model, price)

        @tool(effects={"read"})
        async def agent(task: str, run: Run) -> str:
            """Have another agent do a task."""
            child = spawned(run, f"agent {len(self.begun) + 1}")
            self.begun.append(child)
            outcome = await Agent(asked, Toolbox([agent]), limits=Limits(turns)).run(task, child)
            self.ended.append(outcome)
            return f"{outcome.reason}: {outcome.detail}"

        self.agent = Agent(asked, Toolbox([agent]), limits=Limits(100_000))
        self.budget = Budget("run", allowance, parent)
        self.run = Run(listener=self.heard.append)
        self.run.state[Budget] = self.budget

    async def grow(self):
        return await self.agent.run("Do it.", self.run)

    def told(self, kind):
        return [event for event in self.heard if isinstance(event, kind)]

    def answers(self):
        """The results of every call at every level."""
        transcripts = [run.transcript for run in (self.run, *self.begun)]
        return [result for t in transcripts for message in t.messages for result in message.results]


def within(tree, spent):
    """Nothing is held, and everyone who counts says the same."""
    charged = tree.told(Charged)
    assert tree.budget.held == Spent()
    assert len(charged) == spent.turns == tree.model.asked
    assert sum((event.usage for event in charged), Usage()) == tree.run.usage
    assert tree.run.usage.input + tree.run.usage.output == spent.tokens
    assert tree.run.cost == spent.dollars == CENT * spent.turns


async def test_the_calls_of_a_whole_tree_stop_at_the_limit_of_its_root():
    tree = Tree(Allowance(tokens=40 * EACH))
    outcome = await tree.grow()
    assert outcome.reason == "budget"
    assert tree.budget.spent.tokens == 40 * EACH
    assert tree.model.asked == 40
    within(tree, tree.budget.spent)
    assert [event.scope for event in tree.told(LimitMet)] == ["run"]


async def test_a_limit_in_dollars_of_the_day_holds_the_tree_too():
    day = Budget("day", Allowance(dollars=Decimal("0.255")), spent=Spent(dollars=Decimal("0.10")))
    tree = Tree(Allowance(), parent=day)
    assert (await tree.grow()).reason == "budget"
    assert tree.model.asked == 15
    assert day.spent.dollars == Decimal("0.25")
    within(tree, tree.budget.spent)


async def test_there_are_few_agents_and_children_have_none():
    tree = Tree(Allowance(tokens=100 * EACH), turns=2)
    await tree.grow()
    assert len(tree.begun) == 8
    assert {len(budget_of_run(child).levels) for child in tree.begun} == {2}


async def test_an_agent_that_is_refused_is_an_error_result_for_the_model_that_asked():
    tree = Tree(Allowance(tokens=100 * EACH), turns=2)
    await tree.grow()
    refused = [answer for answer in tree.answers() if answer.text.startswith("Not started")]
    assert all(answer.is_error for answer in refused)
    assert {answer.text.partition(":")[2].partition(",")[0] for answer in refused} == {
        " an agent that another one started can't start one itself. Do the work yourself.",
        " this run may start 8 agents",
    }


@pytest.mark.parametrize(("depth", "children"), [(1, 3), (2, 5), (3, 20), (10, 40)])
async def test_depth_and_number_hold_for_the_tree_as_a_whole(depth, children):
    tree = Tree(Allowance(tokens=200 * EACH, depth=depth, children=children))
    await tree.grow()
    assert len(tree.begun) == children
    deepest = max(len(budget_of_run(child).levels) - 1 for child in tree.begun)
    assert deepest <= depth
    assert deepest > 1 or depth == 1
    within(tree, tree.budget.spent)


async def test_a_child_ends_with_what_it_did_when_the_shared_limit_is_met():
    tree = Tree(Allowance(tokens=40 * EACH))
    await tree.grow()
    assert tree.ended
    assert {outcome.reason for outcome in tree.ended} == {"budget"}
    assert {outcome.detail.split(":")[0] for outcome in tree.ended} == {
        "This run's limit of 4,000 tokens is reached"
    }
    assert sum((outcome.usage for outcome in tree.ended), Usage()).input < tree.run.usage.input


@pytest.mark.usefixtures("alone")
async def test_an_interrupt_after_a_second_ends_them_all():
    tree = Tree(Allowance(depth=3, children=30), pace=0.02)
    before = asyncio.all_tasks()
    work = asyncio.create_task(tree.grow())
    await asyncio.sleep(1)
    stopped = time.perf_counter()
    tree.run.stop()
    outcome = await work
    took = time.perf_counter() - stopped
    print(
        f"{len(tree.begun)} agents, {tree.model.asked} calls; all ended {took * 1000:.0f} ms after the interrupt"
    )
    assert took < 0.5
    assert outcome.reason == "interrupted"
    asked = tree.model.asked
    await asyncio.sleep(0.2)
    assert tree.model.asked == asked
    assert asyncio.all_tasks() == before
    assert tree.budget.held == Spent()
    assert len(tree.begun) > 3
    for run in (tree.run, *tree.begun):
        assert run.transcript.dangling() == []
    calls = sum(len(message.calls) for message in tree.run.transcript.messages)
    assert len(tree.told(ToolFinished)) == calls
