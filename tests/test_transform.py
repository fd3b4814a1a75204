"""Cells with `%agent` in them: what IPython gets to run, and with which prompt."""

import ast

import pytest
from hypothesis import example, given, strategies as st

from harness_nb.jupyter.transform import cell_rewritten, lines_rewritten, transformers

PROMPTS = [
    "is df.shape right?",
    "why??",
    "what is 2+2?",
    "done ?",
    "set {12} and $name",
    "{undefined} ok; $obj.attr;",
    "what's up \"there\" '''",
    'C:\\new\\ and """',
    "x = %agent y",
    "# not a comment",
    "(unbalanced [",
    "na\u00efve \U0001f600 \u2028 \x85 \x0c end",
    "-- not an option",
    "trailing blanks  ",
]


def prompts(source: str) -> list[tuple[str, ...]]:
    """The literals handed over, in order, with how each call is made."""
    found = []
    tree = ast.parse(source)
    awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            if node.func.attr in {"line", "cell"}:
                found.append(("await" if id(node) in awaited else "lost", *texts))
            if node.func.attr in {"run_line_magic", "run_cell_magic"}:
                found.append(("block", *texts[1:]))
    return found


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize(
    "form", ["%agent {}", "x = %agent {}", "if True:\n    %agent {}", "a['k'], b = %agent\t{}"]
)
def test_a_line_hands_its_prompt_over_verbatim(form, prompt):
    assert prompts(lines_rewritten(form.replace("{}", prompt) + "\n", "await")) == [("await", prompt)]


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", " \u00a0", "\u3000"])
def test_a_space_of_pasted_text_is_a_space(space):
    assert prompts(lines_rewritten(f"%agent{space}hi\n", "await")) == [("await", "hi")]
    assert prompts(cell_rewritten(f"%%agent{space}--new\nhi\n", "await")) == [("await", "--new", "hi")]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_cell_hands_its_body_over_verbatim(prompt):
    body = f"{prompt}\n%agent {prompt}\n\n  {prompt}"
    assert prompts(cell_rewritten(f"%%agent --new\n{body}\n", "await")) == [("await", "--new", body)]


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1))
@example("\u2028")
def test_any_line_arrives_as_it_was(text):
    given = f"%agent p{text}e"
    assert prompts(lines_rewritten(f"{given}\n", "await")) == [("await", given.removeprefix("%agent "))]


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("a\r\n\r\nb")
def test_any_body_arrives_as_it_was(text):
    assert prompts(cell_rewritten(f"%%agent\n{text}\n", "await")) == [("await", "", text)]


@given(st.lists(st.sampled_from(PROMPTS), min_size=2, max_size=5))
def test_what_one_prompt_holds_does_not_touch_the_next(texts):
    source = "".join(f"%agent {text}\n" for text in texts)
    assert prompts(lines_rewritten(source, "await")) == [("await", text) for text in texts]


@pytest.mark.parametrize(
    "source",
    [
        "x = '''\n%agent hello\n'''\n",
        'x = f"""\n{1}\n%agent hello\ny = %agent you"""\n',
        "x = (3\n%agent\n)\n",
        "f(x=\n%agent\n)\n",
        "# %agent hello\n",
        'print("x = %agent hello")\n',
        "x = 3 \\\n%agent\n",
        "x = f'{y}' \\\n%agent\n",
        "y == %agent\n",
        "y += %agent\n",
        "agent = 2\nx = 7 %agent\n",
        'x = "return %agent hello"\n',
        "def returns %agent\n",
        "%agents hello\n",
        "%agent?\n",
        "%agent??\n",
        "%%agent?\n",
        "%%timeit\n%agent hello\n",
        "%%agent\n%agent hello\n",
    ],
)
def test_what_only_looks_like_a_call_is_left_alone(source):
    assert lines_rewritten(source, "await") == source


@pytest.mark.parametrize(
    "above",
    [
        "x = '''\n%agent no\ny = %agent no'''\n",
        "x = '''\n%agent no'''\n",
        "x = (3\n%agent\n)\n",
        "!echo it's (\n",
        "files = !ls it's\n",
        "%cd it's\n",
        "!echo \\\n it's\n",
        "?foo\nfoo?\n",
        "%agent what's (this\n",
        "# it's\n",
        "\n\n",
        "def f():\n    pass\n",
        "async def f():\n    pass\n\n",
        "class A:\n    def f(self): return 1\n",
    ],
)
def test_what_stands_above_a_call_does_not_hide_it(above):
    assert prompts(lines_rewritten(f"{above}%agent yes\n", "await").splitlines()[-1])[0] == ("await", "yes")


@pytest.mark.parametrize(
    "block",
    [
        "for i in x:",
        "if x:",
        "with x:",
        "try:",
        "async with x:",
        "while x:\n  if y:",
        "async for i in x:",
        "async def f():",
    ],
)
def test_a_block_at_module_level_or_of_an_async_function_awaits(block):
    done = lines_rewritten(f"{block}\n    %agent a\n    x = %agent b?\nfinally: 0\n", "await")
    assert done.count("= await ") == 1
    assert done.count("    await ") == 1


@pytest.mark.parametrize(
    "block",
    [
        "def f():",
        "async def f():\n  def g():",
        "class A:",
        "if x:\n  def f():",
        "def f():\n  if x:",
        "@d\ndef f(\n  a):",
    ],
)
def test_a_function_and_a_class_call_without_await(block):
    source = f"{block}\n    x = %agent why?\n"
    assert prompts(lines_rewritten(source, "await")) == [("block", "why?")]


def test_a_function_on_one_line_calls_without_await():
    assert prompts(lines_rewritten("def f(): x = %agent why?\n", "await")) == [("block", "why?")]


def test_a_function_may_return_the_result():
    assert prompts(lines_rewritten("def f():\n    return %agent why?\n", "await")) == [("block", "why?")]
    assert prompts(lines_rewritten("async def f():\n    return %agent why?\n", "await")) == [
        ("await", "why?")
    ]


def test_statements_after_a_function_await_again():
    source = "def f():\n    %agent a\n\n%agent b\n"
    assert prompts(lines_rewritten(source, "await")) == [("block", "a"), ("await", "b")]


def test_where_a_cell_may_not_await_the_call_blocks():
    assert prompts(lines_rewritten("x = %agent why?\n", "block")) == [("block", "why?")]
    assert prompts(cell_rewritten("%%agent\nwhy?\n", "block")) == [("block", "", "why?")]


def test_a_cell_may_have_comments_and_blank_lines_above():
    assert prompts(cell_rewritten("\n# title\n\n  # more\n%%agent\nhi\n", "await")) == [("await", "", "hi")]


def test_words_on_the_line_of_a_cell_are_handed_over_too():
    assert prompts(cell_rewritten("%%agent --new say it\n", "await")) == [("await", "--new say it", "")]


def test_line_numbers_stay():
    assert lines_rewritten("a\n%agent b\nc\n", "await").split("\n")[::2] == ["a", "c"]


def test_a_cell_that_is_not_ours_comes_back_as_the_same_lines():
    cells, statements = transformers(lambda: True)
    lines = ["x = 1\x0c\n", "y = 2\n"]
    assert statements(cells(lines)) is lines
