from __future__ import annotations

import pytest

from pipeline_core.taskset.masking import looks_secret

SECRET = [
    "DB_PASSWORD",
    "passwd",
    "API_KEY",
    "apikey",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "auth",
    "private-key",
    "PWD",
]
HARMLESS = ["PATH", "KEYBOARD", "BATCH_SIZE", "TASKSET_NAME", "MONKEY", ""]


@pytest.mark.parametrize("name", SECRET)
def test_names_that_look_secret_are_recognized(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", HARMLESS)
def test_other_names_are_not(name: str) -> None:
    assert not looks_secret(name)
