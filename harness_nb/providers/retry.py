"""Asks again when a model fails in a way that may pass; a model layer. Book chapter 5.

    layered(model, retrying())
    layered(model, retrying(RetryPolicy(attempts=6)))

The SDKs' own retries are off: here every wait is an event, can be interrupted, and is bounded. A turn that had already
streamed is restarted, never continued: `TurnRestarted` tells views to drop what they showed of it.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from harness_nb.errors import ProviderError
from harness_nb.events import RetryWaiting, TurnRestarted
from harness_nb.seams import ModelLayer, Proceed, Reply, Request, Run

OURS = frozenset({400, 401, 402, 403, 404, 405, 413, 422})
"""Statuses that say the request, the key or the account is at fault: the same request fails again."""

QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})
"""Codes that come as a rate limit (429) but don't pass by waiting: there is no credit."""

NOT_RUNNING = "not_running"
"""Code of a server on this machine that refuses connections: it may be about to start, but mostly a person has to start it."""

SOON = 1.5
"""Seconds that a wait for such a server takes at most."""

BRIEF = 3
"""Most times that such a server is asked."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When to ask again, and after how long. Each wait is drawn at random (full jitter) between two bounds."""

    attempts: int = 4
    """Most times that one turn is asked, the first included."""
    shortest: float = 0.5
    """Seconds that every wait takes at least."""
    longest: float = 30.0
    """Seconds that no wait of our own choice goes beyond; the upper bound grows fourfold up to this."""
    patience: float = 60.0
    """Longest `Retry-After`, in seconds, that is honoured; beyond it the turn fails at once and says so."""
    total: float = 120.0
    """Seconds that the waits of one turn may take together."""

    def wait(self, fault: ProviderError, attempt: int, waited: float, chance: float) -> float | None:
        """Return the seconds to wait after the failed `attempt`, counted from 1, or None to give up.

        `waited` is how long this turn has waited so far, `chance` is between 0 and 1. Never less
        than the provider asked for.
        """
        asked, brief = asked_wait(fault), fault.code == NOT_RUNNING
        attempts = min(self.attempts, BRIEF) if brief else self.attempts
        if attempt >= attempts or asked > self.patience or not may_pass(fault):
            return None
        longest = min(self.longest, SOON) if brief else self.longest
        bound = min(longest, self.shortest * 4.0 ** min(attempt, 100))
        backoff = self.shortest + chance * max(0.0, bound - self.shortest)
        seconds = min(self.patience, asked + backoff) if asked else backoff
        return seconds if waited + seconds <= self.total else None


def may_pass(fault: ProviderError) -> bool:
    """Whether the same request may succeed later."""
    return fault.retryable and fault.status not in OURS and fault.code not in QUOTA


def asked_wait(fault: ProviderError) -> float:
    """Return the seconds that the provider asked us to wait; 0 where it asked nothing sensible."""
    seconds = fault.retry_after
    return seconds if seconds is not None and math.isfinite(seconds) and seconds > 0 else 0.0


def retrying(
    policy: RetryPolicy | None = None,
    *,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    chance: Callable[[], float] = random.random,
) -> ModelLayer:
    """Make the layer. `sleep` and `chance` are the clock and the dice: give others to run without waiting.

    When it gives up it raises ProviderError with the provider's words and what was tried.
    """
    rules = policy or RetryPolicy()

    async def layer(request: Request, run: Run, proceed: Proceed[Request, Reply]) -> Reply:
        attempt, waited = 1, 0.0
        while True:
            try:
                return await proceed(request)
            except ProviderError as fault:
                seconds = rules.wait(fault, attempt, waited, chance())
                if seconds is None:
                    if tried := _tried(fault, attempt, rules.patience):
                        raise restated(fault, tried) from fault
                    raise
                why = str(fault)
            if run.streamed:
                run.emit(TurnRestarted(why))
            run.emit(RetryWaiting(seconds, attempt, rules.attempts, why))
            await sleep(seconds)
            attempt, waited = attempt + 1, waited + seconds

    return layer


def restated(fault: ProviderError, more: str) -> ProviderError:
    """Return the same fault with one more sentence."""
    words = str(fault)
    return ProviderError(
        f"{words}{'' if words.endswith(('.', '!', '?')) else '.'} {more}",
        status=fault.status,
        code=fault.code,
        retryable=fault.retryable,
        retry_after=fault.retry_after,
        overflow=fault.overflow,
        window=fault.window,
    )


def _tried(fault: ProviderError, attempt: int, patience: float) -> str:
    asked = asked_wait(fault)
    if may_pass(fault) and asked > patience:
        return f"The provider asks to wait {spoken(asked)}; a run waits at most {spoken(patience)}."
    return f"Asked {attempt} times." if attempt > 1 else ""


def spoken(seconds: float) -> str:
    """Say a time in the unit that a person would use, e.g. `14 days` or `2.5 s`."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
