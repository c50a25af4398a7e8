"""Where jobs may run."""

from __future__ import annotations

from pipeline_core.errors import WrongParameter
from pipeline_core.settings import settings


def allowed_namespace(namespace: str, path: str) -> str:
    """The namespace, if jobs may run there. Raises WrongParameter, naming `path` and those that they may run in."""
    allowed = settings().namespaces
    if namespace not in allowed:
        listed = ", ".join(allowed)
        raise WrongParameter(
            f'{path}: "{namespace}" is not one of the namespaces that jobs may run in: {listed}.',
            errors={path: [f"must be one of {listed}"]},
        )
    return namespace
