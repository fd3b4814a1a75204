"""The stores that one contract is tested on: a name, and how to open it for a test in a folder of its own."""

from harness_nb.ops.jsonl import JsonlStore


def jsonl(folder, redaction=None):
    """A folder of files, two levels down, which nobody has made yet."""
    return JsonlStore(folder / "kept" / "sessions", redaction)


STORES = {"jsonl": jsonl}
"""Called again with the same folder, each opens the same store anew, as another process would."""
