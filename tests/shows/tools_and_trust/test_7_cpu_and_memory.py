"""Line 7: what the gates and the checks of a call cost over a bare call, and what one huge result costs."""

import pytest
from bench.gates import CASES, huge, measured, report, report_huge

pytestmark = pytest.mark.slow

MICROSECONDS = 100
SECONDS = 1.0
MEMORY = 120_000_000


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("alone")
def test_gates_and_checks_cost_little_more_than_a_bare_call(case):
    figures = measured(case, rounds=400, enough=lambda found: found.overhead <= MICROSECONDS)
    print("\n" + report(case, figures))
    assert figures.overhead / figures.slowness <= MICROSECONDS


@pytest.mark.parametrize("text", ["x", "日"])
@pytest.mark.usefixtures("alone")
def test_one_line_of_36_million_characters_is_handled(text):
    figures = huge(text)
    print("\n" + report_huge(text, figures))
    assert figures.seconds < SECONDS * figures.slowness
    assert figures.memory < MEMORY
