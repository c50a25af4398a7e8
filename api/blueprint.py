"""Declares operations: `Blueprint.operation` names the privilege, the body, the query and the payload, for the checks and
for the OpenAPI document alike. Requests are checked here, in a fixed order, and their JSON is parsed strictly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any
from urllib.parse import unquote_to_bytes

import flask_smorest
import structlog
from flask import Response, current_app, request
from gunicorn.http.errors import ParseException
from werkzeug.exceptions import RequestEntityTooLarge

from api import auth, envelope, openapi
from api.openapi import Operation, RequestBody
from api.paging import Page
from api.schemas.fields import Query
from api.server.request_reader import MAX_BYTES
from pipeline_core.auth.actor import SYSTEM, Actor
from pipeline_core.common import strict_json
from pipeline_core.common.strict_json import NotStrict
from pipeline_core.errors import NotFound, TooLarge, UnsupportedMediaType, WrongParameter
from pipeline_core.validation.texts import shown, storable

LIMIT = "failure_limit"
"""The key of the application's `FailureLimit` in `app.extensions`."""

MEDIA_TYPE = "application/json"
_TOO_LARGE = f"The request's body is larger than {MAX_BYTES} bytes."

View = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A request that has passed its checks. `body` is what the operation's schema made of it, `raw` its bytes."""

    actor: Actor
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    raw: bytes = b""


class Blueprint(flask_smorest.Blueprint):
    """A flask-smorest blueprint whose operations are declared with `operation`, and listed in `operations`."""

    def __init__(self, *positional: Any, **options: Any) -> None:
        super().__init__(*positional, **options)
        self.operations: list[Operation] = []

    def operation(self, method: str, path: str, **declared: Any) -> Callable[[View], View]:
        """Decorator: makes a function of a `Call` and the path's parameters the view of an operation.

        `declared` are the fields of `Operation`. The view returns the payload (None: no payload), a `Page`, which gives
        the payload and the paging headers, or a Response, which is sent unchanged.
        """
        operation = Operation(method, path, **declared)
        self.operations.append(operation)

        def declare(view: View) -> View:
            query = (operation.query or Query)()

            @wraps(view)
            def checked(**path_values: str) -> Response:
                return _answer(view(_check(operation, query, path_values), **path_values))

            described = openapi.document(operation, view, self.name)
            documented = self.doc(**described)(checked)
            self.route(path, methods=[method], endpoint=view.__name__)(documented)
            return view

        return declare


def _check(operation: Operation, query: Query, path_values: Mapping[str, str]) -> Call:
    """Check a request, in this order: token, privilege, size and type of the body, body, query, path."""
    actor = SYSTEM
    if operation.needs is not None:
        actor = auth.authenticate(current_app.extensions[LIMIT])
        auth.require(actor, operation.needs)
    raw = read_body() if operation.has_body else b""
    document = _body(raw, operation.body, actor)
    if not _is_utf8(unquote_to_bytes(request.query_string)):
        raise WrongParameter("The query has bytes that are not UTF-8 (%XX); text is sent as UTF-8, percent-encoded.")
    parameters = query.read(request.args)
    # In the values, other bytes than UTF-8 are replaced. WSGI has the bytes of a path as Latin-1.
    readable = _is_utf8(request.environ["PATH_INFO"].encode("latin-1"))
    for name, value in path_values.items():
        if not readable or not storable(value):
            raise NotFound(f"The path's {name} is {shown(value)}: nothing has such a name.")
    if "job_id" in path_values:
        structlog.contextvars.bind_contextvars(job_id=path_values["job_id"])
    return Call(actor, parameters, document, raw)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _body(raw: bytes, body: RequestBody | None, actor: Actor) -> Any:
    optional = body is None or not body.required
    document = {} if optional and not raw else parse_body(raw)
    if body:
        return body.read(document, actor)
    if document != {}:
        raise WrongParameter("This operation takes no body.")
    return None


def read_body() -> bytes:
    """The bytes of the request's body.

    Raises TooLarge; WrongParameter for chunks that are malformed; UnsupportedMediaType unless its headers declare plain JSON.
    """
    try:
        raw = request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise TooLarge(_TOO_LARGE) from None
    except ParseException as error:
        raise WrongParameter(f"The request's body has malformed chunks: {error}.") from None
    if len(raw) > MAX_BYTES:
        raise TooLarge(_TOO_LARGE)
    if raw:
        _check_type()
    return raw


def parse_body(raw: bytes) -> Any:
    """The JSON document in `raw`, with the order of its keys.

    Raises WrongParameter for whatever `strict_json.parse` refuses.
    """
    if not raw:
        raise WrongParameter("The request's body is empty; it must be a JSON object.")
    try:
        return strict_json.parse(raw)
    except NotStrict as error:
        raise WrongParameter(f"The body {error}.") from None


def _check_type() -> None:
    if request.mimetype != MEDIA_TYPE:
        sent = f'is "{request.mimetype}"' if request.mimetype else "is not said"
        raise UnsupportedMediaType(f"The body's media type {sent}; it must be {MEDIA_TYPE}.")
    charset = request.mimetype_params.get("charset", "utf-8")
    if charset.lower().replace("_", "-") not in ("utf-8", "utf8"):
        raise UnsupportedMediaType(f'The body\'s charset is "{charset}"; JSON is UTF-8.')
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() not in ("identity", ""):
        raise UnsupportedMediaType(f'The body\'s Content-Encoding is "{encoding}"; send it as it is.')


def _answer(result: Any) -> Response:
    if isinstance(result, Response):
        return result
    if isinstance(result, Page):
        response = envelope.success(result.items)
        response.headers.extend(result.headers)
        return response
    return envelope.success(result)
