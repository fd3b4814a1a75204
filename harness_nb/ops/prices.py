"""What a request costs: from the list of genai-prices, or as harness_nb.toml says. Book chapter 20.

[prices."qwen3-coder"]                 # the name as the model has it; dollars per million tokens
input = 0.20
output = 0.80
cache_read = 0.02                      # of tokens read from a cache; left out, as input
cache_write = 0.25                     # of tokens written to one; left out, as input
since = 2026-01-01                     # from this day on; several such tables, [[prices."..."]], follow one another

A price that isn't known is None and never 0. The list is in the package and needs no network; without the package
(pip install harness-nb[context]) only the file's prices are known.
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias

from harness_nb.errors import UsageError
from harness_nb.messages import Usage
from harness_nb.seams import Model

Price: TypeAlias = Callable[[str, Usage, datetime], Decimal | None]
"""Says in dollars what a request to the model of this name cost at that time; None where nobody knows."""

NAME = "harness_nb.toml"
RATES = ("input", "output", "cache_read", "cache_write")
FAULTY = " · with faults"
"""How the name of a model ends that chaos.py wraps: it costs what the model costs."""
SMALLEST = Decimal("1E-12")
"""Dollars to which a cost is rounded, so that any number of them adds up exactly."""
MOST_TOKENS, DEAREST = 10**12, 10**6
"""Most tokens of one request that are believed, and most dollars that a million tokens can be said to cost."""


@dataclass(frozen=True, slots=True)
class Rates:
    """A model's price from a day on, in dollars per million tokens."""

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal
    since: date = date.min

    def cost(self, usage: Usage) -> Decimal:
        """Price a request; tokens read from or written to a cache are counted once."""
        new, read, written, output = _counts(usage)
        total = new * self.input + read * self.cache_read + written * self.cache_write + output * self.output
        return _rounded(total.scaleb(-6))


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices that hold here. `own` are those of harness_nb.toml, by the model's name."""

    own: Mapping[str, tuple[Rates, ...]] = field(default_factory=dict)

    def __call__(
        self, model: str, usage: Usage, at: datetime | None = None, host: str = ""
    ) -> Decimal | None:
        """Price a request. `at` is now unless given; `host` is the server's: some have prices of their own, and those here none."""
        at = at or datetime.now(UTC)
        name = model.removesuffix(FAULTY)
        if (rates := self._own(name, at)) is not None:
            return rates.cost(usage)
        return _listed(name, usage, at, host)

    def of(self, model: Model) -> Price:
        """Return the function that prices this very model's requests; one that is `free` costs nothing, unless the file prices it."""
        host, free = str(getattr(model, "host", "")), bool(getattr(model, "free", False))

        def cost(name: str, usage: Usage, at: datetime) -> Decimal | None:
            if free and self._own(name.removesuffix(FAULTY), at) is None:
                return Decimal()
            return self(name, usage, at, host)

        return cost

    def paid(self, model: Model) -> bool:
        """Tell whether requests to this model cost money, or may: without a price, only what is served here is taken to be free."""
        if tiers := getattr(model, "tiers", None):
            return any(self.paid(tier) for tier in tiers.values())
        cost = self.of(model)(model.name, Usage(1_000_000, 1_000_000), datetime.now(UTC))
        return cost > 0 if cost is not None else not _is_here(str(getattr(model, "host", "")))

    def _own(self, name: str, at: datetime) -> Rates | None:
        begun = [rates for rates in self.own.get(name, ()) if rates.since <= at.date()]
        return max(begun, key=lambda rates: rates.since, default=None)


def price(model: str, usage: Usage, at: datetime | None = None) -> Decimal | None:
    """Price a request by the list alone."""
    return Prices()(model, usage, at)


def prices(folder: str | Path = ".") -> Prices:
    """Read the prices in this folder's harness_nb.toml, if any. Raises UsageError, in one sentence, for what can't be one."""
    try:
        data = tomllib.loads(Path(folder, NAME).read_text(encoding="utf-8"), parse_float=Decimal)
    except (FileNotFoundError, IsADirectoryError):
        return Prices()
    except tomllib.TOMLDecodeError as fault:
        raise UsageError(f"{NAME} is not valid TOML: {fault}.") from None
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"{NAME} can't be read: {fault}.") from None
    tables = data.get("prices", {})
    if not isinstance(tables, dict):
        raise UsageError(f'{NAME}: `prices` must be a table for each model: write [prices."MODEL"].')
    return Prices({model: _read(model, table) for model, table in tables.items()})


def _read(model: str, table: object) -> tuple[Rates, ...]:
    return tuple(_rates(model, entry) for entry in (table if isinstance(table, list) else [table]))


def _rates(model: str, table: object) -> Rates:
    if not isinstance(table, dict):
        raise UsageError(f'{NAME}: the price of `{model}` must be a table: write [prices."{model}"].')
    if unknown := [key for key in table if key not in {*RATES, "since"}]:
        raise UsageError(
            f"{NAME}: the price of `{model}` has {', '.join(RATES)} and since, and nothing called `{unknown[0]}`."
        )
    found = {key: _rate(model, key, table[key]) for key in RATES if key in table}
    if missing := [key for key in ("input", "output") if key not in found]:
        raise UsageError(
            f"{NAME}: the price of `{model}` lacks `{missing[0]}`, in dollars per million tokens."
        )
    since = table.get("since", date.min)
    if isinstance(since, datetime):
        since = since.date()
    if not isinstance(since, date):
        raise UsageError(
            f"{NAME}: `since` in the price of `{model}` must be a date without quotes, e.g. 2026-01-01."
        )
    fresh = found["input"]
    return Rates(
        fresh, found["output"], found.get("cache_read", fresh), found.get("cache_write", fresh), since
    )


def _rate(model: str, key: str, value: object) -> Decimal:
    number = (
        Decimal(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else Decimal("NaN")
    )
    if not number.is_finite() or not 0 <= number <= DEAREST:
        raise UsageError(
            f"{NAME}: `{key}` in the price of `{model}` must be a number from 0 to {DEAREST:,}: dollars per million tokens."
        )
    return number


def _counts(usage: Usage) -> tuple[int, int, int, int]:
    """Return tokens sent anew, read, written and received, whatever a server claims: the cached ones are part of the input."""
    total, output = (min(MOST_TOKENS, max(0, count)) for count in (usage.input, usage.output))
    read = min(total, max(0, usage.cache_read))
    written = min(total - read, max(0, usage.cache_write))
    return total - read - written, read, written, output


def _listed(model: str, usage: Usage, at: datetime, host: str) -> Decimal | None:
    """Look a price up; a server that the list doesn't know, one here above all, has none."""
    try:
        from genai_prices import Usage as Counts, calc_price
    except ImportError:
        return None
    new, read, written, output = _counts(usage)
    counts = Counts(
        input_tokens=new + read + written,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=output,
    )
    url = f"https://{host}" if host else None
    try:
        found = calc_price(counts, model, provider_api_url=url, genai_request_timestamp=at)
    except (LookupError, ValueError):
        return None
    return _rounded(found.total_price)


def _rounded(cost: Decimal) -> Decimal:
    exact = cost.quantize(SMALLEST)
    return exact.quantize(Decimal(1)) if exact == exact.to_integral_value() else exact.normalize()


def _is_here(host: str) -> bool:
    """Tell whether a server is on this machine or this network."""
    name = host.strip("[]").partition("%")[0]
    try:
        return ipaddress.ip_address(name).is_private
    except ValueError:
        return name == "localhost" or name.endswith((".localhost", ".local", ".internal"))
