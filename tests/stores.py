"""The stores that one contract is tested on: a name, and how to open it for a test in a folder of its own."""

from cluster import schema

from harness_nb.ops.jsonl import JsonlStore
from harness_nb.ops.sql import SqlStore


def jsonl(folder, redaction=None):
    """A folder of files, two levels down, which nobody has made yet."""
    return JsonlStore(folder / "kept" / "sessions", redaction)


def sqlite(folder, redaction=None):
    """A file, in a folder that nobody has made yet."""
    return SqlStore(f"sqlite:///{folder / 'kept' / 'sessions.db'}", redaction)


def postgres(folder, redaction=None):
    """A schema on the server that TEST_POSTGRES_URL names, or on one that is started for this."""
    return SqlStore(schema(folder), redaction)


STORES = {"jsonl": jsonl, "sqlite": sqlite, "postgres": postgres}
"""Called again with the same folder, each opens the same store anew, as another process would."""
