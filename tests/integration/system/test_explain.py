"""A plan agrees with what happens to the job when it is submitted."""

from __future__ import annotations

from typing import Any

from tests.builders import taskset
from tests.installation import Installation
from tests.plugin_server import PluginServer
from tests.waiting import wait_for

DEBUG = {"conditions": [{"name": "debug", "key": "type", "expect": "debug"}], "expression": "debug"}
NOT_DEBUG = {**DEBUG, "expression": "!debug"}
ANSWERS: dict[str, Any] = {
    "TemplateTranslator": lambda packet: taskset(),
    "FactorGenerator": lambda packet: {"topic": "priority", "advice": "1"},
    "AccessGate": lambda packet: {"decision": "pass"},
    "TemplateDecorator": lambda packet: packet["job"],
    "SchedulerBinder": lambda packet: packet["job"],
    "LifeHook": lambda event: "OK",
}


def test_a_submitted_job_meets_exactly_the_plugins_of_its_plan(service: Installation, plugins: PluginServer) -> None:
    def register(name: str, selector: Any = None) -> None:
        served = [
            {"pluginType": type, "callAddress": plugins.plugin(f"/{type}.{name}.tests", answer)}
            for type, answer in ANSWERS.items()
        ]
        service.register(name, *served, **({"jobSelector": selector} if selector else {}))

    register("debugging", DEBUG)
    register("usual", NOT_DEBUG)
    register("off", DEBUG)
    service.put("/v1/features/turn-off/off")
    gate = plugins.plugin("/AccessGate.everyone.tests", ANSWERS["AccessGate"])
    service.register("everyone", {"pluginType": "AccessGate", "callAddress": gate})
    service.put(
        "/v1/plugins/sequence",
        {
            "beforeKey": "AccessGate.everyone.tests",
            "afterKey": "AccessGate.debugging.tests",
            "pluginType": "AccessGate",
        },
    )

    job = {"kind": "Any"}
    header = {"type": "debug"}
    body = {"userID": "u1", "jobName": "train", "jobKind": "Any", "header": header, "job": job}
    plan = service.post("/v1/job/explain", body)
    assert plugins.calls == []
    foretold = [
        (stage["stage"], plugin["key"]) for stage in plan["stages"] for plugin in stage["plugins"] if plugin["runs"]
    ]
    assert [key for stage, key in foretold if stage == "gates"] == [
        "AccessGate.everyone.tests",
        "AccessGate.debugging.tests",
    ]

    job_id = service.submit(job, header=header)
    service.wait_state(job_id, "succeeded")
    assert [(entry["stage"], entry["plugin"]) for entry in service.get(f"/v1/job/trail/{job_id}")] == foretold

    states = service.events(job_id)
    (hook,) = [hook for hook in plan["lifeHooks"] if hook["runs"]]
    subscribed = [state for state in states if state in hook["states"]]
    wait_for(lambda: len(plugins.calls_of(f"/{hook['key']}")) == len(subscribed), "the hook's deliveries")
    assert {call.path.strip("/") for call in plugins.calls} == {key for _, key in foretold} | {hook["key"]}
    feed = [event for event in service.get("/v1/events?limit=1000") if event["jobID"] == job_id]
    assert [event["state"] for event in feed] == states
