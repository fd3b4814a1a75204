"""Show 1 and case R13: kernels x ways to run x ways to decide: never a hang, never a run that nobody allowed, always a valid transcript."""

import itertools
import json
import time
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from kernel.rig import NEWEST, VERSIONS, running

pytestmark = pytest.mark.kernel

PATHS = ("awaited", "function", "background", "headless")
ROWS = [
    # ipykernel, how the run is started, how the person is reached while it goes on
    *((NEWEST, "awaited", how) for how in ("click", "text")),
    (NEWEST, "function", "text"),
    *((NEWEST, "background", how) for how in ("click", "click in a thread", "later")),
    (NEWEST, "headless", "nobody"),
    *(("7.3", "awaited", how) for how in ("click aside", "text")),
    *(("7.3", "function", how) for how in ("click aside", "text")),
    *(("7.3", "background", how) for how in ("click", "click in a thread", "later")),
    ("7.3", "headless", "nobody"),
    ("6.31", "awaited", "text"),
    ("6.31", "function", "text"),
    *(("6.31", "background", how) for how in ("click", "click in a thread", "later")),
    ("6.31", "headless", "nobody"),
]
"""Each ipykernel has every path, by each way that a click or a line of text can take there. `aside` is over a subshell."""


@dataclass(frozen=True)
class Case:
    """What a person does, and what must come of it."""

    answers: tuple[str, ...]
    ran: tuple[str, ...]
    by: tuple[str, ...]
    recorded: str


CASES = {
    "allow": Case(("allow", "allow"), ("a", "a"), ("you", "you"), "allowed by you, once"),
    "deny": Case(("deny", "deny too risky"), (), ("you", "you"), "denied by you: too risky"),
    "edit": Case(("edit", "deny"), ("b",), ("you", "you"), "edited and allowed by you, once"),
    "always": Case(("always",), ("a", "a"), ("you", "granted"), "allowed by you, for this session"),
    "timeout": Case((), (), ("timeout", "timeout"), "denied: no answer came in time"),
    "interrupt": Case(("interrupt",), (), ("interrupted",), "stopped before it was decided"),
}
NOBODY = Case((), (), ("nobody", "nobody"), "denied: there was nobody to ask")
LATER = Case((), (), ("superseded",), "waits for you")
INTERRUPTED = Case(("interrupt",), (), ("nobody",), "Stopped by you")

SETUP = """
%load_ext harness_nb
import asyncio, json, harness_nb
from harness_nb import call, say, scripted, tool
from harness_nb.jupyter.session import defaults
from harness_nb.jupyter.widget import LiveRun
ran = []

@tool(effects={"write"})
def touch(path: str) -> str:
    "Touch a file."
    ran.append(path)
    return "touched"

async def endless(request):
    print("at it", flush=True)
    await asyncio.sleep(60)

def script(name, *, patience, listens, waits):
    global s
    ran.clear()
    defaults.patience = patience
    LiveRun.patience.update({True: listens, False: listens})
    s = harness_nb.session(name)
    touches = [say(call("touch", path="a"))] * (1 if waits else 2)
    s.model = scripted(*touches, endless if waits else "Done.", "Fine.")

def facts():
    calls = [c.id for m in s.transcript.messages for c in m.calls]
    answered = [r.call_id for m in s.transcript.messages for r in m.results]
    print(json.dumps([ran, [past.by for past in s.approvals.history], calls == answered]))
"""
RUN = {
    "awaited": "%agent --session {name} go",
    "function": "def go():\n    %agent --session {name} go\ngo()",
    "headless": "%agent --session {name} go",
    "background": "task = asyncio.create_task(s.run('go')); await asyncio.sleep(0.05)",
    "thread": "task = asyncio.create_task(asyncio.to_thread(s.run_blocking, 'go')); await asyncio.sleep(0.05)",
}
LINES = {
    "allow": ["a"],
    "deny": ["d"],
    "deny too risky": ["d too risky"],
    "edit": ["nonsense", "e", '{"path": "b"}', "a"],
    "always": ["s1"],
}
CLICKS = {
    "allow": {"answer": "allow"},
    "deny": {"answer": "deny", "reason": ""},
    "deny too risky": {"answer": "deny", "reason": "too risky"},
    "edit": {"answer": "edit", "arguments": '{"path": "b"}'},
}
WIDGET = "application/vnd.jupyter.widget-view+json"
SOON = 60
"""Seconds after which something hangs."""


class FrontEnd:
    """Draws a run's live view, and clicks on its cards."""

    def __init__(self, kernel, *, aside=False):
        self.kernel, self.aside, self.seen = kernel, aside, {}
        self._start = len(kernel.inbox)

    def sent(self, kind):
        return [message for message in self.kernel.inbox[self._start :] if message.type == kind]

    @property
    def live(self):
        shown = self.kernel.listen(lambda: self.sent("display_data"), SOON)
        return next(m.content["data"][WIDGET]["model_id"] for m in shown if WIDGET in m.content["data"])

    def tell(self, content):
        self.kernel.send_comm(self.live, {"method": "custom", "content": content}, aside=self.aside)

    def cards(self):
        """Each question that was shown, with the arguments it stood for."""
        live = [m.content["data"] for m in self.sent("comm_msg") if m.content["comm_id"] == self.live]
        news = [data.get("content", {}) for data in live]
        parts = [part for new in news for part in new.get("parts", {}).values()]
        return {(q["id"], q["seal"]): q for part in parts if (q := part.get("question"))}

    def next_card(self):
        found = self.kernel.listen(lambda: [q for k, q in self.cards().items() if k not in self.seen], SOON)
        assert found, "no card came"
        self.seen[found[0]["id"], found[0]["seal"]] = found[0]
        return found[0]

    def click(self, card, answer):
        self.tell({"ask": "decide", "question": card["id"], "seal": card["seal"], **answer})

    def decide(self, answer):
        card = self.next_card()
        match answer:
            case "interrupt":
                self.kernel.interrupt()
            case "always":
                self.click(card, {"answer": "session", "scope": card["scopes"][0]})
            case "edit":
                self.click(card, CLICKS["edit"])
                self.click(self.next_card(), CLICKS["allow"])
                self.click(card, CLICKS["allow"])  # of the arguments before: it must do nothing
            case _:
                self.click(card, CLICKS[answer])
                self.click(card, CLICKS["allow"])  # a double click, or another mind: the first one counts

    def clicks_too_late(self):
        for card in self.cards().values():
            self.click(card, CLICKS["allow"])

    @property
    def record(self):
        found = self.kernel.listen(lambda: self.sent("update_display_data"), SOON)
        return found[-1].content["data"]["text/plain"]


def started(kernel, case, number, way, how):
    """Script a session of this cell's own, and return the front end that watches it."""
    patience = 0.3 if case == "timeout" else None
    waits = way == "headless" and case == "interrupt"
    listens = 30.0 if "click" in how else 0.2
    facts = f"patience={patience}, listens={listens}, waits={waits}"
    assert kernel.execute(f"script('c{number}', {facts})", SOON).text == ""
    return FrontEnd(kernel, aside="aside" in how)


def in_the_cell(front, code, answers, how):
    """Run a cell that is at work while its questions are answered; return how it ended and the run's record."""
    cell = front.kernel.start(code)
    if "click" in how:
        front.tell({"ask": "whole"})  # a sign of life, as from a view being drawn
        for answer in answers:
            front.decide(answer)
    elif "interrupt" in answers:
        cell.wait_for("Allow a call of `touch`?", SOON)
        front.kernel.interrupt()
    cell.finish(SOON, [line for answer in answers for line in LINES.get(answer, ())])
    return cell.reply, front.record


def in_the_background(front, code, answers, how):
    """The same where the cell is over while the run goes on: an interrupt reaches cells alone, the Stop button both."""
    front.kernel.start(code).finish(SOON)
    if "click" in how:
        front.tell({"ask": "whole"})
        for answer in answers:
            front.decide(answer)
        if "interrupt" in answers:
            front.tell({"ask": "stop"})
    assert front.record  # awaited without a cell: 6.31 would put the question as text in whichever is at work
    ended = front.kernel.execute("await asyncio.wait({task}); task.result().reason", SOON)
    stopped = "interrupted" if "interrupt" in answers else "done"
    assert ended.text.endswith(repr("suspended" if how == "later" else stopped))
    return ended.reply, front.record


def without_a_person(front, code, answers, _how):
    """The same by nbclient; it can't interrupt, so that is done to a cell sent as it sends them."""
    if "interrupt" not in answers:
        (output,) = front.kernel.headless(code).cells[0].outputs
        return {"status": "ok"}, output["data"]["text/plain"]
    cell = front.kernel.start(code, stdin=False)
    cell.wait_for("at it", SOON)
    front.kernel.interrupt()
    return cell.finish(SOON).reply, cell.text


WAYS = {"headless": without_a_person, "background": in_the_background}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Kernels by version, each for all its rows."""
    found = {}
    with ExitStack() as open_ones:

        def start(version):
            kernel = open_ones.enter_context(running(version, tmp_path_factory.mktemp("kernel")))
            assert kernel.execute(SETUP).text == ""
            return kernel

        yield lambda version: found.get(version) or found.setdefault(version, start(version))


numbers = itertools.count()
took = []


def expectation(how, case):
    if how == "later":
        return LATER  # `%agent approve|deny|edit` take it from there: tests/kernel/test_suspend.py
    if how == "nobody":
        return INTERRUPTED if case == "interrupt" else NOBODY
    return CASES[case]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("version", "way", "how"), ROWS)
def test_every_cell(kernels, version, way, how, case):
    kernel, began, number = kernels(version), time.monotonic(), next(numbers)
    front = started(kernel, case, number, way, how)
    code = RUN["thread" if "thread" in how else way].format(name=f"c{number}")
    reply, record = WAYS.get(way, in_the_cell)(front, code, CASES[case].answers, how)
    expected = expectation(how, case)
    if how != "later":
        front.clicks_too_late()
    stopped = "interrupt" in case and way != "background"
    assert reply.get("traceback") == (["Interrupted."] if stopped else None)
    assert expected.recorded in record
    after = kernel.execute("(await s.run('go on', model=scripted('Fine.'), show=False)).text", SOON)
    assert after.text.endswith("'Fine.'")
    assert json.loads(kernel.execute("facts()", SOON).text) == [list(expected.ran), list(expected.by), True]
    took.append(time.monotonic() - began)


def test_the_table_is_whole():
    assert {(version, way) for version, way, _ in ROWS} == set(itertools.product(VERSIONS, PATHS))
    print(
        f"\n{len(took)} of {len(ROWS) * len(CASES)} cells in {sum(took):.0f} s; the longest took {max(took, default=0):.1f} s"
    )
