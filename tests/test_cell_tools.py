"""The notebook's own tools in an IPython of this process: what they tell of variables, and what they may put below."""

import asyncio

import numpy
import pandas
import pytest

import harness_nb
from harness_nb import call, say, scripted
from harness_nb.jupyter.cell_tools import run_python
from harness_nb.jupyter.session import defaults
from harness_nb.messages import Image

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8ffff3f0005fe02fea735819a"
    "0000000049454e44ae426082"
)


def results(shell, *calls):
    """What the calls gave the model, in one run of the main session."""
    session = harness_nb.session()
    session.model = scripted(say(*calls), "Done.")
    shell.run_cell("%agent --new go").raise_error()
    return session.transcript.messages[2].results


def inspected(shell, value):
    shell.user_ns["value"] = value
    (result,) = results(shell, call("inspect_variable", name="value"))
    assert not result.is_error
    return result


def test_a_frame_is_told_by_shape_head_and_types_of_its_columns(shell):
    prices = pandas.DataFrame({"item": ["apple", "pear"] * 400, "price": 1.5, "api_key": "hunter22"})
    told = inspected(shell, prices).text
    assert "`value` (DataFrame, 800 x 3)" in told
    assert "first 10 rows" in told
    assert told.count("apple") == 5
    assert told.endswith(", price: float64")
    assert "hunter22" not in told


@pytest.mark.parametrize(
    ("array", "shape", "facts"),
    [
        (numpy.arange(12.0).reshape(3, 4), "3 x 4", "dtype float64, min 0, max 11, mean 5.5"),
        (numpy.array([True, False]), "2", "dtype bool, min 0, max 1, mean 0.5"),
        (numpy.array([numpy.nan, 1, 3]), "3", "dtype float64, min 1, max 3, mean 2, 1 NaN"),
        (numpy.array([numpy.nan]), "1", "dtype float64, 1 NaN"),
        (numpy.zeros(2_000_000, "i1"), "2,000,000", "dtype int8, min 0, max 0, mean 0"),
    ],
)
def test_an_array_is_told_by_shape_type_and_range(shell, array, shape, facts):
    told = inspected(shell, array).text
    assert f"`value` (ndarray, {shape})" in told
    assert told.endswith(f"\n{facts}")
    assert len(told) < 1_000


@pytest.mark.parametrize(
    "array",
    [
        numpy.array(["pear"]),
        numpy.array([1, 2], "m8[s]"),
        numpy.array(["2026-01-01"], "M8[D]"),
        numpy.array([None, 1]),
        numpy.ma.array([1.0], mask=[True]),
        numpy.array([]),
    ],
    ids=["words", "spans", "dates", "objects", "masked", "empty"],
)
def test_an_array_without_a_range_is_told_without_one(shell, array):
    assert ", min" not in inspected(shell, array).text


class Figure:
    """Stands for matplotlib's, which need not be installed; without a picture it can't be drawn."""

    def __init__(self, picture):
        self.picture = picture

    def savefig(self, file, **_):
        if not self.picture:
            raise ValueError("no data")
        file.write(self.picture)


Figure.__module__ = "matplotlib.figure"


def test_a_figure_is_seen_and_one_that_cannot_be_drawn_is_told_of(shell):
    pictures = [part for part in inspected(shell, Figure(PNG)).content if isinstance(part, Image)]
    assert [(picture.data, picture.media_type) for picture in pictures] == [(PNG, "image/png")]
    assert "`value` (Figure)" in inspected(shell, Figure(None)).text


class Raising:
    """Its every part raises, as a proxy outside of its context does."""

    @property
    def __class__(self):
        raise RuntimeError("outside")

    shape = columns = dtypes = __class__

    def __len__(self):
        raise RuntimeError("outside")

    __repr__ = __len__


class Anything:
    """Answers to any name, as the proxy of a server does, and notes what is called."""

    def __init__(self):
        self.called = []

    def __getattr__(self, name):
        return lambda: self.called.append(name)


def test_no_value_keeps_the_others_from_being_listed(shell):
    shell.user_ns.update(raising=Raising(), other=[1])
    (listed,) = results(shell, call("list_variables"))
    assert listed.text == "raising: Raising\nother: list, 1 item"
    (told,) = results(shell, call("inspect_variable", name="raising"))
    assert "(it can't be read: RuntimeError)" in told.text


def test_looking_at_a_value_calls_nothing_that_its_type_does_not_have(shell):
    proxy = Anything()
    assert "Anything object" in inspected(shell, proxy).text
    assert proxy.called == []


def test_of_hundreds_of_variables_the_older_are_listed_by_name_alone(shell):
    shell.user_ns.update({f"v{number}": number for number in range(150)})
    (listed,) = results(shell, call("list_variables"))
    assert listed.text.startswith("v50: int\nv51: int\n")
    assert "v149: int\n[50 older ones, by name alone: v0, v1, " in listed.text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "`value` (NoneType):\nNone"),
        ("x" * 3_000_000, "):\n[long output, shortened: first 838 and last 838 of 3,000,000 characters; ask"),
        (pandas.Series(["hunter22"], name="password"), "(a secret, left out)"),
        (pandas.DataFrame([range(500)] * 3, columns=map(str, range(500))), "99: int64, and 400 more"),
        (numpy.zeros(20_000_001, "i1"), "of more than 20,000,000 numbers the range is not worked out"),
    ],
    ids=["none", "long", "secret", "wide", "large"],
)
def test_a_value_is_told_briefly_and_truly(shell, value, said):
    told = inspected(shell, value).text
    assert said in told
    assert told.count("long output, shortened: first") <= 2
    assert len(told) < 6_000
    assert "hunter22" not in told


def test_a_secret_in_the_end_of_a_huge_text_is_left_out(shell):
    told = inspected(shell, "x" * 3_000_000 + " password='hunter22hunter22'").text
    assert told.count("a secret, left out") == 1
    assert "hunter22" not in told


@pytest.mark.usefixtures("shell")
def test_of_many_outputs_the_first_reach_the_model():
    shown = asyncio.run(run_python("for n in range(30): display(n)"))
    assert [part.text for part in shown] == [
        *map(str, range(20)),
        "[10 more outputs stand in the cell alone]",
    ]


def test_a_cell_is_added_only_where_that_is_allowed(shell):
    (refused,) = results(shell, call("add_cell", code="1 + 1"))
    assert refused.is_error
    assert "since `add_cell` may change files" in refused.text
    assert getattr(shell, "rl_next_input", None) is None
    defaults.rules = ["allow add_cell"]
    (allowed,) = results(shell, call("add_cell", code="1 + 1"))
    assert "It has not run" in allowed.text
    assert shell.rl_next_input == "1 + 1"
