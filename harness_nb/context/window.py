"""How many tokens a model's context window holds, and how much of it is kept free for the reply. Part of the accounting of book chapter 7.

    window("claude-sonnet-5-5")        window("qwen3:4b", given=32_768)

What a person says counts first, then what the model itself tells, then the price list of genai-prices, which is in
the package and needs no network. Where nobody knows, the size is 0 and nothing is judged by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from harness_nb.errors import UsageError

Source = Literal["configuration", "learnt", "model", "genai-prices", "unknown"]
"""Who says how large a window is, the most trusted first."""

HEADROOM = 8_192
"""Tokens kept free for a reply, unless said otherwise; never more than a quarter of the window."""

SPLIT = re.compile(r"gpt-([5-9]|\d\d)")
SPLIT_OUTPUT = 128_000
"""What of the window of these models is for output only: of 400,000 tokens, input can use 272,000."""

VENDORS = {"anthropic": "anthropic", "openai": "openai", "chat": "", "local": ""}


@dataclass(frozen=True, slots=True)
class Window:
    """A context window in tokens. `size` is 0 where nobody knows it; `source` says who told.

    `headroom` is kept free for the reply; `output` is the most that a reply can have, 0 where nobody knows.
    Raises UsageError for limits that contradict each other.
    """

    size: int = 0
    headroom: int = 0
    output: int = 0
    source: Source = "unknown"

    def __post_init__(self) -> None:
        """Refuse what can't be, in one sentence."""
        limits = {"A window": self.size, "A headroom": self.headroom, "An output limit": self.output}
        for what, value in limits.items():
            if value < 0:
                raise UsageError(f"{what} of {value:,} tokens can't be: give a number above 0.")
        if not self.size and self.source == "configuration":
            raise UsageError("A window of 0 tokens holds nothing: give its size, or leave it out.")
        if self.size and self.headroom >= self.size:
            raise UsageError(
                f"A headroom of {self.headroom:,} tokens leaves nothing of a window of {self.size:,}: make it smaller."
            )

    @property
    def usable(self) -> int:
        """Tokens that a request can have; 0 where the size is unknown."""
        return self.size - self.headroom if self.size else 0

    def learnt(self, size: int) -> Window:
        """Return the window that a provider's refusal told of."""
        free = min(self.headroom or HEADROOM, size // 4)
        return Window(size, free, min(self.output, size), "learnt")


def window(
    model: str, given: int | None = None, hint: int = 0, *, headroom: int | None = None, output: int = 0
) -> Window:
    """Find the window of the model of this name.

    `given` is what a person configured, `hint` what the model object tells, 0 if nothing; `headroom` is in tokens,
    None for the usual one. Raises UsageError for limits that can't be. The first look into the price list takes
    about half a second.
    """
    size, source = _sized(model, given, hint)
    free = _headroom(model, size, source, output) if headroom is None else headroom
    return Window(size, free, output, source)


def _headroom(model: str, size: int, source: Source, output: int) -> int:
    if source == "genai-prices" and size > 2 * SPLIT_OUTPUT and SPLIT.search(model):
        return SPLIT_OUTPUT
    return min(max(HEADROOM, output), size // 4)


def _sized(model: str, given: int | None, hint: int) -> tuple[int, Source]:
    if given is not None:
        return given, "configuration"
    if hint > 0:
        return hint, "model"
    listed = _listed(model)
    return listed, "genai-prices" if listed else "unknown"


def _listed(model: str) -> int:
    """Look a model up by its name, and by what stands for it in names such as `azure/gpt-4o`; 0 if it isn't there."""
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return 0
    vendor, colon, rest = model.partition(":")
    name = rest if colon and vendor in VENDORS else model
    provider = VENDORS.get(vendor, "") if colon else ""
    for spelling in dict.fromkeys((name, name.rpartition("/")[2])):
        try:
            found = calc_price(Usage(input_tokens=0), spelling, provider_id=provider or None)
        except (LookupError, ValueError):
            continue
        return found.model.context_window or 0
    return 0
