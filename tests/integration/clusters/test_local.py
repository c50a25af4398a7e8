"""What the local cluster does with processes, files and crashes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline_core.clusters.base import ClusterError, ClusterUnavailable, LaunchRequest, LogQuery, ReplicaKey
from pipeline_core.clusters.local import attempt, driver
from pipeline_core.clusters.local.driver import LocalCluster
from pipeline_core.clusters.local.files import AttemptFiles
from pipeline_core.states import ReplicaState
from tests.builders import container, launch_request, role, script_request
from tests.integration.clusters.support import (
    ESCAPEE,
    FOREVER,
    alive,
    all_in,
    ended,
    gone,
    launches,
    processes_naming,
    seen,
    texts,
    the_end,
)
from tests.waiting import wait_for


class PowerCut(BaseException):
    """The process ends here."""


def supervisors(root: Path, job_id: str, number: int = 0) -> list[int]:
    """Pids of those that hold the attempt's lock, by the process that everything descends from."""
    directory = str(root / "jobs" / job_id / str(number))
    found = []
    for pid in processes_naming(directory):
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if b"-c" in arguments and directory.encode() in arguments and parent not in processes_naming(directory):
            found.append(pid)
    return found


def kill_supervisor(root: Path, job_id: str) -> None:
    (pid,) = supervisors(root, job_id)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not AttemptFiles(str(root / "jobs" / job_id / "0")).held())


def test_many_launches_at_once_start_each_replica_once(local: LocalCluster, root: Path) -> None:
    launched = script_request("job", f"echo started; {FOREVER}", count=3)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: local.launch(launched), range(8)))
    wait_for(lambda: texts(local, "job") == ["started"] * 3)
    wait_for(lambda: len(supervisors(root, "job")) == 1)
    gone(local, "job")
    assert texts(local, "job") == ["started"] * 3


def test_replicas_die_with_their_supervisor_and_are_never_run_again(local: LocalCluster, root: Path) -> None:
    launched = script_request("job", f"{ESCAPEE} echo $$$$; {FOREVER}")
    local.launch(launched)
    pids = [int(text) for text in wait_for(lambda: len(texts(local, "job")) == 2 and texts(local, "job"))]
    assert all(alive(pid) for pid in pids)
    kill_supervisor(root, "job")
    wait_for(lambda: not any(alive(pid) for pid in pids))
    (replica,) = seen(local, "job").replicas
    assert (replica.state, replica.reason) == (ReplicaState.FAILED, "SupervisorLost")
    assert local.launch(launched).replicas[0].reason == "SupervisorLost"
    assert len(texts(local, "job")) == 2
    assert processes_naming(str(root)) == []


def test_a_retry_after_the_supervisor_was_lost_runs(local: LocalCluster, root: Path) -> None:
    launched = script_request("job", FOREVER)
    local.launch(launched)
    all_in(local, "job", ReplicaState.RUNNING)
    kill_supervisor(root, "job")
    local.launch(script_request("job", FOREVER, replicas=(ReplicaKey("worker", 0, 1),)))
    (replica,) = all_in(local, "job", ReplicaState.RUNNING).replicas
    assert replica.attempt == 1
    assert '"reason":"SupervisorLost"' in (root / "jobs/job/0/journal").read_text()


def test_what_ran_before_the_machine_restarted_has_failed_so(local: LocalCluster, root: Path) -> None:
    local.launch(script_request("job", FOREVER))
    all_in(local, "job", ReplicaState.RUNNING)
    kill_supervisor(root, "job")
    journal = root / "jobs/job/0/journal"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    journal.write_text(journal.read_text().replace(boot, "another-boot"))
    (replica,) = seen(local, "job").replicas
    assert (replica.state, replica.reason) == (ReplicaState.FAILED, "HostRestarted")
    local.launch(script_request("job", FOREVER, replicas=(ReplicaKey("worker", 0, 1),)))
    (replica,) = all_in(local, "job", ReplicaState.RUNNING).replicas
    assert replica.attempt == 1
    assert '"reason":"HostRestarted"' in journal.read_text()
    wait_for(lambda: launches(local, script_request("job", FOREVER, attempt=1)))
    assert all_in(local, "job", ReplicaState.RUNNING).attempt == 1


def test_what_waited_when_the_machine_restarted_is_started(
    root: Path, local: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = LocalCluster("narrow", root, slots=1, grace_seconds=0.5)
    narrow.launch(script_request("job", 'test "$TASKROLE_REPLICA_INDEX" = 1 || sleep 300', count=2))
    wait_for(lambda: [one.reason for one in seen(narrow, "job").replicas] == ["", "WaitingForSlot"])
    kill_supervisor(root, "job")
    journal = root / "jobs/job/0/journal"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    journal.write_text(journal.read_text().replace(boot, "another-boot"))
    assert seen(narrow, "job").replicas[0].reason == "HostRestarted"
    monkeypatch.setattr(attempt, "START_SECONDS", 0.0)
    lost, waited = ended(narrow, "job").replicas
    assert (lost.state, lost.reason) == (ReplicaState.FAILED, "HostRestarted")
    assert waited.state is ReplicaState.SUCCEEDED


def test_a_killed_keeper_takes_its_replica_with_it(local: LocalCluster, root: Path) -> None:
    local.launch(script_request("job", f"{ESCAPEE} echo $$$$; {FOREVER}", count=2))
    wait_for(lambda: len(texts(local, "job")) == 4)
    first = int(seen(local, "job").replicas[0].container_id)
    keeper = int(Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: seen(local, "job").replicas[0].state.ended)
    assert seen(local, "job").replicas[0].reason == "SupervisorLost"
    assert seen(local, "job").replicas[1].state is ReplicaState.RUNNING
    mine = [int(line.text) for line in local.logs("job", LogQuery(index=0))]
    assert not any(alive(pid) for pid in mine)


@pytest.mark.slow
def test_whoever_is_killed_each_replica_attempt_runs_at_most_once(
    local: LocalCluster, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "START_SECONDS", 0.2)
    jobs = {f"job-{number}": tmp_path / f"runs-{number}" for number in range(8)}
    requests = [script_request(job_id, f"echo run >> {runs}; sleep 0.3") for job_id, runs in jobs.items()]
    dice = random.Random(1)
    for launched in requests:
        local.launch(launched)
    for _ in range(40):
        if victims := processes_naming(str(root / "jobs")):
            with contextlib.suppress(ProcessLookupError):
                os.kill(dice.choice(victims), signal.SIGKILL)
        local.launch(dice.choice(requests))
    for job_id, runs in jobs.items():
        (replica,) = ended(local, job_id).replicas
        count = len(runs.read_text().split()) if runs.exists() else 0
        assert count <= 1
        assert count == 1 or replica.state is ReplicaState.FAILED


def test_the_replicas_that_run_are_counted_by_job(local: LocalCluster) -> None:
    assert local.running() == {}
    local.launch(script_request("long", FOREVER, count=2))
    the_end(local, script_request("short", "true"))
    all_in(local, "long", ReplicaState.RUNNING)
    assert local.running() == {"long": 2}


def test_a_cluster_whose_files_are_out_of_reach_is_away(local: LocalCluster, root: Path) -> None:
    root.parent.mkdir(exist_ok=True)
    root.write_text("not a directory")
    with pytest.raises(ClusterUnavailable, match="cannot be used at present"):
        local.launch(script_request("job", "true"))
    root.unlink()


def test_volumes_that_cannot_be_mounted_fail_the_launch_with_the_reason(
    local: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "mount_problem", lambda: "unshare: Operation not permitted")
    pod = container("true", volumeMounts=[{"name": "v", "mountPath": "/v"}])
    with pytest.raises(ClusterError, match="Operation not permitted"):
        local.launch(launch_request("job", role("worker", pod, volumes=[{"name": "v", "emptyDir": {}}])))
    assert the_end(local, script_request("plain", "true")).state is ReplicaState.SUCCEEDED


def test_a_flood_of_output_does_not_keep_a_replica_from_being_stopped(local: LocalCluster) -> None:
    local.launch(script_request("job", "trap '' TERM; exec timeout 60 yes"))
    wait_for(lambda: next(local.logs("job", LogQuery()), None))
    gone(local, "job")
    assert seen(local, "job").replicas[0].state is ReplicaState.STOPPED


def test_a_volume_that_is_in_the_way_is_a_start_error(local: LocalCluster, root: Path) -> None:
    (root / "claims/default").mkdir(parents=True)
    (root / "claims/default/claim").write_text("not a directory")
    pod = container("true", volumeMounts=[{"name": "v", "mountPath": "/v"}])
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]
    replica = the_end(local, launch_request("job", role("worker", pod, volumes=volumes)))
    assert (replica.reason, replica.exit_code) == ("StartError", 126)
    assert "claim" in replica.diagnostics


def test_only_deleted_jobs_are_pruned(local: LocalCluster, root: Path) -> None:
    for job_id in ("kept", "running", "pruned"):
        local.launch(script_request(job_id, FOREVER if job_id == "running" else "echo hello"))
    for job_id in ("kept", "pruned"):
        ended(local, job_id)
    gone(local, "pruned")
    local.prune(["kept", "running", "pruned", "unknown", "../kept"])
    local.prune(["pruned"])
    assert local.observe("pruned") is None
    assert seen(local, "running").replicas[0].state is not ReplicaState.STOPPED
    assert texts(local, "kept") == ["hello"]


def test_another_process_finds_what_a_dead_one_launched(local: LocalCluster, root: Path) -> None:
    program = f"""if True:
        from pathlib import Path
        from pipeline_core.clusters.local.driver import LocalCluster
        from tests.builders import script_request
        driver = LocalCluster("there", Path({str(root)!r}), slots=4, grace_seconds=0.5)
        driver.launch(script_request("job", "echo hello; sleep 300"))
    """
    subprocess.run(
        [sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    (replica,) = all_in(local, "job", ReplicaState.RUNNING).replicas
    assert alive(int(replica.container_id))
    wait_for(lambda: texts(local, "job") == ["hello"])
    gone(local, "job")
    assert not alive(int(replica.container_id))


def test_all_that_was_started_is_asked_to_end_and_given_the_time(local: LocalCluster) -> None:
    """A process that fled, one of the container's group, and one that was forked twice, whose parents end at once."""
    polite = "trap 'sleep 0.3; echo {0} ends; exit' TERM; echo {0}; while :; do sleep 0.05; done"
    fled = f'(setsid sh -c "{polite.format("fled")}" &)'
    twice = f'(sh -c "{polite.format("twice")}" &)'
    grouped = f'sh -c "{polite.format("grouped")}" &'
    script = f"{fled}\n{twice}\n{grouped}\nexec sleep 300"
    local.launch(launch_request("job", role("worker", container(script), terminationGracePeriodSeconds=30)))
    wait_for(lambda: len(texts(local, "job")) == 3)
    wait_for(lambda: local.delete("job"))
    assert sorted(text for text in texts(local, "job") if text.endswith("ends")) == [
        "fled ends",
        "grouped ends",
        "twice ends",
    ]
    assert seen(local, "job").replicas[0].exit_code == 143


def test_nothing_is_waited_for_longer_than_the_grace_time(local: LocalCluster) -> None:
    stubborn = f"{ESCAPEE} sh -c \"trap '' TERM; echo \\$\\$; while :; do sleep 0.05; done\" & exec sleep 300"
    local.launch(launch_request("job", role("worker", container(stubborn), terminationGracePeriodSeconds=1)))
    pids = [int(text) for text in wait_for(lambda: len(texts(local, "job")) == 2 and texts(local, "job"))]
    wait_for(lambda: local.delete("job"))
    assert not any(alive(pid) for pid in pids)


def test_processes_that_fled_into_another_session_are_killed_too(local: LocalCluster) -> None:
    local.launch(script_request("job", f"{ESCAPEE} echo $$$$; while :; do sleep 0.05; done"))
    pids = [int(text) for text in wait_for(lambda: len(texts(local, "job")) == 2 and texts(local, "job"))]
    gone(local, "job")
    assert not any(alive(pid) for pid in pids)
    assert seen(local, "job").replicas[0].exit_code == 137


def test_what_a_replica_leaves_behind_ends_with_it(local: LocalCluster) -> None:
    replica = the_end(local, script_request("job", f"{ESCAPEE} sleep 0.2; exit 0"))
    assert replica.state is ReplicaState.SUCCEEDED
    assert not alive(int(texts(local, "job")[0]))


def test_nobody_waits_for_a_supervisor(local: LocalCluster, root: Path) -> None:
    local.launch(script_request("job", FOREVER))
    all_in(local, "job", ReplicaState.RUNNING)
    (pid,) = supervisors(root, "job")
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    held = {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
    files = {name for name in held if name.startswith("/") and name != "/dev/null"}
    assert all(name.startswith(str(root)) for name in files)


def test_a_job_that_was_deleted_before_it_could_start_never_starts(
    local: LocalCluster, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = script_request("job", "echo started")
    with monkeypatch.context() as patch:
        patch.setattr(attempt, "start_supervisor", lambda directory: None)
        assert local.launch(launched).replicas[0].state is ReplicaState.WAITING
        assert local.delete("job") is True
    assert seen(local, "job").replicas[0].state is ReplicaState.STOPPED
    attempt.start_supervisor(root / "jobs/job/0")
    journal = root / "jobs/job/0/journal"
    wait_for(lambda: journal.exists() and '"reason":"Stopped"' in journal.read_text())
    local.launch(launched)
    wait_for(lambda: not processes_naming(str(root)))
    assert seen(local, "job").replicas[0].state is ReplicaState.STOPPED
    assert texts(local, "job") == []


def test_a_replica_attempt_that_was_deleted_before_it_was_ordered_never_starts(local: LocalCluster) -> None:
    local.launch(script_request("job", FOREVER))
    all_in(local, "job", ReplicaState.RUNNING)
    retry = ReplicaKey("worker", 1, 1)
    wait_for(lambda: local.delete("job", [retry]))
    local.launch(script_request("job", FOREVER, replicas=(retry,)))
    (_, replica) = all_in(local, "job", ReplicaState.RUNNING, ReplicaState.STOPPED).replicas
    assert (replica.index, replica.state) == (1, ReplicaState.STOPPED)


@pytest.mark.parametrize(
    ("module", "step"),
    [(attempt, "write_durably"), (driver, "sync_directory"), (attempt, "start_supervisor")],
)
def test_a_launch_that_was_cut_off_can_be_repeated(
    local: LocalCluster, monkeypatch: pytest.MonkeyPatch, module: object, step: str
) -> None:
    def cut(*_: object) -> None:
        raise PowerCut

    launched = script_request("job", "echo started", count=2)
    with monkeypatch.context() as patch:
        patch.setattr(module, step, cut)
        with pytest.raises(PowerCut):
            local.launch(launched)
    local.launch(launched)
    ended(local, "job")
    assert texts(local, "job") == ["started", "started"]


def test_what_nobody_carries_out_is_taken_up_by_the_next_look(
    local: LocalCluster, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(attempt, "start_supervisor", lambda directory: None)
        local.launch(script_request("job", "echo started"))
    os.utime(root / "jobs/job/0/supervisor.log", (0, 0))
    assert seen(local, "job").replicas[0].state is ReplicaState.WAITING
    ended(local, "job")
    assert texts(local, "job") == ["started"]


def test_nothing_of_the_services_own_settings_reaches_a_replica(
    local: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIPELINE_SECRET_KEY", "hush")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    the_end(local, script_request("job", "env"))
    names = {text.partition("=")[0] for text in texts(local, "job")}
    assert names - {"PWD", "SHLVL", "OLDPWD", "_"} == {
        "PATH",
        "HOME",
        "LANG",
        "TASKSET_NAMESPACE",
        "TASKSET_NAME",
        "TASKROLE_NAME",
        "TASKROLE_REPLICA_INDEX",
        "TASKROLE_HOSTS_WORKER",
    }


def test_an_open_line_is_shown_while_it_grows(local: LocalCluster) -> None:
    local.launch(script_request("job", f"printf '\\r1/3\\r2/3'; {FOREVER}"))
    line = next(filter(None, local.logs("job", LogQuery(follow=True))))
    assert (line.text, line.open) == ("\r1/3\r2/3", True)
    local.delete("job")
    ended(local, "job")
    assert [(one.text, one.open) for one in local.logs("job", LogQuery()) if one] == [("\r1/3\r2/3", False)]


def test_a_log_is_cut_at_the_limit(root: Path) -> None:
    small = LocalCluster("small", root, slots=4, grace_seconds=0.5, log_limit=100_000)
    small.launch(script_request("job", "seq 1 100000; echo end >&2; exit 3"))
    (replica,) = ended(small, "job").replicas
    found = texts(small, "job")
    assert found[0] == "1"
    assert "limit of 100000 bytes" in found[-1]
    assert replica.diagnostics.endswith("100000\nend")


def test_a_deadline_far_away_is_waited_for(local: LocalCluster) -> None:
    seconds = 2**31 - 1
    pod = role("worker", container("sleep 0.1"))
    pod["template"]["spec"]["activeDeadlineSeconds"] = seconds
    local.launch(launch_request("job", pod, activeDeadlineSeconds=seconds))
    (replica,) = ended(local, "job").replicas
    assert replica.state is ReplicaState.SUCCEEDED


def test_each_replica_has_a_working_directory_of_its_own(local: LocalCluster, root: Path, tmp_path: Path) -> None:
    local.launch(
        launch_request(
            "job", role("worker", container("pwd"), container("pwd", "placed", workingDir=str(tmp_path)), replicas=2)
        )
    )
    ended(local, "job")
    mine = [line.text for line in local.logs("job", LogQuery()) if line.source.endswith("main")]
    assert len(set(mine)) == 2
    assert all(text.startswith(str(root)) for text in mine)
    assert texts(local, "job").count(str(tmp_path)) == 2


def test_volumes_are_mounted_for_the_replica_alone(local: LocalCluster, root: Path) -> None:
    (root / "configmaps/default/settings").mkdir(parents=True)
    (root / "configmaps/default/settings/a.txt").write_text("from the map\n")
    mounts = [
        {"name": "scratch", "mountPath": "/no-such-place/scratch"},
        {"name": "data", "mountPath": "/usr/no-such-place"},
        {"name": "settings", "mountPath": "/no-such-place/settings"},
        {"name": "scratch", "mountPath": "/no-such-place/scratch/inner", "subPath": "sub"},
    ]
    volumes = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
        {"name": "settings", "configMap": {"name": "settings"}},
    ]
    write = "cd /no-such-place/scratch; echo shared > f; touch inner/x; echo kept >> /usr/no-such-place/f"
    read = (
        "cd /no-such-place; cat scratch/f /usr/no-such-place/f settings/a.txt; ls scratch/sub; "
        "touch settings/b 2>/dev/null || echo read-only; touch other; ls /usr/bin/env /dev/null"
    )
    pod = role(
        "worker",
        container(read, volumeMounts=mounts),
        initContainers=[container(write, "init", volumeMounts=mounts)],
        volumes=volumes,
    )
    replica = the_end(local, launch_request("job", pod))
    assert replica.exit_code == 0, replica
    assert texts(local, "job") == ["shared", "kept", "from the map", "x", "read-only", "/dev/null", "/usr/bin/env"]
    assert not Path("/no-such-place").exists()
    assert not Path("/usr/no-such-place").exists()
    assert (root / "claims/default/claim/f").read_text() == "kept\n"
    again = the_end(local, launch_request("again", pod))
    assert again.exit_code == 0
    assert "kept" in texts(local, "again")
    assert (root / "claims/default/claim/f").read_text() == "kept\nkept\n"


@pytest.mark.parametrize(
    ("pod", "path"),
    [
        ({"name": "main", "image": "x"}, "spec.roles[0].template.spec.containers[0].command"),
        (
            container("true", envFrom=[{"secretRef": {"name": "s"}}]),
            "spec.roles[0].template.spec.containers[0].envFrom",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_its_path(
    local: LocalCluster, root: Path, pod: dict[str, object], path: str
) -> None:
    with pytest.raises(ClusterError) as caught:
        local.launch(launch_request("job", role("worker", pod)))
    assert list(caught.value.errors) == [path]
    assert local.observe("job") is None


def test_what_has_no_effect_is_noted(local: LocalCluster) -> None:
    launched = launch_request(
        "job", role("worker", container("true", ports=[{"containerPort": 80}]), nodeSelector={"a": "b"})
    )
    platform = local.launch(launched).platform
    notes = "\n".join(platform["notes"])
    assert "containers[0].ports has no effect" in notes
    assert "spec.nodeSelector has no effect" in notes
    assert platform["platform"] == "local"
    assert platform["namespace"] == "default"


@pytest.mark.parametrize("job_id", ["../other", "..", "", "a/b", ".hidden"])
def test_a_job_cannot_lead_out_of_its_directory(local: LocalCluster, root: Path, job_id: str) -> None:
    with pytest.raises(ClusterError, match="cannot be the name of a directory"):
        local.launch(script_request(job_id, "true"))
    assert local.observe(job_id) is None
    assert local.delete(job_id) is True
    assert list(local.logs(job_id, LogQuery())) == []


@pytest.mark.parametrize("name", ["../other", "a/b", "A", ""])
def test_a_role_cannot_lead_out_of_its_directory(local: LocalCluster, name: str) -> None:
    launched = launch_request("job", role(name, container("true")))
    with pytest.raises(ClusterError, match=r"spec\.roles\[0\]\.name"):
        local.launch(LaunchRequest(launched.job_id, "default", "u1", launched.taskset))


def test_a_supervisor_loads_nothing_heavy() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pipeline_core.clusters.local import supervisor; "
        "print(*sys.modules)"
    )
    command = [sys.executable, "-I", "-S", "-c", program, str(Path(__file__).parents[3])]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    own = {name.removeprefix("pipeline_core.") for name in loaded if name.startswith("pipeline_core.")}
    assert {name for name in own if not name.startswith("clusters.local")} == {
        *("clusters", "clusters.records", "common", "common.files"),
    }
    assert not loaded & {"pathlib", "dataclasses", "logging", "hashlib", "subprocess", "threading", "typing", "urllib"}
