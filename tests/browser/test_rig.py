"""The browser rig itself, on plain cells."""

import time

import pytest

pytestmark = pytest.mark.browser

BUTTON = """
import ipywidgets
button = ipywidgets.Button(description="Go")
button.on_click(lambda _: setattr(button, "description", "Gone"))
button
"""


def test_a_cell_runs_and_its_output_can_be_read(desk):
    notebook = desk.open(["print(6 * 7)"])
    assert notebook.run(0).strip() == "42"
    assert notebook.outputs(0)[0]["text"] == "42\n"


def test_an_interrupt_stops_a_sleep(desk):
    notebook = desk.open(["import time\nprint('asleep', flush=True)\ntime.sleep(600)"])
    notebook.start(0)
    notebook.wait_for_text(0, "asleep")
    assert notebook.running(0)
    started = time.monotonic()
    notebook.interrupt()
    notebook.wait(0)
    assert time.monotonic() - started < 60
    assert "KeyboardInterrupt" in notebook.text(0)


def test_typed_code_and_added_cells_run(desk):
    notebook = desk.open([""])
    notebook.type(0, "a = 2")
    notebook.run(0)
    notebook.write(1, "a + 1")
    assert notebook.run(1).endswith("3")


def test_a_button_in_an_output_can_be_pressed(desk):
    notebook = desk.open([BUTTON])
    notebook.run(0)
    notebook.press("Go", 0)
    notebook.output(0).get_by_role("button", name="Gone").wait_for()
    assert notebook.faults == []


def test_an_error_on_the_page_is_a_fault_unless_it_is_all_jupyterlabs_own(desk):
    page = (notebook := desk.open(["1"], kernel=False)).page
    page.evaluate(
        """() => {
          const commands = window.jupyterapp.commands;
          setTimeout(commands.notifyCommandChanged.bind(commands, "theirs"));
          setTimeout(() => commands.notifyCommandChanged("ours"));
        }"""
    )
    page.wait_for_timeout(500)
    assert ["'ours' is not registered" in fault for fault in notebook.faults] == [True]
    assert ["'theirs' is not registered" in fault for fault in notebook.passed_over] == [True]


def test_a_saved_notebook_reopens_trusted_and_its_copy_does_not(desk):
    notebook = desk.open(['from IPython.display import HTML\nHTML(\'<b onclick="1" id="mark">kept</b>\')'])
    notebook.run(0)
    notebook.save()
    notebook.close()
    assert 'onclick="1"' in desk.open(notebook.name, kernel=False).html(0)
    stranger = desk.open(desk.lab.untrusted(notebook.name), kernel=False)
    assert "kept" in stranger.text(0)
    assert "onclick" not in stranger.html(0)


def test_theme_and_width_change_and_pictures_are_kept(desk):
    notebook = desk.open(["print('seen')"], kernel=False)
    notebook.theme("dark")
    notebook.resize(600)
    assert notebook.screenshot("rig").stat().st_size > 1000
    assert notebook.page.evaluate("window.innerWidth") == 600
