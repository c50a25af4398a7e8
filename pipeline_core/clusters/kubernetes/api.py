"""Requests to the Kubernetes API, with timeouts and backoff, and the mapping of its errors to cluster errors."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import kubernetes.client
import kubernetes.config
import urllib3
from kubernetes.config.config_exception import ConfigException

from pipeline_core.clusters.base import ClusterError, ClusterUnavailable
from pipeline_core.errors import ConfigurationError

Json = dict[str, Any]

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
PAUSES_SECONDS = (0.25, 1.0, 3.0)
"""Pauses between attempts of a request; when all have failed, the cluster is unavailable."""
LONGEST_PAUSE_SECONDS = 10.0
"""A server that asks for a longer pause counts as unavailable."""
PAGE = 500
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
MERGE = "application/merge-patch+json"

_REPEATED = frozenset({408, 429, 500, 502, 503, 504})
_RBAC = re.compile(r"cannot \w+ resource|cannot \w+ path")
_TEMPORARY = ("exceeded quota", "error looking up service account", "is forbidden: status unknown for quota")


class ApiError(Exception):
    """The API server refused a request. `status` is the HTTP status, `retry_after` in seconds."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


class KubernetesApi:
    """Requests to the API server of one cluster, in JSON. Safe for any number of threads."""

    def __init__(self, client: kubernetes.client.ApiClient, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._sleep = sleep

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        accept: str = "application/json",
        content: str = "application/json",
    ) -> Json:
        """The answer. Raises ApiError for a refusal that repeating would not change, ClusterUnavailable for other failures."""
        with self.open(method, path, query, body, accept=accept, content=content) as response:
            try:
                data = response.read()
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise ClusterUnavailable(f"the connection to the cluster broke: {error}") from error
        found: Json = json.loads(data) if data else {}
        return found

    @contextmanager
    def open(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        accept: str = "application/json",
        content: str = "application/json",
        read_seconds: float = READ_SECONDS,
        pauses: Sequence[float] = PAUSES_SECONDS,
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """The response, for streaming; it is closed on exit. Raises as `request` does.

        `pauses` are those between attempts, in seconds.
        """
        response = self._send_with_retries(pauses, method, path, query, body, accept, content, read_seconds)
        try:
            yield response
        finally:
            response.close()
            response.release_conn()

    def items(self, path: str, selector: str, *, fields: str = "", accept: str = "application/json") -> Iterator[Json]:
        """The objects of a list; `fields` is a field selector. Raises ApiError, ClusterUnavailable."""
        for _, items in self.pages(path, selector, fields=fields, accept=accept):
            yield from items

    def pages(
        self, path: str, selector: str, size: int = PAGE, *, fields: str = "", accept: str = "application/json"
    ) -> Iterator[tuple[str, list[Json]]]:
        """The objects of a list page by page, each page with the version of the list. There is always one page.

        Raises ApiError, ClusterUnavailable.
        """
        query: Json = {"labelSelector": selector, "limit": size, **({"fieldSelector": fields} if fields else {})}
        while True:
            page = self.request("GET", path, query, accept=accept)
            yield str(page["metadata"].get("resourceVersion", "")), page.get("items") or []
            rest = page["metadata"].get("continue")
            if not rest:
                return
            query["continue"] = rest

    def _send_with_retries(self, pauses: Sequence[float], *request: Any) -> urllib3.BaseHTTPResponse:
        for pause in (*pauses, None):
            wait = pause
            try:
                return self._send(*request)
            except ApiError as error:
                if error.status not in _REPEATED:
                    raise
                asked = error.retry_after or 0.0
                if wait is None or asked > LONGEST_PAUSE_SECONDS:
                    raise ClusterUnavailable(
                        f"the cluster cannot serve requests at present: {error.message}"
                    ) from error
                wait = max(wait, asked)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                if wait is None:
                    raise ClusterUnavailable(f"the cluster cannot be reached: {error}") from error
            # At least as long as the server asked for, with jitter.
            self._sleep(wait * random.uniform(1.0, 1.3))
        raise AssertionError("the last attempt returns or raises")

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        accept: str,
        content: str,
        read_seconds: float,
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": accept, **({"Content-Type": content} if body is not None else {})}
        text = None if body is None else json.dumps(body)
        pairs = list((query or {}).items())
        verb, url, headers, _, _ = self._client.param_serialize(
            method, path, query_params=pairs, header_params=headers, auth_settings=["BearerToken"]
        )
        response: urllib3.BaseHTTPResponse = self._client.rest_client.pool_manager.request(
            verb,
            url,
            body=text,
            headers=headers,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds),
            retries=False,
            preload_content=False,
        )
        if response.status >= 300:
            raise _refusal(response)
        return response


def connect(kubeconfig: str, context: str) -> KubernetesApi:
    """The API of the cluster of a kubeconfig file; without one, of the cluster that this process runs in.

    Raises ConfigurationError, naming the setting.
    """
    try:
        if kubeconfig:
            client = kubernetes.config.new_client_from_config(kubeconfig, context or None, persist_config=False)
        else:
            configuration = kubernetes.client.Configuration()
            kubernetes.config.load_incluster_config(client_configuration=configuration)
            client = kubernetes.client.ApiClient(configuration)
    except ConfigException as error:
        where = (
            f"PIPELINE_KUBECONFIG ({kubeconfig})" if kubeconfig else "without PIPELINE_KUBECONFIG, this pod's account"
        )
        raise ConfigurationError(f"the cluster's address cannot be determined: {where}: {error}") from error
    return KubernetesApi(client)


def cluster_error(error: ApiError, doing: str) -> ClusterError | ClusterUnavailable:
    """The error that a refusal means for a job: permanent, or until the cluster or the service's rights are repaired."""
    message = f"{doing}: {error.message}"
    if error.status == 401 or (error.status == 403 and _RBAC.search(error.message)):
        return ClusterUnavailable(f"the service lacks rights in the cluster: {message}")
    if error.status == 409 or any(text in error.message for text in _TEMPORARY):
        return ClusterUnavailable(message)
    return ClusterError(message)


@contextmanager
def refusals(doing: str, *, permanent: bool = False) -> Iterator[None]:
    """Turns ApiError into ClusterUnavailable; with `permanent`, into ClusterError where repeating would not help."""
    try:
        yield
    except ApiError as error:
        found = cluster_error(error, doing)
        raise found if permanent else ClusterUnavailable(found.message) from error


def _refusal(response: urllib3.BaseHTTPResponse) -> ApiError:
    try:
        data = response.read()
    finally:
        response.release_conn()
    try:
        message = str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        message = data.decode(errors="replace")[:500] or str(response.reason)
    after = response.headers.get("Retry-After", "")
    return ApiError(response.status, message, float(after) if after.isdigit() else None)
