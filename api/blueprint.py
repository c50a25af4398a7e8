"""Declaring routes: one call says who may use an operation, what it takes and what it answers, for the check and for the
OpenAPI document alike. Requests are checked here, in one order, and their JSON is read strictly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import flask_smorest
import structlog
from flask import Response, current_app, request
from werkzeug.exceptions import RequestEntityTooLarge

from api import auth, envelope, openapi
from api.openapi import Operation, Takes
from api.paging import Page
from api.schemas.fields import Query
from pipeline_core.auth.actor import SYSTEM, Actor
from pipeline_core.common import strict_json
from pipeline_core.common.strict_json import NotStrict
from pipeline_core.errors import NotFound, TooLarge, UnsupportedMediaType, WrongParameter
from pipeline_core.validation.texts import shown, storable

LIMIT = "failure_limit"
"""Where the application keeps its `auth.FailureLimit`."""

MAX_BYTES = 4 * 1024 * 1024
READ_BYTES = MAX_BYTES + 1
"""What is read at most: a body of unknown length is cut off there without a word, so one byte more tells."""
MEDIA_TYPE = "application/json"
_TOO_LARGE = f"The request's body is larger than {MAX_BYTES} bytes."

View = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A request that has passed its checks. `body` is what the operation's schema has read."""

    actor: Actor
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    raw: bytes = b""


class Blueprint(flask_smorest.Blueprint):
    """A flask-smorest blueprint whose operations are declared with `operation`."""

    def operation(self, method: str, path: str, **declared: Any) -> Callable[[View], View]:
        """Make a function of a `Call` and the path's parameters the view of an operation.

        `declared` are the fields of `Operation`. What the view returns becomes the payload (None: no payload), a `Page`
        its items and headers; a Response goes out as it is.
        """
        operation = Operation(method, **declared)

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
    """The request's checks, in the one order: who, may they, the body's size and type, the body and query, the path."""
    actor = SYSTEM
    if operation.needs is not None:
        actor = auth.authenticate(current_app.extensions[LIMIT])
        auth.require(actor, operation.needs)
    raw = read_body() if operation.has_body else b""
    document = _body(raw, operation.takes, actor)
    parameters = query.read(request.args)
    for name, value in path_values.items():
        if not storable(value):
            raise NotFound(f"The path's {name} is {shown(value)}: nothing has such a name.")
    if "job_id" in path_values:
        structlog.contextvars.bind_contextvars(job_id=path_values["job_id"])
    return Call(actor, parameters, document, raw)


def _body(raw: bytes, takes: Takes | None, actor: Actor) -> Any:
    optional = takes is None or not takes.required
    document = {} if optional and not raw else parse_body(raw)
    if takes:
        return takes.read(document, actor)
    if document != {}:
        raise WrongParameter("This operation takes no body.")
    return None


def read_body() -> bytes:
    """The request's body as it came. Raises TooLarge, and UnsupportedMediaType unless it says that it is plain JSON."""
    try:
        raw = request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise TooLarge(_TOO_LARGE) from None
    if len(raw) > MAX_BYTES:
        raise TooLarge(_TOO_LARGE)
    if raw:
        _check_type()
    return raw


def parse_body(raw: bytes) -> Any:
    """The JSON document in `raw`, its keys in their order.

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
