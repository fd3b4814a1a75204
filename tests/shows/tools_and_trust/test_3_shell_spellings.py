"""Ways to spell a command so that a gate overlooks it: none runs, though each does what it is meant to where there is no gate."""

import asyncio
import itertools
import json
import subprocess

import pytest
from hypothesis import given, settings, strategies as st

from harness_nb.messages import ToolCall
from harness_nb.safety.approvals import Approvals, nobody, permitted, unchanged
from harness_nb.safety.permission import MODES, policy
from harness_nb.seams import Call, Run, ToolSpec
from harness_nb.tools import Toolbox, tool

ALLOWED = [
    *("allow shell git status", "allow shell git log *", "allow shell git diff *", "allow shell git *"),
    *(
        "allow shell ls *",
        "allow shell echo *",
        "allow shell cat *",
        "allow shell find *",
        "allow shell sort *",
    ),
    *("allow shell tar *", "allow shell head *", "allow shell wc *", "allow shell true", "allow shell cd *"),
    *("allow shell pri[n]tf *", "allow shell split *"),
]
"""A trusting person's rules; none of them is about `touch`, by which each spelling makes a file called `owned`."""

WITH_TOUCH = [
    # one command after another
    "git status && touch owned",
    "git status; touch owned",
    "git status;touch owned",
    "git status\ntouch owned",
    "git status\n\n\ttouch owned",
    "git status || true && touch owned",
    "git status | touch owned",
    "git status |& touch owned",
    "git status & touch owned",
    "git status &\ntouch owned\nwait",
    "ls nowhere || touch owned",
    "ls 'a\nb'\ntouch owned",
    "true;touch owned;true",
    # one command inside another
    "git status $(touch owned)",
    "git status `touch owned`",
    'git status "$(touch owned)"',
    'echo "a `touch owned` b"',
    "echo $(echo $(touch owned))",
    "echo `echo \\`touch owned\\``",
    "cat <(touch owned)",
    "echo x > >(touch owned; cat); sleep 0.2",
    "echo ${x:-$(touch owned)}",
    "echo $((1 + $(touch owned; echo 1)))",
    "echo ${x:=`touch owned`}",
    "echo 'a'\"$(touch owned)\"'b'",
    "(touch owned)",
    "( cd . && touch owned )",
    "{ touch owned; }",
    "echo a; { touch owned; }",
    # the shell's own language
    "if true; then touch owned; fi",
    "for x in 1; do touch owned; done",
    "while touch owned; do break; done",
    "case x in x) touch owned;; esac",
    "f() { touch owned; }; f",
    "function ls { touch owned; }; ls",
    "! touch owned",
    "time touch owned",
    "coproc touch owned; wait",
    "[[ -n $(touch owned) ]]",
    "trap 'touch owned' EXIT; true",
    "x=touch; $x owned",
    "eval 'touch owned'",
    "eval tou''ch owned",
    "exec touch owned",
    "command touch owned",
    "builtin eval touch owned",
    "shopt -s expand_aliases\nalias ls='touch owned'\nls",
    # the name in disguise
    "t''ouch owned",
    't""ouch owned',
    "to\\uch owned",
    "\\touch owned",
    "'touch' owned",
    '"touch" owned',
    "$'touch' owned",
    "/usr/bin/touch owned",
    "/usr/bin/../bin/touch owned",
    "/usr/bin/tou?h owned",
    "/usr/bin/[t]ouch owned",
    "{touch,owned}",
    "touch${IFS}owned",
    "tou\\\nch owned",
    # commands that start others
    "env touch owned",
    "env A=1 touch owned",
    "A=1 touch owned",
    "nohup touch owned",
    "nice touch owned",
    "timeout 5 touch owned",
    "setsid touch owned; sleep 0.2",
    "echo owned | xargs touch",
    "find . -maxdepth 0 -exec touch owned \\;",
    "find . -maxdepth 0 -execdir touch owned \\;",
    "sh -c 'touch owned'",
    'bash -c "touch owned"',
    "echo touch owned | sh",
    "sh <<< 'touch owned'",
    "sh <<EOF\ntouch owned\nEOF",
    "git -c alias.x='!touch owned' x",
    "git -c core.sshCommand='touch owned' fetch ssh://localhost/x",
    "git -c core.fsmonitor='touch owned; false' status",
    "git config alias.x '!touch owned'; git x",
    "git config core.fsmonitor 'touch owned; false' && git status",
    "git --config-env=alias.x=X x; touch owned",
    "GIT_SSH_COMMAND='touch owned' git fetch ssh://localhost/x",
    "tar -cf /dev/null notes --checkpoint=1 --checkpoint-action=exec='touch owned'",
    "tar -cf out.tar -I 'touch owned;cat' notes",
    "tar --use-comp='touch owned;cat' -cf out.tar notes",
    "tar -cI 'touch owned;cat' -f out.tar notes",
    "tar cIf 'touch owned;cat' out.tar notes",
    "tar -cML 10 -F 'touch owned; false' -f out.tar .git",
    "git clone -q -u 'touch owned; git-upload-pack' . copy",
    "git clone -qu 'touch owned; git-upload-pack' . copy",
    "git clone -c core.sshCommand='touch owned' ssh://localhost/x copy",
    "git rebase -qx 'touch owned' --root",
    "echo connect git-upload-pack | git remote-ext x 'touch owned'",
    "split --filter='touch owned' notes",
    # commands that start others, of which there is no end
    "chrt -o 0 touch owned",
    "csh -c 'touch owned' || tcsh -c 'touch owned' || sh -c 'touch owned'",
    "setpriv touch owned",
    "prlimit touch owned",
    "script -qc 'touch owned' /dev/null",
    "python3 -c \"import os; os.system('touch owned')\"",
    "awk 'BEGIN { system(\"touch owned\") }'",
    "perl -e 'system(\"touch owned\")'",
    "sed -n '1e touch owned' notes",
]

WITHOUT_TOUCH = [
    "echo x > owned",
    "echo x>owned",
    "echo x 2> owned",
    "echo x &> owned",
    "echo x >| owned",
    "echo x >> owned",
    "cat notes 1<>owned",
    "> owned",
    "cat <<EOF > owned\nx\nEOF",
    "echo x > owned 2>&1",
    "echo x >/dev/null > owned",
    "git log --output=owned",
    "git diff --output owned",
    "sort -o owned notes",
    "sort -oowned notes",
    "sort --outp owned notes",
    "sort -ro owned notes",
    "git archive -o owned HEAD",
    "find . -maxdepth 0 -fprint owned",
    "cp notes owned",
    "echo x | tee owned",
    "$'\\x74ouch' owned",
    "$(printf '\\164ouch') owned",
    "$(echo hcuot | rev) owned",
    "a=tou; b=ch; $a$b owned",
    "${x-tou}${y-ch} owned",
    "python3 -c \"open('owned', 'w')\"",
    "printf '\\x74ouch owned' | sh",
]

SPELLINGS = WITH_TOUCH + WITHOUT_TOUCH


@tool(effects={"read", "write"})
def shell(command: str) -> str:
    """Run a command line, without a sandbox or any other help."""
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, timeout=20
    ).stdout


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("EMAIL", "me@example.org")
    (tmp_path / "notes").write_text("b\na\n")
    for line in ("init -q", "add notes", "-c user.name=n -c user.email=e@e commit -qm first"):
        subprocess.run(["git", *line.split()], check=True)
    return tmp_path


def dispatched(command, judge, ask=nobody):
    dispatch = Toolbox([shell]).dispatch(permitted(judge, ask), unchanged)
    return asyncio.run(dispatch(ToolCall("c", "shell", json.dumps({"command": command})), Run()))


@pytest.mark.parametrize("command", SPELLINGS)
def test_no_spelling_runs_what_no_rule_allows(workspace, command):
    result = dispatched(command, policy("ask", ALLOWED))
    assert not (workspace / "owned").exists()
    assert result.is_error


SECRETS = [
    *("cat .env", "cat .en?", "cat .e*", "cat .??*", "cat ./x/../.env", "cat [.].env .[e]nv", "cat -- .env"),
    *(
        "grep -f.env x",
        "cat < .env",
        "cat $PWD/.env",
        "cat .e''nv",
        "cat s*/key",
        "cat */key",
        "cat secret[s]/key",
    ),
    *(
        "cd secrets && cat key",
        "cd x/../secrets; cat key",
        "cd ./s*; cat k*",
        "git -C secrets diff --no-index key x",
    ),
    *(
        "tar -C secrets -cf out.tar key",
        "ls secrets",
        "grep -r . secrets",
        "cp -r secrets copy",
        "cat */../secrets/k*",
    ),
    *("cat link", "cat lin?", "cd there && cat key", "cat /*/*/*/*/key"),
]


@pytest.mark.parametrize("command", SECRETS)
def test_no_spelling_reads_what_a_rule_denies(workspace, command):
    (workspace / "secrets").mkdir()
    (workspace / "x").mkdir()
    for name in (".env", "secrets/key"):
        (workspace / name).write_text("SECRET\n")
    (workspace / "link").symlink_to(".env")
    (workspace / "there").symlink_to("secrets")
    denied = ["deny read .env", "deny read secrets/**"]
    for judge in (policy("ask", [*denied, *ALLOWED, "allow shell grep *"]), policy("auto", denied)):
        assert judge(shell_call(command)).answer != "allow"
    assert policy("auto", denied)(shell_call("cat notes no*")).answer == "allow"


@pytest.mark.parametrize("command", WITH_TOUCH)
def test_no_spelling_runs_what_a_rule_denies_even_where_all_else_is_allowed(workspace, command):
    result = dispatched(command, policy("auto", ["deny shell touch"]))
    assert not (workspace / "owned").exists()
    assert result.is_error


@pytest.mark.parametrize("command", SPELLINGS)
def test_each_spelling_is_a_real_danger(workspace, command):
    dispatched(command, policy("auto"))
    assert (workspace / "owned").exists()


def test_there_are_enough():
    print(f"\n{len(set(SPELLINGS))} spellings of shell commands")
    assert len(set(SPELLINGS)) == len(SPELLINGS) >= 60


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git  status",
        "git status; git status",
        "ls -l && git status || echo none | head -3",
        "git status 2>&1 | head -3",
        "git log --oneline -5 2>/dev/null",
        "ls *.py",
        "echo 'it''s; fine && good | $x `y`'",
        'echo "a; b > c"',
        "ls\ngit status\n",
    ],
)
def test_what_is_plain_and_allowed_runs_without_asking(command):
    assert judged("ask", ALLOWED, shell_call(command)) == "allow"


# -- no sequence of rules lets a denied call run


def shell_call(command):
    return Call("c", {"command": command}, ToolSpec("shell", "", {}, frozenset({"read", "write", "mutate"})))


def file_call(path, *effects):
    return Call("c", {"path": path}, ToolSpec("edit_file", "", {}, frozenset(effects)))


def judged(mode, rules, call):
    return policy(mode, rules)(call).answer


DENIED = [
    ("deny shell rm", shell_call("rm -rf x")),
    ("deny shell rm -rf *", shell_call("git status && /bin/rm -v -rf x")),
    ("deny shell git push", shell_call("git -C . push --force")),
    ("deny *", shell_call("ls")),
    ("deny write", shell_call("ls")),
    ("deny read .env", shell_call("cat sub/.env")),
    ("deny write secrets/**", file_call("notes/../secrets/a", "read", "write")),
    ("deny edit_* .env", file_call("deep/er/.ENV", "write")),
    ("deny edit_file path=**/keys/*", file_call("a/keys/b", "write")),
    ("deny undeclared", file_call("a")),
]
WORDS = st.sampled_from(
    [
        "",
        "git status",
        "rm",
        "rm *",
        "*",
        "**",
        "secrets/**",
        "secrets/a",
        ".env",
        "path=**",
        "command=**",
        "ls",
    ]
)
SUBJECTS = st.sampled_from(
    [
        "shell",
        "edit_file",
        "*",
        "edit_*",
        "read",
        "write",
        "read,write",
        "read,write,network,mutate,spend",
        "undeclared",
    ]
)
RULES = st.lists(
    st.tuples(st.sampled_from(["allow", "ask", "deny"]), SUBJECTS, WORDS).map(" ".join), max_size=8
)


@settings(deadline=None, max_examples=300)
@given(
    denied=st.sampled_from(DENIED),
    before=RULES,
    after=RULES,
    mode=st.sampled_from(list(MODES)),
    granted=st.integers(0, 3),
)
def test_no_sequence_of_rules_and_no_grant_lets_a_denied_call_run(denied, before, after, mode, granted):
    text, call = denied
    judge = policy(mode, [*before, text, *after])
    approvals = Approvals()
    for scope in approvals.scopes(call)[:granted]:
        approvals.grant(call, call, policy("ask")(call), scope.text)
    ran = []

    async def body(inner):
        ran.append(inner)

    async def willing(question, run):
        return question.allow(scope=question.scopes[-1])

    result = asyncio.run(permitted(judge, willing, approvals)(call, Run(), body))
    assert (judge(call).answer, ran, result.is_error) == ("deny", [], True)


@settings(deadline=None, max_examples=200)
@given(rules=RULES, call=st.sampled_from([call for _, call in DENIED]), mode=st.sampled_from(list(MODES)))
def test_the_order_of_rules_does_not_matter(rules, call, mode):
    orders = itertools.islice(itertools.permutations(rules), 24)
    assert len({judged(mode, order, call) for order in orders}) == 1
