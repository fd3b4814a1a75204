"""The layer that holds, settles and tells what each request costs, and the runs of children."""

import asyncio
from decimal import Decimal

import pytest

from harness_nb.agent import Agent
from harness_nb.errors import ProviderError, RunStop, ToolError
from harness_nb.events import Charged, LimitMet, ModelSwitched, Notice, TextDelta
from harness_nb.messages import Usage, user
from harness_nb.ops.allowance import Allowance, LimitError, Spent
from harness_nb.ops.budget import Budget
from harness_nb.ops.meter import budget_of_run, by_characters, metered, spawned
from harness_nb.providers.chaos import Chaos
from harness_nb.providers.fallback import falling_back
from harness_nb.providers.retry import RetryPolicy, retrying
from harness_nb.providers.scripted import say, scripted
from harness_nb.seams import Reply, Request, Run, layered

ASKED = Request("", (user("Hello there."),))


def cent(model, usage, at):
    """A cent for each token."""
    return Decimal(usage.input + usage.output) / 100


def unknown(model, usage, at):
    return None


def ten(request, run):
    return 6, 4


def watched(budget=None):
    heard = []
    run = Run(listener=heard.append)
    if budget is not None:
        run.state[Budget] = budget
    return run, heard


def told(heard, kind=Charged):
    return [event for event in heard if isinstance(event, kind)]


def meter(price=cent, **more):
    return metered(price, budget_of_run, ten, model="m", **more)


def reply(tokens, text="ok"):
    return say(text, usage=Usage(tokens - 1, 1))


async def test_an_answer_is_charged_and_takes_the_place_of_its_estimate():
    budget = Budget("run", Allowance(tokens=100))
    run, heard = watched(budget)
    await layered(scripted(reply(30)), meter())(ASKED, run)
    assert told(heard) == [Charged("m", Usage(29, 1), Decimal("0.3"))]
    assert (budget.spent.tokens, budget.spent.dollars, budget.held) == (30, Decimal("0.3"), Spent())
    assert run.cost == Decimal("0.3")


async def test_while_it_is_asked_its_estimate_is_held():
    budget = Budget("run")

    def look(request):
        assert budget.held == Spent(1, 0.0, 10, Decimal("0.1"))
        return reply(3)

    run, _ = watched(budget)
    await layered(scripted(look), meter())(ASKED, run)


async def test_a_call_beyond_the_limit_is_not_made_and_that_is_told():
    model = scripted(reply(3))
    run, heard = watched(Budget("run", Allowance(tokens=9)))
    with pytest.raises(LimitError):
        await layered(model, meter())(ASKED, run)
    assert model.requests == []
    assert told(heard, LimitMet) == [LimitMet("tokens", "run", Decimal(9), Decimal(), Decimal(9))]
    assert told(heard) == []


async def test_a_run_ends_with_what_was_done():
    run, heard = watched(Budget("run", Allowance(tokens=20)))
    model = scripted(say("Half.", stop="length", usage=Usage(10, 5)), "never")
    outcome = await Agent(layered(model, meter())).run("Go.", run)
    assert (outcome.reason, outcome.text, outcome.cost) == ("budget", "Half.", Decimal("0.15"))
    assert outcome.detail == (
        "This run's limit of 20 tokens is reached: 15 tokens used, and the next call could go beyond it."
    )
    assert [notice.text for notice in told(heard, Notice)] == [
        "This run's limit of 20 tokens is used up to 75%."
    ]


async def test_a_run_goes_on_when_its_limit_is_raised():
    budget = Budget("run", Allowance(tokens=20))
    run, heard = watched(budget)
    agent = Agent(
        layered(scripted(say("Half.", stop="length", usage=Usage(10, 5)), reply(5, "Whole.")), meter())
    )
    await agent.run("Go.", run)
    budget.allow(told(heard, LimitMet)[0])
    assert (await agent.run(None, run)).text == "Whole."


async def test_a_price_that_is_not_known_is_told_as_none():
    run, heard = watched(Budget("run"))
    await layered(scripted(reply(3)), meter(unknown))(ASKED, run)
    assert told(heard)[0].cost is None
    assert run.cost is None


async def test_a_price_that_is_not_known_stops_a_run_with_a_limit_in_dollars():
    model = scripted(reply(3))
    run, _ = watched(Budget("run", Allowance(dollars=Decimal(1))))
    outcome = await Agent(layered(model, meter(unknown))).run("Go.", run)
    assert outcome.reason == "budget"
    assert outcome.detail.startswith("The price of `m` is not known, so a limit in dollars can't hold")
    assert model.requests == []


async def test_an_attempt_that_fails_at_once_costs_nothing():
    budget = Budget("run")
    run, heard = watched(budget)
    model = scripted(ProviderError("Busy", retryable=True), reply(3))

    async def sleep(_):
        assert budget.held == Spent()

    await layered(model, retrying(RetryPolicy(), sleep=sleep), meter())(ASKED, run)
    assert [charge.usage.input for charge in told(heard)] == [2]
    assert budget.spent.turns == 1


async def test_an_attempt_that_was_cut_off_after_it_began_is_charged_by_estimate():
    budget = Budget("run")
    run, heard = watched(budget)

    async def sleep(_):
        pass

    model = Chaos(scripted("x" * 300, piece=30), ("cut_stream", None))
    await layered(model, retrying(RetryPolicy(), sleep=sleep), meter())(ASKED, run)
    cut, whole = told(heard)
    assert cut.usage.estimated
    assert cut.usage.input == 6
    assert 0 < cut.usage.output <= 101
    assert cut.cost == cent("", cut.usage, None)
    assert budget.spent.dollars == cut.cost + whole.cost
    assert budget.held == Spent()


async def test_an_interrupt_in_the_middle_is_charged_and_stays_an_interrupt():
    budget, heard = Budget("run"), []

    def stop(event):
        heard.append(event)
        if isinstance(event, TextDelta):
            run.stop()

    run = Run(listener=stop)
    run.state[Budget] = budget
    outcome = await Agent(layered(scripted("word " * 200), meter())).run("Go.", run)
    assert outcome.reason == "interrupted"
    assert budget.held == Spent()
    assert [charge.usage.estimated for charge in told(heard)] == [True]


async def test_a_listener_that_fails_does_not_hide_an_interrupt():
    def fail(event):
        if isinstance(event, Charged):
            raise OSError("disk full")
        asked.cancel()

    asked = asyncio.create_task(layered(scripted("word " * 200), meter())(ASKED, Run(listener=fail)))
    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_a_listener_that_fails_at_a_charge_leaves_nothing_held():
    def fail(event):
        if isinstance(event, Charged):
            raise OSError("disk full")

    budget, run = Budget("run"), Run(listener=fail)
    run.state[Budget] = budget
    with pytest.raises(RunStop, match="disk full"):
        await layered(scripted(reply(5)), meter())(ASKED, run)
    assert (budget.held, budget.spent.tokens) == (Spent(), 5)


async def test_an_answer_without_any_usage_is_an_estimate_and_says_so():
    async def silent(request, run):
        run.emit(TextDelta("x" * 30))
        return Reply(say("x" * 30).message)

    run, heard = watched()
    answer = await layered(silent, meter())(ASKED, run)
    assert answer.usage == told(heard)[0].usage == Usage(6, 11, estimated=True)


async def test_each_model_of_a_chain_is_charged_under_its_own_name():
    second = layered(scripted(reply(4)), metered(cent, budget_of_run, model="second"))
    first = scripted(say("No.", stop="refusal", usage=Usage(1, 1)))
    run, heard = watched(Budget("run"))
    await layered(first, falling_back(second, refusals=True), meter())(ASKED, run)
    assert [(charge.model, charge.usage.input) for charge in told(heard)] == [("m", 1), ("second", 3)]
    assert told(heard, ModelSwitched)


async def test_a_summary_is_charged_as_one_and_is_no_turn():
    budget = Budget("run", Allowance(turns=0))
    run, heard = watched(budget)
    await layered(scripted(reply(4)), meter(purpose="summary"))(ASKED, run)
    assert (told(heard)[0].purpose, budget.spent.turns) == ("summary", 0)


async def test_what_a_child_takes_is_its_parents_too_once():
    budget = Budget("run")
    run, heard = watched(budget)
    child = spawned(run, "reader")
    outcome = await Agent(layered(scripted(reply(9)), meter())).run("Read.", child)
    assert told(heard) == [Charged("m", Usage(8, 1), Decimal("0.09"), "reader")]
    assert (run.usage, run.cost) == (Usage(8, 1), Decimal("0.09"))
    assert (outcome.usage, outcome.cost) == (Usage(8, 1), Decimal("0.09"))
    assert budget.spent.dollars == Decimal("0.09")


async def test_a_grandchild_counts_once_at_each_level():
    run, heard = watched(Budget("run", Allowance(depth=2)))
    child = spawned(run, "a")
    await layered(scripted(reply(9)), meter())(ASKED, spawned(child, "b"))
    assert [charge.agent for charge in told(heard)] == ["b"]
    assert child.usage == run.usage == Usage(8, 1)


async def test_a_childs_own_limit_ends_the_child_alone():
    run, heard = watched(Budget("run"))
    child = spawned(run, "reader", Allowance(tokens=5))
    outcome = await Agent(layered(scripted(reply(9)), meter())).run("Read.", child)
    assert outcome.detail.startswith("The agent `reader`'s limit of 5 tokens is reached")
    assert told(heard, LimitMet) == []


def test_a_child_of_a_child_is_refused_to_the_model():
    run, _ = watched(Budget("run"))
    with pytest.raises(ToolError):
        spawned(spawned(run, "a"), "b")


def test_agents_are_few_also_where_nobody_set_a_budget():
    run = Run()
    for number in range(8):
        spawned(run, f"a{number}")
    with pytest.raises(ToolError, match="may start 8 agents"):
        spawned(run, "one more")


async def test_time_that_a_child_waits_for_people_is_its_parents_too():
    run = Run()
    child, other = spawned(run, "a"), spawned(run, "b")
    with child.for_people(), other.for_people():
        await asyncio.sleep(0.02)
    assert child.waited >= other.waited >= 0.02
    assert child.waited <= run.waited < 2 * child.waited


async def test_a_childs_listener_hears_everything_and_the_parent_its_charges():
    run, heard = watched(Budget("run"))
    own = []
    child = spawned(run, "a", listener=own.append)
    await layered(scripted(reply(9)), meter())(ASKED, child)
    assert told(own, TextDelta)
    assert [type(event) for event in heard] == [Charged]


def test_the_usual_estimate_is_of_what_is_sent_and_what_may_come():
    sent, answer = by_characters(Request("i" * 300, (user("u" * 600),), max_output=200), Run())
    assert (sent, answer) == (301, 200)
    assert by_characters(ASKED, Run())[1] == 1_000
