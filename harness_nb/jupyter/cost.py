"""What a session has cost, as data: by run, turn, agent or model, with what the cache saved and what is left of its limits. Book chapter 20."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from harness_nb.jupyter.defaults import Defaults
from harness_nb.jupyter.history_tree import numbers, title
from harness_nb.jupyter.money import cost
from harness_nb.jupyter.tables import Table
from harness_nb.jupyter.words import counted, one_line, visible
from harness_nb.messages import Usage
from harness_nb.ops.allowance import KINDS, amount, money
from harness_nb.ops.prices import prices
from harness_nb.ops.spending import Row, Spending, charges

if TYPE_CHECKING:
    from harness_nb.jupyter.session import Session

By = Literal["run", "turn", "agent", "model"]

ROWS = 24
"""Most rows that are shown, the newest; those before them stand together in one."""

NAME = 44
"""Most characters of a row's name."""

BETWEEN = "between runs"
"""What is paid for then, such as a summary that a person asked for."""

WHOSE = {"run": "the last run", "session": "this session", "day": "today (UTC)"}


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the table, and a bar of the chart."""

    name: tuple[str, ...]
    row: Row

    @property
    def cost(self) -> str:
        """What it cost, in words."""
        return cost(self.row.cost, self.row.unknown)

    @property
    def saved(self) -> str:
        """What the provider's cache saved; empty where it did nothing, or nobody knows."""
        used = self.row.usage.cache_read or self.row.usage.cache_write
        return money(self.row.saved) if used and self.row.saved is not None else ""


@dataclass(frozen=True, slots=True)
class Costs:
    """What a session has cost. `lines` are in the order of time, the total apart from them."""

    session: str
    by: By
    lines: tuple[Line, ...]
    total: Line
    runs: int
    limits: Table | None
    limited: bool
    """Whether dollars are limited."""

    @staticmethod
    def of(session: Session, by: By) -> Costs:
        """Add up what is kept of the session. Raises UsageError for prices that can't be read."""
        history = session.kept.history
        records = [record for run in history.runs.values() for record in run.charges]
        spending = Spending(charges(records), prices())
        runs = {charge.run for charge in spending.charges}
        lines = [Line(_named(by, row, session), row) for row in spending.by(by)]
        return Costs(
            session.name,
            by,
            _fitting(lines, by),
            Line(("total", *("" for _ in HEADS[by][1:])), spending.total),
            len(runs),
            _limits(session),
            session.purse.budget(None, None).limits_dollars,
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """Say the sum, what the cache did for it, and what of it is not known."""
        row, requests = self.total.row, counted(self.total.row.requests, "request")
        session = f"Session {visible(one_line(self.session, NAME))}"
        sums = f"{counted(row.usage.input, 'token')} in, {row.usage.output:,} out"
        told = [f"{session}: {self.total.cost} for {requests} in {counted(self.runs, 'run')}, with {sums}."]
        if row.usage.cache_read:
            saved = f", which saved {self.total.saved}" if self.total.saved else ""
            told.append(f"Of what was sent, {row.cached:.0%} was read from a provider's cache{saved}.")
        if row.unknown:
            has = "has no known price and is" if row.unknown == 1 else "have no known price and are"
            told.append(
                f"{counted(row.unknown, 'request')} {has} in no sum: write the model's price into harness_nb.toml."
            )
        if (row.cost or row.unknown) and not self.limited:
            told.append("The next run has no limit in dollars: `%agent --dollars 0.50` sets one.")
        return tuple(told)

    @property
    def table(self) -> Table:
        """Put it into a table whose last row is the sum, where that adds anything up."""
        lines = (*self.lines, self.total) if len(self.lines) > 1 else self.lines
        cells = [
            (
                *line.name,
                line.cost,
                f"{line.row.requests:,}",
                f"{line.row.usage.input:,}",
                f"{line.row.usage.output:,}",
                f"{line.row.cached:.0%}" if self.total.row.usage.cache_read else "",
                line.saved,
            )
            for line in lines
        ]
        head = (*HEADS[self.by], "cost", "requests", "tokens in", "out", "from cache", "saved by it")
        known = [i for i in range(len(head)) if any(row[i] for row in cells)]
        words = sum(i < len(HEADS[self.by]) for i in known)
        return Table(
            f"What each {self.by} cost.",
            tuple(head[i] for i in known),
            [tuple(row[i] for i in known) for row in cells],
            words,
        )

    def label(self, line: Line) -> str:
        """Name a line beside its bar."""
        if self.by == "turn" and line.name[0].isdecimal():
            return f"run {line.name[0]}, turn {line.name[1]}"
        return " · ".join(part for part in line.name if part)

    @property
    def measure(self) -> Literal["dollars", "tokens"]:
        """What the bars of the chart are as long as: dollars, where any were paid."""
        return "dollars" if self.total.row.cost else "tokens"

    def share(self, line: Line) -> float:
        """Return how long a line's bar is, 1.0 for the longest."""
        longest = max((self.size(one) for one in self.lines), default=Decimal())
        return float(self.size(line) / longest) if longest else 0.0

    def size(self, line: Line) -> Decimal:
        """Return what a line is measured by: dollars or tokens."""
        if self.measure == "dollars":
            return max(line.row.cost or Decimal(), Decimal())
        return Decimal(max(0, line.row.usage.input) + max(0, line.row.usage.output))


HEADS: dict[By, tuple[str, ...]] = {
    "run": ("run", "prompt"),
    "turn": ("run", "turn"),
    "agent": ("agent",),
    "model": ("model",),
}


def _named(by: By, row: Row, session: Session) -> tuple[str, ...]:
    """Name a row for a person, in as many words as its head has."""
    history = session.kept.history
    known = numbers(history)
    match by:
        case "run":
            number = known.get(row.key)
            return (str(number), title(history.runs[row.key], NAME)) if number else (BETWEEN, "")
        case "turn":
            run, _, turn = row.key.rpartition(" · ")  # the id of a run may hold anything
            return str(known.get(run, BETWEEN)), turn
        case "agent":
            return (one_line(visible(row.key), NAME) or "the agent itself",)
        case "model":
            return (one_line(visible(row.key), NAME),)


def _fitting(lines: list[Line], by: By) -> tuple[Line, ...]:
    """Put the earliest lines together where there are too many; models and agents are as many as they are."""
    if len(lines) <= ROWS:
        return tuple(lines)
    first, rest = lines[: -ROWS + 1], lines[-ROWS + 1 :]
    told = f"{counted(len(first), f'earlier {by}')} together"
    return Line((told, *("" for _ in HEADS[by][1:])), _summed([line.row for line in first])), *rest


def _summed(rows: list[Row]) -> Row:
    costs = [row.cost for row in rows if row.cost is not None]
    saved = [row.saved for row in rows if row.saved is not None]
    return Row(
        "",
        sum(row.requests for row in rows),
        sum((row.usage for row in rows), Usage()),
        sum(costs, Decimal()) if costs else None,
        sum(row.unknown for row in rows),
        sum(saved, Decimal()) if saved else None,
    )


def _limits(session: Session) -> Table | None:
    """Put what is left of the limits into a table; None where there are none.

    One that nobody set is told once it is used by more than half.
    """
    now = session.purse.budget(None, None)
    run = (session.purse.last or now).levels[0]
    cells = []
    for level in (run, *now.levels[1:]):
        for kind in KINDS:
            limit, spent = (Decimal(str(getattr(held, kind) or 0)) for held in (level.allowance, level.spent))
            usual = level is run and getattr(level.first, kind) == getattr(Defaults, kind, None)
            if getattr(level.allowance, kind) is not None and (not usual or spent * 2 > limit):
                amounts = (limit, spent, max(Decimal(), limit - spent))
                cells.append((WHOSE.get(level.scope, level.scope), *(_amount(kind, one) for one in amounts)))
    caption = "What is left of the limits."
    return Table(caption, ("limit of", "allowed", "used", "left"), cells) if cells else None


def _amount(kind: str, value: Decimal) -> str:
    """Write an amount; of seconds that waiting for people is no part of them."""
    return f"{amount(kind, value)} at work" if kind == "seconds" else amount(kind, value)
