"""The calculator tool: arithmetic on a whitelist of syntax, with limits so that no expression can hang the run. Book chapters 4 and 6.

The text is parsed, never evaluated by Python: what is not a number, an operator or a function named
here has no meaning and is refused.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Annotated, TypeAlias

from harness_nb.errors import ToolError
from harness_nb.tools import tool

Number: TypeAlias = int | float

LENGTH = 1_000
"""Longest expression, in characters."""

DEPTH = 200
"""Deepest nesting of an expression; a sum of 200 numbers is that deep."""

DIGITS = 1_000
"""Most digits of a whole number, at every step."""

CODE = re.compile(r"""['"\\]|[0-9](?![eE][-+]?[0-9])[A-Za-z]""")
"""Strings, and numbers run into words: no arithmetic, and Python's parser prints warnings about them."""

BITS = int(DIGITS * math.log2(10))

TOO_LARGE = f"The number gets too large: at most {DIGITS:,} digits, or 1e308 with a decimal point."


def _power(base: Number, exponent: Number) -> Number:
    # Checked first: 9**9**9 would be computed for hours before its size could be seen.
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and (int(base).bit_length() - 1) * exponent > BITS:
        raise ToolError(TOO_LARGE)
    found: object = base**exponent
    if not isinstance(found, int | float):
        raise ToolError("A negative number has no real root of this kind.")
    return found


def _round(number: Number, places: Number = 0) -> Number:
    if not isinstance(places, int) or abs(places) > DIGITS:
        raise ToolError(f"round takes a whole number of places from -{DIGITS} to {DIGITS}.")
    return round(number, places) if places else round(number)


OPERATORS: dict[type[ast.AST], Callable[..., Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}

FUNCTIONS: dict[str, Callable[..., Number]] = {
    "abs": abs,
    "ceil": math.ceil,
    "cos": math.cos,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "log10": math.log10,
    "max": lambda *numbers: max(numbers),
    "min": lambda *numbers: min(numbers),
    "round": _round,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "tan": math.tan,
}

CONSTANTS: dict[str, float] = {"e": math.e, "pi": math.pi, "tau": math.tau}


@tool(effects={"read"})
def calc(expression: Annotated[str, "such as (3 + 4) * 2.5 ** 2 or sqrt(2) / 3"]) -> str:
    """Work out one arithmetic expression, exactly for whole numbers and to 15 digits otherwise.

    Takes numbers, + - * / // % **, brackets, pi, e, tau, and abs, ceil, cos, exp, floor, log(x, base),
    log10, max, min, round, sin, sqrt, tan (angles in radians). No variables, units, comparisons or
    other code. Changes nothing. Returns the number alone, e.g. `87.5`. Use it for every calculation
    that is not trivial, instead of working it out in words.
    """
    text = expression.strip()
    if not text:
        raise ToolError("The expression is empty.")
    if len(text) > LENGTH:
        raise ToolError(f"The expression has {len(text):,} characters; at most {LENGTH:,} can be worked out.")
    if CODE.search(text):
        raise ToolError(f"`{text[:80]}` is not arithmetic. {_hint(text)}")
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as fault:
        raise ToolError(
            f"`{text[:80]}` is not an arithmetic expression{_where(fault)}. {_hint(text)}"
        ) from None
    return _written(_value(tree.body, 0))


def _value(node: ast.expr, depth: int) -> Number:
    if depth > DEPTH:
        raise ToolError(f"The expression is nested deeper than {DEPTH} levels; work it out in parts.")
    match node:
        case ast.Constant(int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.BinOp(left, sign, right) if type(sign) in OPERATORS:
            return _applied(OPERATORS[type(sign)], _value(left, depth + 1), _value(right, depth + 1))
        case ast.UnaryOp(sign, inner) if type(sign) in OPERATORS:
            return _applied(OPERATORS[type(sign)], _value(inner, depth + 1))
        case ast.Call(ast.Name(name), given, keywords=[]) if name in FUNCTIONS:
            return _applied(FUNCTIONS[name], *(_value(inner, depth + 1) for inner in given), name=name)
        case ast.Call(ast.Name(name)) if name not in FUNCTIONS:
            raise ToolError(
                f"`{name[:80]}` is not arithmetic: of functions there are {', '.join(FUNCTIONS)}."
            )
        case _:
            said = ast.unparse(node)
            raise ToolError(f"`{said[:80]}` is not arithmetic. {_hint(said)}")


def _applied(function: Callable[..., Number], *numbers: Number, name: str = "") -> Number:
    try:
        return _bounded(function(*numbers))
    except ZeroDivisionError:
        raise ToolError("Division by zero.") from None
    except OverflowError:
        raise ToolError(TOO_LARGE) from None
    except (ValueError, TypeError) as fault:
        given = ", ".join(_written(number) for number in numbers)
        raise ToolError(f"{name}({given}) has no value: {fault}.") from None


def _bounded(number: Number) -> Number:
    if isinstance(number, int):
        if abs(number) >= 10**DIGITS:
            raise ToolError(TOO_LARGE)
    elif not math.isfinite(number):
        raise ToolError(TOO_LARGE)
    return number


def _written(number: Number) -> str:
    return str(number) if isinstance(number, int) else f"{number:.15g}"


def _where(fault: BaseException) -> str:
    return f" (position {fault.offset})" if isinstance(fault, SyntaxError) and fault.offset else ""


def _hint(said: str) -> str:
    """Name the slip that models and people make most often here."""
    for sign, advice in HINTS.items():
        if sign in said:
            return advice
    return f"Use numbers, + - * / // % **, brackets, {', '.join(CONSTANTS)} and {', '.join(FUNCTIONS)}."


HINTS = {
    "^": "Write ** for a power.",
    "×": "Write * to multiply.",
    "÷": "Write / to divide.",
    "−": "Write - with the plain hyphen.",
    "%": "% is the remainder: write 15 / 100 for 15%.",
    ",": "Write large numbers without commas: 1000000.",
    "=": "Give the expression alone, without =.",
    "$": "Leave out currency signs.",
    "math.": "Write the function's name alone, such as sqrt(2).",
}
