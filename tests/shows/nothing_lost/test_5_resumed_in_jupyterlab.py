"""Show 5: a kernel is restarted in the middle of a run, and a person goes on with it in real JupyterLab. Pictures go to .ci/artefacts."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SETUP = '''
%load_ext harness_nb
import time
from pathlib import Path
import harness_nb
from harness_nb import Call, call, say, scripted, tool
sent = Path("sent.txt")

@tool(effects={"read"})
def stock(item: str) -> int:
    """Say how many there are."""
    return 3

@tool(effects={"mutate"})
def send(to: str, key: Call) -> str:
    """Send a message."""
    with sent.open("a") as file:
        file.write(f"{to} {key.key}\\n")
    time.sleep(3600 if to == "ada" and sent.read_text().count("ada") == 1 else 0)
    return f"sent to {to}"

def reply(request):
    results = [result for message in request.messages for result in message.results]
    if not results:
        return say("I look first.", call("stock", item="apples"))
    if len(results) == 1:
        return say(call("send", to="ada"), call("send", to="bob"))
    return "Ada: " + results[1].text + " Bob: " + results[2].text

harness_nb.session().model = scripted(*[reply] * 9)
'''
KILL = """
import os
import signal
import threading

def die():
    while not sent.exists():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)

if not sent.exists():
    threading.Thread(target=die, daemon=True).start()
"""
TELL = "%agent Tell them how many apples there are."
RESUME = "%resume"
LOOK = "print(sent.read_text() if sent.exists() else 'nothing sent')"


def card(notebook):
    return notebook.page.locator(".hnb-ask")


def restart(notebook):
    """Restart the kernel as a person does, by the toolbar, and run the first cell again."""
    notebook.page.locator("[data-command='notebook:restart-kernel']").first.click()
    notebook.page.locator(".jp-Dialog button.jp-mod-accept").click()
    expect(notebook.page.locator(".hnb-run")).to_have_count(0)
    notebook.wait_for_kernel()
    notebook.run(0)


def test_a_question_that_a_restart_cut_off_is_asked_again_by_resume_and_the_run_ends(desk):
    notebook = desk.open([SETUP, TELL, RESUME, LOOK, RESUME])
    notebook.run(0)
    notebook.start(1)
    expect(card(notebook)).to_contain_text("ada")
    before = card(notebook).inner_text()
    restart(notebook)
    assert notebook.run(3).strip() == "nothing sent"

    notebook.start(2)
    expect(card(notebook)).to_contain_text("ada")
    assert card(notebook).inner_text() == before
    text = notebook.text(2)
    assert re.search(r"Restored 1 run with \d messages. The last one was (stopped|cut off)", text)
    assert "1 call waited for your decision, and asks again." in text
    assert "1 call had not begun." in text
    notebook.screenshot("resumed_asks", 2)
    notebook.page.wait_for_timeout(450)
    notebook.page.keyboard.press("d")
    notebook.page.keyboard.type("not her")
    notebook.page.keyboard.press("Enter")
    expect(card(notebook)).to_contain_text("bob")
    notebook.page.wait_for_timeout(450)
    notebook.press("Allow once", 2)
    notebook.wait(2)
    text = notebook.text(2)
    assert "Bob: sent to bob" in text
    assert "denied by you: not her" in text
    notebook.screenshot("resumed", 2)
    assert [line.split()[0] for line in notebook.run(3).split("\n") if line.strip()] == ["bob"]
    assert "The last one was done." in notebook.run(4)
    assert notebook.faults == []

    notebook.save()
    notebook.close()
    stranger = desk.open(desk.lab.untrusted(notebook.name), kernel=False)
    assert "Restored 1 run with" in stranger.text(2)


def test_what_was_under_way_when_the_kernel_died_runs_again_only_if_a_person_says_so(desk):
    setup = SETUP.replace("sent.txt", "in_doubt.txt") + KILL
    notebook = desk.open([setup, TELL, RESUME, LOOK])
    notebook.run(0)
    notebook.start(1)
    expect(card(notebook)).to_contain_text("ada")
    notebook.page.wait_for_timeout(450)
    notebook.press("Allow once", 1)
    notebook.wait_for_text(1, "The kernel restarted")
    notebook.page.locator(".jp-Dialog button.jp-mod-accept").click()  # JupyterLab says that it died, too
    notebook.wait_for_kernel()
    notebook.run(0)
    assert notebook.run(3).split()[0] == "ada"

    notebook.start(2)
    expect(card(notebook)).to_contain_text("Run send again?")
    expect(card(notebook)).to_contain_text("and cut off, so it may have had its effect already")
    assert card(notebook).get_by_label("What is allowed for this session").count() == 0
    notebook.screenshot("resumed_in_doubt", 2)
    notebook.page.wait_for_timeout(450)
    notebook.press("Allow once", 2)
    expect(card(notebook)).to_contain_text("bob")
    notebook.page.wait_for_timeout(450)
    notebook.press("Allow once", 2)
    notebook.wait(2)
    assert "Ada: sent to ada Bob: sent to bob" in notebook.text(2)
    lines = [line.split() for line in notebook.run(3).split("\n") if line.strip()]
    assert [to for to, _ in lines] == ["ada", "ada", "bob"]
    assert lines[0][1] == lines[1][1], "the outside can't tell the second attempt by its key"
    assert lines[2][1] != lines[0][1]
