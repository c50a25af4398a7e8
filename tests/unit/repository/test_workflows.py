"""The forge's workflows: valid by the forge's own schema, every action pinned, every command and file there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
CI = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())


def steps(workflow: Any) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


def commands(workflow: Any) -> str:
    return "\n".join(step["run"] for step in steps(workflow) if "run" in step)


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("vendor.dependabot", [ROOT / ".github/dependabot.yml"]),
    ],
)
def test_the_schema_of_the_forge_is_kept(schema: str, paths: list[Path]) -> None:
    done = CliRunner().invoke(check_jsonschema, ["--builtin-schema", schema, *map(str, paths)])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_action_is_pinned_to_a_commit_and_says_its_version(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.search(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_a_command_names_is_in_the_repository(path: Path) -> None:
    text = commands(yaml.safe_load(path.read_text()))
    suites = CI["jobs"]["processes"]["strategy"]["matrix"]["suite"]
    text = "\n".join(text.replace("${{ matrix.suite }}", suite) for suite in suites)
    named = set(re.findall(r"(?<![\w/.])(?:\./)?((?:scripts|tests|docker|requirements)/[\w./-]+)", text))
    assert named
    for name in named:
        assert (ROOT / name).exists(), name


def test_tools_of_the_environment_are_in_the_lock() -> None:
    lock = (ROOT / "requirements/development.lock").read_text()
    packages = {"lint-imports": "import-linter"}
    for path in WORKFLOWS:
        for tool in re.findall(r"\.venv/bin/([\w-]+)", commands(yaml.safe_load(path.read_text()))):
            assert tool == "python" or re.search(rf"^{packages.get(tool, tool)}==", lock, re.M), tool


def test_ci_runs_every_suite_and_what_the_script_of_this_repository_runs() -> None:
    text = commands(CI)
    suites = {"unit", "kubernetes", *CI["jobs"]["processes"]["strategy"]["matrix"]["suite"]}
    assert suites == {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")} - {"cases"}
    own = (ROOT / ".ci/run").read_text()
    for check in (
        "ruff check .",
        "ruff format --check .",
        "mypy",
        "lint-imports",
        "scripts/document-settings --check",
        "scripts/lock --check",
        "bandit --quiet --configfile pyproject.toml --recursive",
        "scripts/audit",
        "mkdocs build --strict",
    ):
        assert check in text, check
        assert check in own, check


def test_unit_tests_run_on_each_python_that_is_supported() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert config["options"]["python_requires"] == ">=3.11"
    assert CI["jobs"]["unit"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
