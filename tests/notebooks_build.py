"""Run the lessons, all or some, and write back what they show: `python tests/notebooks_build.py [02 04 ...]`.

The notebooks are the source; this only renews what is made from them: outputs, execution counts, the bars
at top and bottom, and the minimal metadata. Tests use the same functions, so what they compare is what this writes.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).parent.parent / "notebooks"
OFFLINE = """
import sys

def _refuse(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = str(arguments[1][0])
        if not host.startswith(("127.", "localhost", "::1")):
            raise PermissionError(f"a lesson tried to reach {host}")

sys.addaudithook(_refuse)
"""
DURATION = re.compile(r"(?:under )?\b\d[\d,]*(?:\\?\.\d+)? (?:ms|s|min|h)\b(?: \d+ (?:s|min)\b)?")
"""What may differ between two runs: how long something took, and that a quick tool's time is not shown."""
MOMENT = re.compile(r"\b\d{1,2} [A-Z][a-z]{2} \d\d:\d\d\b")
"""And when it was, as a tree of runs says it: `1 Dec 10:21`."""


def lessons() -> list[Path]:
    """List the notebooks in reading order."""
    return sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))


def read(path: Path) -> NotebookNode:
    """Load a notebook."""
    return nbformat.read(path, as_version=4)


def run(notebook: NotebookNode, *, offline: bool = True) -> NotebookNode:
    """Run a notebook in place, in a kernel and a copy of the folder of its own; stop at the first error."""
    with tempfile.TemporaryDirectory() as scratch:
        desk = Path(scratch, "notebooks")
        shutil.copytree(FOLDER, desk, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        wall = Path(scratch, "wall")
        wall.mkdir()
        (wall / "sitecustomize.py").write_text(OFFLINE if offline else "")
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.endswith("_API_KEY") and not name.startswith("HARNESS_NB_")
        }
        # An empty cache: tokens are counted with the same vocabulary on every machine.
        cache = {"TIKTOKEN_CACHE_DIR": str(Path(scratch, "vocabularies"))}
        environment |= cache | {"PYTHONPATH": str(wall), "PYTHONHASHSEED": "0"}
        client = NotebookClient(
            notebook,
            timeout=120 if offline else 900,
            startup_timeout=180,
            kernel_name="python3",
            store_widget_state=False,
            resources={"metadata": {"path": str(desk)}},
        )
        return client.execute(env=environment)


def shown(cell: NotebookNode) -> list[tuple[str, str]]:
    """Return what a cell shows, for comparing: streams joined, durations blanked, nothing else changed."""
    found: list[tuple[str, str]] = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            kind = output.name
            if found and found[-1][0] == kind:
                found[-1] = (kind, found[-1][1] + output.text)
            else:
                found.append((kind, output.text))
        elif output.output_type == "error":
            found.append(("error", f"{output.ename}: {output.evalue}"))
        else:
            found += [(mime, _compared(mime, output.data[mime])) for mime in sorted(output.data)]
    found = [(kind, MOMENT.sub("(moment)", text)) for kind, text in found]
    return [(kind, DURATION.sub("(time)", text).replace(" · (time)", "")) for kind, text in found]


def _compared(mime: str, data: object) -> str:
    """Return what must be the same: a picture's pixels may not be, and the text beside it has its numbers."""
    return "(picture)" if mime == "image/png" else str(data)


def title(notebook: NotebookNode) -> str:
    """Find the first heading of a notebook."""
    heads = (re.search(r"^# (.+)$", cell.source, re.MULTILINE) for cell in notebook.cells)
    return next(head[1] for head in heads if head)


def bar(path: Path) -> str:
    """Write the navigation bar of a notebook: the one before, the contents, the one after."""
    paths = lessons()
    place = paths.index(path)
    links = []
    if place > 1:
        links.append(f"[← {title(read(paths[place - 1]))}]({paths[place - 1].name})")
    if place > 0:
        links.append(f"[Contents]({paths[0].name})")
    if place + 1 < len(paths):
        links.append(f"[{title(read(paths[place + 1]))} →]({paths[place + 1].name})")
    return " · ".join(links)


def navigate(notebook: NotebookNode, path: Path) -> None:
    """Put the navigation bar at the top and at the bottom, instead of what was there."""
    inner = [cell for cell in notebook.cells if "nav" not in cell.metadata.get("tags", [])]
    ends = [
        nbformat.v4.new_markdown_cell(bar(path), id=f"nav-{end}", metadata={"tags": ["nav"]})
        for end in ("top", "bottom")
    ]
    notebook.cells = [ends[0], *inner, ends[1]]


def tidy(notebook: NotebookNode) -> None:
    """Leave only metadata that means something on another machine."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = NotebookNode(
        kernelspec={"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        language_info={"name": "python"},
    )
    for cell in notebook.cells:
        kept = {"tags": cell.metadata.tags} if cell.metadata.get("tags") else {}
        cell.metadata = NotebookNode(kept)
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output.metadata = NotebookNode()


def joined(notebook: NotebookNode) -> None:
    """Join the pieces of a stream that arrived apart, so that files don't differ by chance."""
    for cell in notebook.cells:
        outputs: list[NotebookNode] = []
        for output in cell.get("outputs", []):
            last = outputs[-1] if outputs else None
            if last and output.output_type == last.output_type == "stream" and output.name == last.name:
                last.text += output.text
            else:
                outputs.append(output)
        if "outputs" in cell:
            cell.outputs = outputs


def build(path: Path, *, again: bool) -> None:
    """Save one notebook as it is committed: its bars renewed, and if `again`, its outputs too."""
    notebook = read(path)
    navigate(notebook, path)
    if again:
        run(notebook, offline=not path.name.startswith("00"))
    joined(notebook)
    tidy(notebook)
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for chosen in lessons():
        build(chosen, again=not sys.argv[1:] or chosen.name[:2] in sys.argv[1:])
