"""A record as one line of JSON text, and back: what a journal's file and a database's column hold. Book chapter 21.

Writing is strict: valid UTF-8, no NaN, and nothing in a line that any reader takes for the end of one. Reading is
lenient with the file and strict with each line: a crash leaves half a line, a power cut a run of NUL bytes, an editor
a mark at the start or other line ends. Each record that is whole is read; each fault is told in one sentence.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from typing import cast

from harness_nb.ops.records import Record, in_bulk
from harness_nb.ops.redacted import Redaction
from harness_nb.ops.store import StoreError

NOT_PLAIN = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""What ends a line for some readers, or acts on a terminal or on the order of what is read; JSON leaves it as it is."""

BLANK = b" \t\r\n"
NOTHING = BLANK + b"\0"
"""What may stand where no record is: a power cut leaves NUL bytes."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a file held. `end` is where its last whole record ends, `missing_end` whether that one has no line end."""

    records: list[Record]
    warnings: list[str]
    end: int
    missing_end: bool


def json_text(data: object) -> str:
    """Write JSON data on one line; half a character becomes U+FFFD.

    Raises ValueError or TypeError for what JSON has no form for, such as NaN.
    """
    text = _ENCODE(data)
    if text.isascii() and "\x7f" not in text:
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return NOT_PLAIN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def data_text(record: Record, redaction: Redaction) -> str:
    """Write a record's data as JSON text, without secrets. Raises StoreError for what can't be written."""
    try:
        text = json_text(record.data)
        if not redaction.may_change(text):
            return text
        return json_text(redaction(cast("dict[str, object]", parsed(text))))
    except (TypeError, ValueError, RecursionError) as fault:
        raise StoreError(
            f"A record of kind `{record.kind}` can't be kept, it is no JSON data: {fault}."
        ) from None


def line(record: Record, data: str) -> str:
    """Write a record whose data is this JSON text as a line, its end included."""
    kind, run, at = json_text(record.kind), json_text(record.run), json_text(record.at)
    return f'{{"seq": {record.seq}, "at": {at}, "kind": {kind}, "run": {run}, "data": {data}}}\n'


def parsed(text: str) -> object:
    """Read JSON text strictly. Raises ValueError, also for what is nested too deep to be read."""
    text = text.strip(" \t\r\n")
    try:
        value, end = _DECODE(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if end < len(text):
        raise ValueError("something follows it")
    return value


@in_bulk()
def found(content: bytes) -> Found:
    """Read all of a journal's lines."""
    records: list[Record] = []
    faults: list[tuple[int, str]] = []
    end, missing_end, start = 0, False, 0
    lines = content.split(b"\n")
    for number, raw in enumerate(lines, 1):
        last = number == len(lines)
        read = _read(raw.removeprefix(codecs.BOM_UTF8) if start == 0 else raw, last=last)
        if isinstance(read, Record):
            records.append(read)
            if b"\0" in raw:
                faults.append((number, "holds NUL bytes beside its record"))
            end, missing_end = start + (len(raw.rstrip(NOTHING)) if last else len(raw) + 1), last
        elif read:
            faults.append((number, read))
        start += len(raw) + 1
    return Found(records, _told(faults), end, missing_end)


def _read(raw: bytes, *, last: bool) -> Record | str:
    """Read one line: a record, why there is none, or nothing where nothing stands."""
    kept = raw.strip(NOTHING)
    if not kept:
        return "holds nothing but NUL bytes, as a power cut leaves them" if b"\0" in raw else ""
    try:
        record = _record(parsed(kept.decode()))
    except ValueError:  # UnicodeDecodeError is one, too
        return "is cut off, or is still being written" if last else "is damaged"
    return record or "is no record of a session"


def _record(data: object) -> Record | None:
    match data:
        case {"kind": str(kind), "data": dict(inner), **rest}:
            run, at, seq = rest.get("run", ""), rest.get("at", ""), rest.get("seq", 0)
            if isinstance(run, str) and isinstance(at, str) and type(seq) is int:
                return Record(kind, inner, run, at, seq)
    return None


def _told(faults: list[tuple[int, str]]) -> list[str]:
    """Say each fault in a sentence, one for neighbouring lines with the same."""
    told: list[str] = []
    first = 0
    for place, (number, fault) in enumerate(faults):
        if faults[place + 1 : place + 2] == [(number + 1, fault)]:
            first = first or number
            continue
        if first:
            told.append(f"Each of lines {first:,} to {number:,} {fault}.")
        else:
            told.append(f"Line {number:,} {fault}.")
        first = 0
    return told


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_DECODE = json.JSONDecoder(parse_constant=_no_constant).raw_decode
"""Made once: they are used for every record."""
