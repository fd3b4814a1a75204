"""Where commands run: what they can reach, and what each sandbox does not keep from them, said plainly. Book chapter 14.

    best(workspace)         bubblewrap where it works, else limited
    bubblewrap(workspace)   the workspace and the system's programs, nothing else; Linux
    limited(workspace)      limits and a clean environment, on any POSIX system: no isolation

A sandbox is any object with `isolation`, `effects`, `background`, `around(workspace)` and
`wrap(argv, workspace)`, as `toolkit.shell` has it; one that starts its commands in a container needs no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness_nb.safety.bubblewrap import PROTECTED, Bubblewrap, bubblewrap, trouble
from harness_nb.safety.limits import Limited, Limits, limited

__all__ = ["Bubblewrap", "Limited", "Limits", "best", "bubblewrap", "limited"]


def best(
    workspace: str | Path | None = None, *, network: bool = False, protected: Iterable[str] = PROTECTED
) -> Bubblewrap | Limited:
    """Choose bubblewrap where it is installed and works here, else `limited`, which says why not."""
    if why := trouble():
        return limited(workspace, why=why)
    return bubblewrap(workspace, network=network, protected=protected)
