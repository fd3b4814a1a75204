"""What sessions use where neither they nor a call say otherwise; `%config AgentMagics` sets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness_nb.jupyter.terms import ModelOrName
from harness_nb.safety.permission import Mode


@dataclass
class Defaults:
    """The values; a session or a call that has its own comes first."""

    model: ModelOrName | None = None
    """None for what is configured on this machine, else the embedded model."""
    turns: int | None = None
    instructions: str = ""
    mode: Mode | None = None
    """What happens to calls that no rule is about: `ask`, `edits`, `plan`, `auto`; None for what harness_nb.toml says."""
    rules: Sequence[str] = ()
    """Such as `allow shell git status`; see harness_nb/safety/rules.py."""
    patience: float | None = None
    """Seconds that a question waits for an answer before it is no; None for ever."""
    context_window: int | None = None
    """Tokens of the model's context window; None for what the model, or the price list, says."""
    context_yellow: float = 0.60
    context_red: float = 0.80
    """Shares of the window at which it counts as filling up, and as full: then it is relieved."""
    ask_context: bool = False
    """Whether to ask before each decision about the context that can wait."""
    store: str = ""
    """A folder or a database's URL in which sessions are kept, `off` for nowhere; empty for `.harness_nb/sessions`."""
    redact: Sequence[str] = ()
    """Regular expressions of what is taken out of a session before it is kept, beside keys and passwords."""
    rerun: Literal["replace", "append"] = "replace"
    """Whether a cell that is run again takes the place of its earlier run, or follows what has been said since."""
    seconds: float | None = 900.0
    """Limits of a run: seconds, those for people left out, tokens in and out, and dollars; None for no limit."""
    tokens: int | None = None
    dollars: float | None = None
    session_dollars: float | None = None
    """Limits of all runs of a session, and of all sessions in one place in one day (UTC)."""
    day_dollars: float | None = None


defaults = Defaults()
