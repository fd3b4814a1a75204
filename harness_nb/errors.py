"""What can go wrong, and who is told: the model, the caller, or nobody.

    HarnessError
    ├── ToolError        the model: its text is the tool's result, marked as an error
    ├── UsageError       the person: something they typed or set up can't work; says what to do
    ├── ProviderError    the caller: a model could not answer, in the provider's own words
    └── RunStop          nobody: a limit was met; the run ends with this named reason

An interrupt is not an error: it is `asyncio.CancelledError` on its way through. Book chapters 5 and 6.
"""

from __future__ import annotations

from typing import Literal

Reason = Literal["done", "turns", "budget", "interrupted", "refused", "incomplete", "suspended", "error"]
"""Why a run ended. Only `done` means that there is an accepted answer; `suspended` waits for a person and can go on."""


class HarnessError(Exception):
    """Base of everything this package raises; catch it to catch all of them."""


class ToolError(HarnessError):
    """Raise it in a tool to tell the model, in your words, what went wrong and what to try instead."""


class UsageError(HarnessError):
    """An option, a model's name, a key or a tool's definition can't be used; the message names the fix."""


class ProviderError(HarnessError):
    """A model gave no complete answer.

    `status` is the HTTP status if there was one, `code` the provider's own name for the fault,
    `retryable` whether the same request may succeed later, `retry_after` how many seconds the
    provider asked us to wait. `overflow` tells a request that is larger than the context window; `window` is that
    window in tokens where the provider named it, else 0.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str = "",
        retryable: bool = False,
        retry_after: float | None = None,
        overflow: bool = False,
        window: int = 0,
    ) -> None:
        """Keep the provider's words as the message and the facts beside them."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after
        self.overflow = overflow
        self.window = window


class RunStop(HarnessError):
    """Raised by a layer or a gate to end the run with a named reason, e.g. when a budget is spent."""

    def __init__(self, reason: Reason, detail: str) -> None:
        """`detail` is one sentence for the person."""
        super().__init__(reason, detail)  # both, so that it can be copied and sent between processes
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return self.detail
