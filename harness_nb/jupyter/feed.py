"""What a front end has to hear of a run: the whole once, then only what has changed since. Fits the listener socket.

    {"head": {...}, "parts": {"3": {"kind": "call", "name": "add", ...}, "4": {"more": " and"}}}

A part is sent once; later its fields are replaced one by one, and `more` is appended to its `body`.
`cut` says that the parts from that index on are void. Deltas are joined, so that the bytes sent grow
with the text and not with its square.
"""

from __future__ import annotations

from typing import TypeAlias

from harness_nb.events import CallDelta, Event, Fill, LimitMet, TextDelta, ThinkingDelta, TurnRestarted
from harness_nb.jupyter.asking import Asking
from harness_nb.jupyter.decision_card import DecisionCard
from harness_nb.jupyter.decision_face import card_face
from harness_nb.jupyter.gauge import full, pieces, told
from harness_nb.jupyter.segments import Note, Segment, ToolUse, Words
from harness_nb.jupyter.view import RunView
from harness_nb.jupyter.words import clipped, counted, pretty, tokens, visible

SHOWN = 4_000
"""Most characters of a call's arguments and of its result that a person can unfold."""

Json: TypeAlias = dict[str, object]
Part: TypeAlias = Json


class Feed:
    """Follows one run and says what is new."""

    def __init__(self, view: RunView) -> None:
        """Follow this view; give it its events by `hear` alone."""
        self.view = view
        self._sent: dict[int, Part] = {}
        self._more: dict[int, list[str]] = {}
        self._touched: set[int] = set()
        self._cut: int | None = None
        self._head: Json = {}

    def hear(self, event: Event) -> None:
        """Fold the event into the view, and note what it changed."""
        index = self.view.take(event)
        if index is None:
            return
        if isinstance(event, TurnRestarted | LimitMet):
            self._forget(index)
        elif index in self._sent:
            self._touched.add(index)
            if isinstance(event, TextDelta | ThinkingDelta | CallDelta):
                self._more.setdefault(index, []).append(event.text)

    def whole(self) -> Json:
        """Everything, for a front end that knows nothing yet."""
        parts = {str(i): self._face(s) | {"body": _body(s)} for i, s in enumerate(self.view.segments)}
        return {"prompt": visible(self.view.prompt), "head": self._current(), "parts": parts}

    def changes(self) -> Json:
        """What is new since the last call; empty if nothing."""
        new: Json = {}
        if self._cut is not None:
            new["cut"], self._cut = self._cut, None
        head = self._current()
        if _lasting(head) != _lasting(self._head):
            new["head"], self._head = head, head
        self._touched |= self.view.altered() & self._sent.keys()
        unsettled = (index for index, part in self._sent.items() if part.get("busy"))
        unsent = range(len(self._sent), len(self.view.segments))
        due = sorted({*self._touched, *unsettled, *unsent})
        patches = {str(index): patch for index in due if (patch := self._patch(index))}
        self._touched.clear()
        self._more.clear()
        if patches:
            new["parts"] = patches
        return new

    def _patch(self, index: int) -> Part:
        segment = self.view.segments[index]
        face, known = self._face(segment), self._sent.get(index)
        self._sent[index] = face
        if known is None:
            return face | {"body": _body(segment)}
        patch = {key: value for key, value in face.items() if known.get(key) != value}
        if more := "".join(self._more.get(index, ())):
            patch["more"] = visible(more)
        return patch

    def _face(self, segment: Segment) -> Part:
        return card_face(segment, self.view.at) if isinstance(segment, DecisionCard) else _face(segment)

    def _forget(self, start: int) -> None:
        self._cut = start if self._cut is None else min(self._cut, start)
        for kept in (self._sent, self._more):
            for gone in [index for index in kept if index >= start]:
                del kept[gone]
        self._touched = {index for index in self._touched if index < start}

    def _current(self) -> Json:
        view = self.view
        used = counted(view.usage.input + view.usage.output, "token") if view.usage.output else ""
        return {
            "model": visible(view.model),
            "version": view.versions.words,
            "doing": view.headline,
            "turn": f"turn {view.turn} of {view.limit}" if view.turn else "",
            "tokens": _together(used, view.bill.words),
            "about": _together(tokens(view.usage), view.bill.words),
            "gauge": _gauge(view.fill) if view.fill is not None else "",
            "ending": view.ending,
            "reason": view.reason or "",
            "elapsed": round(view.elapsed, 1),
        }


def _together(*words: str) -> str:
    return " · ".join(part for part in words if part)


def _gauge(fill: Fill) -> Json:
    known = fill.window > 0
    bar = [[group, width] for group, _, width in pieces(fill)] if known else []
    return {"words": full(fill), "told": told(fill), "state": fill.state if known else "unknown", "bar": bar}


def _lasting(head: Json) -> Json:
    """All but the clock: a front end counts on by itself."""
    return {key: value for key, value in head.items() if key != "elapsed"}


def _face(segment: Words | ToolUse | Note) -> Part:
    """All of a segment but what streams."""
    match segment:
        case Words(kind="text"):
            return {"kind": "text"}
        case Words():
            return {"kind": "thinking", "aside": segment.aside, "busy": segment.ended is None}
        case ToolUse():
            written = segment.state != "writing"
            return {
                "kind": "call",
                "name": visible(segment.name),
                "state": segment.state,
                "arguments": segment.arguments,
                "upshot": segment.upshot,
                "input": clipped(pretty(segment.edited or segment.raw), SHOWN) if written else "",
                "output": clipped(visible(segment.output), SHOWN),
                "busy": segment.busy,
                "question": _question(segment.asking) if segment.asking and segment.state == "asking" else "",
            }
        case Note():
            share = "" if segment.share is None else f"{segment.share:.2f}"
            return {"kind": "note", "text": visible(segment.text), "share": share}


def _question(asking: Asking) -> Json:
    """All that a person needs to decide, whole however long it is, and what their answer must name."""
    return {
        "id": asking.asked.id,
        "seal": asking.seal,
        "title": list(asking.title),
        "effects": list(asking.effects),
        "why": asking.why,
        "shows": asking.asked.preview.kind if asking.asked.preview is not None else "",
        "preview": asking.preview,
        "arguments": asking.arguments,
        "editable": asking.editable,
        "scopes": list(asking.scopes),
    }


def _body(segment: Segment) -> str:
    """Give what streams: words, or the arguments of a call while they are being written."""
    match segment:
        case Words():
            return visible(segment.text)
        case ToolUse(state="writing"):
            return visible(segment.raw)
        case _:
            return ""
