"""Tool selection: what is sent, what a search finds, what is loaded, and that the list only ever grows at its end."""

import itertools
import json

import pytest
from hypothesis import given, settings, strategies as st

from harness_nb.agent import Agent
from harness_nb.context.account import Account
from harness_nb.context.catalogue import Catalogue, outline, topics
from harness_nb.context.count import counting
from harness_nb.context.relief import Relief
from harness_nb.context.select import Selection
from harness_nb.context.window import Window
from harness_nb.events import DecisionMade
from harness_nb.messages import Decision, Message, ToolCall, Transcript, assistant
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.safety.repeats import unrepeated
from harness_nb.seams import Request, Run, ToolSpec
from harness_nb.tools import Toolbox, tool

COUNTER = counting("characters")
THINGS = ("apple", "bridge", "candle", "donkey", "engine", "forest", "garden", "hammer")
DEEDS = ("buy", "draw", "find", "move", "open", "paint", "sell", "wash")


def made(name, description=""):
    def body(size: int = 1) -> str:
        return f"{name}: {size}"

    return tool(name=name, description=description or f"{name}.", effects={"read"})(body)


def many(count=64):
    """Make tools such as `buy_apple`; no two of the first 64 share both words."""
    names = [f"{deed}_{thing}" for thing in THINGS for deed in DEEDS]
    return [made(names[n % 64] + ("" if n < 64 else f"_{n}")) for n in range(count)]


ALL = many()


def account(size=0):
    return Account(Window(size, size // 8), COUNTER)


class Desk:
    """An agent with many tools, and what its model was told of at each turn."""

    def __init__(self, *turns, tools=None, size=0, run=None, gates=(), more=(), **how):
        self.model = scripted(*turns)
        self.selection = Selection(ALL if tools is None else tools, account(size), **how)
        self.heard = []
        self.run = run or Run(listener=self.heard.append)
        box = Toolbox(self.selection.tools)
        self.agent = Agent(self.model, box, gates=gates, prepare=(self.selection, *more))

    async def ask(self, prompt="Go."):
        return await self.agent.run(prompt, self.run)

    @property
    def told(self):
        return [[spec.name for spec in request.tools] for request in self.model.requests]

    @property
    def decisions(self):
        return [event.decision for event in self.heard if isinstance(event, DecisionMade)]

    @property
    def results(self):
        messages = self.run.transcript.messages
        return [result.text for message in messages for result in message.results]


def search(*queries):
    return say(*(call("search_tools", query=query) for query in queries))


@pytest.mark.parametrize(("count", "whole"), [(0, True), (1, True), (40, True), (41, False), (64, False)])
async def test_up_to_forty_tools_are_sent_whole_and_in_their_order_where_no_window_is_known(count, whole):
    tools = many(count)
    desk = Desk("Done.", tools=tools)
    await desk.ask()
    assert desk.told == [[item.name for item in tools] if whole else ["search_tools"]]


@pytest.mark.parametrize(("share", "whole"), [(0.99, False), (1.01, True)])
async def test_tools_are_sent_whole_while_they_take_less_than_a_tenth_of_what_is_usable(share, whole):
    tools = many(30)
    size = int(COUNTER.specs(item.spec for item in tools) * 10 * share * 8 / 7)
    desk = Desk("Done.", tools=tools, size=size)
    await desk.ask()
    assert (len(desk.told[0]) == 30) is whole


async def test_nothing_is_hidden_where_the_search_would_take_more_than_it_saves():
    tools = many(3)
    desk = Desk("Done.", tools=tools, size=1_000)
    await desk.ask()
    assert desk.told == [[item.name for item in tools]]


async def test_pinned_tools_and_the_search_come_first_and_what_is_found_is_added_at_the_end():
    desk = Desk(search("sell hammer"), search("wash apple"), "Done.", pinned={"find_forest", "buy_candle"})
    await desk.ask()
    first = ["buy_candle", "find_forest", "search_tools"]
    assert desk.told == [first, [*first, "sell_hammer"], [*first, "sell_hammer", "wash_apple"]]


async def test_a_search_answers_with_name_parameters_and_first_line_and_says_what_to_do():
    tools = [*many(), made("send_letter", "Send a letter.\n\nIt takes a week.")]
    desk = Desk(search("send letter"), "Done.", tools=tools)
    await desk.ask()
    (told,) = desk.results
    assert told.splitlines() == [
        "1 of 65 tools fit, best first. You can call them from your next turn on.",
        "send_letter(size?: integer)",
        "  Send a letter.",
    ]


async def test_loading_is_a_decision_with_its_reason_and_cost():
    desk = Desk(search("sell hammer"), "Done.")
    await desk.ask()
    (decision,) = desk.decisions
    assert (decision.by, decision.loads) == ("select", ("sell_hammer",))
    size = COUNTER.specs([next(s for s in desk.selection.hideable if s.name == "sell_hammer")])
    assert decision.why == (
        f"The model searched for `sell hammer`, so a tool was added: sell_hammer, about {size} tokens."
    )


async def test_a_search_that_finds_only_what_is_there_decides_nothing():
    desk = Desk(search("sell hammer"), search("sell hammer"), "Done.")
    await desk.ask()
    assert len(desk.decisions) == 1
    assert desk.results[0] == desk.results[1]


async def test_searches_side_by_side_load_in_call_order_and_nothing_twice():
    desk = Desk(search("sell hammer", "wash apple", "sell hammer"), "Done.")
    await desk.ask()
    assert desk.told[1] == ["search_tools", "sell_hammer", "wash_apple"]


async def test_a_search_that_finds_nothing_says_so_with_names_near_by():
    desk = Desk(search("hamer", "quixotic"), "Done.")
    await desk.ask()
    near, none = desk.results
    assert near.startswith(
        "None of 64 tools has a word of `hamer`. Names that are spelled alike: buy_hammer, "
    )
    assert none == "None of 64 tools has a word of `quixotic`. Try other words for what the tool should do."
    assert desk.told[1] == ["search_tools"]


async def test_a_query_stays_on_one_line_in_what_a_person_reads():
    desk = Desk(search("sell\n\u202e`hammer`" + " x" * 60), "Done.")
    await desk.ask()
    why = desk.decisions[0].why
    assert why.startswith("The model searched for `sell \\u202e'hammer' x x")
    assert len(why) < 200


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (" ", "Say in a few words what you want to do."),
        ("x" * 501, "The query has 501 characters: give a few words, at most 500."),
    ],
)
async def test_a_query_that_is_none_is_answered_with_what_to_do(query, told):
    desk = Desk(search(query), "Done.")
    await desk.ask()
    assert desk.results == [told]


async def test_a_hidden_tool_that_the_model_names_runs_and_is_told_of_from_then_on():
    desk = Desk(say(call("paint_bridge", size=3)), "Done.")
    await desk.ask()
    assert desk.results == ["paint_bridge: 3"]
    assert desk.told == [["search_tools"], ["search_tools", "paint_bridge"]]


async def test_a_hidden_tool_called_with_wrong_arguments_is_told_of_so_that_the_next_call_can_be_right():
    desk = Desk(say(call("paint_bridge", colour="red")), "Done.")
    await desk.ask()
    assert "was not run" in desk.results[0]
    assert desk.told[1] == ["search_tools", "paint_bridge"]


async def test_a_name_that_no_tool_has_is_answered_with_names_near_by_and_not_with_all_of_them():
    desk = Desk(say(call("paint_bridges")), "Done.")
    await desk.ask()
    assert "Did you mean `paint_bridge`?" in desk.results[0]
    assert len(desk.results[0]) < 400
    assert desk.told[1] == ["search_tools"]


async def test_undo_takes_a_tool_out_again_until_the_model_calls_it_anew():
    desk = Desk(search("sell hammer"), say(call("sell_hammer")), "Done.", say(call("sell_hammer")), "Done.")
    await desk.ask()
    desk.run.append(Decision("you", "Not that one.", undoes=desk.decisions[0].id))
    desk.run = Run(desk.run.transcript)
    await desk.ask()
    assert desk.told[3:] == [["search_tools"], ["search_tools", "sell_hammer"]]


async def test_an_undone_undo_brings_a_tool_back():
    desk = Desk(search("sell hammer"), "Done.", "Done.")
    await desk.ask()
    undo = Decision("you", "Not that one.", undoes=desk.decisions[0].id)
    desk.run.append(undo)
    desk.run.append(Decision("you", "That one after all.", undoes=undo.id))
    await desk.ask()
    assert desk.told[-1] == ["search_tools", "sell_hammer"]


async def test_what_was_loaded_survives_another_process_and_another_selection():
    desk = Desk(search("sell hammer"), search("wash apple"), "Done.")
    await desk.ask()
    again = Desk("Done.", run=Run(Transcript(desk.run.transcript.entries)))
    await again.ask()
    assert again.told == [["search_tools", "sell_hammer", "wash_apple"]]
    assert again.decisions == []


async def test_what_was_loaded_survives_when_the_search_itself_leaves_the_model_s_sight():
    kept = account(4_000)
    desk = Desk(search("sell hammer"), *[say(call("sell_hammer")) for _ in range(3)], "Done.", "Done.")
    await desk.ask()
    hidden = {message.id: () for message in desk.run.transcript.messages}
    desk.run.append(Decision("compact", "All of it.", hidden))
    desk.agent = Agent(desk.model, desk.agent.tools, prepare=(desk.selection, Relief(kept)))
    await desk.ask("Once more.")
    assert [message.text for message in desk.model.requests[-1].messages] == ["Once more."]
    assert desk.told[-1] == ["search_tools", "sell_hammer"]


async def test_tools_used_while_all_were_sent_stay_when_only_some_are():
    desk = Desk(say(call("paint_bridge")), "Done.", most=100)
    await desk.ask()
    again = Desk("Done.", run=Run(desk.run.transcript))
    await again.ask()
    assert again.told == [["search_tools", "paint_bridge"]]


async def test_a_window_learnt_to_be_smaller_hides_tools_from_the_next_turn_on():
    desk = Desk("Done.", "Done.", tools=many(30), size=100_000)
    await desk.ask()
    desk.selection.account.learn(4_000)
    await desk.ask()
    assert list(map(len, desk.told)) == [30, 1]


async def test_a_provider_that_searches_gets_all_tools_with_all_but_pinned_and_loaded_ones_deferred():
    desk = Desk("Done.", native=True, pinned={"buy_candle"})
    desk.run.append(Decision("select", "Loaded elsewhere.", loads=("wash_apple",)))
    await desk.ask()
    (request,) = desk.model.requests
    assert len(request.tools) == 64
    assert [s.name for s in request.tools if not s.deferred] == ["buy_candle", "wash_apple"]
    assert [s.name for s in request.tools[:2]] == ["buy_candle", "wash_apple"]


async def test_with_a_provider_that_searches_a_call_of_a_deferred_tool_decides_nothing():
    desk = Desk(say(call("sell_hammer")), "Done.", native=True)
    await desk.ask()
    assert desk.decisions == []
    assert desk.model.requests[0].tools is desk.model.requests[1].tools


async def test_circles_are_noticed_though_the_list_of_tools_changes():
    turns = [search("sell hammer"), *[say(call("paint_bridge"))] * 9]
    desk = Desk(*turns, gates=(unrepeated(),))
    outcome = await desk.ask()
    assert outcome.reason == "incomplete"
    assert "`paint_bridge` was called 5 times" in outcome.detail


@pytest.mark.parametrize("count", [30, 64])
async def test_the_same_list_is_the_same_object_so_that_it_is_written_down_once(count):
    desk = Desk(*[say(call("search_tools", query="sell hammer"))] * 3, "Done.", tools=many(count))
    await desk.ask()
    assert desk.model.requests[-1].tools is desk.model.requests[-2].tools


async def test_a_small_catalogue_is_looked_at_once_and_then_only_passed_on():
    selection = Selection(many(30), account(100_000))
    request = Request("", (), Toolbox(selection.tools).specs)
    first = await selection(request, Run())
    selection.account.counter = None  # what would count again would fail
    assert (await selection(request, Run())).tools is first.tools


async def test_where_a_tool_of_yours_has_the_search_s_name_nothing_is_hidden():
    desk = Desk("Done.", tools=[*ALL, made("search_tools", "Mine.")])
    await desk.ask()
    assert len(desk.told[0]) == 65
    assert desk.model.requests[0].tools[-1].description == "Mine."


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("search"), st.sampled_from([*DEEDS, *THINGS, "nothing", "sell hammer"])),
            st.tuples(st.just("call"), st.sampled_from([item.name for item in ALL])),
            st.tuples(st.just("compact"), st.just("")),
            st.tuples(st.just("resume"), st.just("")),
        ),
        max_size=12,
    ),
    st.sets(st.sampled_from([item.name for item in ALL]), max_size=5),
)
async def test_the_tools_of_a_turn_begin_with_those_of_the_turn_before(steps, pinned):
    def fresh():
        return Selection(ALL, account(), pinned)

    run, selection, lists = Run(), fresh(), []
    for number, (what, name) in enumerate(steps):
        if what == "resume":
            run, selection = Run(Transcript(run.transcript.entries)), fresh()
        elif what == "compact":
            run.append(Decision("compact", "", {m.id: () for m in run.transcript.messages}))
        else:
            asked = ToolCall(
                f"c{number}",
                name if what == "call" else "search_tools",
                "{}" if what == "call" else json.dumps({"query": name}),
            )
            run.append(assistant(asked))
            result = await Toolbox(selection.tools).dispatch()(asked, run)
            run.append(Message("tool", (result,)))
        request = Request("", (), Toolbox(selection.tools).specs)
        lists.append([spec.name for spec in (await selection(request, run)).tools])
    for before, after in itertools.pairwise(lists):
        assert after[: len(before)] == before
        assert len(set(after)) == len(after)
    assert all(names.index("search_tools") == len(pinned) for names in lists)


SHELF = Catalogue(
    [
        ToolSpec("readFile", "Show a text.", {}),
        ToolSpec("notes", "Read a file, any file: file after file of the folder.", {}),
        ToolSpec(
            "invoice_list", "List what is owed.", {"properties": {"customer": {"description": "whose"}}}
        ),
        ToolSpec("übersetze", "Übersetzt einen Text.", {}),
        ToolSpec("天気", "明日の天気を調べる", {}),
    ]
)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("file", ["readFile", "notes"]),
        ("READ_FILE", ["readFile"]),
        ("invoices", ["invoice_list"]),
        ("customer", ["invoice_list"]),
        ("Übersetzen", ["übersetze"]),
        ("天気", ["天気"]),
        ("inv", []),
        ("?!", []),
        ("", []),
    ],
)
def test_tools_are_found_by_whole_words_of_any_script_and_names_outrank_descriptions(query, found):
    assert [hit.spec.name for hit in SHELF.found(query, 5)] == found


def test_a_catalogue_of_nothing_finds_nothing():
    empty = Catalogue([])
    assert (empty.found("file", 5), empty.near("file")) == ([], [])


@given(st.text(max_size=60))
def test_a_search_is_bounded_best_first_and_never_finds_what_has_no_points(query):
    hits = SHELF.found(query, 3)
    scores = [hit.score for hit in hits]
    assert len(hits) <= 3
    assert scores == sorted(scores, reverse=True)
    assert all(score > 0 for score in scores)


def test_topics_are_what_most_names_begin_with_in_the_order_of_the_names():
    assert topics(["mail_send", "wiki-read", "mail_read", "ping", "wiki_list"], most=2) == ["mail", "wiki"]


def test_what_a_server_wrote_stays_on_two_lines_and_bounded():
    schema = {
        "properties": {
            "a\nb": {"type": "string"},
            "kind": {"enum": ["one", "two"]},
            "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "odd": "no schema",
            "list": {"type": ["array", "null"]},
            **{f"p{n}": {} for n in range(30)},
        },
        "required": ["a\nb"],
    }
    text = outline(ToolSpec("odd", "\x1b[31mred\u202e" + "x" * 900 + "\nsecond line", schema))
    assert text.startswith(
        "odd(a b: string, kind?: 'one' | 'two', when?: string, odd?: any, list?: array | null, "
    )
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "second" not in text
    assert len(text) < 500


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"properties": {"a": {}}, "required": "a"}])
def test_a_schema_that_is_none_is_outlined_all_the_same(schema):
    assert outline(ToolSpec("odd", "", schema)).startswith("odd(")
