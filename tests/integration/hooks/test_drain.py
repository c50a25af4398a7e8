"""Drains on a real database: order within a job, several drains, leases, and subscribers that do not delay each other."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, insert, select, text, update

from api.schemas.features import FeatureBody
from pipeline_core.auth.actor import SYSTEM, Actor
from pipeline_core.common.clock import now
from pipeline_core.common.ids import new_job_id
from pipeline_core.database import transaction
from pipeline_core.database.models import Delivery, DeliveryStatus, Event, FeedKind, Job
from pipeline_core.features import registry
from pipeline_core.hooks import deliveries
from pipeline_core.hooks.claims import Attempted, write_and_claim
from pipeline_core.hooks.drain import Drain
from pipeline_core.hooks.places import Places
from pipeline_core.hooks.sending import NOT_SENT, DeliveryResult
from pipeline_core.jobs import feed
from pipeline_core.settings import Settings
from tests.plugin_server import PluginServer, serving
from tests.servers import delete_rows
from tests.waiting import HANG_SECONDS, wait_for

OK = DeliveryResult(DeliveryStatus.DELIVERED, "OK")
EVENTS = 3
MakeDrain = Callable[..., Drain]


@pytest.fixture(autouse=True)
def nothing_stored(service_settings: Settings) -> None:
    with transaction() as session:
        delete_rows(session, "deliveries", "jobs", "features")
        session.execute(text("UPDATE registry SET version = version + 1"))


@pytest.fixture
def plugins() -> Iterator[PluginServer]:
    with serving() as server:
        yield server


@pytest.fixture
def make_drain(answer: threading.Event) -> Iterator[MakeDrain]:
    with ExitStack() as drains:

        def make(worker: str = "w", places: int = 32, each: int = 8) -> Drain:
            made = Drain(worker, Places(places, each))
            drains.callback(made.stop)
            return made

        yield make
        answer.set()


@pytest.fixture
def answer() -> threading.Event:
    """Lets subscribers answer that hang."""
    return threading.Event()


def subscribe(name: str, address: str, owner: str = "ann", **options: Any) -> str:
    plugin = {"pluginType": "LifeHook", "callAddress": address, **options}
    body = {"name": name, "author": "tests", "enabled": True, "plugins": [plugin]}
    with transaction() as session:
        registry.register(session, FeatureBody().read(body), Actor(name=owner))
        registry.switch(session, name, True, Actor(name=owner))
    return f"LifeHook.{name}.tests"


def enqueue(key: str, jobs: int) -> list[str]:
    """Jobs with EVENTS events each, all of which are due to the subscriber; their IDs."""
    moment = now()
    ids = [new_job_id(moment + timedelta(milliseconds=number)) for number in range(jobs)]
    with transaction() as session:
        session.execute(
            insert(Job),
            [{"id": job_id, "user_id": "u", "name": "n", "kind": "TaskSet", "namespace": "d", "state": "running",
              "stage": "cluster", "epoch": 0, "created_at": moment, "submitted_by": "admin"} for job_id in ids],
        )  # fmt: skip
        for job_id in ids:
            for sequence in range(1, EVENTS + 1):
                event = {"job_id": job_id, "sequence": sequence, "state": "running", "occurred_at": moment}
                event_id = session.execute(insert(Event).values(event).returning(Event.id)).scalar_one()
                deliveries.enqueue(session, job_id, sequence, key, moment, event_id=event_id)
    return ids


def waiting(*keys: str) -> int:
    with transaction() as session:
        query = select(func.count()).where(Delivery.status == DeliveryStatus.WAITING, Delivery.plugin_key.in_(keys))
        return session.execute(query).scalar_one()


def claimed(key: str, most: int = 100) -> list[Any]:
    return write_and_claim([], {key: most}, "w")[1]


def test_the_first_of_each_line_are_claimed_together_and_nothing_twice() -> None:
    key = subscribe("many", "http://127.0.0.1:9/")
    jobs = enqueue(key, 10)
    first = claimed(key, 4)
    rest = claimed(key)
    assert sorted(delivery.subject_id for delivery in [*first, *rest]) == sorted(jobs)
    assert {delivery.document["sequence"] for delivery in [*first, *rest]} == {1}
    assert len(first) == 4
    assert claimed(key) == []


def test_results_are_written_and_the_next_of_each_line_claimed_in_one_transaction() -> None:
    key = subscribe("next", "http://127.0.0.1:9/")
    enqueue(key, 3)
    one, two, three = claimed(key)
    attempted = [Attempted(one, OK), Attempted(two, DeliveryResult(DeliveryStatus.WAITING, "RE", 60.0))]
    written, following = write_and_claim([*attempted, Attempted(three, NOT_SENT)], {key: 10}, "w")
    assert written == {
        one.delivery_id: DeliveryStatus.DELIVERED,
        two.delivery_id: DeliveryStatus.WAITING,
        three.delivery_id: DeliveryStatus.WAITING,
    }
    found = {delivery.subject_id: delivery for delivery in following}
    assert found.keys() == {one.subject_id, three.subject_id}
    assert (found[one.subject_id].document["sequence"], found[one.subject_id].attempt) == (2, 1)
    assert (found[three.subject_id].document["sequence"], found[three.subject_id].attempt) == (1, 1)


def test_no_result_is_written_once_the_lease_is_another_s() -> None:
    key = subscribe("late", "http://127.0.0.1:9/")
    enqueue(key, 1)
    (before,) = claimed(key)
    with transaction() as session:
        session.execute(update(Delivery).values(lease_until=now() - timedelta(seconds=1)))
    (after,) = claimed(key)
    assert write_and_claim([Attempted(before, OK)], {}, "w")[0] == {}
    assert write_and_claim([Attempted(after, OK)], {}, "w")[0] == {after.delivery_id: DeliveryStatus.DELIVERED}
    assert after.attempt == 2


def test_a_result_past_the_time_to_give_up_is_exhausted() -> None:
    key = subscribe("over", "http://127.0.0.1:9/")
    enqueue(key, 1)
    (delivery,) = claimed(key)
    retry = DeliveryResult(DeliveryStatus.WAITING, "RE", 10 * 86400.0)
    assert write_and_claim([Attempted(delivery, retry)], {}, "w")[0] == {delivery.delivery_id: DeliveryStatus.EXHAUSTED}


def test_nothing_is_claimed_of_a_disabled_or_unknown_subscriber() -> None:
    key = subscribe("off", "http://127.0.0.1:9/")
    enqueue(key, 1)
    assert [due.subscriber for due in deliveries.due()] == [key]
    with transaction() as session:
        registry.switch(session, "off", False, Actor(name="ann"))
    assert claimed(key) == []
    assert deliveries.due() == []
    assert claimed("nobody") == []


def test_several_drains_of_one_subscriber_send_each_delivery_once_and_in_order(
    plugins: PluginServer, make_drain: MakeDrain
) -> None:
    key = subscribe("shared", plugins.plugin("/hook", lambda _: "OK"))
    jobs = enqueue(key, 40)
    # Together they make no more calls than one subscriber may be sent at a time: nothing would wake one that is put off.
    drains = [make_drain(f"w{number}", each=2) for number in range(3)]
    for drain in drains:
        drain.wake(key)
    wait_for(lambda: not waiting(key), progress=lambda: waiting(key))
    sequences: dict[str, list[int]] = defaultdict(list)
    for call in plugins.calls:
        sequences[call.body["id"]].append(call.body["sequence"])
    assert sequences == {job: [1, 2, 3] for job in jobs}


@pytest.mark.parametrize(("slow", "owners"), [(4, 1), (40, 1), (40, 40)])
def test_slow_subscribers_do_not_delay_another_one(
    plugins: PluginServer, make_drain: MakeDrain, answer: threading.Event, slow: int, owners: int
) -> None:
    def hang(_: dict[str, Any]) -> str:
        answer.wait(HANG_SECONDS)
        return "OK"

    address = plugins.plugin("/slow", hang)
    # Nothing would wake the drain for the next attempt of a delivery that timed out.
    keys = [
        subscribe(f"slow{number}", address, owner=f"slow{number % owners}", timeoutSeconds=300)
        for number in range(slow)
    ]
    prompt = subscribe("prompt", plugins.plugin("/prompt", lambda _: "OK"), owner="pat")
    for key in keys:
        enqueue(key, 1)
    drain = make_drain(places=8)
    for key in keys:
        drain.wake(key)
    wait_for(lambda: len(plugins.calls_of("/slow")) >= min(slow, 8), "the slow ones to hold their places")
    enqueue(prompt, 20)
    drain.wake(prompt)
    wait_for(lambda: not waiting(prompt), "the prompt one's deliveries", progress=lambda: waiting(prompt))
    assert waiting(*keys) == slow * EVENTS, "no slow subscriber has answered"
    answer.set()
    wait_for(lambda: not waiting(*keys), "the slow ones' deliveries", progress=lambda: waiting(*keys))


def test_each_change_of_the_status_of_a_delivery_is_in_the_feed() -> None:
    start = feed.latest()
    key = subscribe("many", "http://127.0.0.1:9/")
    (job_id,) = enqueue(key, 1)
    (first,) = claimed(key)
    refused = DeliveryResult(DeliveryStatus.EXCEPTION, "EX")
    write_and_claim([Attempted(first, refused)], {}, "w")
    with transaction() as session:
        deliveries.redeliver(session, first.delivery_id, Actor(name="admin", admin=True))
    with transaction() as session:
        session.execute(update(Delivery).values(give_up_at=now() - timedelta(seconds=1)))
    assert deliveries.give_up() == EVENTS
    shown = feed.read(SYSTEM, after=start, limit=100, kinds=(FeedKind.DELIVERY,)).events
    assert [entry["status"] for entry in shown] == ["exception", "waiting", *["exhausted"] * EVENTS]
    assert (shown[0]["jobID"], shown[0]["userID"], shown[0]["runID"]) == (job_id, "u", None)
    assert (shown[0]["deliveryID"], shown[0]["plugin"], shown[0]["attempts"]) == (first.delivery_id, key, 1)
    assert (shown[0]["lastAnswer"], shown[0]["sequence"]) == ("EX", 1)
    assert feed.read(Actor(name="v", own_only=True), after=start, limit=100).events == []
    own = feed.read(Actor(name="u", own_only=True), after=start, limit=100, kinds=(FeedKind.DELIVERY,))
    assert own.events == shown


def test_a_failed_attempt_that_is_made_again_is_no_change_of_the_status() -> None:
    start = feed.latest()
    key = subscribe("many", "http://127.0.0.1:9/")
    enqueue(key, 1)
    (first,) = claimed(key)
    write_and_claim([Attempted(first, DeliveryResult(DeliveryStatus.WAITING, "RE"))], {}, "w")
    assert feed.read(SYSTEM, after=start, limit=100, kinds=(FeedKind.DELIVERY,)).events == []
