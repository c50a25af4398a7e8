from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.pages import ROOT, Page, code

PAGES = sorted(path for path in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "examples" / "README.md"])
FILLED_IN_BY_THE_READER = {"docker/.env", "docker/kustomize/trial/service/secrets.env"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_what_pages_name_of_docker_and_examples_is_there(page: Path) -> None:
    named = set(re.findall(r"(?<![\w/.-])(?:docker|examples)/[\w./-]*\w", page.read_text()))
    missing = {path for path in named - FILLED_IN_BY_THE_READER if not (ROOT / path).exists()}
    assert missing == set()


def test_the_table_of_processes_has_each_service_of_compose() -> None:
    services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
    rows = Page("deployment.md").rows("## Processes", first="process")
    assert {code(name) for name, *_ in rows} == {name for name, service in services.items() if "build" in service}
