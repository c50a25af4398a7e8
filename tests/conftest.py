"""Fixtures for every test below."""

from __future__ import annotations

from hypothesis import settings

from tests.chaos.options import pytest_addoption
from tests.distribution import (
    pytest_collection_modifyitems,
    pytest_xdist_auto_num_workers,
    pytest_xdist_make_scheduler,
)
from tests.servers import database_url, empty_database_url, migrated_database, postgres_url, redis_url

__all__ = [
    "database_url",
    "empty_database_url",
    "migrated_database",
    "postgres_url",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_xdist_auto_num_workers",
    "pytest_xdist_make_scheduler",
    "redis_url",
]

# How long an example takes depends on what else the machine does; no test asserts a time.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
