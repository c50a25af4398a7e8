"""Options of the tests whose duration can be chosen."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("chaos")
    group.addoption("--race-rounds", type=int, default=4, help="how often each race is run")
    group.addoption("--storm-jobs", type=int, default=60, help="how many jobs go through the storm")
    group.addoption("--storm-seed", type=int, default=None, help="what decides who is killed when; random if not given")
    group.addoption("--due-deliveries", type=int, default=1000, help="how many deliveries are due after the outage")
