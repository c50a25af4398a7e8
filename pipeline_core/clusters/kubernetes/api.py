"""Requests to the Kubernetes API, with timeouts and backoff, and the mapping of its errors to cluster errors."""

from __future__ import annotations

import json
import random
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import kubernetes.client
import structlog
import urllib3

from pipeline_core.clusters.base import ClusterDenied, ClusterError, ClusterUnavailable
from pipeline_core.clusters.kubernetes.connection import load_client
from pipeline_core.errors import ConfigurationError
from pipeline_core.metrics.totals import Metric, totals

log = structlog.get_logger(__name__)

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

RELOAD_SECONDS = 10.0
"""How often, at most, credentials that were refused are read again."""

_EXPECTED = frozenset({400, 404, 409, 410})
"""Refusals that belong to the work, such as of a log that is not there yet, and are not counted as errors of the cluster."""
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


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the API server. `body` is JSON, None for none; `read_seconds` is how long an answer may take."""

    method: str
    path: str
    query: Mapping[str, Any]
    headers: Mapping[str, str]
    body: Any
    read_seconds: float

    def send(self, client: kubernetes.client.ApiClient) -> urllib3.BaseHTTPResponse:
        """The response. Raises ApiError for a refusal, and what urllib3 raises when there is none."""
        verb, url, headers, _, _ = client.param_serialize(
            self.method,
            self.path,
            query_params=list(self.query.items()),
            header_params=dict(self.headers),
            auth_settings=["BearerToken"],
        )
        try:
            response: urllib3.BaseHTTPResponse = client.rest_client.pool_manager.request(
                verb,
                url,
                body=None if self.body is None else json.dumps(self.body),
                headers=headers,
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=self.read_seconds),
                retries=False,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError):
            totals().count(Metric.CLUSTER_ERRORS, ("unreachable",))
            raise
        if response.status >= 300:
            if response.status not in _EXPECTED:
                totals().count(Metric.CLUSTER_ERRORS, (str(response.status),))
            raise _refusal(response)
        return response


class KubernetesApi:
    """Requests to the API server of one cluster, in JSON. Safe for any number of threads.

    `reload` makes a client anew when the API server has refused the credentials of this one: the file may have others now.
    """

    def __init__(
        self,
        client: kubernetes.client.ApiClient,
        sleep: Callable[[float], None] = time.sleep,
        reload: Callable[[], kubernetes.client.ApiClient] | None = None,
    ) -> None:
        self._client = client
        self._sleep = sleep
        self._reload = reload
        self._reloading = threading.Lock()
        self._reloaded_at = float("-inf")

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
                raise ClusterUnavailable(f"the connection to the cluster broke: {cause(error)}") from error
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
        headers = {"Accept": accept, **({"Content-Type": content} if body is not None else {})}
        response = self._send_with_retries(Request(method, path, query or {}, headers, body, read_seconds), pauses)
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

    def _send_with_retries(self, request: Request, pauses: Sequence[float]) -> urllib3.BaseHTTPResponse:
        for pause in (*pauses, None):
            wait = pause
            try:
                return self._send(request)
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
                    log.warning("the cluster cannot be reached", error=str(error))
                    raise ClusterUnavailable(f"the cluster cannot be reached: {cause(error)}") from error
            # At least as long as the server asked for, with jitter.
            self._sleep(wait * random.uniform(1.0, 1.3))
        raise AssertionError("the last attempt returns or raises")

    def _send(self, request: Request) -> urllib3.BaseHTTPResponse:
        client = self._client
        try:
            return request.send(client)
        except ApiError as error:
            if error.status == 401 and (renewed := self._renewed(client)) is not client:
                return request.send(renewed)
            raise

    def _renewed(self, refused: kubernetes.client.ApiClient) -> kubernetes.client.ApiClient:
        """The client to use instead of one whose credentials were refused: one with credentials that were read just now."""
        with self._reloading:
            if self._client is refused and self._reload and time.monotonic() - self._reloaded_at > RELOAD_SECONDS:
                self._reloaded_at = time.monotonic()
                try:
                    self._client = self._reload()
                except ConfigurationError as error:
                    log.warning("credentials of the cluster not read again", error=error.message)
            return self._client


def connect(kubeconfig: str, context: str) -> KubernetesApi:
    """The API of the cluster of a kubeconfig file; without one, of the cluster that this process runs in.

    Raises ConfigurationError, naming the setting.
    """
    return KubernetesApi(load_client(kubeconfig, context), reload=partial(load_client, kubeconfig, context))


def cluster_error(error: ApiError, doing: str) -> ClusterError | ClusterUnavailable:
    """The error that a refusal means for a job: permanent, or until the cluster or the service's rights are repaired."""
    message = f"{doing}: {error.message}"
    if error.status == 401:
        return ClusterDenied(f"the cluster refuses the service's credentials, which may have expired: {message}")
    if error.status == 403 and _RBAC.search(error.message):
        return ClusterDenied(f"the service lacks rights in the cluster: {message}")
    if error.status == 409 or any(text in error.message for text in _TEMPORARY):
        return ClusterUnavailable(message)
    return ClusterError(message)


def cause(error: Exception) -> str:
    """Why a connection failed, for users: without the address of the API server, which `str(error)` has."""
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return "its name cannot be resolved"
    # A connection that is refused counts as one that was not made in time, too.
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)
    if isinstance(error, urllib3.exceptions.TimeoutError) and not refused:
        return "it does not answer in time"
    inner = next((one for one in _chain(error) if isinstance(one, OSError)), None)
    if isinstance(inner, ssl.SSLError):
        return f"TLS: {getattr(inner, 'reason', '') or 'the handshake failed'}"
    if inner is not None and inner.strerror:
        return inner.strerror
    return "the connection broke"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and those that it was raised from or wraps."""
    while error is not None:
        yield error
        yield from (one for one in error.args if isinstance(one, BaseException))
        error = error.__cause__ or error.__context__


@contextmanager
def refusals(doing: str, *, permanent: bool = False) -> Iterator[None]:
    """Turns ApiError into ClusterUnavailable; with `permanent`, into ClusterError where repeating would not help."""
    try:
        yield
    except ApiError as error:
        found = cluster_error(error, doing)
        lasting = permanent or isinstance(found, ClusterUnavailable)
        raise found if lasting else ClusterUnavailable(found.message) from error


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
