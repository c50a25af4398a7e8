"""What every cluster driver must do, whatever it runs replicas with."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from pipeline_core.clusters.base import (
    Cluster,
    ForeignObject,
    LogQuery,
    NoSuchAttempt,
    Observation,
    ReplicaKey,
    ReplicaResult,
    StillEnding,
)
from pipeline_core.states import ReplicaState
from tests.builders import collecting, container, launch_request, role, script_request
from tests.integration.clusters.support import (
    FOREVER,
    all_in,
    carried_through,
    ended,
    gone,
    launches,
    left,
    seen,
    texts,
    the_end,
)
from tests.waiting import wait_for

POD = {"env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}
RETRY = {"retry": True, "delay": 0, "maxRetryCount": 2}


def test_replicas_that_exit_with_0_have_succeeded(cluster: Cluster) -> None:
    # Some clusters tell times to the second only.
    before = datetime.now(UTC).replace(microsecond=0)
    launched = cluster.launch(script_request("job", "true", count=3))
    assert [(replica.role, replica.index) for replica in launched.replicas] == [("worker", index) for index in range(3)]
    observation = ended(cluster, "job")
    assert (observation.job_id, observation.attempt) == ("job", 0)
    for replica in observation.replicas:
        assert (replica.state, replica.exit_code, replica.reason) == (ReplicaState.SUCCEEDED, 0, "")
        assert replica.started_at is not None
        assert replica.finished_at is not None
        assert before <= replica.started_at <= replica.finished_at <= datetime.now(UTC)
        assert replica.pod_name == f"job-worker-0-0-{replica.index}"
        assert replica.container_id
        assert replica.host_ip
    assert len({replica.pod_uid for replica in observation.replicas}) == 3


def test_a_running_replica_is_observed_as_running(cluster: Cluster) -> None:
    cluster.launch(script_request("job", FOREVER))
    (replica,) = all_in(cluster, "job", ReplicaState.RUNNING).replicas
    assert replica.started_at is not None
    assert replica.finished_at is None
    assert replica.exit_code is None


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 3", 3),
        ("sh -c 'kill -9 $$$$'; exit $?", 137),
        ("sh -c 'kill -TERM $$$$'; exit $?", 143),
        ("no-such-program", 127),
    ],
)
def test_a_replica_that_exits_otherwise_has_failed_with_its_code(cluster: Cluster, script: str, code: int) -> None:
    replica = the_end(cluster, script_request("job", f"echo last words; {script}"))
    assert (replica.state, replica.reason, replica.exit_code) == (ReplicaState.FAILED, "Error", code)
    assert replica.diagnostics.startswith("last words")


def test_a_command_that_cannot_be_executed_is_a_start_error(cluster: Cluster) -> None:
    replica = the_end(cluster, launch_request("job", role("worker", container("", command=["/no/such/program"]))))
    assert (replica.state, replica.reason, replica.exit_code) == (ReplicaState.FAILED, "StartError", 127)
    assert "/no/such/program" in replica.diagnostics


def test_diagnostics_are_the_last_2_KiB_of_the_log(cluster: Cluster) -> None:
    replica = the_end(cluster, script_request("job", "seq 1 5000; exit 1"))
    assert replica.diagnostics.endswith("4999\n5000")
    assert 2000 < len(replica.diagnostics) <= 2048


def test_launching_twice_runs_once(cluster: Cluster) -> None:
    launched = script_request("job", "echo started", count=3)
    cluster.launch(launched)
    cluster.launch(launched)
    ended(cluster, "job")
    again = cluster.launch(launched)
    assert {replica.state for replica in again.replicas} == {ReplicaState.SUCCEEDED}
    assert texts(cluster, "job") == ["started"] * 3


def test_a_job_of_somebody_else_is_foreign(cluster: Cluster) -> None:
    cluster.launch(script_request("job", "true"))
    with pytest.raises(ForeignObject, match="job"):
        cluster.launch(script_request("job", "true", user="another"))


def test_an_unknown_job_has_no_observation(cluster: Cluster) -> None:
    assert cluster.observe("nobody") is None
    assert cluster.delete("nobody") is True
    assert texts(cluster, "nobody") == []
    assert texts(cluster, "nobody", LogQuery(follow=True)) == []


def test_a_retry_is_a_new_attempt_of_that_replica_alone(cluster: Cluster) -> None:
    script = 'echo "$TASKROLE_REPLICA_INDEX"; exit "$TASKROLE_REPLICA_INDEX"'
    cluster.launch(script_request("job", script, count=2))
    ended(cluster, "job")
    first, second, retry = ReplicaKey("worker", 0), ReplicaKey("worker", 1), ReplicaKey("worker", 1, attempt=1)
    cluster.launch(script_request("job", script, count=2, replicas=(first, second, retry)))
    observation = ended(cluster, "job")
    assert [(replica.index, replica.attempt) for replica in observation.replicas] == [(0, 0), (1, 1)]
    assert observation.replicas[1].pod_name == "job-worker-0-1-1"
    assert sorted(texts(cluster, "job")) == ["0", "1"]
    assert texts(cluster, "job", LogQuery(index=1, attempt=1)) == ["1"]


def test_a_retry_is_taken_up_while_others_run(cluster: Cluster) -> None:
    script = 'test "$TASKROLE_REPLICA_INDEX" = 1 && exit 1; sleep 300'
    cluster.launch(script_request("job", script, count=2))
    wait_for(
        lambda: [one.state for one in seen(cluster, "job").replicas] == [ReplicaState.RUNNING, ReplicaState.FAILED]
    )
    cluster.launch(script_request("job", script, count=2, replicas=(ReplicaKey("worker", 1, attempt=1),)))
    wait_for(lambda: (seen(cluster, "job").replicas[1].attempt, seen(cluster, "job").replicas[1].exit_code) == (1, 1))
    assert seen(cluster, "job").replicas[0].state is ReplicaState.RUNNING


def test_a_later_attempt_takes_the_place_of_the_earlier(cluster: Cluster) -> None:
    cluster.launch(script_request("job", "echo zero; sleep 300"))
    wait_for(lambda: texts(cluster, "job") == ["zero"])
    with pytest.raises(StillEnding):
        cluster.launch(script_request("job", "echo one; sleep 300", attempt=1))
    assert all(replica.state is not ReplicaState.WAITING for replica in seen(cluster, "job").replicas)
    wait_for(lambda: launches(cluster, script_request("job", "echo one; sleep 300", attempt=1)))
    observation = all_in(cluster, "job", ReplicaState.RUNNING)
    assert observation.attempt == 1
    assert observation.replicas[0].pod_name == "job-worker-1-0-0"
    late = cluster.launch(script_request("job", "echo zero; sleep 300"))
    assert late.attempt == 1
    wait_for(lambda: "one" in texts(cluster, "job"))
    assert texts(cluster, "job", LogQuery(attempt=0)) == ["zero"]
    assert texts(cluster, "job", LogQuery(attempt=1)) == texts(cluster, "job") == ["one"]


def test_deleting_stops_everything_and_keeps_the_logs(cluster: Cluster) -> None:
    cluster.launch(script_request("job", "echo hello; sleep 300", count=2))
    wait_for(lambda: texts(cluster, "job") == ["hello", "hello"])
    gone(cluster, "job")
    assert cluster.delete("job") is True
    for replica in seen(cluster, "job").replicas:
        assert (replica.state, replica.reason) == (ReplicaState.STOPPED, "Stopped")
        assert replica.finished_at is not None
    assert texts(cluster, "job") == ["hello", "hello"]


def test_a_deleted_job_is_not_started_again(cluster: Cluster) -> None:
    launched = script_request("job", "echo started; sleep 300")
    cluster.launch(launched)
    wait_for(lambda: texts(cluster, "job") == ["started"])
    gone(cluster, "job")
    assert {replica.state for replica in cluster.launch(launched).replicas} == {ReplicaState.STOPPED}
    assert texts(cluster, "job") == ["started"]


def test_a_replica_may_end_well_within_its_grace_time(cluster: Cluster) -> None:
    script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    cluster.launch(launch_request("job", role("worker", container(script), terminationGracePeriodSeconds=20)))
    wait_for(lambda: texts(cluster, "job") == ["ready"])
    gone(cluster, "job")
    (replica,) = seen(cluster, "job").replicas
    assert (replica.state, replica.exit_code) == (ReplicaState.STOPPED, 7)
    assert texts(cluster, "job")[-1] == "bye"


def test_a_replica_that_ignores_its_grace_time_is_killed(cluster: Cluster) -> None:
    cluster.launch(script_request("job", "trap '' TERM; echo ready; while :; do sleep 0.05; done"))
    wait_for(lambda: texts(cluster, "job") == ["ready"])
    gone(cluster, "job")
    (replica,) = seen(cluster, "job").replicas
    assert (replica.state, replica.exit_code) == (ReplicaState.STOPPED, 137)


def test_some_replicas_can_be_deleted_alone(cluster: Cluster) -> None:
    cluster.launch(script_request("job", FOREVER, count=3))
    all_in(cluster, "job", ReplicaState.RUNNING)
    wait_for(lambda: cluster.delete("job", [ReplicaKey("worker", 1)]))
    states = [replica.state for replica in seen(cluster, "job").replicas]
    assert states == [ReplicaState.RUNNING, ReplicaState.STOPPED, ReplicaState.RUNNING]


def test_an_ended_replica_keeps_its_state_when_it_is_deleted(cluster: Cluster) -> None:
    the_end(cluster, script_request("job", "true"))
    gone(cluster, "job")
    assert seen(cluster, "job").replicas[0].state is ReplicaState.SUCCEEDED


def _singly(watched: Iterator[Collection[str]]) -> Iterator[str]:
    """The names one by one, an empty one for a sign of life."""
    for names in watched:
        yield from names or [""]


def test_the_watch_names_the_jobs_that_are_there_and_those_that_change(cluster: Cluster) -> None:
    the_end(cluster, script_request("before", "true"))
    stop = threading.Event()
    names = _singly(cluster.watch(stop))
    assert next(name for name in names if name) == "before"
    cluster.launch(script_request("during", "true"))
    assert next(name for name in names if name != "before" and name) == "during"
    while seen(cluster, "during").replicas[0].state is not ReplicaState.SUCCEEDED:
        assert next(name for name in names if name) == "during"
    assert next(name for name in names if not name) == ""
    stop.set()
    assert "during" not in list(names)


def test_the_watch_forgets_deleted_jobs(cluster: Cluster) -> None:
    for job_id in ("kept", "deleted"):
        the_end(cluster, script_request(job_id, "true"))
    gone(cluster, "deleted")
    stop = threading.Event()
    names = _singly(cluster.watch(stop))
    first = next(names)
    stop.set()
    assert [first, *names] == ["kept"]


def test_each_container_knows_its_place(cluster: Cluster) -> None:
    script = "env | grep '^TASK' | sort"
    cluster.launch(
        launch_request("job", role("worker", container(script), replicas=2), role("param-server", container("true")))
    )
    ended(cluster, "job")
    lines = dict(line.split("=", 1) for line in texts(cluster, "job", LogQuery(role="worker", index=1)))
    assert len(lines.pop("TASKROLE_HOSTS_WORKER").split(",")) == 2
    assert len(lines.pop("TASKROLE_HOSTS_PARAM_SERVER").split(",")) == 1
    assert lines == {
        "TASKSET_NAMESPACE": "default",
        "TASKSET_NAME": "set-job",
        "TASKROLE_NAME": "worker",
        "TASKROLE_REPLICA_INDEX": "1",
    }


def test_variables_and_arguments_are_expanded(cluster: Cluster) -> None:
    fields = {
        "args": ["sh", "$(PLACE)", "$$(PLACE)", "$(UNKNOWN)"],
        "env": [
            {"name": "PLACE", "value": "$(TASKROLE_NAME)-$(TASKROLE_REPLICA_INDEX)"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
    }
    the_end(cluster, launch_request("job", role("worker", container('echo "$1" "$2" "$3" "$POD"', **fields))))
    assert texts(cluster, "job") == ["worker-0 $(PLACE) $(UNKNOWN) job-worker-0-0-0"]


def test_init_containers_run_one_after_the_other_before_the_others(cluster: Cluster) -> None:
    inits = [container("sleep 0.2; echo first", "one"), container("echo second", "two")]
    the_end(cluster, launch_request("job", role("worker", container("echo third"), initContainers=inits)))
    lines = list(filter(None, cluster.logs("job", LogQuery())))
    assert [line.text for line in lines] == ["first", "second", "third"]
    assert [line.source for line in lines] == ["worker-0/one", "worker-0/two", "worker-0/main"]
    gone(cluster, "job")
    assert list(cluster.logs("job", LogQuery())) == lines


def test_a_failed_init_container_fails_the_replica(cluster: Cluster) -> None:
    inits = [container("exit 4", "one"), container("echo never", "two")]
    replica = the_end(cluster, launch_request("job", role("worker", container("echo never"), initContainers=inits)))
    assert (replica.state, replica.exit_code) == (ReplicaState.FAILED, 4)
    assert texts(cluster, "job") == []


def test_the_first_failed_container_says_how_the_replica_failed(cluster: Cluster) -> None:
    containers = [container("true", "a"), container("sleep 0.3; exit 5", "b"), container("exit 6", "c")]
    replica = the_end(cluster, launch_request("job", role("worker", *containers)))
    assert (replica.state, replica.exit_code) == (ReplicaState.FAILED, 5)


def test_sidecars_do_not_count_and_end_with_the_others(cluster: Cluster) -> None:
    sidecar = container("trap 'echo side ends; exit 9' TERM; while :; do sleep 0.05; done", "side")
    native = container(
        "trap 'echo native ends; exit 9' TERM; while :; do sleep 0.05; done", "native", restartPolicy="Always"
    )
    annotations = {"pipeline/sidecars": '["side"]'}
    main = container("sleep 0.3; echo main ends")
    pod = role(
        "worker", main, sidecar, annotations=annotations, initContainers=[native], terminationGracePeriodSeconds=20
    )
    replica = the_end(cluster, launch_request("job", pod))
    assert (replica.state, replica.exit_code) == (ReplicaState.SUCCEEDED, 0)
    lines = [line for line in texts(cluster, "job") if line.endswith("ends")]
    assert lines[0] == "main ends"
    assert sorted(lines[1:]) == ["native ends", "side ends"]


def test_on_failure_starts_the_container_again(cluster: Cluster) -> None:
    script = "echo try; test -e /marks/done && exit 0; touch /marks/done; exit 1"
    main = container(script, volumeMounts=[{"name": "marks", "mountPath": "/marks"}])
    pod = role("worker", main, restartPolicy="OnFailure", volumes=[{"name": "marks", "emptyDir": {}}])
    replica = the_end(cluster, launch_request("job", pod))
    assert (replica.state, replica.attempt, replica.restarts) == (ReplicaState.SUCCEEDED, 0, 1)
    assert texts(cluster, "job") == ["try", "try"]


def test_a_pod_that_exceeds_its_deadline_has_failed(cluster: Cluster) -> None:
    replica = the_end(cluster, launch_request("job", role("worker", container(FOREVER), activeDeadlineSeconds=1)))
    assert (replica.state, replica.reason) == (ReplicaState.FAILED, "DeadlineExceeded")


def test_a_taskset_that_exceeds_its_deadline_has_failed(cluster: Cluster) -> None:
    cluster.launch(script_request("job", FOREVER, count=2, activeDeadlineSeconds=1))
    reasons = {(replica.state, replica.reason) for replica in ended(cluster, "job").replicas}
    assert reasons == {(ReplicaState.FAILED, "DeadlineExceeded")}


def test_a_deadline_leaves_what_has_ended_before(cluster: Cluster) -> None:
    script = f'test "$TASKROLE_REPLICA_INDEX" = 0 || {FOREVER}'
    cluster.launch(script_request("job", script, count=2, activeDeadlineSeconds=4))
    first, second = ended(cluster, "job").replicas
    assert (first.state, first.exit_code) == (ReplicaState.SUCCEEDED, 0)
    assert (second.state, second.reason) == (ReplicaState.FAILED, "DeadlineExceeded")


def test_a_replica_that_exceeded_the_deadline_of_its_pod_is_retried(cluster: Cluster) -> None:
    pod = role("worker", container(f'case "$POD" in *-1-0) ;; *) {FOREVER};; esac', **POD), activeDeadlineSeconds=2)
    result = carried_through(cluster, launch_request("job", {**pod, "retryPolicy": RETRY}))
    assert result.state is ReplicaState.SUCCEEDED
    assert seen(cluster, "job").replicas[0].attempt == 1


def test_a_replica_is_retried_until_it_succeeds(cluster: Cluster) -> None:
    pod = role("worker", container('echo "$POD"; case "$POD" in *-2-0) ;; *) exit 3;; esac', **POD))
    result = carried_through(cluster, launch_request("job", {**pod, "retryPolicy": RETRY}))
    assert result.state is ReplicaState.SUCCEEDED
    for attempt in range(3):
        assert texts(cluster, "job", LogQuery(attempt=attempt)) == [f"job-worker-0-{attempt}-0"]


def test_a_replica_that_used_up_its_retries_has_failed(cluster: Cluster) -> None:
    result = carried_through(
        cluster, launch_request("job", {**role("worker", container("exit 3")), "retryPolicy": RETRY})
    )
    assert result.state is ReplicaState.FAILED
    (replica,) = seen(cluster, "job").replicas
    assert (replica.attempt, replica.exit_code) == (2, 3)


@pytest.mark.parametrize(
    ("script", "policy", "expected", "counts"),
    [
        (f'test "$N" = 0 || {FOREVER}', {"minSucceeded": 1}, "succeeded", {"succeeded": 1, "stopped": 2}),
        (f'test "$N" = 0 && {FOREVER}; exit 1', {"maxFailed": 2}, "failed", {"failed": 2, "stopped": 1}),
        ('exit "$N"', {"minSucceeded": 1, "maxFailed": 3}, "succeeded", None),
        ('exit "$N"', {"maxFailed": 3}, "failed", {"succeeded": 1, "failed": 2}),
    ],
)
def test_a_role_ends_by_its_completion_policy(
    cluster: Cluster, script: str, policy: dict[str, int], expected: str, counts: dict[str, int] | None
) -> None:
    own = container(script.replace("$N", "$TASKROLE_REPLICA_INDEX"))
    result = carried_through(
        cluster, launch_request("job", {**role("worker", own, replicas=3), "completionPolicy": policy})
    )
    assert result.roles == {"worker": ReplicaState(expected)}
    gone(cluster, "job")
    states = Counter(replica.state.value for replica in seen(cluster, "job").replicas)
    assert counts is None or states == counts


def test_what_a_role_needs_no_more_is_stopped_while_others_go_on(cluster: Cluster) -> None:
    many = role("many", container(f'test "$TASKROLE_REPLICA_INDEX" = 0 || {FOREVER}'), replicas=2)
    chief = role("chief", container("sleep 3"))
    result = carried_through(cluster, launch_request("job", {**many, "completionPolicy": {"minSucceeded": 1}}, chief))
    assert result.state is ReplicaState.SUCCEEDED
    gone(cluster, "job")
    states = {(replica.role, replica.index): replica.state for replica in seen(cluster, "job").replicas}
    assert states == {
        ("many", 0): ReplicaState.SUCCEEDED,
        ("many", 1): ReplicaState.STOPPED,
        ("chief", 0): ReplicaState.SUCCEEDED,
    }


def test_logs_of_several_replicas_are_merged_by_time(cluster: Cluster) -> None:
    script = 'for n in 1 2 3; do echo "line $n"; sleep 0.05; echo "error $n" >&2; sleep 0.05; done; printf "no newline"'
    cluster.launch(script_request("job", script, count=2))
    ended(cluster, "job")
    lines = list(filter(None, cluster.logs("job", LogQuery())))
    assert [line.time for line in lines] == sorted(line.time for line in lines)
    assert all(line.time.utcoffset() == timedelta(0) for line in lines)
    for source in ("worker-0", "worker-1"):
        mine = [line.text for line in lines if line.source == source]
        assert mine == [f"{word} {n}" for n in (1, 2, 3) for word in ("line", "error")] + ["no newline"]
    assert len(lines) == 14


def test_logs_can_be_cut_by_replica_by_number_and_by_time(cluster: Cluster) -> None:
    cluster.launch(script_request("job", "seq 1 5; sleep 0.2; seq 6 9", count=2))
    ended(cluster, "job")
    assert texts(cluster, "job", LogQuery(role="worker", index=1)) == [str(n) for n in range(1, 10)]
    assert texts(cluster, "job", LogQuery(index=0, tail=3)) == ["7", "8", "9"]
    assert texts(cluster, "job", LogQuery(index=0, tail=0)) == []
    assert len(texts(cluster, "job", LogQuery(tail=5))) == 5
    assert texts(cluster, "job", LogQuery(role="nobody")) == []
    (sixth,) = [line for line in cluster.logs("job", LogQuery(index=0)) if line and line.text == "6"]
    assert texts(cluster, "job", LogQuery(index=0, since=sixth.time)) == ["6", "7", "8", "9"]


def test_each_line_has_the_same_origin_each_time_and_origins_are_the_containers(cluster: Cluster) -> None:
    cluster.launch(script_request("job", "echo one; echo two", count=2))
    ended(cluster, "job")

    def origins() -> list[tuple[str, str, str]]:
        return sorted((line.source, line.origin, line.text) for line in cluster.logs("job", LogQuery()) if line)

    assert origins() == origins()
    assert len({origin for _, origin, _ in origins()}) == len({source for source, _, _ in origins()}) == 2
    assert all(origin for _, origin, _ in origins())


def test_following_logs_ends_with_the_replica(cluster: Cluster) -> None:
    script = 'echo early; test "$TASKROLE_REPLICA_INDEX" = 0 && sleep 300; sleep 0.3; echo late'
    cluster.launch(script_request("job", script, count=2))
    assert texts(cluster, "job", LogQuery(index=1, follow=True)) == ["early", "late"]
    assert seen(cluster, "job").replicas[0].state is ReplicaState.RUNNING


def test_logs_can_be_read_while_the_replica_runs(cluster: Cluster) -> None:
    cluster.launch(script_request("job", f"echo hello; {FOREVER}"))
    line = next(filter(None, cluster.logs("job", LogQuery(follow=True))))
    assert (line.text, line.source) == ("hello", "worker-0")


def test_following_a_silent_log_yields_none_at_intervals(cluster: Cluster) -> None:
    cluster.launch(script_request("job", f"echo hello; {FOREVER}"))
    followed = cluster.logs("job", LogQuery(follow=True))
    assert next(line.text for line in followed if line) == "hello"
    assert next(followed) is None


def test_following_continues_with_the_next_attempt(cluster: Cluster) -> None:
    cluster.launch(script_request("job", "echo zero"))
    followed = cluster.logs("job", LogQuery(follow=True, finished=lambda: seen(cluster, "job").attempt == 1))
    assert next(line.text for line in followed if line) == "zero"
    ended(cluster, "job")
    assert next(followed) is None, "it waits for what may come"
    wait_for(lambda: launches(cluster, script_request("job", "echo one", attempt=1)))
    assert [line.text for line in followed if line] == ["one"]


def test_following_begins_before_the_launch(cluster: Cluster) -> None:
    launched: list[Observation] = []
    followed = cluster.logs("job", LogQuery(follow=True, finished=lambda: bool(launched)))
    assert next(followed) is None
    launched.append(cluster.launch(script_request("job", "echo hello")))
    assert [line.text for line in followed if line] == ["hello"]


def test_every_replica_attempt_has_a_log_of_its_own_and_there_are_no_others(cluster: Cluster) -> None:
    script = 'echo "$POD"; test "$TASKROLE_REPLICA_INDEX" = 0'
    names = {"env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}

    def launch(attempt: int, *attempts: ReplicaKey) -> None:
        pods = role("worker", container(script, **names), replicas=2)
        wait_for(lambda: launches(cluster, launch_request("job", pods, attempt=attempt, replicas=attempts or None)))
        ended(cluster, "job")

    first = (ReplicaKey("worker", 0), ReplicaKey("worker", 1))
    launch(0)
    launch(0, *first, ReplicaKey("worker", 1, 1))
    launch(1)
    gone(cluster, "job")
    assert sorted(texts(cluster, "job")) == ["job-worker-1-0-0", "job-worker-1-0-1"]
    of_each = [texts(cluster, "job", LogQuery(index=1, attempt=attempt)) for attempt in range(3)]
    assert of_each == [["job-worker-0-0-1"], ["job-worker-0-1-1"], ["job-worker-1-0-1"]]
    assert sorted(texts(cluster, "job", LogQuery(attempt=1))) == ["job-worker-0-1-1", "job-worker-1-0-0"]
    assert texts(cluster, "job", LogQuery(attempt=2)) == ["job-worker-1-0-1"]
    for query in (LogQuery(attempt=3), LogQuery(index=0, attempt=2)):
        with pytest.raises(NoSuchAttempt, match=f"no attempt {query.attempt}"):
            texts(cluster, "job", query)


def test_lines_of_several_containers_say_whose_they_are_live_and_after_the_end(cluster: Cluster) -> None:
    inits = [container("echo prepared", "prepare")]
    pod = role(
        "worker",
        container(f"sleep 0.2; echo one; {FOREVER}", "a"),
        container(f"sleep 0.6; echo two; {FOREVER}", "b"),
        initContainers=inits,
        replicas=2,
    )
    cluster.launch(launch_request("job", pod))

    def lines() -> list[tuple[str, str]]:
        return [(line.source, line.text) for line in cluster.logs("job", LogQuery(index=1)) if line]

    expected = [("worker-1/prepare", "prepared"), ("worker-1/a", "one"), ("worker-1/b", "two")]
    wait_for(lambda: len(texts(cluster, "job")) == 6)
    assert lines() == expected
    gone(cluster, "job")
    assert lines() == expected
    assert len(texts(cluster, "job")) == 6


def test_a_line_may_be_long(cluster: Cluster) -> None:
    the_end(cluster, script_request("job", "head -c 200000 /dev/zero | tr '\\0' x; echo; echo end"))
    lines = texts(cluster, "job")
    assert "".join(lines[:-1]) == "x" * 200_000
    assert lines[-1] == "end"


def test_the_logs_alone_are_pruned_of_deleted_jobs(cluster: Cluster) -> None:
    cluster.launch(script_request("job", f"echo hello; {FOREVER}"))
    wait_for(lambda: texts(cluster, "job") == ["hello"])
    cluster.prune_logs(["job", "unknown", "../job"])
    assert texts(cluster, "job") == ["hello"]
    gone(cluster, "job")
    sizes = cluster.log_sizes(["job", "unknown", "../job"])
    assert sizes["job"] >= len("hello\n")
    assert (sizes["unknown"], sizes["../job"]) == (0, 0)
    cluster.prune_logs(["job"])
    cluster.prune_logs(["job"])
    assert cluster.log_sizes(["job"]) == {"job": 0}
    assert texts(cluster, "job") == []
    assert seen(cluster, "job").replicas[0].state is ReplicaState.STOPPED


def test_output_that_is_no_text_does_no_harm(cluster: Cluster) -> None:
    the_end(
        cluster,
        script_request("job", "printf 'a\\377b\\000c\\n'; head -c 40000 /dev/zero | tr '\\0' x; echo; echo end"),
    )
    lines = texts(cluster, "job")
    assert lines[0] == "a\ufffdb\0c"
    assert "".join(lines[1:-1]) == "x" * 40000
    assert lines[-1] == "end"


def test_what_replicas_left_behind_is_there_once_they_have_ended(cluster: Cluster) -> None:
    script = "printf '%s\\n' $TASKROLE_REPLICA_INDEX > /output; echo '[]' > /metric.json; echo said"
    cluster.launch(collecting(script_request("job", script, count=2)))
    ended(cluster, "job")
    found = wait_for(lambda: handed_over(cluster, "job"))
    assert found == tuple(
        ReplicaResult("worker", index, output=f"{index}\n".encode(), metrics=b"[]\n") for index in range(2)
    )
    assert sorted(texts(cluster, "job")) == ["said", "said"]
    assert left(cluster, "other") == ()


def test_a_replica_that_left_nothing_has_no_result(cluster: Cluster) -> None:
    the_end(cluster, collecting(script_request("job", "echo said")))
    assert wait_for(lambda: handed_over(cluster, "job") is not None)
    assert left(cluster, "job") == ()


def handed_over(cluster: Cluster, job_id: str) -> tuple[ReplicaResult, ...] | None:
    try:
        return left(cluster, job_id)
    except StillEnding:
        return None
