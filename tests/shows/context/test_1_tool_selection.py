"""Line 1, tool selection: what a large catalogue costs with it and without, whether a search finds the right tool, and what the prompt cache sees.

The sixty tools and both ways to ask for each are of notebooks/office.py. Whoever wrote the queries knew the tools, so
the shares say how well words find words, and not how well a model would choose.
"""

import itertools
import runpy
import time
from pathlib import Path

import pytest

from harness_nb.agent import Agent
from harness_nb.context.account import Account
from harness_nb.context.catalogue import Catalogue
from harness_nb.context.count import counting
from harness_nb.context.select import Selection
from harness_nb.context.vocabulary import OFFLINE
from harness_nb.context.window import Window
from harness_nb.messages import Transcript, assistant, user
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.seams import Request, Run
from harness_nb.tools import Toolbox

OFFICE = runpy.run_path(str(Path(__file__).parents[3] / "notebooks" / "office.py"))
ENTRIES = OFFICE["office"]()
TOOLS = [entry.tool for entry in ENTRIES]
COUNTER = counting(OFFLINE)
PINNED = frozenset({"mail_send", "calendar_create_event", "wiki_search"})


def selection(count, window=200_000):
    return Selection(OFFICE["copies"](TOOLS, count), Account(Window(window, 8_192), COUNTER), PINNED)


async def sizes(count, window):
    """Tokens of the schemas: all of them, as first sent, and after ten different searches."""
    chosen, run = selection(count, window), Run()
    request = Request("", (), Toolbox(chosen.tools).specs)
    first = (await chosen(request, run)).tools
    found = [name for entry in ENTRIES[::6] for name in _found(entry.words)]
    calls = [say(call("search_tools", query=entry.words)) for entry in ENTRIES[::6]]
    model = scripted(*calls, "Done.")
    await Agent(model, Toolbox(chosen.tools), prepare=(chosen,)).run("Go.", run)
    last = model.requests[-1].tools
    assert len(last) - len(first) <= len(set(found)) * (count // 60 + 1)
    return [COUNTER.specs(specs) for specs in (request.tools[:-1], first, last)]


def _found(query):
    return [hit.spec.name for hit in Catalogue(tool.spec for tool in TOOLS).found(query, 5)]


@pytest.mark.parametrize(("window", "sent_whole"), [(16_000, {5}), (200_000, {5, 20})])
async def test_schemas_grow_with_the_catalogue_until_there_is_a_choice(window, sent_whole):
    print(f"tokens of the tools' schemas, window {window:,}:")
    print("tools   all   sent first   sent after 10 searches")
    for count in (5, 20, 60, 200):
        whole, first, last = await sizes(count, window)
        print(f"{count:5} {whole:6,} {first:12,} {last:15,}")
        if count == 200:
            assert first < whole / 20
            assert last < whole / 4
        assert (first == last == whole) is (count in sent_whole)


def test_a_search_by_a_few_words_finds_the_right_tool_among_sixty_and_seldom_by_a_person_s_own():
    catalogue = Catalogue(tool.spec for tool in TOOLS)
    shares = {}
    for kind in ("words", "wish"):
        ranks = [
            names.index(entry.tool.name) if entry.tool.name in names else None
            for entry in ENTRIES
            for names in [[hit.spec.name for hit in catalogue.found(getattr(entry, kind), 5)]]
        ]
        first, five = ranks.count(0) / 60, sum(rank is not None for rank in ranks) / 60
        shares[kind] = first, five
        print(f"60 tools, {kind:5}: first {first:.0%}, among five {five:.0%}")
    assert shares["words"] >= (0.85, 0.95)
    assert shares["wish"][1] >= 0.33


async def test_the_cached_prefix_breaks_only_where_a_tool_came():
    wishes = [entry for entry in ENTRIES[::12] for _ in range(4)]  # five tasks of four turns each
    turns = [say(call("search_tools", query=entry.words)) for entry in wishes]
    chosen, run, model = selection(200), Run(), scripted(*turns, "Done.")
    await Agent(model, Toolbox(chosen.tools), prepare=(chosen,)).run("Go.", run)
    lists = [request.tools for request in model.requests]
    changed = sum(before is not after for before, after in itertools.pairwise(lists))
    sent = sum(COUNTER.specs(tools) for tools in lists)
    whole = len(lists) * COUNTER.specs(Toolbox(chosen.tools).specs)
    print(
        f"{len(lists)} turns, 5 tasks: {changed} changes of the list, {sent:,} schema tokens instead of {whole:,}"
    )
    assert changed == 5
    assert all(after[: len(before)] == before for before, after in itertools.pairwise(lists))
    assert sent < whole / 5


async def spent(chosen, messages=0, rounds=200):
    request = Request("", (), Toolbox(chosen.tools).specs)
    run = Run(Transcript([user("Go."), assistant("Done.")] * (messages // 2)))
    await chosen(request, run)
    began = time.process_time()
    for _ in range(rounds):
        await chosen(request, run)
    return (time.process_time() - began) / rounds


async def test_choosing_costs_microseconds_a_turn_and_a_search_milliseconds():
    small, large = await spent(selection(20)), await spent(selection(200))
    long = await spent(selection(200), 4_000)
    began = time.process_time()
    catalogue = Catalogue(tool.spec for tool in OFFICE["copies"](TOOLS, 200))
    built = time.process_time() - began
    began = time.process_time()
    for entry in ENTRIES:
        catalogue.found(entry.words, 5)
    asked = (time.process_time() - began) / len(ENTRIES)
    print(
        f"a turn: {small * 1e6:.0f} us of CPU with 20 tools, {large * 1e6:.0f} us with 200, {long * 1e6:.0f} us after 4,000 messages"
    )
    print(
        f"200 tools made searchable in {built * 1e3:.0f} ms of CPU with the tools themselves, a search {asked * 1e3:.1f} ms"
    )
    assert small < 100e-6
    assert long < 300e-6
    assert asked < 0.05
