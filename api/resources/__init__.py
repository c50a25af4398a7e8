"""The routes, one module for each noun. `all_blueprints` is what the application registers."""

from __future__ import annotations

from api.blueprint import Blueprint


def all_blueprints() -> tuple[Blueprint, ...]:
    """Every blueprint, in the order of the document."""
    from api.resources import (
        audit,
        events,
        features,
        flows,
        hooks,
        jobs,
        logs,
        operations,
        plugins,
        runs,
        schedules,
        templates,
        tokens,
    )

    # Logs are jobs' too, and runs are flows': their modules add to those blueprints, so they come after.
    modules = (
        jobs,
        logs,
        events,
        flows,
        runs,
        schedules,
        templates,
        features,
        plugins,
        hooks,
        tokens,
        audit,
        operations,
    )
    return tuple(dict.fromkeys(module.blueprint for module in modules))
