"""Helpers for tests of clusters: launch requests, and waiting for states."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from pipeline_core.clusters.base import (
    Cluster,
    LaunchRequest,
    LogQuery,
    Observation,
    ReplicaKey,
    ReplicaReport,
    ReplicaResult,
    StillEnding,
)
from pipeline_core.jobs.replicas import counted
from pipeline_core.states import ReplicaState
from pipeline_core.taskset.document import roles as roles_of
from pipeline_core.taskset.rollup import RollUp, roll_up
from tests.waiting import wait_for

FOREVER = "sleep 300"
ESCAPEE = "trap '' TERM; (setsid sh -c 'echo $$$$; exec sleep 300' &); "
"""A child in a session of its own that ignores SIGTERM, and whose parent is gone."""


def seen(cluster: Cluster, job_id: str) -> Observation:
    observation = cluster.observe(job_id)
    assert observation is not None
    return observation


def all_in(cluster: Cluster, job_id: str, *states: ReplicaState) -> Observation:
    """The observation in which every replica is in one of these states, once that is so."""

    def look() -> Observation | None:
        observation = seen(cluster, job_id)
        return observation if all(replica.state in states for replica in observation.replicas) else None

    return wait_for(look)


def ended(cluster: Cluster, job_id: str) -> Observation:
    return all_in(cluster, job_id, *(state for state in ReplicaState if state.ended))


def the_end(cluster: Cluster, launched: LaunchRequest) -> ReplicaReport:
    """Launch one replica and wait for its end."""
    cluster.launch(launched)
    (replica,) = ended(cluster, launched.job_id).replicas
    return replica


def gone(cluster: Cluster, job_id: str) -> None:
    """Delete a job and wait until nothing of it runs."""
    wait_for(lambda: cluster.delete(job_id))


def texts(cluster: Cluster, job_id: str, query: LogQuery | None = None) -> list[str]:
    return [line.text for line in cluster.logs(job_id, query or LogQuery()) if line]


def launches(cluster: Cluster, launched: LaunchRequest) -> bool:
    """Whether the launch was taken; not while an earlier attempt is ending."""
    try:
        return bool(cluster.launch(launched))
    except StillEnding:
        return False


def carried_through(cluster: Cluster, launched: LaunchRequest) -> RollUp:
    """Launch a TaskSet and do what its policies say until there is a verdict."""
    roles = roles_of(launched.taskset)
    states: Mapping[str, ReplicaState] = {}
    cluster.launch(launched)

    def look() -> RollUp | None:
        nonlocal states
        observed = {(one.role, one.index): one for one in seen(cluster, launched.job_id).replicas}
        counts = {
            role.name: [counted(role, observed.get((role.name, index))) for index in range(role.replicas)]
            for role in roles
        }
        result = roll_up(roles, counts, states)
        states = result.roles
        keys = {place: ReplicaKey(one.role, one.index, one.attempt) for place, one in observed.items()}
        if result.verdict:
            return result
        if needless := [keys[place] for place in result.stop if place in keys]:
            cluster.delete(launched.job_id, needless)
        again = [
            replace(key, attempt=key.attempt + 1)
            for role in roles
            for place, key in keys.items()
            if place[0] == role.name
            and observed[place].state is ReplicaState.FAILED
            and not states[role.name].ended
            and role.retry.allows(key.attempt)
        ]
        if again:
            cluster.launch(replace(launched, replicas=tuple(again)))
        return None

    return wait_for(look)


def parent_of(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def left(cluster: Cluster, job_id: str) -> tuple[ReplicaResult, ...]:
    """What a job left behind."""
    return tuple(cluster.results(job_id))


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes_naming(text: str) -> list[int]:
    """Processes that have the text among their arguments or are in a directory below it."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    arguments = file.read()
                place = os.readlink(f"/proc/{name}/cwd")
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if (text.encode() in arguments or place.startswith(text)) and alive(int(name)):
                found.append(int(name))
    return found
