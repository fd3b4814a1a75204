"""The command line: `harness-nb lab | demo | setup | sessions`. Everything heavy is imported inside its command."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness_nb.errors import HarnessError, UsageError

if TYPE_CHECKING:
    from harness_nb.jupyter.sessions_told import Shelf
    from harness_nb.providers.local.sources import Progress

WELCOME = "00_welcome.ipynb"
QUESTION = "What is 1234 * 5678?"

commands = typer.Typer(
    help="An agent harness that lives in a notebook.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

sessions = typer.Typer(
    help="Look at the sessions that are kept, export and delete them.", no_args_is_help=True
)
commands.add_typer(sessions, name="sessions")
Name = Annotated[str, typer.Argument(help="The session's name, as `list` gives it.")]
Where = Annotated[
    str,
    typer.Option(help="A folder or a database's URL. Default: HARNESS_NB_STORE, else .harness_nb/sessions."),
]


def main() -> None:
    """Run a command; what goes wrong is one sentence and exit code 1."""
    try:
        commands()
    except HarnessError as fault:
        from harness_nb.jupyter.words import visible

        print(f"harness-nb: {visible(str(fault))}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


@commands.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def lab(context: typer.Context) -> None:
    """Open JupyterLab on the welcome notebook. Further options go to JupyterLab, e.g. --no-browser."""
    if find_spec("jupyterlab") is None or find_spec("ipykernel") is None:
        raise UsageError("JupyterLab is not installed here. Install it: pip install 'harness-nb[all]'")
    root = ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []  # a container's user
    where = [f"--ServerApp.root_dir={notebooks()}", f"--LabApp.default_url=/lab/tree/{WELCOME}"]
    quiet = ["--ServerApp.log_level=WARN"]  # leaves the address
    _become([sys.executable, "-m", "jupyterlab", *where, *quiet, *root, *context.args])


@commands.command()
def demo(
    question: Annotated[str, typer.Argument(help="What to ask.")] = QUESTION,
    model: Annotated[str | None, typer.Option(help="Which model answers, e.g. anthropic:MODEL.")] = None,
) -> None:
    """Ask one question and print the run as it streams: the main job without a notebook, no key needed."""
    from harness_nb.jupyter.live import show_run
    from harness_nb.recipes import assistant
    from harness_nb.seams import Run

    if not question.strip():
        raise UsageError(
            "There is no question: write one in quotes, or leave it out for ours. Nothing was sent."
        )
    agent = assistant(model)
    shown = show_run(question, lambda: None)  # Ctrl+C stops it
    shown.view.continues = False
    outcome = asyncio.run(agent.run(question, Run(listener=shown.listener)))
    shown.close()
    if outcome.reason != "done":
        raise typer.Exit(1)


@commands.command()
def setup(
    model: Annotated[str, typer.Option(help="A local model's name, e.g. qwen2.5-coder-1.5b.")] = "",
) -> None:
    """Fetch the embedded model's weights into this user's cache, once."""
    if find_spec("xllamacpp") is None:
        raise UsageError(
            "The embedded engine is not installed here. Install it: pip install 'harness-nb[local]'"
        )
    from harness_nb.providers.local.known import choose
    from harness_nb.providers.local.weights import fetch, find

    chosen = choose(model)
    if isinstance(chosen, Path):
        print(f"{chosen} is on this machine already.")
        return
    path = find(chosen)
    if path is None:
        with _bar(f"Fetching {chosen.name}") as progress:
            path = fetch(chosen, progress)
    print(f"{chosen.name} is ready: {path}")


@sessions.command("list")
def list_sessions(where: Where = "") -> None:
    """List the sessions: how long each is, when it changed last, and how it ended."""
    from harness_nb.jupyter.sessions_told import listed

    print(listed(_shelf(where)))


@sessions.command()
def show(name: Name, where: Where = "") -> None:
    """Print a session: its runs, a line each, and the conversation as it stands."""
    from harness_nb.jupyter.sessions_told import shown

    print(shown(_shelf(where).read(name)))


@sessions.command()
def export(
    name: Name,
    format: Annotated[str, typer.Option(help="html, markdown or jsonl.")] = "html",  # noqa: A002 - the option's name
    output: Annotated[Path | None, typer.Option(help="A new file; without one it is printed.")] = None,
    where: Where = "",
) -> None:
    """Write a session as a page that opens anywhere, as Markdown, or as its records."""
    from harness_nb.jupyter.export import exported, keep

    text = exported(_shelf(where).read(name), format)
    if output is None:
        sys.stdout.buffer.write(text.encode())
    else:
        print(keep(text, output))


@sessions.command()
def prune(
    *,
    older_than: Annotated[str, typer.Option(help="Such as 30d, 12h or 2w, since the last change.")] = "",
    keep: Annotated[int | None, typer.Option(min=0, help="So many of the newest stay in any case.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    where: Where = "",
) -> None:
    """Delete old sessions for good, never one that is at work. It says which, and asks first."""
    from harness_nb.jupyter.sessions_told import prune, pruning

    shelf = _shelf(where)
    chosen = pruning(shelf, older_than, keep)
    print(chosen.told())
    if chosen.going and (yes or typer.confirm("Delete for good?")):
        print("\n".join(prune(shelf, chosen)))


def _shelf(where: str) -> Shelf:
    from harness_nb.jupyter.kept import OFF, where as usual
    from harness_nb.jupyter.sessions_told import Shelf

    place = where.strip() or usual()
    if not place or place == OFF:
        raise UsageError("No sessions are kept: HARNESS_NB_STORE says `off`. Name a place: `--where FOLDER`.")
    return Shelf(place)


@contextmanager
def _bar(words: str) -> Iterator[Progress]:
    """Show how far a download has come."""
    from tqdm import tqdm

    with tqdm(desc=words, unit="B", unit_scale=True) as bar:

        def progress(so_far: int, total: int) -> None:
            bar.total = total
            bar.update(so_far - bar.n)

        yield progress


def _become(command: list[str]) -> None:
    """Hand the terminal to another program, so that Ctrl+C and its exit code are its own."""
    if os.name == "posix":
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    raise typer.Exit(subprocess.call(command))


def notebooks() -> Path:
    """The folder with the notebooks: a clone's own, or else a working copy under the current folder."""
    clone = Path(__file__).parents[1] / "notebooks"
    if (clone / WELCOME).is_file():
        return clone
    shipped = Path(sys.prefix, "share", "harness-nb", "notebooks")
    if not (shipped / WELCOME).is_file():
        raise UsageError(
            "The notebooks are missing here. Reinstall: pip install --force-reinstall harness-nb"
        )
    copy = Path.cwd() / "harness-nb"
    for path in shipped.rglob("*"):
        target = copy / path.relative_to(shipped)
        if path.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return copy


if __name__ == "__main__":
    main()
