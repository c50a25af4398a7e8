"""`pipeline plugin try`: an unchanged plugin decides about past jobs as it did, and of a changed one each difference is shown."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pipeline_cli import main
from pipeline_cli.exits import Exit
from tests.builders import container, role, taskset_of
from tests.installation import Installation, installed
from tests.plugin_server import PluginServer
from tests.servers import fresh_database
from tests.waiting import wait_for

JOBS = 230
TYPES = {
    "translate": "TemplateTranslator",
    "factors": "FactorGenerator",
    "gates": "AccessGate",
    "decorate": "TemplateDecorator",
    "bind": "SchedulerBinder",
}
REPLICAS = 5
"""The numbers of replicas of jobs go from 1 to this; those with the most are stopped by the gate."""


def translate(packet: Any) -> Any:
    job = packet["job"]
    if job["run"] == "nothing":
        return 422, {"reason": "there is nothing to run"}
    secret = [{"name": "API_TOKEN", "value": job["env"][0]["value"]}, {"name": "LEVEL", "value": "1"}]
    return taskset_of(role("main", container(job["run"], env=secret), replicas=job["replicas"]))


def generate(packet: Any) -> Any:
    return [{"topic": "size", "advice": {"replicas": replicas(packet)}, "reason": packet["header"]["jobID"]}]


def decide(packet: Any) -> Any:
    (size,) = packet["factors"]["size"]
    if size["advice"]["replicas"] == REPLICAS:
        return {"decision": "stop", "reason": "it is too large"}
    if packet["header"]["userID"] == "eve":
        return {"decision": "suspend", "reason": "somebody has to look"}
    return {"decision": "pass", "reason": f"{replicas(packet)} replicas"}


def decorate(packet: Any) -> Any:
    job = copy.deepcopy(packet["job"])
    pod = job["spec"]["roles"][0]["template"]["spec"]
    pod["containers"][0]["env"].insert(0, {"name": "DB_PASSWORD", "value": "hidden-too"})
    pod["containers"].append({"name": "side", "image": "busybox", "command": ["sleep", "1"]})
    return job


def bind(packet: Any) -> Any:
    job = copy.deepcopy(packet["job"])
    job["spec"]["roles"][0]["template"]["spec"]["schedulerName"] = f"for-{packet['header']['userID']}"
    return job


UNCHANGED: dict[str, Callable[[Any], Any]] = {
    "translate": translate,
    "factors": generate,
    "gates": decide,
    "decorate": decorate,
    "bind": bind,
}


def served(server: PluginServer) -> dict[str, str]:
    """The addresses of the plugins, by stage."""
    return {stage: server.plugin(f"/past/{stage}", answer) for stage, answer in UNCHANGED.items()}


def replicas(packet: Any) -> int:
    return int(packet["job"]["spec"]["roles"][0]["replicas"])


def submission(number: int) -> dict[str, Any]:
    job = {
        "kind": "Script",
        "run": "nothing" if number % 23 == 0 else "true",
        "replicas": number % REPLICAS + 1,
        "env": [{"name": "API_TOKEN", "value": "hidden"}],
    }
    user = ("ann", "bob", "eve")[number % 3]
    return {"userID": user, "jobName": f"n{number}", "jobKind": "Script", "header": {"team": "vision"}, "job": job}


@pytest.fixture(scope="module")
def past(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_url: str,
    migrated_database: str,
    redis_url: str,
    plugin_server: PluginServer,
) -> Iterator[Installation]:
    """An installation that has had JOBS jobs, about each of which the plugins decided what they could."""
    with (
        fresh_database(postgres_url, template=migrated_database) as database_url,
        installed(
            tmp_path_factory.mktemp("past"), database_url, redis_url, split=False, PIPELINE_CLUSTER_DRIVER="null"
        ) as installation,
    ):
        installation.start()
        wait_for(lambda: installation.ask("GET", "/readyz").status_code == 200, "the API")
        addresses = served(plugin_server)
        plugins = [{"pluginType": TYPES[stage], "callAddress": address} for stage, address in addresses.items()]
        installation.register("past", *plugins)
        for number in range(JOBS):
            installation.post("/v1/job", submission(number))
        left = "/v1/job/count?state=waiting,running"
        wait_for(
            lambda: installation.get(left)["count"] == 0,
            "the plugins to have decided about all jobs",
            progress=lambda: installation.get(left)["count"],
        )
        yield installation


@pytest.fixture
def tried(past: Installation, plugins: PluginServer) -> Callable[..., Result]:
    """Tries a function as the plugin of a stage."""

    def run(stage: str, function: Callable[[Any], Any], *options: str, token: str = "") -> Result:
        address = plugins.plugin("/tried", function)
        environment = {"PIPELINE_URL": past.url, "PIPELINE_TOKEN": token or past.password}
        command = ["plugin", "try", address, "--type", TYPES[stage], *options]
        return CliRunner().invoke(main, command, env=environment)

    return run


def ids(past: Installation, query: str = "") -> set[str]:
    return {job["jobID"] for job in past.get(f"/v1/job/list?pageSize=500{query}")}


def found(result: Result, code: Exit) -> Any:
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("stage", TYPES)
def test_an_unchanged_plugin_decides_as_it_did(
    stage: str, past: Installation, plugins: PluginServer, tried: Callable[..., Result]
) -> None:
    document = found(tried(stage, UNCHANGED[stage], "--jobs", str(JOBS), "--json"), Exit.OK)
    decided = {entry["jobID"] for entry in document["jobs"]}
    assert document["counts"] == {"same": len(decided), "different": 0, "not compared": 0}
    expected = ids(past) if stage == "translate" else decided
    assert decided == expected
    least = {"translate": JOBS, "factors": 200, "gates": 200}.get(stage, 100)
    assert len(decided) >= least
    assert len({call.body["header"]["jobID"] for call in plugins.calls_of("/tried")}) == len(decided)
    assert "hidden" not in json.dumps([call.body for call in plugins.calls_of("/tried")])
    assert len({call.headers["Idempotency-Key"] for call in plugins.calls_of("/tried")}) == len(decided)


def test_of_a_changed_gate_each_difference_is_shown(past: Installation, tried: Callable[..., Result]) -> None:
    def changed(packet: Any) -> Any:
        return {"decision": "stop", "reason": "bob"} if packet["header"]["userID"] == "bob" else decide(packet)

    result = tried("gates", changed, "--jobs", "200")
    assert result.exit_code == Exit.JOB_NOT_SUCCEEDED
    document = found(tried("gates", changed, "--jobs", "200", "--json"), Exit.JOB_NOT_SUCCEEDED)
    different = [job for job in document["jobs"] if job["verdict"] == "different"]
    passed = ids(past, "&userID=bob&state=succeeded")
    looked_at = {job["jobID"] for job in document["jobs"]}
    assert {job["jobID"] for job in different} == passed & looked_at
    assert {(job["then"]["decision"], job["now"]["decision"]) for job in different} == {("pass", "stop")}
    assert [line.split()[0] for line in result.stdout.splitlines() if line.endswith("  different")] == [
        job["jobID"] for job in different
    ]
    assert "  now   stop: bob" in result.stdout
    same = len(looked_at) - len(different)
    assert result.stdout.splitlines()[-1] == f"200 past jobs: {same} same, {len(different)} different"


@pytest.mark.parametrize("stage", ["translate", "decorate", "bind", "factors"])
def test_a_change_is_shown_as_a_difference(stage: str, tried: Callable[..., Result]) -> None:
    def changed(packet: Any) -> Any:
        answer = UNCHANGED[stage](packet)
        if isinstance(answer, tuple):
            return answer
        if stage == "factors":
            answer[0]["advice"] = "changed"
            return answer
        pod = answer["spec"]["roles"][0]["template"]["spec"]
        if stage == "bind":
            pod["schedulerName"] = "changed"
        elif stage == "decorate":
            pod["containers"][-1]["image"] = "changed"
        else:
            pod["containers"][0]["image"] = "changed"
        return answer

    # Those that the translator rejects are the same.
    options = ("--jobs", "3", "--where", "user=ann", "--where", "state=succeeded")
    result = tried(stage, changed, *options)
    assert result.exit_code == Exit.JOB_NOT_SUCCEEDED
    assert result.stdout.splitlines()[-1] == "3 past jobs: 3 different"
    assert result.stdout.count("+++ now") == 3
    assert result.stdout.count("changed") == 3
    document = found(tried(stage, changed, *options, "--json"), Exit.JOB_NOT_SUCCEEDED)
    if stage != "factors":
        assert [[step["value"] for step in job["patch"]] for job in document["jobs"]] == [["changed"]] * 3


def test_a_plugin_that_fails_or_answers_wrongly_agrees_with_nothing(tried: Callable[..., Result]) -> None:
    def replaces(packet: Any) -> Any:
        job = decorate(packet)
        job["spec"]["roles"][0]["template"]["spec"]["containers"][0]["image"] = "other"
        return job

    result = tried("decorate", replaces, "--jobs", "2")
    assert result.exit_code == Exit.JOB_NOT_SUCCEEDED
    assert result.stdout.count("  now   failed: ") == 2
    assert "image" in result.stdout


def test_jobs_are_chosen_and_a_token_sees_its_own(past: Installation, tried: Callable[..., Result]) -> None:
    own = past.post("/v1/tokens", {"privileges": ["read_job"], "forwho": "ann", "ownOnly": True})["token"]
    mine = found(tried("translate", translate, "--jobs", "1000", "--json", token=own), Exit.OK)["jobs"]
    assert {job["jobID"] for job in mine} == ids(past, "&userID=ann")
    failed = found(
        tried("translate", translate, "--where", "state=failed", "--where", "kind=Script", "--json"), Exit.OK
    )
    assert {job["then"]["outcome"] for job in failed["jobs"]} == {"rejected"}
    assert {job["jobID"] for job in failed["jobs"]} == ids(past, "&state=failed")
    assert tried("gates", decide, "--where", "kind=TFJob").exit_code == Exit.NOT_FOUND
    other = past.post("/v1/tokens", {"privileges": ["write_job"], "forwho": "ann"})["token"]
    assert tried("gates", decide, token=other).exit_code == Exit.DENIED


def test_where_several_plugins_decided_one_of_them_is_chosen(
    past: Installation, plugin_server: PluginServer, tried: Callable[..., Result]
) -> None:
    selector = {"conditions": [{"name": "two", "key": "gates", "expect": "two"}], "expression": "two"}
    address = plugin_server.plugin("/second", lambda packet: {"decision": "stop", "reason": "second"})
    served(plugin_server)
    past.register("second", {"pluginType": "AccessGate", "callAddress": address}, jobSelector=selector)
    job_id = past.post("/v1/job", {**submission(1), "jobName": "two-gates", "header": {"gates": "two"}})["jobID"]
    past.wait_state(job_id, "stopped")

    def stop(packet: Any) -> Any:
        return {"decision": "stop"}

    where = ("--where", "name=two-gates")
    result = tried("gates", stop, *where)
    assert result.exit_code == Exit.USAGE
    assert "AccessGate.past.tests, AccessGate.second.tests" in result.output
    assert tried("gates", stop, *where, "--against", "AccessGate.second.tests").exit_code == Exit.OK
    first = tried("gates", stop, *where, "--against", "AccessGate.past.tests")
    assert first.exit_code == Exit.JOB_NOT_SUCCEEDED
    assert f"{job_id}  different" in first.stdout
    past.ask("DELETE", "/v1/features/second")


def test_a_plugin_that_is_not_there_is_said_once(past: Installation) -> None:
    environment = {"PIPELINE_URL": past.url, "PIPELINE_TOKEN": past.password}
    command = ["plugin", "try", "http://127.0.0.1:1/", "--type", "FactorGenerator"]
    result = CliRunner().invoke(main, command, env=environment)
    assert result.exit_code == Exit.JOB_NOT_SUCCEEDED
    assert result.output.count("http://127.0.0.1:1/") == 1
