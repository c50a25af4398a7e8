"""Control groups of the local cluster: limits, usage, and that none of them and nothing in them is left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.clusters.local import cgroups, driver, launcher
from pipeline_core.clusters.local.attempt import LocalAttempt, ProcessUsage
from pipeline_core.clusters.local.cgroups import CONTROLLERS, Group, Place
from pipeline_core.clusters.local.driver import LocalCluster
from pipeline_core.clusters.local.files import AttemptFiles
from pipeline_core.clusters.local.journal import Journal, Key
from pipeline_core.states import ReplicaState
from tests.builders import container, launch_request, role, script_request
from tests.integration.clusters.support import (
    ESCAPEE,
    FOREVER,
    alive,
    all_in,
    ended,
    gone,
    parent_of,
    seen,
    texts,
    the_end,
)
from tests.waiting import wait_for

BUSY = "while :; do :; done"
HUNGRY = "exec tail /dev/zero"
FIRST = Key(("worker", 0, 0))
NOWHERE = "PermissionError: [Errno 13] Permission denied: '/sys/fs/cgroup/pipeline'"


@pytest.fixture
def place() -> Place:
    found, problem = launcher.cgroup_place()
    if found is None:
        pytest.skip(f"no control groups can be made here: {problem}")
    return found


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no control groups can be made."""
    for module in (driver, launcher):
        monkeypatch.setattr(module, "cgroup_place", lambda: (None, NOWHERE))


def limited(script: str, name: str = "main", **limits: str) -> dict[str, Any]:
    return container(script, name, resources={"limits": limits})


def groups(root: Path) -> list[Path]:
    """The directories of all that the job's attempt has in the hierarchies."""
    plan = LocalAttempt(root / "jobs/job/0", 0).plan
    tops = {Path(plan["cgroups"][controller]) for controller in CONTROLLERS[plan["cgroups"]["version"]]}
    return [path for top in tops for path in top.glob(f"{plan['instance']}.*")]


def usage(root: Path) -> ProcessUsage | None:
    return LocalAttempt(root / "jobs/job/0", 0).usage(FIRST)


def used(root: Path, seconds: float) -> ProcessUsage:
    """The usage once so many seconds of CPU time were had."""

    def look() -> ProcessUsage | None:
        found = usage(root)
        return found if found and found.cpu_seconds >= seconds else None

    found = wait_for(look)
    assert found
    return found


def supervisor_and_keeper(root: Path) -> tuple[int, int]:
    keeper = Journal.read(str(root / "jobs/job/0/journal")).attempts[FIRST]["keeper"]
    return parent_of(keeper), keeper


@pytest.mark.usefixtures("place")
def test_what_exceeds_its_memory_is_killed_and_says_so(local: LocalCluster, root: Path) -> None:
    replica = the_end(local, launch_request("job", role("worker", limited(f"echo hello; {HUNGRY}", memory="24Mi"))))
    assert (replica.state, replica.reason, replica.exit_code) == (ReplicaState.FAILED, "OOMKilled", 137)
    assert replica.diagnostics == "hello"
    assert groups(root) == []


@pytest.mark.usefixtures("place")
def test_a_container_is_not_to_blame_for_the_memory_of_another(local: LocalCluster) -> None:
    pod = role("worker", limited("sleep 0.5; exit 4", memory="24Mi"), limited(HUNGRY, "hungry", memory="24Mi"))
    replica = the_end(local, launch_request("job", pod))
    assert (replica.reason, replica.exit_code) == ("Error", 4)


@pytest.mark.usefixtures("place")
def test_a_container_that_is_started_again_is_not_to_blame_for_what_it_was_killed_for_before(
    local: LocalCluster, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    script = f"test -e {mark} && {FOREVER}; touch {mark}; {HUNGRY}"
    pod = role("worker", limited(script, memory="24Mi"), restartPolicy="OnFailure", terminationGracePeriodSeconds=0)
    local.launch(launch_request("job", pod))
    wait_for(mark.exists)
    gone(local, "job")
    assert seen(local, "job").replicas[0].state is ReplicaState.STOPPED


@pytest.mark.usefixtures("place")
def test_no_more_cpu_time_is_had_than_the_limit(local: LocalCluster, root: Path) -> None:
    local.launch(launch_request("job", role("worker", limited(BUSY, cpu="200m"))))
    all_in(local, "job", ReplicaState.RUNNING)
    before, began = used(root, 0.02), time.monotonic()
    after = used(root, before.cpu_seconds + 0.2)
    assert after.cpu_seconds - before.cpu_seconds <= 0.2 * (time.monotonic() - began) + 0.1


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("script", ["exit 0", "exit 1", f"{ESCAPEE} exit 0", FOREVER])
def test_no_group_is_left_when_a_replica_has_ended(local: LocalCluster, root: Path, script: str) -> None:
    local.launch(script_request("job", f"echo hello; {script}"))
    wait_for(lambda: texts(local, "job"))
    if script == FOREVER:
        assert groups(root)
        wait_for(lambda: local.delete("job"))
    ended(local, "job")
    assert groups(root) == []


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("victim", [0, 1])
def test_no_group_is_left_when_supervisor_or_keeper_was_killed(local: LocalCluster, root: Path, victim: int) -> None:
    local.launch(script_request("job", FOREVER))
    all_in(local, "job", ReplicaState.RUNNING)
    os.kill(supervisor_and_keeper(root)[victim], signal.SIGKILL)
    (replica,) = ended(local, "job").replicas
    assert replica.reason == "SupervisorLost"
    assert groups(root) == []


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("look", ["observe", "delete", "launch"])
def test_what_outlived_both_its_supervisor_and_its_keeper_is_ended_by_the_next_look(
    local: LocalCluster, root: Path, look: str
) -> None:
    launched = script_request("job", f"{ESCAPEE} {FOREVER}")
    local.launch(launched)
    (escaped,) = wait_for(lambda: [int(text) for text in texts(local, "job")])
    all_in(local, "job", ReplicaState.RUNNING)
    both = supervisor_and_keeper(root)
    # Stopped first, so that neither cleans up after the other before it is killed itself.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in both:
            os.kill(pid, number)
    wait_for(lambda: not AttemptFiles(str(root / "jobs/job/0")).held())
    assert alive(escaped)
    if look == "launch":
        local.launch(launched)
    elif look == "delete":
        wait_for(lambda: local.delete("job"))
    else:
        local.observe("job")
    wait_for(lambda: not alive(escaped))
    wait_for(lambda: local.delete("job"))
    assert groups(root) == []


@pytest.mark.usefixtures("place")
def test_usage_is_that_of_the_control_groups(local: LocalCluster, root: Path) -> None:
    local.launch(script_request("job", f"head -c 30M /dev/zero | tail -c 30M | ({BUSY})"))
    all_in(local, "job", ReplicaState.RUNNING)
    assert used(root, 0.2).memory_bytes > 0
    wait_for(lambda: (found := usage(root)) and found.memory_bytes > 30 << 20)
    gone(local, "job")
    assert usage(root) is None


@pytest.mark.usefixtures("nowhere")
def test_usage_is_that_of_the_processes_where_there_are_no_groups(local: LocalCluster, root: Path) -> None:
    # What a process has used stays counted when it has ended and was waited for.
    count = "i=0; while test $i -lt 300000; do i=$((i+1)); done"
    local.launch(script_request("job", f"sh -c '{count}'; echo done; {FOREVER}"))
    wait_for(lambda: texts(local, "job") == ["done"])
    found = used(root, 0.05)
    assert found.memory_bytes > 100 << 10
    gone(local, "job")
    assert usage(root) is None


@pytest.mark.usefixtures("nowhere")
def test_limits_that_are_not_enforced_are_noted(local: LocalCluster) -> None:
    path = "spec.roles[0].template.spec.containers[0].resources.limits"
    platform = local.launch(launch_request("job", role("worker", limited("true", memory="1Mi", cpu="1")))).platform
    (note,) = [note for note in platform["notes"] if note.startswith(path)]
    assert NOWHERE in note
    assert ended(local, "job").replicas[0].state is ReplicaState.SUCCEEDED
    plain = local.launch(script_request("plain", "true")).platform
    assert not any("limits" in note for note in plain["notes"])


@pytest.mark.usefixtures("nowhere")
def test_what_the_machine_does_not_allow_is_said_in_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "mount_problem", lambda: "")
    assert launcher.shortcomings() == [
        f"Limits of memory and CPU are not enforced: no control groups can be made here: {NOWHERE}."
    ]


def test_groups_of_version_2_have_the_limits_that_the_kernel_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "pipeline"

    def make(path: str, exist_ok: bool) -> None:
        for directory in (top, top / "name", Path(path)):
            directory.mkdir(exist_ok=exist_ok)
            (directory / "cgroup.subtree_control").touch()
            (directory / "memory.swap.max").touch()

    monkeypatch.setattr(cgroups.os, "makedirs", make)
    group = Group({"version": "2", "memory": str(top), "cpu": str(top)}, "name")
    inner = top / "name/container-main"
    assert group.make("main", {"memory": 1 << 20, "cpu": 50_000}) == [str(inner / "cgroup.procs")]
    written = {path.name: path.read_text() for path in inner.iterdir()}
    assert written == {
        "cgroup.subtree_control": "",
        "memory.max": "1048576",
        "memory.oom.group": "1",
        "memory.swap.max": "0",
        "cpu.max": "50000 100000",
    }
    for directory in (top, top / "name"):
        assert (directory / "cgroup.subtree_control").read_text() == "+cpu +memory"
    (inner / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    (top / "name/cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    (top / "name/memory.current").write_text("3000\n")
    (top / "name/memory.stat").write_text("anon 1\ninactive_file 1000\n")
    assert (group.oom_kills("main"), group.cpu_seconds(), group.memory_bytes()) == (2, 1.5, 2000)


def test_a_group_of_version_2_is_killed_as_a_whole() -> None:
    found = cgroups.paths_to_own_group(
        Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
    ).get("", [])
    top = next((Path(way) for way in found if os.access(way, os.W_OK)), None)
    if top is None:
        pytest.skip("no control groups of version 2 can be made here")
    name = f"test-{os.urandom(8).hex()}"
    inner = top / name / "container-main"
    inner.mkdir(parents=True)
    group = Group({"version": "2", "memory": str(top), "cpu": str(top)}, name)
    script = f"echo $$ > {inner}/cgroup.procs; trap '' TERM; setsid sleep 300 & echo; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        wait_for(lambda: len((inner / "cgroup.procs").read_text().split()) == 2)
        pids = (inner / "cgroup.procs").read_text().split()
        group.remove()
        assert process.wait() == -signal.SIGKILL
    assert not any(alive(int(pid)) for pid in pids)
    assert not (top / name).exists()
