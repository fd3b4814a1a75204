"""The gate that asks: nothing runs that nobody allowed, an answer counts for exactly one call, and every end is told."""

import asyncio
import json
import threading
from dataclasses import replace

import pytest

from harness_nb.errors import RunStop
from harness_nb.events import ApprovalAsked, ApprovalDecided, Preview, ToolStarted
from harness_nb.messages import ToolCall
from harness_nb.safety.approvals import Answer, OpenQuestions, Question, nobody, permitted, unchanged
from harness_nb.safety.grants import Approvals, fingerprint
from harness_nb.safety.permission import Verdict, policy
from harness_nb.seams import Call, Run, ToolSpec
from harness_nb.tools import Toolbox, tool


class Shop:
    """A toolbox behind the gate, and all that came of it."""

    def __init__(self, ask=nobody, *, mode="ask", rules=(), approvals=None, timeout=None, between=()):
        self.done, self.events = [], []
        self.approvals = approvals or Approvals()
        self.run = Run(listener=self.events.append)

        @tool(effects={"write"}, preview=lambda arguments: Preview("diff", f"+{arguments['text']}"))
        def edit_file(path: str, text: str = "x") -> str:
            """Change a file."""
            self.done.append((path, text))
            return "changed"

        @tool(effects={"mutate"})
        def shell(command: str) -> str:
            """Run a command."""
            self.done.append(command)
            return "ran"

        @tool(effects={"read"})
        def look(at: int = 0) -> str:
            """Look."""
            self.done.append(at)
            return "seen"

        gate = permitted(policy(mode, rules), ask, self.approvals, timeout=timeout)
        self.dispatch = Toolbox([edit_file, shell, look]).dispatch(gate, *between, unchanged)

    async def call(self, name, **arguments):
        result = await self.dispatch(ToolCall("c1", name, json.dumps(arguments)), self.run)
        assert result.call_id == "c1"
        assert result.text
        return result

    def told(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


def answering(*answers):
    """An approver that gives these answers in turn; each is made of the question."""
    rest = iter(answers)

    async def ask(question, run):
        return next(rest)(question)

    return ask


def yes(question):
    return question.allow()


def no(question):
    return question.deny("not today")


# -- asking


async def test_what_the_policy_allows_runs_without_a_question():
    shop = Shop()
    assert (await shop.call("look")).text == "seen"
    assert shop.told(ApprovalAsked) == []


async def test_a_question_shows_the_validated_arguments_why_it_asks_and_what_would_happen():
    shop = Shop(answering(yes))
    await shop.call("edit_file", path="a")
    (asked,), (decided,) = shop.told(ApprovalAsked), shop.told(ApprovalDecided)
    assert (asked.call, asked.effects) == (ToolCall("c1", "edit_file", '{"path": "a"}'), ("write",))
    assert asked.why == "Mode `ask` asks, since `edit_file` may change files."
    assert asked.preview is None  # it fails: nothing is shown but the arguments
    assert (decided.id, decided.allowed, decided.by, decided.scope) == (asked.id, True, "you", "")
    assert shop.done == [("a", "x")]


async def test_a_preview_is_the_tools_own_or_the_command():
    shop = Shop(answering(no, no))
    await shop.call("edit_file", path="a", text="new")
    await shop.call("shell", command="ls")
    assert [asked.preview for asked in shop.told(ApprovalAsked)] == [
        Preview("diff", "+new"),
        Preview("command", "ls"),
    ]


async def test_a_refusal_is_a_result_with_the_reason_and_what_to_do_instead():
    shop = Shop(answering(no))
    result = await shop.call("edit_file", path="a")
    assert result.is_error
    assert result.text.startswith("`edit_file` was not run. The person refused it: not today")
    assert "say what you need and why" in result.text
    assert shop.done == shop.told(ToolStarted) == []


async def test_where_a_rule_denies_nobody_is_asked():
    shop = Shop(answering(), rules=["deny shell rm"], mode="auto")
    result = await shop.call("shell", command="ls; rm x")
    assert "The rule `deny shell rm` forbids it." in result.text
    assert shop.events == shop.done == []


async def test_where_nobody_is_there_the_answer_is_no():
    shop = Shop()
    assert "Nobody is here to allow it." in (await shop.call("edit_file", path="a")).text
    assert [decided.by for decided in shop.told(ApprovalDecided)] == ["nobody"]


async def test_a_question_times_out_to_no():
    shop = Shop(OpenQuestions(), timeout=0.02)
    assert "Nobody answered within 0.02 s." in (await shop.call("edit_file", path="a")).text
    assert [decided.by for decided in shop.told(ApprovalDecided)] == ["timeout"]
    assert shop.done == []


async def test_a_stop_withdraws_the_question():
    desk = OpenQuestions()
    shop = Shop(desk)
    task = asyncio.create_task(shop.call("edit_file", path="a"))
    question = await opened(desk)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (decided,) = shop.told(ApprovalDecided)
    assert (decided.allowed, decided.by) == (False, "interrupted")
    assert not desk.decide(question.id, question.allow())
    assert (desk.open, shop.done) == ((), [])


async def test_an_approver_may_end_the_run():
    async def suspend(question, run):
        raise RunStop("incomplete", "Waits for you.")

    shop = Shop(suspend)
    with pytest.raises(RunStop):
        await shop.call("edit_file", path="a")
    assert [(decided.by, decided.reason) for decided in shop.told(ApprovalDecided)] == [
        ("interrupted", "Waits for you.")
    ]


@pytest.mark.parametrize(
    "broken",
    [
        lambda question: 1 / 0,
        lambda question: True,
        lambda question: Answer(allowed=True, fingerprint="another call"),
        lambda question: None,
    ],
)
async def test_whatever_an_approver_gets_wrong_the_answer_is_no(broken):
    shop = Shop(answering(broken))
    assert (await shop.call("edit_file", path="a")).is_error
    assert shop.done == []
    assert [decided.allowed for decided in shop.told(ApprovalDecided)] == [False]


# -- bound to the call


async def test_what_runs_is_what_was_shown_even_if_a_later_gate_changes_it():
    async def meddling(call, run, proceed):
        return await proceed(Call(call.id, {**call.arguments, "text": "evil"}, call.spec))

    shop = Shop(answering(yes), between=[meddling])
    assert "not those that were allowed" in (await shop.call("edit_file", path="a", text="good")).text
    assert shop.done == []


async def test_arguments_that_change_while_the_question_is_open_do_not_run():
    arguments = {"path": "a"}

    def swap(question):
        arguments["path"] = "evil"
        return question.allow()

    call = Call("c1", arguments, ToolSpec("edit_file", "", {}, frozenset({"write"})))
    result = await permitted(policy("ask"), answering(swap))(call, Run(), None)
    assert "changed while the question was open" in result.text


async def test_edited_arguments_run_as_edited_and_are_kept_in_the_record():
    shop = Shop(answering(lambda question: question.allow(edited={"path": "b", "text": "y"})))
    assert (await shop.call("edit_file", path="a")).text == "changed"
    assert shop.done == [("b", "y")]
    assert json.loads(shop.told(ApprovalDecided)[0].edited) == {"path": "b", "text": "y"}


async def test_edited_arguments_are_validated_and_judged_again():
    shop = Shop(
        answering(
            lambda question: question.allow(edited={"path": 5}),
            lambda question: question.allow(edited={"path": "secrets/a"}),
        ),
        rules=["deny write secrets/**"],
    )
    assert "don't fit" in (await shop.call("edit_file", path="a")).text
    assert "The rule `deny write secrets/**` forbids it." in (await shop.call("edit_file", path="a")).text
    assert shop.done == []
    assert [(decided.allowed, decided.by) for decided in shop.told(ApprovalDecided)][-1] == (False, "rule")


async def test_what_a_path_has_become_while_the_question_was_open_is_judged_again(tmp_path):
    (tmp_path / "secrets").mkdir()

    def link(question):
        (tmp_path / "a").symlink_to("secrets/key")
        return question.allow()

    judge = policy("ask", ["deny write secrets/**"], tmp_path)
    call = Call("c1", {"path": "a"}, ToolSpec("edit_file", "", {}, frozenset({"write"})))
    result = await permitted(judge, answering(link))(call, Run(), None)
    assert "As it stands now: The rule `deny write secrets/**` forbids it." in result.text


def test_a_fingerprint_is_of_the_tool_and_the_arguments_in_any_order():
    def of(name, **arguments):
        return fingerprint(Call("any", arguments, ToolSpec(name, "", {})))

    assert of("t", a=1, b=2) == of("t", b=2, a=1)
    assert len({of("t", a=1), of("t", a="1"), of("t", a=True), of("s", a=1), of("t", b=1)}) == 5


# -- questions that wait


async def opened(desk, count=1):
    while len(desk.open) < count:  # noqa: ASYNC110 - no event says so, nor should one
        await asyncio.sleep(0)
    return desk.open[-1]


async def test_several_questions_wait_side_by_side_and_each_decision_is_for_its_own():
    desk = OpenQuestions()
    shop = Shop(desk)
    tasks = [asyncio.create_task(shop.call("edit_file", path=path)) for path in ("a", "b", "c")]
    await opened(desk, 3)
    by_path = {question.call.arguments["path"]: question for question in desk.open}
    assert not desk.decide(by_path["a"].id, by_path["b"].allow())  # foreign
    assert desk.decide(by_path["b"].id, by_path["b"].allow())
    assert not desk.decide(by_path["b"].id, by_path["b"].deny())  # double
    assert desk.decide(by_path["c"].id, by_path["c"].deny())
    assert desk.decide(by_path["a"].id, by_path["a"].deny())
    assert [result.is_error for result in await asyncio.gather(*tasks)] == [True, False, True]
    assert shop.done == [("b", "x")]
    assert not desk.decide(by_path["c"].id, by_path["c"].allow())  # late


async def test_of_many_threads_that_decide_at_once_one_does():
    desk = OpenQuestions()
    shop = Shop(desk)
    task = asyncio.create_task(shop.call("edit_file", path="a"))
    question = await opened(desk)
    start, won = threading.Barrier(8), []

    def decide(allowed):
        start.wait()
        won.append((desk.decide(question.id, question.allow() if allowed else question.deny()), allowed))

    threads = [threading.Thread(target=decide, args=(index % 2 == 0,)) for index in range(8)]
    for thread in threads:
        thread.start()
    result = await task
    for thread in threads:
        thread.join()
    assert [allowed for did, allowed in won if did] == [not result.is_error]


async def test_a_run_that_is_taken_up_again_finds_its_answer_once():
    desk, asked = OpenQuestions(), []

    async def ask(question, run):
        asked.append(question)
        return desk.early(question) or question.deny()

    shop = Shop(ask)
    await shop.call("edit_file", path="a")
    (question,) = asked
    desk.decide_ahead(replace(question, call=replace(question.call, id="another")), question.allow())
    assert (await shop.call("edit_file", path="a")).is_error
    desk.decide_ahead(question, question.allow())
    shop.run = Run()  # refused twice, it would not be asked about again
    assert (await shop.call("edit_file", path="b")).is_error
    assert (await shop.call("edit_file", path="a")).text == "changed"
    assert (await shop.call("edit_file", path="a")).is_error


@pytest.mark.parametrize("change", [{"description": "Delete a file."}, {"effects": frozenset({"mutate"})}])
async def test_an_answer_is_not_for_a_tool_that_has_become_another_meanwhile(change):
    desk, spec = OpenQuestions(), ToolSpec("edit_file", "Change a file.", {}, frozenset({"write"}))
    call = Call("c1", {"path": "a"}, spec)
    question = Question("q", call, Verdict("ask", "", ""), fingerprint(call))
    desk.decide_ahead(question, question.allow())
    assert desk.early(replace(question, call=replace(call, spec=replace(spec, **change)))) is None


# -- for this session


def scope(words):
    return lambda question: question.allow(scope=next(text for text in question.scopes if words in text))


async def test_scopes_are_offered_narrowest_first():
    shop = Shop(answering(no, no, no, no))
    await shop.call("shell", command="git status -s")
    await shop.call("shell", command="git status | sh")
    await shop.call("shell", command="python -c 1")
    assert [asked.scopes for asked in shop.told(ApprovalAsked)] == [
        (
            "`shell` with exactly these arguments",
            "`shell` commands that start with `git status`",
            "every call of `shell`",
        ),
        ("`shell` with exactly these arguments", "every call of `shell`"),
        ("`shell` with exactly these arguments", "every call of `shell`"),
    ]


@pytest.mark.parametrize(
    ("words", "covered", "uncovered"),
    [
        ("exactly", ["git status -s"], ["git status", "git status -s; rm x"]),
        (
            "start with `git status`",
            ["git status", "git status -b; git status"],
            [
                "git statusx",
                "git push",
                "git status | sh",
                "git status > f",
                "git status $(rm x)",
                "A=1 git status",
            ],
        ),
        ("every call", ["rm -rf x", "a $(b) > c"], []),
    ],
)
async def test_a_grant_covers_what_it_says_and_no_more(words, covered, uncovered):
    shop = Shop(answering(scope(words), *[no] * 10))
    await shop.call("shell", command="git status -s")
    for command in covered:
        assert not (await shop.call("shell", command=command)).is_error, command
    for command in uncovered:
        assert (await shop.call("shell", command=command)).is_error, command


async def test_a_grant_for_a_file_is_for_that_file_however_it_is_spelled():
    shop = Shop(answering(scope("on `"), no))
    await shop.call("edit_file", path="a/b")
    assert not (await shop.call("edit_file", path="a/./c/../b", text="other")).is_error
    assert (await shop.call("edit_file", path="a/b2")).is_error


async def test_a_broad_grant_does_not_answer_a_rule_that_asks():
    shop = Shop(answering(scope("every call"), no, yes), rules=["ask write prices/**"])
    await shop.call("edit_file", path="a")
    assert not (await shop.call("edit_file", path="b")).is_error
    assert (await shop.call("edit_file", path="prices/a")).is_error
    await shop.call("edit_file", path="harness_nb.toml")
    assert len(shop.told(ApprovalAsked)) == 3


async def test_a_grant_never_lets_a_denied_call_run_and_can_be_taken_back():
    approvals = Approvals()
    shop = Shop(answering(scope("every call")), approvals=approvals)
    await shop.call("shell", command="ls")
    strict = Shop(answering(), approvals=approvals, rules=["deny shell rm"])
    assert (await strict.call("shell", command="rm x")).is_error
    assert not (await strict.call("shell", command="ls")).is_error
    assert approvals.revoke() == 1
    assert (await Shop(approvals=approvals).call("shell", command="ls")).is_error


async def test_a_scope_that_was_not_offered_counts_for_once():
    shop = Shop(answering(lambda question: question.allow(scope="everything"), no))
    assert not (await shop.call("shell", command="ls")).is_error
    assert (await shop.call("shell", command="ls")).is_error
    assert shop.told(ApprovalDecided)[0].scope == ""


async def test_a_call_that_was_refused_twice_is_no_longer_asked_about_in_this_run():
    shop = Shop(answering(no, no, no, yes))
    for _ in range(2):
        await shop.call("shell", command="ls")
    assert "refused 2 times" in (await shop.call("shell", command="ls")).text
    await shop.call("shell", command="ls -l")
    assert len(shop.told(ApprovalAsked)) == 3
    shop.run = Run(listener=shop.events.append)
    assert not (await shop.call("shell", command="ls")).is_error


async def test_the_history_says_what_became_of_each_call_and_why():
    shop = Shop(answering(no, scope("exactly")), rules=["deny shell rm"])
    for command in ("rm x", "ls", "ls", "ls"):
        await shop.call("shell", command=command)
    await shop.call("look")
    assert [(item.tool, item.allowed, item.by, item.rule) for item in shop.approvals.history] == [
        ("shell", False, "rule", "deny shell rm"),
        ("shell", False, "you", "mode ask"),
        ("shell", True, "you", "mode ask"),
        ("shell", True, "granted", "mode ask"),
        ("look", True, "rule", "mode ask"),
    ]
    assert shop.approvals.history[1].reason == "not today"
