"""The page of the examples: it lists all of them, and its first commands run in any shell."""

from __future__ import annotations

import re

from tests.pages import ROOT

EXAMPLES = ROOT / "examples"
PAGE = (EXAMPLES / "README.md").read_text()


def test_every_example_is_listed() -> None:
    named = set(re.findall(r"`([\w./*-]+)`", PAGE))
    files = [
        path.relative_to(EXAMPLES) for path in sorted(EXAMPLES.rglob("*")) if path.is_file() and path.suffix != ".pyc"
    ]
    unlisted = [
        str(path)
        for path in files
        if path.name != "README.md"
        and not named
        & {str(path), path.name, f"{path.parts[0]}/", f"{path.parts[0]}/*{path.suffix}", f"{path.parent}/"}
    ]
    assert unlisted == []


def test_each_terminal_of_the_page_begins_with_the_environment() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.S | re.M)
    assert len(blocks) == 3
    assert [block.splitlines()[0] for block in blocks] == [". .venv/bin/activate"] * 3
