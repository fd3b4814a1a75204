"""Show 2: a person at JupyterLab decides about calls: by mouse, by keys, with edits, one by one. Pictures go to .ci/artefacts."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SETUP = """
%load_ext harness_nb
import harness_nb
from pathlib import Path
from harness_nb import call, say, scripted
Path("prices.csv").write_text("item,price\\napple,3\\npear,5\\n")
def script(*turns):
    harness_nb.session().model = scripted(*turns)
    harness_nb.session().new()
def edit(old, new):
    return call("edit_file", path="prices.csv", old=old, new=new)
"""
LOOK = "print(Path('prices.csv').read_text())"
EDIT = 'script(say(call("read_file", path="prices.csv")), say(edit("apple,3", "apple,4")), "Done.")\n%agent Raise the price of apples.'
TWO = 'script(say(edit("apple,3", "apple,30"), edit("pear,5", "pear,50")), "Done.")\n%agent Ten times the prices.'
SCOPED = """Path("costs.csv").write_text("apple,1\\n")
other = call("edit_file", path="costs.csv", old="apple,1", new="apple,2")
script(say(call("read_file", path="prices.csv"), call("read_file", path="costs.csv")),
    say(edit("apple,3", "apple,4")), say(edit("apple,4", "apple,40")), say(other), "Done.")
%agent Change both."""
CODE = 'script(say(call("run_python", code="price = 3  # each\\nprint(price * 7)\\nprice + 1")), "Done.")\n%agent Multiply.'


def card(notebook):
    return notebook.page.locator(".hnb-ask")


def ask(notebook, n):
    """Start cell n and wait for its card, focused and with its keys alive."""
    notebook.start(n)
    expect(card(notebook)).to_be_visible()
    expect(card(notebook)).to_be_focused()
    notebook.page.wait_for_timeout(450)


def test_an_edit_asks_shows_its_diff_and_runs_as_the_person_changed_it(desk):
    notebook = desk.open([SETUP, EDIT, LOOK])
    notebook.run(0)
    ask(notebook, 1)
    asked, page = card(notebook), notebook.page
    expect(asked).to_contain_text("Allow an edit of prices.csv?")
    expect(asked.locator(".hnb-badge", has_text="write")).to_be_visible()
    expect(asked.locator(".hnb-ask-why code")).to_have_text(["ask", "edit_file"])
    expect(asked.locator(".hnb-removed")).to_have_text(["-apple,3"])
    expect(asked.locator(".hnb-added")).to_have_text(["+apple,4"])
    notebook.screenshot("approval_light", 1)
    notebook.theme("dark")
    notebook.screenshot("approval_dark", 1)
    notebook.theme("light")
    expect(page.locator(".hnb-heard")).to_contain_text("waiting for you: Allow an edit of prices.csv?")

    notebook.press("Edit…", 1)
    box = asked.locator("textarea")
    box.fill("{")
    page.keyboard.press("Control+Enter")
    expect(asked.locator(".hnb-ask-fault")).to_contain_text("This can't be read as JSON")
    box.fill('{"path": "prices.csv", "old": "cherry", "new": "x"}')
    page.keyboard.press("Control+Enter")
    expect(asked.locator(".hnb-preview")).to_contain_text("this call would fail")
    notebook.press("Edit…", 1)
    notebook.screenshot("approval_edit", 1)
    box.fill('{"path": "prices.csv", "old": "apple,3", "new": "apple,9"}')
    page.keyboard.press("Control+Enter")
    expect(asked.locator(".hnb-added")).to_have_text("+apple,9")
    notebook.press("Allow once", 1)
    notebook.wait(1)
    assert "apple,9\npear,5" in notebook.run(2)
    assert "edited and allowed by you, once" in notebook.text(1)

    notebook.save()
    notebook.close()
    print(*notebook.passed_over, sep="\n")
    assert notebook.faults == []
    reopened = desk.open(desk.lab.untrusted(notebook.name), kernel=False)
    text = " ".join(reopened.text(1).split())
    assert "edit_file" in text
    assert "edited and allowed by you, once" in text
    reopened.output(1).locator("details", has_text="edit_file").locator("summary").click()
    assert "as the model wrote them" in reopened.text(1)
    reopened.screenshot("approval_record", 1)


def test_of_two_calls_one_is_denied_by_keys_alone_and_no_cell_is_touched(desk):
    notebook = desk.open([SETUP, TWO, LOOK])
    notebook.run(0)
    cells = notebook.count()
    ask(notebook, 1)
    expect(card(notebook).locator(".hnb-added")).to_have_text("+apple,30")
    notebook.page.keyboard.press("d")
    notebook.page.keyboard.type("too dear")
    notebook.page.keyboard.press("Enter")
    expect(card(notebook).locator(".hnb-added")).to_have_text("+pear,50")
    expect(card(notebook)).to_be_focused()
    notebook.page.wait_for_timeout(450)
    notebook.page.keyboard.press("a")
    notebook.wait(1)
    assert "apple,3\npear,50" in notebook.run(2)
    text = notebook.text(1)
    assert "denied by you: too dear" in text
    assert "allowed by you, once" in text
    assert notebook.count() == cells, "a key meant for the card reached JupyterLab"


def test_what_is_allowed_for_the_session_is_not_asked_again_and_the_rest_is(desk):
    notebook = desk.open([SETUP, SCOPED])
    notebook.run(0)
    ask(notebook, 1)
    asked = card(notebook)
    scope = asked.get_by_label("What is allowed for this session")
    assert [text.split(" on ")[0] for text in scope.locator("option").all_inner_texts()] == [
        "edit_file with exactly these arguments",
        "edit_file",
        "every call of edit_file",
    ]
    scope.select_option(index=1)
    expect(scope.locator("option:checked")).to_have_text("edit_file on prices.csv")
    notebook.screenshot("approval_session", 1)
    notebook.press("Allow for this session:", 1)
    expect(asked).to_contain_text("Allow an edit of costs.csv?")
    expect(notebook.page.locator(".hnb-call", has_text="apple,40")).to_contain_text("ok")
    notebook.press("Deny…", 1)
    notebook.page.keyboard.press("Enter")
    notebook.wait(1)
    lines = [line for line in notebook.text(1).splitlines() if line.startswith("edit_file")]
    assert len(lines) == 3
    assert "allowed by you, for this session: edit_file on prices.csv, ok" in lines[0]
    assert "by you" not in lines[1]
    assert "denied by you" in lines[2]


def test_stop_while_it_asks_ends_the_run_and_nothing_has_run(desk):
    notebook = desk.open([SETUP, EDIT, LOOK])
    notebook.run(0)
    ask(notebook, 1)
    notebook.press("Stop", 1)
    notebook.wait(1)
    assert "apple,3" in notebook.run(2)
    assert "stopped by you" in notebook.text(1)


def test_code_is_shown_coloured_runs_in_the_notebook_and_a_late_click_does_nothing(desk):
    notebook = desk.open([SETUP, CODE, "price"])
    notebook.run(0)
    ask(notebook, 1)
    assert card(notebook).locator(".hnb-comment").inner_text() == "# each"
    notebook.screenshot("approval_code", 1)
    notebook.page.evaluate(
        """() => { const button = document.querySelector(".hnb-ask .hnb-go"); for (let n = 0; n < 5; n++) button.click(); }"""
    )
    notebook.wait(1)
    assert notebook.text(1).count("21") >= 1
    assert notebook.run(2).strip().endswith("3")


HOSTILE = 'script(say(call("run_python", code="<img src=x onerror=window.broken=1>\\u202e<script>window.broken=1</script>\\x1b[31m")), "Done.")\n%agent <b>Go</b>'


def test_hostile_text_on_the_card_reads_literally(desk):
    notebook = desk.open([SETUP, HOSTILE])
    notebook.run(0)
    ask(notebook, 1)
    shown = card(notebook).locator(".hnb-preview")
    assert (
        shown.inner_text()
        == "<img src=x onerror=window.broken=1>\\u202e<script>window.broken=1</script>␛[31m"
    )
    assert card(notebook).locator("img, script").count() == 0
    notebook.page.keyboard.press("d")
    notebook.page.keyboard.press("Enter")
    notebook.wait(1)
    assert notebook.page.evaluate("window.broken") is None
