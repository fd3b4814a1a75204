"""What `%agent approve`, `deny` and `edit` do: read a decision about a call that waits, or say why there is none to make."""

from __future__ import annotations

from harness_nb.errors import UsageError
from harness_nb.jupyter.asking import ticket
from harness_nb.jupyter.options import Asked
from harness_nb.jupyter.session import Session, session as session_of, session_names
from harness_nb.safety.questions import Answer, Question


def decided(session: Session, asked: Asked) -> tuple[Question, Answer] | str:
    """Return the question that is meant and its answer; or what to tell the person, nothing having been decided.

    Every decision names its question: a cell that is run a second time must not decide about the next one.
    Raises UsageError for arguments that don't fit.
    """
    question = _named(session, asked.ticket)
    if question is None:
        if other := next((name for name in session_names() if _named(session_of(name), asked.ticket)), ""):
            return f"`{asked.ticket}` waits in session `{other}`: write --session before the command. Nothing was run."
        if not session.pending:
            return f"Nothing waits for a decision in session `{session.name}`: nothing was changed and nothing was run."
        unknown = (
            f"`{asked.ticket}` does not wait for a decision, so nothing was changed or run. "
            if asked.ticket
            else ""
        )
        return f"{unknown}{session.waiting_as_text()}"
    return question, _answer(session, question, asked)


def _named(session: Session, name: str) -> Question | None:
    return next((question for question in session.pending if ticket(question.id) == name), None)


def _answer(session: Session, question: Question, asked: Asked) -> Answer:
    match asked.command:
        case "approve":
            return session.allowed(question)
        case "edit" if asked.words:
            return session.edited(question, asked.words)
        case "edit":
            raise UsageError(
                f"Write the arguments as one JSON object: %agent edit {asked.ticket} {{...}}. Nothing was changed."
            )
        case _:
            return question.deny(asked.words)
