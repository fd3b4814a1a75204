"""Another model takes over when the first is out, and only then."""

import pytest

from harness_nb.agent import Agent
from harness_nb.errors import ProviderError
from harness_nb.events import ModelSwitched, TurnRestarted
from harness_nb.messages import Usage
from harness_nb.providers.fallback import falling_back
from harness_nb.providers.retry import retrying
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.seams import Run, layered
from harness_nb.tools import Toolbox, tool

OUT = ProviderError("Overloaded.", status=529, retryable=True)


async def no_wait(_):
    pass


async def play(model, tools=()):
    heard = []
    outcome = await Agent(model, Toolbox(tools)).run("hi", Run(listener=heard.append))
    return outcome, [event for event in heard if isinstance(event, ModelSwitched | TurnRestarted)]


async def test_the_second_model_answers_when_the_first_has_given_up():
    first, second = scripted(*[OUT] * 4), scripted("Hello.", name="second")
    outcome, heard = await play(layered(first, falling_back(second), retrying(sleep=no_wait)))
    assert outcome.text == "Hello."
    assert heard == [ModelSwitched("second", "Overloaded. Asked 4 times.")]
    assert len(first.requests) == 4


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_a_fault_of_ours_is_not_hidden_by_another_model(status):
    fault = ProviderError("No such model.", status=status)
    outcome, heard = await play(layered(scripted(fault), falling_back(scripted("never"))))
    assert outcome.error is fault
    assert heard == []


@pytest.mark.parametrize("facts", [{"status": 429, "code": "insufficient_quota"}, {"status": 402}])
async def test_a_spent_account_moves_on(facts):
    first = scripted(ProviderError("No credit.", **facts))
    outcome, _ = await play(layered(first, falling_back(scripted("Hello.")), retrying()))
    assert outcome.text == "Hello."


async def test_what_the_first_model_showed_is_void():
    async def breaking(request, run):
        await scripted("Hel")(request, run)
        raise OUT

    outcome, heard = await play(layered(breaking, falling_back(scripted("Hello.", name="second"))))
    assert outcome.text == "Hello."
    assert heard == [TurnRestarted("Overloaded."), ModelSwitched("second", "Overloaded.")]


async def test_three_models_nest():
    third = scripted("Hello.", name="third")
    second = layered(scripted(OUT, name="second"), falling_back(third))
    outcome, heard = await play(layered(scripted(OUT), falling_back(second)))
    assert outcome.text == "Hello."
    assert [event.model for event in heard] == ["second", "third"]


async def test_when_all_fail_the_error_says_why_for_each():
    gone = ProviderError("Cannot connect.", retryable=True)
    outcome, _ = await play(layered(scripted(OUT), falling_back(scripted(gone))))
    assert outcome.detail == "Cannot connect. Before that, the first model failed: Overloaded."


async def test_a_refusal_stands_unless_asked_otherwise():
    outcome, _ = await play(layered(scripted(say(stop="refusal")), falling_back(scripted("never"))))
    assert outcome.reason == "refused"


async def test_a_refusal_may_move_on_and_its_tokens_count():
    first = scripted(say("No.", stop="refusal", detail="policy", usage=Usage(10, 2)))
    second = scripted(say("Yes.", usage=Usage(11, 3)), name="second")
    outcome, heard = await play(layered(first, falling_back(second, refusals=True)))
    assert (outcome.text, outcome.usage) == ("Yes.", Usage(21, 5))
    assert heard == [TurnRestarted("policy"), ModelSwitched("second", "policy")]


async def test_only_a_refusal_of_the_whole_chain_reaches_the_loop():
    no = say(stop="refusal", detail="policy")
    outcome, _ = await play(layered(scripted(no), falling_back(scripted(no), refusals=True)))
    assert outcome.reason == "refused"


async def test_the_next_turn_starts_with_the_first_model_again():
    @tool
    def ping() -> str:
        """Answer."""
        return "pong"

    first = scripted(OUT, "From the first.")
    outcome, _ = await play(layered(first, falling_back(scripted(say(call("ping"))))), [ping])
    assert outcome.text == "From the first."
