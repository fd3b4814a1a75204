"""A model made of up to three: which is asked, why, and what happens when it is out."""

import pytest

from harness_nb.agent import Agent
from harness_nb.errors import ProviderError, UsageError
from harness_nb.events import Charged, ModelChosen, ModelSwitched, TextDelta, TurnRestarted
from harness_nb.messages import Usage, assistant, user
from harness_nb.ops.meter import budget_of_run, metered
from harness_nb.ops.router import Choice, Router, by_rule
from harness_nb.providers.chaos import Chaos
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.seams import Request, Run, layered
from harness_nb.tools import Toolbox, tool

BUSY = ProviderError("Busy.", retryable=True)


def asked(*texts):
    return Request("", tuple(user(text) for text in texts))


def tier(prompt, run=None):
    return by_rule(asked(prompt), run or Run()).tier


def three():
    return {name: scripted(*[name] * 3, name=name) for name in ("economy", "mid", "premium")}


async def answer(router, request=None, run=None):
    heard = []
    run = run or Run(listener=heard.append)
    reply = await router(request or asked("Hello."), run)
    return reply.message.text, heard


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Classify these mails.", "economy"),
        ("Please extract the dates", "economy"),
        ("SUMMARISE the report", "economy"),
        ("Summarizing is all", "economy"),
        ("A summary, please", "economy"),
        ("Write code for a parser", "premium"),
        ("Plan the migration", "premium"),
        ("Reason step by step", "premium"),
        ("Which planet is largest?", "mid"),
        ("Unreasonable codec extractor", "mid"),
        ("Summarise the code", "economy"),
        ("Plan a trip, then summarise it", "premium"),
        ("", "mid"),
    ],
)
def test_the_first_word_that_says_how_hard_it_is_decides(prompt, expected):
    assert tier(prompt) == expected


def test_a_long_request_goes_to_the_premium_tier_whatever_it_asks():
    assert tier("Summarise: " + "x" * 149_000) == "economy"
    choice = by_rule(asked("Summarise: " + "x" * 151_000), Run())
    assert (choice.tier, choice.why) == ("premium", "The request has about 50,338 tokens.")


def test_what_the_harness_says_later_does_not_change_the_choice():
    run = Run()
    assert tier("Classify this.", run) == "economy"
    assert by_rule(asked("Classify this.", "Go on with the plan."), run).tier == "economy"


def test_a_new_run_is_judged_by_its_own_prompt():
    request = Request("", (user("Plan it."), assistant("Done."), user("Now classify it.")))
    assert by_rule(request, Run()).tier == "economy"


async def test_the_choice_is_an_event_with_its_reason():
    text, heard = await answer(Router(**three()), asked("Plan it."))
    assert text == "premium"
    assert heard[0] == ModelChosen("premium", "premium", "The request says `Plan`.")


async def test_each_turn_of_a_run_is_routed():
    @tool(effects={"read"}, limit=400_000)
    def look() -> str:
        """Look."""
        return "x" * 300_000

    heard = []
    models = three()
    models["economy"] = scripted(say(call("look")), name="economy")
    outcome = await Agent(Router(**models), Toolbox([look])).run("Extract it.", Run(listener=heard.append))
    assert outcome.text == "premium"
    assert [event.tier for event in heard if isinstance(event, ModelChosen)] == ["economy", "premium"]


@pytest.mark.parametrize(
    ("given", "wanted", "got"),
    [
        (("mid", "premium"), "economy", "mid"),
        (("economy", "premium"), "mid", "premium"),
        (("economy", "mid"), "premium", "mid"),
        (("economy",), "premium", "economy"),
        (("premium",), "economy", "premium"),
    ],
)
async def test_a_missing_tier_is_stood_in_for_by_a_dearer_one_else_a_cheaper(given, wanted, got):
    models = {name: model for name, model in three().items() if name in given}
    router = Router(**models, choose=lambda request, run: Choice(wanted, "so"))
    assert (await answer(router))[0] == got


async def test_a_function_may_choose_and_may_be_async():
    async def choose(request, run):
        return Choice("economy", "Always.")

    text, heard = await answer(Router(**three(), choose=choose))
    assert (text, heard[0].why) == ("economy", "Always.")


async def test_where_a_tier_is_out_the_others_take_over_in_order():
    models = three() | {"mid": scripted(BUSY, name="mid"), "premium": scripted(BUSY, name="premium")}
    text, heard = await answer(Router(**models))
    assert text == "economy"
    assert [(e.model, e.why) for e in heard if isinstance(e, ModelSwitched)] == [
        ("premium", "Busy."),
        ("economy", "Busy."),
    ]


async def test_what_a_tier_had_streamed_before_it_broke_is_void():
    broken = Chaos(scripted("x" * 200, name="m"), ("cut_stream",))
    _, heard = await answer(Router(mid=broken, premium=scripted("whole")))
    kinds = [type(event) for event in heard]
    restart = kinds.index(TurnRestarted)
    assert TextDelta in kinds[:restart]
    assert kinds[restart + 1] is ModelSwitched


@pytest.mark.parametrize(
    "fault",
    [ProviderError("Quota.", status=429, code="insufficient_quota"), ProviderError("Pay.", status=402)],
)
async def test_a_tier_without_credit_is_out(fault):
    assert (await answer(Router(mid=scripted(fault), premium=scripted("ok"))))[0] == "ok"


async def test_a_bad_request_is_nobody_elses_to_answer():
    other = scripted("never")
    with pytest.raises(ProviderError, match="Bad key"):
        await answer(Router(mid=scripted(ProviderError("Bad key.", status=401)), premium=other))
    assert other.requests == []


async def test_where_all_are_out_the_last_fault_is_raised():
    router = Router(mid=scripted(BUSY), premium=scripted(ProviderError("Down.", retryable=True)))
    with pytest.raises(ProviderError, match="Down"):
        await answer(router)


async def test_each_tier_is_charged_under_its_own_name():
    def priced(name):
        model = scripted(say("ok", usage=Usage(1, 1)), name=name)
        return layered(model, metered(lambda *_: None, budget_of_run, model=name))

    _, heard = await answer(Router(economy=priced("small"), premium=priced("large")), asked("Extract it."))
    assert [event.model for event in heard if isinstance(event, Charged)] == ["small"]


async def test_an_unknown_tier_is_said_with_the_known_ones():
    with pytest.raises(UsageError, match="No tier is called `best`: choose from economy, mid, premium"):
        await answer(Router(mid=scripted("x"), choose=lambda request, run: Choice("best", "")))


def test_a_router_without_a_model_is_refused():
    with pytest.raises(UsageError, match="A router needs a model"):
        Router()


def test_a_router_can_what_all_its_tiers_can():
    class Able:
        window, clears, searches_tools, offers_clearing = 9_000, True, True, True
        name = "able"

    small = scripted("x", window=4_000)
    both = Router(mid=Able(), premium=small)
    assert (both.window, both.clears, both.searches_tools) == (4_000, False, False)
    alone = Router(mid=Able())
    assert (alone.window, alone.clears, alone.searches_tools, alone.offers_clearing) == (
        9_000,
        True,
        True,
        True,
    )
    assert Router(mid=Able(), window=100).window == 100
    assert both.name == "router (able, scripted)"


def test_a_window_that_no_tier_tells_is_not_made_up():
    class Silent:
        name = "silent"

    assert Router(mid=Silent(), premium=scripted("x")).window is None
    assert Router(mid=scripted("x"), premium=scripted("x")).window == 0
