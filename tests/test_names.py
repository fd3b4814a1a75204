"""Names of sessions as names of files: safe everywhere, readable, and never two for one file."""

import re
import unicodedata
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given, strategies as st

from harness_nb.ops.names import file_names, name_in


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("05_streaming.main", "05_streaming.main.jsonl"),
        ("my notes", "my notes.jsonl"),
        ("会话", "会话.jsonl"),
        ("a/b", "a%2Fb.jsonl"),
        ("a%2Fb", "a%252Fb.jsonl"),
        ("..", "%2E..jsonl"),
        (".hidden", "%2Ehidden.jsonl"),
        ("-rf", "%2Drf.jsonl"),
        (" x", "%20x.jsonl"),
        ("CON", "%43ON.jsonl"),
        ("lpt1.x", "%6Cpt1.x.jsonl"),
        ("console", "console.jsonl"),
        ("ü", "%C3%BC.jsonl"),
        ("\u202e\n", "%E2%80%AE%0A.jsonl"),
    ],
)
def test_a_name_stays_readable_where_that_is_safe_on_every_system(name, file):
    assert file_names(name)[0] == file
    assert name_in(Path(file)) == name


def test_a_long_name_is_cut_and_stays_its_own():
    long, longer = file_names("x" * 300)[0], file_names("x" * 301)[0]
    assert long != longer
    assert long.startswith("xxxx")


@given(st.text(min_size=1, max_size=300))
def test_any_name_makes_a_file_name_that_every_system_takes(name):
    for file in file_names(name):
        assert not re.search(r'[/\\:*?"<>|\x00-\x1f\x7f]', file)
        assert len(file.encode()) <= 220
        assert unicodedata.normalize("NFD", file) == file
        assert file[0] not in ".- "
    plain, marked = file_names(name)
    assert plain != marked or len(name.encode()) * 3 > 150
    assert plain == marked or unquote(plain) == f"{name}.jsonl"
