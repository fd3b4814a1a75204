"""Line 6: a summariser that loops, says nothing, fails or raises whatever: one sentence, nothing lost, and the run goes on."""

import pytest

from harness_nb.agent import Agent
from harness_nb.context.account import Account, measured
from harness_nb.context.count import counting
from harness_nb.context.relief import Measures, Relief
from harness_nb.context.window import Window
from harness_nb.errors import ProviderError
from harness_nb.events import Notice
from harness_nb.messages import Decision
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.seams import Run, layered
from harness_nb.tools import Toolbox, tool

POOR = {
    "loops": "The pear, the pear. " * 400,
    "says nothing": "  ",
    "declines": say("I can't help with that.", stop="refusal"),
    "fails": ProviderError("The summariser is out."),
    "raises whatever": KeyError("summary"),
}


@tool(effects={"read"})
def look(n: int) -> str:
    """Look."""
    return f"{n}: " + "twelve green apples and a pear " * 60


@pytest.mark.parametrize("answer", POOR.values(), ids=POOR)
async def test_a_poor_summary_is_told_in_one_sentence_and_changes_nothing(answer):
    account = Account(Window(4_600, 575, source="configuration"), counting("characters"))
    relief = Relief(account, scripted(*[answer] * 20), Measures(least=9))
    model = layered(scripted(*[say(call("look", n=n)) for n in range(8)], "Found."), measured(account))
    heard = []
    agent = Agent(model, Toolbox([look]), prepare=(relief,))
    outcome = await agent.run("Find the pear.", Run(listener=heard.append))
    told = [event.text for event in heard if isinstance(event, Notice)]
    print(told[0])
    assert outcome.reason == "done"
    assert told[0].endswith("Nothing has changed.")
    assert "Traceback" not in told[0]
    assert not any(isinstance(e, Decision) and "summarised" in e.why for e in outcome.transcript.entries)
    assert len(outcome.transcript.messages) == 18
