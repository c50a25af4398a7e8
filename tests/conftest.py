"""Fixtures for every test below."""

from __future__ import annotations

from tests.chaos.options import pytest_addoption
from tests.servers import database_url, empty_database_url, migrated_database, postgres_url, redis_url

__all__ = ["database_url", "empty_database_url", "migrated_database", "postgres_url", "pytest_addoption", "redis_url"]
