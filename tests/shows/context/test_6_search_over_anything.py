"""Line 6: an index over binaries and unreadable files tells of them in one sentence, and finds all the rest."""

import json
import os

import pytest

from harness_nb.context.corpus import LARGEST, Corpus
from harness_nb.context.index import Index
from harness_nb.context.search import searching_docs
from harness_nb.messages import ToolCall
from harness_nb.seams import Run
from harness_nb.toolkit.search import SKIPPED
from harness_nb.tools import Toolbox
from harness_nb.workspace import Workspace

ROOT = os.geteuid() == 0


@pytest.fixture
def mess(tmp_path):
    """A folder with one of everything; each file that is text holds `needle` and its own word."""
    (tmp_path / "plain.txt").write_text("needle plain")
    (tmp_path / "wide.txt").write_text("needle wide", encoding="utf-16")
    (tmp_path / "marked.txt").write_text("needle marked", encoding="utf-8-sig")
    (tmp_path / "old\rends.txt").write_bytes(b"needle ends\rmore\r")
    (tmp_path / os.fsdecode(b"odd\xff.txt")).write_text("needle odd")
    (tmp_path / "program.bin").write_bytes(b"\x7fELF\0\0needle binary")
    (tmp_path / "wider.txt").write_text("needle wider", encoding="utf-32")
    (tmp_path / "latin.txt").write_bytes("needle café".encode("latin-1"))
    (tmp_path / "huge.txt").write_bytes(b"needle huge " * (LARGEST // 10))
    (tmp_path / "broken.ipynb").write_text('{"cells": [needle')
    (tmp_path / "empty.txt").touch()
    (tmp_path / "dots.txt").write_text("... !!!")
    (tmp_path / "locked.txt").write_text("needle locked")
    (tmp_path / "locked.txt").chmod(0)
    (tmp_path / "circle").symlink_to(tmp_path)
    (tmp_path / "nowhere").symlink_to("nothing")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


async def search(workspace, query):
    call = ToolCall("c1", "search_docs", json.dumps({"query": query, "k": 10}))
    return await Toolbox([searching_docs(workspace)]).dispatch()(call, Run())


async def test_what_can_not_be_searched_is_one_sentence_and_the_rest_is_found(mess):
    said = await search(mess, "needle")
    assert not said.is_error
    sentences = [line for line in said.text.splitlines() if line.startswith("[Files passed over")]
    locked = "" if ROOT else ", 1 unreadable"
    assert sentences == [
        f"[Files passed over: 1 above 1 MB (20 for a notebook), 2 binary, 1 broken as a notebook, 1 not UTF-8{locked}.]"
    ]
    for word in ("plain", "wide", "marked", "ends", "odd", *(["locked"] if ROOT else [])):
        assert f"needle {word}" in said.text
    print(sentences[0])


def test_a_file_that_goes_before_it_is_read_is_counted_and_hurts_no_other(mess):
    index, documents = Index(), list(Corpus(Workspace(mess)).documents())
    (mess / "plain.txt").unlink()
    index.update(documents)
    assert index.passed_over["unreadable"] == (1 if ROOT else 2)
    assert index.search("wide", 1)
    (mess / "plain.txt").write_text("needle back")
    index.update(Corpus(Workspace(mess)).documents())
    assert index.search("back", 1)[0].chunk.source == "plain.txt"


async def test_a_workspace_that_is_gone_is_one_sentence(tmp_path):
    said = await search(tmp_path / "gone", "needle")
    assert said.is_error
    assert "\n" not in said.text
    print(said.text)


def test_searches_by_word_and_by_line_leave_out_the_same_folders():
    from harness_nb.context.corpus import SKIPPED as OURS

    assert SKIPPED <= OURS
