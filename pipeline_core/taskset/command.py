"""How the command of a container may grow: at its front, so that the old command still runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from posixpath import basename

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})

RIGHT = "whole words in front, or, in front of a shell's script, text that ends in `;`, `&&` or a newline"
"""What would be right, for error messages."""


@dataclass(frozen=True, slots=True)
class LeadingWords:
    """Whole words in front of the old ones; none when nothing changed."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeadingScript:
    """Text in front of the script, which is the word at `index` of the old command."""

    index: int
    text: str


def growth(old: Sequence[str], new: Sequence[str]) -> LeadingWords | LeadingScript | None:
    """What the new command adds in front of the old one; None when it changes anything else."""
    added = len(new) - len(old)
    if added >= 0 and list(new[added:]) == list(old):
        return LeadingWords(tuple(new[:added])) if old or not added else None
    index = script_index(old)
    if added or index is None or not new[index].endswith(old[index]):
        return None
    if [*new[:index], *new[index + 1 :]] != [*old[:index], *old[index + 1 :]]:
        return None
    text = new[index][: len(new[index]) - len(old[index])]
    return LeadingScript(index, text) if _complete(text) else None


def script_index(command: Sequence[str]) -> int | None:
    """The index of the script in the command of a shell: `["sh", "-c", "run"]` → 2. None for any other command.

    Options are read as POSIX `sh` reads them: they may be grouped (`-lc`), `o` takes a word (`-eo pipefail -c`), and
    the script is the first word after all of them.
    """
    if not command or basename(command[0]) not in SHELLS:
        return None
    index, has_script = 1, False
    while index < len(command) and command[index][:1] in ("-", "+"):
        option = command[index]
        index += 1
        if option in ("-", "--"):
            break
        if not option.startswith("--"):
            has_script |= option[0] == "-" and "c" in option
            index += option.lower().count("o")
    return index if has_script and index < len(command) else None


def _complete(text: str) -> bool:
    """Whether `text` ends a command, so that what follows is a new one: not in a comment or an escape."""
    body = text.rstrip()
    if body.endswith(("\\", "\\;", "\\&&")):
        return False
    if "\n" in text[len(body) :]:
        return True
    return body.endswith((";", "&&")) and not body.rpartition("\n")[2].lstrip().startswith("#")
