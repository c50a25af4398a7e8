"""A check finds in each wrong plugin the rule that it breaks, and in right ones none."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pipeline_cli.checking import packets, rules
from pipeline_cli.checking.exchange import Caller
from pipeline_cli.checking.rules import FIRST, FURTHER, OUT_OF_TIME, Finding, Target, Verdict
from pipeline_core.plugins.packet import Endpoint
from pipeline_core.plugins.types import PluginType
from pipeline_plugin import (
    Binder,
    Decorator,
    FactorGenerator,
    Gate,
    LifeHook,
    Plugin,
    Rejected,
    Translator,
    factor,
    passed,
)
from pipeline_plugin.server import PluginServer
from tests.builders import taskset
from tests.unit.pipeline_cli.checking.wrong_plugins import SECRET, WRONG, HangsLater, Right, served
from tests.waiting import HANG_SECONDS

TFJOB = {"factors": {}, "header": {"userID": "ann", "jobID": "j1", "jobKind": "TFJob"}, "job": {"kind": "TFJob"}}


def target(
    url: str,
    kind: PluginType,
    *,
    seconds: float = HANG_SECONDS,
    limit: float = HANG_SECONDS,
    sent: Any = None,
    secret: str = SECRET,
) -> Target:
    endpoint = Endpoint(f"{kind}.check.check", kind, url, signing_secret=secret)
    return Target(Caller(endpoint, seconds, time.monotonic() + limit), sent or {})


def broken(findings: list[Finding]) -> dict[str, str]:
    return {one.rule: one.message for one in findings if one.verdict is Verdict.BROKEN}


@pytest.mark.parametrize(("rule", "kind", "handler"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_wrong_plugin_breaks_the_rule_that_it_breaks_and_no_other(
    rule: str, kind: PluginType, handler: type[Right]
) -> None:
    with served(handler) as url:
        findings = list(rules.run(target(url, kind, seconds=handler.seconds)))
    assert list(broken(findings)) == [rule], broken(findings)
    (found,) = [one for one in findings if one.rule == rule]
    assert found.exchange, "what was sent and came back is shown"
    assert not rules.passed(findings)
    if rule in FIRST:
        after = findings[findings.index(found) + 1 :]
        assert {one.verdict for one in after} == {Verdict.NOT_CHECKED}


def test_each_rule_has_a_plugin_that_breaks_it() -> None:
    known = {*FIRST, *(rule.id for rule in FURTHER)}
    # To be stopped, a plugin has to be a process of its own.
    assert {row[1] for row in WRONG} == known - {"graceful-stop"}


def right_plugins() -> Iterator[Plugin]:
    translator = Translator("t", signing_secret=SECRET)

    @translator.translate
    def translate(packet: Any) -> Any:
        if packet.job.get("wrong"):
            raise Rejected("it is wrong")
        return taskset()

    yield translator
    generator, gate = FactorGenerator("f", signing_secret=SECRET), Gate("g", signing_secret=SECRET)
    generator.generate(lambda packet: [factor("priority", len(packet.header))])
    gate.decide(lambda packet: passed(f"{len(packet.advice('priority'))} pieces of advice"))
    yield from (generator, gate)
    decorator, binder = Decorator("d", signing_secret=SECRET), Binder("b", signing_secret=SECRET)

    @decorator.decorate
    def decorate(packet: Any, added: Any) -> None:
        for role in added.roles:
            role.add_sidecar("proxy", "envoy")
            role.add_env("TEAM2", "vision")

    binder.bind(lambda packet, bound: bound.set_scheduler("volcano"))
    yield from (decorator, binder)
    hook = LifeHook("h", signing_secret=SECRET)
    hook.receive(lambda event: None)
    yield hook


@pytest.mark.parametrize("plugin", list(right_plugins()), ids=lambda plugin: plugin.type)
def test_a_right_plugin_of_each_type_breaks_none(plugin: Plugin) -> None:
    server = PluginServer(plugin).start()
    sent = {"tf.json": TFJOB, "wrong.json": {**TFJOB, "job": {"kind": "TFJob", "wrong": True}}}
    kind = PluginType(plugin.type)
    try:
        findings = list(
            rules.run(target(server.url, kind, sent=sent if kind is PluginType.TEMPLATE_TRANSLATOR else None))
        )
    finally:
        server.stop()
    assert broken(findings) == {}
    assert rules.passed(findings)
    assert [one.rule for one in findings if one.verdict is Verdict.NOT_CHECKED] == ["graceful-stop"]


def test_the_first_packet_has_to_be_translated_and_not_rejected() -> None:
    translator = next(right_plugins())
    server = PluginServer(translator).start()
    sent = {"wrong.json": {**TFJOB, "job": {"kind": "TFJob", "wrong": True}}}
    try:
        findings = list(rules.run(target(server.url, PluginType.TEMPLATE_TRANSLATOR, sent=sent)))
    finally:
        server.stop()
    assert broken(findings) == {"status": "it rejected the job: it is wrong (status 422)"}


def test_where_nothing_listens_it_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    findings = list(rules.run(target(f"http://127.0.0.1:{port}/", PluginType.ACCESS_GATE)))
    assert list(broken(findings)) == ["reachable"]
    assert "Connection refused" in broken(findings)["reachable"]


def test_without_a_secret_signatures_are_not_checked() -> None:
    gate = Gate("g")
    gate.decide(lambda packet: passed())
    server = PluginServer(gate).start()
    try:
        findings = list(rules.run(target(server.url, PluginType.ACCESS_GATE, secret="")))
    finally:
        server.stop()
    unchecked = [one.rule for one in findings if one.verdict is Verdict.NOT_CHECKED]
    assert unchecked == ["signature-missing", "signature-wrong", "signature-old", "graceful-stop"]


def test_a_check_ends_when_its_time_is_over() -> None:
    with served(Right) as url:
        findings = list(rules.run(target(url, PluginType.ACCESS_GATE, limit=0)))
    assert {one.verdict for one in findings} == {Verdict.NOT_CHECKED}
    assert findings[0].message == OUT_OF_TIME
    assert not rules.passed(findings)


def test_a_check_of_a_plugin_that_hangs_after_a_while_ends_when_its_time_is_over() -> None:
    with served(type("HangsOnce", (HangsLater,), {})) as url:
        checked = target(url, PluginType.ACCESS_GATE, seconds=HangsLater.seconds, limit=4)
        found = {one.rule: one for one in rules.run(checked)}
    assert [name for name in FIRST if name in found and found[name].verdict is not Verdict.HOLDS] == []
    assert "no answer within 2 s" in found["idempotency"].message
    assert [found[rule.id].message for rule in FURTHER[-4:-1]] == [OUT_OF_TIME] * 3
    assert {found[rule.id].verdict for rule in FURTHER} == {Verdict.BROKEN, Verdict.NOT_CHECKED}


VARIANTS: list[Callable[[Any], Any]] = [
    packets.with_unicode,
    packets.with_unknown_fields,
    packets.with_many_replicas,
    packets.with_large_taskset,
    packets.in_odd_order,
    packets.with_many_factors,
]


@pytest.mark.parametrize("make", VARIANTS)
def test_a_variant_leaves_the_packet_as_it_was(make: Callable[[Any], Any]) -> None:
    packet = packets.built_in(PluginType.ACCESS_GATE)
    make(packet)
    assert packet == packets.built_in(PluginType.ACCESS_GATE)
