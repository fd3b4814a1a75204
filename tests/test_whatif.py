"""What a measure would do is worked out without doing it."""

import copy

import pytest
from played import WINDOW, played

from harness_nb.context.turns import rows, turns_of
from harness_nb.context.whatif import what_if
from harness_nb.errors import UsageError


def state(account, transcript):
    """All that could change, as a copy."""
    kept = copy.copy(account._anchor), dict(account._tally._sums), account._tally._messages
    return transcript.entries, tuple(account.turns), *kept


@pytest.mark.parametrize("measure", ["mask", "compact", 100_000])
def test_nothing_changes(measure):
    account, transcript = played()
    before = state(account, transcript)
    what_if(account, account.turns[-1], transcript, measure)
    assert state(account, transcript) == before
    assert account.window is WINDOW


def test_masking_all_would_leave_the_newest_results():
    account, transcript = played()
    found = what_if(account, account.turns[-1], transcript, "mask")
    assert found.before == account.turns[-1].fill
    assert found.said == "4 old tool results would be one line each."
    assert 0.35 < found.after.total / found.before.total < 0.55


def test_a_summary_is_counted_as_large_as_it_is_said_to_be():
    account, transcript = played()
    small, large = (
        what_if(account, account.turns[-1], transcript, "compact", summary=n) for n in (100, 2_000)
    )
    assert small.after.tokens["summaries"] < large.after.tokens["summaries"] < 4_000
    assert small.after.total < small.before.total
    assert "taken to have 100 tokens" in small.said


def test_another_window_is_judged_by_the_same_tokens():
    account, transcript = played()
    found = what_if(account, account.turns[-1], transcript, 8_000)
    assert found.after.tokens == found.before.tokens
    assert found.after.state == "red"
    assert found.said.endswith("too many.")
    assert what_if(account, account.turns[-1], transcript, 10**6).said.endswith("would fit.")


def test_where_there_is_nothing_to_do_nothing_would_change():
    account, transcript = played(turns=1)
    for measure in ("mask", "compact"):
        found = what_if(account, account.turns[-1], transcript, measure)
        assert found.said.startswith("There is nothing to ")
        assert found.after.tokens == found.before.tokens


@pytest.mark.parametrize(("measure", "summary"), [(0, 800), (-5, 800), ("compact", 0)])
def test_sizes_that_cannot_be_are_one_sentence(measure, summary):
    account, transcript = played(turns=2)
    with pytest.raises(UsageError, match=r"tokens can't be: give a number above 0\."):
        what_if(account, account.turns[-1], transcript, measure, summary=summary)


def test_turns_of_another_conversation_are_left_out_and_missing_ones_rebuilt():
    account, transcript = played(turns=3)
    other, elsewhere = played(turns=2)
    account.turns += other.turns
    assert turns_of(transcript, account) == account.turns[:3]
    rebuilt = turns_of(elsewhere)
    assert [record.entries for record in rebuilt] == [record.entries for record in other.turns]
    assert all(record.usage.estimated for record in rebuilt)


def test_turns_as_rows_say_what_was_counted_and_by_how_much_the_estimate_was_off():
    account, transcript = played(turns=3)
    first, *_, last = rows(account.turns)
    assert first["turn"] == 1
    assert last["total"] == sum(account.turns[-1].fill.tokens.values())
    assert last["counted"] == account.turns[-1].usage.input
    assert last["error"] == account.turns[-1].error
    assert rows(turns_of(transcript))[0]["counted"] is None
