"""Tells a request that is larger than the context window from everything else that a provider calls too much. Used by faults.py. Book chapter 8.

Theory of operation. Few providers have a code for it, so that the words decide. Three things sound alike: a rate
("too many tokens per minute") passes by itself; a limit on output or on bytes, characters and pictures is not the
window, and would teach us a wrong one. All three are ruled out before the words for the window are looked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

CODES = frozenset(
    {
        *("context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"),
        *("model_max_prompt_tokens_exceeded", "max_prompt_tokens_exceeded"),
    }
)
"""Providers' names for it."""

SIZES = ("n_ctx", "max_model_len", "context_length", "context_window", "max_context_length")
"""Fields of a fault that give the window in tokens."""

LARGEST = 100_000_000
"""Tokens of a window that we would believe in."""

OTHERWISE = re.compile(
    r"""(?ix)
      rate[ _-]?limit | per[ -](min|minute|sec|second|hour|day|month)\b | \b[TR]PM\b | quota | throttl
    | please[ ]wait | try[ ]again[ ](in|later) | too[ ]many[ ]requests
    | (output|completion)[ ]tokens[ ](for|allowed) | at[ ]most[ ][\d,]+[ ](output|completion)[ ]tokens
    | number[ ]of[ ]output[ ]tokens
    """
)
"""What passes by itself, or is about the output alone."""

WORDS = tuple(
    re.compile(words, re.IGNORECASE | re.VERBOSE)
    for words in (
        # The number is the one in the group `window`, where there is one.
        r"prompt[ ](is[ ])?too[ ]long (:[ ][\d,]+[ ]tokens[ ]>[ ](?P<window>[\d,]+))?",
        r"too[ ]long:[ ][\d,]+,[ ]model[ ]maximum[ ]context[ ]length:[ ](?P<window>[\d,]+)",
        r"exceeds?[ ]context[ ]limit (:[ ][\d,]+[ ]\+[ ][\d,]+[ ]>[ ](?P<window>[\d,]+))?",
        r"max(imum)?[ ](context|model|prompt|sequence)[ ]length ([ ]of|[ ]is|:) [ ] (only[ ])? (?P<window>[\d,]+)",
        r"with[ ](?P<window>[\d,]+)[ ]maximum[ ]context[ ]length",
        r"context[ ]length[ ](is[ ]|of[ ])?(only[ ])? \(?(?P<window>[\d,]+)",
        r"available[ ]context[ ]size ([ ]\((?P<window>[\d,]+)[ ]tokens\))?",
        r"n_keep:[ ][\d,]+[ ]*>=[ ]*n_ctx:[ ](?P<window>[\d,]+)",
        r"exceeds?[ ]the[ ]configured[ ]limit[ ]of[ ](?P<window>[\d,]+)",
        r"token[ ]count.{0,90}?(tokens[ ]allowed[ ]\(|supports[ ]up[ ]to[ ]|limit[ ]of[ ])(?P<window>[\d,]+)",
        r"max[ ]input[ ]tokens:[ ](?P<window>[\d,]+)",
        r"exceeded[ ]model[ ]token[ ]limit (:[ ](?P<window>[\d,]+))?",
        r"max_new_tokens`?[ ]must[ ]be[ ]<=[ ](?P<window>[\d,]+)",
        r"`?inputs`?[ ]must[ ]have[ ]less[ ]than[ ](?P<window>[\d,]+)[ ]tokens",
        r"in[ ]the[ ]prompt[ ]cannot[ ]exceed[ ](?P<window>[\d,]+)",
        r"too[ ]many[ ]tokens[ ]overall:[ ][\d,]+[ ]>[ ](?P<window>[\d,]+)",
        r"current[ ]length[ ]is[ ][\d,]+[ ]while[ ]limit[ ]is[ ](?P<window>[\d,]+)",
        r"exceeds?[ ](the[ ])?(model'?s?[ ])?(maximum[ ])?context[ ](window|length|size)([ ]of[ ](?P<window>[\d,]+))?",
        r"context[ ](window|size|length)([ ]has[ ]been)?[ ](exceeded|exceeds[ ]limit|overflow)",
        r"exceeded[ ]max[ ]context[ ]length",
        r"maximum[ ]context[ ]length",
        r"input[ ](is|was)[ ]too[ ]long",
        r"number[ ]of[ ]input[ ]tokens[ ]exceeds",
        r"prompt[ ]exceeds[ ]max[ ]length",
        r"reduce[ ]the[ ]length[ ]of[ ](the[ ])?(messages|input|prompt|either)",
        r"when[ ]context[ ]the[ ]overflows",
        # A string of a million characters is a result that no window of its time holds; a name too long is a mistake.
        r"invalid[ ]'(input|messages)\[\d+\][^']*(content|output|text)[^']*':[ ]string[ ]too[ ]long",
    )
)
"""Providers' and servers' words for it."""


def overflow(status: int | None, code: str, words: str, said: Mapping[str, object]) -> tuple[bool, int]:
    """Tell whether a fault is that the request is larger than the window, and the window in tokens, 0 if not named."""
    told = code in CODES
    if not told and (status in {401, 402, 403, 404, 413, 429, 529} or OTHERWISE.search(words)):
        return False, 0
    found = [match for pattern in WORDS if (match := pattern.search(words))]
    if not told and not found:
        return False, 0
    named = [match["window"] for match in found if match.groupdict().get("window")]
    fields = [size for key in SIZES if isinstance(size := said.get(key), int) and size is not True]
    digits = [number.replace(",", "") for number in named if len(number) <= len("100,000,000")]
    sizes = fields + [int(number) for number in digits if number]
    return True, next((size for size in sizes if 0 < size <= LARGEST), 0)
