"""A command line, read: the words each command gets, or a doubt; never words that a shell would read differently."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from harness_nb.safety.commands import outlined, parsed


def words(text):
    line = parsed(text)
    assert line.doubt == ""
    return [" ".join(segment.words) for segment in line.segments]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("git status", ["git status"]),
        ("  git \t status  ", ["git status"]),
        ("a && b || c; d | e\nf", ["a", "b", "c", "d", "e", "f"]),
        ("a\n\n\nb;\n", ["a", "b"]),
        ("a |& b", ["a", "b"]),
        ("a 2>&1 >/dev/null 2> /dev/null </dev/null >&2", ["a"]),
        ("a b#c", ["a b#c"]),
        ("a x=1", ["a x=1"]),
        ("r''m \"x\"y", ["rm xy"]),
        ("\\rm x\\ y", ["rm x y"]),
        ("a ';' '&&' \"|\" '$x' '`b`' '>'", ["a ; && | $x `b` >"]),
        ('a "\\$x \\" \\\\ \\n"', ['a $x " \\ \\n']),
        ("a ''", ["a "]),
        ("git clean -fdx; git switch -c b; cat a*/b*", ["git clean -fdx", "git switch -c b", "cat a*/b*"]),
    ],
)
def test_plain_commands_are_read_as_a_shell_reads_them(text, commands):
    assert words(text) == commands


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("", "empty"),
        ("a $(b)", "inside another"),
        ("a `b`", "inside another"),
        ("a <(b)", "inside another"),
        ('a "$(b)"', "inside another"),
        ("(a)", "subshell"),
        ("a $x", "variable"),
        ("a ${x}", "variable"),
        ("a $'x'", "variable"),
        ("a > f", "file"),
        ("a >/dev/nullx", "file"),
        ("a >/dev/null/../x", "file"),
        ("a &>/dev/null", "file"),
        ("a < f", "file"),
        ("a <<E\nb\nE", "text for its input"),
        ("a &", "background"),
        ("X=1 a", "sets a variable"),
        ("X=1", "sets a variable"),
        ("a # b", "comment"),
        ("a {b,c}", "brace"),
        ("a 'b", "not closed"),
        ('a "b', "not closed"),
        ("a \\", "continued"),
        ("a\\\nb", "continued"),
        ("a )", "brackets"),
        ("if a", "shell program"),
        ("a; { b; }", "brace"),
        ("[ a ]", "pattern"),
        ("a*", "pattern"),
        ("; a", "no command before"),
        ("a ;; b", "no command before"),
        ("а", "not plain"),  # Cyrillic  # noqa: RUF001
        ("'' a", "not plain"),
        ("a\u200b b", "can't be seen"),
        ("a \u202eb", "can't be seen"),
        ("a\rb", "can't be seen"),
        ("a\0b", "can't be seen"),
        ("a\u00a0b", "can't be seen"),
        ("a " * 20_000, "longer"),
        ("$(" * 1000, "inside another"),
        ("(" * 1000, "subshell"),
        ("`" * 1001, "inside another"),
        ("git -c x=y status", "git"),
        ("git bisect run x", "git bisect"),
        ("git log --output=x", "git --output"),
        ("find . -delete", "find -delete"),
        ("sort -ox y", "sort -o"),
        ("sort -rno x y", "sort -o"),
        ("tar cIf x y", "tar -I"),
        ("uniq -c a b", "second file"),
        ("git clone -qu x y", "git -u"),
        ("fd a -x b", "fd -x"),
        ("cat */*/*", "many folders"),
        ("cat " + "* " * 101, "many patterns"),
    ],
)
def test_whatever_else_is_in_doubt(text, doubt):
    assert doubt in parsed(text).doubt


@pytest.mark.parametrize(
    "text", ["a $(rm x)", "a `rm x`", "(rm x)", "a <(rm x)", 'a "$(b $(rm x))"', "X=1 rm x", "rm x > f"]
)
def test_commands_inside_others_are_seen_and_shown(text):
    assert ("rm", "x") in [segment.words for segment in parsed(text).segments]


@pytest.mark.parametrize(
    ("text", "fixed"), [("ls *.py", 1), ("ls '*.py'", 2), ("a b ~/c d", 2), ("a b[1]", 1)]
)
def test_words_that_the_shell_replaces_are_not_fixed(text, fixed):
    assert parsed(text).segments[0].fixed == fixed


PIECES = [
    "a",
    "b",
    "a ",
    " b",
    " ",
    " ",
    "\t",
    "\n",
    ";",
    "&&",
    "||",
    "|",
    "=",
    "~",
    "!",
    "/",
    "-",
    "*",
    "?",
    "]",
    "1",
    "^",
    "%",
]
PIECES += [
    "2>&1",
    ">/dev/null",
    ">&2",
    "'",
    '"',
    "''",
    "'$(b)'",
    "' #'",
    '"; b"',
    '"\\$"',
    '"\\a"',
    "\\$",
    "\\;",
    "\\ ",
    "\\\\",
    "@",
    ",",
]
SHIM = r"""#!/bin/sh
line=$(for word in "${0##*/}" "$@"; do printf '%s\037' "$word"; done; printf .)
printf '%s\036' "${line%.}" >> "$LOG"
"""


def started(text, folder):
    """What bash really starts for this line, where `a` and `b` are programs that note how they were called."""
    log = Path(folder, "log")
    log.write_text("")
    env = {"PATH": f"{folder}/bin", "LOG": str(log), "HOME": "/nowhere"}
    subprocess.run(["/bin/bash", "-c", text], env=env, cwd=folder, check=False, timeout=20, **QUIET)
    return [tuple(call.split("\x1f")[:-1]) for call in log.read_text().split("\x1e")[:-1]]


QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as made:
        Path(made, "bin").mkdir()
        for name in ("a", "b"):
            Path(made, "bin", name).write_text(SHIM)
            Path(made, "bin", name).chmod(0o755)
        yield made


@pytest.mark.skipif(not shutil.which("bash") or os.name != "posix", reason="compares with bash")
@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.sampled_from(PIECES), min_size=2, max_size=14)
    .map("".join)
    .filter(lambda text: not parsed(text).doubt)
)
def test_bash_starts_nothing_but_what_was_read(folder, text):
    read = parsed(text).segments
    for call in started(text, folder):
        assert any(
            segment.words == call
            or (
                segment.words[: segment.fixed] == call[: segment.fixed] != ()
                and segment.fixed < len(segment.words)
            )
            for segment in read
        ), call


def test_a_person_who_is_asked_sees_each_command_of_a_line_and_what_can_t_be_told():
    assert outlined("git status") == ""
    assert outlined("git status && rm -r x") == "starts 2 commands:\n1. git status\n2. rm -r x"
    assert outlined("echo $(rm x)").splitlines() == [
        "starts 2 commands:",
        "1. rm x",
        "2. echo $(rm x)",
        "can't be judged word by word: it runs a command inside another",
    ]
