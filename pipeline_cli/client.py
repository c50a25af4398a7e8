"""The HTTP client of the command line: returns payloads, and raises errors that click prints."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import click
import requests

from pipeline_cli.exits import ConnectionLost, Refused, ServiceUnavailable
from pipeline_core.errors import Code

CONNECT_SECONDS = 5
READ_SECONDS = 60
TEXT_CODES = {
    400: Code.WRONG_PARAM,
    401: Code.PERMISSION_DENIED,
    403: Code.PERMISSION_DENIED,
    404: Code.OPERATION_TARGET_NOT_FOUND,
    503: Code.INTERNAL_ERROR,
}


@dataclass(frozen=True)
class Answer:
    """A successful answer: the whole envelope, its payload, and the headers, which have the paging."""

    envelope: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def payload(self) -> Any:
        return self.envelope.get("payload")

    @property
    def message(self) -> str:
        return str(self.envelope.get("msg", ""))


class BearerToken(requests.auth.AuthBase):
    """Sends the token. Setting an `auth` also keeps requests from reading ~/.netrc."""

    def __init__(self, token: str) -> None:
        self.token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self.token:
            request.headers["Authorization"] = f"Bearer {self.token}"
        return request


class ServiceClient:
    """Client of the service at `url`.

    Every call raises `Refused` for a 4xx answer, and `ServiceUnavailable` for 5xx, for no answer, and for one that is not
    Pipeline's.
    """

    def __init__(self, url: str, token: str = "") -> None:
        self.url = base_url(url)
        self.session = requests.Session()
        self.session.auth = BearerToken(token)
        self.session.headers["Accept"] = "application/json"
        # A proxy from the environment cannot reach this machine's loopback address.
        self.session.trust_env = not is_loopback(self.url)

    def get(self, *path: str, params: Mapping[str, Any] | None = None) -> Answer:
        return self._call("GET", path, params=params)

    def post(
        self,
        *path: str,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        return self._call("POST", path, json=body, params=params, headers=headers)

    def put(self, *path: str, body: Any = None) -> Answer:
        return self._call("PUT", path, json=body)

    def delete(self, *path: str) -> Answer:
        return self._call("DELETE", path)

    def all(self, *path: str, params: Mapping[str, Any] | None = None) -> list[Any]:
        """A whole list, fetched page by page where the service pages it."""
        answer = self.get(*path, params=params)
        items, page = list(answer.payload), 1
        while answer.payload and len(items) < int(answer.headers.get("X-Total-Count", 0)):
            page += 1
            answer = self.get(*path, params={**(params or {}), "pageNumber": page})
            items += answer.payload
        return items

    def stream(self, *path: str, params: Mapping[str, Any], follow: bool) -> Iterator[bytes]:
        """The chunks of a text response as they arrive; without a read timeout when `follow` is true."""
        answer = self._send(
            "GET", path, params=params, stream=True, timeout=(CONNECT_SECONDS, None if follow else READ_SECONDS)
        )
        with answer:
            if answer.status_code != 200:
                raise failure(answer)
            try:
                yield from answer.iter_content(None)
            except requests.RequestException as error:
                # The text of a ChunkedEncodingError means nothing to users.
                why = "" if isinstance(error, requests.exceptions.ChunkedEncodingError) else f": {cause(error)}"
                raise ConnectionLost(f"{self.url} broke off its answer{why}") from error

    def _call(self, method: str, path: tuple[str, ...], **arguments: Any) -> Answer:
        answer = self._send(method, path, timeout=(CONNECT_SECONDS, READ_SECONDS), **arguments)
        envelope = envelope_of(answer)
        if not answer.ok or envelope is None:
            raise failure(answer)
        return Answer(envelope, answer.headers)

    def _send(self, method: str, path: tuple[str, ...], **arguments: Any) -> requests.Response:
        url = "/".join([self.url, *(quote(part, safe="") for part in path)])
        try:
            # Redirects are not followed: they would turn a POST into a GET, and the service never redirects.
            return self.session.request(method, url, allow_redirects=False, **arguments)
        except requests.RequestException as error:
            if isinstance(root_exception(error), ConnectionResetError):
                raise ConnectionLost(f"{self.url} closed the connection without an answer") from error
            raise ServiceUnavailable(f"cannot reach {self.url}: {cause(error)}. Is PIPELINE_URL right?") from error


def base_url(text: str) -> str:
    """`text` without a trailing slash. Raises click.UsageError when it is no absolute HTTP URL, or ends with /v1."""
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise click.UsageError(f'"{text}" is not the URL of a service; it should look like http://127.0.0.1:8080')
    url = text.rstrip("/")
    if url.endswith("/v1"):
        raise click.UsageError(f"the URL of the service (PIPELINE_URL) is without /v1: {url.removesuffix('/v1')}")
    return url


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def envelope_of(answer: requests.Response) -> dict[str, Any] | None:
    """The answer's envelope; None when it is not an answer of Pipeline, such as a proxy's."""
    try:
        body = answer.json()
    except requests.JSONDecodeError:
        return None
    return body if isinstance(body, dict) and isinstance(body.get("code"), str) else None


def text_envelope(answer: requests.Response) -> dict[str, Any] | None:
    """An envelope made of a plain text error: errors of log streams may be text."""
    code = TEXT_CODES.get(answer.status_code)
    if code is None or not answer.headers.get("Content-Type", "").startswith("text/plain"):
        return None
    return {"code": code, "msg": answer.text.strip()}


def failure(answer: requests.Response) -> Refused | ServiceUnavailable:
    """The error for an answer other than success."""
    envelope = envelope_of(answer) or text_envelope(answer)
    if envelope is None:
        return ServiceUnavailable(
            f"{answer.url} answered {answer.status_code} {answer.reason} in a way that the service does not: "
            f"is PIPELINE_URL right?"
        )
    message = str(envelope.get("msg") or answer.reason)
    if answer.status_code >= 500:
        request = f" (request {answer.headers['X-Request-ID']})" if "X-Request-ID" in answer.headers else ""
        return ServiceUnavailable(
            f"{envelope['code']}: {message}{request}", retry_after=seconds(answer.headers.get("Retry-After"))
        )
    return Refused(answer.status_code, envelope["code"], message, envelope.get("errors") or {})


def seconds(header: str | None) -> float | None:
    return float(header) if header and header.isdigit() else None


def root_exception(error: BaseException) -> BaseException:
    """The innermost of the exceptions that one of requests wraps."""
    below = [getattr(error, "reason", None), *error.args[:1], error.__cause__, error.__context__]
    for inner in below:
        if isinstance(inner, BaseException):
            return root_exception(inner)
    return error


def cause(error: BaseException) -> str:
    """The message of the innermost exception."""
    error = root_exception(error)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
