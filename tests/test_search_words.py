"""What a text is found by: words in any script and case, identifiers whole and in parts."""

import unicodedata

import pytest
from hypothesis import assume, given, settings, strategies as st

from harness_nb.context.words import runs, words

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("read_file", "read file readfile"),
        ("camelCase", "camel case camelcase"),
        ("HTTPServer2", "http server 2 httpserver2"),
        ("__init__", "init"),
        ("utf8", "utf 8 utf8"),
        ("x", "x"),
        ("os.path.join", "os path join"),
        ("Straße STRASSE", "strasse strasse"),
        ("\N{FULLWIDTH LATIN CAPITAL LETTER R}eadFile", "read file readfile"),
        ("e\N{COMBINING ACUTE ACCENT}cole ÉCOLE", "école école"),
        ("co\N{SOFT HYPHEN}operate", "cooperate"),
        ("हिन्दी में", "हिन्दी में"),
        ("می\N{ZERO WIDTH NON-JOINER}خواهم", "میخواهم"),
        ("日本語", "日 本 語 日本 本語"),
        ("東京tower", "東 京 東京 tower"),
        ("ที่นี่", "ที่ นี่ ที่นี่"),
        ("… !? ---", ""),
    ],
)
def test_the_words_of_a_text(text, found):
    assert " ".join(words(text)) == unicodedata.normalize("NFKC", found)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("def read_file(path):", "readFile"),
        ("class HTTPServer2:", "http_server"),
        ("THE RARE WORD", "rare"),
        ("私は東京に住んでいます", "東京"),
        ("私は東京に住んでいます", "東"),
        ("학교에서 만나요", "학교"),
        ("ฉันรักประเทศไทยมาก", "ประเทศไทย"),
        ("ΠΕΤΡΑ ΣΙΣΥΦΟΣ", "σισυφος"),
    ],
)
def test_a_query_has_a_word_of_the_text(text, query):
    assert set(words(query)) & set(words(text))


@given(TEXTS, TEXTS, TEXTS)
@settings(deadline=None)
def test_a_word_has_the_same_words_wherever_it_stands(before, word, after):
    assume(" " not in word)
    text = f"{before} {word} {after}"
    assert set(words(word)) <= set(words(text))


@given(TEXTS)
@settings(deadline=None)
def test_every_letter_and_digit_is_in_some_word(text):
    for character in text:
        if character.isalnum():
            assert runs(character) == [character]
            assert list(words(character))
    assert all(words(text))


def test_a_word_without_end_is_short_and_finds_itself():
    (long,) = words("a" * 1_000_000)
    assert len(long) == 200
    assert list(words("a" * 300)) == [long]
