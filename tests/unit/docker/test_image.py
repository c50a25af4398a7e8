"""What the image is built from and given, as far as it can be checked without building it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()
ARGUMENTS = set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.M))


def given(file: str) -> set[str]:
    return set(re.findall(r"--build-arg (\w+)=", (ROOT / file).read_text()))


def test_the_script_gives_all_that_the_build_takes_but_what_is_the_operator_s() -> None:
    assert given("scripts/build-image") == ARGUMENTS - {"PACKAGES"}


def test_a_release_says_what_it_was_made_of() -> None:
    labels = {"VERSION", "REVISION", "CREATED", "SOURCE"}
    assert labels | {"SOURCE_DATE_EPOCH"} == given(".github/workflows/release.yml")
    assert set(re.findall(r'org\.opencontainers\.image\.\w+="\$(\w+)"', DOCKERFILE)) == labels


def test_both_stages_have_the_same_base() -> None:
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.M) == ["$BASE", "$BASE"]


def test_nothing_is_installed_but_by_hashes_or_from_this_repository() -> None:
    installs = re.findall(r"pip (?:--python \S+ )?install (.*?)(?: \\| *&&|; fi|$)", DOCKERFILE, re.M)
    assert [line for line in installs if "--require-hashes" not in line] == [
        "--no-compile --no-deps /wheel/*.whl",
        "--no-compile $PACKAGES",
    ]
