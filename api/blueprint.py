"""Declaring routes: one call says who may use an operation, what it takes and what it answers, for the check and for the
OpenAPI document alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate

import flask_smorest
from flask import Response, current_app, request
from marshmallow import Schema

from api import auth, bodies, envelope, openapi, validation
from api.auth import Needed
from api.openapi import Body, Shape
from api.paging import Page
from pipeline_core.errors import NotFound, WrongParameter
from pipeline_core.tokens.actor import SYSTEM, Actor

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

    def operation(
        self,
        method: str,
        path: str,
        *,
        needs: Needed | None,
        query: type[Schema] | None = None,
        body: Body | None = None,
        payload: Shape | None = None,
        paged: bool = False,
        streams: str | None = None,
        refusals: Sequence[int] = (),
        parameters: Sequence[Mapping[str, Any]] = (),
        example: Any = None,
    ) -> Callable[[Callable[Concatenate[Call, ...], Any]], View]:
        """Make a function of a `Call` and the path's parameters the view of an operation.

        `needs` is the privilege; None lets everyone in. What the view returns becomes the payload (None: no payload), a
        `Page` its items and headers; a Response goes out as it is. `payload`, `paged`, `streams` (a media type),
        `refusals` (statuses beyond those that any such operation may answer), `parameters` and `example` are for the
        document.
        """

        def declare(view: Callable[Concatenate[Call, ...], Any]) -> View:
            asks = query() if query else None

            @wraps(view)
            def checked(**path_values: str) -> Response:
                call = _check(needs, asks, body, path_values)
                return _answer(view(call, **path_values))

            documented = openapi.document(
                self, needs, query, body, payload, paged, streams, refusals, parameters, example
            )
            self.route(path, methods=[method], endpoint=view.__name__)(documented(checked))
            return view

        return declare


def _check(needs: Needed | None, query: Schema | None, body: Body | None, path_values: Mapping[str, str]) -> Call:
    """The request's checks, in the one order: who, may they, the body's size and type, the body and query, the path."""
    actor = SYSTEM
    if needs is not None:
        actor = auth.authenticate(current_app.extensions[LIMIT])
        auth.require(actor, needs)
    raw = bodies.read() if request.method not in ("GET", "HEAD") else b""
    document = _body(raw, body)
    parameters = validation.query(query, request.args) if query or request.args else NO_PARAMETERS
    for name, value in path_values.items():
        if "\0" in value:
            raise NotFound(f"The path's {name} has a NUL character; nothing has such a name.")
    return Call(actor, parameters, document, raw)


def _body(raw: bytes, body: Body | None) -> Any:
    if body and body.required:
        return bodies.parse(raw)
    if not raw:
        return None
    document = bodies.parse(raw)
    if body is None and document != {}:
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
