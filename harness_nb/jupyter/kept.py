"""A session's journal in this kernel: where it is kept, how the next run joins the tree, and what an earlier kernel left.

Theory of operation. A new kernel begins a new conversation: a notebook that a machine executes every night must not go
on with yesterday's. What was said before is in the journal; `%resume` goes on with it. Where the front end names its
cells, a cell that is run again takes the place of its earlier run, and the conversation goes back to before that one;
where it is the first to run in a new kernel, also to what an earlier kernel had there. A conversation that is set from
Python comes before both. Where a journal can't be kept, the session says so once and goes on in memory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from harness_nb.errors import UsageError
from harness_nb.events import Charged, DecisionMade, Event, MessageAdded, RunEnded, RunStarted
from harness_nb.jupyter.defaults import defaults
from harness_nb.jupyter.history_tree import is_step, numbers, spans, versions
from harness_nb.jupyter.history_versions import Versions
from harness_nb.jupyter.restored import Restored, found, told
from harness_nb.jupyter.shell import cell_at_work, execution_count, user_variables
from harness_nb.jupyter.told import is_set
from harness_nb.messages import Decision, Entry, ToolCall, Transcript, Usage
from harness_nb.ops.disk import shown
from harness_nb.ops.history import History, KeptRun
from harness_nb.ops.journal import Journal, Origin
from harness_nb.ops.redacted import Redaction
from harness_nb.ops.resume import settle
from harness_nb.ops.store import BusyError, Log, Store, StoreError, open_store

FOLDER = ".harness_nb/sessions"
"""Where journals are kept, unless HARNESS_NB_STORE or `%config AgentMagics.store` say otherwise."""

OFF = "off"


def where() -> str:
    """Return the folder or the URL where sessions are kept, empty for nowhere."""
    chosen = defaults.store or os.environ.get("HARNESS_NB_STORE", "").strip() or FOLDER
    return "" if chosen == OFF else chosen


def notebook() -> str:
    """Name the notebook that this kernel belongs to, without its ending; empty where that is not known."""
    named = str(user_variables().get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME", ""))
    return Path(named).stem if named.endswith(".ipynb") else ""


class Kept:
    """What is kept of one session. `notices` are sentences that the next run says."""

    def __init__(self, name: str, at: str = "%history") -> None:
        """Keep the session of this name; nothing is opened before it is needed. `at` is how its history is spoken to."""
        self.at = at
        self.notices: list[str] = []
        self.versions = Versions()
        """Which version of its cell the run is that was begun last."""
        self._name = name
        self._journal: Journal | None = None
        self._process = 0
        self._before = ""
        self._untouched = True
        self._place = ""
        self._known: Transcript | None = None

    @property
    def journal(self) -> Journal:
        """The session's journal, opened on first use: in memory alone where it can't be kept.

        A process that was forked has one of its own, which begins with the conversation so far.
        """
        if self._journal is None or self._process != os.getpid():
            self._process, self._known, self._untouched = os.getpid(), None, True
            self._journal = Journal(self._opened())
            history = self._journal.history
            self._before, history.head = history.head, ""
        return self._journal

    @property
    def history(self) -> History:
        """The runs of the session, those of earlier kernels too."""
        return self.journal.history

    @property
    def begun(self) -> bool:
        """Whether the session has a run, in this kernel or from an earlier one; nothing is made or locked by asking."""
        if self._journal is not None:
            return bool(self.history.runs)
        try:
            return bool(where()) and len(open_store(where()).open(self._file, write=False).read()) > 1
        except StoreError:
            return False

    @property
    def opened(self) -> bool:
        """Whether the journal is open in this kernel."""
        return self._journal is not None

    @property
    def _file(self) -> str:
        return f"{notebook()}.{self._name}" if notebook() else self._name

    @property
    def place(self) -> str:
        """Where the journal is, for a person; empty where it is in memory alone."""
        return self._place if self.journal.log is not None else ""

    def _opened(self) -> Log | None:
        place = where()
        if not place:
            return None
        try:
            log = self._free(open_store(place, Redaction(defaults.redact)), self._file)
        except StoreError as fault:
            self.notices.append(f"This session is not kept: {fault}")
            return None
        self._place = f"{log.name} in {_shown(place)}"
        self.notices.extend(log.warnings)
        return log

    def _free(self, store: Store, name: str) -> Log:
        """Open the journal, or where another kernel writes it, the first one beside it that is free."""
        number, busy = 1, ""
        while True:
            try:
                log = store.open(name if number == 1 else f"{name}-{number}")
            except BusyError as fault:
                number, busy = number + 1, busy or str(fault)
                continue
            if busy:
                self.notices.append(f"{busy} This one is kept beside it, as `{log.name}`.")
            return log

    # -- before and after a run

    def begin(self, prompt: str, transcript: Transcript, *, new: bool, fork: bool) -> Transcript:
        """Say where the next run comes from, and return the conversation that it goes on with."""
        self._go_on_anew()
        history = self.history
        (cell, execution), count = cell_at_work(), execution_count()
        before, self.versions = history.head or self._before, Versions()
        if new:
            history.head, transcript = "", Transcript()
        elif self._was_set(transcript):
            self._adopt(transcript)
        elif (earlier := self._earlier(cell, execution)) is not None:
            history.head = earlier.parent
            transcript = history.transcript()
            self._tell_replaced(earlier)
        elif self._left_behind and cell:
            self.notices.append(CUT_OFF)
        if cell and defaults.rerun == "replace":
            self._tell_version(KeptRun("", history.head, cell, execution), before, fork=fork)
        settle(transcript, self.journal)
        self.journal.origin = Origin(prompt, cell, execution, history.head, fork, count)
        self._known, self._before, self._untouched = transcript, "", False
        return transcript

    @property
    def _left_behind(self) -> bool:
        """Whether an earlier kernel died in the middle of the last run, and nothing has been done about it."""
        last = self.history.runs.get(self._before)
        return last is not None and last.reason is None

    def _earlier(self, cell: str, execution: str) -> KeptRun | None:
        """Find the run of this very cell that the next one takes the place of, also if an earlier kernel ran it."""
        if defaults.rerun == "append" or not cell:
            return None
        history = self.history
        earlier = history.run_of_cell(cell, execution, history.head or self._before)
        if earlier is None and self._untouched:  # what came before this cell is the best that is known
            newest = next((run.id for run in reversed(history.runs.values()) if run.cell == cell), "")
            earlier = history.run_of_cell(cell, execution, newest)
        return earlier

    def _tell_replaced(self, earlier: KeptRun) -> None:
        """Warn of what the run that is replaced may have left behind."""
        begun = {earlier.started[i].name for i in earlier.started if i not in earlier.finished}
        if earlier.reason is None and begun:
            names = ", ".join(f"`{name}`" for name in sorted(begun))
            self.notices.append(
                f"This cell's earlier run was cut off while {names} was at work, which may have had its effect."
            )

    def _tell_version(self, run: KeptRun, before: str, *, fork: bool) -> None:
        """Say which version of its cell this run is, and what was set aside for it."""
        history = self.history
        self.versions = versions(history, run)
        kept, known = {one.id for one in history.path(run.parent)}, numbers(history)
        aside = [known[one.id] for one in history.path(before) if one.id in known and one.id not in kept]
        if not self.versions.earlier or not aside:
            return
        verb = "stays a branch of its own" if len(aside) == 1 else "stay a branch of their own"
        if not fork:
            verb = "is set aside" if len(aside) == 1 else "are set aside"
        self.notices.append(
            f"Version {self.versions.version} of this cell: {spans(aside)} {verb}, and `{self.at} use {aside[-1]}` goes back."
        )

    def _was_set(self, transcript: Transcript) -> bool:
        """Tell whether this is none of our conversations, but one that was set from Python."""
        known = self._known  # None in a new kernel, where an empty one is nobody's doing
        return transcript is not known and (known is not None or len(transcript) > 0)

    def _adopt(self, transcript: Transcript) -> None:
        """Keep a conversation that was set from Python as if it were a run, and have the next run follow that."""
        journal = self.journal
        journal.history.head, self._known = "", transcript
        if not len(transcript):
            return
        identity = f"set-{len(journal.history.runs)}"
        journal(RunStarted(identity, "", 0))
        for entry in transcript.entries:
            journal(_added(entry))
        journal(RunEnded("done", "", 0, Usage()))

    @property
    def _gone(self) -> bool:
        """Whether the journal was deleted while it was open."""
        log = self.journal.log if self.opened else None
        return log is not None and log.gone

    def _anew(self) -> str:
        """Open the journal anew if it was deleted, with the conversation so far; return a sentence that says so."""
        if not self._gone:
            return ""
        head, transcript = self.history.head, self.transcript()
        self.close()
        self._journal = None
        if head in self.history.runs and self.history.transcript(head).entries == transcript.entries:
            # A copy of it took its place.
            self.history.head, self._known = head, transcript
        else:
            self._adopt(transcript)
        if not self.place:
            return ""  # that it is not kept is said already
        return f"This session's journal was deleted or replaced; it goes on with the conversation so far, as {self.place}."

    def _go_on_anew(self) -> None:
        if anew := self._anew():
            self.notices.append(anew)

    def hear(self, event: Event) -> None:
        """Keep what happens between runs: decisions on the context, and what they cost. Fits the listener socket."""
        self._go_on_anew()
        if isinstance(event, DecisionMade):
            self.journal.decide(event.decision)
        elif isinstance(event, Charged):
            self.journal.charge(event)

    def forget(self) -> None:
        """Have the next run begin a new conversation."""
        if self.begun:
            self.history.head, self._before, self._untouched = "", "", False

    # -- going back

    def restore(self) -> Restored:
        """Go on from what an earlier kernel left, or from where this one is; nothing runs by that."""
        anew = self._anew()
        self._read_again()
        journal = self.journal
        history = journal.history
        history.head, self._before, self._untouched = history.head or self._before, "", False
        last = history.runs.get(history.head)
        if last is None:
            return Restored(
                (f"Nothing is kept of session `{self._name}` here, so there is nothing to go on with.",), None
            )
        transcript = history.transcript()
        given = settle(transcript, journal)
        self._known = transcript
        open_ = last.reason != "done"
        if anew and is_set(last):
            return Restored((anew,), None)
        return Restored(
            (*([anew] if anew else []), found(history, last), *told(history, len(given))),
            last if open_ else None,
        )

    def _read_again(self) -> None:
        """Take in what other processes have written meanwhile, where they may; the conversation stays the one it is."""
        if not self.opened or not self.journal.outdated:
            return
        head = self.history.head
        self.close()
        self._journal = None
        self.history.head = head if head in self.history.runs else ""

    def reopen(self, run: KeptRun, model: str, calls: Iterable[ToolCall]) -> Transcript:
        """Have calls wait again that a stop kept from being begun; return the conversation with them open."""
        self.journal.take_up(run.id, model, (call.id for call in calls))
        self._known = None
        return self.transcript()

    def transcript(self) -> Transcript:
        """Return the conversation at the head: what `restore`, `undo` and `use` went to."""
        if self._known is None:
            self._known = self.history.transcript()
        return self._known

    def keep(self, transcript: Transcript) -> None:
        """Keep a conversation that was set from Python, before the session leaves it."""
        if self.opened and self._was_set(transcript):
            self._adopt(transcript)

    def use(self, run: str) -> None:
        """Go on from the end of this run; empty for the very beginning."""
        if self._gone:
            self.history.head, self._known = run, None
            self._go_on_anew()
            return
        self.journal.go_to(run)
        self._known, self._before, self._untouched = None, "", False

    def undo(self) -> KeptRun:
        """Set the last run aside. Raises UsageError where there is none."""
        path = [run for run in self.history.path() if not is_step(run)]
        if not path or is_set(path[-1]):
            raise UsageError("This conversation has no run to take back. Nothing has changed.")
        self.use(path[-1].parent)
        return path[-1]

    def close(self) -> None:
        """Let another kernel write the journal."""
        if self._journal is not None:
            self._journal.close()


CUT_OFF = "An earlier kernel stopped in the middle of the last run here. `%resume` goes on with it; this is a new conversation."


def _added(entry: Entry) -> MessageAdded | DecisionMade:
    return DecisionMade(entry) if isinstance(entry, Decision) else MessageAdded(entry)


def _shown(place: str) -> str:
    """Name a store without its password, and without the folders that it is deep in."""
    if "://" not in place and Path(place).is_absolute():
        return shown(Path(place)).strip("`")
    return re.sub(r"//[^@/]*@", "//", place)
