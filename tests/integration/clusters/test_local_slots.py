"""How many replicas of the local cluster run at a time, and whose turn it is."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from pipeline_core.clusters.base import LogQuery, ReplicaKey
from pipeline_core.clusters.local import attempt
from pipeline_core.clusters.local.driver import LocalCluster
from pipeline_core.clusters.local.journal import Journal, Key
from pipeline_core.states import ReplicaState
from tests.builders import container, launch_request, role, script_request
from tests.integration.clusters.support import FOREVER, all_in, ended, gone, parent_of, seen, texts
from tests.waiting import wait_for


def cluster(root: Path, slots: int) -> LocalCluster:
    return LocalCluster("narrow", root, slots=slots, grace_seconds=0.5)


def running(cluster: LocalCluster, *job_ids: str) -> list[int]:
    counts = cluster.running()
    return [counts.get(job_id, 0) for job_id in job_ids]


def waits(cluster: LocalCluster, job_id: str) -> bool:
    return any(replica.reason == "WaitingForSlot" for replica in seen(cluster, job_id).replicas)


def keeper(root: Path, job_id: str) -> int:
    return int(Journal.read(str(root / f"jobs/{job_id}/0/journal")).attempts[Key(("worker", 0, 0))]["keeper"])


def test_only_so_many_replicas_run_at_a_time(root: Path, local: LocalCluster) -> None:
    narrow = cluster(root, 2)
    script = "echo begin; sleep 0.2; echo end"
    for job_id in ("one", "two"):
        narrow.launch(script_request(job_id, script, count=3))
    wait_for(
        lambda: any(
            replica.reason == "WaitingForSlot" for job_id in ("one", "two") for replica in seen(narrow, job_id).replicas
        )
    )
    lines = []
    for job_id in ("one", "two"):
        ended(narrow, job_id)
        lines += list(narrow.logs(job_id, LogQuery()))
    running = most = 0
    for line in sorted(lines, key=lambda line: line.time):
        running += 1 if line.text == "begin" else -1
        most = max(most, running)
    assert most == 2
    assert len(lines) == 12


def test_a_waiting_job_can_be_deleted(root: Path, local: LocalCluster) -> None:
    narrow = cluster(root, 1)
    narrow.launch(script_request("one", FOREVER))
    all_in(narrow, "one", ReplicaState.RUNNING)
    narrow.launch(script_request("two", "echo started"))
    wait_for(lambda: seen(narrow, "two").replicas[0].reason == "WaitingForSlot")
    gone(narrow, "two")
    assert seen(narrow, "two").replicas[0].state is ReplicaState.STOPPED
    assert texts(narrow, "two") == []
    assert seen(narrow, "one").replicas[0].state is ReplicaState.RUNNING


def test_the_user_with_fewer_running_replicas_is_next(root: Path, local: LocalCluster, tmp_path: Path) -> None:
    narrow = cluster(root, 2)
    script = f'echo "$TASKROLE_REPLICA_INDEX"; until test -e {tmp_path}/"$TASKROLE_REPLICA_INDEX"; do sleep 0.05; done'
    narrow.launch(script_request("many", script, count=4, user="u1"))
    wait_for(lambda: running(narrow, "many") == [2] and waits(narrow, "many"))
    narrow.launch(script_request("late", FOREVER, user="u2"))
    wait_for(lambda: waits(narrow, "late"))
    (tmp_path / "0").touch()
    wait_for(lambda: running(narrow, "many", "late") == [1, 1])
    (tmp_path / "1").touch()
    wait_for(lambda: sorted(texts(narrow, "many")) == ["0", "1", "2"])


def test_within_a_user_whoever_came_first_is_next(root: Path, local: LocalCluster) -> None:
    narrow = cluster(root, 1)
    narrow.launch(script_request("holder", FOREVER, user="another"))
    all_in(narrow, "holder", ReplicaState.RUNNING)
    for job_id in ("first", "second"):
        narrow.launch(script_request(job_id, "true", count=3))
        wait_for(lambda job_id=job_id: waits(narrow, job_id))  # type: ignore[misc]
    gone(narrow, "holder")
    first, second = (ended(narrow, job_id).replicas for job_id in ("first", "second"))
    assert max(one.started_at for one in first if one.started_at) < min(
        one.started_at for one in second if one.started_at
    )


def test_jobs_whose_replicas_wait_for_each_other_do_not_hold_each_other_up(
    root: Path, local: LocalCluster, tmp_path: Path
) -> None:
    narrow = cluster(root, 4)
    jobs = [f"job-{number}" for number in range(4)]
    for job_id in jobs:
        here = tmp_path / job_id
        here.mkdir()
        place = f'{here}/"$TASKROLE_NAME-$TASKROLE_REPLICA_INDEX"'
        script = f'touch {place}; until test "$(ls {here} | wc -l)" = 3; do sleep 0.05; done'
        roles = role("chief", container(script)), role("worker", container(script), replicas=2)
        narrow.launch(launch_request(job_id, *roles, user=job_id))
    for job_id in jobs:
        assert {replica.state for replica in ended(narrow, job_id).replicas} == {ReplicaState.SUCCEEDED}


@pytest.mark.parametrize("with_supervisor", [False, True])
def test_the_slots_of_the_dead_are_free(root: Path, local: LocalCluster, with_supervisor: bool) -> None:
    narrow = cluster(root, 1)
    narrow.launch(script_request("one", FOREVER))
    all_in(narrow, "one", ReplicaState.RUNNING)
    narrow.launch(script_request("two", FOREVER))
    wait_for(lambda: waits(narrow, "two"))
    pid = keeper(root, "one")
    for victim in [parent_of(pid), pid] if with_supervisor else [pid]:
        os.kill(victim, signal.SIGKILL)
    all_in(narrow, "two", ReplicaState.RUNNING)
    assert seen(narrow, "one").replicas[0].reason == "SupervisorLost"
    gone(narrow, "two")
    assert os.listdir(root / "slots/line") == []
    assert len(os.listdir(root / "slots/held")) == 0


def test_the_dead_do_not_stand_in_line(root: Path, local: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = cluster(root, 1)
    narrow.launch(script_request("one", FOREVER))
    all_in(narrow, "one", ReplicaState.RUNNING)
    for job_id in ("two", "three"):
        narrow.launch(script_request(job_id, "true"))
        wait_for(lambda job_id=job_id: waits(narrow, job_id))  # type: ignore[misc]
    files = attempt.AttemptFiles(str(root / "jobs/two/0"))
    (victim,) = [int(name) for name in os.listdir("/proc") if name.isdigit() and _has(int(name), files.path)]
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: not files.held())
    gone(narrow, "one")
    assert ended(narrow, "three").replicas[0].state is ReplicaState.SUCCEEDED
    monkeypatch.setattr(attempt, "START_SECONDS", 0.0)
    assert ended(narrow, "two").replicas[0].state is ReplicaState.SUCCEEDED


def test_who_waits_no_more_does_not_stand_in_line(root: Path, local: LocalCluster, tmp_path: Path) -> None:
    narrow = cluster(root, 2)
    script = f'test "$TASKROLE_REPLICA_INDEX" = 0 || {FOREVER}; until test -e {tmp_path}/go; do sleep 0.05; done'
    narrow.launch(script_request("one", script, count=3))
    wait_for(lambda: running(narrow, "one") == [2] and waits(narrow, "one"))
    narrow.launch(script_request("two", FOREVER))
    wait_for(lambda: waits(narrow, "two"))
    narrow.delete("one", [ReplicaKey("worker", 2)])
    wait_for(lambda: seen(narrow, "one").replicas[2].state is ReplicaState.STOPPED)
    (tmp_path / "go").touch()
    all_in(narrow, "two", ReplicaState.RUNNING)
    assert running(narrow, "one") == [1]


def _has(pid: int, argument: str) -> bool:
    try:
        return argument.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_without_a_limit_all_run(root: Path, local: LocalCluster) -> None:
    wide = cluster(root, 0)
    wide.launch(script_request("job", FOREVER, count=5))
    all_in(wide, "job", ReplicaState.RUNNING)
    # They count as soon as there is a limit again.
    narrow = cluster(root, 5)
    narrow.launch(script_request("late", "true", user="another"))
    wait_for(lambda: waits(narrow, "late"))


def test_another_limit_holds_for_those_that_wait_already(root: Path, local: LocalCluster) -> None:
    narrow, wide = cluster(root, 1), cluster(root, 3)
    narrow.launch(script_request("job", FOREVER, count=3))
    wait_for(lambda: running(narrow, "job") == [1] and waits(narrow, "job"))
    wide.launch(script_request("late", "true", user="another"))
    all_in(wide, "job", ReplicaState.RUNNING)
    assert waits(wide, "late")
