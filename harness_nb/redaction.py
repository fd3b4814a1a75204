"""What is secret, told by its name or by its looks, and taken out of text: one rule for errors, recordings and variables.

Three strengths, each with all of the one before: the values of this process's own secret settings;
what looks like a known service's key, which is safe to take out of any text, JSON too; what stands
where a secret would, such as after `password=`, for text that only a model will read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from functools import lru_cache

SHORTEST = 8
"""Fewest characters of a setting that is taken for a secret: shorter ones are words that stand anywhere."""

NAME = re.compile(
    r"(?i)(?:^|[^a-z])(?:(?:api|access|private|secret|signing|account)_?key|secret|token|passw(?:or)?d|pwd"
    r"|passphrase|credentials?|authorization|cookie)(?:$|[^a-z])"
)
KEY = re.compile(
    r"(?:\b|(?<=\\[nrt]))(?:"  # in JSON, a line's end before a key is a backslash and a letter
    r"(?:sk|pk|rk)[-_][\w-]{16,}"
    r"|(?:gh[pousr]_|github_pat_|glpat-|hf_|xox[abprs]-|npm_|pypi-)[\w-]{16,}"
    r"|AKIA[0-9A-Z]{16}\b|AIza[\w-]{30,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
UNCHANGED = re.compile(r"[\w.,:;!?+*=~@#$%(){}\[\]^| -]+", re.ASCII)
"""What every writer of JSON leaves as it is."""
HINTS = tuple(
    re.compile(hint)
    for hint in (
        r"k(?<=[spr]k)[-_][\w-]{16}",
        r"g(?:h[pousr]_|ithub_pat_|lpat-)[\w-]{16}",
        r"h(?:f_)[\w-]{16}",
        r"x(?:ox[abprs]-)[\w-]{16}",
        r"p(?:m_|ypi-)[\w-]{16}",
        r"A(?:KIA[0-9A-Z]{16}|Iza[\w-]{30})",
        r"J(?<=eyJ)[\w-]{8,}\.[\w-]{8}",
    )
)
"""One of them is in every key. Each begins with one plain letter, so all of them find none in a twentieth of KEY's time."""
PLACE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?i:(?<=bearer )[\w.~+/-]{12,})"
    r"|(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"
    r"|(?P<before>(?i:[?&]key=|(?:api_?key|token|passw(?:or)?d|secret)"
    r"(?:=(?:\\?[\"'])?|\s*=\s*\\?[\"']|\\?[\"']\s*:\s*\\?[\"'])))[^\s&\"',;\\]{6,}",
    re.DOTALL,
)
"""Where a secret stands; `before` is what stays, such as `password=`, also in code, a repr or JSON."""


@lru_cache(4096)
def is_secret_name(name: str) -> bool:
    """Tell whether what has this name is a secret: `api_key`, `DB_PASSWORD`, but not `tokens` or `monkey`."""
    return bool(NAME.search(name))


def without_settings(text: str, instead: str) -> str:
    """Take out the values of this process's environment variables with a secret's name, as they are and as in JSON."""
    for value in _settings()[0]:
        if value in text:
            text = text.replace(value, instead)
    return text


def without_keys(text: str, instead: str) -> str:
    """Take out those, and whatever looks like a key."""
    text = without_settings(text, instead)
    return KEY.sub(instead, text) if _has_hint(text) else text


def may_hold_key(text: str) -> bool:
    """Tell whether `without_keys` may find something in a text or, where this is JSON, in its strings; no is certain."""
    return _has_hint(text) or any(piece in text for piece in _settings()[1])


def _has_hint(text: str) -> bool:
    return any(hint.search(text) for hint in HINTS)


def _settings() -> tuple[Sequence[str], Sequence[str]]:
    # What lies beneath, since os.environ decodes whatever it is asked for.
    variables = getattr(os.environ, "_data", None)
    return _secret_values(tuple((os.environ if variables is None else variables).items()))


@lru_cache(1)
def _secret_values(_variables: tuple[tuple[object, object], ...]) -> tuple[Sequence[str], Sequence[str]]:
    """List the values to take out, the longest first, and of each a piece that JSON leaves as it is."""
    values = {
        value
        for name, value in os.environ.items()
        if len(value) >= SHORTEST and (name.endswith("_KEY") or is_secret_name(name))
    }
    written = {json.dumps(value, ensure_ascii=plain)[1:-1] for value in values for plain in (True, False)}
    pieces = {max(UNCHANGED.findall(value), key=len, default="") for value in values}
    return sorted(values | written, key=len, reverse=True), sorted(pieces)


def without_secrets(text: str, instead: str) -> str:
    """Take out those, and whatever stands where a secret would."""
    return PLACE.sub(lambda found: (found["before"] or "") + instead, without_keys(text, instead))
