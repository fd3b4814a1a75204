"""Tools: a function as a contract with a model, and the one place where calls are dispatched. Book chapters 4 and 6.

`@tool` makes a `Tool` of a function; a `Toolbox` holds tools and answers calls. Answering never
raises: an unknown name, bad arguments and a crash each become a result that tells the model what to do.

    name -> arguments read strictly -> gates, in the order given -> the tool's body, once

Gates see a result whole. What comes out of them is bounded at the very end, for every tool.
"""

from __future__ import annotations

import asyncio
import difflib
import functools
import inspect
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar, cast, get_args, overload

from harness_nb.errors import RunStop, ToolError, UsageError
from harness_nb.events import Preview, ToolStarted
from harness_nb.messages import Image, Text, ToolCall, ToolResult
from harness_nb.results import ITEMS, CannotRead, as_content, bounded, fitted
from harness_nb.schema import Signature, caller_scope, innermost
from harness_nb.seams import LIMIT, Call, Dispatch, Effect, Gate, Run, ToolSpec, layered
from harness_nb.strict import json_text, parse_arguments
from harness_nb.tasks import being_cancelled, off_loop

MISSES = 5
"""After so many turns in a row whose calls name no tool or can't be read, the model is stuck and the run ends."""

MANY = 50
"""Tools up to which an unknown name is answered with the names of all."""

FEW, LIGHT = 20, 16_000
"""Items of a list or a dict, and characters of a text, that are read at once and not in a thread."""

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every provider takes for a tool's name; with any other, each request would be refused."""

EFFECTS = ", ".join(get_args(Effect))

RUNS_ON = "It is a function in a thread, which can't be stopped from outside, so it may still be at work."
"""What a model is told of a plain function that was at work when the run was stopped."""

Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call. Calling the tool itself calls the function.

    An async function that is stopped gets a CancelledError and a moment to clean up. By a note on it (`add_note`) it
    may tell the model how it ended: `shell` says that the command was killed.
    """

    function: Callable[..., object]
    spec: ToolSpec
    signature: Signature

    @property
    def name(self) -> str:
        """The name a model calls it by."""
        return self.spec.name

    @property
    def limit(self) -> int:
        """Most characters of its result that the model gets."""
        return self.spec.limit

    @property
    def __wrapped__(self) -> Callable[..., object]:
        """The function, whose signature and source are the tool's own for whoever inspects it."""
        return self.function

    def getdoc(self) -> str:
        """Return what the model is told of it: what IPython shows for `tool?`."""
        return self.spec.description

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function as if it were not a tool."""
        return self.function(*args, **kwargs)

    async def invoke(
        self, call: Call, run: Run, values: Mapping[str, object] | None = None
    ) -> tuple[Text | Image, ...]:
        """Run the body and read what it returns: async on the event loop, else off it.

        `values` are the call's arguments as the function wants them, where they have been worked out already.
        """
        given = {"run": run, "call": call}
        values = dict(self.signature.values(call.arguments) if values is None else values)
        values |= {parameter: given[kind] for parameter, kind in self.signature.injected.items()}
        if self.signature.is_async:
            returned = self.function(**values)
        else:
            try:
                returned = await off_loop(functools.partial(self._run, values))
            except asyncio.CancelledError as stop:
                stop.add_note(RUNS_ON)
                raise
            if isinstance(returned, _Content):
                return returned.parts
        if inspect.isawaitable(returned):
            returned = await returned
        if isinstance(returned, AsyncIterator):
            returned = await _taken(returned)
        if _light(returned):
            return as_content(returned, None)
        return await off_loop(functools.partial(as_content, returned, None))

    def _run(self, values: dict[str, object]) -> object:
        returned = self.function(**values)
        later = inspect.isawaitable(returned) or isinstance(returned, AsyncIterator)
        return returned if later else _Content(as_content(returned, None))


def _light(value: object, within: bool = True) -> bool:  # noqa: FBT001, FBT002
    """Tell whether reading a value takes no time and runs no code of the user's, so that it needs no thread."""
    if type(value) in {str, bytes}:
        return len(cast("str | bytes", value)) <= LIGHT
    if within and type(value) in {list, tuple, dict}:
        items = cast("Collection[object]", value)
        inner = (*items, *value.values()) if isinstance(value, dict) else items
        return len(items) <= FEW and all(_light(item, within=False) for item in inner)
    return value is None or type(value) in {int, float, bool}


@dataclass(frozen=True, slots=True)
class _Content:
    """What a body returned, read in the thread that ran it: a generator or a database cursor may be bound to it."""

    parts: tuple[Text | Image, ...]


async def _taken(values: AsyncIterator[object]) -> Iterator[object]:
    found: list[object] = []
    try:
        async for value in values:
            found.append(value)
            if len(found) > ITEMS:
                break
    finally:
        if callable(close := getattr(values, "aclose", None)):
            await close()
    return iter(found)


@overload
def tool(function: Callable[..., object], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effects: Iterable[Effect] = (),
    limit: int = LIMIT,
    preview: Callable[[Mapping[str, object]], Preview | None] | None = None,
    idempotent: bool = False,
    verify: Callable[[Call], bool | Awaitable[bool | None] | None] | None = None,
) -> Callable[[Callable[..., object]], Tool]: ...


def tool(
    function: Callable[..., object] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effects: Iterable[Effect] = (),
    limit: int = LIMIT,
    preview: Callable[[Mapping[str, object]], Preview | None] | None = None,
    idempotent: bool = False,
    verify: Callable[[Call], bool | Awaitable[bool | None] | None] | None = None,
) -> Tool | Callable[[Callable[..., object]], Tool]:
    """Make a tool of a function: `@tool`, `@tool(effects={"read"})` or `tool(method)`.

    The docstring is the description, the annotations are the schema; `Annotated[int, "how many"]`
    describes a parameter, one annotated `Run` or `Call` is filled in by the harness, and what a
    partial has bound, `*args` and `**kwargs` are left out. Declare what the tool does in `effects`
    (`read`, `write`, `network`, `mutate`, `spend`): undeclared counts as unknown, and asks.
    `preview` shows a person, before they decide, what a call with these arguments would do.

    A call that was cut off, so that nobody knows whether it had its effect, is not run again by itself. It is where
    the tool is `idempotent`, or only reads; or where `verify`, given the call, says False: it had none. The body gets
    the same `call.key` each time, for an outside that can tell a repeat by it. Book chapter 21.

    Raises UsageError for a function without a docstring, with parameters that JSON can't carry, or
    with an effect that there is not.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - as the standard library does in namedtuple
    effects = frozenset(effects)

    def make(function: Callable[..., object]) -> Tool:
        if isinstance(function, Tool):
            function = function.function
        inner = innermost(function)
        called = name or str(getattr(inner, "__name__", type(inner).__name__))
        if called == "<lambda>":
            raise UsageError("A lambda has no name: say tool(name=..., description=...)(function).")
        if not NAME.fullmatch(called):
            raise UsageError(f"Tool `{called}`: a name has 1 to 64 letters a-z, digits, `_` or `-`.")
        if wrong := [effect for effect in effects if effect not in get_args(Effect)]:
            raise UsageError(f"Tool `{called}`: no effect is called {wrong[0]!r}; choose from {EFFECTS}.")
        words = inspect.cleandoc(description or inner.__doc__ or "")
        if not words:
            raise UsageError(
                f"Tool `{called}` has no docstring: write a line that tells the model what it does."
            )
        signature = Signature(function, called, caller_scope(frame, function))
        spec = ToolSpec(
            called,
            words,
            signature.json_schema,
            effects,
            preview,
            limit,
            idempotent=idempotent,
            verify=verify,
        )
        return Tool(function, spec, signature)

    return make if function is None else make(function)


class Toolbox:
    """The tools of an agent, in a stable order, and the way their calls are answered."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        """Hold the tools. Raises UsageError where two have one name, and for a function without `@tool`."""
        self._tools: dict[str, Tool] = {}
        for item in tools:
            if not isinstance(item, Tool):
                name = getattr(item, "__name__", type(item).__name__)  # type: ignore[unreachable] # people forget
                raise UsageError(f"`{name}` is no tool yet: write @tool above it, or tool({name}).")
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
            result = await judged(asked, run)
            before = run.past.begun.get(asked.id, "")
            if asked.id in run.started or before in result.text:
                return result
            return replace(result, content=(Text(before), *result.content))

        async def judged(asked: ToolCall, run: Run) -> ToolResult:
            try:
                call = self._resolve(asked)
            except ToolError as refusal:
                _count_miss(run)
                return refused(asked.id, str(refusal))
            run.state.pop(_count_miss, None)
            try:
                result = await gated(call, run)
            except (RunStop, asyncio.CancelledError) as stop:
                if isinstance(stop, RunStop) or being_cancelled():
                    raise
                return refused(asked.id, _gate_failed(asked, run, stop))
            except ToolError as refusal:
                return refused(asked.id, str(refusal) or "The call was refused, and no reason given.")
            except Exception as fault:  # noqa: BLE001 - a gate's fault must not lose the other calls
                return refused(asked.id, _gate_failed(asked, run, fault))
            return _fitting(asked, result, call.spec.limit)

        return answer

    def _resolve(self, asked: ToolCall) -> Call:
        item = self._tools.get(asked.name)
        if item is None:
            raise ToolError(self._unknown(asked.name))
        try:
            given = parse_arguments(asked.raw)
        except ValueError as fault:
            why = f"its arguments are not a valid JSON object: {fault}."
        else:
            try:
                return Call(asked.id, item.signature.read(given), item.spec)
            except ValueError as fault:
                why = f"its arguments don't fit.\n{fault}"
            except Exception as fault:  # noqa: BLE001 - a validator is the user's code and may raise anything
                why = f"its arguments could not be checked: {_described(fault)}."
        raise ToolError(f"`{item.name}` was not run: {why}\nSend the call again, corrected.")

    def _unknown(self, name: str) -> str:
        if not self._tools:
            return "There are no tools. Answer without one."
        near = difflib.get_close_matches(name, self._tools, n=1, cutoff=0.5)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        said = f"No tool is called `{name[:80]}`." if name else "The call names no tool."
        if len(self._tools) > MANY:
            return f"{said}{hint} There are {len(self._tools):,} tools."
        return f"{said}{hint} The tools are: {', '.join(sorted(self._tools))}."

    async def _execute(self, call: Call, run: Run) -> ToolResult:
        """Run the tool's body: the innermost step, after every gate has agreed to exactly this call."""
        item = self._tools[call.spec.name]
        try:
            values = item.signature.values(call.arguments)
        except ValueError as fault:
            return refused(
                call.id, f"`{item.name}` was not run: its arguments, as changed, don't fit.\n{fault}"
            )
        asked = ToolCall(call.id, item.name, json_text(call.arguments))
        if being_cancelled():  # a gate swallowed the stop
            raise asyncio.CancelledError
        try:
            run.emit(ToolStarted(asked, call.key, call.spec.repeatable))
        except RunStop:  # it could not be written down, so it won't start
            run.started.pop(call.id, None)
            raise
        try:
            return ToolResult(call.id, await item.invoke(call, run, values))
        except ToolError as fault:
            return _failed(call, str(fault) or "The tool failed and gave no reason.")
        except CannotRead as fault:
            return _failed(call, f"`{item.name}` ran, but {fault}.")
        except RunStop:
            raise
        except BaseException as fault:
            if isinstance(fault, asyncio.CancelledError) and being_cancelled():
                raise
            # Anything else, sys.exit() included, is the tool's failure and must not end the kernel.
            return _failed(call, f"`{item.name}` failed: {_described(fault)}")


def _gate_failed(asked: ToolCall, run: Run, fault: BaseException) -> str:
    if asked.id in run.started:
        return f"The tool ran, or began to, but its result was lost: {_described(fault)}. Check before you repeat the call."
    return f"The call was not run: a check before it failed: {_described(fault)}"


def _fitting(asked: ToolCall, result: object, limit: int) -> ToolResult:
    """Hold what the gates return to the rule: one result, for this call, bounded, not empty."""
    if not isinstance(result, ToolResult):
        return refused(
            asked.id, f"A gate returned {type(result).__name__} instead of a result for this call."
        )
    content = fitted(result.content or (Text("(the tool returned nothing)"),), limit)
    same = result.call_id == asked.id and content == result.content
    return result if same else replace(result, call_id=asked.id, content=content)


def _failed(call: Call, why: str) -> ToolResult:
    """Make the error result of a body, whole: gates may want all of a long one."""
    return ToolResult(call.id, (Text(why),), is_error=True)


def refused(call_id: str, why: str, limit: int = LIMIT) -> ToolResult:
    """Make an error result: the model's answer to a call that failed or was not allowed to run."""
    return ToolResult(call_id, (Text(bounded(why, limit)),), is_error=True)


def _described(fault: BaseException) -> str:
    if isinstance(fault, BaseExceptionGroup):
        return "; ".join(_described(inner) for inner in fault.exceptions[:3])
    try:
        words = str(fault)
    except Exception:  # noqa: BLE001 - some exceptions can't be printed
        words = ""
    return f"{type(fault).__name__}: {words}" if words else type(fault).__name__


def _count_miss(run: Run) -> None:
    """Count the turn as missed, once however many calls it makes; a call that can be read starts anew."""
    missed = cast("set[int]", run.state.setdefault(_count_miss, set()))
    missed.add(run.turn)
    if len(missed) > MISSES:
        raise RunStop(
            "incomplete",
            f"No tool call could be read in {len(missed)} turns in a row: the model seems stuck.",
        )
