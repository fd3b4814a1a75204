"""A run that waits for a decision after its cell has ended, in real kernels: by a command, by a click, and never without a person."""

import json
import re

import pytest

pytestmark = pytest.mark.kernel

SETUP = """
%load_ext harness_nb
import asyncio, json, harness_nb
from harness_nb import call, say, scripted, tool
from harness_nb.jupyter.widget import LiveRun
LiveRun.patience.update({True: 0.1, False: 0.1})
ran = []

@tool(effects={"write"})
def touch(path: str) -> str:
    "Touch a file."
    ran.append(path)
    return "touched"

s = harness_nb.session()

def script():
    ran.clear()
    s.new()
    s.model = scripted(say(call("touch", path="a"), call("touch", path="b")), "Done.")
script()
"""
FACTS = "print(json.dumps([ran, [c.raw for c in s.transcript.dangling()], [r.text for m in s.transcript.messages for r in m.results]]))"
WAYS = {"awaited": "%agent go", "function": "def go():\n    %agent go\ngo()"}
WIDGET = "application/vnd.jupyter.widget-view+json"
A, B = '{"path": "a"}', '{"path": "b"}'
NAME = re.compile(r"approve (q\d{6})")


def facts(notebook):
    return json.loads(notebook.execute(FACTS).text)


def shown(sent):
    return sent.content["data"] if sent.type in {"display_data", "update_display_data"} else {}


def answer_as_a_page(kernel, cell):
    """Close the comm that no page knows, as JupyterLab does."""
    opened = cell.wait_for(lambda sent: sent.content.get("target_name") == "harness_nb.anyone")
    content = {"comm_id": opened.content["comm_id"], "data": {}}
    kernel._client.shell_channel.send(kernel._client.session.msg("comm_close", content))
    return cell.finish()


@pytest.fixture
def notebook(kernel):
    """A notebook whose page takes no input, but has been heard of."""
    assert kernel.execute(SETUP).text == ""
    first = answer_as_a_page(kernel, kernel.start("%agent go", stdin=False))
    assert facts(kernel)[0] == []
    assert "nobody to ask" in first.text or kernel.version != "6.31"  # which hears of the page too late
    kernel.execute("script()")
    return kernel


def suspended(notebook, way="awaited"):
    cell = notebook.start(WAYS[way], stdin=False).finish()
    assert cell.error is None, cell.text
    return cell, NAME.findall(cell.text)[-1]


@pytest.mark.parametrize("way", WAYS)
def test_the_cell_ends_with_the_question_and_a_command_in_a_later_one_goes_on(notebook, way):
    cell, name = suspended(notebook, way)
    assert facts(notebook) == [[], [A, B], []]
    assert 'path = "a"' in cell.text
    assert f'%agent edit {name} {{"path": "a"}}' in cell.text
    second = notebook.start(f"%agent approve {name}", stdin=False).finish()
    assert facts(notebook) == [["a"], [B], ["touched"]]
    assert 'touch path="a" — allowed by you, once → touched' in second.text
    other = NAME.findall(second.text)[-1]
    last = notebook.start(f'x = %agent deny {other} "not that one"', stdin=False).finish()
    assert "denied by you: not that one" in last.text
    ran, dangling, results = facts(notebook)
    assert (ran, dangling) == (["a"], [])
    assert "The person refused it: not that one" in results[1]
    assert notebook.execute("x.reason, x.text").text == "('done', 'Done.')"


def test_the_same_decision_twice_decides_nothing_about_the_next_call(notebook):
    _, name = suspended(notebook)
    for _ in range(3):
        cell = notebook.start(f"%agent approve {name}", stdin=False).finish()
    assert f"`{name}` does not wait for a decision, so nothing was changed or run." in cell.text
    assert facts(notebook) == [["a"], [B], ["touched"]]


def test_edited_arguments_are_checked_and_run_as_edited(notebook):
    _, name = suspended(notebook)
    wrong = notebook.execute(f'%agent edit {name} {{"path": 5}}')
    assert "These arguments don't fit" in wrong.text
    assert facts(notebook)[:2] == [[], [A, B]]
    cell = notebook.start(f'%agent edit {name} {{"path": "z"}}', stdin=False).finish()
    assert "edited and allowed by you, once" in cell.text
    assert facts(notebook)[0] == ["z"]


def clicked(notebook, cell, **answer):
    """Click on the card below the cell's record, whose run is over; return the request that the click is."""
    buttons = [shown(sent)[WIDGET]["model_id"] for sent in cell.outputs if WIDGET in shown(sent)][-1]
    states = [
        sent.content["data"]["content"]
        for sent in cell.outputs
        if sent.type == "comm_msg" and "content" in sent.content["data"]
    ]
    parts = [part for state in states for part in state.get("parts", {}).values()]
    question = next(part["question"] for part in parts if part.get("question"))
    told = {"ask": "decide", "question": question["id"], "seal": question["seal"], **answer}
    data = {"method": "custom", "content": told}
    return notebook.send_comm(buttons, data)


def test_a_click_after_the_cell_takes_the_run_up_where_it_waits(notebook):
    cell, _ = suspended(notebook)
    click = clicked(notebook, cell, answer="allow")

    def ask_of_next():
        found = [
            part["question"]
            for sent in notebook.inbox
            if sent.parent == click and sent.type == "comm_msg"
            for part in sent.content["data"].get("content", {}).get("parts", {}).values()
            if part.get("question")
        ]
        return found[-1] if found else None

    second = notebook.listen(ask_of_next)
    assert 'path = "b"' in second["arguments"]
    buttons = [shown(sent)[WIDGET]["model_id"] for sent in cell.outputs if WIDGET in shown(sent)][-1]
    told = {
        "ask": "decide",
        "question": second["id"],
        "seal": second["seal"],
        "answer": "deny",
        "reason": "no",
    }
    notebook.send_comm(buttons, {"method": "custom", "content": told})
    display = next(sent.content["transient"]["display_id"] for sent in cell.outputs if WIDGET in shown(sent))

    def record():
        last = [
            sent
            for sent in notebook.inbox
            if sent.type == "update_display_data" and sent.content["transient"]["display_id"] == display
        ][-1]
        return "done in" in shown(last).get("text/plain", "") and shown(last)["text/plain"]

    text = notebook.listen(record)
    assert 'touch path="a" — allowed by you, once → touched' in text
    assert 'touch path="b" — denied by you: no' in text
    assert facts(notebook)[:2] == [["a"], []]
    late = notebook.start(f"%agent approve {NAME.findall(cell.text)[-1]}", stdin=False).finish()
    assert "Nothing waits for a decision" in late.text


def test_what_waits_is_listed_completed_and_decided_from_python_too(notebook):
    _, name = suspended(notebook)
    assert [text.strip() for text in notebook.complete("%agent approve ")] == [name]
    assert f"{name} touch" in notebook.execute("%agent permissions").text
    assert f"%agent approve {name}" in notebook.execute("%agent approve").text
    assert facts(notebook)[:2] == [[], [A, B]]
    notebook.execute("q = s.pending[0]")
    notebook.start("r = await s.resume(q, q.allow())", stdin=False).finish()
    assert facts(notebook)[:2] == [["a"], [B]]
    again = notebook.start("await s.resume(q, q.allow())", stdin=False).finish()
    assert again.error == "UsageError"
    assert "does not wait for a decision any more" in again.text
    assert facts(notebook)[:2] == [["a"], [B]]


def test_what_has_waited_longer_than_its_patience_counts_as_refused(notebook):
    _, name = suspended(notebook)
    notebook.execute(
        "import time; from harness_nb.jupyter.session import defaults; defaults.patience = 0.2; time.sleep(0.3)"
    )
    cell = notebook.start(f"%agent approve {name}", stdin=False).finish()
    assert "denied: no answer came in time" in cell.text
    assert facts(notebook)[0] == []


def test_a_new_prompt_gives_up_what_waits_and_says_so(notebook):
    suspended(notebook)
    notebook.execute("s.model = scripted('Fine.')")
    cell = notebook.start("%agent never mind", stdin=False).finish()
    ran, dangling, results = facts(notebook)
    assert (ran, dangling, len(results)) == ([], [], 2)
    assert all("a new request came instead" in text for text in results)
    assert "not approved: a new prompt came instead" in cell.text
    assert "Fine." in cell.text


def test_a_run_in_the_background_that_nobody_could_be_asked_about_waits_too(kernel):
    kernel.execute(SETUP)
    kernel.execute("task = asyncio.create_task(s.run('go'))")
    assert kernel.listen(lambda: any("approve q" in str(shown(sent)) for sent in kernel.inbox))
    assert facts(kernel) == [[], [A, B], []]
    name = kernel.execute("from harness_nb.jupyter.asking import ticket; ticket(s.pending[0].id)").text.strip(
        "'"
    )
    kernel.start(f"%agent deny {name} no", stdin=False).finish()
    assert facts(kernel)[0] == []
    assert "The person refused it: no" in facts(kernel)[2][0]


PATIENT = """
began = asyncio.Event()

async def patient(request):
    await began.wait()
    return say(call("touch", path="a"))

s.model = scripted(patient, "Done.")
"""


def test_a_question_from_the_background_never_takes_another_cells_input(kernel):
    kernel.execute(SETUP + PATIENT)
    kernel.execute("task = asyncio.create_task(s.run('go')); await asyncio.sleep(0.1)")
    other = kernel.execute("began.set(); await asyncio.wait({task}, timeout=20); task.result().reason")
    assert other.text.endswith("'suspended'")
    assert facts(kernel)[:2] == [[], [A]]
    mine = kernel.start("s.model = scripted(say(call('touch', path='b')), 'Done.')\n%agent go")
    mine.finish(answers=["a"])  # a cell's own question is still put to it
    assert facts(kernel)[0] == ["b"]


def test_a_decision_for_another_session_is_told_where_to_go(notebook):
    notebook.execute("other = harness_nb.session('other'); other.model = s.model")
    cell = notebook.start("%agent --session other go", stdin=False).finish()
    name = NAME.findall(cell.text)[-1]
    assert f'%agent --session "other" approve {name}' in cell.text
    assert "waits in session `other`" in notebook.execute(f"%agent approve {name}").text
    notebook.start(f'%agent --session "other" approve {name}', stdin=False).finish()
    assert notebook.execute("ran").text == "['a']"


def test_a_machine_never_waits(kernel):
    made = kernel.headless(SETUP, "x = %agent go\nx.reason, ran", "%agent approve q123456")
    said = "".join(str(output) for cell in made.cells for output in cell.outputs)
    assert "('done', [])" in said
    assert said.count("denied: there was nobody to ask") >= 2
    assert "Nothing waits for a decision in session `main`" in said
