"""Plugins that are unavailable or answer badly: the job waits, then the failure policy applies."""

from __future__ import annotations

import pytest

from tests.builders import taskset
from tests.installation import Installation
from tests.plugin_server import PluginServer
from tests.waiting import wait_for


def register(service: Installation, address: str, **fields: object) -> None:
    service.register("gate", {"pluginType": "AccessGate", "callAddress": address, "maxAttempts": 1, **fields})


def test_the_job_waits_until_the_plugin_is_back_and_its_reason_names_the_plugin(
    service: Installation, plugins: PluginServer
) -> None:
    register(service, plugins.plugin("/gate", lambda packet: (503, "restarting")))
    job_id = service.submit(taskset())
    wait_for(lambda: "AccessGate.gate.tests has been unavailable since" in service.job(job_id)["reason"], "the reason")
    assert service.job(job_id)["state"] == "waiting"
    plugins.plugin("/gate", lambda packet: {"decision": "pass"})
    service.wait_state(job_id, "succeeded")
    assert {call.headers["Idempotency-Key"] for call in plugins.calls_of("/gate")} == {
        f"{job_id}:gates:AccessGate.gate.tests:1"
    }


@pytest.mark.parametrize(("policy", "state"), [("Fail", "failed"), ("Ignore", "succeeded"), ("Suspend", "suspended")])
def test_after_its_patience_the_failure_policy_of_a_plugin_applies(
    service: Installation, plugins: PluginServer, policy: str, state: str
) -> None:
    register(service, plugins.plugin("/gate", lambda packet: (503, "")), patienceSeconds=0, failurePolicy=policy)
    job_id = service.submit(taskset())
    job = service.wait_state(job_id, state)
    (entry,) = service.get(f"/v1/job/trail/{job_id}")
    assert entry["outcome"] == {"Fail": "failed", "Ignore": "ignored", "Suspend": "suspended"}[policy]
    if state == "suspended":
        plugins.plugin("/gate", lambda packet: {"decision": "pass"})
        assert job["suspendedBy"] == "AccessGate.gate.tests"
        service.put(f"/v1/job/resume/{job_id}")
        service.wait_state(job_id, "succeeded")
        assert [call.headers["Idempotency-Key"][-1] for call in plugins.calls_of("/gate")] == ["1", "2"]


def test_a_bad_answer_is_not_retried(service: Installation, plugins: PluginServer) -> None:
    register(service, plugins.plugin("/gate", lambda packet: {"decision": "PASS"}), maxAttempts=5)
    job_id = service.submit(taskset())
    job = service.wait_state(job_id, "failed")
    assert "AccessGate.gate.tests answered badly" in job["reason"]
    assert len(plugins.calls_of("/gate")) == 1
