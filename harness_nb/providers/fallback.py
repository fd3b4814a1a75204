"""Hands a turn to another model when the first one is out; a model layer. Book chapter 5.

    layered(first, falling_back(layered(second, retrying())), retrying())

Put it outside (before) the first model's `retrying`, so that it moves on only when that has given up. For a chain of three,
give it a model that falls back itself. Each turn starts with the first model again.
"""

from __future__ import annotations

from dataclasses import replace

from harness_nb.errors import ProviderError
from harness_nb.events import ModelSwitched, TurnRestarted
from harness_nb.messages import Usage
from harness_nb.providers.retry import QUOTA, restated
from harness_nb.seams import Model, ModelLayer, Proceed, Reply, Request, Run


def falling_back(to: Model, *, refusals: bool = False) -> ModelLayer:
    """Make the layer. With `refusals`, `to` is also asked when the first model declines to answer.

    An outage and a spent quota move on; a fault of ours (a bad request, a wrong key) is raised, as
    the other model would only hide it. Where both fail, the error says why for each.
    """

    async def layer(request: Request, run: Run, proceed: Proceed[Request, Reply]) -> Reply:
        spent = Usage()
        try:
            reply = await proceed(request)
            if reply.stop != "refusal" or not refusals:
                return reply
            why, spent = reply.detail or "The model declined to answer.", reply.usage
        except ProviderError as fault:
            if not (fault.retryable or fault.code in QUOTA or fault.status == 402):
                raise
            why = str(fault)
        if run.streamed:
            run.emit(TurnRestarted(why))
        run.emit(ModelSwitched(to.name, why))
        try:
            reply = await to(request, run)
        except ProviderError as fault:
            raise restated(fault, f"Before that, the first model failed: {why}") from fault
        return replace(reply, usage=spent + reply.usage)

    return layer
