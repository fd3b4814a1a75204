"""What a person sees of money and limits in a run: its cost, a limit that ends it, going on by a click, and which model was chosen."""

import asyncio
import contextlib
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from harness_nb import Session, call, say, scripted
from harness_nb.events import Charged, LimitMet, ModelChosen, Notice, RunEnded, RunStarted, TurnStarted
from harness_nb.jupyter.defaults import Defaults, defaults
from harness_nb.jupyter.feed import Feed
from harness_nb.jupyter.kept import where
from harness_nb.jupyter.money import Bill, cost
from harness_nb.jupyter.record import as_html, as_markdown, as_text
from harness_nb.jupyter.terminal import TerminalRun
from harness_nb.jupyter.told import view_of
from harness_nb.jupyter.view import RunView
from harness_nb.jupyter.work import TOO_LATE
from harness_nb.messages import Usage
from harness_nb.ops.allowance import Allowance
from harness_nb.ops.router import Router
from harness_nb.ops.store import open_store

PRICES = '[prices."priced"]\ninput = 10\noutput = 100\n'
MET = LimitMet("dollars", "run", Decimal("0.5"), Decimal("0.4"), Decimal("0.5"))
NEAR = Notice("This run's limit of $0.50 is used up to 80%.")
DETAIL = "This run's limit of $0.50 is reached: $0.40 used, and the next call could go beyond it."


@pytest.fixture(autouse=True)
def priced(tmp_path):
    """A folder in which the model `priced` has a price; the defaults are as they were afterwards."""
    (tmp_path / "harness_nb.toml").write_text(PRICES)
    with contextlib.chdir(tmp_path):
        yield
    vars(defaults).update(vars(Defaults()))


def paid(amount):
    return Charged("m", Usage(1, 1), None if amount is None else Decimal(amount))


def view(*events, reason="done", detail="", waited=0.0) -> RunView:
    made = RunView("Go", clock=lambda: 0.0)
    for event in (RunStarted("r", "m", 50), TurnStarted(1), *events):
        made.take(event)
    made.take(RunEnded(reason, detail, 1, Usage(10, 1), waited))
    return made


@pytest.mark.parametrize(
    ("amounts", "words"),
    [
        ((), ""),
        (("0", "0"), ""),
        (("0.0042",), "$0.0042"),
        (("0.0042", "0.3"), "$0.30"),
        ((None,), "price unknown"),
        (("0.2", None), "at least $0.20"),
        (("0", None), "price unknown"),
    ],
)
def test_what_a_run_costs_is_said_the_same_everywhere(amounts, words):
    seen = view(*map(paid, amounts))
    assert seen.bill.words == words
    about = Feed(seen).whole()["head"]["about"]
    for form in (as_html(seen), as_text(seen), about):
        assert words in form
        assert ("$" in form or "price" in form) == bool(words)


def test_free_is_said_where_dollars_are_limited_and_no_limit_where_they_are_not():
    seen = view(paid("0"))
    seen.bill.limited = True
    assert seen.bill.words == "no cost"
    seen = view()
    seen.bill.unlimited = True
    assert seen.bill.words == "no limit in dollars"
    assert "no limit in dollars" in as_html(seen)


@given(st.lists(st.none() | st.decimals(0, 10**4, places=6)))
def test_a_cost_names_a_currency_or_says_that_there_is_none_or_that_it_is_unknown(amounts):
    bill = Bill()
    for amount in amounts:
        bill.add(paid(amount))
    known = sum((amount for amount in amounts if amount is not None), Decimal())
    assert bill.known == known
    assert ("$" in bill.words) == bool(known)
    assert ("unknown" in bill.words or "at least" in bill.words) == (None in amounts)
    assert cost(known, bill.unknown)


def test_a_limit_that_ended_a_run_is_told_with_what_going_on_would_allow():
    seen = view(MET, reason="budget", detail=DETAIL)
    assert seen.held
    assert seen.headline == "stopped at its budget after 1 turn, under 1 s"
    assert seen.ending == (
        f"{DETAIL} What it did so far stands. To go on, `%resume` allows another $0.50; "
        "`%resume --dollars 1.00` sets the limit that you say."
    )
    assert seen.offer.title == "This run's limit of $0.50 is reached."
    assert seen.offer.act == "Allow another $0.50 and go on"
    assert "then stops at $1.00" in seen.offer.promise
    for form in (as_html(seen), as_text(seen), as_markdown(seen).replace("\\", "")):
        assert "What it did so far stands." in form
        assert "%resume --dollars 1.00" in form


def test_a_limit_of_seconds_says_how_long_it_waited_for_people():
    met = LimitMet("seconds", "run", Decimal(900), Decimal(901), Decimal(900))
    detail = "This run's limit of 900 s is reached; waiting for people is not counted."
    seen = view(met, reason="budget", detail=detail, waited=95.0)
    assert "It waited 1 min 35 s for you besides." in seen.ending
    assert "`%resume --seconds 1800` sets" in seen.ending
    assert "waited" not in view(met, reason="budget", detail=detail).ending


def test_a_limit_of_turns_offers_as_many_again():
    seen = view(reason="turns", detail="The run reached its limit of 50 turns.")
    assert seen.offer.act == "Allow another 50 turns and go on"
    assert "`%resume --turns 100`" in seen.ending


@pytest.mark.parametrize("scope", ["session", "day"])
def test_a_limit_of_more_than_the_run_is_raised_by_resume_alone(scope):
    seen = view(
        LimitMet("dollars", scope, Decimal(1), Decimal(1), Decimal(1)),
        reason="budget",
        detail="It is reached.",
    )
    assert seen.ending.endswith("To go on, `%resume` allows another $1.00.")


def test_nothing_is_offered_where_nothing_could_be_allowed_or_something_else_ended_it():
    assert view(reason="budget", detail="The price is not known.").offer is None
    assert view(MET, reason="interrupted").offer is None
    assert view(MET).offer is None
    alone = RunView("Go")
    alone.continues = False
    alone.take(MET)
    alone.take(RunEnded("budget", DETAIL, 1, Usage()))
    assert alone.offer is None
    assert "%resume" not in alone.ending


def test_once_something_else_followed_nothing_is_offered_any_more():
    seen = view(MET, reason="budget", detail=DETAIL)
    seen.withdraw()
    assert not seen.held
    assert seen.ending == f"{DETAIL} What it did so far stands. The conversation went on in a later cell."


def test_a_choice_of_a_model_is_one_line_until_another_is_made():
    easy, hard = (
        ModelChosen("small", "economy", "It is easy."),
        ModelChosen("<b>big</b>", "premium", "It is hard."),
    )
    seen = view(easy, TurnStarted(2), easy, TurnStarted(3), hard)
    assert [s.text for s in seen.segments] == [
        "The economy tier, small: It is easy.",
        "The premium tier, <b>big</b>: It is hard.",
    ]
    assert "<b>big" not in as_html(seen)


# -- in a session


def turn(*parts):
    return say(*parts, usage=Usage(10_000, 1_000))


def working(turns=8) -> Session:
    talk = Session()
    talk.tools = []
    steps = (turn(call("calc", expression=f"{n} + 1")) for n in range(turns))
    talk.model = scripted(*steps, turn("Done."), turn("Later."), turn("Later still."), name="priced")
    return talk


HALF = Allowance(dollars=Decimal("0.50"))


def click(work, **other):
    return work._clicked({"ask": "decide", "answer": "more", "question": work.shown.view.offer.id, **other})


async def to_its_end(talk):
    while talk._at_work.tasks:
        await asyncio.wait(talk._at_work.tasks)


async def test_a_click_goes_on_in_place_and_twice_is_once():
    talk = working(3)
    first = await talk.run("Go", limits=HALF)
    work = talk._at_work.held
    offer = work.shown.view.offer
    assert click(work) == ""
    assert work._clicked({"ask": "decide", "answer": "more", "question": offer.id}) == TOO_LATE
    await to_its_end(talk)
    assert first.view is work.shown.view
    assert (first.view.reason, first.view.bill.words, len(talk.model.requests)) == ("done", "$0.80", 4)
    assert "This run's limit of $0.50 was reached; you made it $1.00." in as_text(first.view)
    assert talk._at_work.held is None
    assert work._clicked({"ask": "decide", "answer": "more", "question": offer.id}) == TOO_LATE


async def test_each_click_allows_as_much_again_and_the_record_tells_them_all():
    talk = working(6)
    result = await talk.run("Go", limits=HALF)
    work, requests = talk._at_work.held, []
    while work.shown.view.offer is not None:
        requests.append(len(talk.model.requests))
        assert click(work) == ""
        await to_its_end(talk)
    assert requests == [2, 4]
    assert result.view.reason == "done"
    told = as_text(result.view)
    for was, now in (("0.50", "1.00"), ("1.00", "1.50")):
        assert f"This run's limit of ${was} was reached; you made it ${now}." in told


@pytest.mark.parametrize("change", ["a prompt", "new", "undo", "resume", "another conversation"])
async def test_a_click_that_comes_late_does_nothing_but_say_so(change):
    talk = working()
    first = await talk.run("Go", limits=HALF)
    work = talk._at_work.held
    late = {"ask": "decide", "answer": "more", "question": work.shown.view.offer.id}
    match change:
        case "a prompt":
            await talk.run("Something else", turns=1)
        case "new":
            talk.new()
        case "undo":
            talk.undo()
        case "resume":
            await talk.go_on(talk.restore(), turns=3)
        case _:
            talk.transcript = type(talk.transcript)()
    asked = len(talk.model.requests)
    assert work._clicked(late) == TOO_LATE
    await to_its_end(talk)
    assert len(talk.model.requests) == asked
    if change != "another conversation":
        assert first.view.ending.endswith("The conversation went on in a later cell.")


async def test_while_a_run_is_at_work_a_click_says_so():
    talk = working()
    await talk.run("Go", limits=HALF)
    work = talk._at_work.held
    with talk._at_work.alone():
        assert "is at work on another prompt" in click(work)
    assert work.shown.view.offer is not None, "it can be clicked again"
    assert click(work) == ""
    await to_its_end(talk)


async def test_a_run_that_can_no_longer_be_taken_up_says_why_and_stays():
    talk = working()
    await talk.run("Go", limits=HALF)
    work, talk.model = talk._at_work.held, "nonesuch"
    assert "No model is called `nonesuch`." in click(work)
    assert work.shown.view.offer is not None


async def test_a_paid_model_without_a_limit_is_named_once_and_its_header_says_so_each_time():
    talk = working(0)
    first, second = await talk.run("Go"), await talk.run("Go on")
    told = "Nothing limits what `priced` may cost: `%agent --dollars 0.50` sets a limit for a run"
    assert told in as_text(first.view)
    assert told not in as_text(second.view)
    assert first.view.bill.words == second.view.bill.words == "$0.20, no limit in dollars"
    limited = await talk.run("And on", limits=HALF)
    assert limited.view.bill.words == "$0.20"


async def test_a_free_model_is_not_said_to_have_no_limit():
    talk = Session()
    talk.tools, talk.model = [], scripted("Hello.")
    result = await talk.run("Go")
    assert result.view.bill.words == ""
    assert result.cost == 0


async def test_alerts_are_told_in_the_run():
    talk = working(2)
    result = await talk.run("Go", limits=Allowance(dollars=Decimal("0.70")))
    notes = [note for note in as_text(result.view).splitlines() if "is used up" in note]
    assert notes == [
        "  This run's limit of $0.70 is used up to 57%.",
        "  This run's limit of $0.70 is used up to 86%.",
    ]


async def test_a_limit_that_is_reached_is_not_also_said_to_come_near():
    talk = working()
    result = await talk.run("Go", limits=Allowance(dollars=Decimal("0.70")))
    history = talk.kept.history
    records = open_store(where()).open("main", write=False).read()
    assert "is used up to 86%" in " ".join(str(record.data.get("text")) for record in records)
    for seen in (result.view, view_of(history.runs[history.head], records, history)):
        assert [line for line in as_text(seen).splitlines() if "is used up" in line] == [
            "  This run's limit of $0.70 is used up to 57%."
        ]


def test_what_a_front_end_has_of_a_limit_that_came_near_is_taken_back():
    seen = RunView("Go", clock=lambda: 0.0)
    feed = Feed(seen)
    other = Notice("This session's limit of $5.00 is used up to 50%.")
    for event in (RunStarted("r", "m", 50), TurnStarted(1), NEAR, other):
        feed.hear(event)
    assert len(feed.changes()["parts"]) == 2
    feed.hear(MET)
    changes = feed.changes()
    assert changes["cut"] == 0
    assert [part["text"] for part in changes["parts"].values()] == [other.text]


def test_what_comes_after_a_limit_is_written_whole_in_a_terminal():
    lines = []
    run = TerminalRun("Go", lines.append)
    for event in (RunStarted("r", "m", 50), TurnStarted(1), NEAR, MET, Notice("Something else.")):
        run.listener(event)
    assert "  Something else.\n" in lines


async def test_a_session_may_be_given_a_router_and_each_tier_is_charged_once():
    talk = Session()
    talk.tools = []
    cheap, dear = scripted(turn("Cheap."), name="cheap"), scripted(turn("Dear."), name="priced")
    talk.model = Router(economy=cheap, premium=dear)
    easy = await talk.run("Classify this.")
    assert (easy.text, easy.cost, easy.view.bill.requests) == ("Cheap.", 0, 1)
    assert easy.view.bill.unlimited, "its other tier costs money"
    hard = await talk.run("Plan that.", limits=HALF)
    assert (hard.text, hard.cost, hard.view.bill.requests) == ("Dear.", Decimal("0.2"), 1)
    assert "The premium tier, priced: The request says `Plan`." in as_text(hard.view)


def test_what_is_kept_of_a_run_at_its_limit_is_told_as_it_was_seen():
    talk = working()
    result = talk.run_blocking("Go", limits=HALF)
    history = talk.kept.history
    run = history.runs[history.head]
    records = [record for record in talk.kept.journal.log.read() if record.run == run.id]
    told = view_of(run, records, history)
    assert told.ending == result.view.ending
    assert told.bill.known == result.view.bill.known
    talk.run_blocking("Something else", turns=1)
    assert view_of(run, records, history).ending.endswith("The conversation went on in a later cell.")
