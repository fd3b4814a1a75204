"""Show 1, public bug reports R18, R20, R23, R27 and R28 as they were filed; the others are in files of their own.

R13 is the approval matrix and R15 and R17 are in real kernels; R19, R21, R22 and R24 are named in their files;
R18 in a browser is show 4.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import json
import os
import pathlib
import re
import signal
import sys
import time
from html.parser import HTMLParser
from typing import Literal, Optional

import pytest

from harness_nb.agent import Agent
from harness_nb.encoding import encode
from harness_nb.errors import ToolError
from harness_nb.jupyter.record import as_html
from harness_nb.jupyter.view import RunView
from harness_nb.messages import ToolCall
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.results import LIMIT
from harness_nb.safety.sandbox import limited
from harness_nb.seams import Run
from harness_nb.toolkit.shell import shell
from harness_nb.tools import Toolbox, tool


async def answered(asked, *tools):
    """The result of a call in a run: the one that goes to the model with the next request."""
    model = scripted(say(asked), "Done.")
    run = Run()
    assert (await Agent(model, Toolbox(tools)).run("Go.", run)).reason == "done"
    (result,) = model.requests[1].messages[-1].results
    json.dumps([encode(entry) for entry in run.transcript.entries], allow_nan=False)
    assert result.text.strip()
    return result


# -- R18: nothing that comes from outside is a live element or attribute

ACTS = [
    *("<script>top.x=1</script>", "<img src=x onerror=x=1>", "[a](javascript:x)", '" onmouseover="x'),
    *('</pre></script><iframe srcdoc="...">', "<svg/onload=x>", "```\n<b>x</b>\n```\n<b>", "&lt;b&gt;"),
    "\x1b[31m<b>x</b>",
]


class Live(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self, html):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        acts = {"script", "img", "iframe", "svg", "b", "a", "style"}
        bad = [name for name, value in attributes if name[:2] == "on" or "javascript" in str(value)]
        self.found += [tag] * (tag in acts) + bad

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("act", ACTS)
async def test_r18_a_record_shows_hostile_text_literally_in_every_field(act):
    @tool(effects={"read"})
    def fails(text: str) -> str:
        """Fail."""
        raise ToolError(act)

    @tool(effects={"read"})
    def gives(text: str) -> str:
        """Give."""
        return act

    view = RunView(act)
    said = say(act, call("fails", text=act), call("gives", text=act), call(act, text=act))
    await Agent(scripted(said, "Done."), Toolbox([fails, gives])).run(act, Run(listener=view.take))
    page = Live(as_html(view))
    assert page.found == []
    literal = act.replace("\x1b", "␛").split("\n", 1)[0]
    assert page.text.count(literal) >= 4


# -- R20: whatever a tool returns


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Broken:
    def __repr__(self):
        raise RuntimeError("no repr")


async def later():
    return "awaited"


CIRCLE: dict[str, object] = {}
CIRCLE["self"] = CIRCLE
RETURNS = {
    "None": (lambda: None, "(done; the tool returned nothing)"),
    "empty list": (list, "[]"),
    "NaN": (lambda: {"mean": float("nan"), "max": float("inf"), "none": None}, '"mean": "NaN"'),
    "Decimal": (lambda: decimal.Decimal("1.10"), "1.10"),
    "datetime": (lambda: datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC), "2024-02-29 00:00:00+00:00"),
    "Path": (lambda: pathlib.PurePosixPath("a/b"), "a/b"),
    "Enum": (lambda: Color.RED, "red"),
    "set": (lambda: {2, 1}, "[1, 2]"),
    "bytes": (lambda: b"\xff\0", "2 bytes, not text"),
    "dataclass": (lambda: Point(1), '"x": 1'),
    "circle": (lambda: CIRCLE, "dict"),
    "generator": (lambda: (n for n in range(3)), "[0, 1, 2]"),
    "coroutine of a plain function": (later, "awaited"),
    "broken repr": (Broken, "Broken"),
}


@pytest.mark.parametrize("kind", RETURNS)
async def test_r20_whatever_a_tool_returns_is_one_result(kind):
    give, said = RETURNS[kind]

    @tool(effects={"read"})
    def gives():
        """Give."""
        return give()

    result = await answered(call("gives"), gives)
    assert said in re.sub(r"\s+", " ", result.text).replace("[ ", "[").replace(" ]", "]")
    assert result.is_error == (kind in {"circle", "broken repr"})


async def test_r20_numbers_and_frames_are_read_and_bounded():
    np, pd = pytest.importorskip("numpy"), pytest.importorskip("pandas")

    @tool(effects={"read"})
    def gives(kind: str):
        """Give."""
        frame = pd.DataFrame(np.zeros((1_000_000, 5)))
        return {"int": np.int64(7), "bool": np.bool_(True), "array": np.arange(3), "frame": frame}[kind]

    texts = {
        k: (await answered(call("gives", kind=k), gives)).text for k in ("int", "bool", "array", "frame")
    }
    assert (texts["int"], texts["bool"]) == ("7", "true")
    assert "1" in texts["array"]
    assert re.search(r"1,?000,?000", texts["frame"])
    assert len(texts["frame"]) <= LIMIT


# -- R23: a shell and its children

OWN = f"{os.getpid()}7"


@pytest.mark.skipif(sys.platform == "win32", reason="commands need POSIX")
@pytest.mark.parametrize("start", ["", "setsid "])
async def test_r23_a_child_in_the_background_holds_nothing_and_is_named(tmp_path, start):
    began = time.monotonic()
    command = f"{start}sleep 30.{OWN} & echo done"
    result = await answered(call("shell", command=command), shell(limited(tmp_path), tmp_path))
    assert time.monotonic() - began < 25, "it waited for the child"
    assert result.text.startswith("exit code 0")
    assert "\ndone\n" in result.text
    os.kill(int(re.search(rf"Still running: pid (\d+) `sleep 30.{OWN}`", result.text)[1]), signal.SIGKILL)


@pytest.mark.skipif(sys.platform == "win32", reason="commands need POSIX")
@pytest.mark.parametrize(
    ("command", "seconds", "said"),
    [
        ("echo begun; (trap '' TERM; sleep 30)", 1, "it took too long"),
        ("cat; echo at its end", 20, "at its end"),
        ("yes", 20, "Stopped"),
        ("exit 3", 20, "exit code 3"),
    ],
)
async def test_r23_a_command_ends_and_says_how(tmp_path, command, seconds, said):
    began = time.monotonic()
    asked = call("shell", command=command, timeout_seconds=seconds)
    result = await answered(asked, shell(limited(tmp_path), tmp_path))
    assert said in result.text
    assert len(result.text) <= LIMIT
    assert time.monotonic() - began < 25


# -- R27: a signature, in a module with the future import


def t(
    a: int,
    mode: Literal["r", "w"] = "r",
    c: Optional[Color] = None,  # noqa: UP045 - as people write it
    pt: "Point" = None,  # noqa: UP037 - as people write it
    xs: list[int] | None = None,
    *args,
    ctx: Run,
    **kw,
):
    """Do a thing."""
    return f"{a} {mode} {c} {pt} {xs} {type(ctx).__name__} {args} {kw}"


async def test_r27_the_schema_holds_what_a_model_may_give_and_the_call_gets_real_objects():
    schema = tool(t).spec.input_schema
    assert list(schema["properties"]) == ["a", "mode", "c", "pt", "xs"]
    assert schema["required"] == ["a"]
    assert json.loads(json.dumps(schema, allow_nan=False)) == schema
    result = await answered(call("t", a=1, c="red", pt={"x": 2}), tool(t))
    assert result.text == "1 r Color.RED Point(x=2, y=0) None Run () {}"
    wrong = await answered(call("t", a=1, mode="x", c="green"), tool(t))
    assert wrong.is_error
    assert "'r' or 'w'" in wrong.text
    assert "'red' or 'blue'" in wrong.text


class Shop:
    def sell(self, n: int = 1) -> str:
        """Sell."""
        return f"sold {n}"


async def test_r27_methods_partials_and_odd_defaults_are_tools_too():
    def most(of: list[int] = [], at_most: float = float("inf")) -> str:  # noqa: B006 - as people write it
        """Tell the most."""
        return f"{of} {at_most}"

    assert (await answered(call("sell", n=2), tool(Shop().sell))).text == "sold 2"
    partly = tool(functools.partial(most, [3]), name="partly", description="Tell.")
    assert (await answered(call("partly"), partly)).text == "[3] inf"
    assert (await answered(call("most"), tool(most))).text == "[] inf"
    json.dumps(tool(most).spec.input_schema, allow_nan=False)
    shortest = tool(lambda n=1: n + 1, name="add", description="Add.")
    assert (await answered(call("add", n=2), shortest)).text == "3"


def test_r27_the_newest_definition_is_the_notebooks_tool(shell):
    from harness_nb.jupyter.agents import tools_of_the_notebook

    source = "from harness_nb import tool\n@tool(effects={{'read'}})\ndef t({}):\n    'Do.'"
    for parameters in ("old: int", "new: str"):
        shell.run_cell(source.format(parameters))
    (found,) = tools_of_the_notebook()
    assert list(found.spec.input_schema["properties"]) == ["new"]


# -- R28: names that there are not, and values as strings


@tool(effects={"read"})
def f(n: int = 0, flag: bool = False, xs: list[str] | None = None, s: str = "", u: int | str = 0) -> str:
    """Show what came."""
    return repr((n, flag, xs, s, u))


@pytest.mark.parametrize("name", ["serch", "functions.search", "search<|x|>y", "", "x" * 90])
async def test_r28_an_unknown_name_is_answered_with_those_there_are(name):
    result = await answered(ToolCall("c", name, "{}"), f)
    assert result.is_error
    assert "The tools are: f" in result.text or "The tool is" in result.text


async def test_r28_misses_without_end_are_capped():
    model = scripted(*[say(call(f"miss{n}")) for n in range(40)], "Done.")
    outcome = await Agent(model, Toolbox([f])).run("Go.")
    assert outcome.reason != "done"
    assert len(model.requests) < 30
    assert not outcome.transcript.dangling()


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"n": "5"}, "(5, False, None, '', 0)"),
        ({"flag": "true"}, "(0, True, None, '', 0)"),
        ({"xs": '["a"]'}, "(0, False, ['a'], '', 0)"),
        ({"s": "5"}, "(0, False, None, '5', 0)"),
        ({"s": "[1]"}, "(0, False, None, '[1]', 0)"),
        ({"u": "42"}, "(0, False, None, '', '42')"),
        ({"n": "3.7"}, "error"),
        ({"n": True}, "error"),
    ],
)
async def test_r28_a_value_is_read_where_that_changes_no_meaning(given, read):
    result = await answered(call("f", **given), f)
    assert result.is_error if read == "error" else result.text == read
