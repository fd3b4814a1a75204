"""The parts of a request: what they are, how large, how old, what a cache has of them and what became of them."""

from hypothesis import given, strategies as st

from harness_nb.context.account import Account, records_of
from harness_nb.context.count import counting
from harness_nb.context.mask import masking
from harness_nb.context.parts import out_of_sight, parts, sizes
from harness_nb.context.turns import turns_of
from harness_nb.context.window import Window
from harness_nb.messages import (
    Decision,
    Image,
    Message,
    Opaque,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Transcript,
    assistant,
    user,
)

COUNT = counting("characters")


def session(turns=6):
    transcript = Transcript([user("Fetch all.")])
    for n in range(turns):
        transcript.append(assistant("Next.", ToolCall(f"c{n}", "fetch", f'{{"n": {n}}}')))
        transcript.append(Message("tool", (ToolResult(f"c{n}", (Text(f"{n} " + "words " * 300),)),)))
    return transcript


def listed(transcript, turn=0, **more):
    turns = turns_of(transcript, Account(Window(), COUNT))
    return parts(turns, turn or len(turns), transcript, COUNT, **more)


def test_parts_come_in_order_with_kind_age_and_what_is_new():
    rows = listed(session(3))
    assert [row.kind for row in rows] == ["user", *["assistant", "call", "result"] * 2]
    assert [row.age for row in rows] == [2, 1, 1, 1, 0, 0, 0]
    assert [row.cache for row in rows] == ["cached"] * 4 + ["new"] * 3
    assert rows[3].what == "fetch n=0"
    assert rows[3].text.startswith("0 words")
    assert {row.fate for row in rows} == {"kept"}


def test_what_stands_behind_a_change_is_read_again():
    transcript = session(6)
    changes = masking(transcript.shown(), COUNT, keep=3)
    transcript.append(Decision("mask", "Full.", changes))
    transcript.append(Decision("you", "Keep it.", pins=(transcript.messages[-1].id,)))
    transcript.append(assistant("Done."))
    rows = listed(transcript)
    masked = [row.number for row in rows if row.fate == "masked"]
    assert len(masked) == 3
    assert {row.cache for row in rows if row.number < masked[0]} == {"cached"}
    assert {row.cache for row in rows if masked[0] < row.number < len(rows) - 3 and row.fate != "masked"} == {
        "again"
    }
    assert rows[-1].fate == "pinned"
    assert rows[-1].cache == "new"


def test_what_a_summary_replaced_is_listed_as_out_of_sight():
    transcript = session(3)
    gone = transcript.messages[1:5]
    changes = {message.id: () for message in gone} | {gone[-1].id: (Message("user", (Summary("S", 4),)),)}
    transcript.append(Decision("compact", "Full.", changes))
    transcript.append(assistant("Done."))
    rows = listed(transcript)
    assert [row.fate for row in rows] == ["kept", "summarised", "kept", "kept", "kept"]
    hidden = out_of_sight(records_of(transcript)[-1], transcript, COUNT)
    assert [row.fate for row in hidden] == ["summarised"] * 6
    assert hidden[0].line.name == "message 2 (assistant)"


def test_results_of_a_retrieving_tool_are_retrieved():
    assert "retrieved" in {row.kind for row in listed(session(2), retrieved={"fetch"})}
    assert "retrieved" not in {row.kind for row in listed(session(2))}


piece = st.one_of(
    st.builds(Text, st.text(max_size=40)),
    st.builds(Thinking, st.text(max_size=40)),
    st.builds(ToolCall, st.text(max_size=5), st.text(max_size=5), st.text(max_size=40)),
    st.builds(Summary, st.text(max_size=40), st.integers(0, 9)),
    st.builds(Image, st.binary(max_size=9), st.just("image/png")),
    st.builds(Opaque, st.just("v"), st.just('{"text": "hello"}')),
    st.builds(
        ToolResult,
        st.text(max_size=5),
        st.lists(st.builds(Text, st.text(max_size=40)), max_size=2).map(tuple),
    ),
)


@given(st.lists(piece, max_size=6), st.sampled_from(["user", "assistant", "tool"]))
def test_the_parts_of_a_message_sum_up_to_it(pieces, role):
    message = Message(role, tuple(pieces))
    found = sizes(message, COUNT)
    assert len(found) == len(pieces)
    assert not pieces or sum(found) == COUNT.message(message)


@given(st.lists(st.integers(0, 400), min_size=1, max_size=8))
def test_the_parts_of_a_request_sum_up_to_what_was_measured(lengths):
    transcript = Transcript([user("Go.")])
    for n in lengths:
        transcript.append(assistant("a" * n))
        transcript.append(user("b" * n))
    account = Account(Window(), COUNT)
    turns = turns_of(transcript, account)
    for turn, record in enumerate(turns, 1):
        rows = parts(turns, turn, transcript, COUNT)
        assert sum(row.tokens for row in rows) == record.fill.total
