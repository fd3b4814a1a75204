"""Which tools a model is told of, where there are many: a prepare step, with a tool that finds the others. Book chapter 12.

    selection = Selection(tools, account, pinned={"read_file"})
    Agent(model, Toolbox(selection.tools), prepare=(selection, relief))

Theory of operation. While the catalogue is small, all of it is sent, in its order. Beyond that the model is told of the
pinned tools, of `search_tools`, and of those that came since: **tools are only ever added, at the end**, so that what
was sent before stays as it was for the prompt cache. Each addition is a decision in the record, which compaction,
another model or a restart leaves alone and a person can undo. A tool that the model names without being told of it runs
all the same, for calls are answered by the whole toolbox, and from then on it is told of it. Where the provider searches
tools itself, all are sent, and all but the pinned ones marked as deferred.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, cast

from harness_nb.context.account import Account
from harness_nb.context.catalogue import Catalogue, outline, topics
from harness_nb.errors import ToolError
from harness_nb.messages import Decision, Entry
from harness_nb.results import readable
from harness_nb.seams import Request, Run, ToolSpec
from harness_nb.tasks import off_loop
from harness_nb.tools import Tool, tool

MOST, SHARE = 40, 0.10
"""How many tools, and what share of the usable window for them, are a catalogue that is sent whole."""

FOUND = 5
"""Most tools that one search finds."""

LONGEST = 500
"""Most characters of a query."""

NAME = "search_tools"

DESCRIPTION = """\
Find more tools than those you are told of, by what they do.

There are {count:,} more{topics}. Needs a few words for one thing that you want to do, a verb and a noun such as `send mail`;
words are compared with the tools' names and descriptions, so try other words when nothing fits. Changes nothing else. Returns
at most {found} tools with their parameters, best first; you can call them from your next turn on. Search before you say
that something can't be done."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is sent of some tools beside those that came since: everything, or `first` and a search for the rest."""

    tools: tuple[ToolSpec, ...]
    usable: int
    whole: bool
    first: tuple[ToolSpec, ...]
    hidden: frozenset[str]


@dataclass(slots=True)
class _Heard:
    """How far the record of a run was read, and the tools that were called since a decision last spoke of them."""

    entries: int = 0
    called: dict[str, None] = field(default_factory=dict)
    loads: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def hear(self, entry: Entry) -> None:
        if isinstance(entry, Decision):
            self.loads[entry.id] = entry.loads or self.loads.get(entry.undoes, ())
            for name in self.loads[entry.id]:
                self.called.pop(name, None)
        else:
            self.called.update((call.name, None) for call in entry.calls)


class Selection:
    """Chooses the tools of each request. One may serve many runs.

    `pinned` names the tools that the model is always told of; `most` tools or `share` of the usable window are sent
    whole, and where the window is unknown only the number decides. `native` tells that the provider searches tools.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        account: Account,
        pinned: Collection[str] = (),
        *,
        most: int = MOST,
        share: float = SHARE,
        native: bool = False,
    ) -> None:
        own = tuple(tools)
        self.account = account
        self.most, self.share, self.native = most, share, native
        taken = any(item.name == NAME for item in own)
        self.hideable = () if taken else tuple(item.spec for item in own if item.name not in pinned)
        """What may be left out of a request, in its order; nothing where a tool of yours has the search's name."""
        described = tool(name=NAME, description=self._described(), effects={"read"})
        self.search = described(self._search)
        self.tools: tuple[Tool, ...] = (*own, self.search) if self.hideable else own
        """What the toolbox must have: the tools and, where there is any to find, `search_tools`."""
        self._catalogue: Catalogue | None = None
        self._plan: _Plan | None = None
        self._sent: tuple[_Plan, tuple[str, ...], tuple[ToolSpec, ...]] | None = None

    async def __call__(self, request: Request, run: Run) -> Request:
        """Return the request with the tools that the model is told of."""
        if self._plan is None:  # window and vocabulary may have to be looked up first
            await off_loop(lambda: self._planned(request.tools))
        plan = self._planned(request.tools)
        if plan.whole:
            return replace(request, tools=plan.first)
        if not self.native:
            self._load_called(plan, run)
        return replace(request, tools=self._with(plan, run.transcript.loaded()))

    def _planned(self, tools: tuple[ToolSpec, ...]) -> _Plan:
        """Decide what is sent; as long as tools and window are the same, what was decided holds."""
        usable = self.account.window.usable
        if self._plan is None or self._plan.tools is not tools or self._plan.usable != usable:
            whole = tuple(spec for spec in tools if spec != self.search.spec)
            hidden = frozenset(spec.name for spec in self.hideable)
            small = self._small(whole, hidden, usable)
            first = whole if small else tuple(spec for spec in tools if spec.name not in hidden)
            self._plan = _Plan(tools, usable, small, first, hidden)
        return self._plan

    def _small(self, tools: tuple[ToolSpec, ...], hidden: Collection[str], usable: int) -> bool:
        size = self.account.counter.specs
        if len(tools) <= self.most and (not usable or size(tools) <= self.share * usable):
            return True
        # To hide less than what the search takes itself would be no gain.
        return size(spec for spec in tools if spec.name in hidden) <= size((self.search.spec,))

    def _with(self, plan: _Plan, loaded: tuple[str, ...]) -> tuple[ToolSpec, ...]:
        """Return the same tuple as the last time, unless something came: whoever writes it down need not do so again."""
        if self._sent is None or self._sent[0] is not plan or self._sent[1] != loaded:
            by_name = {spec.name: spec for spec in plan.tools if spec.name in plan.hidden}
            came = tuple(by_name.pop(name) for name in loaded if name in by_name)
            first = tuple(spec for spec in plan.first if not self.native or spec != self.search.spec)
            rest = (replace(spec, deferred=True) for spec in by_name.values()) if self.native else ()
            self._sent = plan, loaded, (*first, *came, *rest)
        return self._sent[2]

    def _load_called(self, plan: _Plan, run: Run) -> None:
        """Load the tools that the model has called without being told of them."""
        heard = cast("_Heard", run.state.setdefault(self, _Heard()))
        for entry in itertools.islice(run.transcript.entries, heard.entries, None):
            heard.hear(entry)
        loaded = run.transcript.loaded()
        names = tuple(name for name in heard.called if name in plan.hidden and name not in loaded)
        if names:
            run.append(self._decision("The model called what it was not told of", names))
        heard.entries = len(run.transcript)

    async def _search(self, run: Run, query: Annotated[str, "a verb and a noun, such as `send mail`"]) -> str:
        if not query.strip():
            raise ToolError("Say in a few words what you want to do.")
        if len(query) > LONGEST:
            raise ToolError(f"The query has {len(query):,} characters: give a few words, at most {LONGEST}.")
        if self._catalogue is None:
            self._catalogue = Catalogue(self.hideable)
        hits = self._catalogue.found(query, FOUND)
        if not hits:
            return self._nothing(query, self._catalogue.near(query))
        names = tuple(hit.spec.name for hit in hits)
        plan = self._plan or self._planned(tuple(item.spec for item in self.tools))
        told = {*run.transcript.loaded(), *(spec.name for spec in plan.first)}
        if fresh := tuple(name for name in names if name not in told):
            run.append(self._decision(f"The model searched for {_quoted(query)}", fresh))
        head = f"{len(hits)} of {len(self.hideable):,} tools fit, best first. You can call them from your next turn on."
        return "\n".join([head, *(outline(hit.spec) for hit in hits)])

    def _nothing(self, query: str, near: list[str]) -> str:
        names = f" Names that are spelled alike: {', '.join(near)}." if near else ""
        return (
            f"None of {len(self.hideable):,} tools has a word of {_quoted(query)}.{names} "
            "Try other words for what the tool should do."
        )

    def _decision(self, why: str, names: tuple[str, ...]) -> Decision:
        size = self.account.counter.specs(spec for spec in self.hideable if spec.name in names)
        what = "a tool was" if len(names) == 1 else f"{len(names)} tools were"
        tokens = f", about {size:,} tokens" if size else ""
        return Decision("select", f"{why}, so {what} added: {', '.join(names)}{tokens}.", loads=names)

    def _described(self) -> str:
        named = topics(spec.name for spec in self.hideable)
        said = f", named {', '.join(named)} and so on" if named else ""
        return DESCRIPTION.format(count=len(self.hideable), topics=said, found=FOUND)


def _quoted(query: str) -> str:
    plain = readable(" ".join(query.split())).replace("`", "'")
    return f"`{plain if len(plain) <= 80 else plain[:77] + '...'}`"
