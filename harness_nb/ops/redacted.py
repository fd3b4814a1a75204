"""What is taken out of a record before it is kept: settings, keys, and what else a person names. Book chapter 21.

Every string of a record goes through the rule that holds wherever text leaves (redaction.py) and through patterns of
one's own. A vendor's proof must be sent back byte for byte, so what merely looks like a key stays in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from harness_nb.errors import UsageError
from harness_nb.redaction import may_hold_key, without_keys, without_settings

INSTEAD = "[key]"
"""What stands where a secret was."""

PROOFS = {"thinking": "signature", "opaque": "block", "image": "data"}
"""By the kind of a part, the field whose text only its vendor or a picture's reader can check."""


class Redaction:
    """Takes secrets out of JSON data: `Redaction([r"(?i)project-x", re.compile("[0-9]{16}")])`.

    Raises UsageError for a pattern that is no regular expression, and for one that matches a text of no characters.
    """

    def __init__(self, patterns: Sequence[str | re.Pattern[str]] = ()) -> None:
        if isinstance(patterns, str):
            raise UsageError("`redact` takes a list of patterns; put this one in brackets: `[...]`.")
        self._patterns = tuple(_compiled(pattern) for pattern in patterns)

    def __call__(self, data: Mapping[str, object]) -> dict[str, object]:
        """Return the data without secrets, in strings and in keys; what was given stays as it is."""
        kept = PROOFS.get(str(data.get("kind")))
        return {
            self._text(key): without_settings(value, INSTEAD)
            if key == kept and isinstance(value, str)
            else self._value(value)
            for key, value in data.items()
        }

    def may_change(self, text: str) -> bool:
        """Tell whether data with this JSON text may have something to take out: quick, and right whenever it says no."""
        return bool(self._patterns) or may_hold_key(text)

    def _value(self, value: object) -> object:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return self(value)
        if isinstance(value, list | tuple):
            return [self._value(inner) for inner in value]
        return value

    def _text(self, text: str) -> str:
        text = without_keys(text, INSTEAD)
        for pattern in self._patterns:
            text = pattern.sub(lambda _: INSTEAD, text)
        return text


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as fault:
        raise UsageError(f"The pattern {pattern!r} of what to take out can't be read: {fault}.") from None
    if not isinstance(compiled.pattern, str):
        raise UsageError(f"The pattern {pattern!r} of what to take out is made of bytes; write it as text.")
    if compiled.search(""):
        raise UsageError(
            f"The pattern {pattern!r} of what to take out also fits where there is no text; name one."
        )
    return compiled
