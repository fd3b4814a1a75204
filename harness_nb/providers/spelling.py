"""How things are spelled on a wire, whatever they hold: JSON, tool names, call ids, arguments. Used by the adapters.

A transcript keeps what a model said; a provider accepts less. What it would refuse is respelled, always in the
same way, so that a call and its result still match and a request's bytes don't change from turn to turn.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from harness_nb.events import Notice
from harness_nb.messages import Message, ToolCall
from harness_nb.providers.schemas import accepted
from harness_nb.seams import Run, ToolSpec
from harness_nb.strict import clean

Form = TypeVar("Form")

TOKEN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What every provider accepts as a tool's name and as a call's id."""


def wire_json(value: object) -> bytes:
    """Write strict JSON in UTF-8, without spaces. Raises ValueError for NaN and the infinities."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return clean(text).encode()


def fields(values: Mapping[str, object]) -> bytes:
    """Write the inside of a JSON object, to be put beside parts that are written already."""
    return wire_json(dict(values))[1:-1]


def token(text: str) -> str:
    """Return `text` if it can be a name or an id, else a respelling of it that no other text has."""
    if TOKEN.fullmatch(text):
        return text
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    kept = re.sub(r"[^a-zA-Z0-9_-]+", "_", text[:55])
    return f"{kept or 'unnamed'}_{mark}"


def spoken_names(tools: Iterable[ToolSpec]) -> dict[str, str]:
    """Map the names of tools as they are on the wire to what they are called here."""
    return {token(spec.name): spec.name for spec in tools}


def arguments(call: ToolCall) -> bytes:
    """Write a call's arguments as the JSON object that goes back to a model, whatever `raw` holds."""
    return wire_json(call.replayed())


def quoted(written: bytes) -> bytes:
    """Write JSON as a JSON string: how the OpenAI wires carry arguments."""
    return json.dumps(written.decode(), ensure_ascii=False).encode()


class Forms(Generic[Form]):
    """The wire forms of messages, each written once: a message never changes, and histories are long."""

    def __init__(self, write: Callable[[Message], Form]) -> None:
        self._write = write
        self._known: dict[str, tuple[Message, Form]] = {}

    def of(self, messages: Iterable[Message]) -> list[Form]:
        """Return the forms of the messages, in order."""
        known, forms = self._known, []
        for message in messages:
            found = known.get(message.id)
            if found is None or found[0] is not message:  # a stand-in may have the id of an earlier one
                found = known[message.id] = (message, self._write(message))
            forms.append(found[1])
        return forms


class WrittenTools:
    """The tools of a request on the wire, written again only when they change; what can't be sent is left out."""

    def __init__(
        self,
        shape: Callable[[str, str, Mapping[str, object]], Mapping[str, object]],
        search: Mapping[str, object] | None = None,
    ) -> None:
        """Call `shape` with name, description and schema of a tool for what it is on this wire.

        `search` is the provider's tool that finds the deferred ones; without it no tool is deferred.
        """
        self._shape = shape
        self._search = search
        self._last: tuple[tuple[ToolSpec, ...], list[bytes], list[bytes]] = ((), [], [])

    def of(self, tools: tuple[ToolSpec, ...], run: Run) -> tuple[list[bytes], list[bytes]]:
        """Write these tools: those that the model sees, with the search last, and those that it can search for.

        A notice names each that is newly left out, as no provider takes its schema.
        """
        known, seen, hidden = self._last
        if tools is known:
            return seen, hidden
        seen, hidden = [], []
        for spec in tools:
            deferred = spec.deferred and self._search is not None
            try:
                (hidden if deferred else seen).append(self._written(spec, deferred=deferred))
            except (ValueError, TypeError, RecursionError):
                run.emit(
                    Notice(f"The tool `{spec.name}` was left out: its schema does not describe an object.")
                )
        if hidden:
            seen.append(wire_json(self._search))
        self._last = tools, seen, hidden
        return seen, hidden

    def _written(self, spec: ToolSpec, *, deferred: bool) -> bytes:
        schema = accepted(spec.input_schema)
        if schema is None:
            raise ValueError
        mark = {"defer_loading": True} if deferred else {}
        return wire_json({**self._shape(token(spec.name), spec.description, schema), **mark})
