"""What replicas of the local cluster leave behind in `/output` and `/metric.json`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.clusters.base import ReplicaKey, ReplicaResult
from pipeline_core.clusters.local import driver
from pipeline_core.clusters.local.driver import LocalCluster
from pipeline_core.states import ReplicaState
from pipeline_core.taskset.results import MAX_METRICS, MAX_OUTPUT
from tests.builders import collecting, container, launch_request, role, script_request
from tests.integration.clusters.support import ended, gone, left, seen, the_end
from tests.waiting import wait_for


def left_by(cluster: LocalCluster, script: str, **fields: Any) -> ReplicaResult | None:
    """What a replica that succeeded with this script left behind."""
    replica = the_end(cluster, script_request("job", script, **fields))
    assert (replica.state, replica.diagnostics) == (ReplicaState.SUCCEEDED, "")
    found = left(cluster, "job")
    assert len(found) < 2
    return found[0] if found else None


def test_output_and_metrics_are_what_the_container_wrote(local: LocalCluster) -> None:
    found = left_by(local, """printf 'a\\nb\\n' > /output; echo '{"series": []}' > /metric.json""")
    assert found == ReplicaResult("worker", 0, output=b"a\nb\n", metrics=b'{"series": []}\n')
    assert left(local, "job") == (found,)


@pytest.mark.parametrize("script", ["true", ": > /output", "cat /output /metric.json"])
def test_a_replica_that_leaves_nothing_has_no_result(local: LocalCluster, script: str) -> None:
    assert left_by(local, script) is None


def test_results_outlive_the_deletion_of_the_job_but_not_its_pruning(local: LocalCluster) -> None:
    assert left_by(local, "echo a > /output")
    gone(local, "job")
    assert [result.output for result in left(local, "job")] == [b"a\n"]
    local.prune(["job"])
    assert left(local, "job") == left(local, "unknown") == ()


def test_what_is_too_long_comes_with_one_byte_more_than_may_be_kept(local: LocalCluster) -> None:
    found = left_by(local, "head -c 3000000 /dev/zero > /output; head -c 3000000 /dev/zero > /metric.json")
    assert found is not None
    assert (found.output, found.metrics) == (bytes(MAX_OUTPUT + 1), bytes(MAX_METRICS + 1))


def test_bytes_that_are_no_text_come_as_they_are(local: LocalCluster) -> None:
    found = left_by(local, r"printf '\377\0' > /output")
    assert found is not None
    assert found.output == b"\xff\0"


@pytest.mark.parametrize(
    ("replacement", "problem"),
    [
        ("ln -s /etc/passwd {}", "Too many levels of symbolic links"),
        ("mkfifo {}", "is no regular file"),
        ("mkdir {}", "is no regular file"),
        ("python3 -c 'import socket as s; s.socket(s.AF_UNIX).bind(\"{}\")'", "No such device or address"),
    ],
)
def test_what_is_put_in_the_place_of_a_file_is_not_followed(
    local: LocalCluster, root: Path, replacement: str, problem: str
) -> None:
    directory = root / "jobs" / "job" / "0" / "results" / "worker.0.0" / "main"
    script = f"cd {directory} && rm output && {replacement.format('output')}"
    found = left_by(local, script)
    assert found is not None
    assert found.output is None
    assert problem in found.output_problem


def test_the_machines_own_files_are_not_touched(local: LocalCluster) -> None:
    before = [os.path.lexists(path) for path in ("/output", "/metric.json")]
    assert left_by(local, "echo a > /output; echo [] > /metric.json")
    assert [os.path.lexists(path) for path in ("/output", "/metric.json")] == before


def test_only_replicas_that_have_ended_have_results_and_failed_ones_too(local: LocalCluster) -> None:
    script = "echo $TASKROLE_REPLICA_INDEX > /output; [ $TASKROLE_REPLICA_INDEX = 0 ] && exit 3; sleep 300"
    local.launch(script_request("job", script, count=2))
    states = [ReplicaState.FAILED, ReplicaState.RUNNING]
    wait_for(lambda: [replica.state for replica in seen(local, "job").replicas] == states)
    assert [(result.index, result.output) for result in left(local, "job")] == [(0, b"0\n")]


def test_the_latest_attempt_of_a_replica_counts(local: LocalCluster) -> None:
    launched = script_request("job", "echo $HOME > /output")
    the_end(local, launched)
    again = script_request(
        "job", "echo $HOME > /output", replicas=(ReplicaKey("worker", 0, 0), ReplicaKey("worker", 0, 1))
    )
    local.launch(again)
    ended(local, "job")
    (found,) = left(local, "job")
    assert (found.attempt, (found.output or b"")[-9:]) == (1, b"orker.0.1\n"[-9:])


def test_the_first_container_that_counts_and_left_something_speaks_for_the_replica(local: LocalCluster) -> None:
    containers = [container(f"echo {name} > /output", name) for name in ("aside", "b", "c")]
    silent = container("true", "a")
    annotations = {"pipeline/sidecars": '["aside"]'}
    inits = [container("echo init > /output", "init")]
    launched = launch_request(
        "job", role("worker", containers[0], silent, *containers[1:], annotations=annotations, initContainers=inits)
    )
    the_end(local, launched)
    assert [result.output for result in left(local, "job")] == [b"b\n"]


def test_a_container_that_is_started_again_starts_with_empty_files(local: LocalCluster) -> None:
    script = "cat /output > /metric.json; echo x >> /output; mkdir $HOME/again || exit 0; exit 1"
    replica = the_end(local, launch_request("job", role("worker", container(script), restartPolicy="OnFailure")))
    assert replica.state is ReplicaState.SUCCEEDED
    assert [(result.output, result.metrics) for result in left(local, "job")] == [(b"x\n", None)]


def test_a_volume_at_the_place_of_a_file_is_left_alone(local: LocalCluster) -> None:
    one = container(
        "echo a > /output/file; echo '[]' > /metric.json", volumeMounts=[{"name": "v", "mountPath": "/output"}]
    )
    replica = the_end(local, launch_request("job", role("worker", one, volumes=[{"name": "v", "emptyDir": {}}])))
    assert (replica.state, replica.diagnostics) == (ReplicaState.SUCCEEDED, "")
    assert left(local, "job") == (ReplicaResult("worker", 0, metrics=b"[]\n"),)


def test_without_mount_namespaces_jobs_run_and_what_they_were_asked_for_is_unknown(
    local: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "mount_problem", lambda: "unshare: Operation not permitted")
    assert left_by(local, "true") is None
    the_end(local, collecting(script_request("asking", "true")))
    (found,) = left(local, "asking")
    assert found.unknown
    assert "not collected" in found.output_problem
    notes = ended(local, "asking").platform["notes"]
    assert any(note.endswith("unshare: Operation not permitted") for note in notes)
