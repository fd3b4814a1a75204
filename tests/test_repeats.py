"""A model that goes round in circles is told, and then stopped; one that polls is not."""

import copy
import itertools
import json

import pytest
from hypothesis import given, strategies as st

from harness_nb.agent import Agent, Limits
from harness_nb.errors import RunStop, ToolError
from harness_nb.messages import ToolCall
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.safety.repeats import History, circling, unrepeated
from harness_nb.seams import Run
from harness_nb.tools import Toolbox, tool

NOTE = "Once more will not help"


class Desk:
    """Tools whose results are set from outside, and a run that plays turns of calls through the gate."""

    def __init__(self, **options):
        self.answer = "same"
        self.ran = []

        @tool(effects={"read"})
        def look(at: str = "a") -> str:
            """Look."""
            self.ran.append(at)
            return self.answer

        @tool(effects={"write"})
        def put(text: str) -> str:
            """Put."""
            self.ran.append(text)
            if text == "bad":
                raise ToolError("No.")
            return "done"

        self.run = Run()
        self._dispatch = Toolbox([look, put]).dispatch(unrepeated(**options))

    async def turn(self, *asked):
        """Play one turn of calls, such as `"a"` for look(at="a") and `"put:x"` for put(text="x")."""
        self.run.turn += 1
        return [await self._dispatch(_call(one), self.run) for one in asked]

    async def turns(self, *turns):
        """Play turns of one call each, and say which were told to stop: `.` for not, `!` for told, `x` for the end."""
        said = ""
        for one in turns:
            try:
                said += "!" if NOTE in (await self.turn(one))[0].text else "."
            except RunStop:
                return said + "x"
        return said


def _call(one):
    name, _, text = one.rpartition(":")
    return (
        ToolCall("c", name, json.dumps({"text": text}))
        if name
        else ToolCall("c", "look", json.dumps({"at": one}))
    )


@pytest.mark.parametrize(
    ("played", "said"),
    [
        ("aaaaaaa", "..!!!x"),
        ("bacaaa", ".....!"),
        ("abababababab", ".....!!!!!x"),
        ("abcabcabcabcabcabc", "........!!!!!!!x"),
        ("abcdabcdabcdabcdabcdabcd", "...........!!!!!!!!!x"),
        ("abcdeabcdeabcdeabcde", "." * 20),
        ("aabbccddaabbc", "." * 13),
    ],
)
async def test_the_third_round_is_told_and_the_sixth_never_begins(played, said):
    desk = Desk()
    assert await desk.turns(*played) == said
    assert len(desk.ran) == len(said.removesuffix("x"))


async def test_polling_is_no_loop():
    desk = Desk()
    for n in range(50):
        desk.answer = f"{n} %"
        assert NOTE not in (await desk.turn("a"))[0].text


async def test_a_poll_that_gives_the_same_too_often_may_be_declared():
    assert await Desk(repeatable={"look"}).turns(*"a" * 20) == "." * 20


async def test_a_changed_result_starts_the_count_again():
    desk = Desk()
    assert await desk.turns(*"aaaa") == "..!!"
    desk.answer = "other"
    assert await desk.turns(*"aaaaaa") == "..!!!x"


async def test_a_write_that_worked_starts_the_count_again():
    assert await Desk().turns("a", "a", "put:x", "a", "a", "put:y", "a", "a") == "........"


async def test_a_write_that_failed_or_only_comes_round_again_does_not():
    assert await Desk().turns(*["put:bad"] * 6) == "..!!!x"
    assert await Desk().turns(*["put:x", "a"] * 6) == ".....!!!!!x"
    assert (await Desk().turns(*["put:x", "put:y", "put:z"] * 7)).endswith("x")


async def test_parallel_calls_of_a_turn_count_as_one_in_any_order():
    desk = Desk()
    for turn in ("ab", "ba", "ab"):
        results = await desk.turn(*turn)
    assert all(NOTE in result.text for result in results)
    assert not any(NOTE in result.text for result in await Desk().turn(*"aaaaaaaaaa"))


async def test_each_run_has_its_own_count_and_one_gate_serves_all():
    gate = unrepeated()

    @tool
    def look() -> str:
        """Look."""
        return "same"

    dispatch = Toolbox([look]).dispatch(gate)
    runs = [Run(), Run()]
    for turn, run in itertools.product(range(2), runs):
        run.turn = turn
        assert NOTE not in (await dispatch(ToolCall("c", "look"), run)).text


async def test_the_run_ends_as_incomplete_and_every_call_is_answered():
    @tool(effects={"read"})
    def look(at: str) -> str:
        """Look."""
        return f"nothing at {at}"

    model = scripted(*[say(call("look", at="x"))] * 10)
    agent = Agent(model, Toolbox([look]), gates=(unrepeated(),), limits=Limits(turns=20))
    run = Run()
    outcome = await agent.run("Go.", run)
    assert (outcome.reason, outcome.turns) == ("incomplete", 6)
    assert outcome.detail == (
        "`look` was called 5 times with the same arguments and gave the same result. The model seems stuck."
    )
    results = [result.text for message in run.transcript.messages for result in message.results]
    assert [NOTE in text for text in results] == [False, False, True, True, True, False]
    assert "The next time ends the run." in results[4]
    assert "It did not run" in results[5]


@given(
    st.lists(st.integers(0, 3), max_size=12),
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
)
def test_every_circle_is_found_whatever_came_before(before, circle):
    history = History()
    turns = [*before, *circle * 6]
    found = []
    for number, one in enumerate(turns):
        asked = "look", str(one)
        found.append(history.rounds(asked, number)[0])
        history.add(asked, 0, number, wrote=False)
    assert max(found[len(before) :]) >= 5


@given(st.lists(st.integers(0, 2), min_size=1, max_size=60))
def test_results_that_always_change_are_never_a_loop(asked):
    history = History()
    for number, one in enumerate(asked):
        assert history.rounds(("look", str(one)), number, number)[0] <= 1
        history.add(("look", str(one)), number, number, wrote=False)
    assert not any(circling(history.turns, period) for period in range(1, 5))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.booleans()), max_size=30))
def test_asking_changes_nothing(calls):
    history = History()
    for number, (one, result, wrote) in enumerate(calls):
        before = copy.deepcopy(history)
        answers = {history.rounds(("look", str(one)), number) for _ in range(3)}
        history.rounds(("look", "9"), number, 5)
        assert history == before
        assert len(answers) == 1
        history.add(("look", str(one)), result, number, wrote=wrote)
