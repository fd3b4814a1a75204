"""What code prints goes on to its cell and is kept for the model, both within bounds."""

import io

import pytest
from hypothesis import given, strategies as st

from harness_nb.jupyter.tee import KEPT, SHOWN, STOPPED, Tee


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
def test_all_of_a_short_output_is_passed_on_and_kept(pieces):
    stream = io.StringIO(newline="")
    tee = Tee(stream)
    for piece in pieces:
        assert tee.write(piece) == len(piece)
    assert stream.getvalue() == tee.kept == "".join(pieces)


def test_a_flood_keeps_both_ends_and_little_memory_and_is_shown_no_further():
    stream = io.StringIO()
    tee = Tee(stream)
    tee.write("first\n")
    for _ in range(60):
        tee.write("x" * 100_000)
    tee.write("last\n")
    assert tee.kept.startswith("first\nxx")
    assert tee.kept.endswith("xxlast\n")
    assert f"\n[... {6_000_011 - 2 * KEPT:,} characters not kept ...]\n" in tee.kept
    assert len(tee._tail) <= 2 * KEPT
    assert stream.getvalue().endswith(
        "x\n[more is printed than 1,000,000 characters: the rest is not shown]\n"
    )
    assert stream.getvalue().count("x") == SHOWN - len("first\n")


def test_an_output_of_just_the_limit_is_shown_whole_and_one_more_says_so():
    stream = io.StringIO()
    tee = Tee(stream)
    tee.write("x" * SHOWN)
    assert stream.getvalue() == "x" * SHOWN
    tee.write("y")
    tee.write("z")
    assert stream.getvalue() == "x" * SHOWN + STOPPED


def test_half_a_character_and_what_is_no_text_are_met_as_a_stream_meets_them():
    stream = io.StringIO()
    tee = Tee(stream)
    tee.write("a\ud800b")
    assert stream.getvalue() == tee.kept == "a\ufffdb"
    with pytest.raises(TypeError, match="must be str, not bytes"):
        tee.write(b"x")
