"""Shadows with the service itself: what they are asked, what becomes of their answers, and promotion under load."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import plugin, taskset
from tests.installation import Installation
from tests.plugin_server import PluginServer
from tests.waiting import wait_for

Packet = dict[str, Any]

PASS = {"decision": "pass", "reason": ""}
TYPES = ("TemplateTranslator", "FactorGenerator", "AccessGate", "TemplateDecorator", "SchedulerBinder")


def labelled(packet: Packet, key: str, value: str) -> Packet:
    """The packet's TaskSet with a label on the pods of its first role."""
    job: Packet = json.loads(json.dumps(packet["job"]))
    template = job["spec"]["roles"][0]["template"]
    template.setdefault("metadata", {}).setdefault("labels", {})[key] = value
    return job


def scheduled(packet: Packet, name: str) -> Packet:
    job: Packet = json.loads(json.dumps(packet["job"]))
    job["spec"]["roles"][0]["template"]["spec"]["schedulerName"] = name
    return job


def answer(type: str, word: str) -> Any:
    """A plugin of the type; what it answers depends on `word`."""
    return {
        "TemplateTranslator": lambda packet: taskset(f"echo {word}"),
        "FactorGenerator": lambda packet: {"topic": "cost", "advice": word},
        "AccessGate": lambda packet: PASS if word == "same" else {"decision": "stop", "reason": word},
        "TemplateDecorator": lambda packet: labelled(packet, "who", word),
        "SchedulerBinder": lambda packet: scheduled(packet, word),
    }[type]


def register(
    service: Installation, plugins: PluginServer, name: str, answers: dict[str, Any], of: str = "", **fields: Any
) -> None:
    """Register a feature with a plugin of each of these types, shadows of those of the feature `of`."""
    entries = [
        plugin(
            type,
            plugins.plugin(f"/{name}/{type}", function),
            **({"mode": "shadow", "shadowOf": f"{type}.{of}.tests"} if of else {}),
            **fields,
        )
        for type, function in answers.items()
    ]
    service.register(name, *entries)


def shadows_on_trail(service: Installation, job_id: str) -> dict[str, dict[str, Any]]:
    trail = service.get(f"/v1/job/trail/{job_id}")
    return {entry["plugin"]: entry for entry in trail if entry["mode"] == "shadow"}


def actually(service: Installation, job_id: str) -> list[tuple[str, str]]:
    trail = service.get(f"/v1/job/trail/{job_id}")
    return [(entry["plugin"], entry["outcome"]) for entry in trail if entry["mode"] == "active"]


def submit_translated(service: Installation) -> str:
    body = {"userID": "ann", "jobName": "train", "jobKind": "TFJob", "job": {"kind": "TFJob", "spec": {}}}
    job_id: str = service.post("/v1/job", body)["jobID"]
    return job_id


@pytest.mark.parametrize("word", ["same", "other"])
def test_a_shadow_of_each_type_is_sent_the_same_and_compared(
    service: Installation, plugins: PluginServer, word: str
) -> None:
    register(service, plugins, "active", {type: answer(type, "same") for type in TYPES})
    register(service, plugins, word, {type: answer(type, word) for type in TYPES}, of="active")
    job_id = submit_translated(service)
    service.wait_state(job_id, "succeeded")
    wait_for(lambda: len(shadows_on_trail(service, job_id)) == len(TYPES), "all shadows to have answered")

    assert actually(service, job_id) == [(f"{type}.active.tests", "answered") for type in TYPES]
    for type in TYPES:
        (sent,) = plugins.calls_of(f"/active/{type}")
        (shown,) = plugins.calls_of(f"/{word}/{type}")
        assert shown.raw == sent.raw, type
        key = f"{type}.{word}.tests"
        assert shown.headers["Idempotency-Key"].endswith(f":{key}:0")
        entry = shadows_on_trail(service, job_id)[key]
        assert (entry["outcome"], entry["asking"]) == ("answered", 0)
        report = service.get(f"/v1/plugins/shadow/{key}")
        counts = [report[name] for name in ("answers", "agreed", "disagreed", "errors", "notCompared")]
        assert counts == ([1, 1, 0, 0, 0] if word == "same" else [1, 0, 1, 0, 0]), type
        assert report["latency"]["shadow"]["medianMs"] >= 0 <= report["latency"]["decided"]["medianMs"]
        for pair in report["disagreements"]:
            assert (pair["jobID"], pair["shadow"]["plugin"]) == (job_id, key)
            assert pair["decided"]["plugin"] == f"{type}.active.tests"
    gate = shadows_on_trail(service, job_id)[f"AccessGate.{word}.tests"]
    assert (gate["decision"], gate["reason"]) == (("pass", "") if word == "same" else ("stop", "other"))


def test_a_shadow_is_asked_where_no_plugin_takes_part(service: Installation, plugins: PluginServer) -> None:
    service.register("alone", plugin(address=plugins.plugin("/alone", lambda packet: PASS), mode="shadow"))
    job_id = service.submit(taskset())
    service.wait_state(job_id, "succeeded")
    wait_for(lambda: shadows_on_trail(service, job_id), "the shadow to have answered")
    assert actually(service, job_id) == []
    report = service.get("/v1/plugins/shadow/AccessGate.alone.tests")
    assert (report["answers"], report["notCompared"], report["latency"]["shadow"]) == (1, 1, None)


def test_a_gate_that_suspends_is_compared_when_it_does(service: Installation, plugins: PluginServer) -> None:
    register(service, plugins, "active", {"AccessGate": lambda packet: {"decision": "suspend", "reason": "wait"}})
    register(service, plugins, "passing", {"AccessGate": lambda packet: PASS}, of="active")
    job_id = service.submit(taskset())
    service.wait_state(job_id, "suspended")
    wait_for(lambda: shadows_on_trail(service, job_id), "the shadow to have answered")
    service.put(f"/v1/job/resume/{job_id}")
    service.wait_state(job_id, "succeeded")
    report = service.get("/v1/plugins/shadow/AccessGate.passing.tests")
    (pair,) = report["disagreements"]
    assert (pair["shadow"]["decision"], pair["decided"]["decision"]) == ("pass", "suspend")
    assert len(plugins.calls_of("/passing/AccessGate")) == 1


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """Set at the end of the test: a plugin that waits for it sleeps until then."""
    event = threading.Event()
    yield event
    event.set()


def test_shadows_that_sleep_fail_or_answer_too_much_change_nothing(
    service: Installation, plugins: PluginServer, stuck: threading.Event
) -> None:
    def sleeps(packet: Packet) -> Any:
        stuck.wait()
        return PASS

    huge = "x" * (100 * 1024 * 1024)
    register(service, plugins, "active", {"AccessGate": lambda packet: PASS})
    register(service, plugins, "sleeps", {"AccessGate": sleeps}, of="active", timeoutSeconds=300)
    register(service, plugins, "fails", {"AccessGate": lambda packet: (500, "no")}, of="active", maxAttempts=1)
    register(service, plugins, "huge", {"AccessGate": lambda packet: huge}, of="active")
    register(service, plugins, "wrong", {"AccessGate": lambda packet: [1]}, of="active")
    jobs = [service.submit(taskset()) for _ in range(5)]
    for job_id in jobs:
        service.wait_state(job_id, "succeeded")
        assert actually(service, job_id) == [("AccessGate.active.tests", "answered")]

    def reports() -> dict[str, Any]:
        return {name: service.get(f"/v1/plugins/shadow/AccessGate.{name}.tests") for name in ("huge", "wrong")}

    wait_for(lambda: all(report["errors"] == 5 for report in reports().values()), "the errors of shadows")
    assert "larger than 8 MiB" in reports()["huge"]["lastErrors"][0]["shadow"]["reason"]
    assert plugins.calls_of("/sleeps/AccessGate")
    detail = service.get("/v1/plugins/detail/AccessGate.active.tests")
    assert (detail["health"]["failuresInARow"], detail["health"]["circuit"]) == (0, "closed")


def test_promotion_under_load_loses_no_asking_and_asks_nobody_twice(
    service: Installation, plugins: PluginServer
) -> None:
    register(service, plugins, "old", {"AccessGate": lambda packet: PASS})
    register(service, plugins, "new", {"AccessGate": lambda packet: PASS}, of="old")
    rounds = 6
    jobs = []
    for number in range(rounds):
        jobs += [service.submit(taskset()) for _ in range(5)]
        name = ("new", "old")[number % 2]
        done = service.put(f"/v1/plugins/promote/AccessGate.{name}.tests")
        assert (done["promoted"]["mode"], done["replaced"]["mode"]) == ("active", "shadow")
    for job_id in jobs:
        service.wait_state(job_id, "succeeded")

    def asked() -> Counter[tuple[str, str]]:
        """How often each plugin was asked about each job, for it (1) or as a shadow (0)."""
        keys = [call.headers["Idempotency-Key"].split(":") for call in plugins.calls]
        return Counter((job_id, kind) for job_id, _, _, kind in keys)

    wait_for(lambda: sum(asked().values()) >= 2 * len(jobs), "the shadows to have answered")
    assert asked() == {(job_id, kind): 1 for job_id in jobs for kind in ("0", "1")}
    both = Counter((call.path, call.headers["X-Job-ID"]) for call in plugins.calls)
    assert set(both.values()) == {1}, "each of the two is asked once about a job"
    deciding = Counter(actually(service, job_id)[0][0] for job_id in jobs)
    assert set(deciding) == {"AccessGate.old.tests", "AccessGate.new.tests"}


def test_a_job_that_was_asked_before_a_promotion_is_not_asked_again_after_it(
    service: Installation, plugins: PluginServer
) -> None:
    register(service, plugins, "old", {"AccessGate": lambda packet: PASS, "TemplateDecorator": answer(TYPES[3], "old")})
    service.register("later", plugin(address=plugins.plugin("/later", lambda packet: {"decision": "suspend"})))
    register(service, plugins, "new", {"AccessGate": lambda packet: PASS}, of="old")
    job_id = service.submit(taskset())
    service.wait_state(job_id, "suspended")
    wait_for(lambda: plugins.calls_of("/new/AccessGate"), "the shadow to have been asked")
    service.put("/v1/plugins/promote/AccessGate.new.tests")
    service.put(f"/v1/job/resume/{job_id}")
    service.wait_state(job_id, "succeeded")
    called = Counter(call.path for call in plugins.calls)
    assert called["/old/AccessGate"] == called["/new/AccessGate"] == 1
