"""The routes, one module for each noun. `all_blueprints` is what the application registers."""

from __future__ import annotations

from api.blueprint import Blueprint


def all_blueprints() -> tuple[Blueprint, ...]:
    """Every blueprint, in the order of the document."""
    from api.resources import audit, features, hooks, jobs, operations, plugins, tokens

    return tuple(
        module.blueprint for module in (jobs, features, plugins, hooks, tokens, audit, operations)
    )
