from __future__ import annotations

import copy
from typing import Any

import pytest

from pipeline_core.taskset.document import (
    SIDECARS,
    EventRule,
    RetryPolicy,
    Role,
    RoleAction,
    RoleEvent,
    active_deadline,
    counting,
    named,
    namespace,
    replica_count,
    retry_policy,
    roles,
    sidecars,
)


def test_a_role_gets_every_default(taskset: dict[str, Any]) -> None:
    role = taskset["spec"]["roles"][0]
    del role["completionPolicy"], role["replicas"]
    assert roles(taskset) == (Role("worker"),)


def test_all_replicas_must_succeed_unless_the_policy_says_otherwise(taskset: dict[str, Any]) -> None:
    taskset["spec"]["roles"][0] |= {"replicas": 5.0, "completionPolicy": {"maxFailed": 0}}
    (role,) = roles(taskset)
    assert (role.replicas, role.min_succeeded, role.max_failed) == (5, 5, 1)


@pytest.mark.parametrize("event", [RoleEvent.ROLE_FAILED, RoleEvent.ROLE_COMPLETED])
def test_a_policy_that_speaks_of_failure_is_left_as_it_is(taskset: dict[str, Any], event: RoleEvent) -> None:
    taskset["spec"]["roles"][0]["eventPolicy"] = [{"event": event, "action": "NoAction"}]
    assert roles(taskset)[0].event_policy == (EventRule(event, RoleAction.NO_ACTION),)


def test_a_policy_that_does_not_speak_of_failure_gets_the_default_rule_appended(taskset: dict[str, Any]) -> None:
    taskset["spec"]["roles"][0]["eventPolicy"] = [{"event": "RoleSucceeded", "action": "TaskSetSucceeded"}]
    assert roles(taskset)[0].event_policy == (
        EventRule(RoleEvent.ROLE_SUCCEEDED, RoleAction.TASKSET_SUCCEEDED),
        EventRule(RoleEvent.ROLE_FAILED, RoleAction.TASKSET_FAILED),
    )


def test_retries_are_bounded_and_off_by_default(taskset: dict[str, Any]) -> None:
    assert not retry_policy(taskset).allows(0)
    taskset["spec"]["retryPolicy"] = {"retry": True, "delay": 5, "maxRetryCount": 2}
    policy = retry_policy(taskset)
    assert policy == RetryPolicy(True, 5.0, 2)
    assert [policy.allows(attempt) for attempt in range(4)] == [True, True, False, False]


def test_the_deadline_is_read_where_it_stands(taskset: dict[str, Any]) -> None:
    assert active_deadline(taskset) is None
    taskset["spec"]["activeDeadlineSeconds"] = 60.0
    assert active_deadline(taskset) == 60


def test_naming_gives_a_copy_and_leaves_the_original(taskset: dict[str, Any]) -> None:
    before = copy.deepcopy(taskset)
    document = named(taskset, "j7", "team")
    assert (document["metadata"]["name"], namespace(document)) == ("j7", "team")
    assert document["metadata"]["labels"] == {"owner": "u1"}
    assert namespace(named(taskset, "j7")) == "default"
    assert named({"metadata": None}, "j7") == {"metadata": {"name": "j7"}}
    assert taskset == before


@pytest.mark.parametrize(("written", "count"), [({}, 1), ({"replicas": 3}, 3), ({"replicas": 2.0}, 2)])
def test_a_role_has_one_replica_or_the_written_whole_number(written: dict[str, Any], count: int) -> None:
    assert replica_count(written) == count
    assert isinstance(replica_count(written), int)


def test_marked_containers_do_not_count(taskset: dict[str, Any]) -> None:
    template = taskset["spec"]["roles"][0]["template"]
    template["spec"]["containers"].append({"name": "side", "image": "x"})
    assert counting(template) == ("main", "side")
    template["metadata"] = {"annotations": {SIDECARS: '["side"]'}}
    assert sidecars(template) == ("side",)
    assert counting(template) == ("main",)


@pytest.mark.parametrize("mark", ["", "{}", "3", "[1]", '["main"]', "[" * 100_000])
def test_there_is_always_a_container_that_counts(taskset: dict[str, Any], mark: str) -> None:
    template = taskset["spec"]["roles"][0]["template"]
    template["metadata"] = {"annotations": {SIDECARS: mark}}
    assert counting(template) == ("main",)
