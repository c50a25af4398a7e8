"""The OpenAPI document: the parts common to all operations, and what each declares."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import flask_smorest
from flask import Flask, Response, request, send_from_directory, url_for
from flask_smorest.utils import load_info_from_docstring
from marshmallow import Schema
from swagger_ui_bundle import swagger_ui_path

from api import envelope
from api.auth import ADMIN, ANY_TOKEN, Needed
from api.browsers import COOKIE
from api.schemas.bodies import BodySchema, Either
from api.schemas.fields import Query
from pipeline_core.auth.actor import Actor
from pipeline_core.errors import Code

Shape = type[Schema] | Mapping[str, Any]
"""A JSON type: a marshmallow schema, or a JSON Schema, whose values may be marshmallow schemas."""

ASSETS = "docs_asset"
"""The endpoint that serves Swagger UI's own files."""

DESCRIPTION = """\
Jobs go through stages of plugins, which features bring in, and are then launched on a cluster.

Every answer under `/v1` is `{"code", "msg"}`, with `"payload"` where there is one and `"errors"` (path → texts) where
fields were wrong; streamed logs are plain text. Checks come in this order: 401, 403, 413/415, 400, 404/410, 409. Paths
work with and without a trailing slash.
"""

ERROR_RESPONSES: Mapping[int, tuple[str, str, Code, str]] = {
    400: (
        "BadRequest",
        "A field or parameter is missing (`LACK_OF_PARAM`), wrong (`WRONG_PARAM`), or names an unknown plugin type.",
        Code.WRONG_PARAM,
        'The query parameter pageSize is "many": It must be a whole number from 1 to 500.',
    ),
    401: (
        "Unauthenticated",
        "There is no token, or one that is unknown, revoked or expired.",
        Code.PERMISSION_DENIED,
        "The token is not valid.",
    ),
    403: (
        "Forbidden",
        "The token lacks the privilege, or the target is somebody else's.",
        Code.PERMISSION_DENIED,
        "This token lacks the privilege write_job.",
    ),
    404: ("NotFound", "There is no such target.", Code.OPERATION_TARGET_NOT_FOUND, 'There is no job "j1".'),
    409: (
        "Conflict",
        "The target's state does not allow it.",
        Code.UNSUPPORTED_OPERATION,
        "The job has succeeded already.",
    ),
    410: (
        "Expired",
        "The target was kept for its time, and then removed.",
        Code.OPERATION_TARGET_NOT_FOUND,
        'The logs of job "j1" expired on 2026-03-01T12:00:00Z.',
    ),
    413: ("TooLarge", "The body is larger than 4 MiB.", Code.WRONG_PARAM, "The body is larger than 4194304 bytes."),
    415: (
        "UnsupportedMediaType",
        "The body is not `application/json` in UTF-8.",
        Code.WRONG_PARAM,
        'The body\'s media type is "text/xml"; it must be application/json.',
    ),
    429: (
        "TooManyFailures",
        "Too many invalid tokens came from this address.",
        Code.PERMISSION_DENIED,
        "Too many requests with an invalid token came from 192.0.2.7.",
    ),
    500: ("InternalError", "The service's own fault.", Code.INTERNAL_ERROR, envelope.INTERNAL_ERROR_TEXT),
    503: (
        "Unavailable",
        "Something that the service needs is away; nothing was done.",
        Code.INTERNAL_ERROR,
        "The database is away; try again later.",
    ),
}
"""By status: the name of the response component, its description, and an example of `code` and `msg`."""

_REQUEST_ID = {"X-Request-ID": {"description": "The request's ID, in all log lines.", "schema": {"type": "string"}}}
_RETRY_AFTER = {"Retry-After": {"description": "When to ask again, in seconds.", "schema": {"type": "integer"}}}
PAGE_HEADERS = {
    "X-Total-Count": {"description": "How many there are; counted up to 10,000.", "schema": {"type": "integer"}},
    "X-Total-Count-Exact": {"description": "`false` when there are more than that.", "schema": {"const": "false"}},
    "X-Pagination": {"description": "JSON: the total, and where this page stands.", "schema": {"type": "string"}},
    "X-Next-Cursor": {"description": "What `cursor` takes for the next page.", "schema": {"type": "string"}},
}
_ERROR = {
    "type": "object",
    "required": ["code", "msg"],
    "properties": {
        "code": {"type": "string", "enum": [code.value for code in Code if code is not Code.OPERATION_SUCCEEDED]},
        "msg": {"type": "string", "description": "A sentence that names the field and the value at fault."},
        "errors": {
            "type": "object",
            "description": "Path of a field → what is wrong with it.",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
    },
}


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The JSON body of an operation; `required` or not.

    A body schema (or `Either` of several) documents and parses the body; any other schema only documents it, and the
    operation is given the parsed JSON. `permit` raises Forbidden for what the actor may not do. It is given the fields that
    are valid, and is called before the errors of the others are raised.
    """

    schema: Shape | Either
    required: bool = True
    example: Any = None
    permit: Callable[[Actor, Mapping[str, Any]], None] | None = None

    @property
    def documented(self) -> Shape:
        """The schema for the OpenAPI document."""
        return self.schema.documented if isinstance(self.schema, Either) else self.schema

    def read(self, raw: Any, actor: Actor) -> Any:
        """The value that the schema parses from JSON. Raises Forbidden, or what `BodySchema.read` raises."""
        schema = _made(self.schema) if isinstance(self.schema, type) else self.schema
        if not isinstance(schema, BodySchema | Either):
            return raw
        found, errors = schema.examine(raw)
        if self.permit and isinstance(found, Mapping):
            self.permit(actor, found)
        errors.raise_any()
        return found


@cache
def _made(form: type[Schema]) -> Schema:
    """The schema, made once: to make one copies all of its fields, which takes as long as to read a body."""
    return form()


@dataclass(frozen=True, slots=True)
class Operation:
    """What an operation declares.

    `needs` is the privilege, or several of which one is needed; None: no token is needed. `query` and `body` are checked and
    parsed by their schemas. The other fields only document the operation: `payload` (of one item, when `paged`), `streams` (the
    media types in place of the envelope), `error_statuses` (beyond those that every such operation may answer), `parameters`,
    `headers` of the response, `example`, and `links`: by operation (`blueprint.operation` for one of another blueprint), the
    path parameter that takes a field of the payload, and that field.
    """

    method: str
    path: str
    needs: Needed | None
    query: type[Query] | None = None
    body: RequestBody | None = None
    payload: Shape | None = None
    paged: bool = False
    streams: str | tuple[str, ...] = ()
    error_statuses: Sequence[int] = ()
    parameters: Sequence[Mapping[str, Any]] = ()
    headers: Mapping[str, Any] = field(default_factory=dict)
    example: Any = None
    links: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def has_body(self) -> bool:
        return self.method != "GET"


class Api(flask_smorest.Api):
    """The OpenAPI document with the response components and security schemes of this service."""

    DEFAULT_ERROR_RESPONSE_NAME = None

    def _register_responses(self) -> None:
        components = self.spec.components
        components.schema("Error", _ERROR)
        components.security_scheme("token", {"type": "apiKey", "in": "header", "name": "token"})
        components.security_scheme("bearer", {"type": "http", "scheme": "bearer"})
        components.security_scheme("session", {"type": "apiKey", "in": "cookie", "name": COOKIE})
        for status, (name, description, code, text) in ERROR_RESPONSES.items():
            headers = {**_REQUEST_ID, **(_RETRY_AFTER if status in (429, 503) else {})}
            content = {
                "schema": {"$ref": "#/components/schemas/Error"},
                "example": {"code": code.value, "msg": text},
            }
            components.response(
                name,
                {"description": description, "headers": headers, "content": {"application/json": content}},
            )

    def handle_http_exception(self, error: Exception) -> Response:
        """Errors of the framework, in the form of all others."""
        return envelope.failure(error)

    def _openapi_json(self) -> Response:
        # Behind a proxy, the paths are below the proxy's prefix.
        document = {**self.spec.to_dict(), "servers": [{"url": request.root_path or "/"}]}
        return Response(json.dumps(document, indent=2, ensure_ascii=False), mimetype="application/json")

    def _openapi_swagger_ui(self) -> str:
        self._swagger_ui_url = url_for(ASSETS, path="")
        page: str = super()._openapi_swagger_ui()
        return page


def make_api(app: Flask, version: str) -> Api:
    """The OpenAPI document of this application, served at `/openapi.json` and as Swagger UI at `/docs`."""
    app.config.update(
        API_TITLE="Pipeline",
        API_VERSION=version,
        OPENAPI_VERSION="3.1.0",
        OPENAPI_URL_PREFIX="/",
        OPENAPI_SWAGGER_UI_PATH="/docs",
        OPENAPI_SWAGGER_UI_URL="/docs-assets/",
        API_SPEC_OPTIONS={"info": {"description": DESCRIPTION}},
    )
    app.add_url_rule("/docs-assets/<path:path>", ASSETS, partial(send_from_directory, swagger_ui_path))
    return Api(app)


def document(operation: Operation, view: Callable[..., Any], blueprint: str) -> dict[str, Any]:
    """The OpenAPI operation object, with unresolved schemas; its description is `view`'s docstring."""
    description = load_info_from_docstring(view.__doc__).get("description")
    written: dict[str, Any] = {
        "operationId": f"{blueprint}_{view.__name__}",
        "description": "\n\n".join(filter(None, (description, _who(operation)))),
        "parameters": [dict(parameter) for parameter in operation.parameters],
        "responses": {
            200: _success(operation) | _links(operation, blueprint),
            **{
                status: {"$ref": f"#/components/responses/{ERROR_RESPONSES[status][0]}"}
                for status in _statuses(operation)
            },
        },
    }
    if operation.query:
        written["parameters"].append({"in": "query", "schema": operation.query})
    if body := operation.body:
        content: dict[str, Any] = {"schema": body.documented}
        if body.example is not None:
            content["example"] = body.example
        written["requestBody"] = {"required": body.required, "content": {"application/json": content}}
    if operation.needs is not None:
        written["security"] = [{"token": []}, {"bearer": []}, {"session": []}]
        written["x-privilege"] = " or ".join(_privileges(operation.needs))
    return written


def _who(operation: Operation) -> str:
    if operation.needs is None:
        return "Needs no token."
    whole = {ADMIN: "Only the admin may do this.", ANY_TOKEN: "Every valid token may do this."}
    privileges = _privileges(operation.needs)
    return (
        whole.get(privileges[0]) or f"Needs the privilege {' or '.join(f'`{privilege}`' for privilege in privileges)}."
    )


def _privileges(needs: Needed) -> tuple[str, ...]:
    return needs if isinstance(needs, tuple) else (needs,)


def _statuses(operation: Operation) -> list[int]:
    usual = {400, 500, 503}
    if operation.needs is not None:
        usual |= {401, 403, 429}
    if operation.has_body:
        usual |= {413, 415}
    if "<" in operation.path:
        usual.add(404)
    return sorted(usual.union(operation.error_statuses))


def _success(operation: Operation) -> dict[str, Any]:
    headers = {**_REQUEST_ID, **(PAGE_HEADERS if operation.paged else {}), **operation.headers}
    if operation.streams:
        types = (operation.streams,) if isinstance(operation.streams, str) else operation.streams
        text = {media_type: {"schema": {"type": "string"}} for media_type in types}
        return {"description": "The text, streamed.", "headers": headers, "content": text}
    content: dict[str, Any] = {"schema": _envelope(operation)}
    example = {"code": Code.OPERATION_SUCCEEDED.value, "msg": envelope.SUCCESS}
    if operation.payload is None:
        content["example"] = example
    elif operation.example is not None:
        content["example"] = {**example, "payload": operation.example}
    return {"description": "Done.", "headers": headers, "content": {"application/json": content}}


def _links(operation: Operation, blueprint: str) -> dict[str, Any]:
    links = {
        name: {
            "operationId": name.replace(".", "_") if "." in name else f"{blueprint}_{name}",
            "parameters": {parameter: f"$response.body#/payload/{part}"},
        }
        for name, (parameter, part) in operation.links.items()
    }
    return {"links": links} if links else {}


def _envelope(operation: Operation) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "code": {"type": "string", "const": Code.OPERATION_SUCCEEDED.value},
        "msg": {"type": "string"},
    }
    if operation.payload is not None:
        payload = operation.payload
        properties["payload"] = {"type": "array", "items": payload} if operation.paged else payload
    return {"type": "object", "required": list(properties), "properties": properties}
