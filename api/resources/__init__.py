"""The routes, one module for each noun. `all_blueprints` is what the application registers."""

from __future__ import annotations

from api.blueprint import Blueprint
from api.resources import (
    audit,
    browser_session,
    events,
    features,
    flows,
    hooks,
    jobs,
    logs,
    metrics,
    operations,
    plugins,
    runs,
    schedules,
    search,
    templates,
    tokens,
    whoami,
)


def all_blueprints() -> tuple[Blueprint, ...]:
    """Every blueprint, in the order of the document."""
    # Some modules add to another's blueprint (logs to jobs, runs to flows, metrics to operations): those come after it.
    modules = (
        *(jobs, logs, events, flows, runs, schedules, templates),
        *(features, plugins, hooks, search, whoami, tokens, browser_session, audit, operations, metrics),
    )
    return tuple(dict.fromkeys(module.blueprint for module in modules))
