from __future__ import annotations

from typing import Any

import pytest

from pipeline_core.errors import WrongParameter
from pipeline_core.flows.definition.catalogue import Catalogue
from pipeline_core.flows.definition.documents import read_document, read_entry
from pipeline_core.flows.definition.flow import Flow
from pipeline_core.flows.definition.preparation import global_env_values, prepare
from pipeline_core.flows.definition.templates import read_templates
from pipeline_core.flows.notation.site import Site
from pipeline_core.flows.runs.taskset import RunContext, build, ports_to_lease
from pipeline_core.taskset.schema import check
from tests.unit.flows.flow_cases import case, site

CATALOGUE = Catalogue(read_templates(case("support-job-templates.json"), site()).values())


def run_of(flow: Flow) -> RunContext:
    return RunContext(
        id="r01",
        flow_id="7",
        flow_name=flow.name,
        project=flow.project,
        creator="li.lei",
        runner="bob",
        execution_date="2026-03-01 06:00:00",
    )


def made(
    flow: Flow, name: str, site: Site, outputs: dict[str, str] | None = None, ports: tuple[int, ...] = (), **rest: Any
) -> dict[str, Any]:
    """The TaskSet of a task of the flow, in a run of it."""
    run, task = run_of(flow), flow.tasks[name]
    template = CATALOGUE.find(task.template)
    builtin = run.builtin_values(site)
    values = global_env_values(flow, builtin)
    prepared = prepare(task, template, {**builtin, **values}, outputs or {}, run.creator, site)
    document = build(task, template, prepared, run, values, site, ports, **rest)
    check(document)
    return document


def flow_of(name: str, key: str, site: Site) -> Flow:
    return read_document(case(name), CATALOGUE, site)[key].flow


def pod_of(document: dict[str, Any], role: int = 0) -> dict[str, Any]:
    pod: dict[str, Any] = document["spec"]["roles"][role]["template"]["spec"]
    return pod


def container_of(document: dict[str, Any], role: int = 0) -> dict[str, Any]:
    container: dict[str, Any] = pod_of(document, role)["containers"][0]
    return container


def env_of(document: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in container_of(document)["env"]}


def small(site: Site, pipeline: dict[str, Any] | None = None, **task: Any) -> Flow:
    script = {"name": "a", "job_templete": "customize", "args": {"images": "busybox", "command": "true"}}
    entry = {"pipeline": {"name": "f", **(pipeline or {})}, "tasks": [{**script, **task}]}
    return read_entry(entry, CATALOGUE, site).flow


@pytest.fixture
def credit(site: Site) -> Flow:
    return flow_of("case1-linear-fanout-wiki-fields.json", "credit-score", site)


@pytest.fixture
def clicks(site: Site) -> Flow:
    return flow_of("case2-diamond-scheduled-two-pipelines.json", "ctr-backfill", site)


@pytest.fixture
def tuning(site: Site) -> Flow:
    return flow_of("case3-distributed-gpu-notations.json", "llm-sft", site)


def test_argv_is_that_of_the_template_with_variables_filled_in(credit: Flow, site: Site) -> None:
    container = container_of(made(credit, "train-tree", site))
    assert container["command"] == ["python3", "launcher.py"]
    assert container["args"] == [
        *("--train_dataset", "/mnt/li.lei/credit/train.csv", "--label_columns", "y"),
        *("--feature_columns", "age,income,overdue_days", "--save_model_dir", "/mnt/li.lei/credit/2026-03-01/"),
        *("--model_params", '{"max_depth": 5, "min_samples_leaf": 10}'),
    ]
    assert "--verbose" in container_of(made(credit, "evaluate-tree", site))["args"]


def test_a_script_runs_in_its_image_and_directory(credit: Flow, site: Site) -> None:
    container = container_of(made(credit, "clean-data", site))
    assert container["command"] == ["sh", "-c", "python clean.py --day '2026-03-01' && ls -l \"$PWD\""]
    assert container["workingDir"] == "/mnt/li.lei/credit/"
    assert "args" not in container
    assert container["volumeMounts"][0] == {"name": "volume-0", "mountPath": "/mnt/li.lei", "subPath": "li.lei"}
    assert container["resources"] == {"requests": {"cpu": "2", "memory": "2G"}, "limits": {"cpu": "2", "memory": "2G"}}
    environment = env_of(made(credit, "clean-data", site))
    assert environment["JDBC_OPTS"] == "useSSL=false&tz=UTC"
    assert environment["KFJ_TASK_VOLUME_MOUNT"].startswith("kubeflow-user-workspace(pvc):/mnt")


def test_zero_is_passed_and_the_output_of_another_task_filled_in(clicks: Flow, site: Site) -> None:
    arguments = container_of(made(clicks, "feature-user", site, {"pick-window": "2026-03-01"}))["args"]
    assert arguments[:4] == ["--window", "2026-03-01", "--days", "0"]
    assert "--users" not in container_of(made(clicks, "feature-item", site, {"pick-window": "x"}))["args"]
    with pytest.raises(WrongParameter, match="no output of a task pick-window"):
        made(clicks, "feature-user", site)


def test_request_limit_model_and_timeout_are_the_pods(clicks: Flow, site: Site) -> None:
    document = made(clicks, "join-train", site)
    resources = container_of(document)["resources"]
    assert resources["requests"] == {"cpu": "4", "memory": "8G", "nvidia.com/gpu": "1"}
    assert resources["limits"] == {"cpu": "8", "memory": "16G", "nvidia.com/gpu": "1"}
    assert pod_of(document)["nodeSelector"] == {"gpu-type": "V100"}
    assert document["spec"]["activeDeadlineSeconds"] == 3600
    assert env_of(document)["GPU_RESOURCE_NAME"] == "nvidia.com/gpu"
    assert document["metadata"]["labels"] == {
        "pipeline/run-id": "r01",
        "pipeline/flow": "ctr-backfill",
        "pipeline/task": "join-train",
    }
    assert document["metadata"]["annotations"] == {"pipeline/collect": "true"}


def test_a_distributed_task_has_a_master_and_workers(tuning: Flow, site: Site) -> None:
    document = made(tuning, "sft-a", site)
    assert [(role["name"], role["replicas"]) for role in document["spec"]["roles"]] == [("master", 1), ("worker", 2)]
    container = container_of(document, 1)
    script = container["command"][2]
    assert script.endswith('--note "it\'s 100%"')
    assert "WORLD_SIZE=3 RANK=$((TASKROLE_REPLICA_INDEX + 1))\nbash start.sh --tag a" in script
    assert container["resources"]["limits"] == {"cpu": "10", "memory": "40G", "nvidia.com/gpu": "2", "rdma/hca": "1"}
    assert container["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    assert [next(iter(volume.keys() - {"name"})) for volume in pod_of(document)["volumes"]] == [
        *("persistentVolumeClaim", "persistentVolumeClaim", "hostPath", "emptyDir", "configMap", "nfs")
    ]
    assert env_of(document)["RDMA_RESOURCE_NAME"] == "rdma/hca"


def test_other_vendors_shares_and_shared_cards_are_the_pods(tuning: Flow, site: Site) -> None:
    npu = made(tuning, "sft-b", site)
    assert container_of(npu)["resources"]["limits"]["huawei.com/Ascend910"] == "1"
    assert pod_of(npu)["nodeSelector"] == {"gpu-type": "910B"}
    share = made(tuning, "eval-vgpu", site)
    assert container_of(share)["resources"]["limits"] == {
        "cpu": "2",
        "memory": "2G",
        "nvidia.com/gpucores": "10",
        "nvidia.com/gpumem": "10",
    }
    shared = made(tuning, "eval-share", site)
    assert container_of(shared)["resources"]["limits"] == {"cpu": "2", "memory": "2G"}
    assert env_of(shared)["NVIDIA_VISIBLE_DEVICES"] == "all"


def test_a_task_with_the_hosts_network_has_its_leased_ports(tuning: Flow, site: Site) -> None:
    document = made(tuning, "spark-stat", site, ports=(40001, 40002))
    assert pod_of(document)["hostNetwork"] is True
    assert pod_of(document)["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert container_of(document)["ports"][1] == {"containerPort": 40002, "hostPort": 40002}
    environment = env_of(document)
    assert (environment["PORT1"], environment["PORT2"], environment["SPARK_OPTS"]) == ("40001", "40002", "--conf a=b")
    assert container_of(document)["args"][1].endswith("--pid 7 --run bob@local")


def test_a_logical_task_runs_nothing(tuning: Flow, site: Site) -> None:
    with pytest.raises(ValueError, match="runs nothing"):
        made(tuning, "gate", site)


def test_a_debug_pod_sleeps_for_a_time_in_place_of_the_command(tuning: Flow, site: Site) -> None:
    document = made(tuning, "sft-a", site, debug_seconds=7200)
    assert container_of(document)["command"] == ["sh", "-c", "sleep 7200"]
    assert (len(document["spec"]["roles"]), document["spec"]["activeDeadlineSeconds"]) == (1, 7260)


def test_double_dollars_reach_the_shell_as_they_were_written(site: Site) -> None:
    flow = small(site, command="echo $$ $HOME $(date)", env="A=$$x")
    document = made(flow, "a", site)
    assert container_of(document)["command"][2] == "echo $$$$ $HOME $(date)"
    assert env_of(document)["A"] == "$$$$x"


def test_ports_are_leased_for_host_networks_and_for_replicas_that_share_an_address(tuning: Flow, site: Site) -> None:
    run = run_of(tuning)

    def needed(name: str, *, shared_address: bool) -> int:
        task = tuning.tasks[name]
        template = CATALOGUE.find(task.template)
        values = {**run.builtin_values(site), **global_env_values(tuning, run.builtin_values(site))}
        prepared = prepare(task, template, values, {}, "ann", site)
        return ports_to_lease(template, prepared, shared_address=shared_address)

    assert [needed(name, shared_address=True) for name in ("spark-stat", "sft-a", "gate")] == [2, 1, 0]
    assert [needed(name, shared_address=False) for name in ("spark-stat", "sft-a")] == [2, 0]
    script = container_of(made(tuning, "sft-a", site, ports=(30001,)))["command"][2]
    assert "MASTER_PORT=30001" in script
