"""Limits inside limits: what is held, spent, refused, raised and told."""

import asyncio
import copy
import threading
from decimal import Decimal

import pytest

from harness_nb.errors import RunStop, ToolError, UsageError
from harness_nb.messages import Usage
from harness_nb.ops.allowance import Allowance, LimitError, Spent, amount, money
from harness_nb.ops.budget import Budget
from harness_nb.seams import Run

FREE = Decimal()


def refused(budget, tokens=1, dollars=FREE):
    with pytest.raises(LimitError) as caught:
        budget.reserve(tokens, dollars)
    assert caught.value.reason == "budget"
    return caught.value


def met(budget, tokens=1, dollars=FREE):
    return refused(budget, tokens, dollars).met


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self):
        return self.now


def test_what_is_held_and_spent_and_asked_for_must_fit_together():
    budget = Budget("run", Allowance(tokens=100))
    held = budget.reserve(60, FREE)
    assert met(budget, 41).spent == 0
    with budget.reserve(40, FREE):
        assert budget.held.tokens == 100
    held.settle(Usage(20, 10), None)
    assert (budget.held, budget.spent) == (Spent(), Spent(1, 0.0, 30))
    budget.reserve(70, FREE)


def test_a_call_counts_at_every_level_above_it():
    day = Budget("day", Allowance(dollars=Decimal("0.30")))
    runs = [Budget("run", parent=Budget("session", parent=day)) for _ in range(2)]
    for run in runs:
        run.reserve(10, Decimal("0.10")).settle(Usage(5, 5), Decimal("0.11"))
    assert day.spent == Spent(2, 0.0, 20, Decimal("0.22"))
    found = met(runs[0], dollars=Decimal("0.09"))
    assert (found.scope, found.what, found.limit) == ("day", "dollars", Decimal("0.30"))


def test_a_refused_call_holds_nothing_at_any_level():
    day = Budget("day", Allowance(tokens=10))
    run = Budget("run", Allowance(tokens=100), day)
    met(run, 50)
    assert run.held == day.held == Spent()


def test_what_was_spent_in_another_process_counts():
    budget = Budget("session", Allowance(tokens=100), spent=Spent(tokens=95))
    assert met(budget, 6).spent == 95
    assert "95 tokens used" in str(refused(budget, 6))


def test_settling_twice_or_releasing_after_it_changes_nothing():
    budget = Budget("run")
    held = budget.reserve(10, FREE)
    held.settle(Usage(1, 1), Decimal(1))
    held.settle(Usage(1, 1), Decimal(1))
    held.release()
    assert (budget.spent, budget.held) == (Spent(1, 0.0, 2, Decimal(1)), Spent())


def test_a_limit_that_is_raised_lets_the_call_through():
    day = Budget("day", Allowance(dollars=Decimal("0.10")))
    run = Budget("run", parent=day)
    run.reserve(1, FREE).settle(Usage(), Decimal("0.10"))
    found = met(run, dollars=Decimal("0.04"))
    assert found.more == Decimal("0.10")
    run.allow(found)
    assert day.allowance.dollars == Decimal("0.20")
    run.reserve(1, Decimal("0.04"))


def test_raising_once_is_enough_also_for_a_call_larger_than_the_limit():
    budget = Budget("run", Allowance(dollars=Decimal("0.01")))
    found = met(budget, dollars=Decimal("0.5551"))
    assert found.more == Decimal("0.55")
    budget.allow(found)
    budget.reserve(1, Decimal("0.5551"))


def test_a_limit_that_is_nobodys_here_is_not_raised():
    budget = Budget("run", Allowance(tokens=5))
    found = met(Budget("day", Allowance(tokens=1)), 2)
    budget.allow(found)
    assert budget.allowance == Allowance(tokens=5)


def test_turns_are_counted_by_calls_that_were_answered():
    budget = Budget("run", Allowance(turns=2))
    budget.reserve(1, FREE).release()
    for _ in range(2):
        budget.reserve(1, FREE).settle(Usage(1, 1), None)
    assert met(budget).what == "turns"
    budget.reserve(1, FREE, turns=0)  # a summary is no turn


def test_time_is_counted_while_a_run_is_at_work_and_not_while_it_waits_for_people():
    clock, run = Clock(), Run()
    session = Budget("session", now=clock)
    budget = Budget("run", Allowance(seconds=10), session, now=clock)
    with budget.timed(run):
        clock.now += 20
        run.waited += 13
        budget.reserve(1, FREE).release()
        clock.now += 1
    clock.now += 100  # suspended
    with budget.timed(run):
        clock.now += 1.5
        budget.reserve(1, FREE).release()
        clock.now += 0.5
        found = met(budget)
    assert (found.what, found.spent) == ("seconds", 10)
    assert budget.spent.seconds == session.spent.seconds == 10


async def test_a_wait_for_people_that_is_not_over_is_not_counted_either():
    run, budget = Run(), Budget("run", Allowance(seconds=0.3))
    with budget.timed(run), run.for_people():
        await asyncio.sleep(0.4)
        budget.reserve(1, FREE).release()  # e.g. another tool's, meanwhile
    assert budget.spent.seconds < 0.3


def test_a_count_that_can_not_be_is_still_a_limit_met():
    budget = Budget("run", Allowance(tokens=10, dollars=Decimal(1)))
    budget.reserve(1, FREE).settle(Usage(10**40, 10**40), Decimal(10**12))
    budget.allow(met(budget))
    assert met(budget).what == "dollars"


def test_a_childs_time_is_its_parents_too_and_counts_once():
    clock, run = Clock(), Run()
    root = Budget("run", Allowance(seconds=10), now=clock)
    child = root.child("reader", Allowance(seconds=4))
    with root.timed(run), child.timed(Run()):
        clock.now += 3
        child.reserve(1, FREE).release()
        assert (child.spent.seconds, root.spent.seconds) == (3, 3)
        clock.now += 1
        assert met(child).scope == "reader"
        clock.now += 6
        child.allow(met(child))
        assert met(child).scope == "reader"
        assert root.spent.seconds == 10
        assert met(root).scope == "run"


def test_half_and_four_fifths_of_a_limit_are_told_once_each():
    budget = Budget("run", Allowance(tokens=100), Budget("session", Allowance(dollars=Decimal(1))))

    def told(tokens, cost="0"):
        return budget.reserve(0, FREE).settle(Usage(tokens), Decimal(cost))

    assert told(49) == ()
    assert told(1) == ("This run's limit of 100 tokens is used up to 50%.",)
    assert told(10) == ()
    assert told(25, "0.9") == (
        "This run's limit of 100 tokens is used up to 85%.",
        "This session's limit of $1.00 is used up to 90%.",
    )
    assert told(10) == ()


def test_what_was_told_before_the_process_began_is_not_told_again():
    budget = Budget("day", Allowance(tokens=100), spent=Spent(tokens=60))
    assert budget.reserve(1, FREE).settle(Usage(1), None) == ()
    assert len(budget.reserve(1, FREE).settle(Usage(30), None)) == 1


def test_alerts_come_again_after_a_limit_was_raised():
    budget = Budget("run", Allowance(tokens=100))
    assert len(budget.reserve(0, FREE).settle(Usage(90), None)) == 1
    budget.allow(met(budget, 20))
    assert budget.reserve(0, FREE).settle(Usage(5), None) == ()
    assert budget.reserve(0, FREE).settle(Usage(70), None) == (
        "This run's limit of 200 tokens is used up to 82%.",
    )


def test_children_are_few_and_have_none_of_their_own():
    root = Budget("run", Allowance(children=2), Budget("session"))
    first = root.child("a")
    with pytest.raises(ToolError, match="can't start one itself"):
        first.child("b")
    root.child("b")
    with pytest.raises(ToolError, match="may start 2 agents, and has"):
        root.child("c")


def test_a_tree_of_children_is_counted_as_a_whole():
    root = Budget("run", Allowance(children=3, depth=2))
    child = root.child("a")
    child.child("b")
    root.child("c")
    with pytest.raises(ToolError, match="may start 3"):
        child.child("d")


def test_a_child_may_spend_what_its_parent_has_left_and_no_more_than_its_own():
    root = Budget("run", Allowance(tokens=100))
    root.reserve(70, FREE)
    child, bounded = root.child("a"), root.child("b", Allowance(tokens=10))
    assert met(child, 31).scope == "run"
    assert met(bounded, 11).scope == "b"
    child.reserve(30, FREE).settle(Usage(25, 5), None)
    assert root.spent.tokens == 30


def test_an_unknown_price_is_refused_where_dollars_are_limited_and_nowhere_else():
    assert Budget("run", Allowance(tokens=5)).reserve(1, None)
    run = Budget("run", parent=Budget("day", Allowance(dollars=Decimal(1))))
    with pytest.raises(RunStop, match=r'The price of `qwen3` is not known.*\[prices\."qwen3"\]') as caught:
        run.reserve(1, None, model="qwen3")
    assert caught.value.reason == "budget"


@pytest.mark.parametrize("limit", [-1, float("nan"), float("inf"), "much"])
@pytest.mark.parametrize("kind", ["turns", "seconds", "tokens", "dollars"])
def test_a_limit_that_cannot_be_is_refused_in_a_sentence(kind, limit):
    with pytest.raises(UsageError, match=rf"A limit of \S+ {kind} can't be: give a number from 0 up\."):
        Allowance(**{kind: limit})


def test_a_limit_of_nothing_allows_nothing():
    budget = Budget("run", Allowance(dollars=Decimal()))
    budget.reserve(5, FREE).settle(Usage(1), FREE)
    assert met(budget, dollars=Decimal("0.001")).more == Decimal("0.01")


def test_dollars_may_be_given_as_any_number():
    assert Allowance(dollars=0.1).dollars == Decimal("0.1")


def test_a_limit_error_can_be_copied():
    fault = refused(Budget("run", Allowance(tokens=1)), 2)
    again = copy.copy(fault)
    assert (again.met, str(again), again.reason) == (fault.met, str(fault), "budget")


def test_the_sentence_tells_limit_use_and_calls_under_way():
    budget = Budget("session", Allowance(dollars=Decimal("0.50")))
    budget.reserve(1, FREE).settle(Usage(1), Decimal("0.2"))
    budget.reserve(1, Decimal("0.30"))
    said = str(refused(budget, 1, Decimal("0.01")))
    assert said == (
        "This session's limit of $0.50 is reached: $0.20 used, calls under way may take $0.30, "
        "and the next call could go beyond it."
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [("0", "$0.00"), ("0.5", "$0.50"), ("1204.499", "$1,204.50"), ("0.0042", "$0.0042"), ("0.0000123", "$0.000012"), ("-0.25", "-$0.25")],
)  # fmt: skip
def test_money_is_told_to_the_cent_or_with_two_digits(value, said):
    assert money(Decimal(value)) == said


def test_amounts_have_their_unit():
    told = [amount("turns", Decimal(1)), amount("tokens", Decimal(12_000)), amount("seconds", Decimal(900))]
    assert told == ["1 turn", "12,000 tokens", "900 s"]


def test_threads_can_not_count_on_the_same_remainder():
    root = Budget("run", Allowance(tokens=1_000, children=8))
    admitted = []

    def work(budget):
        for _ in range(200):
            try:
                held = budget.reserve(10, FREE)
            except LimitError:
                return
            admitted.append(1)
            held.settle(Usage(7, 3), Decimal("0.01"))

    threads = [threading.Thread(target=work, args=(root.child(f"c{n}"),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == 100
    assert root.spent == Spent(100, 0.0, 1_000, Decimal("1.00"))
    assert root.held == Spent()
