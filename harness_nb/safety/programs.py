"""Programs that start others: what rules about commands know of them. Book chapter 14.

The lists are not complete and can't be. They make the usual ways round a rule ask; walls are for the others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def names(text: str) -> frozenset[str]:
    """Read a list of words."""
    return frozenset(text.split())


WRAPPERS = names(
    "alias ash at bash batch builtin busybox bwrap chroot chrt command csh dash dbus-run-session doas docker entr env "
    "eval exec expect faketime fakeroot find firejail fish flock gdb hyperfine ionice ksh linux32 linux64 ltrace mksh "
    "nice nohup nsenter numactl parallel perf pkexec podman prlimit proot pwsh rlwrap run-parts runuser screen script "
    "setarch setpriv setsid sh source ssh stdbuf strace su sudo systemd-run taskset tcsh time timeout tmux trap "
    "unbuffer unshare valgrind watch xargs xvfb-run zsh ."
)
"""Commands that start the command their arguments name: rules that deny look at all the line's words."""

INTERPRETERS = names(
    "awk bun deno ed emacs gawk ghci ipython irb java jq julia less lua make man mawk more mysql nano node "
    "nodejs npm npx osascript perl php pip pipx poetry psql pypy python r rscript ruby sed sqlite tclsh uv uvx "
    "vi view vim"
)
"""Commands that run what their arguments say: too much to allow by their name alone."""

BROAD = names("apt aws az brew cargo conda dnf gcloud gh git go hg kubectl svn systemctl terraform")
"""Commands that are many: too much to allow without the subcommand."""

STARTERS: dict[str, tuple[str, ...]] = {
    "curl": (
        *("--config", "--cookie-jar", "--dump-header", "--output", "--output-dir", "--remote-name"),
        *("--trace", "-D", "-K", "-O", "-c", "-o"),
    ),
    "fd": ("--exec", "--exec-batch", "-X", "-x"),
    "find": ("-delete", "-exec", "-execdir", "-fls", "-fprint", "-fprint0", "-fprintf", "-ok", "-okdir"),
    "git": (
        *("--exec", "--ext-diff", "--extcmd", "--open-files-in-pager", "--output", "--receive-pack"),
        *("--template", "--textconv", "--tool", "--upload-pack"),
    ),
    "git archive": ("-o",),
    "git clone": ("--config", "-c", "-u"),
    "git grep": ("-O",),
    "git rebase": ("-x",),
    "rg": ("--hostname-bin", "--pre"),
    "rsync": ("--rsh", "--rsync-path", "-e"),
    "sort": ("--compress-program", "--output", "-o"),
    "split": ("--filter",),
    "tar": (
        *("--checkpoint-action", "--info-script", "--new-volume-script", "--rmt-command", "--rsh-command"),
        *("--to-command", "--use-compress-program", "-F", "-I"),
    ),
    "wget": ("--output-document", "--output-file", "--use-askpass", "-O", "-o"),
    "zip": ("--unzip-command", "-TT"),
}
"""Options with which a harmless-looking command, or subcommand of git, starts another program or writes a file."""

GIT_STARTERS = names(
    "bisect config credential daemon difftool filter-branch for-each-repo hook instaweb mergetool remote-ext "
    "send-email submodule web--browse"
)
"""Subcommands of git that start what they are told to, or set what later ones will."""


def program(word: str) -> str:
    """Name the program that the first word of a command starts, without its folder and version."""
    return re.sub(r"[\d.]+$", "", word.rpartition("/")[2].casefold()) or word


def starter(words: Sequence[str]) -> str:
    """Say by which of its words a command may start other programs or write files, empty if by none that is known."""
    name, arguments = program(words[0]), tuple(words[1:])
    if name == "git" and arguments[:1] and arguments[0].startswith("-"):
        return "options before its subcommand can make git start other programs"
    if name == "git" and arguments[:1] and arguments[0] in GIT_STARTERS:
        return f"`git {arguments[0]}` can make git start other programs"
    if name == "uniq" and sum(not word.startswith(("-", "+")) for word in arguments) > 1:
        return "`uniq` writes to the second file it is given"
    options = STARTERS.get(name, ()) + STARTERS.get(" ".join((name, *arguments[:1])), ())
    if name == "tar" and arguments[:1]:
        arguments = (f"-{arguments[0].lstrip('-')}", *arguments)  # its first word may do without the dash
    found = next((known for known in options if any(_gives(word, known) for word in arguments)), "")
    return f"`{name} {found}` can start other programs or write files" if found else ""


def _gives(word: str, option: str) -> bool:
    """Whether a word gives this option, shortened or among other letters as it may be."""
    if len(option) == 2:
        return word.startswith("-") and not word.startswith("--") and option[1] in word
    name = word.partition("=")[0]
    return name == option or (len(name) > 3 and option.startswith(name))
