"""Rolls the states of replicas up to those of roles and of the TaskSet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pipeline_core.states import ReplicaState
from pipeline_core.taskset.document import Role, RoleAction, RoleEvent

_EVENTS = {ReplicaState.SUCCEEDED: RoleEvent.ROLE_SUCCEEDED, ReplicaState.FAILED: RoleEvent.ROLE_FAILED}
_VERDICTS = {RoleAction.TASKSET_SUCCEEDED: ReplicaState.SUCCEEDED, RoleAction.TASKSET_FAILED: ReplicaState.FAILED}
_UNDECIDED: Mapping[str, ReplicaState] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TaskSetVerdict:
    """How a job attempt ended: its state, the reason as a sentence, and the role that caused it, if a single one did."""

    state: ReplicaState
    reason: str
    role: str | None = None


@dataclass(frozen=True, slots=True)
class RollUp:
    """What follows from the states of the replicas.

    `roles` has the states of the roles, `verdict` is how the TaskSet ended (None while it has not), `stop` has the replicas,
    as role and index, that have to be stopped: they have not ended, and their role has.
    """

    roles: Mapping[str, ReplicaState]
    state: ReplicaState
    verdict: TaskSetVerdict | None
    stop: frozenset[tuple[str, int]]


def role_state(
    role: Role, replicas: Sequence[ReplicaState], before: ReplicaState = ReplicaState.WAITING
) -> ReplicaState:
    """The state of a role. `replicas` are in any order; unknown ones may be left out.

    A failed replica that will be retried has to be passed as running. `before` is the last known state of the role: once it
    has ended, its state stands.
    """
    if before.ended:
        return before
    if replicas.count(ReplicaState.SUCCEEDED) >= role.min_succeeded:
        return ReplicaState.SUCCEEDED
    if replicas.count(ReplicaState.FAILED) >= role.max_failed:
        return ReplicaState.FAILED
    if len(replicas) >= role.replicas and all(state.ended for state in replicas):
        return ReplicaState.FAILED
    if before is ReplicaState.RUNNING or any(state is not ReplicaState.WAITING for state in replicas):
        return ReplicaState.RUNNING
    return ReplicaState.WAITING


def taskset_verdict(roles: Sequence[Role], states: Mapping[str, ReplicaState]) -> TaskSetVerdict | None:
    """How the TaskSet ended, by the states of its roles; None while it has not.

    The event policies are applied in the order of the roles in the document, the rules of each in theirs: the first that
    decides wins.
    """
    for role in roles:
        if verdict := _decided_by(role, states[role.name]):
            return verdict
    if not all(states[role.name].ended for role in roles):
        return None
    for role in roles:
        if states[role.name] is not ReplicaState.SUCCEEDED:
            return TaskSetVerdict(
                ReplicaState.FAILED, f"all roles ended, and role {role.name} {_in_words(states[role.name])}"
            )
    return TaskSetVerdict(ReplicaState.SUCCEEDED, "all roles succeeded")


def taskset_state(roles: Sequence[Role], states: Mapping[str, ReplicaState]) -> ReplicaState:
    """The state of the TaskSet, by those of its roles: waiting until the first replica starts."""
    if verdict := taskset_verdict(roles, states):
        return verdict.state
    waiting = all(state is ReplicaState.WAITING for state in states.values())
    return ReplicaState.WAITING if waiting else ReplicaState.RUNNING


def roll_up(
    roles: Sequence[Role],
    replicas: Mapping[str, Sequence[ReplicaState]],
    before: Mapping[str, ReplicaState] = _UNDECIDED,
    verdict: TaskSetVerdict | None = None,
) -> RollUp:
    """All that follows from the states of the replicas of one job attempt.

    `replicas` has for each role the states of its replicas by index. `before` has the last known states of the roles,
    `verdict` is that of the TaskSet if there was one. Roles that have not ended when the TaskSet does are `stopped`.
    """
    states = {
        role.name: role_state(role, replicas.get(role.name, ()), before.get(role.name, ReplicaState.WAITING))
        for role in roles
    }
    verdict = verdict or taskset_verdict(roles, states)
    if verdict:
        overtaken = {name: ReplicaState.STOPPED for name, state in states.items() if not state.ended}
        return RollUp(states | overtaken, verdict.state, verdict, _to_stop(roles, replicas, states | overtaken))
    return RollUp(states, taskset_state(roles, states), None, _to_stop(roles, replicas, states))


def _to_stop(
    roles: Sequence[Role], replicas: Mapping[str, Sequence[ReplicaState]], states: Mapping[str, ReplicaState]
) -> frozenset[tuple[str, int]]:
    """The replicas that have not ended though their role has; also unknown ones, which may appear later."""
    return frozenset(
        (role.name, index)
        for role in roles
        if states[role.name].ended
        for index in range(role.replicas)
        if index >= len(known := replicas.get(role.name, ())) or not known[index].ended
    )


def _decided_by(role: Role, state: ReplicaState) -> TaskSetVerdict | None:
    if state not in _EVENTS:
        return None
    for rule in role.event_policy:
        if rule.event in (_EVENTS[state], RoleEvent.ROLE_COMPLETED) and rule.action is not RoleAction.NO_ACTION:
            verdict = _VERDICTS.get(rule.action, state)
            return TaskSetVerdict(
                verdict, f"role {role.name} {_in_words(state)} ({rule.event} → {rule.action})", role.name
            )
    return None


def _in_words(state: ReplicaState) -> str:
    return "was stopped" if state is ReplicaState.STOPPED else state.value
