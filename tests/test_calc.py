"""The calculator: right where it answers, clear where it doesn't, and never long about it."""

import ast
import time

import pytest
from hypothesis import given, strategies as st

from harness_nb.errors import ToolError
from harness_nb.toolkit.calc import CONSTANTS, DIGITS, FUNCTIONS, calc


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("2 + 2", "4"),
        ("(3 + 4) * 2.5 ** 2", "43.75"),
        ("0.1 + 0.2", "0.3"),
        ("4 / 2", "2"),
        ("7 // 2", "3"),
        ("-7 % 3", "2"),
        ("-2 ** 2", "-4"),
        ("2 ** -1", "0.5"),
        ("1_000 + 1", "1001"),
        ("1.5e3", "1500"),
        ("123456789 * 987654321", "121932631112635269"),
        ("0.1 * 3 - 0.3", "5.55111512312578e-17"),
        ("sqrt(2)", "1.4142135623731"),
        ("log(8, 2)", "3"),
        ("log10(1000)", "3"),
        ("round(2 / 3, 2)", "0.67"),
        ("round(1234, -2)", "1200"),
        ("round(2.6)", "3"),
        ("max(1, 2.5, -3) + min(4, 2)", "4.5"),
        ("abs(-5) + floor(2.7) + ceil(2.1)", "10"),
        ("cos(pi)", "-1"),
        ("exp(0) + tau / pi", "3"),
        ("1 ** 10 ** 9", "1"),
        ("\n 1 \n", "1"),
        ("+".join("1" * 150), "150"),
        ("10 ** 999", "1" + "0" * 999),
        ("2 ** 3300", str(2**3300)),
    ],
)
def test_arithmetic_is_worked_out(expression, answer):
    assert calc(expression) == answer


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("", "empty"),
        ("1 / 0", "Division by zero."),
        ("5 % 0", "Division by zero."),
        ("0 ** -1", "Division by zero."),
        ("(-8) ** 0.5", "no real root"),
        ("sqrt(-1)", "sqrt(-1) has no value: "),
        ("log(0)", "log(0) has no value: "),
        ("min()", "min() has no value: "),
        ("sqrt(1, 2)", "sqrt(1, 2) has no value: "),
        ("1,000 + 1", "without commas"),
        ("2 ^ 3", "Write ** for a power"),
        ("3 × 4", "Write * to multiply"),
        ("$5 * 2", "currency"),
        ("x = 5", "without ="),
        ("15% of 80", "write 15 / 100 for 15%"),
        ("mean(1, 2)", "`mean` is not arithmetic: of functions there are abs, ceil, "),
        ("math.sqrt(2)", "name alone"),
        ("1 +", "not an arithmetic expression"),
        ("2pi", "not arithmetic"),
        ("x + 1", "`x` is not arithmetic. Use numbers"),
        ("5!", "not an arithmetic expression"),
        ("round(1.5, 1.5)", "whole number of places"),
        ("1 " * 600, "characters; at most 1,000"),
        ("(" * 400, "not an arithmetic expression"),
        ("-" * 400 + "1", "nested deeper"),
    ],
)
def test_what_has_no_answer_is_said_with_the_way_out(expression, said):
    with pytest.raises(ToolError) as caught:
        calc(expression)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "code",
    [
        "__import__('os').system('true')",
        "().__class__.__bases__[0]",
        "[x for x in (1, 2)]",
        "lambda: 1",
        "(a := 5)",
        "'a' * 9",
        "b'x'",
        "f'{1}'",
        "True + 1",
        "None",
        "...",
        "1j",
        "1 if 1 else 2",
        "1 < 2",
        "1 and 2",
        "not 1",
        "~1",
        "1 << 9",
        "1 | 2",
        "{1: 2}",
        "[1][0]",
        "max(*[1, 2])",
        "max(1, default=2)",
        "abs",
        "e()",
        "open(1)",
        "eval(1)",
        "1; 2",
        "import os",
        "1 if 1else 2",
        "'\\d'",
        "a\x00b",
        "yield 1",
        "await 1",
    ],
)
def test_code_is_not_arithmetic(code):
    with pytest.raises(ToolError, match="not a"):
        calc(code)


@pytest.mark.parametrize(
    "bomb",
    [
        "9 ** 9 ** 9 ** 9",
        "9 ** 99999999",
        "(9 ** 999) ** 999",
        "((((9**900)*9**900)*9**900)*9**900)",
        "2 ** 0.5 ** -10000",
        "10 ** 1000",
        "1e308 * 10",
        "1e999",
        "exp(1000)",
        "10 ** 500 / 3.0",
        "round(5, -1000000000)",
        "floor(1e308) * 10 ** 999",
        "*".join(["9**99"] * 100),
        "7 // " + "9" * 900 + " ** 9999999",
    ],
)
def test_no_expression_takes_long(bomb):
    began = time.process_time()
    with pytest.raises(ToolError, match=r"too large|whole number of places"):
        calc(bomb)
    assert time.process_time() - began < 1


numbers = st.integers(0, 10**6).map(str) | st.floats(1e-6, 1e6).map(repr)
expressions = st.recursive(
    numbers,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
            lambda three: "({} {} {})".format(*three)
        )
        | inner.map("(-{})".format)
    ),
    max_leaves=12,
)


@given(expressions)
def test_it_agrees_with_python(expression):
    try:
        expected = eval(expression)  # noqa: S307 - made of numbers and operators alone
    except ZeroDivisionError:
        with pytest.raises(ToolError, match="Division by zero"):
            calc(expression)
        return
    assert float(calc(expression)) == pytest.approx(expected, rel=1e-14)
    if isinstance(expected, int):
        assert calc(expression) == str(expected)


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["9", "**", "(", ")", "+", "e", "pi", ",", "sqrt", " "])).map("".join)
)
def test_any_text_is_a_number_or_a_sentence(text):
    try:
        answer = calc(text)
    except ToolError as fault:
        assert str(fault).endswith((".", "x)"))  # noqa: PT017 - either is right
    else:
        assert abs(ast.literal_eval(answer)) < 10**DIGITS


def test_the_tool_tells_the_model_all_it_can_do():
    assert calc.spec.effects == {"read"}
    for name in (*FUNCTIONS, *CONSTANTS):
        assert name in calc.spec.description
