"""The six types of plugin, asked without a server."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.plugins.packet import Endpoint, call_headers
from pipeline_core.plugins.types import PluginType
from pipeline_plugin import (
    Additions,
    Binder,
    Decision,
    Decorator,
    Event,
    FactorGenerator,
    Gate,
    LifeHook,
    Packet,
    Plugin,
    Plugins,
    Rejected,
    Translator,
    factor,
    give_up,
    passed,
    retry,
    stop,
)
from pipeline_plugin.log import JsonFormatter
from pipeline_plugin.web import HEALTH, Reply, Request
from tests.builders import taskset

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
EVENT = {"id": "j1", "currentState": "running", "sequence": 2}


def packet(**header: Any) -> dict[str, Any]:
    return {"factors": {}, "header": {"userID": "ann", "jobID": "j1", **header}, "job": taskset()}


def post(sent: Any, path: str = "/", **headers: str) -> Request:
    body = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    return Request("POST", path, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def answer(reply: Reply) -> Any:
    return json.loads(reply.body)


def quota() -> Gate:
    gate = Gate("quota")

    @gate.decide
    def decide(packet: Packet) -> Decision:
        return stop("no quota left") if packet.header["userID"] == "full" else passed()

    return gate


def test_each_type_of_the_service_has_a_class() -> None:
    classes = (Translator, FactorGenerator, Gate, Decorator, Binder, LifeHook)
    assert [one.type for one in classes] == list(PluginType)


def test_a_gate_is_asked() -> None:
    assert quota().test(packet()) == passed()
    assert answer(quota().respond(post(packet(userID="full")))) == {"decision": "stop", "reason": "no quota left"}


def test_a_recorded_packet_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "packet.json").write_text(json.dumps(packet(userID="full")))
    assert quota().test(tmp_path / "packet.json") == stop("no quota left")


def test_each_type_answers() -> None:
    translator, factors, hook = Translator("t"), FactorGenerator("f"), LifeHook("h")
    decorator, binder = Decorator("d"), Binder("b")
    translator.translate(lambda packet: taskset())
    factors.generate(lambda packet: factor("priority", 7))
    decorator.decorate(lambda packet, added: added.roles[0].add_label("team", "a"))
    binder.bind(lambda packet, bound: bound.set_scheduler("volcano"))
    hook.receive(lambda event: None)
    assert answer(translator.respond(post(packet()))) == taskset()
    assert answer(factors.respond(post(packet()))) == [{"topic": "priority", "advice": 7, "reason": ""}]
    assert decorator.test(packet())["spec"]["roles"][0]["template"]["metadata"]["labels"] == {"team": "a"}
    assert binder.test(packet())["spec"]["roles"][0]["template"]["spec"]["schedulerName"] == "volcano"
    reply = hook.respond(post(EVENT))
    assert (reply.body, reply.media_type) == (b"OK", "text/plain")


def test_a_hook_says_when_to_send_again() -> None:
    hook = LifeHook("h")
    hook.receive(lambda event: retry(30) if event.sequence < 3 else give_up())
    reply = hook.respond(post(EVENT))
    assert (reply.body, reply.headers) == (b"RE", {"Retry-After": "30"})
    assert hook.respond(post({**EVENT, "sequence": 3})).body == b"EX"


def test_a_translator_rejects_a_job_that_is_wrong() -> None:
    translator = Translator("t")

    @translator.translate
    def translate(packet: Packet) -> Any:
        raise Rejected("spec.workers is missing")

    reply = translator.respond(post(packet()))
    assert (reply.status, answer(reply)) == (422, {"error": "spec.workers is missing"})


WRONG: dict[str, tuple[type[Plugin], str, Any]] = {
    "a gate's text": (Gate, "decide", "pass"),
    "a gate's nothing": (Gate, "decide", None),
    "a factor's number": (FactorGenerator, "generate", 7),
    "a factor's list of numbers": (FactorGenerator, "generate", [7]),
    "a translator's nothing": (Translator, "translate", None),
    "a translator's job": (Translator, "translate", {"kind": "Job", "spec": {}}),
    "a translator's TaskSet without roles": (Translator, "translate", {"kind": "TaskSet", "spec": {"roles": []}}),
    "a hook's word": (LifeHook, "receive", "OK"),
}


@pytest.mark.parametrize(("kind", "name", "value"), WRONG.values(), ids=WRONG)
def test_what_is_no_answer_raises_in_a_test_and_is_500_for_the_service(
    kind: type[Plugin], name: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = kind("wrong")
    getattr(plugin, name)(lambda _: value)
    sent = EVENT if kind is LifeHook else packet()
    with pytest.raises(TypeError, match="wrong returned"):
        plugin.test(sent)
    assert plugin.respond(post(sent)).status == 500
    assert "wrong returned" in caplog.text


def test_a_decorator_that_returns_something_is_wrong() -> None:
    decorator = Decorator("d")

    @decorator.decorate
    def decorate(packet: Packet, added: Additions) -> Any:
        return added.document

    with pytest.raises(TypeError, match="add to the TaskSet"):
        decorator.test(packet())


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"factors": {}, "header": {}, "job": 7}'])
@pytest.mark.parametrize("kind", [Gate, Decorator, LifeHook])
def test_garbage_is_refused(kind: type[Plugin], body: bytes) -> None:
    assert kind("x").respond(post(body)).status == 400


def test_a_job_that_is_no_taskset_is_refused() -> None:
    assert Decorator("x").respond(post({**packet(), "job": {"spec": {"roles": 7}}})).status == 400


def counting(**options: Any) -> tuple[Gate, list[str]]:
    gate, asked = Gate("counting", **options), []

    @gate.decide
    def decide(packet: Packet) -> Decision:
        asked.append(packet.idempotency_key)
        return passed(f"number {len(asked)}")

    return gate, asked


def test_the_same_question_gets_the_same_answer() -> None:
    gate, asked = counting()
    first, second = (gate.respond(post(packet(), idempotency_key="k1")) for _ in range(2))
    assert first == second
    assert asked == ["k1"]
    assert answer(gate.respond(post(packet(), idempotency_key="k2")))["reason"] == "number 2"
    assert answer(gate.respond(post(packet(userID="bob"), idempotency_key="k1")))["reason"] == "number 3"
    assert answer(gate.respond(post(packet())))["reason"] == "number 4"


def test_the_same_question_at_the_same_time_is_asked_once() -> None:
    gate, asked, entered, go = Gate("slow"), [], threading.Event(), threading.Event()

    @gate.decide
    def decide(packet: Packet) -> Decision:
        asked.append(1)
        entered.set()
        go.wait(30)
        return passed()

    with ThreadPoolExecutor(2) as pool:
        replies = [pool.submit(gate.respond, post(packet(), idempotency_key="k")) for _ in range(2)]
        entered.wait(30)
        go.set()
        assert replies[0].result() == replies[1].result()
    assert asked == [1]


def test_what_failed_and_what_is_to_be_sent_again_is_not_remembered() -> None:
    hook, words = LifeHook("h"), iter([retry(), None])
    hook.receive(lambda event: next(words))
    assert [hook.respond(post(EVENT, idempotency_key="k")).body for _ in range(3)] == [b"RE", b"OK", b"OK"]
    gate, results = Gate("g"), iter([None, passed()])
    gate.decide(lambda packet: next(results))
    assert [gate.respond(post(packet(), idempotency_key="k")).status for _ in range(3)] == [500, 200, 200]


def signed(body: bytes) -> dict[str, str]:
    endpoint = Endpoint("AccessGate.f.a", PluginType.ACCESS_GATE, "http://plugin/", "Bearer x", SECRET)
    sent = call_headers(endpoint, body, job_id="j1", idempotency_key="k", request_id="r1")
    return {name.lower(): value for name, value in sent.items()}


def test_only_the_service_is_answered_when_there_are_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUGIN_SIGNING_SECRET", SECRET)
    monkeypatch.setenv("PLUGIN_AUTHORIZATION", "Bearer x")
    gate, body = quota(), json.dumps(packet()).encode()
    headers = signed(body)
    assert gate.respond(Request("POST", "/", headers, body)).status == 200
    assert gate.respond(Request("POST", "/", headers, body + b" ")).status == 401
    assert gate.respond(Request("POST", "/", {**headers, "authorization": "Bearer y"}, body)).status == 401
    assert gate.respond(Request("POST", "/", {}, body)).status == 401


def test_it_says_that_it_lives_until_it_stops() -> None:
    gate = quota()
    assert gate.respond(Request("GET", HEALTH, {}, b"")).status == 200
    gate.stopping = True
    assert gate.respond(Request("GET", HEALTH, {}, b"")).status == 503
    assert gate.respond(Request("GET", "/", {}, b"")).status == 405


def test_several_plugins_are_told_apart_by_their_paths() -> None:
    hook = LifeHook("h")
    hook.receive(lambda event: None)
    both = Plugins({"/gate": quota(), "/hook": hook})
    assert answer(both.respond(post(packet(), "/gate")))["decision"] == "pass"
    assert both.respond(post(EVENT, "/hook")).body == b"OK"
    assert both.respond(post(EVENT, "/other")).status == 404
    assert asyncio.run(both.respond_async(post(EVENT, "/hook"))).body == b"OK"
    assert both.respond(Request("GET", HEALTH, {}, b"")).status == 200


def test_a_function_may_be_async() -> None:
    hook, seen = LifeHook("h"), []

    @hook.receive
    async def receive(event: Event) -> None:
        await asyncio.sleep(0)
        seen.append(event.sequence)

    assert hook.test(EVENT).word == "OK"
    assert hook.respond(post(EVENT, idempotency_key="k")).body == b"OK"

    async def both() -> list[Reply]:
        return await asyncio.gather(*(hook.respond_async(post(EVENT, idempotency_key="k2")) for _ in range(2)))

    assert [reply.body for reply in asyncio.run(both())] == [b"OK", b"OK"]
    assert seen == [2, 2, 2]


def test_a_plugin_has_one_function() -> None:
    gate = quota()
    with pytest.raises(RuntimeError, match="already"):
        gate.decide(lambda packet: passed())
    with pytest.raises(RuntimeError, match="no function yet"):
        Gate("none").test(packet())


def test_the_author_s_logs_name_the_job_and_the_request() -> None:
    gate, lines = Gate("g"), []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(json.loads(self.format(record)))

    handler: Callable[..., Any] = Collector
    collector = handler()
    collector.setFormatter(JsonFormatter())
    logger = logging.getLogger("pipeline_plugin")
    logger.addHandler(collector)
    logger.setLevel(logging.INFO)

    @gate.decide
    def decide(packet: Packet) -> Decision:
        gate.log.info("thinking", extra={"fields": {"quota": 7}})
        return passed()

    try:
        gate.respond(post(packet(), x_job_id="j1", x_request_id="r1"))
    finally:
        logger.removeHandler(collector)
        logger.setLevel(logging.NOTSET)
    own, call = lines
    assert {"plugin": "g", "jobID": "j1", "requestID": "r1", "message": "thinking", "quota": 7}.items() <= own.items()
    assert {"message": "answered", "status": 200, "jobID": "j1"}.items() <= call.items()
