"""What the pages name is there: files, modules, settings, metrics, commands with their options, endpoints."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from api.app import create_app
from pipeline_cli import main
from pipeline_core.common import log
from tests.pages import ROOT, Page
from workers import publish

FOLDERS = (
    *("pipeline_core", "workers", "api", "pipeline_cli", "pipeline_up", "pipeline_plugin"),
    *("scripts", "docker", "examples", "tests"),
)
TOPS = "pipeline_core|workers|api|pipeline_cli|pipeline_up|pipeline_plugin|scripts|tests|docs|docker|requirements"
CORE = sorted(path.parent.name for path in (ROOT / "pipeline_core").glob("*/__init__.py"))
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples/README.md"]
    if path.name != "CHANGELOG.md"
)
pages = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))

NO_FILES = {"docker/.env", "docker/kustomize/trial/service/secrets.env"}
"""What the reader writes."""
NO_METRICS = {
    "pipeline_name",
    "pipeline_id",
    "pipeline_core",
    "pipeline_cli",
    "pipeline_up",
    "pipeline_plugin",
    "pipeline_stages_waiting",
}
"""Variables of notations, packages, and what a page asks an adapter to make."""


@cache
def source() -> str:
    """All the text of the repository that is no page."""
    suffixes = {".py", ".sh", ".yaml", ".yml", ".cfg", ".toml", ".mako", ""}
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in suffixes]
    texts = [path.read_text() for path in paths if path.is_file() and path != Path(__file__)]
    return "\n".join([*texts, (ROOT / "setup.cfg").read_text()])


def spans(text: str) -> Iterator[str]:
    """What stands between backticks in the sentences and tables of a page."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    yield from re.findall(r"`([^`\n]+)`", prose)


@pages
def test_files_are_there(page: Path) -> None:
    named = set(re.findall(rf"(?<![\w/.-])(?:{TOPS})/[\w./-]*\w", page.read_text()))
    assert {name for name in named - NO_FILES if not (ROOT / name).exists()} == set()


@pages
def test_modules_and_what_is_named_in_them_are_there(page: Path) -> None:
    rooms = "|".join([*CORE, "pipeline_core", "workers", "api", "pipeline_cli", "pipeline_up", "pipeline_plugin"])
    missing = set()
    for span in spans(page.read_text()):
        match = re.fullmatch(rf"((?:{rooms})(?:\.\w+)+)(?:\(.*\))?", span)
        if match and not span.endswith(".k8s.io") and not is_there(match[1]) and f'"{match[1]}"' not in source():
            missing.add(match[1])
    assert missing == set()


def is_there(dotted: str) -> bool:
    """Whether this is a module, a name in one (what is in pipeline_core is named without it, too), or a table's column."""
    first = dotted.split(".")[0]
    parts = [*(["pipeline_core"] if first in CORE else []), *dotted.split(".")]
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            found = getattr(found, name, None)
        return found is not None or re.search(rf"^    {parts[-1]}: Mapped\[", source(), re.M) is not None
    return False


@pages
def test_what_is_named_beside_a_file_is_in_it(page: Path) -> None:
    named = re.findall(rf"`((?:{TOPS})/[\w/]+\.py)`, `(\w+)`", page.read_text())
    defined = r"^\s*(?:def|class) {}\b"
    assert [pair for pair in named if not re.search(defined.format(pair[1]), (ROOT / pair[0]).read_text(), re.M)] == []


@pages
def test_environment_variables_are_there(page: Path) -> None:
    settings = set(re.findall(r"PIPELINE_[A-Z0-9_]+", (ROOT / "docs/configuration.md").read_text()))
    named = set(re.findall(r"\bPIPELINE_[A-Z0-9_]+\b", page.read_text()))
    if page.name == "configuration.md":
        # It is generated from the settings, and a check of its own says whether it is up to date.
        return
    assert {name for name in named - settings if name not in source()} == set()


@pages
def test_metrics_are_there(page: Path) -> None:
    named = set(re.findall(r"(?<![\w/.])pipeline_[a-z_]+[a-z](?![\w/.])", page.read_text())) - NO_METRICS
    missing = set()
    for name in named:
        base = re.sub(r"_(total|bucket|sum|count)$", "", name)
        forms = {f'"{form}"' for form in (name, base, base.removeprefix("pipeline_"))}
        if not any(form in source() for form in forms):
            missing.add(name)
    assert missing - {f"pipeline_{what}_up" for what in ("database", "redis")} == set()


@pages
def test_commands_and_their_options_are_there(page: Path) -> None:
    wrong = {line: reason for line in commands(page.read_text()) if (reason := problem(line))}
    assert wrong == {}


def commands(text: str) -> Iterator[str]:
    """Every `pipeline …` of a page, from its sentences and from its blocks."""
    for span in spans(text):
        if span.startswith("pipeline "):
            yield span
    for line in text.replace("\\\n", " ").splitlines():
        # An indented or fenced line that begins with it, after a prompt or variables.
        if match := re.match(r"(?:    |\$ )?(?:[A-Z_]+=\S+ )*(pipeline [a-z][^#|;&>]*)", line):
            yield match[1]


def problem(line: str) -> str | None:
    """What of a command line the program does not have; None: nothing."""
    command: click.Command = main
    options = {"--help", "-h"}
    for word in line.split()[1:]:
        word = word.strip("[]`\"',:")
        if isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]*", word):
            found = command.get_command(click.Context(command), word)
            if found is None:
                return f"{command.name} has no command {word}"
            command = found
        elif word.startswith("--"):
            options |= {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
            if word.split("=")[0] not in options:
                return f"{command.name} has no option {word}"
        elif not isinstance(command, click.Group):
            options |= {option for parameter in command.params for option in parameter.opts}
    return None


def test_endpoints_are_there(monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]) -> None:
    monkeypatch.setattr(publish, "install", lambda: None)
    monkeypatch.setattr(log, "configure", lambda chosen: None)
    routes = {
        (method, re.sub(r"<[^>]+>", "*", rule.rule).rstrip("/"))
        for rule in create_app().url_map.iter_rules()
        for method in rule.methods or ()
    }
    call = re.compile(r"\b(GET|POST|PUT|PATCH|DELETE) (/(?:v1/|healthz|readyz|metrics)[^\s`\"?)|]*)")
    missing = set()
    for page in PAGES:
        for method, path in call.findall(page.read_text()):
            pattern = re.sub(r"\{\w+\}|\b[A-Z]{2,}\b", "*", path).rstrip("/.,")
            if not any(method == known and matches(pattern, route) for known, route in routes):
                missing.add(f"{page.name}: {method} {path}")
    assert missing == set()


def matches(pattern: str, route: str) -> bool:
    """Whether a path names a route: part by part, where the route's variables stand for any text."""
    left, right = pattern.split("/"), route.split("/")
    return len(left) == len(right) and all(b in ("*", a) for a, b in zip(left, right, strict=True))


@pages
def test_tests_are_there(page: Path) -> None:
    names = {
        span.removesuffix(".py") for span in spans(page.read_text()) if re.fullmatch(r"[\w/]*\btest_\w+(\.py)?", span)
    }
    files = {path.relative_to(ROOT).with_suffix("").as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    assert {name for name in names if not any(f"/{file}".endswith(f"/{name}") for file in files)} == set()


def test_the_glossary_names_what_the_code_has() -> None:
    text = (ROOT / "docs/glossary.md").read_text()
    headings = re.findall(r"^## .*$", text, re.M)
    words = set()
    for heading in headings:
        for _word, _meaning, places in Page("glossary.md").rows(heading, first="word"):
            words |= set(re.findall(r"`([^`]+)`", places))
    known = source() + (ROOT / "docs/configuration.md").read_text()
    names = set(re.findall(r"\w+", known))
    gone = {word for word in words - names if "/" not in word and not re.search(rf"\b{re.escape(word)}\b", known)}
    assert gone == set()
