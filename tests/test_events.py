"""Listeners hear every event, all of them, in order."""

import pytest

from harness_nb.events import Notice, fan_out


def test_all_listeners_hear_an_event_in_order():
    heard = []
    fan_out(lambda e: heard.append(("a", e.text)), lambda e: heard.append(("b", e.text)))(Notice("x"))
    assert heard == [("a", "x"), ("b", "x")]


def test_one_that_raises_does_not_keep_the_others_from_hearing():
    heard = []

    def bad(event):
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fan_out(bad, heard.append, bad)(Notice("x"))
    assert heard == [Notice("x")]


def test_no_listeners_is_silence():
    fan_out()(Notice("x"))
