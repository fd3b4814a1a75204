"""CASES R24: a rule that allows `git status` lets `git status` run, and nothing that only starts with it."""

import json

import pytest

from harness_nb.messages import ToolCall
from harness_nb.safety.approvals import permitted, unchanged
from harness_nb.safety.permission import policy
from harness_nb.seams import Run
from harness_nb.tools import Toolbox, tool

CASES = [
    ("git status", "runs"),
    ("git status && rm x", "denied"),
    ("git status; rm x", "denied"),
    ("git status\nrm x", "denied"),
    ("git status $(rm x)", "denied"),
    ("git status | sh", "asks"),
    ("git status $(touch p)", "asks"),
    ("git status `touch p`", "asks"),
    ("git status <(touch p)", "asks"),
    ("git statusx", "asks"),
    ("A=1 git status", "asks"),
    ("git -c core.pager='touch p' status", "asks"),
    ("git status > f", "asks"),
    ("git status &", "asks"),
    ("git status 'unclosed", "asks"),
]


@pytest.mark.parametrize(("command", "expected"), CASES)
async def test_what_becomes_of_a_command(command, expected):
    asked, ran = [], []

    @tool(effects={"read", "write", "network", "mutate"})
    def shell(command: str) -> str:
        """Run a command line."""
        ran.append(command)
        return "done"

    async def ask(question, run):
        asked.append(question.call.arguments["command"])
        return question.deny()

    judge = policy("ask", ["allow shell git status", "deny shell rm"])
    dispatch = Toolbox([shell]).dispatch(permitted(judge, ask), unchanged)
    result = await dispatch(ToolCall("c", "shell", json.dumps({"command": command})), Run())
    assert (ran, asked, result.is_error) == {
        "runs": ([command], [], False),
        "denied": ([], [], True),
        "asks": ([], [command], True),
    }[expected]
