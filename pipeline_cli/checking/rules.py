"""What has to hold of a plugin, rule by rule, and how each is tried."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any

import psutil

from pipeline_cli.checking import packets
from pipeline_cli.checking.exchange import Caller, Exchange, ExchangeFailed, OutOfTime
from pipeline_cli.checking.meaning import value
from pipeline_cli.checking.packets import JOB_ID, Document
from pipeline_core.common.clock import now
from pipeline_core.plugins.errors import AnswerTooLarge, BadAnswer, CallFailed, JobRejected
from pipeline_core.plugins.types import PluginType
from pipeline_core.taskset.additive import NotAdditive
from pipeline_core.taskset.pod_policy import PodPolicyError

AT_ONCE = 64
OUT_OF_TIME = "the time for the whole check was over"
GARBAGE = (b"", b"this is no JSON", b"[]", b'{"header": {')
ALL = frozenset(PluginType)
LATE = frozenset({PluginType.ACCESS_GATE, PluginType.TEMPLATE_DECORATOR, PluginType.SCHEDULER_BINDER})
"""What is sent factors."""
GIVEN_TASKSET = LATE | {PluginType.FACTOR_GENERATOR}
ADDING = frozenset({PluginType.TEMPLATE_DECORATOR, PluginType.SCHEDULER_BINDER})


class Verdict(StrEnum):
    HOLDS = "holds"
    BROKEN = "broken"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Finding:
    """What became of one rule. `message` says why it does not hold or was not checked; `exchange` shows it."""

    rule: str
    title: str
    verdict: Verdict
    message: str = ""
    exchange: Exchange | None = None


class Broken(Exception):
    """A rule does not hold."""

    def __init__(self, message: str, exchange: Exchange | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.exchange = exchange


@dataclass(frozen=True)
class Target:
    """The plugin that is checked. `sent` are packets by the names of their files, the first of which all others are made
    of; without any it is the built-in one. `pid` is its process, if it may be stopped."""

    caller: Caller
    sent: dict[str, Document] = field(default_factory=dict)
    pid: int | None = None

    @property
    def type(self) -> PluginType:
        return self.caller.endpoint.type

    @property
    def packet(self) -> Document:
        return next(iter(self.sent.values()), None) or packets.built_in(self.type)

    def value(self, packet: Document, exchange: Exchange) -> Any:
        """What the answer means. Raises CallFailed, as the service would have it."""
        return value(self.caller.endpoint, packet, exchange, JOB_ID, "default")

    def right(self, packet: Document, exchange: Exchange) -> Any:
        """What the answer means. Raises Broken if it is not right."""
        try:
            return self.value(packet, exchange)
        except JobRejected as error:
            raise Broken(f"it rejected the job: {error.cause}", exchange) from error
        except CallFailed as error:
            raise Broken(error.cause, exchange) from error

    def ask(self, packet: Document, key: str = "") -> Any:
        """What the plugin answers to a packet that is right. Raises Broken."""
        body = packets.encoded(packet)
        return self.right(packet, self.caller.post(body, self.caller.headers(body, key)))


def base_rule(error: CallFailed, exchange: Exchange) -> str:
    """Which of the first rules does not hold, when the answer to the first packet is not right."""
    cause = error.__cause__
    if isinstance(cause, NotAdditive):
        return "additive"
    if isinstance(cause, PodPolicyError):
        return "pod-policy"
    if exchange.late:
        return "in-time"
    if isinstance(error, AnswerTooLarge):
        return "size"
    if exchange.response is None:
        return "http" if isinstance(error, BadAnswer) else "reachable"
    return "answer" if exchange.response.status == 200 else "status"


FIRST = {
    "reachable": ("it can be called: a connection that stays open until its answer is complete", ALL),
    "in-time": ("it answers in time", ALL),
    "http": ("its answer is HTTP", ALL),
    "size": ("its answer has at most 8 MiB", ALL),
    "status": ("its status is 200", ALL),
    "answer": ("its answer has the fields and types that it should have", ALL),
    "additive": ("its answer only adds to the TaskSet", ADDING),
    "pod-policy": ("what it adds keeps to the pod policy", ADDING),
}
"""The rules that one call tries; each needs those before it."""


def variant(make: Callable[[Document], Document]) -> Callable[[Target], None]:
    def rule(target: Target) -> None:
        target.ask(make(target.packet))

    return rule


def idempotency(target: Target) -> None:
    key, body = target.caller.new_key(), packets.encoded(target.packet)
    first, second = (target.caller.post(body, target.caller.headers(body, key)) for _ in range(2))
    before, after = target.right(target.packet, first), target.right(target.packet, second)
    if before != after:
        raise Broken(f"it answered {_shown(first)} and then, to the same Idempotency-Key, something else", second)


def keep_alive(target: Target) -> None:
    body = packets.encoded(target.packet)
    with target.caller.connection() as connection:
        for attempt in ("first", "second"):
            try:
                connection.begin(body)
                connection.send(body)
                exchange = connection.answer()
            except ExchangeFailed:
                hint = " (it has to say `Connection: close` if it closes it)" if attempt == "second" else ""
                raise Broken(
                    f"the {attempt} call on a connection: {connection.sent.error}{hint}", connection.sent
                ) from None
            target.right(target.packet, exchange)
            if connection.closes:
                return


def concurrency(target: Target) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        calls = [pool.submit(target.ask, target.packet) for _ in range(AT_ONCE)]
    failures = [error for call in calls if isinstance(error := call.exception(), Broken)]
    if failures:
        raise Broken(f"{len(failures)} of {AT_ONCE} calls at once: {failures[0].message}", failures[0].exchange)
    for call in calls:
        call.result()


def slow_client(target: Target) -> None:
    body = packets.encoded(target.packet)
    with target.caller.connection() as connection:
        try:
            connection.begin(body)
            connection.send(body[:10])
            try:
                target.ask(target.packet)
            except Broken as error:
                raise Broken(f"while another client was sending slowly: {error.message}", error.exchange) from error
            connection.send(body[10:])
            exchange = connection.answer()
        except ExchangeFailed:
            raise Broken(f"a client that sends slowly: {connection.sent.error}", connection.sent) from None
        target.right(target.packet, exchange)


def signature(kind: str) -> Callable[[Target], None]:
    """A request that is signed in a wrong way has to be refused."""

    def rule(target: Target) -> None:
        body, caller = packets.encoded(target.packet), target.caller
        secret = caller.endpoint.signing_secret
        if kind == "missing":
            headers = {name: text for name, text in caller.headers(body).items() if not name.startswith("webhook-")}
        elif kind == "old":
            headers = caller.signed(body, secret, now() - timedelta(hours=1))
        else:
            other = "whsec_" + base64.b64encode(os.urandom(32)).decode()
            headers = caller.signed(body, other, now())
        exchange = caller.post(body, headers)
        if exchange.response is None:
            raise Broken(f"no answer with status 401, but: {exchange.error}", exchange)
        if exchange.response.status not in (401, 403):
            raise Broken(f"it answered with status {exchange.response.status}; 401 was expected", exchange)

    return rule


def garbage(target: Target) -> None:
    for body in GARBAGE:
        exchange = target.caller.post(body)
        what = repr(body.decode()) if body else "an empty body"
        if exchange.response is None:
            raise Broken(f"to {what}: {exchange.error}; a status from 400 to 499 was expected", exchange)
        if not 400 <= exchange.response.status < 500:
            status = exchange.response.status
            raise Broken(f"to {what} it answered with status {status}; one from 400 to 499 was expected", exchange)


def graceful_stop(target: Target) -> None:
    assert target.pid is not None
    process, body = psutil.Process(target.pid), packets.encoded(target.packet)
    with target.caller.connection() as connection:
        try:
            connection.begin(body)
            connection.send(body[:10])
            # Once a later call is answered, the plugin has taken this one from the system's queue of connections.
            target.ask(target.packet)
            process.send_signal(signal.SIGTERM)
            connection.send(body[10:])
            exchange = connection.answer()
        except ExchangeFailed:
            message = f"the call that was under way at SIGTERM: {connection.sent.error}"
            raise Broken(message, connection.sent) from None
        target.right(target.packet, exchange)
    try:
        process.wait(target.caller.seconds)
    except psutil.TimeoutExpired:
        raise Broken(f"it still ran {target.caller.seconds:g} s after SIGTERM") from None


@dataclass(frozen=True)
class Rule:
    """`types` are those that it is for; it is `possible` with what was given, or it says what is missing."""

    id: str
    title: str
    run: Callable[[Target], None]
    types: frozenset[PluginType] = ALL
    possible: Callable[[Target], str] = lambda target: ""


def _needs_secret(target: Target) -> str:
    return "" if target.caller.endpoint.signing_secret else "give --signing-secret"


def _needs_pid(target: Target) -> str:
    return "" if target.pid else "give --pid: the process is sent SIGTERM"


def _needs_taskset(target: Target) -> str:
    return "" if packets.is_taskset(target.packet["job"]) else "the packet's job is no TaskSet"


FURTHER: tuple[Rule, ...] = (
    Rule("idempotency", "the same Idempotency-Key twice gives the same answer", idempotency),
    Rule("unknown-fields", "fields that it does not know are ignored", variant(packets.with_unknown_fields)),
    Rule("no-factors", "factors may be missing", variant(packets.without_factors), LATE),
    Rule("many-factors", "factors may be many, with any JSON as advice", variant(packets.with_many_factors), LATE),
    Rule("unicode", "texts may be in any script", variant(packets.with_unicode)),
    Rule(
        "many-replicas",
        f"a TaskSet may have {packets.REPLICAS} replicas",
        variant(packets.with_many_replicas),
        GIVEN_TASKSET,
        _needs_taskset,
    ),
    Rule(
        "large",
        f"a TaskSet may have {packets.LARGE >> 10} KiB",
        variant(packets.with_large_taskset),
        GIVEN_TASKSET,
        _needs_taskset,
    ),
    Rule("order", "keys and lists of a TaskSet may be in any order", variant(packets.in_odd_order), GIVEN_TASKSET),
    Rule("keep-alive", "a connection may be used again, or its end is announced", keep_alive),
    Rule("concurrency", f"{AT_ONCE} calls at once are answered", concurrency),
    Rule("slow-client", "a client that sends slowly holds up no other", slow_client),
    Rule("signature-missing", "a request without a signature is refused", signature("missing"), ALL, _needs_secret),
    Rule("signature-wrong", "a request with a wrong signature is refused", signature("wrong"), ALL, _needs_secret),
    Rule("signature-old", "a request with an old signature is refused", signature("old"), ALL, _needs_secret),
    Rule("garbage", "what is no packet is answered with a status from 400 to 499", garbage),
    Rule("survives", "it still answers after all of this", variant(lambda packet: packet)),
    Rule("graceful-stop", "at SIGTERM it answers the calls under way, and ends", graceful_stop, ALL, _needs_pid),
)


def run(target: Target) -> Iterator[Finding]:
    """What became of each rule, one after the other. Ends by itself."""
    try:
        wrong, finding = _first_call(target)
    except OutOfTime:
        wrong, finding = "reachable", Finding("reachable", FIRST["reachable"][0], Verdict.NOT_CHECKED, OUT_OF_TIME)
    seen = False
    for name, (title, types) in FIRST.items():
        if name == wrong:
            seen = True
            yield finding or Finding(name, title, Verdict.HOLDS)
        elif target.type in types:
            yield Finding(name, title, Verdict.NOT_CHECKED if seen else Verdict.HOLDS, _because(wrong) if seen else "")
    for name, packet in list(target.sent.items())[1:]:
        yield _tried(Rule(f"packet {name}", "a packet of yours is answered", partial(accepts, packet)), target, wrong)
    for rule in FURTHER:
        if target.type in rule.types:
            yield _tried(rule, target, wrong)


def accepts(packet: Document, target: Target) -> None:
    """A packet is answered; a translator may also reject its job."""
    body = packets.encoded(packet)
    exchange = target.caller.post(body)
    try:
        target.value(packet, exchange)
    except JobRejected:
        return
    except CallFailed as error:
        raise Broken(error.cause, exchange) from error


def _first_call(target: Target) -> tuple[str, Finding | None]:
    """The rule that the answer to the first packet breaks, and its finding; no rule if it is right."""
    exchange = target.caller.post(packets.encoded(target.packet))
    try:
        target.value(target.packet, exchange)
    except CallFailed as error:
        name = base_rule(error, exchange)
        message = f"it rejected the job: {error.cause}" if isinstance(error, JobRejected) else error.cause
        return name, Finding(name, FIRST[name][0], Verdict.BROKEN, message, exchange)
    return "", None


def _tried(rule: Rule, target: Target, wrong: str) -> Finding:
    if wrong:
        return Finding(rule.id, rule.title, Verdict.NOT_CHECKED, _because(wrong))
    if missing := rule.possible(target):
        return Finding(rule.id, rule.title, Verdict.NOT_CHECKED, missing)
    try:
        rule.run(target)
    except Broken as broken:
        return Finding(rule.id, rule.title, Verdict.BROKEN, broken.message, broken.exchange)
    except CallFailed as failure:
        return Finding(rule.id, rule.title, Verdict.BROKEN, failure.cause)
    except OutOfTime:
        return Finding(rule.id, rule.title, Verdict.NOT_CHECKED, OUT_OF_TIME)
    return Finding(rule.id, rule.title, Verdict.HOLDS)


def _because(wrong: str) -> str:
    return f"`{wrong}` does not hold"


def _shown(exchange: Exchange) -> str:
    return repr(exchange.response.body[:200].decode("utf-8", "replace")) if exchange.response else "nothing"


def passed(findings: Sequence[Finding]) -> bool:
    """Whether nothing is broken, and nothing was left out for lack of time."""
    return not any(one.verdict is Verdict.BROKEN or one.message == OUT_OF_TIME for one in findings)
