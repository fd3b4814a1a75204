"""`%cost`: read and done. It shows what a session has cost; alone, by run."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from harness_nb.errors import UsageError
from harness_nb.jupyter.cost import By, Costs
from harness_nb.jupyter.kept import Kept
from harness_nb.jupyter.options import session_named
from harness_nb.jupyter.session import MAIN, session as session_of, session_names
from harness_nb.jupyter.shell import in_kernel, running_shell
from harness_nb.jupyter.words import one_line, visible

COMMANDS = {
    "runs": "what each run cost; the same as nothing",
    "turns": "what each request to the model cost, by run and turn",
    "agents": "by who asked: the agent itself, and those that it started",
    "models": "by model",
    "--plot": "draw it as a picture; may follow any of these",
    "help": "show this",
}
BY: dict[str, By] = {"": "run", "runs": "run", "turns": "turn", "agents": "agent", "models": "model"}


@dataclass(frozen=True, slots=True)
class CostWanted:
    """What a line asks for; `by` is None for help."""

    by: By | None = "run"
    plot: bool = False
    session: str = MAIN


def cost_read(text: str) -> CostWanted:
    """Read what follows `%cost`. Raises UsageError with the fix."""
    name, text = session_named(text, "%cost")
    if name and name not in session_names() and not Kept(name).begun:
        raise UsageError(f"No session is called `{_short(name)}`. Nothing is shown.")
    words = text.split()
    plot = "--plot" in words
    words = [word for word in words if word != "--plot"]
    if len(words) > 1:
        raise UsageError(f"`%cost` takes one word, not `{_short(' '.join(words))}`. {_there()}")
    command = words[0] if words else ""
    if command == "help":
        return CostWanted(None, plot, name or MAIN)
    if command not in BY:
        near = difflib.get_close_matches(command, [*COMMANDS, "--session"], n=1, cutoff=0.5)
        hint = f"did you mean `{near[0]}`?" if near else _there()
        raise UsageError(f"`%cost` knows no `{_short(command)}`: {hint}")
    return CostWanted(BY[command], plot, name or MAIN)


def _there() -> str:
    return f"There is {', '.join(f'`{name}`' for name in COMMANDS)}, and `--session NAME` before them."


def cost_done(wanted: CostWanted) -> None:
    """Show it below the cell. Raises UsageError where it can't be shown."""
    if wanted.by is None:
        print(cost_usage())  # noqa: T201 - help is text
        return
    session = session_of(wanted.session)
    costs = Costs.of(session, wanted.by)
    if not costs.lines:
        print(f"Session `{visible(session.name)}` has cost nothing yet: no model was asked.")  # noqa: T201 - so that a cell answers
        return
    from harness_nb.jupyter.cost_record import as_text, bundle

    if not in_kernel(running_shell()):
        print(as_text(costs))  # noqa: T201 - a terminal shows text
        return
    from IPython.display import display

    display(bundle(costs, plot=wanted.plot), raw=True)  # type: ignore[no-untyped-call]


def cost_usage() -> str:
    """Write the help of `%cost`."""
    rows = [(f"%cost {name}", does) for name, does in COMMANDS.items()]
    width = max(len(name) for name, _ in rows)
    lines = "\n".join(f"    {name:{width}}   {does}" for name, does in rows)
    return f"""See what the session has cost, in earlier kernels too, what the provider's cache saved, and what is left of the limits.

{lines}

Before a command, --session NAME means another session than `main`. Prices are those of genai-prices; what it doesn't
know, harness_nb.toml can say, below [prices."MODEL"]: `input = 0.20` and `output = 0.80`, dollars per million tokens.
Limits: %agent --dollars 0.50 for a run; %config AgentMagics.dollars, .session_dollars and .day_dollars for all of them."""


def _short(text: str) -> str:
    return one_line(visible(text), 40)
