"""The kernel rig itself, on plain cells."""

import pytest

pytestmark = pytest.mark.kernel


def test_outputs_come_in_order(kernel):
    done = kernel.execute("print(1)\ndisplay(2)\n3")
    assert [sent.type for sent in done.outputs] == ["stream", "display_data", "execute_result"]
    assert done.text == "1\n23"


def test_the_kernel_is_of_the_version_asked_for(kernel):
    version = kernel.execute("import ipykernel; print(ipykernel.__version__)").text
    assert version.startswith("6.31.") == (kernel.version == "6.31")


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


def test_a_dead_cell_says_what_came_instead(kernel):
    with pytest.raises(AssertionError, match="instead: 'other"):
        kernel.start("print('other')").wait_for("this", timeout=2)
