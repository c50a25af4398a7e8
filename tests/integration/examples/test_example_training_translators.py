"""PyTorchJobs and MPIJobs: what becomes of them, and what their replicas find as pods."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubeflow_jobs import Untranslatable
from mpijob_translator import translate as translate_mpijob
from pytorchjob_translator import translate as translate_pytorchjob
from tfjob_translator import translate as translate_tfjob

from pipeline_core.clusters.base import LaunchRequest, ReplicaKey
from pipeline_core.clusters.kubernetes.objects import PodMaker
from pipeline_core.clusters.local.process import compose
from pipeline_core.taskset.schema import check

JOBS = Path(__file__).parents[3] / "examples" / "jobs"
TRANSLATORS = {"PyTorchJob": translate_pytorchjob, "MPIJob": translate_mpijob, "TFJob": translate_tfjob}
OWNER = {"metadata": {"name": "c-j01-0", "uid": "u"}}


def example(kind: str) -> dict[str, Any]:
    return yaml.safe_load((JOBS / f"{kind.lower()}.yaml").read_text())


def translate(job: dict[str, Any]) -> dict[str, Any]:
    packet = {"factors": {}, "header": {"jobID": "j01", "userID": "ada"}, "job": job}
    before = copy.deepcopy(packet)
    answer = TRANSLATORS[job["kind"]](packet)
    assert packet == before
    check(answer)
    return answer


def container(**fields: Any) -> dict[str, Any]:
    return {"image": "x", "command": ["python", "train.py"], **fields}


def pytorchjob(workers: int = 2, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [container(name="pytorch")]}}
    specs = {"Master": {"template": template}, "Worker": {"replicas": workers, "template": template}}
    return {"kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": specs, **spec}}


def mpijob(workers: int = 2, **spec: Any) -> dict[str, Any]:
    specs = {
        "Launcher": {"template": {"spec": {"containers": [container(name="launcher")]}}},
        "Worker": {"replicas": workers, "template": {"spec": {"containers": [{"name": "worker", "image": "x"}]}}},
    }
    return {"kind": "MPIJob", "spec": {"mpiReplicaSpecs": specs, **spec}}


def as_pod(taskset: dict[str, Any], role: str, index: int) -> tuple[list[str], dict[str, str]]:
    """The command of a replica's container and its environment, as Kubernetes expands it."""
    maker = PodMaker(LaunchRequest("j01", "default", "ada", taskset), OWNER, pull_secrets=(), grace_seconds=1)
    (main,) = maker.pod(ReplicaKey(role, index))["spec"]["containers"]
    variables = [(one["name"], one["value"]) for one in main["env"]]
    return main["command"], compose({"PATH": "/usr/bin:/bin"}, {}, variables, {})


def as_seen_by(taskset: dict[str, Any], role: str, index: int) -> dict[str, str]:
    """The environment that a replica's own command finds."""
    command, environment = as_pod(taskset, role, index)
    if command[0] == "sh":
        printed = subprocess.run(
            [*command[:4], "env", "-0"], env=environment, capture_output=True, text=True, check=True
        )
        environment = dict(line.split("=", 1) for line in printed.stdout.split("\0") if line)
    return environment


@pytest.mark.parametrize("kind", TRANSLATORS)
def test_the_examples_become_tasksets(kind: str) -> None:
    assert len(translate(example(kind))["spec"]["roles"]) == 2


@pytest.mark.parametrize(("role", "index", "rank"), [("master", 0, "0"), ("worker", 0, "1"), ("worker", 1, "2")])
def test_each_rank_of_a_pytorchjob_knows_its_number_and_its_master(role: str, index: int, rank: str) -> None:
    found = as_seen_by(translate(pytorchjob()), role, index)
    meeting = {"MASTER_ADDR": "master-0.j01", "MASTER_PORT": "23456", "WORLD_SIZE": "3", "RANK": rank}
    torchrun = {
        "PET_MASTER_ADDR": "master-0.j01",
        "PET_MASTER_PORT": "23456",
        "PET_NNODES": "3",
        "PET_NODE_RANK": rank,
        "PET_NPROC_PER_NODE": "auto",
    }
    assert (meeting | torchrun).items() <= found.items()


@pytest.mark.parametrize(("per_node", "size", "passed"), [(4, "12", "4"), ("4", "12", "4"), ("auto", "3", "auto")])
def test_processes_of_a_node_make_the_world_larger(per_node: Any, size: str, passed: str) -> None:
    found = as_seen_by(translate(pytorchjob(nprocPerNode=per_node)), "worker", 0)
    assert (found["WORLD_SIZE"], found["PET_NPROC_PER_NODE"]) == (size, passed)


def test_a_master_alone_needs_no_shell() -> None:
    (master,) = translate(pytorchjob(workers=0))["spec"]["roles"]
    assert master["template"]["spec"]["containers"][0]["command"] == ["python", "train.py"]
    assert as_pod(translate(pytorchjob(workers=0)), "master", 0)[1]["WORLD_SIZE"] == "1"


def test_ranks_meet_at_the_port_that_the_master_names_and_own_variables_stay() -> None:
    job = pytorchjob()
    specs = job["spec"]["pytorchReplicaSpecs"]
    specs["Master"] = copy.deepcopy(specs["Master"])
    (main,) = specs["Master"]["template"]["spec"]["containers"]
    main["ports"] = [{"name": "pytorchjob-port", "containerPort": 4000}]
    main["env"] = [{"name": "PYTHONUNBUFFERED", "value": "0"}]
    assert as_seen_by(translate(job), "worker", 0)["MASTER_PORT"] == "4000"
    assert as_seen_by(translate(job), "master", 0)["PYTHONUNBUFFERED"] == "0"


@pytest.mark.parametrize("job", [pytorchjob(), mpijob()], ids=lambda job: job["kind"])
def test_the_job_succeeds_with_its_first_role(job: dict[str, Any]) -> None:
    first, second = translate(job)["spec"]["roles"]
    assert first["eventPolicy"] == [{"event": "RoleSucceeded", "action": "TaskSetSucceeded"}]
    assert "eventPolicy" not in second


@pytest.mark.parametrize(
    ("spec", "variable", "lines"),
    [
        ({}, "OMPI_MCA_orte_default_hostfile", ["worker-0.j01 slots=1", "worker-1.j01 slots=1"]),
        ({"slotsPerWorker": 8}, "OMPI_MCA_orte_default_hostfile", ["worker-0.j01 slots=8", "worker-1.j01 slots=8"]),
        (
            {"runLauncherAsWorker": True, "mpiImplementation": "Intel", "slotsPerWorker": 2},
            "I_MPI_HYDRA_HOST_FILE",
            ["launcher-0.j01:2", "worker-0.j01:2", "worker-1.j01:2"],
        ),
        ({"mpiImplementation": "MPICH"}, "HYDRA_HOST_FILE", ["worker-0.j01:1", "worker-1.j01:1"]),
    ],
)
def test_the_launcher_finds_its_workers_in_a_file(spec: dict[str, Any], variable: str, lines: list[str]) -> None:
    file = Path(as_seen_by(translate(mpijob(**spec)), "launcher", 0)[variable])
    assert file.read_text().splitlines() == lines
    file.unlink()


def test_workers_of_an_mpijob_wait_for_ssh_unless_they_are_told_otherwise() -> None:
    assert as_pod(translate(mpijob()), "worker", 0)[0] == ["/usr/sbin/sshd", "-De"]
    assert as_pod(translate(example("MPIJob")), "worker", 0)[0][0] == "sh"


def test_policies_of_the_run_are_the_taskset_s() -> None:
    job = pytorchjob(runPolicy={"backoffLimit": 3, "activeDeadlineSeconds": 60})
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "OnFailure"
    spec = translate(job)["spec"]
    assert spec["activeDeadlineSeconds"] == 60
    assert spec["roles"][1]["retryPolicy"] == {"retry": True, "delay": 0, "maxRetryCount": 3}
    assert spec["roles"][0]["retryPolicy"] == spec["roles"][1]["retryPolicy"]
    job["spec"]["pytorchReplicaSpecs"]["Master"]["restartPolicy"] = "Never"
    assert "retryPolicy" not in translate(job)["spec"]["roles"][0]


def test_replicas_of_a_pytorchjob_restart_where_it_says_nothing() -> None:
    for role in translate(pytorchjob())["spec"]["roles"]:
        assert role["template"]["spec"]["restartPolicy"] == "OnFailure"
        assert "retryPolicy" not in role


def entrypoint_only(name: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": "x", "args": ["--fast"]}]}}


def test_workers_that_run_their_image_s_entrypoint_have_a_role_for_each_rank() -> None:
    job = changed(pytorchjob(), PYTORCH, "Worker", template=entrypoint_only("pytorch"))
    taskset = translate(job)
    assert [role["name"] for role in taskset["spec"]["roles"]] == ["master", "worker-0", "worker-1"]
    container = taskset["spec"]["roles"][2]["template"]["spec"]["containers"][0]
    assert "command" not in container
    assert container["args"] == ["--fast"]
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert (environment["RANK"], environment["WORLD_SIZE"]) == ("2", "3")


def test_a_launcher_that_runs_its_image_s_entrypoint_finds_its_workers_in_a_file(tmp_path: Path) -> None:
    taskset = translate(changed(mpijob(), MPI, "Launcher", template=entrypoint_only("l")))
    maker = PodMaker(LaunchRequest("j01", "default", "ada", taskset), OWNER, pull_secrets=(), grace_seconds=1)
    pod = maker.pod(ReplicaKey("launcher", 0))["spec"]
    (main,), (writer,) = pod["containers"], pod["initContainers"]
    assert (main.get("command"), main["args"]) == (None, ["--fast"])
    shell, option, script = writer["command"]
    variables = [(one["name"], one["value"]) for one in writer["env"]]
    script = script.replace("/mpi-hosts", str(tmp_path))
    subprocess.run([shell, option, script], env=compose({"PATH": "/usr/bin:/bin"}, {}, variables, {}), check=True)
    assert (tmp_path / "hosts").read_text().splitlines() == ["worker-0.j01 slots=1", "worker-1.j01 slots=1"]
    assert {"name": "OMPI_MCA_orte_default_hostfile", "value": "/mpi-hosts/hosts"} in main["env"]
    assert main["volumeMounts"] == writer["volumeMounts"]


def without(job: dict[str, Any], field: str, name: str) -> dict[str, Any]:
    del job["spec"][field][name]
    return job


def changed(job: dict[str, Any], field: str, name: str, **fields: Any) -> dict[str, Any]:
    job["spec"][field][name] = {**job["spec"][field][name], **fields}
    return job


PYTORCH, MPI = "pytorchReplicaSpecs", "mpiReplicaSpecs"


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (without(pytorchjob(), PYTORCH, "Master"), "Master: there must be one"),
        (changed(pytorchjob(), PYTORCH, "Master", replicas=2), "Master: there must be one"),
        (changed(pytorchjob(), PYTORCH, "Worker", restartPolicy="ExitCode"), "ExitCode has no counterpart"),
        (changed(pytorchjob(), PYTORCH, "Worker", template={}), "Worker.template.spec.containers: there are none"),
        (pytorchjob(elasticPolicy={"minReplicas": 1}), "elasticPolicy"),
        ({"kind": "PyTorchJob", "spec": {PYTORCH: {"Chief": {}}}}, "Chief: known are Master, Worker"),
        (without(mpijob(), MPI, "Launcher"), "Launcher: there must be one"),
        (without(mpijob(), MPI, "Worker"), "Worker: there must be at least one"),
        (changed(mpijob(), MPI, "Worker", replicas=0), "Worker: there must be at least one"),
        (mpijob(mpiImplementation="LAM"), "known are OpenMPI, Intel, MPICH"),
    ],
)
def test_what_a_taskset_cannot_say_is_refused_by_name(job: dict[str, Any], says: str) -> None:
    with pytest.raises(Untranslatable, match=says):
        translate(job)
