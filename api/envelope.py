"""The form of every answer, and the one place where errors become HTTP statuses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import structlog
from flask import Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from pipeline_core import errors
from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.errors import Code, PipelineError
from pipeline_core.validation.texts import shown

log = structlog.get_logger(__name__)

STATUS: Mapping[type[PipelineError], int] = {
    errors.MissingParameter: 400,
    errors.WrongParameter: 400,
    errors.UnsupportedPluginType: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Expired: 410,
    errors.Conflict: 409,
    errors.TooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.TooManyFailures: 429,
    errors.Unavailable: 503,
    ClusterUnavailable: 503,
}
"""A class counts for its subclasses that are not listed themselves; any other error is a 500."""

RETRY_SECONDS = 5
"""`Retry-After` of errors that have no `retry_after` of their own."""

SUCCESS = "The operation succeeded."
INTERNAL_ERROR_TEXT = "Something went wrong on the server's side; its log has more under this answer's X-Request-ID."

_DUMP = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode

# Code and message for werkzeug's errors, by status: those of requests that reach no view.
_HTTP_ERRORS: Mapping[int, tuple[Code, str]] = {
    404: (Code.OPERATION_TARGET_NOT_FOUND, "There is no route {path}."),
    405: (Code.UNSUPPORTED_OPERATION, "{path} does not take the method {method}."),
    413: (Code.WRONG_PARAM, "The request is larger than the service takes."),
    415: (Code.WRONG_PARAM, "The request's body must be application/json."),
}


def status_of(error: PipelineError) -> int:
    """The HTTP status of this error."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


LOGGED_FIELDS = 5
"""Wrong fields that the log line of a refusal names."""


def success(payload: Any = None) -> Response:
    """The response to a request that succeeded; None: no payload."""
    body: dict[str, Any] = {"code": Code.OPERATION_SUCCEEDED, "msg": SUCCESS}
    if payload is not None:
        body["payload"] = payload
    return _response(body, 200)


def success_of_json(payload: str) -> Response:
    """The response to a request that succeeded, with a payload that is JSON already."""
    head = _DUMP({"code": Code.OPERATION_SUCCEEDED, "msg": SUCCESS})[:-1]
    return Response(f'{head},"payload":{payload}}}'.encode("utf-8", "replace"), 200, mimetype="application/json")


def failure(error: Exception) -> Response:
    """The response to a request that failed. Unexpected errors are logged, and their text is not sent."""
    if isinstance(error, PipelineError):
        return _refusal(error)
    if isinstance(error, HTTPException):
        return _http_failure(error)
    log.error("request failed", exc_info=error, method=request.method, path=request.path)
    return _response({"code": Code.INTERNAL_ERROR, "msg": INTERNAL_ERROR_TEXT}, 500)


def _refusal(error: PipelineError) -> Response:
    status = status_of(error)
    if status == 500:
        log.error("request failed", exc_info=error, method=request.method, path=request.path)
        return _response({"code": Code.INTERNAL_ERROR, "msg": INTERNAL_ERROR_TEXT}, 500)
    body: dict[str, Any] = {"code": error.code, "msg": error.message}
    if error.errors:
        body["errors"] = error.errors
    # The messages of validation errors quote what a client sent, which may be secret.
    why = {"fields": list(error.errors)[:LOGGED_FIELDS]} if error.errors else {"reason": error.message}
    _log_refusal(status, error.code, **why)
    response = _response(body, status)
    if status in (429, 503):
        response.headers["Retry-After"] = str(getattr(error, "retry_after", RETRY_SECONDS))
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _http_failure(error: HTTPException) -> Response:
    status = error.code or 500
    fallback = Code.WRONG_PARAM if status < 500 else Code.INTERNAL_ERROR
    code, text = _HTTP_ERRORS.get(
        status, (fallback, INTERNAL_ERROR_TEXT if status >= 500 else error.description or error.name)
    )
    if status in _HTTP_ERRORS:
        text = text.format(path=shown(request.path)[1:-1], method=request.method)
    _log_refusal(status, code)
    response = _response({"code": code, "msg": text}, status)
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        response.headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return response


def _log_refusal(status: int, code: Code, **why: Any) -> None:
    log.info("request refused", method=request.method, path=request.path, status=status, code=str(code), **why)


def _response(body: dict[str, Any], status: int) -> Response:
    # A message may quote what a client sent, lone surrogates included.
    return Response(_DUMP(body).encode("utf-8", "replace"), status, mimetype="application/json")
