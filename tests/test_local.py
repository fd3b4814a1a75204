import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import httpx2
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from harness_nb.agent import Agent
from harness_nb.errors import ProviderError, UsageError
from harness_nb.events import CallDelta, TextDelta
from harness_nb.messages import Message, Text, ToolCall, ToolResult, assistant, user
from harness_nb.providers.local import Local, answer, memory, router
from harness_nb.providers.local.conversation import exchanges, shortened
from harness_nb.providers.local.engine import Engine, Settings, running
from harness_nb.providers.local.known import KNOWN
from harness_nb.providers.local.weights import cache, fetch
from harness_nb.providers.local.wire import client, complete
from harness_nb.seams import Request, Run
from harness_nb.toolkit.files import read_file
from harness_nb.tools import Toolbox, tool

engine_test = pytest.mark.llama
SMALL = "smollm2-135m"


@tool(effects={"read"})
def calc(expression: str) -> str:
    """Work out an arithmetic expression."""
    return expression


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: float = 0.0
    next: "Point | None" = None


@tool
def paint(
    at: Point,
    colour: Colour,
    names: list[str],
    size: int | None = None,
    *,
    deep: dict[str, int] | None = None,
) -> str:
    """Paint a point."""
    return "painted"


@tool
def now() -> str:
    """Tell the time."""
    return "12:00"


BOX = Toolbox([calc, paint, now])


@pytest.fixture(scope="module")
def weights():
    return fetch(KNOWN[SMALL], lambda done, total: None)


@pytest.fixture
def engine(weights, tmp_path):
    engine = Engine(Settings(weights, parallel=2, slots=tmp_path))
    yield engine
    engine.stop()


@pytest.fixture
def local(weights):
    """The model, on an engine that ends with the test."""
    yield Local(SMALL)
    running(Settings(weights, parallel=2, slots=cache() / "prompts")).stop()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] == "Z"
    except OSError:
        return True


# The prompts.


def test_a_request_without_a_result_is_a_question_and_its_past():
    past = [
        user("Q1"),
        assistant(ToolCall("a", "calc", '{"expression": "1"}')),
        result("a", "1"),
        assistant("A1"),
    ]
    first, second = exchanges([*past, user("Q2")])
    assert (first.question, first.answer, [call.name for call in first.calls]) == ("Q1", "A1", ["calc"])
    assert (second.question, second.results) == ("Q2", [])


def test_earlier_questions_show_the_router_what_was_picked():
    past = [
        user("Q1"),
        assistant(ToolCall("a", "calc", '{"expression": "1"}')),
        result("a", "1"),
        assistant("A1"),
    ]
    said = router.question(exchanges([*past, user("Hello"), assistant("Hi"), user("Q3")]))
    assert [json.loads(entry["content"]) for entry in said if entry["role"] == "assistant"] == [
        {"tool": "calc", "args": {"expression": "1"}},
        {"tool": "none"},
    ]
    assert said[-1] == {"role": "user", "content": "Q3"}


def test_the_answer_is_asked_for_with_the_call_and_its_result():
    asked = exchanges(
        [user("How much?"), assistant(ToolCall("a", "calc", '{"expression": "6 * 7"}')), result("a", "42")]
    )
    content = answer.question(asked)[-1]["content"]
    assert content == 'How much?\n\nResult of calc {"expression": "6 * 7"}:\n42'


def test_a_failed_call_is_to_be_admitted():
    asked = exchanges([user("How much?"), assistant(ToolCall("a", "calc")), result("a", "no", is_error=True)])
    assert answer.question(asked)[-1]["content"].endswith("FAILED: no\n\nSay that this failed, and why.")


def test_the_start_of_both_prompts_does_not_depend_on_the_question():
    assert router.prefix(BOX.specs) == router.prefix(BOX.specs)
    assert answer.prefix("Be kind.")[0]["content"].endswith("Be kind.")


def test_every_tool_has_worked_examples_that_its_own_schema_accepts():
    for item in BOX:
        examples = [
            json.loads(said["content"]) for said in router.prefix((item.spec,)) if said["role"] == "assistant"
        ]
        made = [example["args"] for example in examples if example["tool"] == item.name]
        assert len(made) == 2
        for arguments in made:
            item.signature.read(arguments)


@given(st.text(), st.integers(8, 200))
def test_what_is_shortened_says_so_and_keeps_both_ends(text, limit):
    short = shortened(text, limit)
    if len(text) > limit:
        assert f"{len(text) - limit:,} characters left out" in short
        assert text.startswith(short[: limit * 3 // 4])
        assert short.endswith(text[-(limit // 4) :])
    else:
        assert short == text


@given(st.text(st.characters(categories=["L"]), min_size=20, max_size=200))
def test_an_answer_that_goes_round_in_circles_is_enough(words):
    assert answer.repeats(f"Well. {words * 3}")


@pytest.mark.parametrize(
    "text", ["", "Go on. Go on. Go on.", "-" * 100, "| --- " * 20, "0" * 99, "One two three. " * 2]
)
def test_an_answer_that_only_looks_like_it_is_not(text):
    assert not answer.repeats(text)


def test_a_reply_that_was_cut_off_keeps_its_broken_arguments():
    call = router.picked('{"tool": "calc", "args": {"expression": "1 +', "id")
    assert call == ToolCall("id", "calc", '{"expression": "1 +')
    assert router.picked('{"tool": "none"}', "id") is None


def result(call_id: str, text: str, *, is_error: bool = False) -> Message:
    return Message("tool", (ToolResult(call_id, (Text(text),), is_error),))


# The engine.


@engine_test
def test_a_key_is_wanted(engine):
    with httpx2.Client(base_url=engine.url, trust_env=False) as http:
        body = {"messages": [{"role": "user", "content": "Hi"}]}
        assert http.post("/v1/chat/completions", json=body).status_code == 401


@engine_test
def test_it_ends_with_whoever_started_it_however_that_ends(weights):
    program = (
        "import sys, time\nfrom pathlib import Path\n"
        "from harness_nb.providers.local.engine import Engine, Settings\n"
        "engine = Engine(Settings(Path(sys.argv[1])))\n"
        "print(engine.pid, flush=True)\ntime.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(weights)], stdout=subprocess.PIPE, text=True
    ) as parent:
        child = int(parent.stdout.readline())
        assert not gone(child)
        parent.kill()
    until(lambda: gone(child))


@engine_test
def test_it_ends_when_nothing_refers_to_it(weights):
    engine = Engine(Settings(weights))
    child = engine.pid
    del engine
    until(lambda: gone(child))


@engine_test
async def test_an_interrupt_of_the_terminal_does_not_reach_it(engine):
    os.kill(engine.pid, signal.SIGINT)
    assert (await complete(engine, {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2})).text


@engine_test
def test_the_loop_runs_on_while_it_loads_and_nothing_is_printed(weights):
    program = (
        "import asyncio, sys\nfrom harness_nb.providers.local import Local\nfrom harness_nb.agent import Agent\n"
        "async def main():\n"
        "    ticks = 0\n"
        "    async def tick():\n"
        "        nonlocal ticks\n"
        "        while True: await asyncio.sleep(0.01); ticks += 1\n"
        "    ticking = asyncio.create_task(tick())\n"
        f"    outcome = await Agent(Local('{SMALL}')).run('Hello')\n"
        "    assert outcome.reason == 'done' and ticks > 20, (outcome, ticks)\n"
        "asyncio.run(main())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@engine_test
def test_a_file_that_is_no_whole_model_is_one_sentence(weights, tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(weights.read_bytes()[:1_000_000])
    with pytest.raises(UsageError, match=r"cannot load .*broken\.gguf: it is no whole GGUF model file"):
        Engine(Settings(broken))


def with_library(folder, source, program):
    """Run a program whose engine is a library of this source instead of llama.cpp."""
    (folder / "xllamacpp.py").write_text(source)
    given = {"env": os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}, "text": True}
    made = (
        "import os, sys, time\nfrom pathlib import Path\n"
        "from harness_nb.providers.local.engine import Engine, Settings, running\n"
        "settings = Settings(Path('any.gguf'))\n"
    )
    return subprocess.Popen([sys.executable, "-c", made + program], stdout=subprocess.PIPE, **given)


SERVES = """
from types import SimpleNamespace as Space
def CommonParams():
    return Space(model=Space(), cpuparams=Space(), cpuparams_batch=Space())
def Server(params):
    return Space(listening_address="http://127.0.0.1:1")
"""


def test_an_engine_that_falls_silent_is_one_sentence(tmp_path):
    program = "try: Engine(settings)\nexcept Exception as fault: print(type(fault).__name__, fault)"
    with with_library(tmp_path, "import os, time\nos.close(1)\ntime.sleep(600)", program) as ran:
        said = ran.stdout.read()
    assert said.startswith("UsageError The local engine did not start: ")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_it_ends_with_its_process_though_a_fork_of_that_lives_on(tmp_path):
    program = (
        "engine = running(settings)\nfork = os.fork()\n"
        "if not fork: os.close(1); time.sleep(600)\n"
        "print(engine.pid, fork, flush=True)\nos._exit(0)\n"
    )
    with with_library(tmp_path, SERVES, program) as parent:
        child, fork = map(int, parent.stdout.read().split())
    try:
        until(lambda: gone(child))
        assert not gone(fork)
    finally:
        os.kill(fork, signal.SIGKILL)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_that_ends_leaves_the_engine_running(tmp_path):
    program = (
        "engine = running(settings)\nfork = os.fork()\nif not fork: sys.exit()\nos.waitpid(fork, 0)\n"
        "print(engine.alive, running(settings) is engine)\n"
    )
    with with_library(tmp_path, SERVES, program) as ran:
        assert ran.stdout.read().split() == ["True", "True"]


def test_a_missing_engine_is_one_sentence_with_the_fix(tmp_path):
    (tmp_path / "xllamacpp.py").write_text("raise ModuleNotFoundError(\"No module named 'xllamacpp'\")")
    os.environ["PYTHONPATH"], before = str(tmp_path), os.environ.get("PYTHONPATH")
    try:
        with pytest.raises(
            UsageError, match=r"needs the package xllamacpp: pip install 'harness-nb\[local\]'"
        ):
            Engine(Settings(tmp_path / "any.gguf"))
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


@engine_test
async def test_a_prompt_is_read_once_and_its_state_outlives_the_engine(weights, tmp_path):
    prefix = router.prefix(BOX.specs)
    body = {
        "messages": [*prefix, {"role": "user", "content": "What is 1 + 1?"}],
        "max_tokens": 1,
        "id_slot": 0,
    }
    reused = []
    for _ in range(2):
        engine = Engine(Settings(weights, parallel=2, slots=tmp_path))
        began = time.perf_counter()
        await memory.prepare(engine, 0, prefix)
        print(f"prepared in {time.perf_counter() - began:.2f} s")
        done = await complete(engine, body)
        reused.append(done.usage.cache_read / done.usage.input)
        engine.stop()
    assert min(reused) > 0.9
    assert len(list(tmp_path.iterdir())) == 1


@engine_test
async def test_a_saved_prompt_that_is_broken_costs_time_only(engine, tmp_path):
    prefix = router.prefix(BOX.specs)
    await memory.prepare(engine, 0, prefix)
    (saved,) = tmp_path.iterdir()
    saved.write_bytes(b"broken")
    engine.held.clear()
    await memory.prepare(engine, 0, prefix)
    assert saved.stat().st_size > 1000


# The model.


@engine_test
async def test_the_answer_streams_and_is_counted(local):
    heard: list[str] = []
    reply = await local(
        Request("", (user("What is the capital of France?"),)),
        Run(listener=lambda event: heard.append(event.text) if isinstance(event, TextDelta) else None),
    )
    assert len(heard) > 3
    assert "".join(heard) == reply.message.text
    assert reply.usage.input > 50
    assert reply.usage.output >= len(heard)
    assert "local" in local.name
    assert "small" in local.name


@engine_test
@pytest.mark.parametrize("question", ["What is 2 + 2?", "Paint the town red", "Hello", '\0 𝄞 {"tool":', ""])
async def test_any_tool_it_picks_comes_with_arguments_that_fit(local, question):
    events: list[CallDelta] = []
    run = Run(listener=lambda event: events.append(event) if isinstance(event, CallDelta) else None)
    reply = await local(Request("", (user(question),), BOX.specs, max_output=200), run)
    for call in reply.message.calls:
        if reply.stop == "calls":
            next(item for item in BOX if item.name == call.name).signature.read(json.loads(call.raw))
        assert "".join(event.text for event in events) == call.raw
    assert reply.message.calls or reply.message.text or reply.stop == "length"


@engine_test
async def test_an_answer_ends_where_it_only_repeats_itself(engine):
    body = {"messages": [{"role": "user", "content": "Say the word again over and over."}], "max_tokens": 400}
    grammar = 'root ::= "I say it again and again. " root'
    done = await complete(engine, {**body, "grammar": grammar}, enough=answer.repeats)
    assert done.text.count("I say it again") == 3
    assert done.usage.estimated


@engine_test
async def test_it_calls_once_and_answers_from_the_result(local):
    asked = (
        user("What is 6 times 7?"),
        assistant(ToolCall("a", "calc", '{"expression": "6 * 7"}')),
        result("a", "42"),
    )
    reply = await local(Request("", asked, BOX.specs), Run())
    assert not reply.message.calls
    assert "42" in reply.message.text


@engine_test
async def test_a_killed_server_is_one_sentence_and_the_next_call_works(local, weights):
    def kill(event: object) -> None:
        if isinstance(event, TextDelta):
            engine = running(Settings(weights, parallel=2, slots=cache() / "prompts"))
            os.kill(engine.pid, signal.SIGKILL)

    asked = Request("", (user("Count from one to one hundred in words."),))
    with pytest.raises(ProviderError, match="process has ended") as caught:
        await local(asked, Run(listener=kill))
    assert caught.value.retryable
    assert "\n" not in str(caught.value)
    assert (await local(asked, Run())).message.text


@engine_test
async def test_stopping_a_run_stops_the_engine_s_work(local, weights):
    run = Run(listener=lambda event: run.stop() if isinstance(event, TextDelta) else None)
    outcome = await Agent(local).run("Count from one to one thousand in words, one after the other.", run)
    assert outcome.reason == "interrupted"
    engine = running(Settings(weights, parallel=2, slots=cache() / "prompts"))
    async with client(engine) as http, asyncio.timeout(60):
        while any(slot["is_processing"] for slot in (await http.get("/slots")).json()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@engine_test
async def test_a_conversation_that_is_too_long_is_one_sentence(weights):
    engine = Engine(Settings(weights, context=512))
    with pytest.raises(ProviderError, match="reads at most 512") as caught:
        await complete(engine, {"messages": [{"role": "user", "content": "word " * 2000}]})
    assert not caught.value.retryable
    assert (caught.value.overflow, caught.value.window) == (True, 512)
    engine.stop()


def test_a_model_of_one_s_own_is_named_by_its_file(tmp_path):
    path = tmp_path / "mine.gguf"
    path.write_bytes(b"")
    assert Local(str(path)).name == "mine · local"


def test_the_small_model_is_offered_required_parameters_only_since_it_invents_the_others():
    lines = router.prefix([read_file.spec])[0]["content"]
    assert "read_file(path):" in lines
    offered = router.schema([read_file.spec])["oneOf"][1]["properties"]["args"]["properties"]
    assert list(offered) == ["path"]
