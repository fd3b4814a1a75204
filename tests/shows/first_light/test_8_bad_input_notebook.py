"""Bad input in a notebook: each is answered in one sentence, nothing is sent, and the conversation is kept."""

import pytest

pytestmark = pytest.mark.kernel

SETUP = """
%load_ext harness_nb
import harness_nb
from harness_nb import scripted, tool
s = harness_nb.session()
s.model = scripted("first answer", "second answer")
prices = [1, 2]
%agent first
"""

CASES = {
    "an unknown option": (
        "%agent --modle local hi",
        "No option is called `--modle`: did you mean `--model`?",
    ),
    "an unknown option of a cell": ("%%agent --sesion x\nhi", "did you mean `--session`?"),
    "an option without its value": ("%agent --model", "`--model` needs a value: --model NAME."),
    "turns that are no number": ("%agent --turns many hi", "`--turns` needs a number from 1 up, not `many`."),
    "an unknown model": ("%agent --model locl hi", "No model is called `locl`. Did you mean `local`?"),
    "a missing key or package": (
        "%agent --model anthropic:claude-sonnet-5-5 hi",
        "`anthropic:claude-sonnet-5-5` needs",
    ),
    "a model without a server": ("%agent --model chat:qwen3 hi", "names no server: write chat:MODEL@URL"),
    "a recording that is not there": ("%agent --model replay:nonesuch.jsonl hi", "nonesuch.jsonl"),
    "an empty prompt": ("%agent", "There is no prompt: write it after %agent"),
    "an empty cell": ("%%agent --new\n\n  \n", "There is no prompt"),
    "an unknown variable": (
        "%agent --with price hi",
        "No variable is called `price`. Did you mean `prices`?",
    ),
    "a tool without docstring": (
        "@tool(effects={'read'})\ndef add(a: int) -> int:\n    return a",
        "Tool `add` has no docstring",
    ),
    "two tools of one name": (
        "f = tool(name='f', description='One.')(print)\ns.tools = [f, f]\n%agent hi",
        "Two tools are called `f`: rename one.",
    ),
}


def test_each_bad_input_is_one_sentence_and_nothing_is_lost(kernel):
    assert kernel.execute(SETUP).error is None
    for what, (code, words) in CASES.items():
        cell = kernel.execute(code)
        said = cell.reply["traceback"]
        print(f"\nipykernel {kernel.version}, {what}: {''.join(said)}")
        assert cell.error == "UsageError", what
        assert words in said[0]
        assert (len(said), len(cell.outputs)) == (1, 1), what
        assert len(said[0]) < 250
    kernel.execute("s.tools = None")
    kernel.execute("%agent second")
    said = kernel.execute("[m.text for m in s.transcript.messages]").text
    assert said == "['first', 'first answer', 'second', 'second answer']"
