from __future__ import annotations

import json
from importlib.metadata import version
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import pipeline_cli.version
from pipeline_cli import main

VERSION = version("pipeline-service")


def said(**variables: str | None) -> str:
    return CliRunner().invoke(main, ["--version"], env=variables).stdout


def test_the_version_is_that_of_the_package() -> None:
    assert said(PIPELINE_REVISION=None) == f"pipeline, version {VERSION}\n"
    assert said(PIPELINE_REVISION="") == f"pipeline, version {VERSION}\n"


def test_an_image_knows_its_commit() -> None:
    assert said(PIPELINE_REVISION="0a1b2c") == f"pipeline, version {VERSION}, commit 0a1b2c\n"


def test_what_pip_fetched_from_a_repository_knows_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    origin = json.dumps({"url": "https://example.com/pipeline.git", "vcs_info": {"vcs": "git", "commit_id": "3d4e5f"}})
    installed = SimpleNamespace(version="1.2.3", read_text={"direct_url.json": origin}.get)
    monkeypatch.setattr(pipeline_cli.version, "distribution", lambda _: installed)
    assert said(PIPELINE_REVISION=None) == "pipeline, version 1.2.3, commit 3d4e5f\n"
