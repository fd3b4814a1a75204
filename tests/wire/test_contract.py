"""Every adapter, on every row of the shared table: what comes over the wire becomes the message it must become."""

import pytest
from wire.cases import ROWS
from wire.peer import Peer

from harness_nb.errors import ProviderError
from harness_nb.events import CallDelta, TextDelta, ThinkingDelta
from harness_nb.messages import Text, Thinking, user

BY_NAME = {"ids": lambda value: str(value).replace(" ", "_")}


@pytest.mark.parametrize(("wire", "row"), [pair for pair in ROWS if not pair[1].error], **BY_NAME)
async def test_a_turn_becomes_the_message_it_must(wire, row):
    peer, heard = Peer(wire, [row.wires[wire]]), []
    reply = await peer.ask(user("hi"), max_output=row.max_output, listener=heard.append)
    assert reply.message.parts == row.parts
    assert reply.stop == row.stop
    assert row.detail is None or reply.detail == row.detail
    assert reply.usage == row.usage if row.usage else reply.usage.input > 0
    assert shown(reply).items() <= streamed(heard).items() or not row.in_order


@pytest.mark.parametrize(("wire", "row"), [pair for pair in ROWS if pair[1].error], **BY_NAME)
async def test_a_turn_without_its_end_is_an_error(wire, row):
    with pytest.raises(ProviderError) as caught:
        await Peer(wire, [row.wires[wire]]).ask(user("hi"))
    assert row.error.items() <= vars(caught.value).items()


def streamed(events):
    """What a view heard: the text, the thinking, and the calls by id."""
    said = {
        "text": "".join(e.text for e in events if isinstance(e, TextDelta)),
        "thinking": "".join(e.text for e in events if isinstance(e, ThinkingDelta)),
    }
    for event in events:
        if isinstance(event, CallDelta):
            said[event.id, event.name] = said.get((event.id, event.name), "") + event.text
    return said


def shown(reply):
    """The same, of the whole reply."""
    text = "".join(part.text for part in reply.message.parts if isinstance(part, Text))
    thinking = "".join(part.text for part in reply.message.parts if isinstance(part, Thinking))
    written = {(call.id, call.name): call.raw.removesuffix("{}") for call in reply.message.calls}
    return {"text": text, "thinking": thinking, **written}
