"""`%cost`: its words, its sums and forms, what it answers to bad input, and a cache that lets go."""

import contextlib
import os
from decimal import Decimal
from html.parser import HTMLParser

import pytest
from hypothesis import given, strategies as st
from IPython.core.completer import CompletionContext

import harness_nb
from harness_nb import UsageError, call, layered, say, scripted, tool
from harness_nb.agent import Agent
from harness_nb.errors import HarnessError
from harness_nb.jupyter.completion import commands_matcher
from harness_nb.jupyter.cost import ROWS, Costs
from harness_nb.jupyter.cost_commands import cost_read
from harness_nb.jupyter.cost_record import bundle
from harness_nb.jupyter.session import Session
from harness_nb.messages import Usage
from harness_nb.ops.allowance import Allowance, Spent
from harness_nb.ops.journal import Journal
from harness_nb.ops.meter import metered, spawned
from harness_nb.ops.prices import prices
from harness_nb.ops.records import Record
from harness_nb.ops.router import Router
from harness_nb.providers.retry import retrying
from harness_nb.recipes import Kit, assistant, budget_of, paid
from harness_nb.seams import Run

PRICES = """
[prices."big"]
input = 10
output = 100
cache_read = 1
[prices."small"]
input = 1
output = 10
"""


@pytest.fixture(autouse=True)
def folder(tmp_path):
    """A folder in which `big` and `small` have prices."""
    (tmp_path / "harness_nb.toml").write_text(PRICES)
    with contextlib.chdir(tmp_path):
        yield


def turn(*parts, read=0, tokens=10_000):
    return say(*parts, usage=Usage(tokens, 1_000, cache_read=read))


class Elsewhere:
    """A model whose price nobody knows."""

    name, host = "nobody-knows-1", "api.example.com"

    async def __call__(self, request, run):
        """Answer."""
        return turn("Hm.")


@pytest.fixture
def spent(shell):
    """The main session with three runs: $0.20 and $0.11 with a cache, $0.02, and one of an unknown price."""
    talk = harness_nb.session()
    talk.tools = []
    talk.model = scripted(turn(call("calc", expression="1 + 1")), turn("Two.", read=10_000), name="big")
    talk.run_blocking("Add <b>one</b> and one.", limits=Allowance(dollars=Decimal(1)))
    talk.model = scripted(turn("Small."), name="small")
    talk.run_blocking("Ask a small one.")
    talk.model = Elsewhere()
    talk.run_blocking("Ask elsewhere.")
    return talk


def answer(shell, capsys, line):
    capsys.readouterr()
    shell.run_cell(line).raise_error()
    return capsys.readouterr().out.strip()


def rows(text, head):
    """The cells of the table below this head, by their first column."""
    lines = text[text.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [" ".join(line.split()) for line in lines]


def test_what_each_run_cost_and_the_sum(spent, shell, capsys):
    said = answer(shell, capsys, "%cost")
    assert said.startswith(
        "Session main: at least $0.33 for 4 requests in 3 runs, with 40,000 tokens in, 4,000 out."
    )
    assert "25% was read from a provider's cache, which saved $0.09." in said
    assert (
        "1 request has no known price and is in no sum: write the model's price into harness_nb.toml." in said
    )
    assert "The next run has no limit in dollars: `%agent --dollars 0.50` sets one." in said
    assert rows(said, "What each run cost.") == [
        "1 Add <b>one</b> and one. $0.31 2 20,000 2,000 50% $0.09",
        "2 Ask a small one. $0.02 1 10,000 1,000 0%",
        "3 Ask elsewhere. price unknown 1 10,000 1,000 0%",
        "total at least $0.33 4 40,000 4,000 25% $0.09",
    ]


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("%cost runs", "1 Add <b>one</b> and one. $0.31 2"),
        ("%cost turns", "1 1 $0.20 1 10,000 1,000 0%"),
        ("%cost models", "big $0.31 2 20,000 2,000 50% $0.09"),
        ("%cost agents", "the agent itself at least $0.33 4"),
        ("%cost --session main turns", "1 1 $0.20 1 10,000"),
        ("%cost   --plot  models", "big $0.31 2"),
    ],
)
def test_each_word_sorts_it_another_way_and_the_sum_stays(spent, shell, capsys, line, first):
    said = answer(shell, capsys, line)
    table = rows(said, "What each ")
    assert table[0].startswith(first)
    assert table[-1].endswith(" at least $0.33 4 40,000 4,000 25% $0.09")
    assert table[-1].startswith("total") == (len(table) > 1)


def test_what_is_left_of_each_limit(spent, shell, capsys):
    shell.run_cell("%config AgentMagics.session_dollars = 5\n%config AgentMagics.day_dollars = 10")
    spent.model = scripted(turn("Big."), name="big")
    spent.run_blocking("Once more.", limits=Allowance(dollars=Decimal(1), seconds=60))
    assert rows(answer(shell, capsys, "%cost"), "What is left of the limits.")[1:] == [
        "the last run $1.00 $0.20 $0.80",
        "this session $5.00 $0.53 $4.47",
        "today (UTC) $10.00 $0.53 $9.47",
    ]


def test_the_limit_of_seconds_that_nobody_set_is_told_when_more_than_half_of_it_is_used(spent, shell, capsys):
    spent.run_blocking("Once more.")
    assert "What is left of the limits." not in answer(shell, capsys, "%cost")
    spent.purse.last.levels[0].spent += Spent(seconds=500)
    assert "the last run 900 s at work 500 s at work" in " ".join(
        rows(answer(shell, capsys, "%cost"), "What is left of the limits.")
    )


def test_one_line_alone_has_no_sum_below_it(shell, capsys):
    harness_nb.session().model = scripted("Hello.")
    harness_nb.session().run_blocking("Go")
    assert len(rows(answer(shell, capsys, "%cost models"), "What each ")) == 1


def test_before_anything_was_spent_it_is_one_sentence(shell, capsys):
    assert answer(shell, capsys, "%cost") == "Session `main` has cost nothing yet: no model was asked."


def test_a_free_model_has_no_cost_and_no_advice(shell, capsys):
    harness_nb.session().model = scripted("Hello.")
    harness_nb.session().run_blocking("Go")
    said = answer(shell, capsys, "%cost")
    assert said.startswith("Session main: no cost for 1 request in 1 run")
    assert "$" not in said
    assert "limit in dollars" not in said


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("trns", "`%cost` knows no `trns`: did you mean `turns`?"),
        ("--plto", "did you mean `--plot`?"),
        ("please", "`%cost` knows no `please`: There is `runs`"),
        ("turns models", "`%cost` takes one word, not `turns models`"),
        ("--session nobody", "No session is called `nobody`"),
        ("--session", "`--session` needs a value"),
    ],
)
def test_bad_input_is_one_sentence(spent, shell, line, why):
    with pytest.raises(UsageError, match=why.replace("?", r"\?")) as fault:
        shell.run_cell(f"%cost {line}").raise_error()
    assert len(str(fault.value)) < 200


def test_prices_that_cannot_be_read_are_one_sentence(spent, shell, tmp_path):
    (tmp_path / "harness_nb.toml").write_text("[prices")
    with pytest.raises(UsageError, match="is not valid TOML"):
        shell.run_cell("%cost").raise_error()


@given(st.text(st.characters(exclude_characters="\n")))
def test_whatever_is_typed_is_understood_or_refused_in_a_sentence(text):
    try:
        assert cost_read(text).by in {"run", "turn", "agent", "model", None}
    except HarnessError as fault:
        assert len(str(fault)) < 250  # noqa: PT017 - either may be


def test_help_lists_every_word(shell, capsys):
    said = answer(shell, capsys, "%cost help")
    assert all(f"%cost {word}" in said for word in ("runs", "turns", "agents", "models", "--plot", "help"))


def test_tab_completes_its_words(shell, capsys):
    def offered(line):
        context = CompletionContext(line.split(" ")[-1], line, len(line), 0, 10)
        return [found.text for found in commands_matcher(context)["completions"]]

    assert offered("%cost t") == ["turns"]
    assert offered("%cost turns ") == ["--plot"]
    assert offered("%cost turns --plot ") == []
    assert "undo" not in offered("%cost ")


def test_what_an_earlier_kernel_spent_is_part_of_it(spent, shell, capsys):
    spent.kept.close()
    harness_nb.jupyter.session._sessions.clear()
    assert "at least $0.33 for 4 requests in 3 runs" in answer(shell, capsys, "%cost")


def test_what_its_agents_spent_is_told_by_name(shell, capsys):
    talk = harness_nb.session()

    @tool(effects={"read"})
    async def ask_helper(run: Run) -> str:
        """Ask a helper."""
        core = scripted(turn("Helped."), name="small")
        model = layered(core, metered(prices().of(core), budget_of, model=core.name))
        return (await Agent(model).run("Help", spawned(run, "helper"))).text

    talk.tools = [ask_helper]
    talk.model = scripted(turn(call("ask_helper")), turn("Done."), name="big")
    assert talk.run_blocking("Go").cost == Decimal("0.42")
    table = rows(answer(shell, capsys, "%cost agents"), "What each agent cost.")
    assert table == [
        "the agent itself $0.40 2 20,000 2,000",
        "helper $0.02 1 10,000 1,000",
        "total $0.42 3 30,000 3,000",
    ]


# -- drawn


class Elements(HTMLParser):
    """The tags, attributes and words of some HTML."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.words = [], set(), ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.words += data


@pytest.mark.parametrize("by", ["run", "turn", "agent", "model"])
def test_the_drawing_says_the_same_without_style_or_script_and_the_text_does_too(spent, by):
    costs = Costs.of(spent, by)
    forms = bundle(costs)
    drawn = Elements(forms["text/html"])
    assert not {"script", "style", "svg", "b"} & set(drawn.tags)
    assert not {name for name in drawn.attributes if name.startswith(("on", "aria", "data"))}
    assert "var(" not in forms["text/html"]
    for form in (drawn.words, forms["text/plain"], forms["text/markdown"].replace("\\", "")):
        assert "at least $0.33 for 4 requests in 3 runs" in form
        for line in costs.lines:
            assert line.cost in form
            assert line.name[-1] in form
    assert "mathjax_ignore" in forms["text/html"]


def test_hostile_names_are_text(spent):
    spent.model = scripted(turn("x"), name="<img src=x onerror=alert(1)>\x1b[31m")
    spent.run_blocking("<script>\u202ealert(1)</script>")
    paid = {"model": "big", "usage": {"input": 1}, "cost": "0.1", "agent": "\x1b[2J"}
    spent.kept.history.add(Record("charge", paid, run="r · \x1b[31m"))
    for by in ("run", "turn", "agent", "model"):
        forms = bundle(Costs.of(spent, by))
        assert not {"script", "img"} & set(Elements(forms["text/html"]).tags)
        assert "\x1b" not in "".join(forms.values())
        assert "\u202e" not in "".join(forms.values())


def test_a_plot_is_a_picture_with_words_and_the_table_beside_it(spent):
    forms = bundle(Costs.of(spent, "turn"), plot=True)
    drawn = Elements(forms["text/html"])
    assert drawn.tags.count("img") == 1
    assert "alt" in drawn.attributes
    assert "table" in drawn.tags


def test_many_runs_are_the_newest_and_the_rest_together(shell):
    talk = harness_nb.session()
    talk.tools = []
    talk.model = scripted(*(turn(f"{n}") for n in range(ROWS + 6)), name="small")
    for n in range(ROWS + 6):
        talk.run_blocking(f"Run {n}.")
    costs = Costs.of(talk, "run")
    assert len(costs.lines) == ROWS
    assert costs.lines[0].name[0] == "7 earlier runs together"
    assert sum(line.row.cost for line in costs.lines) == costs.total.row.cost == Decimal("0.02") * (ROWS + 6)
    assert len(bundle(costs)["text/html"]) < 24_000


def test_bars_are_as_long_as_what_each_cost(spent):
    costs = Costs.of(spent, "run")
    assert [round(costs.share(line), 3) for line in costs.lines] == [1.0, round(0.02 / 0.31, 3), 0.0]
    assert costs.measure == "dollars"


CHARGES = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["big", "small", "unheard-of"]),
        "usage": st.fixed_dictionaries({"input": st.integers(0, 10**6), "output": st.integers(0, 10**6)}),
        "cost": st.none() | st.decimals(0, 100, places=6).map(str),
        "agent": st.sampled_from(["", "helper"]),
    }
)


@given(st.lists(st.tuples(st.integers(1, 40), CHARGES), min_size=1))
def test_lines_add_up_to_the_cent(paid_for):
    talk = Session()
    talk.kept._journal, talk.kept._process = Journal(), os.getpid()  # kept nowhere
    for run, charge in paid_for:
        talk.kept.history.add(Record("charge", charge, run=f"r{run}"))
    exact = sum((Decimal(c["cost"]) for _, c in paid_for if c["cost"] is not None), Decimal())
    for by in ("run", "turn", "agent", "model"):
        costs = Costs.of(talk, by)
        assert sum(line.row.cost or 0 for line in costs.lines) == (costs.total.row.cost or 0) == exact
        assert sum(line.row.requests for line in costs.lines) == len(paid_for)
        assert sum(line.row.unknown for line in costs.lines) == costs.total.row.unknown


# -- a cache that lets go


def told(outcome_of, *reads, model="big", change=None):
    """What is said of the cache in a session whose turns read so many of 10,000 tokens from it."""
    talk = harness_nb.session()
    talk.tools = []
    talk.model = scripted(*(turn(f"Answer {n}.", read=read) for n, read in enumerate(reads)), name=model)
    said = []
    for n, _ in enumerate(reads):
        if change is not None and n == len(reads) - 1:
            change(talk)
        view = talk.run_blocking(f"Prompt {n}.").view
        said += [s.text for s in view.segments if getattr(s, "kind", "") == "notice" and "cache" in s.text]
    return said


def test_a_fallen_cache_names_the_part_that_changed(shell):
    said = told(shell, 0, 9_000, 0, change=lambda talk: setattr(talk, "instructions", "Be brief."))
    fell = "The provider read 0% of the request from its cache, after 90% before: the system prompt changed."
    assert said == [f"{fell} About 9,000 tokens are paid for in full again."]


def test_a_tool_that_came_is_named(shell):
    @tool
    def another(x: int) -> int:
        """Do another thing."""
        return x

    said = told(shell, 0, 9_000, 0, change=lambda talk: setattr(talk, "tools", [another]))
    assert len(said) == 1
    assert "another" in said[0]


def test_a_cache_that_let_go_of_what_did_not_change_is_said_to_have_done_so(shell):
    said = told(shell, 0, 9_000, 0)
    assert len(said) == 1
    assert said[0].endswith("so the provider let go of it: most do after some minutes.")


@pytest.mark.parametrize("reads", [(0, 0, 0), (0, 5_000, 9_000), (9_000, 8_800, 8_500), (0, 1_500, 0)])
def test_nothing_is_said_where_no_cache_is_reported_or_it_holds(shell, reads):
    assert told(shell, *reads) == []


def test_a_new_conversation_or_another_model_is_no_fall(shell):
    assert told(shell, 0, 9_000, 0, change=lambda talk: talk.new()) == []
    other = scripted(turn("Small."), name="small")
    assert told(shell, 0, 9_000, 0, change=lambda talk: setattr(talk, "model", other)) == []


# -- routers through the recipe


async def charged(model):
    events = []
    outcome = await assistant(model).run("Plan it.", Run(listener=events.append))
    return outcome, [event for event in events if type(event).__name__ == "Charged"]


@pytest.mark.parametrize("layers", ["none", "retrying", "metered", "both"])
async def test_a_tier_is_asked_again_and_paid_for_once_whatever_layers_it_has(layers):
    fault = harness_nb.ProviderError("Busy.", status=503, retryable=True)
    core = scripted(fault, turn("Planned."), name="big")

    async def no_wait(seconds):
        """Wait for nothing."""

    own = {
        "none": (),
        "retrying": (retrying(sleep=no_wait),),
        "metered": (metered(prices().of(core), budget_of, model=core.name),),
        "both": (retrying(sleep=no_wait), metered(prices().of(core), budget_of, model=core.name)),
    }[layers]
    tier = layered(core, *own) if own else core
    outcome, charges = await charged(Router(premium=tier))
    assert (outcome.text, outcome.cost, len(charges)) == ("Planned.", Decimal("0.2"), 1)
    assert len(core.requests) == 2


async def test_a_tier_that_stays_out_is_asked_no_more_often_than_a_model_would_be():
    fault = harness_nb.ProviderError("No such key.", status=401)
    core = scripted(*9 * [fault], name="big")
    outcome, charges = await charged(Router(premium=core))
    assert (outcome.reason, len(core.requests), charges) == ("error", 1, [])


def test_whether_a_router_costs_money_is_whether_a_tier_does():
    free, dear = scripted("x"), layered(scripted("x", name="big"), retrying())
    assert not paid(Router(mid=free))
    assert paid(Router(mid=free, premium=dear))
    assert paid(dear)
    assert not paid(layered(free, retrying()))


def test_a_routers_window_is_the_smallest_that_is_known():
    class Big(Elsewhere):
        name, window = "big", 200_000

    class Small(Elsewhere):
        name, window = "small", 8_000

    for other in (Big(), Elsewhere()):
        kit = Kit()
        assistant(Router(mid=Small(), premium=other), kit=kit)
        assert kit.account.window.size == 8_000
