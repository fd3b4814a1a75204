"""A session: a conversation from run to run, awaited or blocking, in a notebook's loop, a tool or a script."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

import harness_nb
from harness_nb import ProviderError, Session, UsageError, call, layered, say, scripted, tool
from harness_nb.jupyter.defaults import defaults
from harness_nb.providers.recorded import recording

user = contextvars.ContextVar("user", default="nobody")


class Endless:
    """A turn that never comes; `began` is set once it is asked for."""

    def __init__(self):
        self.began = asyncio.Event()

    async def __call__(self, _):
        self.began.set()
        await asyncio.Event().wait()


def talking(*turns, **kwargs) -> Session:
    talk = Session()
    talk.model = scripted(*turns, **kwargs)
    talk.tools = []
    return talk


async def test_a_run_returns_how_it_ended():
    result = await talking("It is 42.").run("What is 6 x 7?")
    assert (result.text, result.reason, result.turns, result.cost) == ("It is 42.", "done", 1, 0)
    assert str(result) == "It is 42."
    assert result.usage.output > 0
    assert result.view.answer == "It is 42."


async def test_the_next_prompt_carries_the_conversation_on():
    talk = talking("one", "two")
    await talk.run("first")
    await talk.run("second")
    assert [m.text for m in talk.model.requests[1].messages] == ["first", "one", "second"]


async def test_a_result_keeps_the_conversation_as_it_was_at_its_end():
    talk = talking("one", "two")
    first = await talk.run("first")
    await talk.run("second")
    assert [m.text for m in first.transcript.messages] == ["first", "one"]
    assert first.transcript.messages == talk.transcript.messages[:2]


async def test_a_new_conversation_leaves_the_old_one_to_its_results():
    talk = talking("one", "two")
    first = await talk.run("first")
    second = await talk.run("second", new=True)
    assert [m.text for m in second.transcript.messages] == ["second", "two"]
    assert [m.text for m in first.transcript.messages] == ["first", "one"]


async def test_nothing_is_lost_where_a_new_conversation_cannot_begin():
    talk = talking("one")
    await talk.run("first")
    with pytest.raises(UsageError):
        await talk.run("second", new=True, model="nonesuch")
    assert len(talk.transcript.messages) == 2


async def test_a_limit_that_cannot_be_leaves_the_conversation_where_it_is(shell):
    talk = talking("one", "two")
    await talk.run("first")
    defaults.dollars = -1
    with pytest.raises(UsageError, match="A limit of -1 dollars"):
        await talk.run("second", new=True)
    defaults.dollars = None
    await talk.run("third")
    assert [m.text for m in talk.kept.transcript().messages] == ["first", "one", "third", "two"]
    assert [run.prompt for run in talk.kept.history.path()] == ["first", "third"]


async def test_a_run_that_went_on_to_its_end_does_not_go_on_again():
    talk = talking(ProviderError("Down.", status=400), "one", "two")
    with pytest.raises(ProviderError):
        await talk.run("first")
    restored = talk.restore()
    assert (await talk.go_on(restored)).text == "one"
    with pytest.raises(UsageError, match="nothing to go on with"):
        await talk.go_on(restored)
    assert len(talk.model.requests) == 2


async def test_model_and_turns_hold_for_one_run():
    talk = talking("mine", "mine again")
    looping = scripted(*3 * [say(call("calc", expression="1"))])
    result = await talk.run("go", model=looping, turns=2)
    assert (result.reason, result.turns) == ("turns", 2)
    assert (await talk.run("go")).text == "mine"


async def test_a_failed_run_raises_in_the_providers_words_and_keeps_the_conversation():
    talk = talking(ProviderError("No such model.", status=404), "fine")
    with pytest.raises(ProviderError, match="No such model") as failed:
        await talk.run("hello")
    assert talk.last_error is failed.value
    assert (await talk.run("again")).text == "fine"
    assert [m.text for m in talk.transcript.messages] == ["hello", "again", "fine"]


async def test_a_cancelled_run_leaves_a_whole_record_and_the_next_one_works():
    talk = talking(endless := Endless(), "fine")
    run = asyncio.create_task(talk.run("hello"))
    await endless.began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert talk.transcript.dangling() == []
    assert (await talk.run("again")).text == "fine"


async def test_a_timeout_round_a_run_is_a_timeout():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await talking("word " * 1000, pace=0.1).run("hello")


async def test_stop_works_from_any_thread_and_is_a_result():
    talk = talking(endless := Endless())
    run = asyncio.create_task(talk.run("hello"))
    await endless.began.wait()
    threading.Thread(target=talk.stop).start()
    assert (await run).reason == "interrupted"


async def test_a_second_run_at_once_is_told_to_wait_and_the_first_goes_on():
    talk = talking("one", pace=0.01)
    first = asyncio.create_task(talk.run("first"))
    await asyncio.sleep(0)
    with pytest.raises(UsageError, match="is at work on another prompt"):
        await talk.run("second")
    assert (await first).text == "one"
    assert [m.text for m in talk.transcript.messages] == ["first", "one"]


def test_a_tool_that_uses_its_own_session_is_told_so():
    talk = talking(say(call("ask")), "sorry")

    @tool(effects={"read"})
    def ask() -> str:
        """Ask."""
        return talk.run_blocking("me").text

    talk.tools = [ask]
    result = talk.run_blocking("go")
    assert result.text == "sorry"
    assert "is at work on another prompt" in result.transcript.messages[2].results[0].text


@pytest.mark.parametrize("prompt", ["", "  \n "])
async def test_an_empty_prompt_is_one_sentence(prompt):
    talk = talking("one")
    with pytest.raises(UsageError, match="There is no prompt"):
        await talk.run(prompt)
    assert talk.model.requests == []


async def test_a_recording_is_read_anew_after_it_was_recorded_anew(tmp_path):
    tape = tmp_path / "tape.jsonl"
    talk = talking()
    for said in ("one", "two"):
        talk.model = layered(scripted(said), recording(tape))
        await talk.run("hello", new=True)
        assert (await talk.run("hello", new=True, model=f"replay:{tape}")).text == said


async def test_what_is_no_model_is_one_sentence():
    talk = talking()
    talk.model = 5
    with pytest.raises(UsageError, match="or a model object, not int"):
        await talk.run("hello")


def test_sessions_are_found_by_name():
    assert harness_nb.session("a test") is harness_nb.session("a test")
    assert harness_nb.session() is harness_nb.session("main")


def asking(inner: Session, *, as_coroutine: bool):
    def ask() -> str:
        """Ask another agent."""
        return f"{inner.run_blocking('inner').text} for {user.get()}"

    async def ask_async() -> str:
        """Ask another agent."""
        return ask()

    return tool(name="ask", description="Ask.", effects={"read"})(ask_async if as_coroutine else ask)


@pytest.mark.parametrize("as_coroutine", [False, True])
async def test_the_blocking_entry_works_inside_a_running_loop_twice_and_inside_a_tool(as_coroutine):
    user.set("Ada")
    talk = talking("one", "two", "three", say(call("ask")), "four", say(call("ask")), "five")
    talk.tools = [asking(talking("deep", "deeper"), as_coroutine=as_coroutine)]
    assert talk.run_blocking("hello").text == "one"
    assert talk.run_blocking("hello").text == "two"
    assert (await talk.run("hello")).text == "three"
    assert (await talk.run("use it")).text == "four"
    assert talk.run_blocking("use it").text == "five"
    heard = [r.text for m in talk.transcript.messages for r in m.results]
    assert heard == ["deep for Ada", "deeper for Ada"]


def test_what_a_blocking_run_raises_is_raised_here():
    with pytest.raises(ProviderError, match="No such model"):
        talking(ProviderError("No such model.")).run_blocking("hello")


FORKED = """
import os, signal, warnings
from harness_nb import Session, scripted

warnings.simplefilter("ignore")
talk = Session()
talk.model = scripted("parent", "child")
talk.run_blocking("hi")
if os.fork() == 0:
    signal.alarm(40)
    print(talk.run_blocking("hi"), flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_can_run_one_too():
    assert script(FORKED).communicate(timeout=50)[0] == "child\n"


SCRIPT = """
import asyncio, sys
from harness_nb import Session, scripted

async def slow(request):
    print("at it", flush=True)
    await asyncio.sleep(60)

talk = Session()
talk.model = scripted(slow, "fine")
try:
    {how}
except KeyboardInterrupt:
    print("interrupted", talk.transcript.dangling())
print(talk.run_blocking("again"), "IPython" in sys.modules)
"""


@pytest.mark.parametrize("how", ["talk.run_blocking('hi')", "asyncio.run(talk.run('hi'))"])
def test_ctrl_c_in_a_script_ends_the_run_and_the_next_one_works(how):
    process = script(SCRIPT.format(how=how))
    assert process.stdout.readline() == "at it\n"
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=50)
    assert rest == "interrupted []\nfine False\n"


def script(code: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


TERMINAL = """%load_ext harness_nb
import asyncio, harness_nb
async def slow(request): print("at it", flush=True); await asyncio.sleep(60)

s = harness_nb.session(); s.model = harness_nb.scripted(slow, "forty-two")
%agent what's this (
"""


def test_in_ipythons_terminal_a_run_is_text_and_ctrl_c_ends_it(tmp_path):
    command = [sys.executable, "-m", "IPython", "--no-banner", "--simple-prompt", "--colors=NoColor"]
    terminal = subprocess.Popen(
        command,
        env=os.environ | {"IPYTHONDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    terminal.stdin.write(TERMINAL)
    terminal.stdin.flush()
    assert any("at it" in line for line in terminal.stdout)
    terminal.send_signal(signal.SIGINT)
    rest, _ = terminal.communicate("x = %agent and now?\nx\n", timeout=50)
    assert "Interrupted." in rest
    assert "forty-two\ndone in 1 turn" in rest
    assert "> and now?" in rest


async def test_the_notes_of_a_session_are_seen_at_any_time_and_in_a_later_session_of_its_name(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    first = Session("fruit")
    assert "No notes yet." in first.notes._repr_html_()
    first.model = scripted(say(call("scratchpad_write", key="plan", text="Find the <pear>.")), "Noted.")
    await first.run("Plan it.")
    assert "Find the &lt;pear&gt;." in Session("fruit").notes._repr_html_()
