from __future__ import annotations

import hashlib
import json
import posixpath
import re
from pathlib import Path
from typing import Any

import pytest

from api.console.assets import FOLDER, Assets, assets

ROOT = Path(__file__).parents[4]
VENDORED = (FOLDER / "vendor", ROOT / "tests/console/vendor")
FIRST_LOAD_BYTES = 100 * 1024
MODULES = sorted(FOLDER.glob("app/**/*.js"))
CATALOGUES = [path for path in MODULES if path.name.endswith("messages.js")]
_COUNTED = re.compile(r"\{(?:count|total|shown|of|attempts|done)\}(?: more| of \{\w+\})? (?!was\b|is\b)[a-z]+s\b")
"""A number before a plural: in `{count} {count|job|jobs}` the text has both forms."""


def manifests() -> list[Any]:
    return [
        pytest.param(folder, package, id=package["package"])
        for folder in VENDORED
        for package in json.loads((folder / "manifest.json").read_text())
    ]


@pytest.mark.parametrize(("folder", "package"), manifests())
def test_a_vendored_package_is_what_its_manifest_says(folder: Path, package: dict[str, Any]) -> None:
    assert re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", package["integrity"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
    assert package["licence"] in {"MIT", "Apache-2.0", "MPL-2.0"}
    assert any(file["name"].endswith(".LICENSE") for file in package["files"])
    for file in package["files"]:
        found = hashlib.sha256((folder / file["name"]).read_bytes()).hexdigest()
        assert found == file["sha256"], f"{file['name']} was changed: run scripts/vendor-console"


@pytest.mark.parametrize("folder", VENDORED, ids=str)
def test_nothing_is_vendored_that_no_manifest_names(folder: Path) -> None:
    named = {
        file["name"] for package in json.loads((folder / "manifest.json").read_text()) for file in package["files"]
    }
    types = {path.name for path in folder.glob("*.d.ts")}
    assert {path.name for path in folder.iterdir()} == named | types | {"manifest.json"}


def test_the_first_load_is_small() -> None:
    found = assets()
    names = {*found.first, "index.html", "style/base.css", "icon.svg"}
    assert sum(len(found.files[name].compressed) for name in names) <= FIRST_LOAD_BYTES


def test_the_first_load_has_no_page() -> None:
    assert not [name for name in assets().first if name.startswith("app/pages/")]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_module_is_checked_and_imports_only_files_that_are_there(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("// @ts-check\n")
    folder = posixpath.dirname(path.relative_to(FOLDER).as_posix())
    for target in re.findall(r"""(?:\bfrom |\bimport\()["']([^"']+)["']""", code(text)):
        assert target.startswith("."), f"{target}: there is no import map"
        assert posixpath.normpath(posixpath.join(folder, target)) in assets().files


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_module_makes_no_html_of_texts_and_runs_no_text(path: Path) -> None:
    found = re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc", path.read_text()
    )
    assert found is None


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_catalogue_has_the_same_keys_and_values_in_both_languages(path: Path) -> None:
    english, chinese = (catalogue(path.read_text(), language) for language in ("en", "zh"))
    assert english
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", chinese[key])), key


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_what_an_english_text_counts_has_a_form_for_one(path: Path) -> None:
    texts = catalogue(path.read_text(), "en")
    assert [text for text in texts.values() if _COUNTED.search(text)] == []


def test_the_digest_is_that_of_all_files() -> None:
    assert re.fullmatch(r"[0-9a-f]{20}", assets().digest)
    assert isinstance(assets(), Assets)
    assert assets() is assets()


def code(text: str) -> str:
    """A module without its comments, whose types name other modules without their suffix."""
    return re.sub(r"/\*\*.*?\*/|^\s*//.*$", "", text, flags=re.DOTALL | re.MULTILINE)


def catalogue(text: str, language: str) -> dict[str, str]:
    """The texts of one language, by key."""
    match = re.search(rf"^  {language}: \{{\n(.*?)^  \}},$", text, re.DOTALL | re.MULTILINE)
    assert match
    return {
        key: json.loads(value) for key, value in re.findall(r'^    "?([\w.]+)"?:\s+(".*"),$', match[1], re.MULTILINE)
    }
