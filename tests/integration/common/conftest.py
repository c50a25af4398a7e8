"""Redis, and a prefix of its keys for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return f"{tmp_path.name}:"


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url, decode_responses=True) as client:
        yield client
