"""The notebook's own variables and code as tools, in real kernels."""

import json

import pytest

pytestmark = pytest.mark.kernel

SETUP = """
%load_ext harness_nb
import json, harness_nb
from harness_nb import call, say, scripted
from harness_nb.jupyter.session import defaults
defaults.mode = "auto"
s = harness_nb.session()
prices = {"apple": 3}
password = "hunter22hunter22"
def results():
    print(json.dumps([r.text for m in s.transcript.messages for r in m.results]))
"""


def told(kernel, way, *calls, answers=()):
    kernel.execute(f"s.new(); s.model = scripted(*[say(c) for c in [{', '.join(calls)}]], 'Done.')")
    cell = kernel.execute(way, answers=answers)
    assert cell.error is None, cell.text
    return cell, json.loads(kernel.execute("results()").text)


@pytest.mark.parametrize("way", ["%agent go", "def go():\n    %agent go\ngo()"])
def test_code_runs_in_the_notebook_and_its_output_goes_to_person_and_model(kernel, way):
    assert kernel.execute(SETUP).text == ""
    cell, results = told(
        kernel,
        way,
        "call('run_python', code='import threading\\ntotal = prices[\"apple\"] * 7\\nprint(threading.current_thread() is threading.main_thread())\\ntotal')",
        "call('run_python', code='prices[\"pear\"]')",
        "call('run_python', code='def (')",
        "call('list_variables')",
        "call('inspect_variable', name='prices')",
        "call('inspect_variable', name='password')",
        "call('inspect_variable', name='nothing')",
    )
    assert results[0].split()[-3:-1] == ["True", "21"]  # fenced: code may fetch anything
    assert "True" in cell.text
    assert kernel.execute("total").text == "21"
    assert "KeyError: 'pear'" in results[1]
    assert len(results[1]) < 400
    assert "Nothing was run" in results[2]
    assert "prices: dict, 1 item" in results[3]
    assert "apple" in results[4]
    assert "hunter22" not in results[5]
    assert "No variable is called" in results[6]


def test_an_interrupt_ends_the_code_and_the_run(kernel, tmp_path):
    assert kernel.execute(SETUP).text == ""
    kernel.execute(
        's.model = scripted(say(call(\'run_python\', code=\'print("at it", flush=True)\\nimport time\\nopen("began", "w").close()\\ntime.sleep(600)\')))'
    )
    cell = kernel.start("%agent go")
    cell.wait_for(lambda sent: sent.type == "display_data")
    assert kernel.listen((tmp_path / "began").exists)
    kernel.interrupt()
    cell.finish(timeout=30)
    assert kernel.execute("1 + 1").text == "2"


def test_what_code_prints_before_it_fails_reaches_the_model_and_exit_ends_nothing(kernel):
    assert kernel.execute(SETUP).text == ""
    cell, results = told(
        kernel,
        "%agent go",
        "call('run_python', code='print(\"seen\")\\n1/0')",
        "call('run_python', code='kept = 1\\nexit()')",
        "call('run_python', code='print(\"half \" + chr(0xd800))')",
        "call('run_python', code='input() * 2')",
        "call('run_python', code='\"\\\\d\" is 1')",
        answers=["Ann"],
    )
    assert "seen" in cell.text
    assert "seen\n" in results[0]
    assert "ZeroDivisionError" in results[0]
    assert "exit() would end the notebook's kernel, and was not done" in results[1]
    assert "half \ufffd" in results[2]
    assert "AnnAnn" in results[3]
    assert "SyntaxWarning" in results[4]  # of IPython, not of our own look at the code beforehand
    assert "<code>" not in cell.text
    assert kernel.execute("kept").text == "1"


@pytest.mark.parametrize("kernel", ["newest"], indirect=True)
def test_a_flood_neither_fills_the_notebook_nor_the_memory(kernel):
    assert kernel.execute(SETUP).text == ""
    code = "for _ in range(3_000): print('x' * 999)"
    cell, results = told(kernel, "%agent go", f"call('run_python', code={code!r})")
    assert len(cell.text) < 1_100_000
    assert "the rest is not shown" in cell.text
    assert "characters not kept" not in results[0]  # it is between what is shown of both ends
    assert len(results[0]) < 16_500


@pytest.mark.parametrize("kernel", ["newest"], indirect=True)
def test_the_codes_of_one_run_are_put_into_one_next_cell(kernel):
    assert kernel.execute(SETUP).text == ""
    cell, _ = told(kernel, "%agent go", "call('add_cell', code='a = 1')", "call('add_cell', code='a + 1')")
    (proposed,) = cell.reply["payload"]
    assert (proposed["source"], proposed["text"]) == ("set_next_input", "a = 1\n\na + 1")
    cell, _ = told(kernel, "def go():\n    %agent go\ngo()", "call('add_cell', code='b = 2')")
    assert [each["text"] for each in cell.reply["payload"]] == ["b = 2"]


@pytest.mark.parametrize("kernel", ["newest"], indirect=True)
def test_code_that_is_not_allowed_is_put_nowhere(kernel):
    assert kernel.execute(SETUP).text == ""
    kernel.execute("%config AgentMagics.mode = 'ask'")
    kernel.execute("s.model = scripted(say(call('add_cell', code='a = 1')), 'Done.')")
    cell = kernel.execute("%agent go", answers=["d not now"])
    assert "Allow this code in your notebook" in cell.text
    assert cell.reply["payload"] == []
    assert "not now" in kernel.execute("results()").text


@pytest.mark.parametrize("kernel", ["newest"], indirect=True)
def test_patience_set_by_config_ends_a_question_of_the_next_run(kernel):
    assert kernel.execute(SETUP).text == ""
    kernel.execute("%config AgentMagics.mode = 'ask'\n%config AgentMagics.patience = 0.5")
    kernel.execute("s.model = scripted(say(call('add_cell', code='a = 1')), 'Done.')")
    cell = kernel.execute("%agent go")  # nobody answers
    assert cell.error is None, cell.text
    assert "was not run" in kernel.execute("results()").text
    assert kernel.execute("[past.by for past in s.approvals.history]").text == "['timeout']"
