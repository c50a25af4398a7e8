from __future__ import annotations

import copy
from typing import Any

import pytest
from command_decorator import GREETING, decorate
from header_gate import decide
from life_hook import Hook
from priority_binder import LABEL, bind, weigh
from priority_factors import by_history, by_size, by_user
from server import create_app

HEADER = {"userID": "ada", "jobName": "n", "jobKind": "TFJob", "jobID": "j01"}


def packet(taskset: dict[str, Any], *, factors: dict[str, Any] | None = None, **header: Any) -> dict[str, Any]:
    return {"factors": factors or {}, "header": HEADER | header, "job": taskset}


def taskset(*containers: dict[str, Any], replicas: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
        "kind": "TaskSet",
        "metadata": {"name": "j01"},
        "spec": {
            "roles": [{"name": "main", "replicas": replicas, "template": {"spec": {"containers": list(containers)}}}]
        },
    }


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "main", "image": "busybox", **fields}


def containers_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    return document["spec"]["roles"][0]["template"]["spec"]["containers"]


@pytest.mark.parametrize(
    ("role", "advice"), [("admin", "10"), ("master", "10"), ("guest", "5"), (None, "5"), (["admin"], "5")]
)
def test_the_priority_by_user_follows_the_role_in_the_header(role: Any, advice: str) -> None:
    answer = by_user(packet(taskset(), user_role=role))
    assert answer["topic"] == "priority"
    assert answer["advice"] == advice
    assert answer["reason"]


@pytest.mark.parametrize(("replicas", "advice"), [(1, "4"), (4, "4"), (5, "2")])
def test_the_priority_by_size_counts_replicas(replicas: int, advice: str) -> None:
    assert by_size(packet(taskset(container(), replicas=replicas)))["advice"] == advice


@pytest.mark.parametrize(
    ("endings", "advice"), [([], "5"), (["failed"], "1"), (["failed", "succeeded"], "6"), (["stopped"], "6")]
)
def test_the_priority_by_history_looks_at_how_jobs_ended(endings: list[str], advice: str) -> None:
    assert by_history(packet(taskset()), endings)["advice"] == advice


@pytest.mark.parametrize(
    ("header", "decision"),
    [({}, "pass"), ({"gate": "pass"}, "pass"), ({"gate": "suspend"}, "suspend"), ({"gate": "stop"}, "stop")]
    + [({"gate": odd}, "stop") for odd in ("maybe", "", 1, None, ["pass"])],
)
def test_the_gate_decides_by_the_header(header: dict[str, Any], decision: str) -> None:
    answer = decide(packet(taskset(), **header))
    assert answer["decision"] == decision
    assert answer["reason"]


@pytest.mark.parametrize(
    ("command", "decorated"),
    [
        (["sh", "-c", "run; exit 0"], ["sh", "-c", GREETING + "run; exit 0"]),
        (["/bin/bash", "-e", "-lc", "run", "name"], ["/bin/bash", "-e", "-lc", GREETING + "run", "name"]),
        (["python", "a.py"], ["sh", "-c", GREETING + 'exec "$0" "$@"', "python", "a.py"]),
        (["sh", "script.sh"], ["sh", "-c", GREETING + 'exec "$0" "$@"', "sh", "script.sh"]),
        (["sh", "-c"], ["sh", "-c", GREETING + 'exec "$0" "$@"', "sh", "-c"]),
        (["sh", "-c", "--", "run"], ["sh", "-c", GREETING + 'exec "$0" "$@"', "sh", "-c", "--", "run"]),
        (
            ["sh", "-eo", "pipefail", "-c", "x"],
            ["sh", "-c", GREETING + 'exec "$0" "$@"', "sh", "-eo", "pipefail", "-c", "x"],
        ),
        (["bash", "--norc", "x"], ["sh", "-c", GREETING + 'exec "$0" "$@"', "bash", "--norc", "x"]),
    ],
)
def test_the_decorator_lets_a_command_grow_at_its_front_only(command: list[str], decorated: list[str]) -> None:
    answer = decorate(packet(taskset(container(command=command))))
    assert containers_of(answer)[0]["command"] == decorated


def test_the_decorator_keeps_everything_else() -> None:
    given = taskset(
        container(command=["sh", "-c", "run"], args=["--x"], env=[{"name": "A", "value": "1"}]),
        {"name": "image-entrypoint", "image": "nginx", "args": ["-g"]},
        container(name="taken", env=[{"name": "PREPARED_BY", "value": "somebody"}]),
    )
    asked = packet(given)
    before = copy.deepcopy(asked)
    answer = decorate(asked)
    assert asked == before
    main, entrypoint, taken = containers_of(answer)
    assert main["env"] == [{"name": "A", "value": "1"}, {"name": "PREPARED_BY", "value": "example-decorator"}]
    assert main["args"] == ["--x"]
    assert "command" not in entrypoint
    assert taken["env"] == [{"name": "PREPARED_BY", "value": "somebody"}]
    for decorated, old in zip(containers_of(answer), containers_of(given), strict=True):
        decorated.pop("env")
        decorated.pop("command", None)
        assert decorated == {field: value for field, value in old.items() if field not in ("env", "command")}
    answer["spec"].pop("roles")
    given["spec"].pop("roles")
    assert answer == given


@pytest.mark.parametrize(
    ("advice", "priority"),
    [(["10", "4", "1"], 5), ([10, 4.5], 7), ([], 5), (["high", None, {}, True, "nan", "inf"], 5), (["x", "3"], 3)],
)
def test_the_binder_takes_the_mean_of_what_is_a_number(advice: list[Any], priority: int) -> None:
    assert weigh([{"topic": "priority", "advice": value, "reason": ""} for value in advice]) == priority


def test_the_binder_only_labels_pods_and_names_the_scheduler() -> None:
    given = taskset(container())
    given["spec"]["roles"][0]["template"]["metadata"] = {"labels": {"app": "x"}}
    answer = bind(packet(given, factors={"priority": [{"topic": "priority", "advice": "9", "reason": ""}]}), "volcano")
    template = answer["spec"]["roles"][0]["template"]
    assert template["metadata"]["labels"] == {"app": "x", LABEL: "9"}
    assert template["spec"].pop("schedulerName") == "volcano"
    template["metadata"]["labels"].pop(LABEL)
    assert answer == given


def event(job_name: str, *, sequence: int = 1, state: str = "waiting") -> dict[str, Any]:
    return {"id": "j01", "jobName": job_name, "userID": "ada", "sequence": sequence, "current_state": state}


@pytest.mark.parametrize(
    ("job_name", "answers"),
    [("plain", ["OK", "OK"]), ("x-ex", ["EX", "EX"]), ("x-re2", ["RE", "RE", "OK", "OK"]), ("x-re0", ["OK"])],
)
def test_the_hook_answers_by_the_job_name(job_name: str, answers: list[str]) -> None:
    hook = Hook()
    assert [hook.hear(event(job_name), "w1") for _ in answers] == answers
    assert [received["attempt"] for received in hook.received()] == list(range(1, len(answers) + 1))


def test_the_hook_counts_attempts_for_each_event_by_itself() -> None:
    hook = Hook()
    assert hook.hear(event("x-re1"), "w1") == "RE"
    assert hook.hear(event("x-re1", sequence=2), "w2") == "RE"
    assert hook.hear(event("x-re1"), "w1") == "OK"


def test_the_server_gives_each_plugin_its_address() -> None:
    client = create_app().test_client()
    asked = packet(taskset(container(command=["sh", "-c", "run"])))
    for address in ("/factors/user", "/factors/size", "/factors/history"):
        assert client.post(address, json=asked).get_json()["topic"] == "priority"
    assert client.post("/gate/header", json=asked).get_json()["decision"] == "pass"
    assert client.post("/decorate/command", json=asked).get_json()["kind"] == "TaskSet"
    assert client.post("/bind/priority", json=asked).get_json()["kind"] == "TaskSet"
    received = client.post("/hook", json=event("n", state="failed"), headers={"Idempotency-Key": "w1"})
    assert (received.data, received.mimetype) == (b"OK", "text/plain")
    assert client.get("/received").get_json()[0]["delivery"] == "w1"
    assert client.post("/factors/history", json=asked).get_json()["advice"] == "1"


def test_what_cannot_be_translated_is_a_bad_answer_that_says_why() -> None:
    answer = create_app().test_client().post("/translate/tfjob", json=packet({"kind": "TFJob"}))
    assert answer.status_code == 422
    assert "tfReplicaSpecs" in answer.get_json()["error"]
