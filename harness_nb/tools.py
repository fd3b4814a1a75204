"""Tools: a function as a contract with a model, and the one place where calls are dispatched. Book chapters 4 and 6.

`@tool` makes a `Tool` of a function; a `Toolbox` holds tools and answers calls. Answering never
raises: an unknown name, bad arguments and a crash each become a result that tells the model what to do.

    name -> arguments read strictly -> gates, in the order given -> the tool's body, once
"""

from __future__ import annotations

import asyncio
import contextvars
import difflib
import functools
import inspect
import json
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar, cast, overload

from harness_nb.errors import RunStop, ToolError, UsageError
from harness_nb.events import ToolStarted
from harness_nb.messages import Text, ToolCall, ToolResult, parse_arguments
from harness_nb.results import LIMIT, CannotRead, as_content, bounded
from harness_nb.schema import Signature, caller_scope
from harness_nb.seams import Call, Dispatch, Effect, Gate, Run, ToolSpec, layered

MISSES = 5
"""So many calls in a row that name no tool or can't be read end the run: the model is stuck."""

Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call. Calling the tool itself calls the function."""

    function: Callable[..., object]
    spec: ToolSpec
    signature: Signature
    limit: int = LIMIT
    """Most characters of its result that the model gets."""

    @property
    def name(self) -> str:
        """The name a model calls it by."""
        return self.spec.name

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function as if it were not a tool."""
        return self.function(*args, **kwargs)

    async def invoke(self, call: Call, run: Run) -> object:
        """Run the body with the call's arguments: awaited if async, else off the event loop."""
        given = {"run": run, "call": call}
        values = self.signature.values(call.arguments)
        values |= {parameter: given[kind] for parameter, kind in self.signature.injected.items()}
        if inspect.iscoroutinefunction(_innermost(self.function)):
            returned = self.function(**values)
        else:
            returned = await off_loop(functools.partial(self.function, **values))
        return await cast("Awaitable[object]", returned) if inspect.isawaitable(returned) else returned


@overload
def tool(function: Callable[..., object], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effects: Iterable[Effect] = (),
    limit: int = LIMIT,
) -> Callable[[Callable[..., object]], Tool]: ...


def tool(
    function: Callable[..., object] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effects: Iterable[Effect] = (),
    limit: int = LIMIT,
) -> Tool | Callable[[Callable[..., object]], Tool]:
    """Make a tool of a function: `@tool`, `@tool(effects={"read"})` or `tool(method)`.

    The docstring is the description, the annotations are the schema; `Annotated[int, "how many"]`
    describes a parameter, one annotated `Run` or `Call` is filled in by the harness, and what a
    partial has bound, `*args` and `**kwargs` are left out. Declare what the tool does in `effects`
    (`read`, `write`, `network`, `mutate`, `spend`): undeclared counts as unknown, and asks.

    Raises UsageError for a function without a docstring or with parameters that JSON can't carry.
    """
    scope = caller_scope(sys._getframe(1))  # noqa: SLF001 - as the standard library does in namedtuple

    def make(function: Callable[..., object]) -> Tool:
        inner = _innermost(function)
        called = name or str(getattr(inner, "__name__", type(inner).__name__))
        if called == "<lambda>":
            raise UsageError("A lambda has no name: say tool(name=..., description=...)(function).")
        words = inspect.cleandoc(description or inner.__doc__ or "")
        if not words:
            raise UsageError(
                f"Tool `{called}` has no docstring: write a line that tells the model what it does."
            )
        signature = Signature(function, called, scope)
        return Tool(
            function, ToolSpec(called, words, signature.json_schema, frozenset(effects)), signature, limit
        )

    return make if function is None else make(function)


class Toolbox:
    """The tools of an agent, in a stable order, and the way their calls are answered."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        """Hold the tools. Raises UsageError where two have one name."""
        self._tools: dict[str, Tool] = {}
        for item in tools:
            if item.name in self._tools:
                raise UsageError(f"Two tools are called `{item.name}`: rename one.")
            self._tools[item.name] = item
        self.specs = tuple(item.spec for item in self._tools.values())

    def __iter__(self) -> Iterator[Tool]:
        """Go through the tools in order."""
        return iter(self._tools.values())

    def __len__(self) -> int:
        """Count the tools."""
        return len(self._tools)

    def dispatch(self, *gates: Gate) -> Dispatch:
        """Return the function that answers calls; the first gate is outermost.

        It always returns a result, and raises only RunStop and cancellation.
        """
        gated = layered(self._execute, *gates)

        async def answer(asked: ToolCall, run: Run) -> ToolResult:
            try:
                call = self._resolve(asked)
            except ToolError as refusal:
                _count_miss(run)
                return refused(asked.id, str(refusal))
            run.state[_count_miss] = 0
            try:
                return await gated(call, run)
            except RunStop:
                raise
            except Exception as fault:  # noqa: BLE001 - a gate's fault must not lose the other calls
                return refused(asked.id, f"The call was not allowed to finish: {_described(fault)}")

        return answer

    def _resolve(self, asked: ToolCall) -> Call:
        item = self._tools.get(asked.name)
        if item is None:
            raise ToolError(self._unknown(asked.name))
        try:
            arguments = item.signature.read(parse_arguments(asked.raw))
        except ValueError as fault:
            what = (
                "arguments are not valid JSON"
                if isinstance(fault, json.JSONDecodeError)
                else "arguments don't fit"
            )
            raise ToolError(
                f"`{item.name}` was not run: its {what}.\n{fault}\nSend the call again, corrected."
            ) from None
        return Call(asked.id, arguments, item.spec)

    def _unknown(self, name: str) -> str:
        if not self._tools:
            return "There are no tools. Answer without one."
        near = difflib.get_close_matches(name, self._tools, n=1, cutoff=0.5)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        return f"No tool is called `{name[:80]}`.{hint} The tools are: {', '.join(sorted(self._tools))}."

    async def _execute(self, call: Call, run: Run) -> ToolResult:
        """Run the tool's body: the innermost step, after every gate has agreed to exactly this call."""
        item = self._tools[call.spec.name]
        try:
            item.signature.read(call.arguments)
        except ValueError as fault:
            return refused(
                call.id, f"`{item.name}` was not run: its arguments, as changed, don't fit.\n{fault}"
            )
        run.emit(ToolStarted(ToolCall(call.id, item.name)))
        try:
            return ToolResult(call.id, as_content(await item.invoke(call, run), item.limit))
        except ToolError as fault:
            return refused(call.id, str(fault) or "The tool failed and gave no reason.", item.limit)
        except CannotRead as fault:
            return refused(call.id, f"`{item.name}` ran, but {fault}.", item.limit)
        except RunStop:
            raise
        except asyncio.CancelledError as fault:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            return refused(call.id, f"`{item.name}` failed: {_described(fault)}", item.limit)
        except BaseException as fault:  # noqa: BLE001 - sys.exit() in a tool must not end the kernel
            return refused(call.id, f"`{item.name}` failed: {_described(fault)}", item.limit)


def refused(call_id: str, why: str, limit: int = LIMIT) -> ToolResult:
    """Make an error result: the model's answer to a call that failed or was not allowed to run."""
    return ToolResult(call_id, (Text(bounded(why, limit)),), is_error=True)


async def off_loop(function: Callable[[], Returned]) -> Returned:
    """Run a blocking function in a thread of its own, with the caller's context variables.

    A thread can't be stopped: when the await is cancelled the function runs on, and its result is
    dropped. The thread is a daemon, so one that hangs blocks neither later calls nor the exit.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Returned] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Returned | None, fault: BaseException | None) -> None:
        if future.done():
            return
        if fault is None:
            future.set_result(cast("Returned", result))
        else:
            future.set_exception(fault)

    def work() -> None:
        result: Returned | None = None
        fault: BaseException | None = None
        try:
            result = context.run(function)
        except StopIteration as stop:  # a future can't hold one
            fault = RuntimeError(f"StopIteration: {stop}")
        except BaseException as raised:  # noqa: BLE001 - delivered to the awaiting side
            fault = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, fault)

    threading.Thread(target=work, daemon=True, name=f"tool-{getattr(function, '__name__', 'call')}").start()
    return await future


def _innermost(function: Callable[..., object]) -> Callable[..., object]:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _described(fault: BaseException) -> str:
    try:
        words = str(fault)
    except Exception:  # noqa: BLE001 - some exceptions can't be printed
        words = ""
    return f"{type(fault).__name__}: {words}" if words else type(fault).__name__


def _count_miss(run: Run) -> None:
    misses = cast("int", run.state.get(_count_miss, 0)) + 1
    run.state[_count_miss] = misses
    if misses > MISSES:
        raise RunStop("incomplete", f"{misses} tool calls in a row could not be read; the model seems stuck.")
