"""The API over a real database and Redis."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import jsonschema
import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from api.blueprint import LIMIT
from api.failure_limit import FailureLimit
from pipeline_core.auth.privileges import Privilege
from pipeline_core.database import transaction, wakeups
from pipeline_core.settings import Settings
from tests.servers import delete_rows

EMPTIED = (
    *("flows", "template_revisions", "jobs", "tokens", "features", "plugins", "audit", "deliveries", "feed_changes"),
    *("idempotency_keys", "browser_sessions", "admin_password"),
)


class Client:
    """Requests with one token. Every answer is held against the OpenAPI document."""

    def __init__(self, client: FlaskClient, token: str) -> None:
        self._client = client
        self._document = _document(client.application)
        self.token = token

    def __call__(self, method: str, path: str, **options: Any) -> TestResponse:
        headers = {"token": self.token, **options.pop("headers", {})}
        answer = self._client.open(path, method=method, headers=headers, **options)
        self._check(method, path, answer)
        return answer

    def _check(self, method: str, path: str, answer: TestResponse) -> None:
        rule = self._client.application.url_map.bind("localhost").match(path.split("?")[0], method, return_rule=True)[0]
        operation = self._document["paths"][re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)][method.lower()]
        assert str(answer.status_code) in operation["responses"], f"{method} {path} answers {answer.status_code}"
        response = operation["responses"][str(answer.status_code)]
        if "$ref" in response:
            response = self._document["components"]["responses"][response["$ref"].split("/")[-1]]
        content = response["content"][answer.mimetype]
        if answer.mimetype == "application/json":
            whole = {**content["schema"], "components": self._document["components"]}
            jsonschema.validate(answer.get_json(), whole, jsonschema.Draft202012Validator)

    def payload(self, method: str, path: str, **options: Any) -> Any:
        """The payload of a request that must succeed."""
        answer = self(method, path, **options)
        assert answer.status_code == 200, answer.text
        assert answer.json["code"] == "OPERATION_SUCCEEDED"
        return answer.json.get("payload")

    def submit(self, user: str = "ada", name: str = "mnist", kind: str = "TFJob", **body: Any) -> str:
        """A job's ID."""
        sent = {"userID": user, "jobName": name, "jobKind": kind, "job": {"kind": kind}, **body}
        job_id: str = self.payload("POST", "/v1/job", json=sent)["jobID"]
        return job_id


@cache
def _document(app: Flask) -> Any:
    return app.test_client().get("/openapi.json").get_json()


@pytest.fixture
def app(api_app: Flask, service_settings: Settings) -> Flask:
    api_app.extensions[LIMIT] = FailureLimit(service_settings.failed_logins)
    wakeups.publish_with(None)
    with transaction() as session:
        delete_rows(session, *EMPTIED)
    return api_app


@pytest.fixture
def admin(app: Flask) -> Client:
    return Client(app.test_client(), "admin")


@pytest.fixture
def bearer(app: Flask, admin: Client) -> Callable[..., Client]:
    """A client with a new token of these privileges."""

    def make(*privileges: Privilege, forwho: str = "ada", own_only: bool = False) -> Client:
        body = {"privileges": list(privileges), "forwho": forwho, "ownOnly": own_only}
        return Client(app.test_client(), admin.payload("POST", "/v1/tokens", json=body)["token"])

    return make
