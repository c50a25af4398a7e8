from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_core.errors import ConfigurationError
from pipeline_up import flower


def test_the_environment_of_flower_has_no_other_secrets_and_nothing_that_weakens_it() -> None:
    given = {
        "PIPELINE_REDIS_URL": "redis://r", "PIPELINE_SECRET_KEY": "k", "PIPELINE_DATABASE_URL": "d",
        "PIPELINE_ADMIN_PASSWORD": "a", "PIPELINE_FLOWER_PASSWORD": "p", "FLOWER_UNAUTHENTICATED_API": "true",
    }  # fmt: skip
    env = flower.flower(given, 5555, "secret").env
    assert env == {"PIPELINE_REDIS_URL": "redis://r", "FLOWER_BASIC_AUTH": "admin:secret"}


def test_flowers_password_is_made_once_and_is_the_owners(tmp_path: Path) -> None:
    made = flower.password("", tmp_path)
    assert len(made) >= 24
    assert flower.password("", tmp_path) == made
    assert (tmp_path / "flower.password").stat().st_mode & 0o777 == 0o600
    assert flower.password("given", tmp_path) == "given"
    with pytest.raises(ConfigurationError, match="comma"):
        flower.password("a,b", tmp_path)
