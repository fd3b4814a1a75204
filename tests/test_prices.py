"""What a request costs: the list, the file beside the notebook, and what nobody knows."""

import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from wire.peer import KEY, Peer

from harness_nb.errors import UsageError
from harness_nb.messages import Usage
from harness_nb.ops.prices import Prices, Rates, price, prices
from harness_nb.ops.router import Router
from harness_nb.providers.chaos import Chaos
from harness_nb.providers.chat import Chat
from harness_nb.providers.local import Local
from harness_nb.providers.scripted import scripted

AT = datetime(2026, 12, 1, tzinfo=UTC)
MILLION = Usage(1_000_000, 1_000_000)


def written(folder, text):
    (folder / "harness_nb.toml").write_text(text, encoding="utf-8")
    return prices(folder)


def test_the_list_is_in_the_package_and_counts_cached_tokens_once():
    usage = Usage(1000, 50, cache_read=600, cache_write=100)
    assert price("claude-sonnet-4-5", usage, AT) == Decimal("0.002205")


def test_a_name_that_nobody_knows_has_no_price():
    assert price("nonesuch-7b", MILLION, AT) is None


def test_a_price_in_the_file_comes_before_the_list(tmp_path):
    known = written(
        tmp_path, '[prices."gpt-4o"]\ninput = 1\noutput = 2.5\ncache_read = 0.1\ncache_write = 4\n'
    )
    assert known("gpt-4o", MILLION, AT) == Decimal("3.5")
    usage = Usage(1_000_000, 0, cache_read=500_000, cache_write=250_000)
    assert known("gpt-4o", usage, AT) == Decimal("0.25") + Decimal("0.05") + Decimal(1)


def test_cached_tokens_cost_as_others_where_the_file_does_not_say(tmp_path):
    known = written(tmp_path, "[prices.m]\ninput = 3\noutput = 1\n")
    assert known("m", Usage(1_000_000, 0, cache_read=400_000, cache_write=100_000), AT) == 3


def test_the_newest_price_that_has_begun_holds(tmp_path):
    lines = ["[[prices.m]]\ninput = 1\noutput = 0\n"]
    lines += [f"[[prices.m]]\ninput = {n}\noutput = 0\nsince = 2026-0{n}-01\n" for n in (4, 2, 3)]
    known = written(tmp_path, "".join(lines))
    days = [date(2025, 1, 1), date(2026, 2, 1), date(2026, 3, 31), date(2027, 1, 1)]
    costs = [known("m", MILLION, datetime(d.year, d.month, d.day, tzinfo=UTC)) for d in days]
    assert costs == [1, 2, 3, 4]


def test_a_price_that_has_not_begun_leaves_the_list_in_force(tmp_path):
    known = written(tmp_path, '[prices."gpt-4o"]\ninput = 0\noutput = 0\nsince = 2027-01-01\n')
    assert known("gpt-4o", MILLION, AT) == price("gpt-4o", MILLION, AT) > 0


def test_no_file_and_a_file_about_other_things_say_nothing(tmp_path):
    assert prices(tmp_path) == Prices()
    assert written(tmp_path, '[permissions]\nmode = "ask"\n') == Prices()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prices = 3", "`prices` must be a table"),
        ("[prices]\nm = 3", r"the price of `m` must be a table"),
        ("[prices.m]\ninput = 1", "lacks `output`"),
        ("[prices.m]\ninput = 1\noutput = 1\nprompt = 2", "nothing called `prompt`"),
        ("[prices.m]\ninput = -1\noutput = 1", "`input` in the price of `m` must be a number from 0"),
        ("[prices.m]\ninput = nan\noutput = 1", "must be a number from 0"),
        ("[prices.m]\ninput = 1e7\noutput = 1", "must be a number from 0 to 1,000,000"),
        ("[prices.m]\ninput = true\noutput = 1", "must be a number from 0"),
        ('[prices.m]\ninput = "1"\noutput = 1', "must be a number from 0"),
        ('[prices.m]\ninput = 1\noutput = 1\nsince = "2026"', "`since` in the price of `m` must be a date"),
        ("[prices.m\n", "not valid TOML"),
    ],
)
def test_what_can_not_be_a_price_is_said_in_a_sentence(tmp_path, text, said):
    with pytest.raises(UsageError, match=said):
        written(tmp_path, text)


def test_a_time_of_day_as_since_is_its_day(tmp_path):
    known = written(tmp_path, "[prices.m]\ninput = 1\noutput = 1\nsince = 2026-12-01T23:00:00\n")
    assert known("m", MILLION, AT) == 2


def test_models_that_run_on_a_script_or_here_cost_nothing():
    for model in (scripted(name="anything"), Local(), Chaos(scripted())):
        assert Prices().of(model)(model.name, MILLION, AT) == 0
        assert not Prices().paid(model)


def test_a_script_can_be_given_a_price(tmp_path):
    known = written(tmp_path, "[prices.dear]\ninput = 1\noutput = 1\n")
    model = scripted(name="dear")
    assert known.of(model)("dear", MILLION, AT) == 2
    assert known.paid(model)


def test_faults_put_in_on_purpose_do_not_change_the_price():
    model = Chaos(Peer("anthropic").model)
    assert model.name == "claude-x · with faults"
    known = Prices({"claude-x": (Rates(*map(Decimal, (1, 1, 1, 1))),)})
    assert known.of(model)(model.name, MILLION, AT) == 2


def test_the_server_decides_whose_prices_hold():
    def cost(model, url):
        return Prices().of(Chat(model, url, api_key=KEY))(model, MILLION, AT)

    assert cost("openai/gpt-4o", "https://openrouter.ai/api/v1") == Decimal("12.5")
    assert cost("llama-3.3-70b-versatile", "https://api.groq.com/openai/v1") > 0
    assert price("llama-3.3-70b-versatile", MILLION, AT) is None
    assert cost("gpt-4o", "https://gateway.example/v1") is None
    for here in (
        "http://localhost:11434/v1",
        "http://127.0.0.1:8080/v1",
        "http://[::1]:80/v1",
        "http://10.0.0.7/v1",
    ):
        assert cost("deepseek-r1", here) is None
    assert price("deepseek-r1", MILLION, AT) is not None


def test_paid_means_that_it_costs_or_may():
    known = Prices({"free": (Rates(*[Decimal()] * 4),)})
    assert known.paid(Chat("gpt-4o", api_key=KEY))
    assert known.paid(Chat("nonesuch", "https://gateway.example/v1", api_key=KEY))
    assert not known.paid(Chat("free", "https://gateway.example/v1", api_key=KEY))
    assert not known.paid(Chat("qwen3", "http://localhost:11434/v1"))


def test_a_router_is_paid_if_one_of_its_tiers_is():
    assert not Prices().paid(Router(economy=scripted(), mid=scripted()))
    assert Prices().paid(Router(economy=scripted(), premium=Chat("gpt-4o", api_key=KEY)))


@pytest.mark.parametrize(
    "usage",
    [Usage(10, 5, cache_read=60), Usage(10, 5, cache_read=8, cache_write=9), Usage(-5, -5), Usage(10**40, 10**40), Usage(cache_read=7)],
)  # fmt: skip
def test_counts_that_can_not_be_still_have_a_price(usage):
    for known in (price, Prices({"gpt-4o": (Rates(*map(Decimal, (1, 2, 1, 1))),)})):
        cost = known("gpt-4o", usage, AT)
        assert cost is not None
        assert cost >= 0


def test_no_price_has_more_digits_than_add_up_exactly():
    known = Prices({"m": (Rates(*[Decimal("0.123456789123456789")] * 4),)})
    cost = known("m", Usage(7, 7), AT)
    assert cost == Decimal("0.000001728395")
    assert known("m", Usage(0, 0), AT).as_tuple().exponent == 0


def test_without_the_package_no_price_is_known_but_the_files():
    code = (
        "import sys; sys.modules['genai_prices'] = None\n"
        "from decimal import Decimal\n"
        "from harness_nb.messages import Usage\n"
        "from harness_nb.ops.prices import Prices, Rates, price\n"
        "own = Prices({'m': (Rates(*map(Decimal, (1, 1, 1, 1))),)})\n"
        "print(price('gpt-4o', Usage(10**6)), own('m', Usage(10**6)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["None", "1"]
