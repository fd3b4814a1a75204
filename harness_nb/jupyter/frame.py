"""The turns of a session as a pandas table, for people who want the numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, get_args

from harness_nb.context.account import TurnRecord
from harness_nb.errors import UsageError
from harness_nb.events import Component

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


def turns_frame(turns: Iterable[TurnRecord]) -> pd.DataFrame:
    """Return a row for each turn. Tokens are as measured before the model was asked, `input` to `reasoning` as counted in the end.

    `share` is of what a request can have, not a number where the window is unknown; `error` by how much of the provider's
    count the measure was too high. Raises UsageError where pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise UsageError("Tables need pandas: pip install pandas, then ask again.") from None
    return pd.DataFrame([_row(turn) for turn in turns], columns=list(COLUMNS))


COMPONENTS: tuple[Component, ...] = get_args(Component)
USAGE = ("input", "output", "cache_read", "cache_write", "reasoning", "estimated")
COLUMNS = (
    *("run", "turn", "model", *COMPONENTS, "total", "window", "headroom", "share", "state", "counted_by"),
    *(*USAGE, "error"),
)


def _row(turn: TurnRecord) -> dict[str, object]:
    fill, usage = turn.fill, turn.usage
    known = fill.window > 0
    return {
        "run": turn.run,
        "turn": turn.turn,
        "model": turn.model,
        **{component: fill.tokens.get(component, 0) for component in COMPONENTS},
        "total": fill.total,
        "window": fill.window,
        "headroom": fill.headroom,
        "share": fill.share if known else float("nan"),
        "state": fill.state if known else "unknown",
        "counted_by": fill.how,
        **{name: getattr(usage, name) for name in USAGE},
        "error": float("nan") if turn.error is None else turn.error,
    }
