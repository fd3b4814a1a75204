"""The index: what it finds, in what order, and that bringing it up to date is as good as making it anew."""

import sys
import threading

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from harness_nb.context.chunks import Chunk
from harness_nb.context.index import Document, Index, PassedOver, Stopped, installed
from harness_nb.errors import UsageError

WORDS = ["alpha", "beta", "gamma", "read_file", "日本語", "Straße"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
RARE = st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=12)


def texts(**documents):
    return [
        Document(key, text, lambda key=key, text=text: [Chunk("", key, "", text)])
        for key, text in documents.items()
    ]


def found(index, query, k=10):
    return [hit.chunk.part for hit in index.search(query, k)]


def index_of(**documents):
    index = Index()
    index.update(texts(**documents))
    return index


class Changes(RuleBasedStateMachine):
    """Any sequence of changes, and an index that follows them."""

    def __init__(self):
        super().__init__()
        self.index, self.files = Index(), {}

    @rule(key=st.sampled_from("abcdef"), text=TEXTS)
    def write(self, key, text):
        self.files[key] = text

    @rule(key=st.sampled_from("abcdef"))
    def remove(self, key):
        self.files.pop(key, None)

    @invariant()
    def equals_a_fresh_one(self):
        documents = texts(**dict(sorted(self.files.items())))
        self.index.update(documents)
        fresh = Index()
        fresh.update(documents)
        for query in [*WORDS, "alpha file 本"]:
            assert self.index.search(query, 3) == fresh.search(query, 3)


TestChanges = Changes.TestCase
TestChanges.settings = settings(deadline=None, max_examples=25, stateful_step_count=12)


@settings(deadline=None)
@given(st.text(max_size=80), RARE, st.text(max_size=80), st.lists(TEXTS, max_size=5))
def test_any_text_is_found_by_a_rare_word_in_it(before, rare, after, others):
    index = index_of(it=f"{before} {rare} {after}", **{f"n{n}": text for n, text in enumerate(others)})
    assert "it" in found(index, rare)


def test_what_is_not_found_has_no_word_of_the_query():
    index = index_of(a="alpha beta", b="beta gamma", c="... !")
    assert found(index, "gamma") == ["b"]
    assert found(index, "delta") == found(index, "...") == found(index, "") == []
    assert found(Index(), "alpha") == []
    assert index.chunks == 2


def test_the_best_comes_first_and_equals_in_their_order():
    index = index_of(a="one word here", b="word word word", c="one more here word", d="more word one here")
    assert found(index, "word") == ["b", "a", "c", "d"]
    assert found(index, "word", 1) == ["b"]
    assert found(index, "word", 99) == ["b", "a", "c", "d"]


def test_copies_count_once_and_are_named():
    copies = {f"copy{n}": "The  same\nWORDS" for n in range(60)}
    index = index_of(first="the same words", **copies, last="other same words entirely")
    hits = index.search("same words", 2)
    assert [hit.chunk.part for hit in hits] == ["first", "last"]
    assert [chunk.part for chunk in hits[0].same] == list(copies)


def test_only_what_is_new_or_changed_is_read():
    read = []
    index = Index()

    def document(key, stamp):
        return Document(key, stamp, lambda: read.append(key) or [Chunk("", key, "", f"{key} {stamp}")])

    index.update([document("a", 1), document("b", 1)])
    index.update([document("a", 1), document("b", 2), document("c", 1)])
    assert read == ["a", "b", "b", "c"]
    index.update([document("c", 1)])
    assert found(index, "a b c") == ["c"]


def test_words_that_are_gone_do_not_stay():
    index = Index()
    for n in range(50):
        index.update(texts(a=f"word{n} common", b="kept"))
    assert len(index._vocabulary.words) < 20
    assert found(index, "word49 kept") == ["a", "b"]


def test_what_is_passed_over_is_counted_by_kind_and_not_read_again():
    def binary():
        raise PassedOver("binary")

    index = Index()
    index.update([*texts(a="alpha"), Document("b", 1, binary), Document("c", 1, binary)])
    index.update([*texts(a="alpha"), Document("b", 1, int), Document("c", 1, binary)])
    assert index.passed_over == {"binary": 2}
    assert (index.documents, index.chunks) == (1, 1)


def test_an_update_that_is_stopped_keeps_what_it_had():
    stop, index = threading.Event(), index_of(a="alpha")

    def read():
        stop.set()
        return [Chunk("", "b", "", "beta")]

    with pytest.raises(Stopped):
        index.update([Document("b", 1, read), *texts(c="gamma")], stop)
    assert found(index, "alpha beta gamma") == ["a", "b"]


def test_without_the_package_one_sentence_names_the_extra(monkeypatch):
    assert installed()
    monkeypatch.setitem(sys.modules, "bm25s", None)
    assert not installed()
    with pytest.raises(
        UsageError, match=r"^Search needs the package bm25s: pip install 'harness-nb\[context\]'\.$"
    ):
        Index()
