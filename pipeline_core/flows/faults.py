"""How the readers of notation say what is wrong with a text."""

from __future__ import annotations


class Fault(ValueError):
    """What is wrong with one value, as the end of a sentence that begins with where it stands ("must be …")."""
