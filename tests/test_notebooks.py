"""Every lesson runs offline, shows what it showed when it was committed, keeps the shape, and can be solved.

The welcome page is no lesson: it runs on the embedded model, whose words may differ from machine to machine. Of it
the test asks that the three tools ran and that every run ended `done`; its outputs are one true run, and not compared.
"""

import itertools
import re

import pytest
from nbformat import NotebookNode, from_dict
from notebooks_build import FOLDER, bar, lessons, read, run, shown

SHAPE = [
    "Setup",
    "Break it",
    "Build it small",
    "The real one",
    "Play",
    "What it costs, and where it fails",
    "Exercises",
    "Next",
]
WELCOME = "00_welcome.ipynb"
KEY = re.compile(r"\b(sk-[A-Za-z0-9_-]{16,}|AIza[\w-]{20,}|gh[pousr]_\w{20,}|hf_\w{20,})")
PLACE = re.compile(r"(/home/|/root/|/tmp/|/Users/|[A-Z]:\\\\|0x[0-9a-f]{6,})")

chapters = [path for path in lessons() if path.name != WELCOME]
every = pytest.mark.parametrize("path", lessons(), ids=lambda path: path.stem[:2])
each_chapter = pytest.mark.parametrize("path", chapters, ids=lambda path: path.stem[:2])


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook: NotebookNode) -> str:
    return "\n\n".join(
        cell.source for cell in notebook.cells if cell.cell_type == "markdown" and not tags(cell)
    )


def sentences(text: str) -> list[str]:
    """Split prose into sentences, leaving out code blocks, tables and tags."""
    text = re.sub(r"```.*?```|<[^>]+>|^\|.*$", "", text, flags=re.DOTALL | re.MULTILINE)
    return [part for part in re.split(r"(?<=[.!?:])\s+|\n\n|\n(?=[-\d] ?)", text) if part.strip()]


def solved(notebook: NotebookNode) -> list[NotebookNode]:
    """Make the cells that solve the exercises: each solution, followed by the check it must pass."""
    cells, exercise = [], None
    for cell in notebook.cells:
        if "exercise" in tags(cell):
            exercise = cell
        if "solution" in tags(cell) and exercise is not None:
            answer = re.search(r"```python\n(.*?)```", cell.source, re.DOTALL)[1]
            check = exercise.source[exercise.source.index("@check(") :]
            cells.append({"cell_type": "code", "source": f"{answer}\n\n{check}"})
    blank = {"metadata": {}, "outputs": [], "execution_count": None}
    return [from_dict(cell | blank | {"id": f"solved-{index}"}) for index, cell in enumerate(cells)]


@each_chapter
def test_a_lesson_shows_what_it_showed_and_its_exercises_can_be_solved(path):
    committed, again = read(path), read(path)
    extra = solved(committed)
    again.cells += extra
    run(again)

    for was, now in zip(committed.cells, again.cells, strict=False):
        assert shown(now) == shown(was), f"cell {was.id} differs; see tests/notebooks_build.py\n{was.source}"
    for cell in extra:
        assert shown(cell)[-1][1].startswith("solved: "), f"{cell.source}\n{shown(cell)}"


@pytest.mark.llama
@pytest.mark.slow
def test_the_welcome_page_answers_on_the_embedded_model():
    notebook = run(read(FOLDER / WELCOME), offline=False)
    runs = [text for cell in code(notebook) for kind, text in shown(cell) if text.startswith("agent · ")]

    assert [" · ".join(text.splitlines()[0].split(" · ")[:2]) for text in runs] == [
        "agent · done in 2 turns, (time)"
    ] * 3
    for text, called in zip(runs, ("calc", "read_file", "find_shelf"), strict=True):
        assert f"\n  {called} " in text


@each_chapter
def test_a_lesson_has_the_fixed_shape(path):
    headings = re.findall(r"^## (.+)$", prose(read(path)), re.MULTILINE)
    assert [heading for heading in headings if heading in SHAPE] == SHAPE


@each_chapter
def test_a_lesson_is_one_sitting(path):
    notebook = read(path)
    lines = sorted(sum(bool(line.strip()) for line in cell.source.splitlines()) for cell in code(notebook))
    assert 35 <= len(notebook.cells) - 2 <= 60
    assert 1200 <= len(prose(notebook).split()) <= 2000
    assert 3 <= lines[len(lines) // 2] <= 6
    assert lines[-1] <= 25
    assert max(len(line) for cell in code(notebook) for line in cell.source.splitlines()) <= 100


@each_chapter
def test_three_exercises_stand_unsolved_with_a_check_and_a_solution(path):
    notebook = read(path)
    exercises = [cell for cell in notebook.cells if "exercise" in tags(cell)]
    assert len(exercises) == len(solved(notebook)) >= 3
    assert all(shown(cell)[-1][1].startswith("not yet: ") for cell in exercises)


@each_chapter
def test_the_small_version_and_the_package_are_held_against_each_other(path):
    notebook = read(path)
    assert any(
        "assert" in cell.source and "exercise" not in tags(cell) and "## The real one" in above
        for cell, above in zip(notebook.cells, _text_before(notebook), strict=True)
        if cell.cell_type == "code"
    )


def _text_before(notebook: NotebookNode) -> list[str]:
    return ["\n".join(cell.source for cell in notebook.cells[:index]) for index in range(len(notebook.cells))]


@every
def test_a_sentence_introduces_every_code_cell(path):
    cells = read(path).cells
    for before, cell in itertools.pairwise(cells):
        if cell.cell_type == "code":
            assert before.cell_type == "markdown", cell.source
            assert sentences(before.source), cell.source
    assert cells[0].cell_type == "markdown"


@every
def test_sentences_are_short_enough_to_read_once(path):
    long = [part for part in sentences(prose(read(path))) if len(part.split()) > 40]
    assert long == []


@every
def test_cells_ran_in_order_and_without_errors(path):
    notebook = read(path)
    assert all(cell.source.strip() for cell in notebook.cells)
    assert [cell.execution_count for cell in code(notebook)] == list(range(1, len(code(notebook)) + 1))
    failed = {cell.id for cell in code(notebook) for output in cell.outputs if output.output_type == "error"}
    assert failed == {cell.id for cell in code(notebook) if "raises-exception" in tags(cell)}


@every
def test_nothing_of_one_machine_or_one_session_is_saved(path):
    notebook = read(path)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    assert set().union(*(cell.metadata for cell in notebook.cells)) <= {"tags"}
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    text = path.read_text("utf-8")
    assert not KEY.search(text)
    assert not PLACE.search("".join(words for cell in code(notebook) for _, words in shown(cell)))
    assert "application/vnd.jupyter.widget" not in text
    assert len(text) < 150_000


@every
def test_navigation_leads_to_the_lessons_beside_it(path):
    cells = read(path).cells
    assert [cells[0].source, cells[-1].source] == [bar(path)] * 2
    links = re.findall(
        r"\]\(([\w./-]+\.ipynb)\)", "".join(c.source for c in cells if c.cell_type == "markdown")
    )
    assert all((FOLDER / link).exists() for link in links)
