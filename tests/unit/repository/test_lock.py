"""The lock files in requirements/: they fit setup.cfg, agree with each other, and name no registry."""

from __future__ import annotations

import re
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
EXTRAS = {"server.lock": {"server", "flower"}, "demo.lock": {"cli", "server", "embedded"}, "development.lock": None}
"""The extras that each lock file is for; None: all."""


def locked(name: str) -> dict[str, list[str]]:
    """The pinned releases by package; a package has several where they depend on the Python."""
    pins: dict[str, list[str]] = {}
    for line in (ROOT / "requirements" / name).read_text().splitlines():
        if match := re.match(r"([\w.-]+)==([^\s;]+)", line):
            pins.setdefault(canonicalize_name(match[1]), []).append(match[2])
    return pins


def wanted(extras: set[str] | None) -> list[Requirement]:
    """What setup.cfg asks for, with these extras; None: with all."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    texts = [config["options"]["install_requires"]]
    texts += [text for extra, text in config["options.extras_require"].items() if extras is None or extra in extras]
    return [
        Requirement(line) for text in texts for line in text.splitlines() if line and not line.lstrip().startswith("#")
    ]


@pytest.mark.parametrize(("lock", "extras"), EXTRAS.items())
def test_a_lock_pins_what_setup_cfg_asks_for(lock: str, extras: set[str] | None) -> None:
    pins = locked(lock)
    for requirement in wanted(extras):
        versions = pins.get(canonicalize_name(requirement.name), [])
        assert versions, f"{requirement.name} is not in {lock}: run scripts/lock"
        for version in versions:
            assert requirement.specifier.contains(version), f"{lock} has {requirement.name} {version}: run scripts/lock"


def test_the_image_s_build_is_pinned_to_what_pyproject_toml_asks_for() -> None:
    pins = locked("build.lock")
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for text in (*document["build-system"]["requires"], *document["dependency-groups"]["image"]):
        requirement = Requirement(text)
        (version,) = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"build.lock has {requirement.name} {version}: run scripts/lock"


@pytest.mark.parametrize("lock", [*EXTRAS, "build.lock"])
def test_each_pin_has_hashes_and_no_line_names_a_registry(lock: str) -> None:
    text = (ROOT / "requirements" / lock).read_text()
    assert "://" not in text
    assert not re.search(r"^\s*-", re.sub(r"^ +--hash=sha256:[0-9a-f]{64}( \\)?$", "", text, flags=re.M), re.M)
    for pin in re.findall(r"^[\w.-]+==.*$", text, re.M):
        assert pin.endswith("\\"), f"{pin} in {lock} has no hash"


@pytest.mark.parametrize("lock", ["server.lock", "demo.lock"])
def test_tests_run_with_the_releases_that_others_have(lock: str) -> None:
    development = locked("development.lock")
    assert {name: development.get(name) for name in locked(lock)} == locked(lock)


def test_the_demo_installs_no_tools_of_tests() -> None:
    assert locked("demo.lock").keys() & {"pytest", "hypothesis", "mypy", "ruff", "mkdocs", "schemathesis"} == set()


def test_a_client_installs_no_server() -> None:
    """What `pip install '.[cli]'` asks for."""
    assert {requirement.name for requirement in wanted({"cli"})} == {
        *("click", "cronsim", "requests", "tzdata"),
        *("PyYAML", "rich"),
    }


def test_the_image_and_a_checkout_install_from_the_locks() -> None:
    dockerfile = (ROOT / "docker/Dockerfile").read_text()
    assert re.findall(r"--require-hashes --requirement requirements/(\w+).lock", dockerfile) == ["build", "server"]
    assert '--require-hashes --requirement "$root/requirements/$1.lock"' in (ROOT / "scripts/lib.sh").read_text()
    for script, lock in {"demo": "demo", "test": "development"}.items():
        assert f"ensure_venv {lock}\n" in (ROOT / "scripts" / script).read_text()
