from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_up.environment import child_environment, kept_secret_key


@pytest.mark.parametrize(
    ("given", "loopback", "development"),
    [
        ({}, True, "1"),
        ({}, False, "0"),
        ({"PIPELINE_DEVELOPMENT": "0"}, True, "0"),
        ({"PIPELINE_DEVELOPMENT": "1"}, False, "0"),
    ],
)
def test_only_a_run_on_loopback_is_a_development_run(given: dict[str, str], loopback: bool, development: str) -> None:
    environment = child_environment(
        {"KEPT": "yes", **given},
        database_url="d",
        redis_url="r",
        secret_key="k",
        data_dir=Path("/data"),
        loopback=loopback,
    )
    assert environment["PIPELINE_DEVELOPMENT"] == development
    assert environment["KEPT"] == "yes"
    assert environment["PIPELINE_DATA_DIR"] == "/data"


def test_the_secret_key_is_made_once_and_is_the_owners_alone(tmp_path: Path) -> None:
    key = kept_secret_key(tmp_path)
    assert kept_secret_key(tmp_path) == key
    assert len(key) == 44
    assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600
