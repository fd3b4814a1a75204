"""`session.context`: seen and steered between runs, while one goes on, and for a record that came from elsewhere."""

import asyncio
import math
from contextlib import suppress

import pairing
import pytest
from hypothesis import given, settings, strategies as st

from harness_nb import Session, UsageError, call, say, scripted, tool
from harness_nb.context.compact import NotCompactedError
from harness_nb.events import DecisionMade, Notice
from harness_nb.jupyter.approval import AtTheCell
from harness_nb.jupyter.decision_card import DecisionCard
from harness_nb.jupyter.session import defaults
from harness_nb.jupyter.terms import Ask
from harness_nb.jupyter.view import RunView
from harness_nb.messages import Summary, Transcript
from harness_nb.seams import Run

PAGE = "twelve green apples and a pear " * 60


def talking(*turns, **how):
    """A session whose tool gives long results, so that there is something to mask."""

    @tool(effects={"read"})
    def look(n: int) -> str:
        """Look at a page."""
        return f"{n}: {PAGE}"

    talk = Session()
    talk.tools = [look]
    talk.model = scripted(*turns, **how)
    return talk


async def looked(pages=5, *more, **how):
    """A session in which so many pages were looked at, in a window that is far from full."""
    asked = [say(*(call("look", n=n) for n in (2 * m, 2 * m + 1))) for m in range(pages)]
    talk = talking(*asked, "All seen.", *more, window=200_000, **how)
    await talk.run("Look at all of them.", show=False)
    return talk


def seen(talk):
    return talk.transcript.live()


async def test_a_mask_is_taken_back_to_the_very_messages_that_were_there():
    talk = await looked()
    before = seen(talk)
    masked = talk.context.mask()
    assert talk.context.fill.total == masked.after < masked.before
    assert seen(talk) != before
    undo = talk.context.undo()
    assert undo.why == f"You took decision 1 back: {masked.why}"
    assert seen(talk) == before


async def test_undo_goes_back_one_decision_after_the_other_and_then_says_that_none_is_left():
    talk = await looked(5, "A short summary.")
    before = seen(talk)
    first, second = talk.context.mask(), await talk.context.compact()
    assert [talk.context.undo().undoes for _ in range(2)] == [second.id, first.id]
    assert seen(talk) == before
    for which, why in ((-1, "no decision about the context to take back"), (1, "was taken back already")):
        with pytest.raises(UsageError, match=why):
            talk.context.undo(which)
    with pytest.raises(UsageError, match="There is no decision 9: decisions are numbered 1 to 4"):
        talk.context.undo(9)
    assert len(talk.context.decisions) == 4


async def test_an_undo_can_be_taken_back_by_its_number():
    talk = await looked()
    talk.context.mask()
    masked = seen(talk)
    talk.context.undo()
    talk.context.undo(2)
    assert seen(talk) == masked


async def test_no_undo_masks_what_is_pinned():
    talk = await looked()
    talk.context.mask()
    talk.context.undo()
    talk.context.pin(3)
    with pytest.raises(
        UsageError, match="Message 3 is pinned, and this would mask or hide it: unpin it first"
    ):
        talk.context.undo(2)


async def test_a_pinned_message_comes_back_with_its_call_and_survives_mask_and_summary():
    talk = await looked(5, "A short summary.", "Another.")
    await talk.context.compact()
    result = talk.transcript.messages[2]
    assert result not in seen(talk)
    pin = talk.context.pin(3)
    assert set(pin.pins) == {m.id for m in talk.transcript.messages[1:3]}
    assert [m for m in talk.transcript.messages[1:3] if m not in seen(talk)] == []
    assert any(isinstance(part, Summary) for m in seen(talk) for part in m.parts), "the summary stays, too"
    talk.context.mask()
    assert result in seen(talk)
    with pytest.raises(UsageError, match="Message 3 is pinned already"):
        talk.context.pin(3)


async def test_unpinning_lets_it_go_where_it_was_and_only_what_is_pinned_can_be():
    talk = await looked()
    talk.context.mask()
    before = seen(talk)
    talk.context.pin(3)
    assert seen(talk) != before
    talk.context.unpin(3)
    assert seen(talk) == before
    with pytest.raises(UsageError, match="Message 3 is not pinned"):
        talk.context.unpin(3)
    for number in (0, -1, 99):
        with pytest.raises(UsageError, match=r"There is no message .*: messages are numbered 1 to 12"):
            talk.context.pin(number)


async def test_what_cannot_be_done_says_why_and_changes_nothing():
    talk = talking("Hello.", window=200_000)
    with pytest.raises(UsageError, match="no old tool result to mask"):
        talk.context.mask()
    with pytest.raises(NotCompactedError, match="nothing new to summarise"):
        await talk.context.compact()
    with pytest.raises(UsageError, match="there is no message yet"):
        talk.context.pin(1)
    assert talk.transcript.entries == ()
    assert (await talk.run("Hi", show=False)).text == "Hello."


async def test_a_record_from_elsewhere_is_seen_and_steered_before_any_run():
    talk = Session()
    talk.model = scripted("Go on.")
    talk.transcript = Transcript((await looked()).transcript.entries)
    assert [turn.turn for turn in talk.context.turns] == [1, 2, 3, 4, 5, 6]
    assert all(turn.usage.estimated for turn in talk.context.turns)
    assert talk.context.fill.total > 0
    talk.context.mask()
    talk.context.undo()
    talk.context.pin(3)
    assert (await talk.run("More", show=False)).text == "Go on."
    assert [turn.usage.estimated for turn in talk.context.turns] == [True] * 7
    assert talk.context.turns[-1].run != ""


async def test_turns_are_those_of_this_conversation():
    talk = talking("one", "two", window=200_000)
    await talk.run("a", show=False)
    talk.new()
    assert talk.context.turns == []
    await talk.run("b", show=False)
    assert [turn.message_id for turn in talk.context.turns] == [talk.transcript.messages[-1].id]


async def test_the_frame_has_a_row_for_each_turn_and_its_sums_are_the_fills():
    talk = await looked()
    frame = talk.context.to_frame()
    assert len(frame) == 6
    parts = frame[["system", "tools", "user", "assistant", "results"]].sum(axis=1)
    assert (parts == frame["total"]).all()
    assert frame["share"].between(0.01, 0.5).all()
    assert list(frame["state"].unique()) == ["green"]
    empty = Session().context.to_frame()
    assert (len(empty), list(empty.columns)) == (0, list(frame.columns))


async def test_where_no_window_is_known_the_share_is_no_number():
    talk = talking("Hi.")
    await talk.run("Hello", show=False)
    row = talk.context.to_frame().iloc[0]
    assert math.isnan(row["share"])
    assert (row["state"], row["window"]) == ("unknown", 0)


class Steering:
    """A session whose person acts in the middle of a run: when its model is asked, or when its tool runs."""

    def __init__(self, act, where, turn=6):
        self.act, self.where, self.turn = act, where, turn
        self.talk = talking(window=200_000)
        self.turns = 0
        self.talk.tools = [tool(effects={"read"})(self.look)]
        self.talk.model = self
        self.requests = []

    name, window = "steered", 200_000

    def look(self, n: int) -> str:
        """Look at a page."""
        if self.where == "tool" and n == 8:
            self.act(self.talk.context)
        return f"{n}: {PAGE}"

    async def __call__(self, request, run):
        self.requests.append(request)
        self.turns += 1
        if self.where == "model" and self.turns == self.turn:
            before = self.talk.transcript.entries
            self.act(self.talk.context)
            await asyncio.sleep(0)
            assert self.talk.transcript.entries == before, "a request on its way stays what its record says"
        return say(call("look", n=self.turns)) if self.turns < 9 else say("All seen.")


@pytest.mark.parametrize("where", ["model", "tool"])
@pytest.mark.parametrize("act", ["pin", "mask"])
async def test_in_the_middle_of_a_run_it_takes_hold_before_the_next_request(where, act):
    steering = Steering(lambda context: getattr(context, act)(*((3,) if act == "pin" else ())), where)
    result = await steering.talk.run("Look.", show=False)
    assert result.reason == "done"
    (decision,) = steering.talk.context.decisions
    assert decision.by == ("you" if act == "pin" else "mask")
    changed = [
        n
        for n, r in enumerate(steering.requests)
        if any("[Masked" in m.results[0].text for m in r.messages if m.results)
    ]
    assert changed == ([] if act == "pin" else [6, 7, 8] if where == "model" else [8])
    for turn in steering.talk.context.turns:
        sent = steering.requests[turn.turn - 1].messages
        assert Transcript(steering.talk.transcript.entries[: turn.entries]).live() == sent


async def test_a_double_undo_while_a_reply_is_on_its_way_is_one():
    def twice(context):
        context.undo()
        with pytest.raises(UsageError, match="was taken back already"):
            context.undo(1)

    steering = Steering(twice, "nowhere", turn=9)
    await steering.talk.run("Look.", show=False)
    steering.talk.context.mask()
    steering.where, steering.turns = "model", 8
    await steering.talk.run("Again.", show=False)
    assert len(steering.talk.context.decisions) == 2


async def test_clicks_that_come_late_twice_or_from_elsewhere_do_nothing():
    talk = await looked()
    mask = talk.context.mask()
    undo = {"act": "undo", "decision": mask.id}
    foreign = [
        {"act": "undo", "decision": "x"},
        {"act": "pin", "message": "x"},
        {"act": "pin"},
        {"act": 3},
        {},
    ]
    assert [talk.context.clicked(click) for click in foreign] == [""] * 5
    assert len(talk.context.decisions) == 1
    talk.context.clicked(undo)
    assert talk.context.clicked(undo) == "Decision 1 was taken back already. Nothing has changed."
    assert len(talk.context.decisions) == 2
    message = talk.transcript.messages[2].id
    assert talk.context.clicked({"act": "pin", "message": message}) == "Message 3 stays word for word."
    talk.new()
    assert talk.context.clicked(undo) == ""


async def test_what_is_wished_for_as_a_run_ends_is_done_before_the_next_one_asks():
    steering = Steering(lambda context: context.mask(), "model", turn=9)
    await steering.talk.run("Look.", show=False)
    assert steering.talk.context.decisions == ()
    await steering.talk.run("More.", show=False)
    assert [decision.by for decision in steering.talk.context.decisions] == ["mask"]
    assert "[Masked" in steering.requests[-1].messages[2].results[0].text


class Place:
    """Where a person sees a run, who answers each question about its context alike: by a click or by text."""

    def __init__(self, asker, answer, how):
        self.view, self.heard, self.asker, self.answer = RunView("Look."), [], asker, answer
        self.clicks = how == "click"
        self.input = (lambda _: answer) if how == "text" else None

    async def clickable(self):
        if self.clicks:
            asyncio.get_running_loop().call_soon(self.click)
        return self.clicks

    def click(self):
        (card,) = [s for s in self.view.segments if isinstance(s, DecisionCard) and s.state == "asking"]
        assert not self.asker.proposals.clicked({"question": "another", "answer": "allow"})
        for answer in ("nonsense", self.answer, "deny" if self.answer == "allow" else "allow"):
            assert self.asker.clicked({"question": card.decision.id, "answer": answer}) == ""

    def listener(self, event):
        self.view.take(event)
        self.heard.append(event)


@pytest.mark.parametrize(
    ("how", "answer", "taken"),
    [
        ("click", "allow", True),
        ("click", "deny", False),
        ("text", "y", True),
        ("text", "n", False),
        ("nobody", "", True),
    ],
)
async def test_with_ask_context_a_decision_waits_for_the_person_if_there_is_one(shell, how, answer, taken):
    defaults.ask_context = True
    talk = talking(*[say(call("look", n=n)) for n in range(12)], "Done.", "So.", "So.", window=8_000)
    asker = AtTheCell()
    place = asker.proposals.place = Place(asker, answer, how)
    await talk._agents.made(Ask(), asker).run("Look.", Run(talk.transcript, place.listener))
    kept = [e for e in place.heard if isinstance(e, Notice) and e.text == "You kept the context as it was."]
    made = [e.decision for e in place.heard if isinstance(e, DecisionMade)]
    assert (bool(made), bool(kept)) == (taken, not taken)
    cards = [segment for segment in place.view.segments if isinstance(segment, DecisionCard)]
    assert {card.state for card in cards} == {"taken" if taken else "declined"}
    assert len(cards) == len(made) + len(kept)


DECIDE = st.lists(
    st.tuples(st.sampled_from(["undo", "pin", "unpin", "mask"]), st.integers(1, 14)), max_size=12
)


@settings(max_examples=40, deadline=None)
@given(DECIDE)
def test_whatever_is_asked_nothing_pinned_is_lost_and_taking_all_back_restores_the_very_messages(steps):
    talk = asyncio.run(looked())
    whole = seen(talk)
    for step, number in steps:
        with suppress(UsageError):
            getattr(talk.context, step)(*(() if step == "mask" else (number,)))
        pinned = talk.transcript.pinned()
        assert [m for m in talk.transcript.messages if m.id in pinned and m not in seen(talk)] == []
        assert pairing.faults(seen(talk)) == []
    with suppress(UsageError):
        while True:
            talk.context.undo()
    assert seen(talk) == whole
