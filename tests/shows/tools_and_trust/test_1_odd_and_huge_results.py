"""Line 1, public bug reports R19 and R21: odd characters and huge results on the way to wire, store and view."""

import json
import re
import sqlite3

import pytest

from harness_nb.agent import Agent
from harness_nb.encoding import decode, encode
from harness_nb.errors import ToolError
from harness_nb.jupyter.record import as_html, as_markdown, as_text
from harness_nb.jupyter.view import RunView
from harness_nb.messages import Text
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.results import LIMIT
from harness_nb.safety.spill import Outputs, spilled
from harness_nb.safety.trust import labelled
from harness_nb.seams import Run
from harness_nb.tools import Toolbox, tool

ACTING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e0fff]")
ODD = {
    "half a byte": ("caf\udce9.txt", "caf\N{REPLACEMENT CHARACTER}.txt"),
    "lone surrogate": ("\ud800", "\N{REPLACEMENT CHARACTER}"),
    "pair": ("\ud83c\udf78", "🍸"),
    "NUL": ("a\0b", "a␀b"),
    "clear": ("\x1b[2J", "␛[2J"),
    "title": ("\x1b]0;mine\x07", "␛]0;mine␇"),
    "progress": ("10%\r50%\r100%", "10%␍50%␍100%"),
    "bidi": ("\u202egpj.exe", "\\u202egpj.exe"),
    "tags": ("hi\U000e0041\U000e007f", "hi\\udb40\\udc41\\udb40\\udc7f"),
    "C1": ("\x9b31m", "\\u009b31m"),
}
HUGE = {
    "one line": "x" * 36_000_000,
    "error last": "\n".join(f"line {n}" for n in range(200_000)) + "\nERROR: the last line",
    "three bytes each": "日" * 50_000,
    "JSON": {"rows": ["abcdefgh"] * 180_000},
    "as of a server": [Text("words " * 26_500)],
    "cut before": "[output cut: 1,000 lines left out]\n" + "y\n" * 7_000,
}


async def played(value, tmp_path, *, fails=False, effects=frozenset({"read"})):
    """The result that a model is sent when a tool returns the value, the run, and what a person sees of it."""

    @tool(effects=effects)
    def give() -> object:
        """Give."""
        if fails:
            raise ToolError(value)
        return value

    outputs = Outputs(tmp_path)
    model = scripted(say(call("give")), "Done.")
    view = RunView("Go.")
    run = Run(listener=view.take)
    agent = Agent(
        model, Toolbox([give, outputs.reader]), gates=(spilled(outputs), labelled(maker=outputs.maker))
    )
    assert (await agent.run("Go.", run)).reason == "done"
    return model.requests[1].messages[-1].results[0], run, view


@pytest.mark.parametrize("fails", [False, True], ids=["returned", "raised"])
@pytest.mark.parametrize("name", ODD)
async def test_r19_an_odd_character_is_seen_and_harms_nothing(tmp_path, name, fails):
    value, seen = ODD[name]
    result, run, view = await played(value, tmp_path, fails=fails)
    assert result.text == seen
    stored = [json.dumps(encode(entry), ensure_ascii=False) for entry in run.transcript.entries]
    assert [decode(json.loads(line.encode("utf-8"))) for line in stored] == list(run.transcript.entries)
    with sqlite3.connect(":memory:") as store:
        store.execute("create table lines (text)")
        store.executemany("insert into lines values (?)", [(line,) for line in stored])
        assert [row[0] for row in store.execute("select text from lines")] == stored
        assert store.execute("select length(?)", (result.text,)).fetchone()[0] == len(result.text)
    store.close()
    for form in (as_html(view), as_text(view), as_markdown(view)):
        assert not ACTING.search(form)


@pytest.mark.parametrize("effects", [{"read"}, {"network"}], ids=["own", "from outside"])
@pytest.mark.parametrize("name", HUGE)
async def test_r21_a_huge_result_is_bounded_and_kept_whole(tmp_path, name, effects):
    result, run, view = await played(HUGE[name], tmp_path, effects=effects)
    text = result.text
    assert len(text) <= LIMIT
    assert not result.is_error
    assert ("<outside-" in text) == (effects == {"network"})
    cut = name != "cut before"
    assert text.count("long output, shortened") == (2 if cut else 0)
    assert text.count('read_output(id="out-1", offset=') == (2 if cut else 0)
    assert len(list(tmp_path.glob("out-*"))) == cut
    assert sum(len(json.dumps(encode(entry))) for entry in run.transcript.entries) < 120_000
    assert len(as_html(view)) < 60_000
    if name == "error last":
        assert "ERROR: the last line\n[long output" in text
    if name == "JSON":
        with pytest.raises(ValueError, match=r"Expecting|Extra"):
            json.loads(text)
