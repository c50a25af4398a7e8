"""Gates that suspend: parked, resumed once, and with the next gate."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from redis import Redis

from tests.builders import taskset
from tests.installation import Installation
from tests.plugin_server import PluginServer
from tests.waiting import wait_for


def suspending(plugins: PluginServer, service: Installation) -> str:
    """A job that the first of two gates has suspended."""
    first = plugins.plugin("/first", lambda packet: {"decision": "suspend", "reason": "no quota"})
    second = plugins.plugin("/second", lambda packet: {"decision": "pass"})
    service.register("first", {"pluginType": "AccessGate", "callAddress": first})
    service.register("second", {"pluginType": "AccessGate", "callAddress": second})
    job_id = service.submit(taskset())
    job = service.wait_state(job_id, "suspended")
    assert (job["suspendedBy"], job["reason"]) == ("AccessGate.first.tests", "no quota")
    return job_id


def parked(service: Installation, redis_url: str, job_id: str) -> bool:
    return bool(Redis.from_url(redis_url).exists(f"{service.environment['PIPELINE_REDIS_PREFIX']}park:{job_id}"))


def test_one_of_many_resumes_wins_and_the_next_gate_is_called(
    service: Installation, plugins: PluginServer, redis_url: str
) -> None:
    job_id = suspending(plugins, service)
    wait_for(lambda: parked(service, redis_url, job_id), "the chain to be parked")
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: service.ask("PUT", f"/v1/job/resume/{job_id}").status_code, range(50)))
    assert sorted(answers) == [200] + [409] * 49
    service.wait_state(job_id, "succeeded")
    assert len(plugins.calls_of("/first")) == 1
    assert len(plugins.calls_of("/second")) == 1
    assert service.events(job_id) == ["waiting", "suspended", "waiting", "running", "succeeded"]
    assert not parked(service, redis_url, job_id)
    resumed = [entry for entry in service.get(f"/v1/job/trail/{job_id}") if entry["outcome"] == "resumed"]
    assert [entry["actor"] for entry in resumed] == ["admin"]


def test_a_resume_names_the_gate_or_is_refused(service: Installation, plugins: PluginServer) -> None:
    job_id = suspending(plugins, service)
    wrong = service.ask("PUT", f"/v1/job/resume/{job_id}", {"gate": "AccessGate.second.tests"})
    assert (wrong.status_code, wrong.json()["code"]) == (409, "UNSUPPORTED_OPERATION")
    service.put(f"/v1/job/resume/{job_id}", {"gate": "AccessGate.first.tests", "reason": "quota granted"})
    service.wait_state(job_id, "succeeded")


def test_a_suspended_job_resumes_though_redis_has_lost_everything(
    service: Installation, plugins: PluginServer, redis_url: str
) -> None:
    job_id = suspending(plugins, service)
    wait_for(lambda: parked(service, redis_url, job_id), "the chain to be parked")
    redis = Redis.from_url(redis_url)
    for key in redis.scan_iter(f"{service.environment['PIPELINE_REDIS_PREFIX']}*"):
        redis.delete(key)
    service.put(f"/v1/job/resume/{job_id}")
    service.wait_state(job_id, "succeeded")


def test_a_suspended_job_is_stopped(service: Installation, plugins: PluginServer, redis_url: str) -> None:
    job_id = suspending(plugins, service)
    service.put(f"/v1/job/stop/{job_id}")
    assert service.ask("PUT", f"/v1/job/resume/{job_id}").status_code == 409
    assert service.events(job_id) == ["waiting", "suspended", "stopped"]
    wait_for(lambda: not parked(service, redis_url, job_id), "what was parked to be forgotten")


def test_a_gate_is_called_again_when_it_asked_for_it(service: Installation, plugins: PluginServer) -> None:
    answers = iter([{"decision": "suspend", "askAgainAfterSeconds": 0.5}, {"decision": "pass"}])
    gate = plugins.plugin("/gate", lambda packet: next(answers))
    service.register("patient", {"pluginType": "AccessGate", "callAddress": gate})
    job_id = service.submit(taskset())
    service.wait_state(job_id, "succeeded")
    keys = [call.headers["Idempotency-Key"] for call in plugins.calls_of("/gate")]
    assert keys == [f"{job_id}:gates:AccessGate.patient.tests:{n}" for n in (1, 2)]


def test_a_suspension_that_times_out_stops_the_job(service: Installation, plugins: PluginServer) -> None:
    gate = plugins.plugin("/gate", lambda packet: {"decision": "suspend", "suspendForSeconds": 0.5})
    service.register("timed", {"pluginType": "AccessGate", "callAddress": gate})
    job = service.wait_state(service.submit(taskset()), "stopped")
    assert job["reason"] == "the suspension by AccessGate.timed.tests has timed out"


def test_a_suspension_that_times_out_resumes_the_job_if_its_gate_requested_it(
    service: Installation, plugins: PluginServer
) -> None:
    answer = {"decision": "suspend", "suspendForSeconds": 0.5, "onTimeout": "resume"}
    service.register("timed", {"pluginType": "AccessGate", "callAddress": plugins.plugin("/gate", lambda _: answer)})
    job_id = service.submit(taskset())
    service.wait_state(job_id, "succeeded")
    assert len(plugins.calls_of("/gate")) == 1
    (resumed,) = [entry for entry in service.get(f"/v1/job/trail/{job_id}") if entry["outcome"] == "resumed"]
    assert resumed["actor"] == "pipeline"


def test_a_resume_matches_plugins_again_without_deleted_ones_and_with_new_ones(
    service: Installation, plugins: PluginServer
) -> None:
    job_id = suspending(plugins, service)
    service.put("/v1/features/turn-off/second")
    new = plugins.plugin("/new", lambda packet: {"decision": "pass"})
    service.register("new", {"pluginType": "AccessGate", "callAddress": new})
    service.ask("DELETE", "/v1/features/first")
    service.put(f"/v1/job/resume/{job_id}")
    service.wait_state(job_id, "succeeded")
    asked = [call.path for call in plugins.calls]
    assert asked == ["/first", "/new"]
