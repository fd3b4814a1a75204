"""What a session's runs may spend: limits from the defaults or a prompt, raised by going on, counted over kernels, sessions and a day."""

import contextlib
import json
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

import harness_nb
from harness_nb import Session, UsageError, call, say, scripted
from harness_nb.events import Charged, RunStarted
from harness_nb.jupyter.day import today
from harness_nb.jupyter.defaults import Defaults, defaults
from harness_nb.jupyter.kept import where
from harness_nb.jupyter.options import resume_read
from harness_nb.jupyter.purse import _read, written
from harness_nb.messages import Usage
from harness_nb.ops.allowance import Allowance
from harness_nb.ops.journal import Journal
from harness_nb.ops.store import open_store
from harness_nb.seams import Run

PRICES = '[prices."priced"]\ninput = 10\noutput = 100\n'
"""Of a turn with 10,000 tokens in and 1,000 out: $0.20."""


@pytest.fixture(autouse=True)
def priced(tmp_path):
    """A folder in which the model `priced` has a price; the defaults are as they were afterwards."""
    (tmp_path / "harness_nb.toml").write_text(PRICES)
    with contextlib.chdir(tmp_path):
        yield
    vars(defaults).update(vars(Defaults()))


def turn(*parts):
    return say(*parts, usage=Usage(10_000, 1_000))


def working(turns=8, name="main", model="priced") -> Session:
    """A session whose model calculates for so many turns, each for $0.20, and then answers."""
    talk = Session(name)
    talk.tools = []
    talk.model = scripted(
        *(turn(call("calc", expression=f"{n} + 1")) for n in range(turns)), turn("Done."), name=model
    )
    return talk


def spends(**limits):
    return Allowance(
        **{name: Decimal(value) if name == "dollars" else value for name, value in limits.items()}
    )


def on(talk, **how):
    return talk.go_on_blocking(talk.restore(), **how)


def met(talk):
    offer = talk._at_work.held.shown.view.offer
    return offer.met.limit, offer.met.more


def test_a_run_goes_on_beyond_its_limit_by_as_much_again_each_time():
    talk = working()
    first = talk.run_blocking("Go", limits=spends(dollars="0.50"))
    assert (first.reason, first.cost) == ("budget", Decimal("0.4"))
    assert met(talk) == (Decimal("0.5"), Decimal("0.5"))
    second = on(talk)
    assert (second.reason, second.cost) == ("budget", Decimal("0.8"))
    assert met(talk) == (Decimal(1), Decimal("0.5")), "each raise is as much as the limit first was"
    third = on(talk)
    assert (third.reason, third.cost) == ("budget", Decimal("1.4"))
    last = on(talk, limits=spends(dollars="5"))
    assert (last.reason, last.cost, last.text) == ("done", Decimal("1.8"), "Done.")


def test_what_was_said_for_one_run_holds_when_another_kernel_goes_on_with_it():
    before = working()
    before.run_blocking("Go", limits=spends(dollars="0.50", tokens=24_000))
    before.kept.close()
    later = working()
    assert on(later).detail.startswith("This run's limit of $0.50 is reached"), (
        "that of the tokens was raised"
    )
    assert met(later) == (Decimal("0.5"), Decimal("0.5"))
    assert on(later).detail.startswith("This run's limit of 48,000 tokens is reached"), "and stayed so"
    assert on(later, limits=spends(tokens=10**6)).detail.startswith("This run's limit of $1.00 is reached")


def test_an_interrupted_run_that_went_beyond_its_limit_keeps_what_was_allowed():
    talk = working()
    talk.run_blocking("Go", limits=spends(dollars="0.50"))
    talk.model = scripted(lambda _: talk.stop() or "This is cut off.", name="priced")
    assert on(talk).reason == "interrupted"
    talk.model = working().model
    assert on(talk).detail.startswith("This run's limit of $1.00 is reached")


def test_turns_that_a_prompt_allowed_are_allowed_again():
    talk = working()
    first = talk.run_blocking("Go", turns=3)
    assert (first.reason, first.turns) == ("turns", 3)
    assert met(talk) == (3, 3)
    second = on(talk)
    assert (second.reason, second.turns) == ("turns", 6)
    third = on(talk, turns=7)
    assert (third.reason, third.turns) == ("turns", 7)
    assert met(talk) == (7, 3)
    fourth = on(talk)
    assert (fourth.reason, fourth.turns) == ("done", 9)


def test_a_turn_that_was_refused_for_lack_of_money_is_no_turn():
    talk = working()
    assert talk.run_blocking("Go", limits=spends(dollars="0.50")).turns == 2
    assert on(talk, limits=spends(dollars="50")).turns == 9


def test_the_sessions_limit_counts_all_its_runs_and_those_of_earlier_kernels():
    defaults.session_dollars = 0.5
    before = working(1)
    assert before.run_blocking("Go").reason == "done"
    before.kept.close()
    talk = working()
    result = talk.run_blocking("Go on")
    assert result.reason == "budget"
    assert result.detail.startswith("This session's limit of $0.50 is reached: $0.40 used")
    assert result.turns == 0
    raised = on(talk)
    assert (raised.reason, raised.cost) == ("budget", Decimal("0.4"))
    assert raised.detail.startswith("This session's limit of $1.00 is reached: $0.80 used")
    assert talk.run_blocking("Again").reason == "budget", "what was allowed stays, and no more"
    talk.kept.close()
    later = working()
    assert later.run_blocking("Go on").detail.startswith(
        "This session's limit of $1.00 is reached: $1.00 used"
    )
    defaults.session_dollars = 0.9
    assert later.run_blocking("Go on").detail.startswith(
        "This session's limit of $0.90 is reached: $1.00 used"
    )


def test_the_days_limit_counts_every_session_kept_here():
    defaults.day_dollars = 0.5
    assert working(1, "one").run_blocking("Go").reason == "done"
    other = working(1, "other")
    result = other.run_blocking("Go")
    assert result.detail.startswith("Today's limit of $0.50 is reached: $0.40 used")
    assert on(other).reason == "done"


def test_the_days_limit_holds_where_nothing_is_kept():
    defaults.store, defaults.day_dollars = "off", 0.5
    talk = working(1)
    assert talk.run_blocking("Go").reason == "done"
    assert talk.run_blocking("Go").detail.startswith("Today's limit of $0.50 is reached: $0.40 used")


def test_an_unknown_price_under_a_limit_in_dollars_is_refused_before_anything_is_sent():
    talk = working()
    sent = []

    class Elsewhere:
        name, host = "nobody-knows-1", "api.example.com"

        async def __call__(self, request, run: Run):
            sent.append(request)
            return turn("Hello.")

    talk.model = Elsewhere()
    result = talk.run_blocking("Go", limits=spends(dollars="1"))
    assert (result.reason, sent) == ("budget", [])
    assert "The price of `nobody-knows-1` is not known" in result.detail
    assert talk._at_work.held is None, "nothing can be allowed that would help"
    assert result.view.ending == result.detail, "which says all that helps"
    result = talk.run_blocking("Go")
    assert (result.reason, result.cost) == ("done", None)


@pytest.mark.parametrize("name", ["seconds", "tokens", "dollars", "session_dollars", "day_dollars"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1])
def test_a_default_that_no_limit_can_be_is_one_sentence_and_nothing_is_sent(name, value):
    setattr(defaults, name, value)
    talk = working()
    with pytest.raises(
        UsageError, match=r"A limit of (nan|inf|-1|NaN|Infinity) \w+ can't be: give a number from 0 up\."
    ):
        talk.run_blocking("Go")
    assert talk.model.requests == []


@given(
    st.builds(
        Allowance,
        turns=st.none() | st.integers(0, 10**9),
        seconds=st.none() | st.floats(0, 10**9),
        tokens=st.none() | st.integers(0, 10**12),
        dollars=st.none() | st.decimals(0, 10**6, places=6),
        children=st.integers(0, 20),
        depth=st.integers(0, 3),
    )
)
def test_what_a_run_may_spend_is_read_as_it_was_written(limits):
    assert (_read(json.loads(json.dumps(written(limits)))) or Allowance()) == limits


@given(
    st.dictionaries(st.sampled_from(["turns", "seconds", "dollars", "later", "depth"]), st.text(max_size=6))
)
def test_a_record_that_somebody_changed_gives_limits_or_none(limits):
    assert isinstance(_read(limits), Allowance | None)


def test_the_journal_tells_limit_raise_and_cost():
    talk = working(3)
    talk.run_blocking("Go", limits=spends(dollars="0.50"))
    on(talk)
    [info] = open_store(where()).sessions()
    records = open_store(where()).open(info.name, write=False).read()
    kinds = [record.kind for record in records]
    assert kinds.count("charge") == 4
    [limit] = [record for record in records if record.kind == "limit"]
    assert (limit.data["limit"], limit.data["spent"], limit.data["more"]) == ("0.50", "0.4", "0.50")
    begun = next(record for record in records if record.kind == "run_started")
    assert begun.data["limits"] == {"dollars": "0.50"}
    assert "This run's limit of $0.50 was reached; you made it $1.00." in [
        record.data["text"] for record in records if record.kind == "notice"
    ]
    assert kinds.index("resumed") > kinds.index("limit")


def test_going_on_for_a_session_of_another_name_is_spoken_to_by_its_name():
    talk = harness_nb.session("my notes")
    other = working(name="my notes")
    talk.tools, talk.model = [], other.model
    result = talk.run_blocking("Go", limits=spends(dollars="0.50"))
    assert '`%resume "my notes"` allows another $0.50' in result.view.ending
    assert '`%resume --dollars 1.00 "my notes"` sets' in result.view.ending
    asked = resume_read('--dollars 1.00 "my notes"')
    assert (asked.session, asked.dollars) == ("my notes", 1)


def test_two_runs_side_by_side_cant_both_count_on_what_is_left_of_the_day():
    defaults.day_dollars = 0.15
    one, other, seen = working(0, "one"), working(0, "other"), []

    def meanwhile(_):
        seen.append(other.run_blocking("Go", show=False))
        return turn("Done.")

    one.model = scripted(meanwhile, name="priced")
    assert one.run_blocking("Go").reason == "done"
    assert seen[0].reason == "budget"
    assert "Today's limit of $0.15 is reached: $0.00 used, calls under way may take" in seen[0].detail


def test_what_another_run_of_this_process_spends_counts_at_once():
    defaults.day_dollars = 0.7
    one, other = working(0, "one"), working(1, "other")

    def meanwhile(_):
        assert other.run_blocking("Go", show=False).cost == Decimal("0.4")
        return turn(call("calc", expression="1 + 1"))

    one.model = scripted(meanwhile, turn("Done."), name="priced")
    assert one.run_blocking("Go").detail.startswith("Today's limit of $0.70 is reached: $0.60 used")


def test_what_another_kernel_spent_meanwhile_counts_from_the_next_run_on():
    defaults.day_dollars = 0.7
    talk = working(0, "one")
    assert talk.run_blocking("Go").reason == "done"
    elsewhere = Journal(open_store(where()).open("of another kernel"))
    elsewhere(RunStarted("there", "priced", 9))
    elsewhere(Charged("priced", Usage(10_000, 1_000), Decimal("0.45")))
    talk.model = working(0).model
    assert talk.run_blocking("Go").detail.startswith("Today's limit of $0.70 is reached: $0.65 used")
    assert today(talk.kept).spent.dollars == Decimal("0.65"), "each charge is counted once"


def test_the_days_limit_is_raised_for_all_sessions_until_it_is_set_anew():
    defaults.day_dollars = 0.3
    talk, other = working(3, "one"), working(1, "other")
    assert talk.run_blocking("Go").reason == "budget"
    assert on(talk).detail.startswith("Today's limit of $0.60 is reached: $0.40 used")
    assert other.run_blocking("Go").detail.startswith("Today's limit of $0.60 is reached")
    defaults.day_dollars = 0.35
    assert other.run_blocking("Go").detail.startswith("Today's limit of $0.35 is reached")


def test_another_kernel_knows_that_the_days_limit_was_raised():
    defaults.day_dollars = 0.3
    talk = working(3, "one")
    assert talk.run_blocking("Go").reason == "budget"
    assert on(talk).detail.startswith("Today's limit of $0.60 is reached: $0.40 used")
    talk.kept.close()
    code = (
        "from harness_nb.jupyter.day import today; from harness_nb.jupyter.defaults import defaults; "
        "from harness_nb.jupyter.kept import Kept; defaults.day_dollars = 0.3; "
        "print(today(Kept('other')).allowance.dollars)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert Decimal(told.stdout) == Decimal("0.6")
