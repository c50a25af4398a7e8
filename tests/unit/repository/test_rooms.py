"""Each package says in its docstring what lives in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("api", "pipeline_cli", "pipeline_core", "pipeline_plugin", "pipeline_up", "workers")
LISTED_ELSEWHERE = {
    # A module for each noun, as the package says.
    *("api/resources", "api/schemas", "pipeline_cli", "pipeline_core/database/models"),
    "pipeline_core/database/migrations",
}


def rooms() -> Iterator[str]:
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("__init__.py")):
            room = file.parent.relative_to(ROOT).as_posix()
            docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
            if not any(room == one or room.startswith(f"{one}/") for one in LISTED_ELSEWHERE) and "`" in docstring:
                yield room


@pytest.mark.parametrize("room", [*rooms()])
def test_a_package_names_its_modules(room: str) -> None:
    folder = ROOT / room
    named = set(
        re.findall(r"`([a-z_0-9]+)[.`(]", ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "")
    )
    modules = {file.stem for file in folder.glob("*.py")} - {"__init__", "__main__"}
    assert not modules - named, "they are not in the package's docstring"
