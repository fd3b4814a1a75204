"""What a session has cost, folded from its journal, and what the provider's cache did."""

from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from harness_nb.agent import Agent
from harness_nb.events import Charged
from harness_nb.messages import Usage
from harness_nb.ops.allowance import Spent
from harness_nb.ops.budget import Budget
from harness_nb.ops.journal import Journal
from harness_nb.ops.meter import budget_of_run, metered, spawned
from harness_nb.ops.records import Record
from harness_nb.ops.spending import Charge, Spending, charges, collapse
from harness_nb.ops.store import open_store
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.seams import Run, layered
from harness_nb.tools import Toolbox, tool

AT = datetime(2026, 12, 1, tzinfo=UTC)


def charge(*, run="r", turn=1, agent="", model="m", usage=None, cost="0.01", purpose="turn"):
    return Charge(
        run, turn, agent, model, purpose, usage or Usage(10, 5), None if cost is None else Decimal(cost), AT
    )


def by_list(model, usage, at):
    """A dollar for a thousand tokens, a tenth of that from the cache, a quarter more into it."""
    new = usage.input - usage.cache_read - usage.cache_write
    return (new + Decimal("0.1") * usage.cache_read + Decimal("1.25") * usage.cache_write) / 1000


def rows(spending, key):
    return [(row.key, row.requests, row.cost) for row in spending.by(key)]


def test_charges_are_added_up_by_what_one_asks_for():
    spending = Spending(
        [
            charge(cost="0.10"),
            charge(turn=2, model="n", cost="0.02"),
            charge(turn=2, agent="reader", cost="0.03"),
            charge(run="s", purpose="summary", cost="0.04"),
        ]
    )
    assert rows(spending, "run") == [("r", 3, Decimal("0.15")), ("s", 1, Decimal("0.04"))]
    assert rows(spending, "turn") == [("r · 1", 1, Decimal("0.10")), ("r · 2", 2, Decimal("0.05")), ("s · 1", 1, Decimal("0.04"))]  # fmt: skip
    assert rows(spending, "agent") == [("", 3, Decimal("0.16")), ("reader", 1, Decimal("0.03"))]
    assert rows(spending, "model") == [("m", 3, Decimal("0.17")), ("n", 1, Decimal("0.02"))]
    assert rows(spending, "purpose") == [("turn", 3, Decimal("0.15")), ("summary", 1, Decimal("0.04"))]
    assert spending.total.usage == Usage(40, 20)


def test_what_is_unknown_is_counted_and_not_taken_for_free():
    total = Spending([charge(cost=None), charge(cost="0.5"), charge(cost=None)]).total
    assert (total.cost, total.unknown) == (Decimal("0.5"), 2)
    assert Spending([charge(cost=None)]).total.cost is None
    assert Spending([charge(cost="0")]).total.cost == 0


def test_a_session_that_asked_nothing_has_cost_nothing_known():
    total = Spending().total
    assert (total.requests, total.cost, total.unknown, total.cached, Spending().by("run")) == (
        0,
        None,
        0,
        0.0,
        [],
    )


COSTS = st.none() | st.decimals(0, 10**6, places=12)
CHARGES = st.lists(
    st.builds(
        charge,
        run=st.sampled_from("ab"),
        turn=st.integers(1, 3),
        agent=st.sampled_from(["", "x"]),
        model=st.sampled_from("mn"),
        cost=COSTS,
        usage=st.builds(Usage, st.integers(0, 10**6), st.integers(0, 10**6)),
    ),
    max_size=40,
)


@given(CHARGES, st.sampled_from(["run", "turn", "agent", "model", "purpose"]))
def test_rows_add_up_to_the_total_exactly(made, key):
    spending = Spending(made, by_list)
    parts, total = spending.by(key), spending.total
    assert sum((row.cost or 0 for row in parts), Decimal()) == (total.cost or 0)
    assert sum(row.requests for row in parts) == total.requests == len(made)
    assert sum(row.unknown for row in parts) == total.unknown
    assert sum((row.usage for row in parts), Usage()) == total.usage


def test_what_the_cache_saved_is_the_price_without_it_less_what_was_paid():
    reading = charge(usage=Usage(1000, 0, cache_read=800))
    writing = charge(usage=Usage(1000, 0, cache_write=400))
    spending = Spending([reading, writing], by_list)
    assert spending.saved(reading) == Decimal("0.72")
    assert spending.saved(writing) == Decimal("-0.1")
    assert spending.total.saved == Decimal("0.62")
    assert spending.saved(charge()) == 0
    assert spending.saved(charge(usage=Usage(10, 0, cache_read=5), cost=None)) is None


def test_the_saving_is_worked_out_with_the_price_list_of_the_day():
    read = charge(model="claude-sonnet-4-5", usage=Usage(1_000_000, 0, cache_read=100_000))
    assert Spending([read]).saved(read) > 0


def test_the_hit_rate_is_the_share_of_input_that_was_read_from_the_cache():
    spending = Spending([charge(usage=Usage(1000, 5, cache_read=900)), charge(usage=Usage(1000, 5))])
    assert spending.hit_rate == 0.45


def test_a_budget_starts_from_what_was_spent():
    spending = Spending([charge(cost="0.5"), charge(cost=None, purpose="summary")])
    assert spending.spent == Spent(1, 0.0, 30, Decimal("0.5"))


async def test_a_journal_tells_what_was_charged_for_which_turn(tmp_path):
    price = metered(lambda model, usage, at: Decimal("0.01"), budget_of_run, model="m")

    @tool(effects={"read"})
    async def ask(run: Run) -> str:
        """Ask another agent."""
        return (await Agent(layered(scripted("yes"), price)).run("Is it?", spawned(run, "helper"))).text

    log = open_store(str(tmp_path)).open("main")
    run = Run(listener=Journal(log))
    run.state[Budget] = Budget("run")
    model = scripted(say(call("ask")), say(call("ask")), "Done.")
    await Agent(layered(model, price), Toolbox([ask])).run("Go.", run)
    found = charges(log.read())
    log.close()
    assert [(one.turn, one.agent) for one in found] == [
        (1, ""),
        (1, "helper"),
        (2, ""),
        (2, "helper"),
        (3, ""),
    ]
    assert {one.run for one in found} == {run.id}
    assert Spending(found).total.cost == run.cost == Decimal("0.05")


def record(data, run="r"):
    return Record("charge", data, run)


def test_a_record_that_can_not_be_a_charge_is_passed_over():
    good = asdict(Charged("m", Usage(1, 2), None)) | {"cost": "0.25"}
    usages = [
        {"tokens": 1},
        None,
        *({"input": wrong, "output": 2} for wrong in (-1, "1", 1.5, None, 10**400)),
    ]
    bad = [{}, {**good, "cost": "much"}, *({**good, "usage": usage} for usage in usages)]
    (found,) = charges([record(data) for data in (*bad, good)])
    assert (found.cost, found.usage, found.turn) == (Decimal("0.25"), Usage(1, 2), 1)


@pytest.mark.parametrize("cost", ["NaN", "Infinity", "-1", "1E+999999", "2000000000"])
def test_a_cost_that_cannot_be_is_unknown(cost):
    (found,) = charges([record(asdict(Charged("m", Usage(1, 2), None)) | {"cost": cost})])
    assert found.cost is None


def test_a_collapse_of_the_hit_rate_is_told_with_what_changed():
    before, now = Usage(10_000, 1, cache_read=9_000), Usage(10_500, 1, cache_read=1_000)
    assert collapse(before, now, "the instructions") == (
        "The provider read 10% of the request from its cache, after 90% before: the instructions changed. "
        "About 8,000 tokens are paid for in full again."
    )


@pytest.mark.parametrize(
    "now",
    [Usage(10_000, 1, cache_read=8_500), Usage(2_000, 1, cache_read=100), Usage(20_000, 1, cache_read=9_000), Usage()],
)  # fmt: skip
def test_a_small_or_natural_fall_is_not_told(now):
    assert collapse(Usage(10_000, 1, cache_read=9_000), now) == ""


def test_a_cache_that_was_never_read_can_not_collapse():
    assert collapse(Usage(10_000, 1), Usage(10_000, 1)) == collapse(Usage(), Usage(5)) == ""
