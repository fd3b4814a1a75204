"""Bytes to events, however they are cut (R07)."""

import pytest
from hypothesis import given, strategies as st

from harness_nb.providers.sse import EventReader

ODD = '{"t":"a\u2028b\u0085c\u2029\x0b\x0c\x1c"}'


def read(*chunks):
    reader = EventReader()
    return [
        *(event.decode() for chunk in chunks for event in reader.feed(chunk)),
        *map(bytes.decode, reader.close()),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_only_line_ends_end_a_line(end):
    assert read(f"data: {ODD}{end}{end}data: 2{end}{end}".encode()) == [ODD, "2"]


def test_a_line_end_may_come_in_two_chunks():
    assert read(b"data: 1\r", b"\n\r", b"\ndata: 2\r\n", b"\r\n") == ["1", "2"]
    assert read(b"data: 1\r", b"\ndata: 2\r", b"\n\r", b"\n") == ["1\n2"]


def test_lone_carriage_returns_end_an_event_at_once():
    assert EventReader().feed(b"data: 1\r\r") == [b"1"]


def test_what_is_not_data_is_passed_over():
    assert read(b"\xef\xbb\xbfdata: 1\n\n: comment\nevent: x\nid: 7\nretry: 1\n\n\n\ndata:2\n\n") == [
        "1",
        "2",
    ]


def test_several_data_lines_are_one_event():
    assert read(b"data: a\ndata:  b\ndata\ndata:\n\n") == ["a\n b\n\n"]


def test_a_last_event_needs_no_blank_line():
    assert read(b"data: 1\n\ndata: 2") == ["1", "2"]


@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), min_size=1),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.data(),
)
def test_any_split_of_a_stream_gives_the_same_events(texts, end, data):
    stream = "".join(f"event: e{end}data: {text}{end}{end}" for text in texts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*chunks) == texts
