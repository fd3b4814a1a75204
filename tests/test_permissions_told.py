"""What may run, as a person sets it by `%config` and a file and reads it in `%agent permissions`."""

import pytest

import harness_nb
from harness_nb import UsageError, call, say, scripted
from harness_nb.jupyter.permissions import permissions_told
from harness_nb.safety.grants import Judgement
from harness_nb.safety.permission import Verdict
from harness_nb.seams import Call, ToolSpec

LOOSENED = "harness_nb.toml in this folder lets more happen without asking"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The notebook's folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(shell, code):
    shell.run_cell(code).raise_error()


def fates(shell, *calls):
    """Whether each call of one run ran."""
    session = harness_nb.session()
    session.model = scripted(say(*calls), "Done.")
    ran(shell, "%agent --new go")
    return [not result.is_error for result in session.transcript.messages[2].results]


def told(shell, capsys):
    capsys.readouterr()
    ran(shell, "%agent permissions")
    return capsys.readouterr().out


WRITE = call("write_file", path="a.txt", text="x")
LOOK = call("list_variables")


def test_a_mode_set_by_config_holds_from_the_next_run_on(shell, folder):
    assert fates(shell, WRITE, LOOK) == [False, True]
    ran(shell, "%config AgentMagics.mode = 'edits'")
    assert fates(shell, WRITE, LOOK) == [True, True]
    ran(shell, "%config AgentMagics.mode = 'plan'")
    assert fates(shell, WRITE, LOOK) == [False, True]


def test_rules_set_by_config_hold_from_the_next_run_on(shell, folder):
    ran(shell, "%config AgentMagics.rules = ['allow write_file a.txt', 'deny list_variables']")
    assert fates(shell, WRITE, LOOK) == [True, False]
    ran(shell, "%config AgentMagics.rules = []")
    assert fates(shell, WRITE, LOOK) == [False, True]


def test_a_mode_that_is_none_and_a_rule_that_cannot_be_read_are_told(shell, folder, caplog):
    shell.run_cell("%config AgentMagics.mode = 'yolo'")
    assert "any of ['ask', 'edits', 'plan', 'auto'] or None, not the str 'yolo'" in caplog.text
    ran(shell, "%config AgentMagics.rules = ['permit ls']")
    with pytest.raises(UsageError, match="must start with allow, ask or deny"):
        ran(shell, "%agent hi")


def test_it_is_told_which_rule_decided_where_it_stands_and_why(shell, folder, capsys):
    (folder / "harness_nb.toml").write_text('[permissions]\nmode = "edits"\nrules = ["deny read *.key"]\n')
    ran(shell, "%config AgentMagics.rules = ['allow shell git *']")
    harness_nb.session().rules = ["deny list_variables"]
    fates(shell, call("read_file", path="my.key"), call("shell", command="make"), LOOK, WRITE)
    assert (
        told(shell, capsys)
        == """\
Mode `edits` (harness_nb.toml). Reading and writing files in the workspace is allowed; everything else asks.

Rules:
  ask write,mutate harness_nb.toml   (built in)
  ask write,mutate .git   (built in)
  ask write,mutate .harness_nb   (built in)
  ask write,mutate .envrc   (built in)
  ask write,mutate jupyter_*config.*   (built in)
  allow scratchpad_write   (built in)
  deny read *.key   (harness_nb.toml line 3)
  allow shell git *   (%config)
  deny list_variables   (this session)
What is denied of commands is a net, not a wall: other code that may run, in Python say, can do the same, \
and a command that goes through whole folders, such as `grep -r`, meets what is denied below them.

The last 4 calls:
  read_file {"path":"my.key"}
    Denied. The rule `deny read *.key` (harness_nb.toml line 3) forbids it.
  shell {"command":"make"}
    Denied. Mode `edits` asks, since no rule allows `make`. Nobody is here to allow it.
  list_variables {}
    Denied. The rule `deny list_variables` forbids it.
  write_file {"path":"a.txt","text":"x"}
    Allowed. Mode `edits` allows it.
"""
    )


def test_before_anything_ran_the_mode_is_told(shell, folder, capsys):
    assert told(shell, capsys).startswith("Mode `ask`. Reading in the workspace is allowed")
    ran(shell, "%config AgentMagics.mode = 'auto'")
    assert told(shell, capsys).startswith("Mode `auto` (%config). Everything is allowed that no rule")
    harness_nb.session().mode = "plan"
    assert told(shell, capsys).startswith("Mode `plan` (this session). ")


@pytest.mark.parametrize(
    ("past", "words"),
    [
        ({"allowed": True, "by": "you"}, "Allowed by you, once. It asks."),
        (
            {"allowed": True, "by": "you", "scope": "`t` on `a`"},
            "Allowed by you for this session: `t` on `a`. It asks.",
        ),
        (
            {"allowed": True, "by": "granted", "scope": "`t` on `a`"},
            "Allowed, as you allowed for this session: `t` on `a`. It asks.",
        ),
        ({"by": "you"}, "Denied by you. It asks."),
        ({"by": "you", "reason": "Too dear."}, "Denied by you: Too dear. It asks."),
        (
            {"by": "timeout", "reason": "Nobody answered within 5 s."},
            "Denied. It asks. Nobody answered within 5 s.",
        ),
        ({"by": "interrupted"}, "Stopped before it was decided. It asks."),
        ({"by": "refused before"}, "Denied, as it was refused before. It asks."),
        ({"by": "you", "reason": "\x1b[2Jno"}, "Denied by you: ␛[2Jno. It asks."),
    ],
)
def test_each_decision_reads_as_a_sentence(shell, folder, past, words):
    fates(shell, LOOK)
    session = harness_nb.session()
    asked = Call("1", {"path": "a"}, ToolSpec("t", "", {}))
    session.approvals.note(
        Judgement.of(asked, Verdict("ask", "It asks.", "ask t"), **{"allowed": False} | past)
    )
    assert permissions_told(session).endswith(f'  t {{"path":"a"}}\n    {words}')


@pytest.mark.parametrize("line", ['mode = "auto"', 'rules = ["allow shell ls"]'])
def test_a_file_that_loosens_is_told_of_at_each_run(shell, folder, capsys, line):
    (folder / "harness_nb.toml").write_text(f"[permissions]\n{line}\n")
    for _ in range(2):
        fates(shell, LOOK)
        assert capsys.readouterr().out.count(LOOSENED) == 1


def test_a_mode_of_the_file_that_is_overruled_loosens_nothing(shell, folder, capsys):
    (folder / "harness_nb.toml").write_text('[permissions]\nmode = "auto"\n')
    ran(shell, "%config AgentMagics.mode = 'ask'")
    fates(shell, LOOK)
    assert LOOSENED not in capsys.readouterr().out


def test_in_mode_auto_no_rule_is_built_in(shell, folder, capsys):
    assert "(built in)" in told(shell, capsys)
    ran(shell, "%config AgentMagics.mode = 'auto'")
    assert "There are no rules." in told(shell, capsys)


@pytest.mark.parametrize("line", ["", 'mode = "plan"', 'rules = ["deny shell ls", "ask read *.key"]'])
def test_a_file_that_only_tightens_is_not(shell, folder, capsys, line):
    (folder / "harness_nb.toml").write_text(f"[permissions]\n{line}\n")
    fates(shell, LOOK)
    assert LOOSENED not in capsys.readouterr().out
