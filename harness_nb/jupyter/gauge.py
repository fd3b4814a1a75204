"""How full the context window is, in words and as the parts of a bar: the same for the live view, the record and the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from harness_nb.events import Component, Fill
from harness_nb.jupyter.words import counted

STATES = {"green": "", "yellow": ", filling up", "red": ", nearly full"}
"""What is said beside the number, so that no colour has to say it."""


@dataclass(frozen=True, slots=True)
class Group:
    """Components that a bar shows as one piece; `colour` is the same in both themes."""

    name: str
    components: tuple[Component, ...]
    colour: str


GROUPS = (
    Group("system, tools", ("system", "tools"), "rgb(124,138,165)"),
    Group("conversation", ("user", "assistant", "thinking"), "rgb(91,141,239)"),
    Group("tool results", ("results", "images", "retrieved"), "rgb(224,163,62)"),
    Group("summaries", ("summaries",), "rgb(76,160,120)"),
)

Piece: TypeAlias = tuple[int, int, float]
"""A piece of a bar: the index of its group, its tokens, and its part of the bar's length in percent."""


def full(fill: Fill) -> str:
    """Say how full the window is: `59%`, `85%, nearly full`; only the tokens where the window is unknown."""
    if fill.window <= 0:
        return counted(fill.total, "token")
    state = ", over full" if fill.share > 1 else STATES[fill.state]
    return f"{fill.share:.0%}{state}"


def told(fill: Fill) -> str:
    """Say all of the gauge in one sentence, for a title and for those who hear it."""
    if fill.window <= 0:
        return f"The context has {counted(fill.total, 'token')}; how many the model can take is unknown. {_counted_by(fill)}"
    usable = fill.window - fill.headroom
    return (
        f"The context has {fill.total:,} of {counted(usable, 'token')} that a request can have: {full(fill)}. "
        f"The window is {fill.window:,}, of which {fill.headroom:,} are kept for the reply. {_counted_by(fill)}"
    )


def _counted_by(fill: Fill) -> str:
    return f"{'; '.join(f'{name} {tokens:,}' for name, tokens in grouped(fill))}. Counted by {fill.how}."


def grouped(fill: Fill) -> Iterator[tuple[str, int]]:
    """Yield each group's name and tokens, groups without any left out."""
    for group in GROUPS:
        if tokens := sum(fill.tokens.get(component, 0) for component in group.components):
            yield group.name, tokens


def pieces(fill: Fill) -> list[Piece]:
    """Cut a bar into its pieces; what is over the window is squeezed in. Where no window is known the bar is full."""
    length = max(fill.window - fill.headroom, fill.total) if fill.window > 0 else fill.total
    sizes = [sum(fill.tokens.get(component, 0) for component in group.components) for group in GROUPS]
    return [(i, size, round(100 * size / length, 1)) for i, size in enumerate(sizes) if size]
