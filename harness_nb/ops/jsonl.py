"""The store by default: a folder with a file of JSON lines for each session, to be read, compared, copied. Book chapter 21."""

from __future__ import annotations

import contextlib
import difflib
from datetime import UTC, datetime
from pathlib import Path

from harness_nb.ops.disk import told
from harness_nb.ops.linefile import JsonlLog, JsonlWriter, locked, torn
from harness_nb.ops.lines import NOTHING, found
from harness_nb.ops.names import SUFFIX, file_names, name_in, path_of
from harness_nb.ops.redacted import Redaction
from harness_nb.ops.store import Info, StoreError
from harness_nb.strict import clean


class JsonlStore:
    """Sessions in a folder, which stays the same wherever the process goes; nothing is made before one is written."""

    def __init__(self, folder: str | Path, redaction: Redaction | None = None) -> None:
        self._folder = Path(folder).expanduser().absolute()
        self._redaction = redaction or Redaction()

    def open(self, name: str, *, write: bool = True) -> JsonlLog:
        """Open a session's journal; to write, it is made where there is none, and its end is mended."""
        name = clean(name)
        if not name.strip():
            raise StoreError("A session needs a name, such as `main`.")
        with told(self._folder, "read"):
            path = path_of(self._folder, name)
            if write:
                return JsonlWriter(path, name, self._redaction)
            if not path.is_file():
                raise StoreError(self._none(name))
            return JsonlLog(path, name)

    def sessions(self) -> list[Info]:
        """List the sessions, the one that changed last first; what can't be read is left out."""
        infos: list[tuple[str, int, Info]] = []
        with told(self._folder, "read"):
            paths = list(self._folder.iterdir()) if self._folder.exists() else []
        for path in paths:
            if path.name.endswith(SUFFIX) and path.is_file():
                with contextlib.suppress(OSError):
                    info = _info(path)
                    infos.append((info.changed, path.stat().st_mtime_ns, info))
        return [info for _, _, info in sorted(infos, key=lambda known: known[:2], reverse=True)]

    def delete(self, name: str) -> None:
        """Remove a session's file, and what was cut off from it."""
        with told(self._folder, "deleted"):
            path = path_of(self._folder, clean(name)) if name.strip() else None
            if path is None or not path.is_file():
                raise StoreError(self._none(name))
            lock = locked(path, name)
            try:
                path.unlink()
                torn(path).unlink(missing_ok=True)
            finally:
                lock.release()

    def _none(self, name: str) -> str:
        near = difflib.get_close_matches(name, [info.name for info in self.sessions()], n=3)
        hint = (
            f"did you mean {' or '.join(f'`{other}`' for other in near)}?"
            if near
            else "`harness-nb sessions` lists them."
        )
        return f"No session is called `{name}` here: {hint}"


def _info(path: Path) -> Info:
    """Describe a session by its first and its last line, without reading those between."""
    content = path.read_bytes()
    first = found(content[: content.find(b"\n") + 1] or content).records
    kept = content.rstrip(NOTHING)
    last = found(kept[kept.rfind(b"\n") + 1 :]).records
    changed = last[0].at if last else ""
    name = first[0].data.get("name") if first and first[0].kind == "session" else None
    if not isinstance(name, str) or not name.strip() or path.name not in file_names(name):
        name = name_in(path)  # a copy has a name of its own
    return Info(
        name,
        content.count(b"\n{") + content.startswith(b"{") - (bool(kept) and not last),
        len(content),
        first[0].at if first else "",
        changed or datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="milliseconds"),
    )
