"""Job attempts are found by the names of their control ConfigMaps, whatever else the cluster has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline_core.clusters.base import LaunchRequest
from pipeline_core.clusters.kubernetes import lookup, objects
from tests.unit.clusters.kubernetes.fake_api import FakeApi

PATH = "/api/v1/namespaces/{}/configmaps"
REQUEST = LaunchRequest("job", "ns", "u1", {"spec": {"roles": []}})


def server(*attempts: int, namespace: str = "ns") -> FakeApi:
    """A job with the control ConfigMaps of these attempts."""
    api = FakeApi()
    for attempt in attempts:
        request = replace(REQUEST, attempt=attempt, namespace=namespace)
        if attempt:
            lookup.note_later_attempt(api, request)
        api.request("POST", PATH.format(namespace), body=objects.control_configmap(request))
    api.requests.clear()
    return api


def number(control: objects.Json | None) -> int | None:
    return None if control is None else int(control["metadata"]["labels"][objects.ATTEMPT])


@pytest.mark.parametrize(("attempts", "latest"), [((), None), ((0,), 0), ((0, 1, 2), 2)])
def test_all_attempts_and_the_latest_are_found(attempts: tuple[int, ...], latest: int | None) -> None:
    api = server(*attempts)
    assert [number(one) for one in lookup.controls(api, "job", ["ns"])] == list(attempts)
    assert number(lookup.latest_control(api, "job", ["ns"])) == latest


def test_a_job_is_found_in_any_namespace() -> None:
    api = server(0, 1, namespace="b")
    found = lookup.latest_control(api, "job", ["a", "b"])
    assert found is not None
    assert (number(found), found["metadata"]["namespace"]) == (1, "b")


def test_what_it_takes_does_not_depend_on_other_jobs() -> None:
    api = server(0)
    lookup.latest_control(api, "job", ["ns"])
    assert api.requests == [("GET", f"{PATH.format('ns')}/c-job-0")]


def test_a_launch_that_died_before_it_created_the_noted_attempt_leaves_the_one_before() -> None:
    api = server(0, 1)
    lookup.note_later_attempt(api, replace(REQUEST, attempt=2))
    assert number(lookup.latest_control(api, "job", ["ns"])) == 1
    assert [number(one) for one in lookup.controls(api, "job", ["ns"])] == [0, 1]


def test_a_first_attempt_that_somebody_deleted_is_made_anew_as_one_that_has_ended() -> None:
    api = server(0)
    del api.objects[f"{PATH.format('ns')}/c-job-0"]
    api = server(1)
    first, later = lookup.controls(api, "job", ["ns"])
    assert (number(first), number(later)) == (0, 1)
    assert objects.CLEARED in first["metadata"]["annotations"]
    assert first["metadata"]["labels"][objects.STOPPED] == "true"
    assert "data" not in first


def test_a_configmap_of_that_name_that_is_not_the_jobs_is_none_of_its_attempts() -> None:
    api = server()
    api.request("POST", PATH.format("ns"), body={"metadata": {"name": "c-job-0", "labels": {}}})
    assert lookup.controls(api, "job", ["ns"]) == []
