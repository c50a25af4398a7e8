"""What stands in the project's pages, so that tests can hold it against the code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


class Page:
    """A Markdown page, looked into by headings (`## Registering`); a section ends where the next heading begins."""

    def __init__(self, name: str) -> None:
        self.text = (ROOT / "docs" / name).read_text()

    def section(self, heading: str) -> str:
        """What stands below the heading."""
        _, found, rest = self.text.partition(f"\n{heading}\n")
        assert found, f"the page has no {heading}"
        return re.split(r"^#{2,3} ", _without_comments(rest), maxsplit=1, flags=re.M)[0]

    def blocks(self, heading: str, language: str) -> list[str]:
        """The fenced blocks of a section that are written in this language."""
        return re.findall(rf"^```{language}\n(.*?)^```", self.section(heading), re.S | re.M)

    def rows(self, heading: str, *, first: str, last: str = "") -> list[list[str]]:
        """The cells of those tables of a section whose head has this first cell, and this last one."""
        found = []
        for table in re.findall(r"(?:^\|.*\n)+", self.section(heading), re.M):
            head, _, *lines = [_cells(line) for line in table.splitlines()]
            if head[0] == first and last in ("", head[-1]):
                found += lines
        assert found, f"{heading} has no table whose head is {first} … {last}"
        return found


def code(cell: str) -> str:
    """What stands in a cell between backticks."""
    match = re.fullmatch(r"`(.*)`", cell)
    assert match, cell
    return match[1]


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def _without_comments(text: str) -> str:
    """The text with the `#` of comments in fenced blocks moved in, so that none passes for a heading."""
    return re.sub(r"^```.*?^```", lambda block: re.sub(r"^#", " #", block[0], flags=re.M), text, flags=re.S | re.M)
