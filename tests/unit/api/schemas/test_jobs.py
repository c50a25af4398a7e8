"""Which submissions are accepted, and the errors of those that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.schemas.jobs import Submit
from pipeline_core.errors import MissingParameter, PipelineError, TooLarge, WrongParameter
from pipeline_core.jobs.submission import Submission
from pipeline_core.settings import settings
from pipeline_core.taskset.schema import MAX_BYTES
from tests.builders import taskset

GOOD: dict[str, Any] = {"userID": "ada", "jobName": "mnist", "jobKind": "TFJob", "job": {"kind": "TFJob"}}
EMPTY = (None, "", [], {})


@pytest.fixture(autouse=True)
def two_namespaces(monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]) -> None:
    monkeypatch.setenv("PIPELINE_NAMESPACES", "default,research")


def refusal(body: Any) -> PipelineError:
    with pytest.raises((MissingParameter, WrongParameter)) as refused:
        Submit().read(body)
    return refused.value


def submission_of(job: dict[str, Any], **fields: Any) -> Submission:
    return Submit().read({**GOOD, "jobKind": job["kind"], "job": job, **fields})


@pytest.mark.parametrize("field", ["userID", "jobName", "jobKind", "job"])
def test_an_empty_or_absent_required_field_is_missing(field: str) -> None:
    without = {name: value for name, value in GOOD.items() if name != field}
    for body in (without, *({**GOOD, field: empty} for empty in EMPTY)):
        error = refusal(body)
        assert isinstance(error, MissingParameter)
        assert field in error.errors


@pytest.mark.parametrize("job", [{"spec": 1}, *({"kind": empty} for empty in EMPTY)])
def test_an_empty_or_absent_kind_of_a_job_is_missing(job: dict[str, Any]) -> None:
    error = refusal({**GOOD, "job": job})
    assert isinstance(error, MissingParameter)
    assert list(error.errors) == ["job.kind"]


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("userID", 1, "userID"),
        ("jobName", ["mnist"], "jobName"),
        ("jobKind", True, "jobKind"),
        ("userID", "x" * 256, "userID"),
        ("jobName", "x" * 256, "jobName"),
        ("jobName", "a\nb", "jobName"),
        ("jobName", "a\u009bb", "jobName"),
        ("jobName", "gpj.\u202eexe", "jobName"),
        ("userID", "ann\u200f", "userID"),
        ("jobKind", "TF\u2066Job", "jobKind"),
        ("jobName", " \u2003", "jobName"),
        ("userID", " ", "userID"),
        ("job", "TFJob", "job"),
        ("job", [1], "job"),
        ("job", {"kind": "tfjob"}, "job.kind"),
        ("job", {"kind": 1}, "job.kind"),
        ("header", [1], "header"),
        ("header", "x", "header"),
        ("header", {"big": "x" * 64 * 1024}, "header"),
        ("jobNameSpace", "kube-system", "jobNameSpace"),
        ("jobNameSpace", 1, "jobNameSpace"),
        ("cluster", "another", "cluster"),
        ("cluster", {}, "cluster"),
        ("jobname", "x", "jobname"),
        ("jobID", "j1", "jobID"),
    ],
)
def test_a_wrong_field_is_named(field: str, value: Any, path: str) -> None:
    error = refusal({**GOOD, field: value})
    assert isinstance(error, WrongParameter)
    assert path in error.errors
    assert error.message.startswith(path)


@pytest.mark.parametrize("raw", [None, [], "job", 1])
def test_a_body_is_an_object(raw: Any) -> None:
    assert isinstance(refusal(raw), WrongParameter)


@pytest.mark.parametrize("name", ["key", "sequence", "effectiveJobSelector", "createdAt", "updatedAt"])
def test_fields_that_only_older_clients_send_are_ignored(name: str) -> None:
    assert Submit().read({**GOOD, name: {"any": "thing"}}) == Submit().read(GOOD)


def test_names_may_be_as_long_as_the_limit_and_a_header_as_large() -> None:
    long = "ü" * 255
    submitted = Submit().read({**GOOD, "userID": long, "jobName": long, "header": {"x": "x" * (64 * 1024 - 8)}})
    assert (submitted.user_id, submitted.name) == (long, long)


@pytest.mark.parametrize("header", [None, {}])
def test_a_header_is_empty_by_default_and_its_values_are_any_json(header: Any) -> None:
    assert Submit().read({**GOOD, "header": header}).header == {}
    anything = {"a": [1, None, {"b": True}], "": 1.5, "userID": 7}
    assert Submit().read({**GOOD, "header": anything}).header == anything


def test_a_submitted_job_is_stored_unchanged() -> None:
    job = {"z": 1, "kind": "TFJob", "apiVersion": "kubeflow.org/v1", "a": None}
    assert list(Submit().read({**GOOD, "job": job}).job.items()) == list(job.items())


@pytest.mark.parametrize(
    ("own", "named", "chosen"),
    [
        (None, None, "default"),
        (None, "research", "research"),
        ("research", None, "research"),
        ("research", "default", "research"),
        ("default", "research", "default"),
    ],
)
def test_a_tasksets_namespace_is_its_own_else_the_one_named_else_the_first(
    own: str | None, named: str | None, chosen: str
) -> None:
    job = taskset()
    if own:
        job["metadata"]["namespace"] = own
    assert submission_of(job, jobNameSpace=named).namespace == chosen


def test_a_namespace_that_is_not_configured_is_refused_wherever_it_stands() -> None:
    job = taskset()
    job["metadata"]["namespace"] = "kube-system"
    error = refusal({**GOOD, "jobKind": "TaskSet", "job": job})
    assert isinstance(error, WrongParameter)
    assert "kube-system" in error.message
    assert "default, research" in error.message
    assert error.errors == {"metadata.namespace": ["must be one of default, research"]}


@pytest.mark.parametrize("kind", ["TaskSet", "TFJob"])
def test_a_job_to_be_translated_is_refused_at_once_for_the_namespace_that_it_names(kind: str) -> None:
    job = {**(taskset() if kind == "TaskSet" else {"kind": kind}), "metadata": {"name": "m", "namespace": "kubeflow"}}
    error = refusal({**GOOD, "jobKind": kind, "job": job})
    assert isinstance(error, WrongParameter)
    assert error.message.startswith('metadata.namespace: "kubeflow" is not one of')
    assert list(error.errors) == ["metadata.namespace"]


@pytest.mark.parametrize(
    ("metadata", "namespace"),
    [
        ({"namespace": "research"}, "research"),
        ({"namespace": ""}, "default"),
        ({"namespace": 5}, "default"),
        ({}, "default"),
        (None, "default"),
        ("x", "default"),
    ],
)
def test_a_job_to_be_translated_runs_where_it_says_itself(metadata: Any, namespace: str) -> None:
    job = {"kind": "TFJob", "metadata": metadata}
    assert Submit().read({**GOOD, "job": job}).namespace == namespace


def test_a_taskset_is_checked_at_once_with_the_path_and_against_its_limit() -> None:
    bad = taskset()
    bad["spec"]["roles"][0]["replicas"] = -1
    error = refusal({**GOOD, "jobKind": "TaskSet", "job": bad})
    assert isinstance(error, WrongParameter)
    assert any("roles" in path and "replicas" in path for path in error.errors)
    large = taskset("x" * 900 * 1024)
    error = refusal({**GOOD, "jobKind": "TaskSet", "job": large})
    assert type(error) is not TooLarge, "the request itself is not too large"
    assert f"at most {MAX_BYTES}" in error.message
    assert list(error.errors) == ["."]


def test_this_installations_cluster_may_be_named() -> None:
    assert Submit().read({**GOOD, "cluster": settings().cluster_name}).name == "mnist"
    assert Submit().read({**GOOD, "cluster": None}).name == "mnist"
