"""Who may import whom: errors <- messages <- ... <- agent <- leaves <- recipes <- jupyter, cli."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "harness_nb"
SPINE = (
    "errors",
    "workspace",
    "strict",
    "redaction",
    "messages",
    "pictures",
    "encoding",
    "events",
    "seams",
    "tasks",
    "faults",
    "schema",
    "results",
    "tools",
    "agent",
)
"""In reading order: each may import those before it."""
SHELL = ("recipes", "jupyter", "cli")
"""In this order, too; they may import every leaf, and no leaf may import them."""
NOTEBOOK_ONLY = {"IPython", "ipywidgets", "anywidget", "ipykernel", "traitlets", "comm"}
"""What only `jupyter/` may import."""
LATE = {
    *("anthropic", "openai", "httpx", "httpx2", "mcp", "xllamacpp"),
    *("opentelemetry", "sqlalchemy", "dask", "distributed", "matplotlib", "numpy", "pandas"),
    *("bm25s", "genai_prices"),
    *("jsonschema", "tiktoken", "tqdm", "platformdirs", "jupyterlab"),
}
"""What is imported inside the function that needs it, so that `import harness_nb` stays light."""

FILES = sorted(PACKAGE.rglob("*.py"))


def faults(file: str, source: str) -> list[str]:
    """What this source would do wrong if it lay at this place in the package, in sentences."""
    own = file.removesuffix(".py").split("/")[0]
    return [
        f"{file}:{line} imports {name}: {why}"
        for line, name, late in _imports(ast.parse(source))
        if (why := _why_not(own, name, late=late))
    ]


def _why_not(own: str, name: str, *, late: bool) -> str:
    top, *rest = name.split(".")
    if top == "harness_nb":
        return _why_not_ours(own, rest[0]) if rest else ""
    if top in NOTEBOOK_ONLY and own != "jupyter":
        return "only jupyter/ knows notebooks"
    if top in LATE and not late:
        return "import it where it is used"
    return ""


def _why_not_ours(own: str, other: str) -> str:
    order = (*SPINE, "a leaf", *SHELL)
    mine, theirs = (order.index(name if name in order else "a leaf") for name in (own, other))
    if own in {other, "__init__"}:
        return ""
    if mine == theirs:
        return "a leaf imports the spine and its own folder only"
    return "it comes later in the reading order" if theirs > mine else ""


def _imports(tree: ast.AST, *, late: bool = False) -> Iterator[tuple[int, str, bool]]:
    """Every import as line, dotted name, and whether it waits until a function runs or is for types only."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Import(names):
                yield from ((node.lineno, alias.name, late) for alias in names)
            case ast.ImportFrom("harness_nb", names):
                yield from ((node.lineno, f"harness_nb.{alias.name}", late) for alias in names)
            case ast.ImportFrom(module):
                yield node.lineno, module or "", late
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.If(ast.Name("TYPE_CHECKING")):
                yield from _imports(node, late=True)
            case _:
                yield from _imports(node, late=late)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_point_one_way(path):
    assert faults(path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("errors.py", "from harness_nb.agent import Agent"),
        ("events.py", "def f():\n    from harness_nb import tools"),
        ("providers/chat.py", "from harness_nb.toolkit.calc import calc"),
        ("providers/chat.py", "from harness_nb.recipes import default"),
        ("toolkit/cell.py", "def f():\n    import IPython"),
        ("recipes.py", "from harness_nb.jupyter import magics"),
        ("providers/anthropic.py", "import anthropic"),
        ("agent.py", "class A:\n    import matplotlib.pyplot"),
    ],
)
def test_a_wrong_import_is_found(file, source):
    assert len(faults(file, source)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("tools.py", "from harness_nb.messages import ToolCall"),
        ("providers/local/engine.py", "from harness_nb.providers.retry import retrying"),
        ("providers/anthropic.py", "def f():\n    import anthropic"),
        ("jupyter/magics.py", "import IPython\nfrom harness_nb.recipes import default"),
        ("cli.py", "from harness_nb.providers import local"),
        ("__init__.py", "from harness_nb.agent import Agent"),
    ],
)
def test_a_right_import_passes(file, source):
    assert faults(file, source) == []
