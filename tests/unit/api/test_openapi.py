from __future__ import annotations

import re
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from pipeline_core.auth.privileges import Privilege

METHODS = {"get", "post", "put", "delete"}
OPEN = {"/healthz", "/readyz", "/metrics", "/v1/version"}
SIGNING_IN = {"/v1/session"}
"""Needs no token: the token is in the body, and signing out needs none."""
CONSOLE = ("/docs", "/openapi", "/console", "/<any(")
"""How the rules of pages begin, beside `/`."""


@pytest.fixture
def document(client: FlaskClient) -> dict[str, Any]:
    answer: dict[str, Any] = client.get("/openapi.json").get_json()
    return answer


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
    ]


def test_the_document_is_openapi_3_1_and_has_every_route(app: Flask, document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    served = {
        (re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule), method.lower())
        for rule in app.url_map.iter_rules()
        for method in rule.methods or ()
        if method.lower() in METHODS and rule.rule != "/" and not rule.rule.startswith(CONSOLE)
    }
    assert {(path, method) for path, method, _ in operations(document)} == served


def test_every_operation_documents_its_privilege_errors_and_description(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        answers = {int(status) for status in operation["responses"]}
        assert operation["summary"], path
        assert answers >= {200, 400, 500, 503}, path
        assert (answers >= {413, 415}) == (method != "get"), path
        if path not in SIGNING_IN:
            assert (answers >= {401, 403, 429}) == (path not in OPEN), path
        assert ("security" in operation) == (path not in OPEN | SIGNING_IN), path
        if path not in OPEN | SIGNING_IN:
            assert set(operation["x-privilege"].split(" or ")) <= {*Privilege, "admin", "any token"}
            assert operation["description"].strip()
        if "{" in path and "list" not in path:
            assert 404 in answers, path


def test_operations_have_ids_of_their_own(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids))


def test_every_reference_resolves(document: dict[str, Any]) -> None:
    def references(node: Any) -> set[str]:
        if isinstance(node, list):
            return set().union(*map(references, node))
        if not isinstance(node, dict):
            return set()
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(references, node.values()))

    for reference in references(document):
        target: Any = document
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
        assert target


def test_the_security_schemes_are_two_headers_and_the_cookie(document: dict[str, Any]) -> None:
    assert document["components"]["securitySchemes"] == {
        "token": {"type": "apiKey", "in": "header", "name": "token"},
        "bearer": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "pipeline_session"},
    }


@pytest.mark.parametrize("path", ["/docs", "/docs/"])
def test_swagger_ui_is_served_from_here(client: FlaskClient, path: str) -> None:
    page = client.get(path)
    assert page.status_code == 200
    assert "/docs-assets/swagger-ui-bundle.js" in page.text
    assert "http" not in page.text.replace("<!DOCTYPE html>", "")
    assert client.get("/docs-assets/swagger-ui-bundle.js").status_code == 200
    assert client.get("/docs-assets/../app.py").status_code == 404


def test_behind_a_proxy_the_paths_stand_below_its_root(client: FlaskClient) -> None:
    document = client.get("/openapi.json", base_url="http://localhost/pipeline").get_json()
    assert document["servers"] == [{"url": "/pipeline"}]
