"""Declaring routes: one call says who may use an operation, what it takes and what it answers, for the check and for the
OpenAPI document alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import flask_smorest
import structlog
from flask import Response, current_app, request
from marshmallow import Schema

from api import auth, bodies, envelope, openapi, validation
from api.openapi import Operation, Takes
from api.paging import Page
from pipeline_core.auth.actor import SYSTEM, Actor
from pipeline_core.errors import NotFound, WrongParameter
from pipeline_core.validation.texts import shown, storable

LIMIT = "failure_limit"
"""Where the application keeps its `auth.FailureLimit`."""

NO_PARAMETERS: Mapping[str, Any] = {}

View = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A request that has passed its checks. `body` is parsed JSON, None when an optional one was not sent."""

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
            query = operation.query() if operation.query else None

            @wraps(view)
            def checked(**path_values: str) -> Response:
                return _answer(view(_check(operation, query, path_values), **path_values))

            described = openapi.document(operation, view, self.name)
            documented = self.doc(**described)(checked)
            self.route(path, methods=[method], endpoint=view.__name__)(documented)
            return view

        return declare


def _check(operation: Operation, query: Schema | None, path_values: Mapping[str, str]) -> Call:
    """The request's checks, in the one order: who, may they, the body's size and type, the body and query, the path."""
    actor = SYSTEM
    if operation.needs is not None:
        actor = auth.authenticate(current_app.extensions[LIMIT])
        auth.require(actor, operation.needs)
    raw = bodies.read() if operation.has_body else b""
    document = _body(raw, operation.takes)
    parameters = validation.query(query, request.args) if query or request.args else NO_PARAMETERS
    for name, value in path_values.items():
        if not storable(value):
            raise NotFound(f"The path's {name} is {shown(value)}: nothing has such a name.")
    if "job_id" in path_values:
        structlog.contextvars.bind_contextvars(job_id=path_values["job_id"])
    return Call(actor, parameters, document, raw)


def _body(raw: bytes, takes: Takes | None) -> Any:
    if takes and takes.required:
        return bodies.parse(raw)
    if not raw:
        return None
    document = bodies.parse(raw)
    if takes is None and document != {}:
        raise WrongParameter("This operation takes no body.")
    return document


def _answer(result: Any) -> Response:
    if isinstance(result, Response):
        return result
    if isinstance(result, Page):
        response = envelope.success(result.items)
        response.headers.extend(result.headers)
        return response
    return envelope.success(result)
