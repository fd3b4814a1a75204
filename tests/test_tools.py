"""Tools and their dispatch: each call has one result that tells the model what to do, and nothing runs on a guess."""

import asyncio
import inspect
import json
import threading

import pytest

from harness_nb.errors import RunStop, ToolError, UsageError
from harness_nb.events import ToolStarted
from harness_nb.messages import Image, Text, ToolCall, ToolResult
from harness_nb.providers.scripted import scripted
from harness_nb.recipes import assistant
from harness_nb.seams import Call, Run
from harness_nb.tasks import off_loop
from harness_nb.tools import Tool, Toolbox, tool


@tool(effects={"read"})
def search(query: str, limit: int = 10) -> str:
    """Search the shop."""
    return f"{limit} of {query}"


@tool
def now() -> str:
    """Tell the time."""
    return "noon"


@tool
def need(x: int) -> int:
    """Need a number."""
    return x


@tool
def f(n: int = 0, flag: bool = False, xs: list[str] | None = None, s: str = "", u: int | str = 0) -> str:
    """Show what came."""
    return repr({"n": n, "flag": flag, "xs": xs, "s": s, "u": u})


async def answered(name, raw="{}", *gates, tools=(search, now, need, f), run=None):
    """Dispatch one call; a result must come back, for that call, and not empty."""
    result = await Toolbox(tools).dispatch(*gates)(ToolCall("c1", name, raw), run or Run())
    assert result.call_id == "c1"
    assert result.content
    return result


# -- tools as values


def test_a_tool_says_what_it_is():
    assert (search.name, search.spec.description) == ("search", "Search the shop.")
    assert search.spec.effects == {"read"}
    assert now.spec.effects == frozenset()


def test_a_tool_can_still_be_called_by_people():
    assert search("tea", limit=2) == "2 of tea"


def test_name_description_and_limit_may_be_given():
    made = tool(name="other", description="Else.", limit=50)(search.function)
    assert (made.name, made.spec.description, made.limit) == ("other", "Else.", 50)


def test_a_docstring_loses_its_indentation():
    @tool
    def long():
        """First line.

        - a list
          of things
        """

    assert long.spec.description == "First line.\n\n- a list\n  of things"


@pytest.mark.parametrize("effects", [{"raed"}, "read", ["read", "wirte"]])
def test_an_effect_that_there_is_not_is_refused(effects):
    with pytest.raises(UsageError, match="choose from read, write, network, mutate, spend"):
        tool(effects=effects)(search.function)


@pytest.mark.parametrize("take", [Toolbox, lambda tools: assistant(scripted("Hi."), tools)])
def test_a_function_that_is_no_tool_yet_is_told_how_to_become_one(take):
    def now() -> str:
        """Tell the time."""

    with pytest.raises(UsageError, match="`now` is no tool yet: write @tool above it, or tool\\(now\\)"):
        take([now])


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(UsageError, match="Two tools are called `now`"):
        Toolbox([now, now])


def test_a_toolbox_keeps_its_order():
    box = Toolbox([now, search])
    assert [item.name for item in box] == ["now", "search"]
    assert [spec.name for spec in box.specs] == ["now", "search"]
    assert len(box) == 2


# -- R02: arguments that are hardly there


@pytest.mark.parametrize("raw", ["", " ", "null", "{}", " { } ", "\n"])
async def test_no_arguments_come_in_many_ways(raw):
    assert (await answered("now", raw)).text == "noon"


@pytest.mark.parametrize("raw", ["[1]", "3", '"{}"', "true", "[]", "1.5"])
async def test_what_is_not_an_object_is_refused(raw):
    result = await answered("now", raw)
    assert result.is_error
    assert "`now` was not run: its arguments are not a valid JSON object: " in result.text


async def test_a_missing_argument_is_named():
    result = await answered("need", "")
    assert result.text == (
        "`need` was not run: its arguments don't fit.\nx: missing, and required\nSend the call again, corrected."
    )


# -- R01 (f) and bad JSON


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ('{"query": "Lyon", "limit": ten}', "Expecting value: line 1 column 28"),
        ('{"query": "ab', "Unterminated string"),
        ('{"query": ["ls","pwd"', "delimiter"),
        ('{"query": "x"}{"query": "x"}', "Extra data"),
        ('{"query": NaN}', "NaN is not JSON"),
        ('{"query": "a", "limit": 1e999}', "1e999 is too large a number"),
        ('{"query": "a", "query": "b"}', "a key is given twice"),
        ('{"query": {"a": 1, "a": 2}}', "a key is given twice"),
        ("{'query': 'a'}", "property name"),
        ('{"query": "a",}', "line 1 column"),
        ('{"query": ' + "[" * 100_000, "nested deeper than 100"),
        ('{"query": ' + "[" * 200 + "]" * 200 + "}", "nested deeper than 100"),
        ('{"limit": ' + "1" * 5000 + "}", "is too long; send it as a string"),
    ],
)
async def test_broken_json_is_never_mended(raw, said):
    result = await answered("search", raw)
    assert result.is_error
    assert said in result.text
    assert "was not run" in result.text


# -- R28: unknown names and stringified values


@pytest.mark.parametrize("name", ["serch", "functions.search", "search<|x|>y", "Search"])
async def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(name):
    result = await answered(name)
    assert result.text == (
        f"No tool is called `{name}`. Did you mean `search`? The tools are: f, need, now, search."
    )


async def test_a_name_like_no_other_is_answered_with_the_list():
    assert (await answered("xyzzy")).text == "No tool is called `xyzzy`. The tools are: f, need, now, search."


async def test_a_blank_name_and_a_long_one_are_answered():
    assert (await answered("")).text == "The call names no tool. The tools are: f, need, now, search."
    assert "`" + "a" * 80 + "`" in (await answered("a" * 90)).text


async def test_without_tools_the_model_is_told_so():
    assert (await answered("any", tools=())).text == "There are no tools. Answer without one."


async def test_stringified_values_are_read_where_that_is_safe():
    raw = json.dumps({"n": "5", "flag": "true", "xs": '["a"]', "s": "5", "u": "42"})
    assert (await answered("f", raw)).text == "{'n': 5, 'flag': True, 'xs': ['a'], 's': '5', 'u': '42'}"
    assert "'s': '[1]'" in (await answered("f", '{"s": "[1]"}')).text


@pytest.mark.parametrize("value", ["3.7", True])
async def test_and_refused_where_it_is_not(value):
    assert (await answered("f", json.dumps({"n": value}))).is_error


async def test_odd_characters_in_arguments_are_made_whole():
    raw = '{"s": "\\ud83c\\udf78", "xs": ["\\ud83c", "a\\u0000b"]}'
    said = (await answered("f", raw)).text
    assert "🍸" in said
    assert "\N{REPLACEMENT CHARACTER}" in said
    assert "a␀b" in said


# -- whose fault


async def test_a_tools_own_words_reach_the_model():
    @tool
    def find() -> None:
        """Find."""
        raise ToolError("No such customer: try list_customers.")

    result = await answered("find", tools=[find])
    assert (result.is_error, result.text) == (True, "No such customer: try list_customers.")


async def test_a_tool_that_fails_without_words_still_says_something():
    @tool
    def find() -> None:
        """Find."""
        raise ToolError

    assert (await answered("find", tools=[find])).text == "The tool failed and gave no reason."


async def test_a_long_error_is_bounded():
    @tool(limit=500)
    def find() -> None:
        """Find."""
        raise ValueError("x" * 10_000)

    assert len((await answered("find", tools=[find])).text) <= 500


async def test_a_validator_that_crashes_is_an_answer():
    from pydantic import BaseModel, field_validator

    class Order(BaseModel):
        count: int

        @field_validator("count")
        @classmethod
        def _divided(cls, count):
            return 1 // count

    @tool
    def place(order: Order) -> None:
        """Place it."""

    result = await answered("place", '{"order": {"count": 0}}', tools=[place])
    assert "its arguments could not be checked: ZeroDivisionError" in result.text


# -- what tools return


async def test_an_awaitable_from_a_plain_function_is_awaited():
    @tool
    def later():
        """Answer later."""

        async def answer():
            await asyncio.sleep(0)
            return "later"

        return answer()

    assert (await answered("later", tools=[later])).text == "later"


@pytest.mark.parametrize("value", [7, True, None, 0.5, "", [1, "a"], {"a": None}, (1, 2)])
async def test_a_small_value_of_an_async_tool_needs_no_thread(value):
    @tool
    async def give():
        """Give."""
        return value

    threads = []
    threading.setprofile(lambda *_: threads.append(threading.current_thread().name))
    try:
        assert not (await answered("give", tools=[give])).is_error
    finally:
        threading.setprofile(None)
    assert threads == []


async def test_an_async_generator_is_gathered():
    @tool
    async def count():
        """Count."""
        for n in range(3):
            await asyncio.sleep(0)
            yield n

    assert (await answered("count", tools=[count])).text == "[0, 1, 2]"


async def test_an_endless_async_generator_is_cut():
    @tool(limit=100_000)
    async def count():
        """Count."""
        n = 0
        while True:
            yield (n := n + 1)

    assert "more than 1,000 items" in (await answered("count", tools=[count])).text


async def test_a_cut_async_generator_is_closed():
    closed = []

    @tool(limit=100_000)
    async def count():
        """Count."""
        try:
            while True:
                yield 1
        finally:
            closed.append(1)

    await answered("count", tools=[count])
    assert closed == [1]


async def test_a_generator_is_read_in_the_thread_that_made_it():
    @tool
    def rows():
        """Give rows."""
        yield threading.current_thread() is threading.main_thread()

    assert (await answered("rows", tools=[rows])).text == "[false]"


async def test_a_value_that_can_not_be_read_is_an_error_that_says_it_ran():
    class Bad:
        def __repr__(self):
            raise KeyError("x")

    @tool
    def make():
        """Make."""
        return Bad()

    result = await answered("make", tools=[make])
    assert result.is_error
    assert (
        result.text == "`make` ran, but the tool returned a value of type Bad, which can't be read: KeyError."
    )


async def test_a_result_is_bounded_by_the_tools_own_limit():
    @tool(limit=1_000)
    def dump() -> str:
        """Dump."""
        return "x" * 1_000_000

    assert len((await answered("dump", tools=[dump])).text) <= 1_000


async def test_run_and_call_are_filled_in():
    @tool
    async def who(a: int, run: Run, it: Call | None = None) -> str:
        """Tell."""
        return f"{run.id} {it.id} {dict(it.arguments)} {a}"

    run = Run()
    assert (await answered("who", '{"a": "1"}', tools=[who], run=run)).text == f"{run.id} c1 {{'a': 1}} 1"


# -- gates


async def test_gates_come_in_order_and_see_what_was_read():
    log = []

    def gate(name):
        async def inner(asked, run, proceed):
            log.append((name, dict(asked.arguments)))
            return await proceed(asked)

        return inner

    await answered("need", '{"x": "5"}', gate("a"), gate("b"))
    assert log == [("a", {"x": 5}), ("b", {"x": 5})]


async def test_a_call_that_can_not_be_read_reaches_no_gate():
    async def gate(asked, run, proceed):
        raise AssertionError

    assert "missing" in (await answered("need", "{}", gate)).text


async def test_a_gate_may_deny_and_the_body_does_not_run():
    async def deny(asked, run, proceed):
        return ToolResult(asked.id, (Text("Denied: not on Sundays."),), is_error=True)

    run = Run()
    assert (await answered("now", "", deny, run=run)).text == "Denied: not on Sundays."
    assert not run.started


def editing(**arguments):
    async def edit(asked, run, proceed):
        return await proceed(Call(asked.id, arguments, asked.spec))

    return edit


async def test_an_edited_call_runs_as_edited_and_says_so():
    heard = []
    run = Run(None, heard.append)
    assert (await answered("need", '{"x": 1}', editing(x=2), run=run)).text == "2"
    assert heard == [ToolStarted(ToolCall("c1", "need", '{"x": 2}'))]


async def test_an_edit_that_does_not_fit_does_not_run():
    run = Run()
    result = await answered("need", '{"x": 1}', editing(x="many"), run=run)
    assert "its arguments, as changed, don't fit.\nx: should be a valid integer" in result.text
    assert not run.started


async def test_a_gate_may_proceed_twice():
    ran = []

    @tool
    def flaky() -> str:
        """Fail once."""
        ran.append(1)
        if len(ran) == 1:
            raise ValueError("first")
        return "second"

    async def again(asked, run, proceed):
        first = await proceed(asked)
        return await proceed(asked) if first.is_error else first

    assert (await answered("flaky", "", again, tools=[flaky])).text == "second"


async def test_a_gates_own_refusal_is_its_words():
    async def gate(asked, run, proceed):
        raise ToolError("Not now.")

    result = await answered("now", "", gate)
    assert (result.is_error, result.text) == (True, "Not now.")


@pytest.mark.parametrize("fault", [KeyError("x"), asyncio.CancelledError()])
async def test_a_gate_that_fails_before_the_call_says_it_was_not_run(fault):
    async def gate(asked, run, proceed):
        raise fault

    result = await answered("now", "", gate)
    assert result.is_error
    assert result.text.startswith("The call was not run: a check before it failed")


async def test_a_gate_that_fails_after_the_call_does_not_claim_that_it_did_not_run():
    async def gate(asked, run, proceed):
        await proceed(asked)
        raise OSError("disk full")

    result = await answered("now", "", gate)
    assert result.text.startswith("The tool ran, or began to, but its result was lost: OSError: disk full")


async def test_a_gates_result_is_held_to_the_rule():
    async def stale(asked, run, proceed):
        return ToolResult("another", ())

    async def forgetful(asked, run, proceed):
        await proceed(asked)

    assert (await answered("now", "", stale)).text == "(the tool returned nothing)"
    assert "instead of a result" in (await answered("now", "", forgetful)).text


async def test_only_a_stop_passes_through_dispatch():
    async def stop(asked, run, proceed):
        raise RunStop("budget", "Spent.")

    with pytest.raises(RunStop, match="Spent"):
        await answered("now", "", stop)


async def test_a_stop_raised_in_a_tool_ends_the_run():
    @tool
    def spend() -> None:
        """Spend."""
        raise RunStop("budget", "Spent.")

    with pytest.raises(RunStop):
        await answered("spend", tools=[spend])


# -- off the loop


async def test_a_blocking_function_leaves_the_loop_free():
    go = threading.Event()
    waiting = asyncio.create_task(off_loop(lambda: go.wait(10)))
    await asyncio.sleep(0)
    go.set()
    assert await waiting is True


async def test_what_a_thread_raises_is_raised_here():
    def bad():
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await off_loop(bad)


def test_a_thread_that_outlives_its_loop_is_silent():
    go, over = threading.Event(), threading.Event()

    def work():
        go.wait(10)
        over.set()

    async def start():
        task = asyncio.create_task(off_loop(work))
        await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(start())
    go.set()
    assert over.wait(10)
    for thread in threading.enumerate():
        if thread.name == "tool-work":
            thread.join(10)


def test_a_picture_and_words_are_content():
    @tool
    def both() -> list[Text | Image]:
        """Give both."""
        return [Text("a"), Image(b"GIF89a\1\0\1\0", "image/gif")]

    assert isinstance(both, Tool)
    assert inspect.isfunction(both.function)
    result = asyncio.run(answered("both", tools=[both]))
    assert [part.kind for part in result.content] == ["text", "image"]
