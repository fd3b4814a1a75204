"""Line 6: imports point one way and cost little; and the figures of the code, for a person to judge."""

import ast
import json
import os
import statistics
import subprocess
import sys
import threading

import pytest
from test_architecture import FILES, PACKAGE, faults

from harness_nb.agent import Agent
from harness_nb.providers.scripted import call, say, scripted
from harness_nb.tools import Toolbox, tool

HEAVY = (
    "anthropic",
    "openai",
    "httpx",
    "mcp",
    "xllamacpp",
    "IPython",
    "ipywidgets",
    "anywidget",
    "matplotlib",
)


def test_imports_point_one_way():
    assert [fault for path in FILES for fault in faults(_name(path), path.read_text(encoding="utf-8"))] == []


def test_importing_the_package_loads_nothing_heavy():
    code = (
        f"import sys, json, harness_nb; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    )
    assert json.loads(subprocess.check_output([sys.executable, "-c", code])) == []


@pytest.mark.usefixtures("alone")
def test_importing_the_package_costs_at_most_150_ms_of_cpu():
    python = [sys.executable, "-c"]
    assert _extra_cpu("import harness_nb", [*python, "pass"], [*python, "import harness_nb"], 0.150) <= 0.150


@pytest.mark.usefixtures("alone")
def test_loading_the_extension_costs_at_most_300_ms_of_cpu(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    ipython = [sys.executable, "-m", "IPython", "--no-banner", "-c"]
    loaded = [*ipython, "%load_ext harness_nb\nassert get_ipython().find_cell_magic('agent')"]
    assert _extra_cpu("%load_ext harness_nb", [*ipython, "pass"], loaded, 0.300) <= 0.300


def _extra_cpu(what: str, without: list[str], with_it: list[str], enough: float, rounds: int = 12) -> float:
    """CPU seconds that one command takes more than the other: least of several, since noise only adds."""
    _cpu(with_it)  # writes the byte code
    least = [_cpu(without), _cpu(with_it)]
    for _ in range(rounds):
        least = [min(least[0], _cpu(without)), min(least[1], _cpu(with_it))]
        if least[1] - least[0] <= 0.9 * enough:
            break
    extra = least[1] - least[0]
    print(f"\n{what}: {extra * 1000:.0f} ms of CPU more than {least[0] * 1000:.0f} ms without")
    return extra


def _cpu(command: list[str]) -> float:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def test_figures_of_the_code():
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
    lines = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    print("\n\nlines per file")
    for name, count in sorted(lines.items(), key=lambda item: -item[1]):
        print(f"  {count:5} {name}")
    functions = [node for tree in trees.values() for node in ast.walk(tree) if _is_function(node)]
    lengths = sorted(node.end_lineno - node.lineno + 1 for node in functions)
    over = sum(length > 50 for length in lengths) / len(lengths)
    ninth = statistics.quantiles(lengths, n=10)[-1]
    print(f"functions: {len(lengths)}, median {statistics.median(lengths)} lines, 90% within {ninth:.0f}, ")
    print(f"  longest {lengths[-1]}, over 50 lines {over:.1%}")
    sizes = sorted(((_constructor(node), node.name) for node in _classes(trees)), reverse=True)
    print("largest constructors: " + ", ".join(f"{name} {size}" for size, name in sizes[:8]))


async def test_figures_of_one_tool_round_trip():
    @tool(effects={"read"})
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    agent = Agent(scripted(say(call("add", a=1, b=2)), "It is 3."), Toolbox([add]))
    executed: set[tuple[str, str]] = set()

    def note(frame, event, _):
        code = frame.f_code
        if code.co_filename.startswith(str(PACKAGE)) and not code.co_name.startswith("<"):
            executed.add((code.co_filename, code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        outcome = await agent.run("What is 1 + 2?")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert outcome.text == "It is 3."
    bare = {(file, name) for file, name in executed if not file.endswith("scripted.py")}
    for label, seen in (("with the scripted model", executed), ("without it", bare)):
        files = {file for file, _ in seen}
        print(f"\none tool round trip, {label}: {len(seen)} functions in {len(files)} files", end="")
    for file in sorted({file for file, _ in bare}):
        print(
            f"\n  {_name(PACKAGE / file)}: {', '.join(sorted(name for f, name in bare if f == file))}", end=""
        )
    print()


def _name(path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _classes(trees) -> list[ast.ClassDef]:
    return [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def _constructor(node: ast.ClassDef) -> int:
    """How many arguments it takes to make one: of `__init__`, or the fields of a dataclass."""
    for item in node.body:
        if _is_function(item) and item.name == "__init__":
            return len(item.args.args) + len(item.args.kwonlyargs) - 1
    is_data = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    return sum(isinstance(item, ast.AnnAssign) for item in node.body) if is_data else 0
