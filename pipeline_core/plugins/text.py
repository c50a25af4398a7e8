"""Making text that strangers wrote fit to stand in a message."""

from __future__ import annotations

import re
from collections.abc import Iterable

LIMIT = 200
"""Characters of a plugin's own words that a user gets to see."""


def clean(text: str | bytes, hide: Iterable[str] = (), limit: int = LIMIT) -> str:
    """`text` on one line, printable, at most `limit` characters, with every secret in `hide` replaced."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    for secret in hide:
        text = text.replace(secret, "***")
    printable = "".join(char if char.isprintable() else " " for char in text)
    line = re.sub(r" {2,}", " ", printable).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"
