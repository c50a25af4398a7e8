"""The unit tests mirror the code: tests/unit/jobs/test_cursor.py is for pipeline_core/jobs/cursor.py."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "tests" / "unit"
# What is tested there is no Python of the service: manifests, pages, examples, the repository itself.
ELSEWHERE = {"docker", "docs", "examples", "repository"}
EXCEPTIONS = {
    "pipeline_cli/test_commands.py": "what holds of every command: the page, the help, the exit codes",
}
FILES = sorted(
    str(path.relative_to(UNIT)) for path in UNIT.rglob("test_*.py") if path.relative_to(UNIT).parts[0] not in ELSEWHERE
)


def module_of(file: str) -> Path:
    """The module's path below pipeline_core, or below the root for the other packages."""
    path = Path(file)
    return path.with_name(path.stem.removeprefix("test_"))


def exists(module: Path) -> bool:
    return any(
        (folder / module).with_suffix(".py").exists() or (folder / module / "__init__.py").exists()
        for folder in (ROOT, ROOT / "pipeline_core")
    )


@pytest.mark.parametrize("file", [file for file in FILES if file not in EXCEPTIONS])
def test_each_file_of_unit_tests_has_its_module(file: str) -> None:
    assert exists(module_of(file)), f"tests/unit/{file} tests no module of that name: rename or move it"


def test_the_exceptions_are_there_and_are_needed() -> None:
    assert EXCEPTIONS.keys() <= set(FILES)
    assert not [file for file in EXCEPTIONS if exists(module_of(file))]
