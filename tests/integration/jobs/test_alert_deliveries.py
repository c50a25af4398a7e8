"""Alerts: the states of runs are delivered to each receiver, like all deliveries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update
from standardwebhooks import Webhook

from pipeline_core.auth.actor import SYSTEM, Actor
from pipeline_core.common.clock import now
from pipeline_core.common.ids import new_flow_id, new_run_id
from pipeline_core.database import transaction
from pipeline_core.database.models import Delivery, DeliveryStatus, FlowRow, RunRow
from pipeline_core.errors import NotFound
from pipeline_core.flows.definition.flow import parse_stored
from pipeline_core.flows.runs import repository
from pipeline_core.flows.states import RunState
from pipeline_core.hooks import deliveries
from pipeline_core.hooks.claims import Attempted, write_and_claim
from pipeline_core.hooks.sending import send
from pipeline_core.runtime import restart
from pipeline_core.settings import Settings
from tests.mail_server import mail_server
from tests.plugin_server import PluginServer, serving
from tests.servers import delete_rows

SECRET = "whsec_" + "QUFB" * 8
ENTRY = {
    "pipeline": {"name": "nightly", "alert_status": "Failed,running", "alert_user": "ada, bob"},
    "tasks": [{"name": "one", "job_templete": "logical"}],
}


@pytest.fixture
def receiver(service_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[PluginServer]:
    with serving() as server:
        monkeypatch.setenv("PIPELINE_ALERT_URL", server.plugin("/alerts", lambda body: {"ok": True}))
        monkeypatch.setenv("PIPELINE_ALERT_AUTHORIZATION", "Bearer let me in")
        monkeypatch.setenv("PIPELINE_ALERT_SIGNING_SECRET", SECRET)
        monkeypatch.setenv("PIPELINE_PUBLIC_URL", "https://pipeline.example/")
        monkeypatch.setenv("PIPELINE_HOOK_RETRY_MIN_SECONDS", "0")
        monkeypatch.setenv("PIPELINE_HOOK_RETRY_MAX_SECONDS", "0")
        restart()
        yield server


@pytest.fixture(autouse=True)
def no_deliveries(service_settings: Settings) -> None:
    with transaction() as session:
        delete_rows(session, "deliveries", "flows")


def a_run() -> str:
    moment = now()
    flow_id, run_id = new_flow_id(moment), new_run_id(moment)
    with transaction() as session:
        session.add(
            FlowRow(
                id=flow_id, key=flow_id, document_key="nightly", entry=ENTRY, creator="ada", created_at=moment,
                updated_at=moment,
            )
        )  # fmt: skip
        session.flush()
        session.add(
            RunRow(
                id=run_id, flow_id=flow_id, trigger="schedule", execution_date=moment, state=RunState.WAITING,
                creator="ada", runner="ada", created_at=moment,
            )
        )  # fmt: skip
    return run_id


def enter_state(run_id: str, state: RunState) -> None:
    with transaction() as session:
        run = session.get_one(RunRow, run_id)
        run.state = state
        repository.record_alert(session, run, parse_stored(ENTRY), now())


def deliver_due() -> list[DeliveryStatus]:
    _, claimed = write_and_claim([], {due.subscriber: 32 for due in deliveries.due()}, "test")
    written, _ = write_and_claim([Attempted(delivery, send(delivery)) for delivery in claimed], {}, "test")
    return [written[delivery.delivery_id] for delivery in claimed]


def listed(**which: Any) -> list[dict[str, Any]]:
    with transaction() as session:
        return deliveries.listing(session, **which, limit=10, offset=0)[0]


def test_states_with_alerts_are_delivered_once_and_in_order(receiver: PluginServer) -> None:
    run_id = a_run()
    for state in (RunState.WAITING, RunState.RUNNING, RunState.FAILED, RunState.RUNNING, RunState.FAILED):
        enter_state(run_id, state)
    assert deliver_due() == [DeliveryStatus.DELIVERED]
    assert deliver_due() == [DeliveryStatus.DELIVERED]
    assert deliver_due() == []
    bodies = [call.body for call in receiver.calls]
    assert [body["state"] for body in bodies] == ["running", "failed"]
    assert bodies[0]["users"] == ["ada", "bob"]
    assert bodies[0]["link"] == f"https://pipeline.example/v1/runs/{run_id}"
    assert {"run", "flow", "trigger", "executionDate", "reason", "createdAt", "startAt", "finishedAt"} <= bodies[
        0
    ].keys()
    call = receiver.calls[0]
    assert call.headers["Authorization"] == "Bearer let me in"
    Webhook(SECRET).verify(call.raw, {name.lower(): value for name, value in call.headers.items()})


def test_an_alert_is_retried_until_the_receiver_acknowledges_it(receiver: PluginServer) -> None:
    answers: list[Any] = [(500, "no"), "RE", (200, "")]
    receiver.plugin("/alerts", lambda body: answers.pop(0))
    run_id = a_run()
    enter_state(run_id, RunState.FAILED)
    statuses = [deliver_due() for _ in range(3)]
    assert statuses == [[DeliveryStatus.WAITING], [DeliveryStatus.WAITING], [DeliveryStatus.DELIVERED]]
    assert len({call.headers["Idempotency-Key"] for call in receiver.calls}) == 1
    (found,) = listed(subject_id=run_id)
    assert (found["jobID"], found["runID"], found["plugin"], found["attempts"]) == (None, run_id, deliveries.ALERTS, 3)


def test_who_sees_only_its_own_finds_deliveries_of_its_own_runs(receiver: PluginServer) -> None:
    receiver.plugin("/alerts", lambda body: "EX")
    run_id = a_run()
    enter_state(run_id, RunState.FAILED)
    deliver_due()
    ada, eve = Actor(name="ada", own_only=True), Actor(name="eve", own_only=True)
    (delivery,) = listed(actor=ada)
    assert listed(actor=eve) == []
    with transaction() as session:
        with pytest.raises(NotFound):
            deliveries.redeliver(session, delivery["id"], eve)
        assert deliveries.redeliver_all(session, deliveries.ALERTS, eve) == 0
        deliveries.redeliver(session, delivery["id"], ada)


def test_an_alert_that_was_given_up_can_be_redelivered(receiver: PluginServer) -> None:
    receiver.plugin("/alerts", lambda body: "EX")
    run_id = a_run()
    enter_state(run_id, RunState.FAILED)
    assert deliver_due() == [DeliveryStatus.EXCEPTION]
    receiver.plugin("/alerts", lambda body: "OK")
    with transaction() as session:
        assert deliveries.redeliver_all(session, deliveries.ALERTS, SYSTEM) == 1
    assert deliver_due() == [DeliveryStatus.DELIVERED]


def test_an_alert_is_exhausted_when_the_time_for_retries_is_over(receiver: PluginServer) -> None:
    enter_state(a_run(), RunState.FAILED)
    assert deliveries.give_up() == 0
    with transaction() as session:
        session.execute(update(Delivery).values(give_up_at=now() - timedelta(seconds=1)))
    assert deliveries.give_up() == 1
    assert [found["status"] for found in listed(plugin=deliveries.ALERTS)] == [DeliveryStatus.EXHAUSTED]


def test_without_a_receiver_no_alert_is_enqueued(service_settings: Settings) -> None:
    enter_state(a_run(), RunState.FAILED)
    with transaction() as session:
        assert session.scalars(select(Delivery)).all() == []


def test_each_receiver_gets_every_alert_once_and_in_its_own_format(
    receiver: PluginServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot = {"errcode": 310000, "errmsg": "sign not match"}
    receiver.plugin("/ding", lambda body: robot)
    receiver.plugin("/feishu", lambda body: {"code": 0, "msg": "success"})
    receiver.plugin("/slack", lambda body: "ok")
    host = receiver.url.removeprefix("http://")
    urls = {
        "json": f"http://{host}/alerts",
        "ding": f"dingtalk+http://:SEChunter2@{host}/ding?access_token=t",
        "feishu": f"feishu+http://{host}/feishu",
        "slack": f"slack+http://{host}/slack",
    }
    monkeypatch.setenv("PIPELINE_ALERT_URL", json.dumps(urls))
    restart()
    enter_state(a_run(), RunState.FAILED)
    assert sorted(deliver_due()) == [DeliveryStatus.DELIVERED] * 3 + [DeliveryStatus.WAITING]
    (refused,) = listed(status="waiting")
    assert (refused["plugin"], refused["lastAnswer"]) == ("alerts:ding", "errcode 310000: sign not match")
    assert len(listed(plugin=deliveries.ALERTS)) == 4
    assert len(listed(plugin="alerts:slack")) == 1
    robot |= {"errcode": 0}
    assert deliver_due() == [DeliveryStatus.DELIVERED]
    paths = Counter(call.path.partition("?")[0] for call in receiver.calls)
    assert paths == {"/alerts": 1, "/ding": 2, "/feishu": 1, "/slack": 1}
    (slack,) = (call for call in receiver.calls if call.path == "/slack")
    assert slack.body["text"].startswith("*nightly: failed*\n")
    assert "Authorization" not in slack.headers


def test_a_mail_is_sent_once_though_the_server_restarts_and_greylists(
    service_settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with mail_server(tmp_path) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
        monkeypatch.setenv("PIPELINE_ALERT_URL", "mailto:ops@example.org")
        monkeypatch.setenv("PIPELINE_ALERT_SENDER", "pipeline@example.org")
        monkeypatch.setenv("PIPELINE_SMTP_URL", server.url)
        monkeypatch.setenv("PIPELINE_HOOK_RETRY_MIN_SECONDS", "0")
        monkeypatch.setenv("PIPELINE_HOOK_RETRY_MAX_SECONDS", "0")
        restart()
        run_id = a_run()
        for state in (RunState.RUNNING, RunState.FAILED, RunState.RUNNING, RunState.FAILED):
            enter_state(run_id, state)
        server.stop()
        assert deliver_due() == [DeliveryStatus.WAITING]
        server.start()
        server.replies = lambda command: "451 4.7.1 greylisted, try again" if command == "RCPT" else None
        assert deliver_due() == [DeliveryStatus.WAITING]
        server.replies = lambda command: None
        assert deliver_due() == [DeliveryStatus.DELIVERED]
        assert deliver_due() == [DeliveryStatus.DELIVERED]
        assert deliver_due() == []
        assert [str(mail["Subject"]) for mail in server.mails] == ["nightly: running", "nightly: failed"]
        failed, running = listed(subject_id=run_id)
        assert server.ids == [f"<{each['id']}@example.org>" for each in (running, failed)]
        server.replies = lambda command: "550 5.1.1 no such user" if command == "RCPT" else None
        enter_state(a_run(), RunState.FAILED)
        assert deliver_due() == [DeliveryStatus.EXCEPTION]
