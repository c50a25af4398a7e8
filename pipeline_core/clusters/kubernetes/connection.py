"""How the API server is reached: the client of a kubeconfig file, or of the pod that this process runs in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes.client
import kubernetes.config
import yaml

from pipeline_core.errors import ConfigurationError


def load_client(kubeconfig: str, context: str) -> kubernetes.client.ApiClient:
    """The client of a kubeconfig file and its context; without a file, of the cluster that this process runs in.

    Sends no request. Raises ConfigurationError, naming the setting, when the file cannot be read or does not suffice.
    """
    if kubeconfig:
        _check_file(kubeconfig, context)
    try:
        if kubeconfig:
            client = kubernetes.config.new_client_from_config(kubeconfig, context or None, persist_config=False)
        else:
            configuration = kubernetes.client.Configuration()
            kubernetes.config.load_incluster_config(client_configuration=configuration)
            client = kubernetes.client.ApiClient(configuration)
    except Exception as error:
        where = (
            f"PIPELINE_KUBECONFIG ({kubeconfig})" if kubeconfig else "without PIPELINE_KUBECONFIG, this pod's account"
        )
        raise ConfigurationError(f"the cluster's address cannot be determined: {where}: {error}") from error
    made: kubernetes.client.ApiClient = client
    return made


def _check_file(kubeconfig: str, context: str) -> None:
    """Raises ConfigurationError when the file cannot be read or has no such context."""
    where = f"PIPELINE_KUBECONFIG ({kubeconfig})"
    try:
        found = yaml.safe_load(Path(kubeconfig).read_text())
    except OSError as error:
        raise ConfigurationError(f"{where} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{where} is no YAML: {' '.join(str(error).split())}") from error
    names = _context_names(found)
    if not names:
        raise ConfigurationError(f"{where} is no kubeconfig: it has no contexts")
    if context and context not in names:
        raise ConfigurationError(
            f'PIPELINE_KUBE_CONTEXT is "{context}", but {where} has no such context; it has {", ".join(sorted(names))}'
        )


def _context_names(document: Any) -> list[str]:
    contexts = document.get("contexts") if isinstance(document, dict) else None
    return [str(one["name"]) for one in contexts or [] if isinstance(one, dict) and "name" in one]
