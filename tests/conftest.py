"""Fixtures for every test below."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest
from flask import Flask
from hypothesis import settings

from pipeline_core import runtime
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

# How many examples each test of hypothesis has; `--hypothesis-profile=thorough` chooses the other. They are drawn anew in each
# run, also on CI servers, where hypothesis would repeat them. How long an example takes depends on what else the machine does;
# no test asserts a time.
settings.register_profile("ordinary", max_examples=30, deadline=None, derandomize=False)
settings.register_profile("thorough", max_examples=1000, deadline=None, derandomize=False)
settings.load_profile("ordinary")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse parameters in a set: each process of a run would have its tests in an order of its own."""
    for marker in metafunc.definition.iter_markers("parametrize"):
        if isinstance(marker.args[1], set | frozenset):
            pytest.fail(f"{metafunc.definition.nodeid}: its parameters are a set; give them in an order", pytrace=False)


# A shell starts background jobs with SIGINT ignored, which every process of a test would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def api_app() -> Flask:
    """The API for all tests of a process: to make it takes longer than most tests."""
    return new_api_app()


def new_api_app() -> Flask:
    """An API that publishes nothing and leaves logging to pytest."""
    from api import app

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app.publish, "install", lambda: None)
        patch.setattr(app.log, "configure", lambda chosen: None)
        return app.create_app()


@pytest.fixture
def fresh_runtime() -> Iterator[Callable[[], None]]:
    """A runtime of the test's own: settings are read, and all that is made from them is made, when they are first used. Call it
    after a change of the environment, so that they are read again."""
    runtime.install(runtime.Runtime())
    yield runtime.restart
    runtime.install(runtime.Runtime())
