"""Search as tools: over the files and notebooks of a workspace, and over all that was said in a session. Book chapter 10.

    Toolbox([*tools, searching_docs(), searching_history()])

Theory of operation. The model decides when to search. What it finds comes last in its context, as the
result of a call, with where to read on and, in the last line, what it costs. Nothing is found that has no word of
the query. Each search first brings its index up to date, so it never tells of what is gone.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from harness_nb.context.chunks import Chunk
from harness_nb.context.corpus import Corpus, Hidden, nothing
from harness_nb.context.index import Found, Hit, Index, installed
from harness_nb.context.record import documents, said, shown
from harness_nb.errors import ToolError, UsageError
from harness_nb.messages import Message
from harness_nb.seams import Call, Run
from harness_nb.tasks import off_loop
from harness_nb.tools import Tool, tool
from harness_nb.workspace import Workspace

__all__ = ["installed", "searching_docs", "searching_history"]

MOST_HITS = 10

LONGEST = 1_000
"""Most characters of a query."""

SHOWN = 12_000
"""Most characters shown at once of one message."""

PART = 0.75
"""What part of a result those may be, where its limit is lower: the rest is for titles and the footer."""

TITLE = 120
"""Most characters shown of what a passage belongs to."""

OTHERS = 3
"""Most further places named that hold the same text."""

DOCS = f"""Search the text files and notebooks of the workspace for passages by their words, best first.

Needs a few telling words, in any order; names such as `read_file` are found whole and in parts. Does not know words
of like meaning: try others when nothing is found. Changes nothing. Returns up to `k` passages (1 to {MOST_HITS}), each with its file and the
call that reads on there; the last line says what they cost. Prefer it to reading whole files when you don't know
where something is, and grep when you know the exact text."""

HISTORY = f"""Search all that was said in this session for passages by their words, best first.

Needs a few telling words. Finds messages and tool results that are no longer in your sight, too, such as those that were
masked or summarised. Changes nothing. Returns up to `k` passages (1 to {MOST_HITS}), each with the number of its message; the last line says
what they cost. With `message` instead of a query it shows that message, from character `offset` on. Prefer it to
doing a costly thing again whose result you had."""


def searching_docs(workspace: str | Path | None = None, hidden: Hidden = nothing) -> Tool:
    """Make the tool `search_docs` for a workspace, passing over what is hidden; None is the current directory at each call."""
    corpus, kept = Corpus(Workspace(workspace), hidden), _Kept()

    def find(query: str, k: int, stop: threading.Event) -> str:
        found = kept.index().find(corpus.documents(), query, k, stop)
        stopped = "" if corpus.complete else f"; stopped after {corpus.most:,} files"
        return told(found, f"{_of(found.documents, 'file')}{stopped}")

    async def search_docs(
        query: Annotated[str, "a few words"],
        k: Annotated[int, f"how many passages, 1 to {MOST_HITS}"] = 5,
    ) -> str:
        return await _stoppable(partial(find, *_checked(query, k)))

    return tool(effects={"read"}, description=DOCS)(search_docs)


def searching_history() -> Tool:
    """Make the tool `search_history`, which searches the record of the run that calls it."""
    kept = _Kept()

    def find(messages: Sequence[Message], asking: str, query: str, k: int, stop: threading.Event) -> str:
        source = documents(messages, "search_history", asking)
        found = kept.index().find(source, query, k, stop)
        return told(found, _of(found.documents, "message"))

    async def search_history(
        run: Run,
        call: Call,
        query: Annotated[str, "a few words"] = "",
        *,
        k: Annotated[int, f"how many passages, 1 to {MOST_HITS}"] = 5,
        message: Annotated[int, "the number of a message to show instead"] = 0,
        offset: Annotated[int, "how many of its characters to skip"] = 0,
    ) -> str:
        if message:
            most = min(SHOWN, int(PART * call.spec.limit))
            return whole(run.transcript.messages, message, max(offset, 0), most)
        return await _stoppable(partial(find, run.transcript.messages, call.id, *_checked(query, k)))

    return tool(effects={"read"}, description=HISTORY)(search_history)


def told(found: Found, searched: str) -> str:
    """Put what was found into words; the last line says what it costs."""
    blocks = [_block(number, hit) for number, hit in enumerate(found.hits, 1)]
    text = "\n\n".join(blocks) if blocks else "Nothing holds any of these words: try others."
    where = f"{_of(found.chunks, 'passage')} of {searched}"
    tokens = max(len(text.encode(errors="replace")) // 4, 1)
    cost = f"{_of(len(text), 'character')}, about {tokens:,} tokens"
    notes = []
    if found.passed_over:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in found.passed_over.items())
        notes = [f"[Files passed over: {kinds}.]"]
    last = f"[{_of(len(blocks), 'hit') if blocks else 'no hit'} in {where}; {cost}]"
    return "\n".join([text, *notes, last])


def whole(messages: Sequence[Message], number: int, offset: int, most: int = SHOWN) -> str:
    """Show `most` characters of one message of a record, from one on. Raises ToolError for one that there is not."""
    if not 1 <= number <= len(messages):
        raise ToolError(f"There are {len(messages):,} messages: give a number from 1 to {len(messages)}.")
    names = {call.id: call.name for message in messages for call in message.calls}
    parts, total, left = [], 0, most
    for part in said(messages[number - 1], number, names):
        start = max(offset - total, 0)
        total += len(part.text)
        if left and (piece := part.text[start : start + left]):
            left -= len(piece)
            parts.append(f"{_line(part.title)}:\n{shown(part, piece)}")
    if not parts and offset:
        raise ToolError(f"Message {number} has {_of(total, 'character')}: give an offset below that.")
    end = min(offset + most - left, total)
    footer = f"message {number} of {len(messages):,}: characters {min(offset, end):,} to {end:,} of {total:,}"
    if end < total:
        footer += f"; to go on, search_history(message={number}, offset={end})"
    return "\n".join([*parts, f"[{footer}]"])


class _Kept:
    """An index made at its first use, so that a tool can be offered before the package is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._index: Index | None = None

    def index(self) -> Index:
        with self._lock:
            try:
                self._index = self._index or Index()
            except UsageError as fault:
                raise ToolError(str(fault)) from None
            return self._index


async def _stoppable(work: Callable[[threading.Event], str]) -> str:
    """Run work off the loop, and tell it to stop when nobody waits for it any more."""
    stop = threading.Event()
    try:
        return await off_loop(partial(work, stop))
    finally:
        stop.set()


def _checked(query: str, k: int) -> tuple[str, int]:
    if not query.strip():
        raise ToolError("Give a few words to search for.")
    if len(query) > LONGEST:
        raise ToolError(
            f"The query has {len(query):,} characters: give a few telling words, at most {LONGEST}."
        )
    return query, min(max(k, 1), MOST_HITS)


def _block(number: int, hit: Hit) -> str:
    head = f"{number}. {_place(hit.chunk)}"
    if hit.chunk.title:
        head += f" ({_line(hit.chunk.title)})"
    head += f", score {hit.score:.2f}"
    if hit.chunk.line:
        path = json.dumps(hit.chunk.source, ensure_ascii=False)
        head += f"; to read on, read_file(path={path}, offset={hit.chunk.line - 1})"
    if hit.same:
        others = ", ".join(_place(chunk) for chunk in hit.same[:OTHERS])
        more = f" and {len(hit.same) - OTHERS:,} more" if len(hit.same) > OTHERS else ""
        head += f"; the same in {others}{more}"
    return f"{head}\n{shown(hit.chunk, hit.chunk.text)}"


def _place(chunk: Chunk) -> str:
    return f"{_line(chunk.source)}, {chunk.part}" if chunk.source else chunk.part


def _line(words: str) -> str:
    """Keep words to one line and to what can be seen of them."""
    words = " ".join(words.split())
    return (words if words.isprintable() else json.dumps(words))[:TITLE]


def _of(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
