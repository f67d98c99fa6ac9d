"""What errors come down to: the same cause is told in many words."""

import re
from typing import Final

CAUSE_CHARS_MAX: Final = 200
UNKNOWN: Final = "unknown"

# In this order: what is longer or more exact comes first.
_VARYING: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), word)
    for pattern, word in (
        (r"[a-z][a-z0-9+.-]*://[^\s\"'<>)]+", "<url>"),
        (
            r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}[t ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?"
            r"(?:z\b|[+-][0-9]{2}:?[0-9]{2})?",
            "<time>",
        ),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
        (r"[\w.+-]+@[\w-]+\.[\w.]+", "<mail>"),
        (r"\"[^\"]{1,200}\"|'[^'\n]{1,200}'|`[^`]{1,200}`", "<value>"),
        (r"(?:[a-z]:)?(?:[\\/][\w.~-]+){2,}", "<path>"),
        (r"\b0x[0-9a-f]+\b|\b(?=[a-z_-]*[0-9])[0-9a-z_-]{12,}\b", "<id>"),
        # A code says what went wrong, other numbers only how much.
        (
            r"(?<!http )(?<!status )(?<!code )(?<!errno )(?<!error )[-+]?\b[0-9][0-9,._]*(?=[a-z%]{0,3}\b)",
            "<n>",
        ),
    )
)
_SPACE: Final = re.compile(r"\s+")


def cause_of(error: str | None) -> str:
    """Return what an error comes down to: its first line without what varies.

    Numbers, ids, addresses, paths, times and quoted values vary; so do case and spaces.
    """
    line = next((line for line in (error or "").strip().splitlines() if line.strip()), "")[:1_000]
    for pattern, word in _VARYING:
        line = pattern.sub(word, line)
    return _SPACE.sub(" ", line).strip(" .!:").casefold()[:CAUSE_CHARS_MAX] or UNKNOWN
