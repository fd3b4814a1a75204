"""Texts are cut where their structure says, and nothing is lost at a cut."""

import json

import pytest
from hypothesis import given, settings, strategies as st

from harness_nb.context.chunks import MOST, OUTPUT, of_file

LINES = st.lists(
    st.one_of(
        st.text("ab #=-`~@:日\t", max_size=30),
        st.sampled_from(
            ["", "# One", "## Two", "def f():", "    def g(self):", "class A:", "```", "===", "x" * 3_000]
        ),
    ),
    max_size=80,
)


def notebook(*cells):
    return json.dumps({"cells": [{"cell_type": kind, "source": text} | more for kind, text, more in cells]})


def titles(path, text):
    return [(chunk.part, chunk.title) for chunk in of_file(path, text)]


def test_markdown_is_cut_at_headings_but_not_in_code():
    text = "intro\n\n# Top\nwords\n```\n# no heading\n```\n## Inner ##\nmore\nUnder\n=====\nend"
    assert titles("a.md", text) == [
        ("lines 1-1", ""),
        ("lines 3-7", "Top"),
        ("lines 8-9", "Top > Inner"),
        ("lines 10-12", "Under"),
    ]


def test_python_is_cut_at_functions_and_a_long_class_at_methods():
    method = "    def {}(self):\n" + "        work()\n" * 60
    text = f'"""Doc."""\nimport os\n\n\n# why\n@wraps\ndef f():\n    pass\n\n\nclass A:\n    """A."""\n\n{method.format("one")}\n{method.format("two")}'
    assert titles("a.py", text) == [
        ("lines 1-2", ""),
        ("lines 5-8", "f"),
        ("lines 11-12", "A"),
        ("lines 14-74", "A.one"),
        ("lines 76-136", "A.two"),
    ]


def test_broken_python_is_cut_all_the_same():
    assert titles("a.py", "def f(:\n  (\n\ndef g(\n") == [("lines 1-2", "f"), ("lines 4-4", "g")]


def test_a_notebook_is_cut_at_cells_and_keeps_the_start_of_what_they_printed():
    printed = {
        "outputs": [{"text": ["42\n", "y" * 999]}, {"data": {"image/png": "iVBOR", "text/plain": "<Figure>"}}]
    }
    chunks = of_file(
        "a.ipynb", notebook(("markdown", ["# Title\n", "words"], {}), ("code", "print(6 * 7)", printed))
    )
    assert [(c.part, c.title) for c in chunks] == [("cell 1", "Title"), ("cell 2", ""), ("cell 2", "output")]
    assert chunks[1].text == "print(6 * 7)"
    assert chunks[2].text.startswith("42\nyyy")
    assert len(chunks[2].text) == OUTPUT
    assert "iVBOR" not in str(chunks)


def test_a_notebook_of_an_old_format_is_read_too():
    text = json.dumps({"worksheets": [{"cells": [{"cell_type": "code", "input": ["a = 1"], "outputs": []}]}]})
    assert [chunk.text for chunk in of_file("a.ipynb", text)] == ["a = 1"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"cells": [1]}', '{"cells": [{}]}', "[" * 100_000, '"x"']
)
def test_what_only_looks_like_a_notebook_is_refused(text):
    with pytest.raises(ValueError, match="it is no notebook"):
        of_file("a.ipynb", text)


@settings(deadline=None)
@given(LINES, st.sampled_from(["a.md", "a.py", "a.txt", "a"]))
def test_every_line_is_in_a_passage_that_says_so_and_none_is_long(lines, path):
    chunks = of_file(path, "\n".join(lines))
    assert all(len(chunk.text) <= MOST for chunk in chunks)
    covered = set()
    for chunk in chunks:
        first, last = map(int, chunk.part.removeprefix("lines ").split("-"))
        assert chunk.line == first
        assert chunk.text in "\n".join(lines[first - 1 : last])
        covered |= set(range(first, last + 1))
    assert {number for number, line in enumerate(lines, 1) if line.strip()} <= covered


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.text("abc", min_size=1, max_size=60), min_size=1, max_size=400),
    st.integers(0, 399),
    st.booleans(),
)
def test_no_word_is_cut_in_two_everywhere(found, at, on_one_line):
    found.insert(at, "needle")
    text = (" " if on_one_line else "\n").join(found)
    assert any("needle" in chunk.text for chunk in of_file("a.txt", text))
