"""The kernel rig itself, on plain cells."""

import pytest
from kernel.rig import NEWEST, OLDEST, VERSIONS

pytestmark = [pytest.mark.kernel, pytest.mark.parametrize("kernel", VERSIONS, indirect=True)]


def test_outputs_come_in_order(kernel):
    done = kernel.execute("print(1)\ndisplay(2)\n3")
    assert [sent.type for sent in done.outputs] == ["stream", "display_data", "execute_result"]
    assert done.text == "1\n23"


def test_the_kernel_is_of_the_version_asked_for(kernel):
    version = kernel.execute("import ipykernel; print(ipykernel.__version__)").text
    if kernel.version == NEWEST:
        assert tuple(map(int, version.split(".")[:2])) > (7, 3)
    else:
        assert version.startswith(f"{kernel.version}.")


def test_an_interrupt_ends_the_cell_and_the_next_one_runs(kernel):
    cell = kernel.start("import time; print('asleep', flush=True); time.sleep(600)")
    cell.wait_for("asleep")
    kernel.interrupt()
    assert cell.finish().error == "KeyboardInterrupt"
    assert kernel.execute("print('awake')").text == "awake\n"


def test_input_is_answered(kernel):
    assert kernel.execute("print(input('name? '))", answers=["Ada"]).text == "Ada\n"


def test_a_comm_message_arrives(kernel):
    opened = kernel.execute(
        "from comm import create_comm\nc = create_comm('t')\nc.on_msg(lambda m: got.append(m)); got = []"
    )
    (sent,) = [sent for sent in opened.outputs if sent.type == "comm_open"]
    kernel.send_comm(sent.content["comm_id"], {"clicked": True})
    assert kernel.execute("print(got[0]['content']['data'])").text == "{'clicked': True}\n"


def test_a_comm_message_sent_aside_passes_a_cell_at_work_where_there_are_subshells(kernel):
    opened = kernel.execute(
        "import time\nfrom comm import create_comm\nc = create_comm('t')\nc.on_msg(lambda m: got.append(m)); got = []"
    )
    (sent,) = [sent for sent in opened.outputs if sent.type == "comm_open"]
    cell = kernel.start(
        "print('at it', flush=True)\nfor _ in range(30): got or time.sleep(0.1)\nprint(len(got))"
    )
    cell.wait_for("at it")
    kernel.send_comm(sent.content["comm_id"], {}, aside=True)
    heard = cell.finish().text.removeprefix("at it\n")
    assert heard == (
        "1\n" if kernel.version == "7.3" else "0\n"
    )  # later ones send it to the shell that made the comm
    assert kernel.has_subshells == (kernel.version != OLDEST)


def test_nbclient_runs_cells_in_the_same_kernel(kernel):
    kernel.execute("x = 6")
    done = kernel.headless("y = x + 1\ny")
    assert done.cells[0].outputs[0]["data"]["text/plain"] == "7"
    assert kernel.execute("y").text == "7"


def test_a_dead_cell_says_what_came_instead(kernel):
    with pytest.raises(AssertionError, match="instead: 'other"):
        kernel.start("print('other')").wait_for("this", timeout=2)
