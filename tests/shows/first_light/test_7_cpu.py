"""Line 7, CPU: a turn and a streamed delta of the whole harness against a raw HTTP-and-JSON loop, on every wire."""

import pytest
from bench.cpu import measured, report
from wire.speech import WIRES

pytestmark = pytest.mark.slow

PER_TURN = PER_DELTA = 3.0
GROWTH = 2.0


def ratios(ours, theirs):
    few, many = ours.few / theirs.few, ours.many / theirs.many
    return {"few": few, "many": many, "delta": ours.delta / theirs.delta, "growth": ours.many / ours.few}


def within(ours, theirs, share=1.0):
    found = ratios(ours, theirs)
    growth = found.pop("growth")
    return growth <= share * GROWTH and all(ratio <= share * PER_TURN for ratio in found.values())


@pytest.mark.parametrize("wire", WIRES)
def test_the_harness_costs_little_more_than_the_wire(wire):
    ours, theirs = measured(wire, rounds=4, enough=lambda *figures: within(*figures, share=0.9))
    print("\n" + report(wire, ours, theirs))
    found = ratios(ours, theirs)
    assert found["few"] <= PER_TURN
    assert found["many"] <= PER_TURN
    assert found["delta"] <= PER_DELTA
    assert found["growth"] <= GROWTH
