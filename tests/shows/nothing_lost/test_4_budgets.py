"""Line 4: no limit is exceeded by more than what the calls under way took over their estimates, and costs add up to the cent.

For any tree of children, any allowance at each level, any report of usage, and calls in any interleaving: first the
budget alone, against a ledger that is kept here in the plainest way, then whole runs with agents that start agents.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count

from hypothesis import HealthCheck, event, given, settings, strategies as st

from harness_nb.agent import Agent
from harness_nb.errors import ProviderError, ToolError
from harness_nb.events import Charged, LimitMet, RunEnded, TextDelta
from harness_nb.messages import Usage
from harness_nb.ops.allowance import KINDS, Allowance, LimitError, Spent
from harness_nb.ops.budget import Budget
from harness_nb.ops.meter import budget_of_run, metered, spawned
from harness_nb.ops.prices import Prices, Rates
from harness_nb.providers.retry import RetryPolicy, retrying
from harness_nb.providers.scripted import call, say
from harness_nb.seams import Run, layered
from harness_nb.tools import Toolbox, tool

MEASURED = ("turns", "tokens", "dollars")
RATES = Prices({"m": (Rates(*map(Decimal, ("0.37", "1.493", "0.0371", "0.4625"))),)})
"""Prices, in dollars per million tokens, that leave no sum round."""

some = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def maybe(strategy):
    return st.none() | strategy


def around(most):
    """Limits of which some allow nothing, and most allow a few calls."""
    return st.sampled_from([*range(most // 10, most, most // 97), 0, 1, most // 50])


dollars = around(8_000_000).map(lambda n: Decimal(n).scaleb(-9))
allowances = st.builds(
    Allowance,
    turns=maybe(st.sampled_from([12, 9, 6, 5, 4, 3, 2, 1, 0])),
    tokens=maybe(around(8_000)),
    dollars=maybe(dollars),
    children=st.sampled_from([8, 8, 4, 2, 1, 0]),
    depth=st.sampled_from([2, 2, 1, 3, 0]),
)
usages = st.builds(
    Usage,
    input=st.integers(0, 400),
    output=st.integers(0, 200),
    cache_read=st.integers(0, 400),
    cache_write=st.integers(0, 400),
)


@dataclass
class Took:
    """A call: who made it, what it was expected to take, and what it took, None while that is open."""

    levels: tuple
    wanted: Spent
    taken: Spent | None = None
    under_way: tuple = ()
    """The calls that were under way when it was admitted, itself included."""


@dataclass
class Ledger:
    """Every call that was admitted, in order. What is spent and held follows from it alone."""

    before: dict = field(default_factory=dict)
    calls: list = field(default_factory=list)

    def at(self, level):
        return [made for made in self.calls if any(level is above for above in made.levels)]

    def total(self, level, kind):
        """What is spent and held at a level."""
        amounts = (made.wanted if made.taken is None else made.taken for made in self.at(level))
        return sum(
            (getattr(amount, kind) for amount in amounts), getattr(self.before.get(id(level), Spent()), kind)
        )

    def fits(self, levels, wanted):
        return all(
            self.total(level, kind) + getattr(wanted, kind) <= limit
            for level in levels
            for kind in MEASURED
            if (limit := getattr(level.allowance, kind)) is not None
        )

    def admit(self, levels, wanted):
        made = Took(levels, wanted)
        self.calls.append(made)
        made.under_way = tuple(one for one in self.calls if one.taken is None)
        return made

    def check_end(self, levels):
        """Nothing is held; every sum is exact; and no limit is exceeded by more than it may be."""
        for level in levels:
            before = self.before.get(id(level), Spent())
            assert level.held == Spent()
            assert all(made.taken is not None for made in self.at(level))
            for kind in MEASURED:
                spent, limit = getattr(level.spent, kind), getattr(level.allowance, kind)
                assert spent == self.total(level, kind)
                if limit is not None and spent > max(limit, getattr(before, kind)):
                    event(f"{kind} exceeded")
                    assert spent - limit <= self.excess(level, kind)

    def excess(self, level, kind):
        """What the calls that were under way at the last admission took over their estimates."""
        last = self.at(level)[-1].under_way
        mine = [made for made in last if any(level is above for above in made.levels)]
        return sum(max(0, getattr(made.taken, kind) - getattr(made.wanted, kind)) for made in mine)


guesses = st.tuples(st.sampled_from([0, 20, 100, 300]), st.sampled_from([0, 10, 100]))


def taken(usage, turns=1):
    return Spent(turns, 0.0, usage.input + usage.output, RATES("m", usage))


# -- the budget alone


@some
@given(st.data())
def test_calls_are_admitted_exactly_while_all_that_is_spent_and_held_fits(data):
    ledger, budgets, open_calls = Ledger(), [], []
    above = None
    for scope in ("day", "session", "run"):
        seed = Spent(0, 0.0, data.draw(st.integers(0, 500)), data.draw(dollars) / 4)
        above = Budget(scope, data.draw(allowances), above, seed)
        ledger.before[id(above.levels[0])] = seed
    budgets.append(above)
    one_at_a_time = data.draw(st.booleans())
    for _ in range(data.draw(st.integers(8, 40))):
        step = data.draw(st.sampled_from(["reserve", "reserve", "end", "child"]))
        if step == "reserve" and not (one_at_a_time and open_calls):
            budget, guess = data.draw(st.sampled_from(budgets)), Usage(*data.draw(guesses))
            wanted = taken(guess)
            fits = ledger.fits(budget.levels, wanted)
            try:
                held = budget.reserve(wanted.tokens, wanted.dollars)
            except LimitError as fault:
                event("refused")
                assert not fits
                check_told(fault.met, budget, ledger, wanted)
            else:
                assert fits
                open_calls.append((held, ledger.admit(budget.levels, wanted)))
        elif step == "end" and open_calls:
            held, made = open_calls.pop(data.draw(st.integers(0, len(open_calls) - 1)))
            end(held, made, data.draw(maybe(usages)))
        elif step == "child":
            with suppress(ToolError):
                budgets.append(data.draw(st.sampled_from(budgets)).child("c", data.draw(maybe(allowances))))
    for held, made in open_calls:
        end(held, made, data.draw(maybe(usages)))
    levels = {id(level): level for budget in budgets for level in budget.levels}.values()
    ledger.check_end(levels)
    if one_at_a_time:
        assert all(made.under_way == (made,) for made in ledger.calls)
    check_tree(budgets)


def end(held, made, usage):
    """Settle with what was reported, or release where nothing was; a second time, which must not count."""
    made.taken = Spent() if usage is None else taken(usage)
    for _ in range(2):
        if usage is None:
            held.release()
        else:
            held.settle(usage, made.taken.dollars)


def check_told(met, budget, ledger, wanted):
    """The limit that is told is one that is in the way, and raising it once takes that one out of it."""
    level = next(
        level
        for level in budget.levels
        if level.scope == met.scope and fails(level, met.what, ledger, wanted)
    )
    assert met.limit == getattr(level.allowance, met.what)
    assert ledger.total(level, met.what) + getattr(wanted, met.what) <= met.limit + met.more


def fails(level, kind, ledger, wanted):
    limit = getattr(level.allowance, kind)
    return limit is not None and ledger.total(level, kind) + getattr(wanted, kind) > limit


def check_tree(budgets):
    root = budgets[0]
    assert len(budgets) - 1 <= root.allowance.children
    assert max(sum(level.child for level in budget.levels) for budget in budgets) <= root.allowance.depth


# -- whole runs


@dataclass(frozen=True)
class Turn:
    """What a model does when it is asked: fails so often first, then takes so long, and starts so many of its agents."""

    usage: Usage
    faults: tuple = ()
    steps: int = 0
    agents: int = 0


@dataclass(frozen=True)
class Plan:
    """An agent: its turns, its limits, what its requests are expected to take, and the agents that it may start."""

    turns: tuple
    allowance: Allowance | None
    guess: tuple
    agents: tuple = ()


faults = st.just(()) | st.lists(st.sampled_from(["early", "late"]), max_size=2).map(tuple)
turns = st.builds(Turn, usages, faults, st.integers(0, 4), st.sampled_from([3, 3, 2, 0]))


def plans(agents):
    return st.builds(
        Plan, st.lists(turns, min_size=1, max_size=4).map(tuple), maybe(allowances), guesses, agents
    )


leaves = st.lists(plans(st.just(())), max_size=2).map(tuple)
trees = plans(st.lists(plans(leaves), min_size=2, max_size=3).map(tuple))


class Playing:
    """Plays a plan as a model; streams some text before it fails late."""

    name = "m"

    def __init__(self, plan, numbers):
        self.turns, self.numbers, self.faults = list(plan.turns), numbers, None

    async def __call__(self, request, run):
        turn = self.turns[0] if self.turns else Turn(Usage(1, 1))
        self.faults = list(turn.faults) if self.faults is None else self.faults
        for _ in range(turn.steps):
            await asyncio.sleep(0)
        if self.faults:
            if self.faults.pop() == "late":
                run.emit(TextDelta("Some words that were paid for. "))
                await asyncio.sleep(0)
            raise ProviderError("Busy.", retryable=True)
        self.turns, self.faults = self.turns[1:], None
        asked = [call("agent", which=which) for which in range(turn.agents)]
        asked = [type(one)(f"c{next(self.numbers)}", one.name, one.raw) for one in asked]
        return say("ok", *asked, usage=turn.usage)


class Whole:
    """A tree of agents at work, each admission entered into the ledger as it is made."""

    def __init__(self, plan, above):
        self.ledger, self.numbers = Ledger(), count()
        self.at_work, self.charged, self.heard, self.levels, self.wrong = {}, [], [], {}, []
        self.most_at_once = 0
        self.budget = Budget("run", plan.allowance, above)
        self.run = Run(listener=lambda event: self.hear("", event))
        self.run.state[Budget] = self.budget
        self.agent = self.made(plan, "")

    def made(self, plan, name):
        model = Playing(plan, self.numbers)

        async def sleep(_):
            await asyncio.sleep(0)

        @tool(effects={"read"})
        async def agent(which: int, run: Run) -> str:
            """Have another agent do a part."""
            if which >= len(plan.agents):
                raise ToolError("There is none.")
            named = f"a{next(self.numbers)}"
            child = spawned(run, named, plan.agents[which].allowance, lambda event: self.hear(named, event))
            return (await self.made(plan.agents[which], named).run("Do it.", child)).reason

        price = metered(RATES.of(model), budget_of_run, lambda *_: plan.guess, model="m")
        asks = layered(
            model, retrying(RetryPolicy(attempts=3), sleep=sleep), price, self.watching(plan.guess, name)
        )
        return Agent(asks, Toolbox([agent]))

    def watching(self, guess, name):
        """Make the layer right inside the meter: what it sees has just been admitted."""
        wanted = taken(Usage(*guess))

        async def layer(request, run, proceed):
            levels = budget_of_run(run).levels
            for level in levels:
                self.levels[id(level)] = level
                for kind in MEASURED:
                    limit = getattr(level.allowance, kind)
                    held = getattr(level.spent, kind) + getattr(level.held, kind)
                    if limit is not None and held > limit:
                        self.wrong.append((level.scope, kind, held, limit))
            if not self.ledger.fits(levels, wanted):
                self.wrong.append((name, wanted))
            made = self.at_work[name] = self.ledger.admit(levels, wanted)
            self.most_at_once = max(self.most_at_once, len(made.under_way))
            try:
                return await proceed(request)
            finally:
                # Unless it is charged for in a moment, and before anything else happens, it took nothing.
                made.taken = Spent()

        return layer

    def hear(self, name, event):
        if name == "":
            self.heard.append(event)
        if isinstance(event, Charged) and event.agent == name:
            self.charged.append(event)
            made = self.at_work.pop(name)
            made.taken = Spent(1, 0.0, event.usage.input + event.usage.output, event.cost)


@some
@given(trees, st.lists(allowances, min_size=2, max_size=2), maybe(st.integers(0, 60)))
def test_a_tree_of_agents_at_work_keeps_every_limit_and_every_cent(plan, outer, stop_after):
    day = Budget("day", outer[0])
    session = Budget("session", outer[1], day)
    whole = Whole(plan, session)
    outcome = asyncio.run(played(whole, stop_after))
    event(f"ended {outcome.reason}")
    event(f"{min(whole.most_at_once, 3)} calls at once or more")
    assert whole.wrong == []  # what is raised in a child would only be a tool that failed
    assert outcome.reason in {"done", "budget", "interrupted"}
    whole.ledger.check_end([*whole.levels.values(), *session.levels])

    charged = whole.charged
    told = [event for event in whole.heard if isinstance(event, Charged)]
    assert Counter(map(id, told)) == Counter(map(id, charged))  # each is told at the top, once
    total = sum((charge.cost for charge in charged), Decimal())
    for level in session.levels:
        assert level.spent.dollars == total
    assert whole.budget.spent.dollars == total == (whole.run.cost or 0) == (outcome.cost or 0)
    tokens = sum(charge.usage.input + charge.usage.output for charge in charged)
    assert whole.budget.spent.tokens == day.spent.tokens == tokens
    if outcome.reason == "budget":
        assert sum(isinstance(event, LimitMet) for event in whole.heard) == 1
    assert isinstance(whole.heard[-1], RunEnded)
    assert whole.run.transcript.dangling() == []


async def played(whole, stop_after):
    """Run to the end, or stop it after so many steps of the event loop."""
    work = asyncio.create_task(whole.agent.run("Go.", whole.run))
    if stop_after is not None:
        for _ in range(stop_after):
            await asyncio.sleep(0)
        whole.run.stop()
    return await work


def test_all_kinds_of_limits_are_looked_at_here_but_time():
    assert set(KINDS) - set(MEASURED) == {"seconds"}
