"""Rules and a mode from a file next to the notebook, `harness_nb.toml`; a fault in it is told with its line. Book chapter 14.

[permissions]
mode = "ask"
rules = [
  "allow shell git status",
  "ask write prices/**",
  "deny shell rm",
]
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from harness_nb.errors import UsageError
from harness_nb.safety.permission import MODES, Mode
from harness_nb.safety.rules import Rule, rule

NAME = "harness_nb.toml"


@dataclass(frozen=True, slots=True)
class Permissions:
    """What such a file says. `mode` is None where it names none."""

    mode: Mode | None = None
    rules: tuple[Rule, ...] = ()

    def loosens(self, chosen: Mode | None = None) -> bool:
        """Tell whether the file lets more happen than is allowed without it, where a person has `chosen` a mode or not."""
        by_mode = chosen is None and self.mode in {"edits", "auto"}
        return by_mode or any(rule.answer == "allow" for rule in self.rules)


def permissions(folder: str | Path = ".") -> Permissions:
    """Read the file in this folder; where there is none, nothing is said. Raises UsageError, in one sentence."""
    path = Path(folder, NAME)
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (FileNotFoundError, IsADirectoryError):  # a folder is a sandbox's stand-in for it
        return Permissions()
    except tomllib.TOMLDecodeError as fault:
        raise UsageError(f"{NAME} is not valid TOML: {fault}.") from None
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"{NAME} can't be read: {fault}.") from None
    return _read(data.get("permissions", {}), text)


def _read(table: object, text: str) -> Permissions:
    if not isinstance(table, dict):
        raise UsageError(f"{_at(text, 'permissions')}: `permissions` must be a table: write [permissions].")
    for key in table:
        if key not in {"mode", "rules"}:
            raise UsageError(
                f"{_at(text, key)}: [permissions] knows `mode` and `rules`, and nothing called `{key}`."
            )
    mode = table.get("mode")
    if mode is not None and mode not in MODES:
        raise UsageError(f"{_at(text, 'mode')}: there is no mode {mode!r}; choose from {', '.join(MODES)}.")
    lines = table.get("rules", [])
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise UsageError(f"{_at(text, 'rules')}: `rules` must be a list of texts.")
    return Permissions(cast("Mode | None", mode), tuple(rule(line, _at(text, line)) for line in lines))


def _at(text: str, words: str) -> str:
    """Say where in the file these words stand."""
    lines = list(enumerate(text.splitlines(), 1))
    spelled = (f'"{words}"', f"'{words}'", words)
    number = next((at for spelling in spelled for at, line in lines if spelling in line), 0)
    return f"{NAME} line {number}" if number else NAME
