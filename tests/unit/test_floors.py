"""Imports only go down: `api` stands on `workers`, `workers` on `pipeline_core`, and that on neither Flask nor Celery."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = {
    "pipeline_core": {"workers", "api", "flask", "flask_smorest", "marshmallow", "celery", "kombu", "click", "rich"},
    "workers": {"api", "flask", "flask_smorest", "marshmallow", "click", "rich"},
    "api": {"tests"},
}


def imported(module: Path) -> Iterator[str]:
    """The top-level packages that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


@pytest.mark.parametrize("floor", FORBIDDEN)
def test_imports_go_down_only(floor: str) -> None:
    upward = {
        f"{module.relative_to(ROOT)} imports {name}"
        for module in (ROOT / floor).rglob("*.py")
        for name in imported(module)
        if name in FORBIDDEN[floor]
    }
    assert not upward
