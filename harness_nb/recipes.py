"""The parts put together: the only place that knows which layers, tools and words make an agent. Book chapter 22."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from harness_nb.agent import Agent
from harness_nb.context.account import Account, measured
from harness_nb.context.compare import compared
from harness_nb.context.count import counter, counting
from harness_nb.context.index import installed
from harness_nb.context.mask import Again, anew
from harness_nb.context.portion import portioned
from harness_nb.context.relief import Ask, Measures, Relief, refitted
from harness_nb.context.scratchpad import GUIDANCE, Scratchpad
from harness_nb.context.search import searching_docs, searching_history
from harness_nb.context.select import Selection
from harness_nb.context.window import Window, window
from harness_nb.events import Notice
from harness_nb.messages import Image, ToolCall, ToolResult, Transcript
from harness_nb.ops.allowance import Allowance
from harness_nb.ops.budget import Budget
from harness_nb.ops.meter import Estimate, by_characters, metered
from harness_nb.ops.once import once
from harness_nb.ops.prices import Prices, prices
from harness_nb.ops.router import Router
from harness_nb.ops.spending import collapse
from harness_nb.providers.fallback import falling_back
from harness_nb.providers.named import model as named
from harness_nb.providers.retry import retrying
from harness_nb.safety.approvals import Approver, nobody, permitted, unchanged
from harness_nb.safety.commands import outlined
from harness_nb.safety.grants import Approvals
from harness_nb.safety.permission import Mode, Policy, hides, policy
from harness_nb.safety.repeats import unrepeated
from harness_nb.safety.rulefile import permissions
from harness_nb.safety.sandbox import best
from harness_nb.safety.spill import Outputs, spilled
from harness_nb.safety.trust import FENCE, from_outside, labelled
from harness_nb.seams import (
    Call,
    Layered,
    Model,
    ModelLayer,
    Prepare,
    Proceed,
    Reply,
    Request,
    Run,
    ToolSpec,
    layered,
)
from harness_nb.toolkit.calc import calc
from harness_nb.toolkit.data import data
from harness_nb.toolkit.edits import editing
from harness_nb.toolkit.shell import shell
from harness_nb.tools import Tool, Toolbox

INSTRUCTIONS = """\
You are an assistant in a Jupyter notebook. Your answer is shown to the person who wrote the cell.
Use a tool where it gives a surer answer than you can: compute with it, look things up with it, don't guess.
When a tool fails, read what it says and try otherwise; say so when you can't do what was asked.
Answer in plain Markdown, as briefly as the question allows, and say what you did not check."""
"""What every agent is told first. Nothing in it changes from run to run, so that prompt caches hold."""


LOCAL_SMALL = " · local, small"
"""How the embedded model's name ends."""

SMALL = ("calc", "read_file")
"""Our tools that a small local model gets: each tool costs it a part of its few tokens."""


PINNED = (
    *("calc", "read_file", "list_files", "grep", "edit_file", "write_file", "read_output", "shell"),
    *("run_python", "scratchpad_write", "scratchpad_list"),
)
"""Our tools that a model is told of however many there are; it finds the others by a search."""

FEW = 10
"""So many tools of the person's own are not hidden either: they were given in order to be used."""


RETRIEVING = ("search_docs", "search_history")
"""Tools whose results count as retrieved."""

NOTES = ".harness_nb/notes"
"""Where the agent's notes are, a folder for each session, below the workspace."""
UNFIT = re.compile(r"[^A-Za-z0-9_-]+")

SECONDS = 900.0
"""Seconds that a run may take, those for people left out, unless something else was said."""

SOONER = 0.9
"""The part of our own red line at which the provider begins to clear."""

KEPT = re.compile(r'\[long output, shortened: [^;\n]*; [^;\n]{0,30}read_output\(id="(out-[1-9][0-9]{0,8})"')
"""How a result begins that was shortened and kept; further on the same words may be anyone's."""


class Kit:
    """Our tools, and what a session keeps for them from run to run.

    That is which files were read, long outputs, what a person has allowed, and what fills the context window.
    Without one, an agent has its own. The workspace is the current directory.
    """

    def __init__(self, more: Iterable[Tool] = (), name: str = "main") -> None:
        """Start with nothing read, kept or granted.

        `more` are tools of the place we are in, such as a notebook; `name` is the session's, whose notes it finds again.
        """
        self.outputs = Outputs()
        self.notes = Scratchpad(Path(NOTES, UNFIT.sub("-", name)[:64] or "main"))
        self.approvals = Approvals()
        self.account: Account | None = None
        """What fills the window, and what each turn was; None before the first agent."""
        self.relief: Relief | None = None
        """What is done when the window fills up; None before the first agent."""
        self.counted: tuple[str, int | None] = "", None
        """The model that the account is of, and the window that was asked for."""
        self.denied: Callable[[str], bool] = lambda _: False
        """Tells of a path whether reading it is denied in the run at hand: searches pass over it."""
        # The shell's sandbox is looked for at each agent: a person may have installed one meanwhile.
        self._kept = (
            calc,
            *editing(hidden=self._hidden),
            *data(kept=self.outputs.text),
            self.outputs.reader,
            *self.notes.tools,
            *((searching_docs(hidden=self._hidden), searching_history()) if installed() else ()),
            *more,
        )

    def _hidden(self, path: str) -> bool:
        return self.denied(path)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool of ours, in a stable order."""
        return (*self._kept, shell(best(), explain=outlined))


@dataclass(frozen=True, slots=True)
class Permit:
    """What decides whether a call runs: a mode, rules, and whom to ask. See safety/permission.py for both."""

    mode: Mode | None = None
    """`ask`, `edits`, `plan` or `auto`; None for what harness_nb.toml says, else `ask`."""
    rules: tuple[str, ...] = ()
    """Rules beside those of harness_nb.toml."""
    ask: Approver = nobody
    """Whom to ask; nobody, unless said otherwise, and then what asks is denied."""
    patience: float | None = None
    """Seconds that a question waits before it counts as refused; None for ever."""

    def policy(self) -> Policy:
        """Put mode, rules and the folder's file together. Raises UsageError for what can't be read."""
        file = permissions()
        return policy(self.mode or file.mode or "ask", (*file.rules, *self.rules))


@dataclass(frozen=True, slots=True)
class Room:
    """How the context window is kept. See context/relief.py."""

    window: int | None = None
    """Tokens of the model's window; None for what the model, or the price list, says."""
    yellow: float = 0.60
    red: float = 0.80
    """Shares of what can be used at which the window counts as filling up, and as full."""
    measures: Measures = field(default_factory=Measures)
    ask: Ask | None = None
    """Whom to ask before a decision that can wait; None to decide and tell."""


def assistant(
    model: str | Model | None = None,
    tools: Iterable[Tool] = (),
    *,
    instructions: str = "",
    fallback: str | Model | None = None,
    permit: Permit | None = None,
    room: Room | None = None,
    kit: Kit | None = None,
) -> Agent:
    """Make the usual agent: a named model that is asked again when it fails, our tools, and `tools`.

    A model is one, or what names one (see providers/named.py), or None for what is configured. A
    tool of yours replaces one of ours that has its name; your `instructions` follow ours. `fallback`
    takes a turn over when the model is out. Reading in the current directory is allowed; what else is, `permit`
    says; `room` how the context window is kept. Raises UsageError for a model, a rule or a window that can't be had.
    """
    core, kit, permit, room = _made(model), kit or Kit(), permit or Permit(), room or Room()
    other = _made(fallback) if fallback is not None else None
    priced = prices()
    unwatched = layered(*_asking(core, other, priced, purpose="summary"))
    decides = permit.policy()
    kit.denied = hides(decides)
    small = core.name.endswith(LOCAL_SMALL)
    account, own = _accounted(kit, core, room), Toolbox(tools)
    known = _together(kit, own, small=small)
    native = bool(getattr(core, "searches_tools", False))
    select = Selection(known, account, _pinned(known, own, small=small), native=native)
    box = Toolbox(select.tools)
    again = anew if small else _read_again(kit.outputs, box)
    clears = bool(getattr(core, "offers_clearing", False))
    relief = kit.relief = Relief(account, unwatched, room.measures, again=again, ask=room.ask, clears=clears)
    counted = not getattr(core, "own_prompts", False)
    model, *asking = _asking(core, other, priced, _estimating(account))
    seen = measured(account, core.name, counted=counted)
    asked = layered(model, _watching_cache(account), seen, refitted(relief), *asking)
    notes = "" if small else f"\n{GUIDANCE}"
    words = f"{INSTRUCTIONS}\n{FENCE}{notes}\n\n{instructions.strip()}".strip()
    gates = (  # the first is outermost
        once,
        portioned(account),
        *(() if small else (spilled(kit.outputs),)),  # a small model has no read_output to read on with
        unrepeated(),
        permitted(decides, permit.ask, kit.approvals, timeout=permit.patience),
        labelled(from_outside(), kit.outputs.maker),
        unchanged,
    )
    steps = (select, relief, *((_clearing(core, account),) if clears else ()))
    return Agent(asked, box, words, gates, prepare=steps)


def _accounted(kit: Kit, model: Model, room: Room) -> Account:
    """Return the session's account, made or moved to this model and these limits. Raises UsageError for limits that can't be."""
    told = getattr(model, "window", None)
    if room.window is not None:
        window(model.name, room.window)
    tiers = list(model.tiers.values()) if isinstance(model, Router) else [model]
    # A window of 0 is a model without end, and a double: no vocabulary or price list is right for it.
    counts = counting("characters") if told == 0 else counter(tiers[0].name)

    def found() -> Window:
        if told == 0 and not room.window:
            return Window()
        if told is None and room.window is None and tiers != [model]:
            known = [size for tier in tiers if (size := window(tier.name, hint=_hint(tier))).size]
            return min(known, key=lambda one: one.usable, default=Window())
        return window(model.name, room.window, 0 if room.window else told or _hint(model))

    account = kit.account
    if account is None or (account.yellow, account.red) != (room.yellow, room.red):
        turns = account.turns if account is not None else []
        account = kit.account = Account(found, counts, room.yellow, room.red, retrieved=RETRIEVING)
        account.turns = turns
    elif kit.counted != (model.name, room.window):
        account.change(found, counts)
    kit.counted = model.name, room.window
    return account


def _hint(model: Model) -> int:
    """Ask a model how large its window is, 0 where it doesn't know."""
    return int(getattr(model, "window", None) or getattr(model, "served_window", int)())


def _clearing(model: Model, account: Account) -> Prepare:
    """Have the provider clear old results on its own side a little before we would mask them here.

    It is said of the run, not of the model: that may be another session's too, with another window.
    """

    def step(request: Request, run: Run) -> Request:
        usable = account.window.usable
        if usable and not getattr(model, "clears", False):
            from harness_nb.providers.clearing import Clearing

            run.state[Clearing] = Clearing(max(1, int(SOONER * account.red * usable)), least=usable // 10)
        return request

    return step


def _read_again(outputs: Outputs, box: Toolbox) -> Again:
    """Say how a masked result is read again, keeping it for that if it isn't kept yet."""
    specs = {spec.name: spec for spec in box.specs}

    def again(call: ToolCall, result: ToolResult) -> str:
        if any(isinstance(part, Image) for part in result.content):  # only words are kept
            return anew(call, result)
        known = KEPT.match(result.text)
        spec = specs.get(call.name) or ToolSpec(call.name, "", {})
        try:
            name = known[1] if known else outputs.keep(result.text, Call(call.id, call.replayed(), spec))
        except OSError:
            return anew(call, result)
        return f'To see it again: read_output(id="{name}", offset=0).'

    return again


def _asking(
    core: Model, other: Model | None, priced: Prices, estimate: Estimate | None = None, purpose: str = "turn"
) -> tuple[Model, *tuple[ModelLayer, ...]]:
    """Return the model and the layers right round it: what asks again, what takes over, and what is paid each time."""

    def meter(model: Model) -> ModelLayer:
        return metered(priced.of(model), budget_of, estimate, model=model.name, purpose=purpose)

    model, *layers = _ready(core, meter)
    over = () if other is None else (falling_back(layered(*_ready(other, meter))),)
    return model, *over, *layers


def _ready(model: Model, meter: Callable[[Model], ModelLayer]) -> tuple[Model, *tuple[ModelLayer, ...]]:
    """Return a model with what asks again and what is paid each time, where it doesn't have them; of a router, its tiers'."""
    core, own = _bare(model)
    if isinstance(core, Router):
        routed = copy(core)
        routed.tiers = {tier: layered(*_ready(one, meter)) for tier, one in core.tiers.items()}
        return routed, *own
    again = () if _has(own, retrying) else (retrying(),)
    paying = () if _has(own, metered) else (meter(core),)
    return core, *again, *own, *paying


def _bare(model: Model) -> tuple[Model, tuple[ModelLayer, ...]]:
    """Take the layers off a model, the outermost first."""
    layers: tuple[ModelLayer, ...] = ()
    while isinstance(model, Layered):
        layers += model.layers
        model = cast("Model", model.core)
    return model, layers


def _has(layers: Iterable[ModelLayer], maker: Callable[..., ModelLayer]) -> bool:
    """Tell whether one of these layers was made by that function."""
    names = {f"{getattr(layer, '__module__', '')}.{getattr(layer, '__qualname__', '')}" for layer in layers}
    return f"{maker.__module__}.{maker.__qualname__}.<locals>.layer" in names


def paid(model: Model) -> bool:
    """Tell whether requests to this model cost money, or may: what a person should know where no limit in dollars holds."""
    core, _ = _bare(model)
    if isinstance(core, Router):
        return any(paid(tier) for tier in core.tiers.values())
    return prices().paid(core)


def _watching_cache(account: Account) -> ModelLayer:
    """Say when the provider reads much less from its cache than a turn before, and which part of the request changed.

    Put it outside `measured`, which keeps the turns.
    """

    async def layer(request: Request, run: Run, proceed: Proceed[Request, Reply]) -> Reply:
        reply = await proceed(request)
        if words := _fell(account, run.transcript):
            run.emit(Notice(words))
        return reply

    return layer


def _fell(account: Account, transcript: Transcript) -> str:
    before, now = account.turns[-2:] if len(account.turns) > 1 else (None, None)
    if before is None or now is None or before.model != now.model:
        return ""
    if before.usage.estimated or now.usage.estimated or not collapse(before.usage, now.usage):
        return ""
    if all(message.id != before.message_id for message in transcript.messages):  # it was another conversation
        return ""
    found = compared(before, now, transcript, account.counter)
    return collapse(before.usage, now.usage, found.part) + ("" if found.broke else f" {FORGOT}")


FORGOT = "Nothing that was sent before has changed, so the provider let go of it: most do after some minutes."


def _estimating(account: Account) -> Estimate:
    """Guess what a request takes by the account, which has just counted it."""

    def estimate(request: Request, run: Run) -> tuple[int, int]:
        return account.fill(request).total, by_characters(request, run)[1]

    return estimate


def budget_of(run: Run) -> Budget:
    """Return what a run may spend: what was set for it, else the usual limits."""
    budget = run.state.get(Budget)
    if not isinstance(budget, Budget):
        budget = run.state[Budget] = Budget("run", Allowance(seconds=SECONDS))
    return budget


def _made(model: str | Model | None) -> Model:
    return named(model) if model is None or isinstance(model, str) else model


def _pinned(known: Iterable[Tool], own: Toolbox, *, small: bool) -> set[str]:
    """Name the tools that are never hidden: for a small model all, for it would not search."""
    if small:
        return {tool.name for tool in known}
    return {*PINNED, *(tool.name for tool in own if len(own) <= FEW)}


def _together(kit: Kit, own: Toolbox, *, small: bool) -> list[Tool]:
    names = {tool.name for tool in own}
    ours = (tool for tool in kit.tools if tool.name not in names and (tool.name in SMALL or not small))
    return [*ours, *own]
