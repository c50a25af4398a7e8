"""The kit for plugins: a distribution of its own, for older Pythons, that imports the standard library alone."""

from __future__ import annotations

import ast
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
KIT = ROOT / "pipeline_plugin"
MODULES = sorted(KIT.glob("*.py"))
PROJECT = tomllib.loads((KIT / "pyproject.toml").read_text())
modules = pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)


@modules
def test_it_is_written_in_the_syntax_of_its_oldest_python(path: Path) -> None:
    assert PROJECT["project"]["requires-python"] == ">=3.9"
    assert PROJECT["tool"]["ruff"]["target-version"] == "py39"
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    futures = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    assert futures or path.name == "__init__.py", "annotations such as `int | None` are evaluated"
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Match)
        union = isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp)
        assert not (union and isinstance(node.value.op, ast.BitOr)), f"line {node.lineno}: an alias that is evaluated"


@modules
def test_it_imports_the_standard_library_alone(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [name.name for name in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            top = name.partition(".")[0]
            allowed = top in sys.stdlib_module_names or top == "pipeline_plugin"
            assert allowed or (top == "pytest" and path.name == "fixtures.py"), name
    assert PROJECT["project"]["dependencies"] == []


def test_its_version_is_that_of_the_service() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert PROJECT["project"]["version"] == config["metadata"]["version"]
    assert "pipeline_plugin*" in config["options.packages.find"]["include"].split()


@modules
def test_unittest_takes_none_of_its_modules_for_a_test(path: Path) -> None:
    """A new plugin has a copy of the kit beside its test, and runs it by `python3 -m unittest`, also without pytest."""
    assert not path.name.startswith("test")
