"""The embedded model: a small llama.cpp server in a child process, behind an ordinary `Model` call. Book chapter 3.

    Local()                         Qwen2.5-Coder 0.5B, fetched on first use (491 MB, once)
    Local("qwen2.5-coder-1.5b")     larger, slower, better
    Local("~/models/other.gguf")    any model that llama.cpp reads

Theory of operation. A model this small does one thing at a time, so a question is two prompts of ours: `router` picks
one tool or none, `answer` turns what the tool returned into words. Both come back as ordinary replies, and the loop
knows nothing of it. `engine` runs the server, `weights` finds its file, `memory` keeps what a prompt costs to read.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from harness_nb.events import CallDelta, Progress, TextDelta
from harness_nb.messages import Text, assistant
from harness_nb.providers.local import answer, router
from harness_nb.providers.local.conversation import Exchange, exchanges
from harness_nb.providers.local.engine import CONTEXT, Engine, Settings, running
from harness_nb.providers.local.known import Weights, choose
from harness_nb.providers.local.memory import prepare
from harness_nb.providers.local.sources import Progress as Hears
from harness_nb.providers.local.weights import cache, fetched, find
from harness_nb.providers.local.wire import complete
from harness_nb.seams import Reply, Request, Run
from harness_nb.tasks import off_loop

LONGEST = 512
"""Tokens of an answer unless the request says otherwise: beyond that a model this small repeats itself."""
LONGEST_CALL = 1024
"""Tokens of a tool call."""


class Local:
    """A model that runs on this machine without a key. Its child process starts on first use and ends with this one.

    `choice` is a known name or the path of a GGUF file; empty means HARNESS_NB_MODEL, else the default.
    `progress` hears how the download of the weights comes along; without it, the run's listeners do.
    Raises UsageError for a name that is neither.
    """

    window = CONTEXT
    """Tokens that the engine keeps of a conversation, prompt and answer together."""

    own_prompts = True
    """The engine counts prompts of ours, two in some turns, and not the request."""

    free = True
    """It costs nothing."""

    def __init__(self, choice: str = "", *, progress: Hears | None = None) -> None:
        self._file = choose(choice)
        self._progress = progress
        self.name = (
            f"{self._file.stem} · local"
            if isinstance(self._file, Path)
            else f"{self._file.name} · local, small"
        )

    def __repr__(self) -> str:
        return f"Local({self.name!r})"

    async def __call__(self, request: Request, run: Run) -> Reply:
        """Pick a tool, or answer. Raises ProviderError, or UsageError where the engine or its weights are missing."""
        engine = await self._ready(run)
        asked = exchanges(request.messages)
        picked = None
        if request.tools and not asked[-1].results:
            picked = await self._pick(engine, request, asked, run)
            if picked.message.calls:
                return picked
        told = await self._answer(engine, request, asked, run)
        return Reply(told.message, told.usage + picked.usage, told.stop) if picked else told

    async def _pick(self, engine: Engine, request: Request, asked: list[Exchange], run: Run) -> Reply:
        """The turn with the call that the router picks, or an empty one."""
        prefix = router.prefix(request.tools)
        body = {
            "messages": [*prefix, *router.question(asked)],
            "max_tokens": request.max_output or LONGEST_CALL,
            "logit_bias": router.LEAN,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"schema": router.schema(request.tools)},
            },
            "id_slot": 0,
        }
        await prepare(engine, 0, prefix)
        done = await complete(engine, body)
        call = router.picked(done.text, f"call_{uuid.uuid4().hex[:12]}")
        if call is None:
            return Reply(assistant(), done.usage)
        run.emit(CallDelta(call.id, call.name))
        run.emit(CallDelta(call.id, call.name, call.raw))
        return Reply(assistant(call), done.usage, "length" if done.cut else "calls")

    async def _answer(self, engine: Engine, request: Request, asked: list[Exchange], run: Run) -> Reply:
        prefix = answer.prefix(request.instructions)
        body = {
            "messages": [*prefix, *answer.question(asked)],
            "max_tokens": request.max_output or LONGEST,
            "id_slot": 1,
        }
        await prepare(engine, 1, prefix)
        done = await complete(engine, body, lambda piece: run.emit(TextDelta(piece)), answer.repeats)
        return Reply(assistant(Text(done.text)), done.usage, "length" if done.cut else "end")

    async def _ready(self, run: Run) -> Engine:
        """The running engine; the first time its weights are fetched, too."""
        path = self._file
        if isinstance(path, Weights):
            path = find(path) or await fetched(path, self._progress or _telling(path, run))
        slots = cache() / "prompts"
        slots.mkdir(parents=True, exist_ok=True)
        settings = Settings(path, parallel=2, slots=slots)  # one for each of our prompts
        return await off_loop(lambda: running(settings))


def _telling(weights: Weights, run: Run) -> Hears:
    """Tell the run's listeners how a download comes along, at each percent."""
    told = -1

    def progress(done: int, total: int) -> None:
        nonlocal told
        percent = 100 * done // total
        if percent > told:
            told = percent
            run.emit(Progress(f"the model {weights.name}, once", done, total))

    return progress
