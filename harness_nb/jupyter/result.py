"""What a run leaves behind: the value of a cell with `%agent` in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness_nb.agent import Outcome
from harness_nb.jupyter.shell import in_kernel, running_shell
from harness_nb.jupyter.view import RunView


@dataclass(frozen=True, slots=True)
class RunResult(Outcome):
    """How a run ended: `.text .reason .detail .turns .usage .cost .transcript`; `print(result)` prints the text.

    `transcript` is the conversation up to its end, a copy that later runs leave as it is.

    The result of a run that was suspended stays as it was then, also when a click takes the run up again:
    `.view` follows what is shown, and `harness_nb.session().transcript` has what was said. `%agent approve` and the
    like return a result of their own.

    The cell that ran it shows the run already, so there it shows nothing more; displayed in another
    cell it shows the run's record.
    """

    view: RunView = field(default_factory=RunView, repr=False, kw_only=True)
    """The run as a person saw it."""
    cell: int | None = field(default=None, repr=False, kw_only=True)
    """IPython's number of the cell that has shown the run; None if none has."""

    def __str__(self) -> str:
        """Return the answer's text."""
        return self.text

    def _ipython_display_(self) -> None:
        shell = running_shell()
        here = shell is not None and self.cell == shell.execution_count
        if in_kernel(shell):
            if not here:
                self._display_record()
        elif here:
            print(f"{type(self).__name__}: {self.view.headline}")  # noqa: T201 - follows `Out[n]:`
        else:
            from harness_nb.jupyter.record import as_text

            print(as_text(self.view))  # noqa: T201 - a terminal's display

    def _display_record(self) -> None:
        from IPython.display import display

        from harness_nb.jupyter.record import bundle

        display(bundle(self.view), raw=True)  # type: ignore[no-untyped-call]
