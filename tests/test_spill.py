"""Long outputs are kept whole, and a model is told how to read on (public bug report R21)."""

import asyncio
import gc
import json
import re

import pytest
from hypothesis import given, strategies as st

from harness_nb.errors import ToolError
from harness_nb.messages import Image, Text, ToolCall
from harness_nb.results import LIMIT, WIDEST
from harness_nb.safety.spill import PIECE, SHOWN, Outputs, spilled
from harness_nb.seams import Call, Run, ToolSpec
from harness_nb.tools import Toolbox, tool

NEXT = re.compile(r"""read_output\(id="(out-\d+)", offset=(\d+)(?:, find="(.*?)")?\)""")
DUMP = Call("c1", {}, ToolSpec("dump", "Dump.", {}))


class Bench:
    """One tool that returns what it is told to, `read_output`, and the gate round both."""

    def __init__(self, outputs, *values, limit=LIMIT):
        left = list(values)

        @tool(limit=limit)
        def dump() -> object:
            """Dump."""
            value = left.pop(0)
            if isinstance(value, Exception):
                raise value
            return value

        self.run = Run()
        self._dispatch = Toolbox([dump, outputs.reader]).dispatch(spilled(outputs))

    async def __call__(self, name="dump", **arguments):
        return await self._dispatch(ToolCall("c1", name, json.dumps(arguments)), self.run)


def files(folder):
    return sorted(path.name for path in folder.glob("out-*"))


@pytest.mark.parametrize(
    ("huge", "last"),
    [
        ("x" * 36_000_000, "xxx"),
        ("\n".join(f"line {n}" for n in range(200_000)) + "\nERROR at the end", "ERROR at the end"),
        ("日" * 50_000, "日日"),
        ({"rows": ["abcdefgh"] * 180_000}, '"abcdefgh"]}'),
        ("🍸\udce9\n" * 20_000, "🍸\N{REPLACEMENT CHARACTER}\n"),
        (b"bytes " * 30_000, "bytes "),
        ([Text("short"), Text("y" * 159_000)], "yyy"),
        (ValueError("z" * 40_000), "zzz"),
    ],
    ids=["one line", "many lines", "three bytes each", "data", "emoji", "bytes", "parts", "an error"],
)
async def test_head_and_tail_stay_and_both_ends_name_the_next_call(tmp_path, huge, last):
    outputs = Outputs(tmp_path)
    said = (await Bench(outputs, huge)()).text
    assert len(said) <= LIMIT
    assert len(said) > LIMIT * 0.9
    *body, end = said.splitlines()
    (top,) = [line for line in body[:2] if "long output" in line]
    assert said.count("long output, shortened") == 2
    assert (
        NEXT.findall(top)
        == NEXT.findall(end)
        == [("out-1", re.search(r"first ([\d,]+)", top)[1].replace(",", ""), "")]
    )
    assert said[: -len(end) - 1].endswith(last)
    with pytest.raises(ValueError, match=r"Expecting value|Extra data"):
        json.loads(said)


async def test_following_the_calls_reads_all_of_it(tmp_path):
    text = "".join(f"{n} 日🍸\r\n" for n in range(9_000))
    ask = Bench(Outputs(tmp_path), text)
    said = (await ask()).text
    (top, rest) = said.split("\n", 1)
    name, offset, _ = NEXT.findall(top)[0]
    pieces = [rest[: int(offset)]]
    while offset:
        said = (await ask("read_output", id=name, offset=int(offset))).text
        shown, footer = said.rsplit("\n", 1)
        assert "long output" not in said
        pieces.append(shown)
        offset = NEXT.findall(footer)[0][1] if NEXT.findall(footer) else None
    assert "".join(pieces) == text
    assert files(tmp_path) == ["out-1.txt"]


async def test_a_text_is_found_wherever_it_is(tmp_path):
    text = "".join(f"{n:07}\n" for n in range(60_000))
    ask = Bench(Outputs(tmp_path), text)
    await ask()
    at = text.index("0008191\n")
    assert at < PIECE < at + 8 + 1
    said = (await ask("read_output", id="out-1", offset=5, find="0008191\n0008")).text
    assert "\n0008191\n0008192\n" in said
    assert f"found at {at:,}" in said
    assert NEXT.findall(said)[0] == ("out-1", str(at + 12), r"0008191\n0008")
    missing = await ask("read_output", id="out-1", find="nowhere")
    assert missing.is_error
    assert missing.text == "`out-1` does not hold this text from character 0 on."


@given(st.text(alphabet="aé日🍸\r\n", max_size=40), st.integers(0, 50), st.integers(1, 50))
def test_any_part_is_the_part_of_the_text(tmp_path_factory, text, offset, count):
    outputs = Outputs(tmp_path_factory.mktemp("outputs"))
    text *= 9_000
    name = outputs.keep(text, DUMP)
    with outputs._opened(name) as (file, kept):
        offset *= 3_001
        assert kept.read(file, min(offset, kept.total), count * 2_003) == text[offset:][: count * 2_003]
    assert outputs.text(name) == text


async def test_what_is_short_enough_is_left_alone(tmp_path):
    outputs = Outputs(tmp_path / "new")
    ask = Bench(outputs, "x" * (LIMIT - 1), [Text("a"), Image(b"GIF89a\1\0\1\0", "image/gif")])
    assert (await ask()).text == "x" * (LIMIT - 1)
    assert len((await ask()).content) == 2
    assert not (tmp_path / "new").exists()


async def test_the_tools_own_limit_holds(tmp_path):
    said = (await Bench(Outputs(tmp_path), "x" * 50_000, limit=2_000)()).text
    assert len(said) <= 2_000
    assert said.count("long output, shortened") == 2


async def test_the_same_output_is_kept_once_and_ids_count_up(tmp_path):
    ask = Bench(Outputs(tmp_path), "x" * 50_000, "y" * 50_000, "x" * 50_000)
    first, second, third = (await ask()).text, (await ask()).text, (await ask()).text
    assert first == third
    assert '"out-2"' in second
    assert files(tmp_path) == ["out-1.txt", "out-2.txt"]
    assert (tmp_path / ".gitignore").read_text() == "*\n"


async def test_control_codes_are_seen_and_what_they_add_does_not_cut_the_footer_off(tmp_path):
    ask = Bench(Outputs(tmp_path), "\x1b\x9b" * 30_000)
    said = (await ask()).text
    assert len(said) <= LIMIT
    name, offset, _ = NEXT.findall(said)[0]
    said = (await ask("read_output", id=name, offset=int(offset))).text
    assert said.startswith(("␛\\u009b", "\\u009b␛")[int(offset) % 2])
    assert len(said) <= LIMIT
    assert int(NEXT.findall(said)[0][1]) - int(offset) == SHOWN // WIDEST


async def test_the_oldest_go_when_there_is_no_more_room(tmp_path):
    outputs = Outputs(tmp_path, most=100_000)
    ask = Bench(outputs, *(letter * 40_000 for letter in "abc"), "d" * 200_000)
    for _ in range(3):
        await ask()
    assert files(tmp_path) == ["out-2.txt", "out-3.txt"]
    gone = await ask("read_output", id="out-1")
    assert gone.text == "There is no output `out-1`, or no longer: make the call that gave it again."
    said = (await ask()).text
    assert "the rest could not be kept: it has more than 100,000 bytes" in said or "File too large" in said
    assert files(tmp_path) == ["out-2.txt", "out-3.txt"]


async def test_a_folder_that_can_not_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    said = (await Bench(Outputs(tmp_path / "file" / "under"), "x" * 50_000)()).text
    assert "the rest could not be kept: Not a directory; ask for less" in said


async def test_a_new_session_goes_on_counting_and_reads_the_old_ones(tmp_path):
    Outputs(tmp_path).keep("日\r\n" * 50_000, DUMP)
    outputs = Outputs(tmp_path)
    ask = Bench(outputs, "x" * 50_000)
    assert '"out-2"' in (await ask()).text
    assert (await ask("read_output", id="out-1", offset=149_999)).text.startswith(
        "\n\n[out-1: characters 149,999 to"
    )


@pytest.mark.parametrize(
    "name",
    [
        "",
        "out-0",
        "out-1.txt",
        "../out-1",
        "/etc/passwd",
        "out-1\0",
        "OUT-1",
        "out-\uff11",
        "x" * 500,
        "out-1\n",
    ],
)
async def test_an_id_leads_nowhere_else(tmp_path, name):
    outputs = Outputs(tmp_path)
    outputs.keep("x", DUMP)
    result = await Bench(outputs)("read_output", id=name)
    assert result.is_error
    assert "is not the id of an output" in result.text


async def test_links_in_the_folder_are_neither_read_nor_written(tmp_path):
    secret, folder = tmp_path / "secret", tmp_path / "outputs"
    secret.write_text("secret")
    folder.mkdir()
    outputs = Outputs(folder)
    outputs.keep("x", DUMP)
    (folder / "out-2.txt").symlink_to(secret)
    (folder / "out-3.txt").symlink_to(tmp_path / "dangling")
    assert outputs.keep("y" * 10, DUMP) == "out-4"
    assert secret.read_text() == "secret"
    assert not (tmp_path / "dangling").exists()
    with pytest.raises(ToolError, match="There is no output"):
        outputs.text("out-2")


async def test_an_offset_past_the_end_is_told_the_length(tmp_path):
    outputs = Outputs(tmp_path)
    outputs.keep("x" * 10, DUMP)
    ask = Bench(outputs)
    assert (
        await ask("read_output", id="out-1", offset=10)
    ).text == "`out-1` has 10 characters: give an offset from 0 to 9."
    assert (
        await ask("read_output", id="out-1", offset=-3)
    ).text == "xxxxxxxxxx\n[out-1: characters 0 to 10 of 10]"


async def test_parallel_calls_have_ids_of_their_own(tmp_path):
    ask = Bench(Outputs(tmp_path), *(f"{n}" * 50_000 for n in range(8)))
    said = await asyncio.gather(*(ask() for _ in range(8)))
    assert len({NEXT.findall(result.text)[0][0] for result in said}) == 8


def test_a_temporary_folder_goes_with_its_outputs():
    outputs = Outputs()
    outputs.keep("x", DUMP)
    folder = outputs._folder
    assert files(folder) == ["out-1.txt"]
    del outputs
    gc.collect()
    assert not folder.exists()


def test_whose_output_is_read_is_known(tmp_path):
    outputs = Outputs(tmp_path)
    name = outputs.keep("x", DUMP)
    reading = Call("c2", {"id": name}, outputs.reader.spec)
    assert outputs.maker(DUMP) is DUMP
    assert outputs.maker(reading) is DUMP
    later = Outputs(tmp_path)
    assert later.maker(Call("c3", {"id": name}, later.reader.spec)) is None
