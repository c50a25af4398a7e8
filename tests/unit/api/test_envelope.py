from __future__ import annotations

import pytest
from flask import Flask
from flask.testing import FlaskClient

from api import envelope
from pipeline_core import errors
from pipeline_core.clusters.base import ClusterError, ClusterUnavailable
from pipeline_core.errors import PipelineError
from pipeline_core.jobs import submission

STATUSES = [
    (errors.MissingParameter("x"), 400, "LACK_OF_PARAM"),
    (errors.WrongParameter("x"), 400, "WRONG_PARAM"),
    (errors.UnsupportedPluginType("x"), 400, "UNSUPPORTED_PLUGIN_TYPE"),
    (errors.Unauthenticated("x"), 401, "PERMISSION_DENIED"),
    (errors.Forbidden("x"), 403, "PERMISSION_DENIED"),
    (errors.NotFound("x"), 404, "OPERATION_TARGET_NOT_FOUND"),
    (errors.Conflict("x"), 409, "UNSUPPORTED_OPERATION"),
    (errors.TooLarge("x"), 413, "WRONG_PARAM"),
    (errors.UnsupportedMediaType("x"), 415, "WRONG_PARAM"),
    (errors.TooManyFailures("x", retry_after=7), 429, "PERMISSION_DENIED"),
    (errors.Unavailable("x", retry_after=7), 503, "INTERNAL_ERROR"),
    (ClusterUnavailable("x"), 503, "INTERNAL_ERROR"),
]


JOB = {"userID": "ada", "jobName": "mnist", "jobKind": "TFJob", "job": {"kind": "TFJob"}}


def raising(error: BaseException):
    def view(*_: object, **__: object) -> None:
        raise error

    return view


@pytest.mark.parametrize(("error", "status", "code"), STATUSES, ids=lambda value: type(value).__name__)
def test_each_error_has_its_status_and_code(
    app: Flask, monkeypatch: pytest.MonkeyPatch, error: PipelineError, status: int, code: str
) -> None:
    monkeypatch.setattr(submission, "submit", raising(error))
    answer = app.test_client().post("/v1/job", json=JOB, headers={"token": "admin"})
    assert answer.status_code == status
    assert answer.json == {"code": code, "msg": "x"}
    assert answer.headers.get("Retry-After") == ({429: "7", 503: str(getattr(error, "retry_after", 5))}.get(status))
    assert ("WWW-Authenticate" in answer.headers) == (status == 401)


@pytest.mark.parametrize(
    "error",
    [RuntimeError("secret thing"), errors.ConfigurationError("secret thing"), ClusterError("secret thing")],
    ids=lambda error: type(error).__name__,
)
def test_an_internal_error_is_answered_without_details(
    app: Flask, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(submission, "submit", raising(error))
    answer = app.test_client().post("/v1/job", json=JOB, headers={"token": "admin"})
    assert (answer.status_code, answer.json["code"]) == (500, "INTERNAL_ERROR")
    assert "secret" not in answer.text


def test_every_mapped_class_is_one_of_the_services_errors() -> None:
    assert all(issubclass(kind, PipelineError) for kind in envelope.STATUS)


def test_errors_by_path_are_part_of_the_answer(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    error = errors.WrongParameter("x", errors={"job.kind": ["must be equal to jobKind"]})
    monkeypatch.setattr(submission, "submit", raising(error))
    answer = app.test_client().post("/v1/job", json=JOB, headers={"token": "admin"})
    assert answer.json["errors"] == {"job.kind": ["must be equal to jobKind"]}


@pytest.mark.parametrize("path", ["/v1/nothing", "/nothing", "/v1//job/list", "/v1/job/detail/a/b", "/v1"])
def test_an_unknown_route_is_not_found(client: FlaskClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json["code"]) == (404, "OPERATION_TARGET_NOT_FOUND")


def test_a_wrong_method_is_refused_and_the_right_ones_are_named(client: FlaskClient) -> None:
    answer = client.delete("/v1/job/list")
    assert (answer.status_code, answer.json["code"]) == (405, "UNSUPPORTED_OPERATION")
    assert answer.headers["Allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize("path", ["/v1/tokens/normal", "/v1/tokens/admin/"])
def test_a_path_that_could_be_a_tokens_id_takes_its_own_methods_alone(client: FlaskClient, path: str) -> None:
    answer = client.delete(path, headers={"token": "admin"})
    assert (answer.status_code, answer.headers["Allow"]) == (405, "OPTIONS, PUT")
    assert set(client.options(path).headers["Allow"].split(", ")) == {"OPTIONS", "PUT"}


def test_options_names_the_methods(client: FlaskClient) -> None:
    answer = client.options("/v1/tokens")
    assert answer.status_code == 200
    assert set(answer.headers["Allow"].split(", ")) == {"DELETE", "GET", "HEAD", "OPTIONS", "POST"}
    assert answer.json["code"] == "OPERATION_SUCCEEDED"


def test_head_is_get_without_the_body(client: FlaskClient) -> None:
    answer = client.head("/v1/version")
    assert (answer.status_code, answer.data) == (200, b"")
    assert answer.content_length == client.get("/v1/version").content_length


def test_the_request_id_is_taken_over_when_it_is_usable_and_made_otherwise(client: FlaskClient) -> None:
    assert client.get("/healthz", headers={"X-Request-ID": "abc-1"}).headers["X-Request-ID"] == "abc-1"
    made = {
        client.get("/healthz", headers=headers).headers["X-Request-ID"] for headers in ({}, {"X-Request-ID": "a b"})
    }
    assert len(made) == 2
    assert all(len(request_id) == 32 for request_id in made)
    assert client.get("/nothing", headers={"X-Request-ID": "abc-2"}).headers["X-Request-ID"] == "abc-2"
