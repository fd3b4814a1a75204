"""A signature as a JSON Schema, and a model's arguments read by it: strictly, and in another way only if that means the same."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import enum
import functools
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field, field_validator

from harness_nb.errors import UsageError
from harness_nb.seams import Call, Run
from harness_nb.tools import tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Line:
    points: list[Point] = field(default_factory=list)


class Tree(BaseModel):
    name: str
    kids: list[Tree] = []

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        if not name:
            raise ValueError("must not be empty")
        return name


def checked(schema):
    """A schema as any strict JSON reader gets it."""
    return json.loads(json.dumps(schema, allow_nan=False), parse_constant=pytest.fail)


# R27: the module's own future import makes every annotation here a string.


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
    return a, mode, c, pt, xs, args, kw


SOURCE_OF_A_CELL = '''
from __future__ import annotations
import enum
from dataclasses import dataclass
from typing import Literal, Optional
from harness_nb.seams import Run
from harness_nb.tools import tool

class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"

@dataclass
class Point:
    x: int
    y: int = 0

@tool
def t(a: int, mode: Literal["r","w"]="r", c: Optional[Color]=None, pt: "Point"=None, xs: list[int] | None = None, *args, ctx: Run, **kw):
    """Do a thing."""
    return a, mode, c, pt, xs
'''


def in_a_module():
    return tool(t)


def in_a_function():
    class Color(enum.Enum):
        RED = "red"
        BLUE = "blue"

    @dataclass
    class Point:
        x: int
        y: int = 0

    @tool(name="t")
    def inner(
        a: int,
        mode: Literal["r", "w"] = "r",
        c: Optional[Color] = None,  # noqa: UP045 - as people write it
        pt: Point = None,
        xs: list[int] | None = None,
        *args,
        ctx: Run,
        **kw,
    ):
        """Do a thing."""

    return inner


def in_a_cell():
    names = {"__name__": "__main__"}
    exec(compile(SOURCE_OF_A_CELL, "<cell>", "exec", dont_inherit=True), names)  # noqa: S102 - as a cell does
    return names["t"]


def resolved(schema, name):
    """The schema of a parameter with references and the null branch taken away; and whether null is allowed."""
    found = schema["properties"][name]
    options = found.get("anyOf", [found])
    real = next(option for option in options if option != {"type": "null"})
    if "$ref" in real:
        real = schema["$defs"][real["$ref"].rpartition("/")[2]]
    return real, {"type": "null"} in options


@pytest.mark.parametrize("made", [in_a_module, in_a_function, in_a_cell])
def test_a_signature_with_string_annotations_is_understood_anywhere(made):
    schema = checked(made().spec.input_schema)
    assert list(schema["properties"]) == ["a", "mode", "c", "pt", "xs"]
    assert schema["required"] == ["a"]
    assert resolved(schema, "a")[0]["type"] == "integer"
    assert resolved(schema, "mode")[0]["enum"] == ["r", "w"]
    assert resolved(schema, "c") == ({"enum": ["red", "blue"], "title": "Color", "type": "string"}, True)
    assert resolved(schema, "xs") == ({"items": {"type": "integer"}, "type": "array"}, True)
    assert list(resolved(schema, "pt")[0]["properties"]) == ["x", "y"]


@pytest.mark.parametrize("made", [in_a_module, in_a_function, in_a_cell])
def test_a_call_gets_real_enum_and_dataclass_objects(made):
    values = made().signature.values({"a": 1, "c": "red", "pt": {"x": 1}, "xs": [1]})
    assert (values["c"].name, values["pt"].x, values["pt"].y, values["xs"]) == ("RED", 1, 0, [1])
    assert isinstance(values["c"], enum.Enum)


@pytest.mark.parametrize("made", [in_a_module, in_a_function, in_a_cell])
def test_a_bad_choice_is_answered_with_the_choices(made):
    with pytest.raises(ValueError, match=r"mode: should be 'r' or 'w'; got \"x\"") as caught:
        made().signature.read({"a": 1, "mode": "x", "c": "green"})
    assert "c: should be 'red' or 'blue'; got \"green\"" in str(caught.value)


def test_a_function_is_read_by_the_names_of_its_own_module():
    Color = Level  # noqa: N806, F841 - a name here that must not be taken for the one there
    names = {"__name__": "elsewhere"}
    source = "class Point:\n    pass\ndef far(p: 'Color') -> 'Nowhere':\n    'Doc.'\nimport enum\nclass Color(enum.Enum):\n    GREEN = 'green'\n"
    exec(source, names)  # noqa: S102 - another module, as small as can be
    assert tool(names["far"]).spec.input_schema["$defs"]["Color"]["enum"] == ["green"]


# What a model sees of a parameter.


@pytest.mark.parametrize(
    ("annotation", "default", "seen"),
    [
        (int, 5, {"type": "integer", "default": 5}),
        (float, float("inf"), {"type": "number"}),
        (list[float], [1.5], {"type": "array", "items": {"type": "number"}, "default": [1.5]}),
        (list[int], [], {"type": "array", "items": {"type": "integer"}, "default": []}),
        (Any, None, {"default": None}),
        (object, len, {}),
        (dict[str, int], {}, {"type": "object", "additionalProperties": {"type": "integer"}, "default": {}}),
        (Annotated[int, "how many"], 1, {"type": "integer", "default": 1, "description": "how many"}),
        (
            Annotated[int, Field(ge=1, description="count")],
            1,
            {"type": "integer", "default": 1, "minimum": 1, "description": "count"},
        ),
    ],
)
def test_a_parameter_is_described_in_strict_json(annotation, default, seen):
    def f(p=default):
        """Doc."""

    f.__annotations__ = {"p": annotation}
    assert checked(tool(f).spec.input_schema)["properties"]["p"] == seen


def test_a_tool_without_parameters_has_an_object_schema_with_none():
    @tool
    def now():
        """Tell the time."""

    assert now.spec.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize("name", ["schema", "copy", "model_config", "json", "_x", "__dunder", "self_", "p0"])
def test_a_parameter_may_have_any_name(name):
    names = {}
    exec(f"def f({name}: int = 1):\n    'Doc.'\n    return {name}", names)  # noqa: S102 - to choose the name
    made = tool(names["f"])
    assert list(made.spec.input_schema["properties"]) == [name]
    assert made.signature.values({name: 5}) == {name: 5}


def test_nested_and_recursive_models_keep_their_definitions():
    @tool
    def plant(tree: Tree, line: Line):
        """Plant."""

    schema = checked(plant.spec.input_schema)
    assert set(schema["$defs"]) == {"Tree", "Line", "Point"}
    values = plant.signature.values(
        {"tree": {"name": "a", "kids": [{"name": "b"}]}, "line": {"points": [{"x": 1}]}}
    )
    assert values["tree"].kids[0].name == "b"
    assert values["line"].points == [Point(1, 0)]


@pytest.mark.parametrize(
    "annotation", [Run, Call, Run | None, "Optional[Run]", "Run", "Run | None", Annotated[Call, "x"]]
)
def test_what_the_harness_fills_in_is_hidden_from_the_model(annotation):
    def f(a: int, it=None):
        """Doc."""

    f.__annotations__["it"] = annotation
    made = tool(f)
    assert list(made.spec.input_schema["properties"]) == ["a"]
    assert list(made.signature.injected) == ["it"]


def test_a_list_of_runs_is_not_filled_in():
    def f(runs: list[Run]):
        """Doc."""

    with pytest.raises(UsageError, match="`runs`"):
        tool(f)


# Kinds of callables.


class Shop:
    """A shop."""

    def __init__(self, stock=3):
        self.stock = stock

    def sell(self, count: int) -> int:
        """Sell some."""
        return self.stock - count

    @classmethod
    def open(cls, name: str = "x") -> str:
        """Open one."""
        return name

    @staticmethod
    def tax(price: float) -> float:
        """Add tax."""
        return price

    def __call__(self, order: int, *, fast: bool = False) -> int:
        return order


def wrapped(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


async def fetch(site: str, depth: int = 1) -> str:
    """Fetch it."""
    return site


@pytest.mark.parametrize(
    ("made", "name", "parameters"),
    [
        (lambda: tool(Shop().sell), "sell", ["count"]),
        (lambda: tool(Shop.open), "open", ["name"]),
        (lambda: tool(Shop.tax), "tax", ["price"]),
        (lambda: tool(Shop()), "Shop", ["order", "fast"]),
        (lambda: tool(functools.partial(fetch, "here")), "fetch", ["depth"]),
        (lambda: tool(functools.partial(fetch, depth=2)), "fetch", ["site"]),
        (lambda: tool(functools.partial(functools.partial(fetch, depth=2), site="x")), "fetch", []),
        (lambda: tool(wrapped(fetch)), "fetch", ["site", "depth"]),
        (lambda: tool(name="both", description="Two.")(lambda a, b=1: a), "both", ["a", "b"]),
        (lambda: tool(tool(fetch)), "fetch", ["site", "depth"]),
    ],
)
def test_methods_partials_wrappers_and_callable_objects_are_tools(made, name, parameters):
    found = made()
    assert found.name == name
    assert list(found.spec.input_schema["properties"]) == parameters


async def test_a_partial_of_an_async_function_is_awaited():
    made = tool(functools.partial(fetch, "here"))
    assert (await made.invoke(Call("1", {}, made.spec), Run()))[0].text == "here"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda: tool(lambda x: x), "A lambda has no name"),
        (lambda: tool(description="x")(lambda: None), "A lambda has no name"),
        (lambda: tool(lambda_without_doc), "has no docstring"),
        (lambda: tool(only_by_place), "make `x` an ordinary parameter"),
        (lambda: tool(Shop.sell), "write tool(thing.sell)"),
        (lambda: tool(not_json), "JSON can't carry its parameter `loop`"),
        (lambda: tool(not_defined), "name 'Nonesuch', which is not defined yet"),
        (lambda: tool(name="größe", description="x")(Shop.tax), "1 to 64 letters"),
        (lambda: tool(name="a b", description="x")(Shop.tax), "1 to 64 letters"),
        (lambda: tool(name="x" * 65, description="x")(Shop.tax), "1 to 64 letters"),
        (lambda: tool(name="d", description="x")(dict.fromkeys), "make `iterable` an ordinary parameter"),
    ],
)
def test_what_can_not_be_a_tool_is_refused_with_the_fix(function, said):
    with pytest.raises(UsageError, match="(?s)" + said.replace("(", r"\(").replace(")", r"\)")):
        function()


def lambda_without_doc():
    pass


def only_by_place(x: int, /):
    """Doc."""


def not_json(a: int, loop: asyncio.AbstractEventLoop):
    """Doc."""


def not_defined(a: Nonesuch):  # noqa: F821 - the test
    """Doc."""


# R28: how values are read.


@tool
def f(  # noqa: PLR0917 - one of each
    n: int = 0,
    flag: bool = False,
    xs: list[str] = [],  # noqa: B006 - as people write it
    s: str = "",
    u: int | str = 0,
    v: int | list[int] = 0,
    b: bool | float = False,
    opt: Optional[list[int]] = None,  # noqa: UP045 - as people write it
    c: Color = Color.RED,
    level: Level = Level.LOW,
    lit: Literal[1, 2, "x"] = 1,
    pt: Point = Point(0),  # noqa: B008 - as people write it
    d: dict[str, int] = {},  # noqa: B006 - as people write it
    keys: dict[int, str] = {},  # noqa: B006 - as people write it
    day: datetime.date | None = None,
    tup: tuple[int, str] = (0, ""),
    st: set[int] = set(),  # noqa: B006 - as people write it
    by: bytes = b"",
    x: float = 0.0,
    dec: decimal.Decimal = decimal.Decimal(0),
    tree: Tree | None = None,
    anything: Any = None,
    bare=None,
):
    """Take everything."""


RED = Color.RED


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"n": "5"}, 5),
        ({"n": 5.0}, 5),
        ({"n": " -7 "}, -7),
        ({"flag": "true"}, True),
        ({"xs": '["a"]'}, ["a"]),
        ({"s": "5"}, "5"),
        ({"s": "[1]"}, "[1]"),
        ({"s": "null"}, "null"),
        ({"u": "42"}, "42"),
        ({"u": 42}, 42),
        ({"v": "5"}, 5),
        ({"v": "[1, 2]"}, [1, 2]),
        ({"v": '["1", 2]'}, [1, 2]),
        ({"b": "true"}, True),
        ({"b": "1.5"}, 1.5),
        ({"opt": "[1]"}, [1]),
        ({"opt": None}, None),
        ({"opt": ["1"]}, [1]),
        ({"c": "red"}, RED),
        ({"level": "2"}, Level.HIGH),
        ({"lit": "2"}, 2),
        ({"lit": "x"}, "x"),
        ({"pt": '{"x": 1}'}, Point(1)),
        ({"pt": {"x": "1", "y": 2.0}}, Point(1, 2)),
        ({"d": '{"a": 1}'}, {"a": 1}),
        ({"d": {"a": "1"}}, {"a": 1}),
        ({"keys": {"5": "x"}}, {5: "x"}),
        ({"day": "2024-02-29"}, datetime.date(2024, 2, 29)),
        ({"tup": [1, "b"]}, (1, "b")),
        ({"tup": '["1", "b"]'}, (1, "b")),
        ({"st": "[1, 2]"}, {1, 2}),
        ({"by": "abc"}, b"abc"),
        ({"x": 5}, 5.0),
        ({"x": "5"}, 5.0),
        ({"x": "1e3"}, 1000.0),
        ({"dec": "1.10"}, decimal.Decimal("1.10")),
        ({"tree": '{"name": "a", "kids": [{"name": "b"}]}'}, Tree(name="a", kids=[Tree(name="b")])),
        ({"anything": {"a": [None, "5"]}}, {"a": [None, "5"]}),
        ({"bare": "5"}, "5"),
    ],
)
def test_a_value_is_read_where_it_can_mean_only_one_thing(given, read):
    (found,) = f.signature.values(given).values()
    assert found == read
    assert type(found) is type(read)
    assert f.signature.values(f.signature.read(given)) == f.signature.values(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": "3.7"}, 'n: should be a valid integer; got "3.7"'),
        ({"n": 3.7}, "n: should be a valid integer; got 3.7"),
        ({"n": 1e30}, "n: should be a valid integer; got 1e+30"),
        ({"n": True}, "n: should be a valid integer; got true"),
        ({"n": "true"}, 'n: should be a valid integer; got "true"'),
        ({"n": None}, "n: should be a valid integer; got null"),
        ({"n": ""}, 'n: should be a valid integer; got ""'),
        ({"n": [5]}, "n: should be a valid integer; got [5]"),
        ({"flag": 1}, "flag: should be a valid boolean; got 1"),
        ({"flag": "1"}, 'flag: should be a valid boolean; got "1"'),
        ({"flag": "yes"}, 'flag: should be a valid boolean; got "yes"'),
        ({"s": 5}, "s: should be a valid string; got 5"),
        ({"xs": "a"}, 'xs: should be a valid array; got "a"'),
        ({"xs": '["a", 1]'}, "xs[1]: should be a valid string; got 1"),
        ({"xs": '["a", "b"'}, 'xs: should be a valid array; got "[\\"a\\", \\"b\\""'),
        ({"u": True}, "u: should be a valid integer, or a valid string; got true"),
        ({"c": "RED"}, "c: should be 'red' or 'blue'; got \"RED\""),
        ({"lit": "3"}, "lit: should be 1, 2 or 'x'; got \"3\""),
        ({"pt": {}}, "pt.x: missing, and required"),
        ({"pt": {"x": 1, "z": 2}}, "pt.z: no such field"),
        ({"pt": '{"x": 1, "x": 2}'}, None),
        ({"d": {"a b": "x"}}, 'd["a b"]: should be a valid integer; got "x"'),
        ({"keys": {"a": "x"}}, "keys.a: as a key, should be a valid integer"),
        ({"tup": [1]}, "tup[1]: missing, and required"),
        ({"x": "NaN"}, 'x: should be a valid number; got "NaN"'),
        ({"x": "1e999"}, 'x: should be a valid number; got "1e999"'),
        ({"day": "soon"}, "day: should be a valid date in the format YYYY-MM-DD"),
        ({"tree": {"name": "a", "kids": [{"name": ""}]}}, 'tree.kids[0].name: must not be empty; got ""'),
        ({"xss": []}, "xss: no such parameter; did you mean `xs`?"),
        ({"qqq": []}, "qqq: no such parameter; there are: `n`, `flag`"),
        ({"n": "x" * 300}, f'n: should be a valid integer; got "{"x" * 99}...'),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_words_a_person_would_use(given, said):
    with pytest.raises(ValueError, match=r".") as caught:
        f.signature.read(given)
    assert str(caught.value).startswith(said or "")


def test_a_key_is_not_taken_for_the_value_beside_it():
    @tool
    def g(seats: dict[Literal[1, 2], str]):
        """Doc."""

    with pytest.raises(
        ValueError, match=r"^seats: as a key, should be 1 or 2|^seats\.1|^seats\[\"1\"\]"
    ) as caught:
        g.signature.read({"seats": {"1": "x"}})
    assert "as a key" in str(caught.value)


def test_all_faults_are_named_at_once():
    with pytest.raises(ValueError, match=r".") as caught:
        f.signature.read({"n": "x", "pt": {"y": "q"}, "huh": 1})
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["n", "pt.x", "pt.y", "huh"]


def test_the_branch_of_a_union_that_fits_best_is_the_one_explained():
    @tool
    def g(where: int | Point):
        """Doc."""

    with pytest.raises(ValueError, match=r"^where\.x: should be a valid integer; got \"east\"$"):
        g.signature.read({"where": {"x": "east"}})


def test_arguments_left_out_are_left_to_the_function():
    shared = []

    @tool
    def grow(items: list[int] = shared):
        """Grow."""

    assert grow.signature.values({}) == {}


def test_what_is_read_is_plain_json_that_reads_the_same_again():
    given = {"n": "5", "pt": '{"x": "1"}', "st": "[1]"}
    read = f.signature.read(given)
    assert read == {"n": 5, "pt": {"x": 1}, "st": [1]}
    assert given["n"] == "5"


def test_deep_nesting_is_a_fault_and_not_a_crash():
    deep: list = []
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(ValueError, match=r"nested|recursion"):
        f.signature.read({"anything": deep})
