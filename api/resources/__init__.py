"""The routes, one module for each noun. `all_blueprints` is what the application registers."""

from __future__ import annotations

from api.blueprint import Blueprint


def all_blueprints() -> tuple[Blueprint, ...]:
    """Every blueprint, in the order of the document."""
    from api.resources import audit, events, features, hooks, jobs, logs, operations, plugins, tokens

    # Logs are jobs' too: their module adds to that blueprint, so it comes after.
    modules = (jobs, logs, events, features, plugins, hooks, tokens, audit, operations)
    return tuple(dict.fromkeys(module.blueprint for module in modules))
