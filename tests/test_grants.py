"""What a grant for the session covers, and what it must not: the tool's name alone is never enough."""

from dataclasses import replace

import pytest

from harness_nb.safety.grants import Approvals
from harness_nb.safety.permission import policy
from harness_nb.seams import Call, ToolSpec

SHELL = ToolSpec("shell", "Run a command.", {}, frozenset({"read", "write"}))


def shell(command, spec=SHELL, **more):
    return Call("c", {"command": command, **more}, spec)


def offered(call):
    return [scope.kind for scope in Approvals().scopes(call)]


def granted(call, kind, judge=None):
    """A session in which a person allowed this much at once with a call."""
    approvals = Approvals()
    words = next(scope.text for scope in approvals.scopes(call) if scope.kind == kind)
    approvals.grant(call, call, (judge or policy("ask"))(call), words)
    return lambda other: bool(approvals.covering(other, (judge or policy("ask"))(other)))


@pytest.mark.parametrize(
    "command", ["git", "gh", "/usr/bin/git2 x", "python3.11 x", "PERL x", "sqlite3 x", "fd -x x", "less x"]
)
def test_a_command_that_can_be_anything_is_not_offered_by_its_first_word(command):
    assert offered(shell("ls")) == offered(shell("git push x")) == ["arguments", "command", "tool"]
    plain = command if " " not in command else command.replace("git2 x", "git2 -x")
    assert "command" not in offered(shell(plain))


@pytest.mark.parametrize("kind", ["arguments", "command", "tool"])
def test_a_tool_that_became_another_by_the_same_name_is_not_covered(kind):
    covers = granted(shell("ls"), kind)
    assert covers(shell("ls"))
    for other in ({"description": "Run anything."}, {"effects": frozenset({"network"})}):
        assert not covers(shell("ls", replace(SHELL, **other)))


def test_a_command_that_was_granted_is_not_covered_in_another_folder():
    assert "command" not in offered(shell("make x", cwd="/etc"))
    covers = granted(shell("ls -l"), "command")
    assert (covers(shell("ls")), covers(shell("ls", cwd="/etc")), covers(shell("ls", timeout=5))) == (
        True,
        False,
        True,
    )


def test_every_call_of_a_tool_does_not_cover_what_a_rule_may_deny():
    covers = granted(shell("make"), "tool", policy("ask", ["deny shell rm"]))
    assert covers(shell("ls"))
    assert not covers(shell("$x -rf notes"))
