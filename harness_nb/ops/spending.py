"""What a session has cost, by run, turn, agent or model, and what the provider's cache did for it. Book chapter 20.

    spending = Spending(charges(log.read()))
    spending.by("model"); spending.total.cost; spending.hit_rate

A fold of `charge` records. A request without a known price is counted as unknown and not as free, so a sum that has one
in it is what was spent at least.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal, cast

from harness_nb.encoding import decode_usage
from harness_nb.messages import Usage
from harness_nb.ops.allowance import Spent
from harness_nb.ops.prices import Price, price as listed
from harness_nb.ops.records import Record

Key = Literal["run", "turn", "agent", "model", "purpose"]

FELL = 0.05
"""By how much the share read from the cache must fall to be told."""
LEAST = 2_000
"""Tokens that must be read anew because of it."""
MOST = Decimal(10**9)
"""Dollars that one request can't cost."""


@dataclass(frozen=True, slots=True)
class Charge:
    """One request that was paid for; `cost` in dollars, None where no price is known. `agent` is empty for the run itself."""

    run: str
    turn: int
    agent: str
    model: str
    purpose: str
    usage: Usage
    cost: Decimal | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Row:
    """What some requests took together. `cost` is that of those with a known price, None where none has one.

    `unknown` counts the others; `saved` is what reading from the cache saved, and below 0 where writing to it cost more.
    """

    key: str
    requests: int
    usage: Usage
    cost: Decimal | None
    unknown: int
    saved: Decimal | None

    @property
    def cached(self) -> float:
        """The share of what was sent that the provider read from its cache, 1.0 for all."""
        return self.usage.cache_read / self.usage.input if self.usage.input > 0 else 0.0


class Spending:
    """Charges added up. `price` is what the cache's saving is worked out with: the price list's unless given."""

    def __init__(self, charges: Iterable[Charge] = (), price: Price = listed) -> None:
        self.charges = tuple(charges)
        self._price = price

    @property
    def total(self) -> Row:
        """Everything in one row."""
        return self._row("total", self.charges)

    @property
    def hit_rate(self) -> float:
        """The share of what was sent that the provider read from its cache, 1.0 for all."""
        return self.total.cached

    @property
    def spent(self) -> Spent:
        """What a budget starts from that these were spent of; without the seconds, which charges don't tell."""
        turns = sum(charge.purpose == "turn" for charge in self.charges)
        tokens = sum(charge.usage.input + charge.usage.output for charge in self.charges)
        return Spent(turns, 0.0, tokens, self.total.cost or Decimal())

    def by(self, key: Key) -> list[Row]:
        """Return a row for each run, turn, agent, model or purpose, in the order in which they first came."""
        groups: dict[str, list[Charge]] = {}
        for charge in self.charges:
            groups.setdefault(_key(charge, key), []).append(charge)
        return [self._row(name, group) for name, group in groups.items()]

    def saved(self, charge: Charge) -> Decimal | None:
        """Return what the cache saved in one request, in dollars; None where no price is known."""
        if charge.cost is None or not (charge.usage.cache_read or charge.usage.cache_write):
            return None if charge.cost is None else Decimal()
        paid = self._price(charge.model, charge.usage, charge.at)
        full = self._price(charge.model, replace(charge.usage, cache_read=0, cache_write=0), charge.at)
        return full - paid if full is not None and paid is not None else None

    def _row(self, key: str, charges: Iterable[Charge]) -> Row:
        charges = list(charges)
        costs = [charge.cost for charge in charges if charge.cost is not None]
        saved = [saving for charge in charges if (saving := self.saved(charge)) is not None]
        return Row(
            key,
            len(charges),
            sum((charge.usage for charge in charges), Usage()),
            sum(costs, Decimal()) if costs else None,
            len(charges) - len(costs),
            sum(saved, Decimal()) if saved else None,
        )


def _key(charge: Charge, key: Key) -> str:
    return f"{charge.run} · {charge.turn}" if key == "turn" else str(getattr(charge, key))


def charges(records: Iterable[Record]) -> list[Charge]:
    """Read the charges of a journal, in order; a record that can't be one is passed over.

    A turn's requests come before its end, those of the agents that its calls started after it.
    """
    ended: dict[str, int] = {}
    found: list[Charge] = []
    for record in records:
        data = cast("Mapping[str, Any]", record.data)
        with suppress(KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
            if record.kind == "turn_ended":
                ended[record.run] = int(data["turn"])
            elif record.kind == "charge":
                found.append(_charge(record, data, ended.get(record.run, 0)))
    return found


def _charge(record: Record, data: Mapping[str, Any], ended: int) -> Charge:
    agent = str(data.get("agent", ""))
    cost = None if data["cost"] is None else Decimal(str(data["cost"]))
    return Charge(
        record.run,
        max(1, ended) if agent else ended + 1,
        agent,
        str(data["model"]),
        str(data.get("purpose", "turn")),
        decode_usage(data["usage"]),
        cost if cost is not None and cost.is_finite() and 0 <= cost < MOST else None,
        datetime.fromisoformat(record.at).astimezone(UTC),
    )


def collapse(before: Usage, now: Usage, changed: str = "") -> str:
    """Say that much less is read from the cache than in the request before, and what `changed`; empty where it isn't so."""
    if before.input <= 0 or now.input <= 0:
        return ""
    was, is_ = before.cache_read / before.input, now.cache_read / now.input
    anew = min(before.cache_read, now.input) - now.cache_read
    if was - is_ <= FELL or anew < LEAST:
        return ""
    why = f": {changed} changed" if changed else ""
    return f"The provider read {is_:.0%} of the request from its cache, after {was:.0%} before{why}. About {anew:,} tokens are paid for in full again."
