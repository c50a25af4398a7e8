from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.states import ReplicaState
from pipeline_core.taskset.document import EventRule, Role, RoleAction, RoleEvent, roles
from pipeline_core.taskset.rollup import TaskSetVerdict, role_state, roll_up, taskset_state, taskset_verdict

CASES = Path(__file__).parents[2] / "cases"
W, R, S, F, X = ReplicaState


def read(roles_: list[dict[str, Any]]) -> tuple[Role, ...]:
    return roles({"spec": {"roles": roles_}})


@pytest.mark.parametrize("row", json.loads((CASES / "rollup.json").read_text()), ids=json.dumps)
def test_a_role_follows_from_its_replicas(row: dict[str, Any]) -> None:
    (role,) = read([{"name": "r", "replicas": row["replicas"], "completionPolicy": row["completionPolicy"]}])
    assert role_state(role, [ReplicaState(state) for state in row["replicaStates"]]) == row["role"]


@pytest.mark.parametrize("row", json.loads((CASES / "rollup-taskset.json").read_text()), ids=json.dumps)
def test_a_taskset_follows_from_its_roles(row: dict[str, Any]) -> None:
    policies = {
        name: [{"event": event, "action": action} for event, action in rules]
        for name, rules in row["eventPolicy"].items()
    }
    document = read([{"name": name, "eventPolicy": policies.get(name)} for name in row["roles"]])
    states = {name: ReplicaState(state) for name, state in row["roles"].items()}
    assert taskset_state(document, states) == row["taskset"]


def small_roles() -> Iterator[Role]:
    for replicas in range(1, 5):
        for minimum, maximum in product(range(1, replicas + 1), repeat=2):
            yield Role("r", replicas, minimum, maximum)


@pytest.mark.parametrize(
    "role", list(small_roles()), ids=lambda role: f"{role.replicas}-{role.min_succeeded}-{role.max_failed}"
)
def test_every_small_role_keeps_the_rules(role: Role) -> None:
    for count in range(role.replicas + 1):
        for states in combinations_with_replacement(ReplicaState, count):
            state = role_state(role, states)
            if states.count(S) >= role.min_succeeded:
                assert state is S
            elif states.count(F) >= role.max_failed or (count == role.replicas and not {W, R} & set(states)):
                assert state is F
            else:
                assert state is (R if set(states) - {W} else W)


some_roles = st.integers(1, 8).flatmap(
    lambda replicas: st.builds(
        Role,
        st.just("r"),
        st.just(replicas),
        min_succeeded=st.integers(1, replicas),
        max_failed=st.integers(1, replicas),
    )
)


@given(some_roles, st.data())
def test_a_role_whose_replicas_have_all_ended_has_ended(role: Role, data: st.DataObject) -> None:
    ended = data.draw(st.lists(st.sampled_from([S, F, X]), min_size=role.replicas, max_size=role.replicas))
    assert role_state(role, ended).ended


@given(some_roles, st.data())
def test_the_order_of_replicas_does_not_matter(role: Role, data: st.DataObject) -> None:
    states = data.draw(st.lists(st.sampled_from(ReplicaState), max_size=role.replicas))
    assert role_state(role, states) == role_state(role, data.draw(st.permutations(states)))


@given(some_roles, st.data())
def test_a_role_only_goes_forward_whatever_its_replicas_do(role: Role, data: st.DataObject) -> None:
    states = [W] * role.replicas
    before, order = W, [W, R, S]
    for _ in range(20):
        states[data.draw(st.integers(0, role.replicas - 1))] = data.draw(st.sampled_from(ReplicaState))
        after = role_state(role, states, before)
        if before.ended:
            assert after is before
        else:
            assert after.ended or order.index(after) >= order.index(before)
        before = after


some_policies = st.lists(st.builds(EventRule, st.sampled_from(RoleEvent), st.sampled_from(RoleAction)), max_size=3)


@given(st.lists(some_policies, min_size=1, max_size=4), st.data())
def test_a_taskset_whose_roles_have_all_ended_has_ended(policies: list[list[EventRule]], data: st.DataObject) -> None:
    document = [Role(f"r{index}", event_policy=tuple(policy)) for index, policy in enumerate(policies)]
    states = {role.name: data.draw(st.sampled_from([S, F, X])) for role in document}
    verdict = taskset_verdict(document, states)
    assert verdict is not None
    assert verdict.state in (S, F)


def test_the_first_role_and_the_first_rule_that_decide_win() -> None:
    document = read(
        [
            {"name": "quiet", "eventPolicy": [{"event": "RoleFailed", "action": "NoAction"}]},
            {
                "name": "a",
                "eventPolicy": [
                    {"event": "RoleFailed", "action": "NoAction"},
                    {"event": "RoleCompleted", "action": "TaskSetSucceeded"},
                    {"event": "RoleFailed", "action": "TaskSetFailed"},
                ],
            },
            {"name": "b"},
        ]
    )
    verdict = taskset_verdict(document, {"quiet": F, "a": F, "b": F})
    assert verdict == TaskSetVerdict(S, "role a failed (RoleCompleted → TaskSetSucceeded)", "a")


def test_replicas_of_a_role_that_has_ended_are_to_be_stopped_and_no_others() -> None:
    document = read(
        [{"name": "a", "replicas": 4, "completionPolicy": {"minSucceeded": 1}}, {"name": "b", "replicas": 2}],
    )
    result = roll_up(document, {"a": [S, R, W], "b": [R, S]})
    assert result.roles == {"a": S, "b": R}
    assert (result.state, result.verdict) == (R, None)
    assert result.stop == {("a", 1), ("a", 2), ("a", 3)}


def test_a_verdict_on_the_taskset_stops_everything() -> None:
    document = read([{"name": "a", "replicas": 2}, {"name": "b", "replicas": 2}])
    result = roll_up(document, {"a": [F, R], "b": [R, S]})
    assert result.verdict == TaskSetVerdict(F, "role a failed (RoleFailed → TaskSetFailed)", "a")
    assert result.roles == {"a": F, "b": X}
    assert result.stop == {("a", 1), ("b", 0)}


def test_verdicts_stand_when_replicas_end_otherwise_while_they_are_stopped() -> None:
    document = read(
        [{"name": "a", "replicas": 3, "completionPolicy": {"minSucceeded": 2, "maxFailed": 1}}, {"name": "b"}]
    )
    first = roll_up(document, {"a": [F, R, R], "b": [R]})
    later = roll_up(document, {"a": [F, S, S], "b": [S]}, first.roles, first.verdict)
    assert (later.roles, later.verdict, later.stop) == (first.roles, first.verdict, frozenset())


def test_nothing_known_is_waiting() -> None:
    result = roll_up(read([{"name": "a"}]), {})
    assert (result.roles, result.state, result.verdict, result.stop) == ({"a": W}, W, None, frozenset())
