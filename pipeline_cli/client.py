"""The service as the command line sees it: paths go out, payloads come back, everything else is an error to show."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import click
import requests

from pipeline_cli.exits import BrokeOff, Refused, Unavailable
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
    """A successful answer: the whole envelope, its payload, and the headers (paging stands there)."""

    envelope: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def payload(self) -> Any:
        return self.envelope.get("payload")

    @property
    def message(self) -> str:
        return str(self.envelope.get("msg", ""))


class BearerToken(requests.auth.AuthBase):
    """Also keeps requests from looking for a password in ~/.netrc."""

    def __init__(self, token: str) -> None:
        self.token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self.token:
            request.headers["Authorization"] = f"Bearer {self.token}"
        return request


class Client:
    """Speaks with the service at `url`.

    Every call raises `Refused` for an answer 4xx and `Unavailable` when there is none, or none of ours.
    """

    def __init__(self, url: str, token: str = "") -> None:
        self.url = base_url(url)
        self.session = requests.Session()
        self.session.auth = BearerToken(token)
        self.session.headers["Accept"] = "application/json"
        # A proxy from the environment cannot reach this machine's own loopback.
        self.session.trust_env = not is_loopback(self.url)

    def get(self, *path: str, params: Mapping[str, Any] | None = None) -> Answer:
        return self._call("GET", path, params=params)

    def post(self, *path: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        return self._call("POST", path, json=body, headers=headers)

    def put(self, *path: str, body: Any = None) -> Answer:
        return self._call("PUT", path, json=body)

    def delete(self, *path: str) -> Answer:
        return self._call("DELETE", path)

    def all(self, *path: str, params: Mapping[str, Any] | None = None) -> list[Any]:
        """The whole of a list, also when the service hands it out in pages."""
        answer = self.get(*path, params=params)
        items, page = list(answer.payload), 1
        while answer.payload and len(items) < int(answer.headers.get("X-Total-Count", 0)):
            page += 1
            answer = self.get(*path, params={**(params or {}), "pageNumber": page})
            items += answer.payload
        return items

    def stream(self, *path: str, params: Mapping[str, Any], follow: bool) -> Iterator[bytes]:
        """The body of a text answer as it comes; a followed one may be silent for as long as it likes."""
        answer = self._send(
            "GET", path, params=params, stream=True, timeout=(CONNECT_SECONDS, None if follow else READ_SECONDS)
        )
        with answer:
            if answer.status_code != 200:
                raise failure(answer)
            try:
                yield from answer.iter_content(None)
            except requests.RequestException as error:
                # What the parser of chunks says means nothing to people.
                why = "" if isinstance(error, requests.exceptions.ChunkedEncodingError) else f": {cause(error)}"
                raise BrokeOff(f"{self.url} broke off its answer{why}") from error

    def _call(self, method: str, path: tuple[str, ...], **arguments: Any) -> Answer:
        answer = self._send(method, path, timeout=(CONNECT_SECONDS, READ_SECONDS), **arguments)
        envelope = envelope_of(answer)
        if not answer.ok or envelope is None:
            raise failure(answer)
        return Answer(envelope, answer.headers)

    def _send(self, method: str, path: tuple[str, ...], **arguments: Any) -> requests.Response:
        url = "/".join([self.url, *(quote(part, safe="") for part in path)])
        try:
            # Not followed: a redirect would turn a POST into a GET, and ours never redirects.
            return self.session.request(method, url, allow_redirects=False, **arguments)
        except requests.RequestException as error:
            if isinstance(bottom(error), ConnectionResetError):
                raise BrokeOff(f"{self.url} closed the connection without an answer") from error
            raise Unavailable(f"cannot reach {self.url}: {cause(error)}. Is PIPELINE_URL right?") from error


def base_url(text: str) -> str:
    """`text` without a slash at its end. Raises click.UsageError when it is no absolute HTTP URL, or ends with /v1."""
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
    """The answer's envelope; none when somebody else than the service has answered."""
    try:
        body = answer.json()
    except requests.JSONDecodeError:
        return None
    return body if isinstance(body, dict) and isinstance(body.get("code"), str) else None


def text_envelope(answer: requests.Response) -> dict[str, Any] | None:
    """What a plain text error says, in the form of an envelope: logs are text, and so may their errors be."""
    code = TEXT_CODES.get(answer.status_code)
    if code is None or not answer.headers.get("Content-Type", "").startswith("text/plain"):
        return None
    return {"code": code, "msg": answer.text.strip()}


def failure(answer: requests.Response) -> Refused | Unavailable:
    """The error that an answer other than success stands for."""
    envelope = envelope_of(answer) or text_envelope(answer)
    if envelope is None:
        return Unavailable(
            f"{answer.url} answered {answer.status_code} {answer.reason} in a way that the service does not: "
            f"is PIPELINE_URL right?"
        )
    message = str(envelope.get("msg") or answer.reason)
    if answer.status_code >= 500:
        request = f" (request {answer.headers['X-Request-ID']})" if "X-Request-ID" in answer.headers else ""
        return Unavailable(
            f"{envelope['code']}: {message}{request}", retry_after=seconds(answer.headers.get("Retry-After"))
        )
    return Refused(answer.status_code, envelope["code"], message, envelope.get("errors") or {})


def seconds(header: str | None) -> float | None:
    return float(header) if header and header.isdigit() else None


def bottom(error: BaseException) -> BaseException:
    """What is at the bottom of an exception of requests, which wraps several."""
    below = [getattr(error, "reason", None), *error.args[:1], error.__cause__, error.__context__]
    for inner in below:
        if isinstance(inner, BaseException):
            return bottom(inner)
    return error


def cause(error: BaseException) -> str:
    """The plain words at the bottom of an exception of requests."""
    error = bottom(error)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
