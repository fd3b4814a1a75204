"""What may be spent: limits on turns, seconds, tokens and dollars, one inside the other, shared with children. Book chapter 20.

    day = Budget("day", Allowance(dollars=Decimal(5)), spent=spent_today)
    run = Budget("run", Allowance(seconds=900), parent=Budget("session", parent=day))
    with run.reserve(tokens=2_000, dollars=Decimal("0.01")) as held:      # LimitError if that is too much
        reply = await model(request, ...)
        held.settle(reply.usage, cost)

Theory of operation. Before a call its estimate is **held** at every level; together with what is spent and what other
calls hold it must fit under each limit, or the call is not made. Afterwards what it really took is spent instead. So
calls side by side can't all count on the same remainder, and a limit is exceeded at most by what the calls under way
took beyond their estimates. Tokens are those sent and received, those read from a cache too. Seconds are those at
work: waiting for people is not counted, and they are looked at before each call only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Self

from harness_nb.errors import RunStop, ToolError
from harness_nb.events import LimitMet
from harness_nb.messages import Usage
from harness_nb.ops.allowance import Allowance, Clock, Level, Spent
from harness_nb.seams import Run


class Budget:
    """A scope with its limits, within those of its parent. Safe to use from any thread.

    `scope` is `run`, `session` or `day`, or a child's name; `spent` is what was spent before, e.g. in another process.
    """

    def __init__(
        self,
        scope: str,
        allowance: Allowance | None = None,
        parent: Budget | None = None,
        spent: Spent | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        level = Level(scope, allowance or Allowance(), spent or Spent())
        self.scope = scope
        self.levels: tuple[Level, ...] = (level, *(parent.levels if parent else ()))
        """Its own level, then those above."""
        self.lock: threading.RLock = parent.lock if parent else threading.RLock()
        """Held while any level of the tree is looked at or changed."""
        self._now = now

    def __repr__(self) -> str:
        return f"Budget({self.scope!r}, {self.allowance}, spent={self.spent})"

    @property
    def is_child(self) -> bool:
        """Whether it is an agent's that another agent started."""
        return self.levels[0].child

    @property
    def allowance(self) -> Allowance:
        """Its limits as they are now."""
        return self.levels[0].allowance

    @property
    def spent(self) -> Spent:
        """What calls that are over took, here and below."""
        return self.levels[0].spent

    @property
    def held(self) -> Spent:
        """What calls under way are expected to take, here and below."""
        return self.levels[0].held

    @property
    def limits_dollars(self) -> bool:
        """Whether dollars are limited, here or above."""
        return any(level.allowance.dollars is not None for level in self.levels)

    def child(self, name: str, allowance: Allowance | None = None) -> Budget:
        """Make the budget of an agent that this one starts: it shares what is left here, within limits of its own.

        Raises ToolError, for the model that asked, where there may be no more children or none so deep.
        """
        depth = sum(level.child for level in self.levels)
        root = self.levels[depth]
        with self.lock:
            if depth >= root.allowance.depth:
                raise ToolError(
                    "Not started: an agent that another one started can't start one itself. Do the work yourself."
                )
            if root.children >= root.allowance.children:
                raise ToolError(
                    f"Not started: this run may start {root.allowance.children} agents, and has. Do the work yourself."
                )
            root.children += 1
        made = Budget(name, allowance, self, now=self._now)
        made.levels[0].child = True
        return made

    def reserve(
        self, tokens: int, dollars: Decimal | None, *, turns: int = 1, model: str = ""
    ) -> Reservation:
        """Hold an estimate of what one call will take; settle or release it afterwards.

        `dollars` is None where no price is known. Raises LimitError if it doesn't fit at this level or above, and RunStop
        where a limit in dollars could not be kept because the price of `model` is not known.
        """
        if dollars is None and self.limits_dollars:
            raise RunStop("budget", _unpriced(model))
        wanted = Spent(turns, 0.0, tokens, dollars or Decimal())
        with self.lock:
            self._count_time()
            for level in self.levels:
                level.check(wanted)
            for level in self.levels:
                level.held += wanted
        return Reservation(self, wanted)

    def end(self, held: Spent, taken: Spent) -> None:
        """Spend what a call took in the place of what was held for it: what a reservation does, once."""
        with self.lock:
            self._count_time()
            for level in self.levels:
                level.held -= held
                level.spent += taken

    def alerts(self) -> tuple[str, ...]:
        """Return what a person should be told of limits that come near, each in a sentence and once."""
        with self.lock:
            return tuple(words for level in self.levels for words in level.alerts())

    def allow(self, more: LimitMet) -> None:
        """Raise the limit that was met by `more.more`; does nothing where there is no such limit here or above."""
        with self.lock:
            for level in self.levels:
                if level.scope == more.scope:
                    level.allow(more)
                    return

    def renew(self, allowance: Allowance, spent: Spent) -> None:
        """Take in what was spent elsewhere meanwhile, `spent` being all of it, and limits that were set anew.

        What is known to be spent stays so where that is more, and what calls under way hold stays held.
        """
        with self.lock:
            self.levels[0].renew(allowance, spent)

    @contextmanager
    def timed(self, run: Run) -> Iterator[None]:
        """Count the time that this lasts, apart from what the run waits for people: put it round `agent.run`.

        Without it time is counted from the first call to a model.
        """
        self.begin(run)
        try:
            yield
        finally:
            with self.lock:
                self._count_time()
                self.levels[0].clock = None

    def begin(self, run: Run) -> None:
        """Start the clock if it doesn't run yet."""
        with self.lock:
            if self.levels[0].clock is None:
                self.levels[0].clock = Clock(run, self._now)

    def _count_time(self) -> None:
        for at, level in enumerate(self.levels):
            if level.clock is None:
                continue
            more = Spent(seconds=level.clock.more())
            for counted in self.levels[at:]:
                counted.spent += more
                if counted.child:  # its parent's own clock runs meanwhile
                    break


class Reservation:
    """What is held for one call. Used as a context manager, it is released where nothing settled it."""

    def __init__(self, budget: Budget, held: Spent) -> None:
        """`Budget.reserve` makes it."""
        self._budget = budget
        self._held = held
        self._open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def settle(self, usage: Usage, cost: Decimal | None) -> tuple[str, ...]:
        """Say what the call took; return what a person should be told of limits that come near. Once: later it does nothing."""
        tokens = max(0, usage.input) + max(0, usage.output)
        self._end(Spent(self._held.turns, 0.0, tokens, cost or Decimal()))
        return self._budget.alerts()

    def release(self) -> None:
        """Say that the call took nothing: it failed, or was not made."""
        self._end(Spent())

    def _end(self, taken: Spent) -> None:
        with self._budget.lock:
            if self._open:
                self._open = False
                self._budget.end(self._held, taken)


def _unpriced(model: str) -> str:
    return (
        f"The price of `{model or 'this model'}` is not known, so a limit in dollars can't hold: write its price into "
        f'harness_nb.toml, below [prices."{model or "MODEL"}"], or take the limit away.'
    )
