"""The sessions that are kept, as plain text, and which of them can go: what `harness-nb sessions` says. Book chapter 21."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness_nb.errors import UsageError
from harness_nb.jupyter.reading import Session, Step, ago, label, moment, read, since, which, written
from harness_nb.jupyter.record import as_text
from harness_nb.jupyter.tables import Table
from harness_nb.jupyter.words import counted, visible, weight
from harness_nb.ops.store import BusyError, Info, StoreError, open_store

SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
"""Of each unit that an age may be given in."""

NAMES = 8
"""Most names that are offered in the place of a wrong one."""


class Shelf:
    """A store of sessions, looked at from outside any notebook. `where` is a folder or a database's URL."""

    def __init__(self, where: str) -> None:
        """Open the store. Raises StoreError where that can't be done."""
        self._store = open_store(where)
        self._folder = None if "://" in where else Path(where)
        self.place = visible(where if self._folder else re.sub(r"://[^/]*@", "://", where).partition("?")[0])
        """Where it is, without the password."""

    def infos(self) -> list[Info]:
        """List what is there, the session that changed last first."""
        return self._store.sessions()

    def read(self, name: str) -> Session:
        """Read a session. Raises UsageError, naming near ones, where there is none of this name."""
        try:
            return read(self._store, name, self._folder)
        except StoreError:
            names = [info.name for info in self.infos()]
            if name in names:
                raise
        raise UsageError(self._none(name, names))

    def delete(self, name: str) -> None:
        """Remove a session for good. Raises StoreError where that can't be done, BusyError if it is at work."""
        if self.at_work(name):
            raise BusyError("it is at work.")
        self._store.delete(name)

    def at_work(self, name: str) -> bool:
        """Tell whether a process has this session open; in a database, whether its last run may still go on."""
        if self._folder is None:
            return read(self._store, name).unfinished
        try:
            return written(self._folder, name)
        except OSError:
            return False  # then it can't be deleted either, and the store says why

    def _none(self, name: str, names: Sequence[str]) -> str:
        if not names:
            return f"No session is called `{name}`. {self.empty()}"
        near = [other for other in names if name.lower() in other.lower()] if name.strip() else []
        near += [other for other in difflib.get_close_matches(name, names, NAMES, 0.5) if other not in near]
        words = "Near it" if near else "There are"
        listed = ", ".join(f"`{other}`" for other in (near or names)[:NAMES])
        more = "" if len(near or names) <= NAMES else ", and more"
        return f"No session is called `{name}` in {self.place}. {words}: {listed}{more}."

    def empty(self) -> str:
        """Say that nothing is kept here, and where else to look."""
        return (
            f"No sessions are kept in {self.place} yet. `%agent` in a notebook keeps one there;"
            " look elsewhere with `--where FOLDER` or a database's URL."
        )


def listed(shelf: Shelf) -> str:
    """Write a table of all sessions, or that there are none."""
    infos = shelf.infos()
    if not infos:
        return shelf.empty()
    head = ("name", "last changed", "how it ended", "runs", "messages", "size")
    caption = f"{counted(len(infos), 'session')} in {shelf.place}, {_together(infos)}:"
    return Table(caption, head, [_row(shelf, info) for info in infos], words=3).text()


def _row(shelf: Shelf, info: Info) -> tuple[str, ...]:
    try:
        session = shelf.read(info.name)
    except (StoreError, UsageError):  # deleted meanwhile, or not to be read
        return visible(info.name), ago(info.changed), "can't be read", "", "", weight(info.size)
    counts = f"{len(session.runs):,}", f"{session.messages:,}", weight(info.size)
    return visible(info.name), ago(info.changed), session.ended, *counts


def _together(infos: Sequence[Info]) -> str:
    return f"{weight(sum(info.size for info in infos))}{' together' if len(infos) > 1 else ''}"


def shown(session: Session) -> str:
    """Write the tree of a session's runs, a line each, and the conversation as it stands."""
    lines = [f"session {visible(session.name)} · {session.amount} · {session.ended}"]
    lines += [f"last changed {ago(session.changed)}, {moment(session.changed)}", ""]
    if session.warnings:
        lines += [*(visible(warning) for warning in session.warnings), ""]
    lines += [_line(session, step) for step in session.steps]
    if session.head is None:
        return "\n".join([*lines, "", "No conversation stands here: the next run begins one."])
    for step in session.steps:
        if step.here:
            lines += [
                "",
                f"── {which(step)} · {moment(step.run.at)} ──",
                "",
                as_text(session.view(step)),
            ]
    return "\n".join(lines)


def _line(session: Session, step: Step) -> str:
    how = session.headline(step)
    here = "   ← the conversation stands here" if step.run is session.head else ""
    number = f"{step.number:>3,}" if step.number else "   "
    if step.here:
        return f"{number}  {label(step.run)}  ({how}){here}"
    return f"{number}  {'  ' * min(step.depth, 8)}set aside: {label(step.run)}  ({how})"


@dataclass(frozen=True, slots=True)
class Pruning:
    """Which sessions go, and which would but are at work."""

    going: tuple[Info, ...]
    at_work: tuple[Info, ...] = ()

    def told(self) -> str:
        """Say what would be deleted, and how much that is."""
        lines = [self.kept()] if self.at_work else []
        if not self.going:
            return "\n".join([*lines, "There is nothing to delete."])
        caption = f"{counted(len(self.going), 'session')} would be deleted, {_together(self.going)}:"
        rows = [(visible(i.name), ago(i.changed), f"{i.records:,}", weight(i.size)) for i in self.going]
        return "\n".join(
            [*lines, Table(caption, ("name", "last changed", "records", "size"), rows, 2).text()]
        )

    def kept(self) -> str:
        """Say which stay because they are at work."""
        return f"At work, so kept: {', '.join(f'`{visible(info.name)}`' for info in self.at_work)}."


def pruning(shelf: Shelf, older_than: str, keep: int | None) -> Pruning:
    """Choose the sessions that have not changed for as long as `older_than` says, the newest `keep` left out.

    Without an age, all but those are meant. Raises UsageError where neither is said, or the age can't be read.
    """
    if not older_than and keep is None:
        raise UsageError(
            "Say what may go: `--older-than 30d`, or `--keep 10` for all but the newest ten. Nothing was deleted."
        )
    least = seconds(older_than) if older_than else 0.0
    old = [info for info in shelf.infos()[keep or 0 :] if least <= since(info.changed) < float("inf")]
    busy = {info.name for info in old if shelf.at_work(info.name)}
    return Pruning(
        tuple(info for info in old if info.name not in busy),
        tuple(info for info in old if info.name in busy),
    )


def prune(shelf: Shelf, chosen: Pruning) -> Iterator[str]:
    """Delete the sessions that were chosen, but for those that began to work meanwhile; say in sentences what came of it."""
    gone = []
    for info in chosen.going:
        try:
            shelf.delete(info.name)
        except StoreError as fault:
            yield visible(f"`{info.name}` was kept: {fault}")
        else:
            gone.append(info)
    yield f"Deleted {counted(len(gone), 'session')}, {_together(gone)}."


def seconds(age: str) -> float:
    """Read an age such as `30d`, `12h`, `90m` or `2w`. Raises UsageError."""
    found = re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([mhdw])\s*", age)
    if found is None:
        raise UsageError(
            f"`{age}` is no age: write a number and m, h, d or w, such as `30d` for thirty days. Nothing was deleted."
        )
    return float(found[1]) * SECONDS[found[2]]
