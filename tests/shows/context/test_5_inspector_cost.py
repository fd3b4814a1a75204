"""Line 5: `%context` opens a session of 2,000 messages in under a second of CPU, and what it saves stays small."""

import time

import pytest
from played import played

from harness_nb.context.turns import turns_of
from harness_nb.context.vocabulary import OFFLINE
from harness_nb.context.window import Window
from harness_nb.encoding import decode, encode
from harness_nb.jupyter.inspection import Inspection
from harness_nb.jupyter.inspector_pages import Pages
from harness_nb.jupyter.inspector_record import bundle
from harness_nb.jupyter.session import Session
from harness_nb.messages import Transcript

TURNS = 1_000
"""A call and its result each: 2,001 messages."""
WIDE = Window(1_000_000, 8_192, source="configuration")


def spent(work):
    """CPU seconds of some work, and what it returned."""
    began = time.process_time()
    done = work()
    return time.process_time() - began, done


def opened(session, account=None):
    """What is drawn when the cell runs: the first page, and the twin that is saved."""
    own = account is not None
    look = (
        Inspection(session.name, session.transcript, turns_of(session.transcript, account), account)
        if own
        else Inspection.of(session)
    )
    pages = Pages(session, look)
    return pages, pages.shown({}), bundle(look)


@pytest.mark.usefixtures("alone")
def test_a_session_of_2000_messages_opens_in_under_a_second_of_cpu():
    _opens_quickly()


def _opens_quickly():
    account, transcript = played(TURNS, 220, window=WIDE, encoding=OFFLINE, masked_at=900)
    session = Session("long")
    session.transcript = transcript
    tries = [spent(lambda: opened(session, account)) for _ in range(3)]
    seconds, (pages, first, forms) = min(tries, key=lambda tried: tried[0])
    turned, _ = spent(lambda: pages.shown({"turn": 500, "tab": "parts", "order": "sent"}))
    compared, answer = spent(lambda: pages.shown({"turn": 900, "tab": "change"}))
    supposed, _ = spent(lambda: pages.shown({"turn": 950, "tab": "what_if"}))
    saved = sum(map(len, forms.values()))
    print(
        f"{len(transcript.messages):,} messages: opened in {seconds:.2f} s of CPU, another turn {turned:.2f} s, the turn "
        f"whose prefix broke compared {compared:.2f} s, what if {supposed:.2f} s; "
        f"saved {saved / 1e3:.0f} kB, of which HTML {len(forms['text/html']) / 1e3:.0f} kB"
    )
    assert len(transcript.messages) > 2_000
    assert first["turns"] == TURNS
    assert "The prefix broke at byte" in answer["body"]
    assert seconds < 1.0
    assert max(turned, compared, supposed) < 0.5
    assert saved < 75_000


@pytest.mark.usefixtures("alone")
def test_the_same_session_loaded_from_disk_is_counted_anew_within_two_seconds():
    _, transcript = played(TURNS, 220, window=WIDE, encoding=OFFLINE, masked_at=900)
    session = Session("loaded")
    tries = []
    for _ in range(3):
        session.transcript = Transcript(decode(encode(entry)) for entry in transcript.entries)
        tries.append(spent(lambda: opened(session)))
    seconds, (_, first, _) = min(tries, key=lambda tried: tried[0])
    print(f"the same without its account, every message counted anew: {seconds:.2f} s of CPU")
    assert first["turns"] == TURNS
    assert seconds < 2.0
