"""LifeHooks: order, retries, giving up, and subscribers that do not delay each other."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

from standardwebhooks import Webhook

from tests.builders import taskset
from tests.installation import Installation
from tests.plugin_server import PluginServer
from tests.waiting import HANG_SECONDS, wait_for


def hook(service: Installation, name: str, address: str, **selector: Any) -> str:
    service.register(name, {"pluginType": "LifeHook", "callAddress": address, **selector})
    return f"LifeHook.{name}.tests"


def deliveries(service: Installation, key: str, job_id: str) -> list[dict[str, Any]]:
    return list(reversed(service.get(f"/v1/hooks/deliveries?plugin={key}&jobID={job_id}")))


def test_re_is_retried_in_order_and_with_the_same_id(service: Installation, plugins: PluginServer) -> None:
    tries: dict[int, int] = defaultdict(int)

    def twice_re(event: dict[str, Any]) -> str:
        tries[event["sequence"]] += 1
        return "RE" if tries[event["sequence"]] <= 2 else " ok\n"

    key = hook(service, "stubborn", plugins.plugin("/hook", twice_re))
    job_id = service.submit(taskset())
    service.wait_state(job_id, "succeeded")
    done = wait_for(
        lambda: (
            [d for d in deliveries(service, key, job_id) if d["status"] == "delivered"][2:]
            and deliveries(service, key, job_id)
        ),
        "three deliveries to be done",
    )
    assert [(delivery["sequence"], delivery["attempts"]) for delivery in done] == [(1, 3), (2, 3), (3, 3)]
    calls = plugins.calls_of("/hook", job_id)
    assert [call.body["sequence"] for call in calls] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert [event["previousState"] for event in (calls[0].body, calls[3].body)] == ["", "waiting"]
    assert len({call.headers["Idempotency-Key"] for call in calls}) == 3


def test_ex_is_given_up_and_can_be_redelivered(service: Installation, plugins: PluginServer) -> None:
    key = hook(service, "picky", plugins.plugin("/hook", lambda event: "EX"), jobSelector={"states": ["succeeded"]})
    job_id = service.submit(taskset())
    (given_up,) = wait_for(
        lambda: [d for d in deliveries(service, key, job_id) if d["status"] == "exception"],
        "the delivery to be given up",
    )
    assert (given_up["attempts"], given_up["lastAnswer"]) == (1, "EX")
    plugins.plugin("/hook", lambda event: "OK")
    service.post(f"/v1/hooks/redeliver/{given_up['id']}", None)
    wait_for(lambda: deliveries(service, key, job_id)[0]["status"] == "delivered", "the delivery")
    assert service.ask("POST", f"/v1/hooks/redeliver/{given_up['id']}").status_code == 409


def test_a_subscriber_that_is_down_does_not_delay_the_others(service: Installation, plugins: PluginServer) -> None:
    dead = hook(service, "dead", plugins.plugin("/dead", lambda event: (503, "down")))
    alive = hook(service, "alive", plugins.plugin("/alive", lambda event: "OK"))
    job_id = service.submit(taskset())
    wait_for(
        lambda: [delivery["status"] for delivery in deliveries(service, alive, job_id)] == ["delivered"] * 3,
        "the other subscriber's delivery",
    )
    assert {delivery["status"] for delivery in deliveries(service, dead, job_id)} == {"waiting"}
    assert {call.body["sequence"] for call in plugins.calls_of("/dead")} == {1}


def test_a_disabled_subscriber_s_deliveries_rest_and_a_deleted_one_s_are_dropped(
    service: Installation, plugins: PluginServer
) -> None:
    key = hook(service, "resting", plugins.plugin("/hook", lambda event: "RE"))
    job_id = service.submit(taskset())
    service.wait_state(job_id, "succeeded")
    service.put("/v1/features/turn-off/resting")
    plugins.plugin("/hook", lambda event: "OK")
    service.put("/v1/features/turn-on/resting")
    wait_for(
        lambda: len([d for d in deliveries(service, key, job_id) if d["status"] == "delivered"]) == 3, "all of them"
    )
    plugins.plugin("/hook", lambda event: "RE")
    other = service.submit(taskset())
    service.wait_state(other, "succeeded")
    service.ask("DELETE", "/v1/features/resting")
    assert {delivery["status"] for delivery in deliveries(service, key, other)} == {"dropped"}


def test_an_answer_that_comes_too_late_counts_for_nothing_and_the_same_delivery_comes_again(
    service: Installation, plugins: PluginServer
) -> None:
    answers = threading.Event()

    def late_once(event: dict[str, Any]) -> str:
        if len(plugins.calls_of("/late")) == 1:
            answers.wait(HANG_SECONDS)
        return "OK"

    selector = {"jobSelector": {"states": ["succeeded"]}}
    key = hook(service, "late", plugins.plugin("/late", late_once), timeoutSeconds=1, **selector)
    job_id = service.submit(taskset())
    wait_for(lambda: len(plugins.calls_of("/late")) == 2, "the second try")
    answers.set()
    wait_for(lambda: deliveries(service, key, job_id)[0]["status"] == "delivered", "the delivery")
    (delivery,) = deliveries(service, key, job_id)
    assert delivery["attempts"] == 2
    assert {call.headers["Idempotency-Key"] for call in plugins.calls_of("/late")} == {delivery["id"]}


def test_a_subscriber_can_verify_the_signature(service: Installation, plugins: PluginServer) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    address = plugins.plugin("/signed", lambda event: "OK")
    service.register("signed", {"pluginType": "LifeHook", "callAddress": address}, signingSecret=secret)
    service.submit(taskset())
    (call, *_) = wait_for(lambda: plugins.calls_of("/signed"), "a call")
    headers = {name.lower(): value for name, value in call.headers.items()}
    assert Webhook(secret).verify(call.raw, headers) == call.body
