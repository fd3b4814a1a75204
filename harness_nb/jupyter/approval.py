"""Asks the person at the cell whether a call may run: by buttons, else by text, else after the cell. Fits safety's Approver.

Theory of operation. Whether a click reaches a kernel while its cell runs depends on the kernel, the front
end and the cell, so nothing is assumed: a live view that has been heard from during this run can be clicked.
Otherwise the same question is put as text through `input()`, on the cell's own thread. Where that can't be
but a person has the page open, the run is suspended: its cell ends, and a decision takes it up again.
Where there is nobody at all the answer is no. One question is put at a time; what a person decides on is
the view's own state, and a decision that names another question, or other arguments, does nothing.
"""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Protocol

from harness_nb.errors import RunStop
from harness_nb.events import ApprovalAsked, Preview
from harness_nb.jupyter.asking import Asking, put_as_text
from harness_nb.jupyter.bridge import in_the_cell
from harness_nb.jupyter.proposals import Proposals
from harness_nb.jupyter.segments import ToolUse
from harness_nb.jupyter.view import RunView
from harness_nb.messages import ToolCall
from harness_nb.safety.approvals import Answer, OpenQuestions, Question, nobody
from harness_nb.seams import Run
from harness_nb.strict import parse_arguments
from harness_nb.tools import Tool, Toolbox

Json = dict[str, object]

CHOICES = "Allow once (a), {}edit the arguments (e), deny (d), or deny with a reason (d REASON): "
SESSION = "for this session ({}), "


class Place(Protocol):
    """Where a run is shown, as far as a question needs it."""

    @property
    def view(self) -> RunView:
        """What is shown, as data."""
        ...

    def listener(self, event: ApprovalAsked) -> None:
        """Show a question anew, about other arguments."""
        ...

    async def clickable(self) -> bool:
        """Tell whether a click would be heard now."""
        ...

    @property
    def input(self) -> Callable[[str], str] | None:
        """How a line is read from the person, if they can be asked for one."""
        ...

    async def attended(self) -> bool:
        """Tell whether somebody sees it, and so may decide once the cell is over."""
        ...


def _too_late(_question: Question, _answer: Answer) -> str:
    return "This run can't be taken up again."


class AtTheCell:
    """Puts the questions of one run to the person who sees its cell."""

    def __init__(
        self, timeout: float | None = None, resume: Callable[[Question, Answer], str] = _too_late
    ) -> None:
        """An `input()` ends after `timeout` seconds, and the answer is no; with buttons, that is the gate's part.

        `resume` takes a suspended run up again with a decision; it returns in a sentence why it can't.
        """
        self.waiting: list[Question] = []
        """The questions that the run was suspended with."""
        self.proposals = Proposals(timeout)
        """Asks about decisions on the context, at the same place."""
        self._resume = resume
        self._place: Place | None = None
        self._tools: dict[str, Tool] = {}
        self._timeout = timeout
        self._open = OpenQuestions()
        self._edits: dict[str, Mapping[str, object]] = {}
        self._one_at_a_time = asyncio.Lock()

    def attend(self, place: Place, tools: Toolbox) -> None:
        """Ask at this place, about calls of these tools."""
        self._place = self.proposals.place = place
        self._tools = {item.name: item for item in tools}

    async def __call__(self, question: Question, run: Run) -> Answer:
        """Wait for the person's answer. Raises RunStop where it can only come once the cell is over."""
        place = self._place
        if (early := self._open.early(question)) is not None:
            return early
        if place is None:
            return await nobody(question, run)
        # Open before it is known whether clicks arrive: one may come first.
        answered = asyncio.ensure_future(self._open(question, run))
        try:
            if await place.clickable():
                return await answered
        finally:
            answered.cancel()
        async with self._one_at_a_time:
            if (read := place.input) is not None:
                answer = await in_the_cell(lambda: self._by_text(question, read))
                if answer is not None:
                    return answer
            if not await place.attended():
                return await nobody(question, run)
            self.waiting.append(question)
            raise RunStop("suspended", f"`{question.call.spec.name}` waits for you.")

    def decide_ahead(self, question: Question, answer: Answer) -> None:
        """Answer the same call when the run that was suspended with this question goes on."""
        self._open.decide_ahead(question, answer)

    def edited(self, question: Question, raw: str) -> Answer | str:
        """Make the answer that allows the call with other arguments; or say in a sentence why they can't be used."""
        asking = self._asking(question.id)
        fault = self._edit(question, asking, raw) if asking is not None else "The question was withdrawn."
        return fault or self.allowed(question)

    def clicked(self, click: Json) -> str:
        """Take a decision from the live view; return what is wrong with it, empty if nothing."""
        if self.proposals.clicked(click):
            return ""
        asking = self._asking(click.get("question"))
        open_now = (*self._open.open, *self.waiting)
        question = next((q for q in open_now if asking and q.id == asking.asked.id), None)
        if question is None or asking is None or asking.seal != click.get("seal"):
            return ""
        answer = None
        match click:
            case {"answer": "allow"}:
                answer = self.allowed(question)
            case {"answer": "session", "scope": str(scope)} if scope in asking.scopes:
                place = asking.scopes.index(scope)
                answer = question.allow(scope=question.scopes[place])
            case {"answer": "deny", "reason": str(reason)}:
                answer = question.deny(reason.strip())
            case {"answer": "edit", "arguments": str(raw)}:
                return self._edit(question, asking, raw)
            case _:
                pass
        if answer is not None:
            if question in self.waiting:
                return self._resume(question, answer)
            self._open.decide(question.id, answer)
        return ""

    def _asking(self, identity: object) -> Asking | None:
        segments = self._place.view.segments if self._place is not None else ()
        uses = (s for s in segments if isinstance(s, ToolUse) and s.state == "asking")
        return next((use.asking for use in uses if use.asking and use.asking.asked.id == identity), None)

    def allowed(self, question: Question) -> Answer:
        """Make the answer that allows a call once, with the arguments as they are shown now."""
        return question.allow(edited=self._edits.get(question.id))

    def _edit(self, question: Question, asking: Asking, raw: str) -> str:
        """Show the question with other arguments; return in a sentence why they can't be used."""
        spec = question.call.spec
        try:
            given = self._tools[spec.name].signature.read(parse_arguments(raw))
            text = json.dumps(given, ensure_ascii=False)
        except Exception as fault:  # noqa: BLE001 - a validator is the user's code and may raise anything
            return f"These arguments don't fit: {fault} Nothing was changed."
        preview: Preview | None
        try:
            preview = spec.preview(given) if spec.preview is not None else None
        except Exception as fault:  # noqa: BLE001 - so may a preview
            return f"These arguments can't be used: {fault} Nothing was changed."
        self._edits[question.id] = given
        call = ToolCall(asking.asked.call.id, asking.asked.call.name, text)
        if self._place is not None:
            self._place.listener(replace(asking.asked, call=call, preview=preview))
        return ""

    def _by_text(self, question: Question, read: Callable[[str], str]) -> Answer | None:
        """Ask in words until the answer can be understood; None where a person can't be asked for words after all."""
        try:
            with _alarm(self._timeout):
                return self._dialogue(question, read)
        except _OutOfTimeError:
            return question.deny("No answer came in time.", by="timeout")

    def _dialogue(self, question: Question, read: Callable[[str], str]) -> Answer | None:
        told = ""
        while True:
            asking = self._asking(question.id)
            if asking is None:
                return question.deny("The question was withdrawn.", by="nobody")
            scopes = ", ".join(
                f"s{n + 1} {scope}" if len(asking.scopes) > 1 else f"s: {scope}"
                for n, scope in enumerate(asking.scopes)
            )
            if told != asking.seal:
                print(put_as_text(asking), flush=True)  # noqa: T201 - the question
                told = asking.seal
            try:
                choice, _, rest = (
                    read(CHOICES.format(SESSION.format(scopes) if scopes else "")).strip().partition(" ")
                )
                if (answer := self._understood(question, asking, choice.lower(), rest)) is not None:
                    return answer
                if choice.lower() == "e":
                    raw = rest or read("The arguments as one line of JSON: ")
                    if fault := self._edit(question, asking, raw):
                        print(fault, flush=True)  # noqa: T201 - part of the dialogue
            except NotImplementedError:
                return None
            except EOFError:
                return question.deny("Nobody is here to allow it.", by="nobody")

    def _understood(self, question: Question, asking: Asking, choice: str, rest: str) -> Answer | None:
        if choice == "a":
            return self.allowed(question)
        if choice == "d":
            return question.deny(rest.strip())
        if choice[:1] == "s" and asking.scopes:
            number = choice[1:] or "1"
            if number.isdecimal() and 1 <= int(number) <= len(asking.scopes):
                return question.allow(scope=question.scopes[int(number) - 1])
        return None


class _OutOfTimeError(BaseException):
    """Not an Exception: a kernel's `input()` swallows those."""


@contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    """End an `input()` after so many seconds, where the machine has alarms; nothing else can."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise _OutOfTimeError

    main = threading.current_thread() is threading.main_thread()
    if seconds is None or not main or not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
