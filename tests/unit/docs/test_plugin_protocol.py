"""The page about the protocol of plugins, held against the code that reads what plugins answer."""

from __future__ import annotations

import base64
import json
import runpy
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import jsonpatch
import pytest
import yaml

from api.schemas.features import FeatureBody
from pipeline_core.errors import WrongParameter
from pipeline_core.plugins import answers
from pipeline_core.plugins.client import BUSY
from pipeline_core.plugins.errors import BadAnswer
from pipeline_core.plugins.packet import Endpoint, Packet, call_headers
from pipeline_core.plugins.types import FailurePolicy, PluginType
from pipeline_core.stages.tasksets import as_bad_answer
from pipeline_core.states import JobState
from pipeline_core.taskset import schema
from pipeline_core.taskset.additive import binding, decoration
from pipeline_core.taskset.pod_policy import PodPolicy
from tests.pages import ROOT, Page, code

PAGE = Page("plugin-protocol.md")
REFUSED = "is refused: the plugin answered badly:"
PATCH = "change of the TaskSet ([JSON Patch](https://www.rfc-editor.org/rfc/rfc6902))"
POLICY = PodPolicy(baseline=True, host_paths=())
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def example(heading: str) -> Any:
    (block,) = PAGE.blocks(heading, "json")
    return json.loads(block)


PACKET = example("## What you are sent")


def read_taskset(body: bytes) -> None:
    document = answers.taskset(body)
    with as_bad_answer():
        schema.check(document)


def read_decoration(body: bytes) -> None:
    with as_bad_answer():
        decoration(PACKET["job"], answers.taskset(body), POLICY)


def read_binding(body: bytes) -> None:
    with as_bad_answer():
        binding(PACKET["job"], answers.taskset(body), POLICY)


READERS: dict[PluginType, Callable[[bytes], Any]] = {
    PluginType.TEMPLATE_TRANSLATOR: read_taskset,
    PluginType.FACTOR_GENERATOR: answers.factors,
    PluginType.ACCESS_GATE: answers.gate,
    PluginType.TEMPLATE_DECORATOR: read_decoration,
    PluginType.SCHEDULER_BINDER: read_binding,
}


def test_the_packet_has_the_fields_that_are_sent() -> None:
    assert list(PACKET) == [field.name for field in fields(Packet)]
    schema.check(PACKET["job"])


@pytest.mark.parametrize("kind", READERS)
def test_each_type_s_example_is_accepted(kind: PluginType) -> None:
    READERS[kind](json.dumps(example(f"### {kind}")).encode())


REFUSALS = [
    (kind, code(answer), cause)
    for kind in (PluginType.TEMPLATE_TRANSLATOR, PluginType.FACTOR_GENERATOR, PluginType.ACCESS_GATE)
    for answer, cause in PAGE.rows(f"### {kind}", first="answer", last=REFUSED)
]


@pytest.mark.parametrize(("kind", "answer", "cause"), REFUSALS)
def test_what_is_said_to_be_refused_is_refused_in_these_words(kind: PluginType, answer: str, cause: str) -> None:
    with pytest.raises(BadAnswer) as failure:
        READERS[kind](answer.encode())
    assert failure.value.cause == cause


@pytest.mark.parametrize(("change", "cause"), PAGE.rows("### TemplateDecorator", first=PATCH, last=REFUSED))
def test_decorations_that_are_said_to_be_refused_are(change: str, cause: str) -> None:
    document = jsonpatch.apply_patch(PACKET["job"], [json.loads(code(change))])
    with pytest.raises(BadAnswer) as failure:
        read_decoration(json.dumps(document).encode())
    assert failure.value.cause == cause


def test_the_binder_s_example_does_what_a_decorator_may_not() -> None:
    with pytest.raises(BadAnswer):
        read_decoration(json.dumps(example("### SchedulerBinder")).encode())


def test_the_gate_s_decisions_are_all_there_are() -> None:
    rows = PAGE.rows("### AccessGate", first="`decision`")
    assert [code(row[0]) for row in rows] == list(answers.Decision)


@pytest.mark.parametrize(("answer", "follows"), PAGE.rows("### AccessGate", first="answer", last="what happens"))
def test_the_ways_to_suspend_mean_what_is_said(answer: str, follows: str) -> None:
    read = answers.gate(code(answer).encode())
    assert read.decision is answers.Decision.SUSPEND
    expected = {
        "it stays so until it is resumed or stopped": (None, None, "stop"),
        "after an hour the job is stopped": (3600, None, "stop"),
        "after an hour it goes on with the next gate": (3600, None, "resume"),
        "after half a minute **this** gate is asked again": (None, 30, "stop"),
    }[follows]
    assert (read.suspend_for_seconds, read.ask_again_after_seconds, read.on_timeout) == expected


def test_the_hook_s_words_are_all_there_are_and_anything_else_is_none() -> None:
    *words, other = [code(row[0]) for row in PAGE.rows("### LifeHook", first="answer")]
    assert [answers.acknowledgement(word.encode()) for word in words] == list(answers.Acknowledgement)
    with pytest.raises(BadAnswer):
        answers.acknowledgement(other.encode())


def test_all_states_and_policies_and_statuses_of_a_busy_plugin_are_named() -> None:
    assert [state for state in JobState if f"`{state}`" not in PAGE.section("### LifeHook")] == []
    section = PAGE.section("## When there is no good answer")
    assert [code(row[0]) for row in PAGE.rows("## When there is no good answer", first="`failurePolicy`")] == list(
        FailurePolicy
    )
    assert [status for status in BUSY if str(status) not in section] == []


def signed_call(body: bytes) -> dict[str, str]:
    endpoint = Endpoint("AccessGate.f.a", PluginType.ACCESS_GATE, "http://plugin/", "Bearer x", SECRET)
    key, context = "j1:gates:AccessGate.f.a:1", f"00-{'a' * 32}-{'b' * 16}-01"
    return call_headers(endpoint, body, job_id="j1", idempotency_key=key, request_id="r1", traceparent=context)


def test_the_headers_are_those_of_a_call() -> None:
    sent = signed_call(b"{}")
    documented = [code(name) for name, _ in PAGE.rows("## What you are sent", first="request header")]
    assert set(documented) == set(sent) - {"Accept", "User-Agent"}


@pytest.fixture(scope="module")
def verifiers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Callable[..., bool], Callable[..., Any]]:
    """The page's two functions, by the standard library and by the package."""
    script = tmp_path_factory.mktemp("page") / "verify.py"
    script.write_text("\n".join(PAGE.blocks("### Who is calling", "python")))
    names = runpy.run_path(str(script))
    return names["is_signed"], names["packet_of"]


@pytest.mark.parametrize("secret", [SECRET, SECRET.rstrip("=")])
def test_both_ways_to_verify_a_signature_take_what_the_service_signed(verifiers: Any, secret: str) -> None:
    is_signed, packet_of = verifiers
    body = b'{"header":{}}'
    assert is_signed(signed_call(body), body, secret)
    assert packet_of(signed_call(body), body, secret) == {"header": {}}


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "another"},
        {"webhook-timestamp": "1000000000"},
        {"webhook-timestamp": ""},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": "v1,ä"},
        {"webhook-signature": ""},
    ],
)
def test_both_ways_to_verify_a_signature_refuse_what_was_altered(verifiers: Any, change: dict[str, str]) -> None:
    is_signed, packet_of = verifiers
    headers = {**signed_call(b"{}"), **change}
    assert not is_signed(headers, b"{}", SECRET)
    assert packet_of(headers, b"{}", SECRET) is None


def test_both_ways_to_verify_a_signature_refuse_what_is_not_signed_or_has_another_body(verifiers: Any) -> None:
    is_signed, packet_of = verifiers
    for headers, body in (({}, b"{}"), (signed_call(b"{}"), b"[]")):
        assert not is_signed(headers, body, SECRET)
        assert packet_of(headers, body, SECRET) is None


def test_the_feature_is_one_and_shows_every_type_and_every_field_with_its_default() -> None:
    raw = yaml.safe_load(PAGE.blocks("## A complete example", "yaml")[0])
    feature = FeatureBody().read(raw)
    assert [plugin.type for plugin in feature.plugins] == list(PluginType)
    bare = FeatureBody().read(
        {**raw, "plugins": [{name: raw["plugins"][0][name] for name in ("pluginType", "callAddress")}]}
    )
    shown, default = feature.plugins[0], bare.plugins[0]
    for name in ("timeout_seconds", "max_attempts", "patience_seconds", "failure_policy", "mode", "shadow_of"):
        assert getattr(shown, name) == getattr(default, name)
    with pytest.raises(WrongParameter) as refusal:
        FeatureBody().read({**raw, "colour": "red", "plugins": [{**raw["plugins"][0], "colour": "red"}]})
    known = {path: set(texts[0].partition("there are ")[2].split(", ")) for path, texts in refusal.value.errors.items()}
    assert known["colour"] - set(raw) == {"owner"} & known["colour"]
    gate = raw["plugins"][2]
    assert gate["resume"] == feature.plugins[2].resumer == bare.plugins[0].resumer
    assert known["plugins[0].colour"] - {*raw["plugins"][0], *gate} == {"enabled", "feature", "owner", "jobSelector"}


def test_the_gate_on_the_page_is_the_one_among_the_examples() -> None:
    (block,) = PAGE.blocks("## A gate without the kit", "python")
    assert block == (ROOT / "examples" / "gates" / "gate.py").read_text()


def test_the_call_by_curl_registers_what_the_file_does() -> None:
    (block,) = [block for block in PAGE.blocks("## Registering", "sh") if "turn-on" in block]
    feature = FeatureBody().read(json.loads(block.partition("-d '")[2].partition("'")[0]))
    of_file = FeatureBody().read(yaml.safe_load((ROOT / "examples" / "gates" / "large-jobs.yaml").read_text()))
    assert (feature.name, feature.author, feature.plugins) == (of_file.name, of_file.author, of_file.plugins)
