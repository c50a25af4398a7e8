from __future__ import annotations

import copy
from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.schemas import features
from api.schemas.features import FeatureBody
from pipeline_core.errors import MissingParameter, PipelineError, UnsupportedPluginType, WrongParameter
from pipeline_core.features.definition import FeatureDefinition, parse_type
from pipeline_core.plugins.types import FailurePolicy, PluginType, Resumer
from pipeline_core.states import JobState

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SMALLEST = {
    "name": "quota",
    "author": "platform",
    "plugins": [{"pluginType": "AccessGate", "callAddress": "http://quota:8080/gate"}],
}


def read_feature(raw: Any) -> FeatureDefinition:
    definition: FeatureDefinition = FeatureBody().read(raw)
    return definition


def feature(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(SMALLEST), **changes}


def plugin(**changes: Any) -> dict[str, Any]:
    return feature(plugins=[{**SMALLEST["plugins"][0], **changes}])  # type: ignore[dict-item]


def test_a_minimal_registration_gets_the_defaults() -> None:
    read = read_feature(feature())
    assert (read.description, read.enabled, read.authorization, read.signing_secret, read.selector) == (
        "",
        False,
        "",
        "",
        None,
    )
    [gate] = read.plugins
    assert gate.type is PluginType.ACCESS_GATE
    assert (gate.timeout_seconds, gate.max_attempts, gate.patience_seconds) == (30, 3, 60)
    assert gate.failure_policy is FailurePolicy.FAIL
    assert gate.resumer is Resumer.WRITER
    assert gate.selector is None
    assert gate.key(read.name, read.author) == "AccessGate.quota.platform"


def resumed_by(resumer: str, type: str = PluginType.ACCESS_GATE) -> Any:
    return feature(plugins=[{"pluginType": type, "callAddress": "http://gates.example/", "resume": resumer}])


def test_only_past_a_gate_approvers_resume() -> None:
    assert read_feature(resumed_by("approver")).plugins[0].resumer is Resumer.APPROVER
    with pytest.raises(WrongParameter, match="owner"):
        read_feature(resumed_by("owner"))
    for type in PluginType:
        read_feature(resumed_by("writer", type))
        if type is not PluginType.ACCESS_GATE:
            with pytest.raises(WrongParameter) as refused:
                read_feature(resumed_by("approver", type))
            assert list(refused.value.errors) == ["plugins[0].resume"]


def test_a_full_registration_is_parsed_unchanged() -> None:
    selector = {"conditions": [{"name": "t", "key": "type", "expect": "debug"}], "expression": "t"}
    own = {"conditions": [], "expression": "!t", "states": ["completed"]}
    read = read_feature(
        feature(
            description="…",
            enabled=True,
            authorization="Bearer abc",
            signingSecret=SECRET,
            jobSelector=selector,
            plugins=[
                {
                    "pluginType": "LifeHook",
                    "callAddress": "https://hooks.example/told?by=us",
                    "description": "tells",
                    "jobSelector": own,
                    "timeoutSeconds": 300,
                    "maxAttempts": 10,
                    "patienceSeconds": 0,
                    "failurePolicy": "Suspend",
                }
            ],
        )
    )
    [hook] = read.plugins
    assert read.enabled
    assert (read.authorization, read.signing_secret, read.selector) == ("Bearer abc", SECRET, selector)
    assert hook.selector == own
    assert hook.effective.expression == "!t"
    assert [condition.name for condition in hook.effective.conditions] == ["t"]
    assert hook.effective.job_states == {JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED}
    assert (hook.timeout_seconds, hook.max_attempts, hook.patience_seconds) == (300, 10, 0)
    assert hook.failure_policy is FailurePolicy.SUSPEND
    assert SECRET not in repr(read)
    assert "Bearer" not in repr(read)


@pytest.mark.parametrize("value", [None, "", [], {}])
@pytest.mark.parametrize("field", ["name", "author", "plugins"])
def test_an_empty_required_field_of_a_feature_is_missing(field: str, value: Any) -> None:
    with pytest.raises(MissingParameter) as caught:
        read_feature(feature(**{field: value}))
    assert field in caught.value.errors


@pytest.mark.parametrize("value", [None, "", [], {}])
@pytest.mark.parametrize("field", ["pluginType", "callAddress"])
def test_an_empty_required_field_of_a_plugin_is_missing(field: str, value: Any) -> None:
    with pytest.raises(MissingParameter, match=rf"plugins\[0\].{field}"):
        read_feature(plugin(**{field: value}))


@pytest.mark.parametrize("missing", ["name", "author", "plugins"])
def test_an_absent_required_field_is_missing(missing: str) -> None:
    raw = feature()
    del raw[missing]
    with pytest.raises(MissingParameter, match=missing):
        read_feature(raw)


@pytest.mark.parametrize("name", ["a", "A-b_9", "9", "x" * 63])
def test_a_valid_feature_name_is_accepted(name: str) -> None:
    assert read_feature(feature(name=name)).name == name


@pytest.mark.parametrize(
    "name",
    ["-a", "_a", "a b", "a.b", "a/b", "ä", "x" * 64, "a\n", " a", "all", "ALL", "aLl", "what-if", 5, ["a"], "a\x00"],
)
def test_an_invalid_feature_name_is_refused(name: Any) -> None:
    with pytest.raises(WrongParameter) as caught:
        read_feature(feature(name=name))
    assert "name" in caught.value.errors


@pytest.mark.parametrize("author", ["p", "Zoë & Söhne", "x" * 63, "a.b", "张三", "alle"])
def test_a_valid_author_name_is_accepted(author: str) -> None:
    assert read_feature(feature(author=author)).author == author


@pytest.mark.parametrize(
    "author",
    [
        "x" * 64,
        "a/b",
        " a",
        "a ",
        "\u3000a",
        "a\tb",
        "a\x7fb",
        "a\x85b",
        "a\u202eb",
        "all",
        "All",
        " ",
        1,
        "\ud83d",
        "a\x00",
    ],
)
def test_an_invalid_author_name_is_refused(author: Any) -> None:
    with pytest.raises(WrongParameter) as caught:
        read_feature(feature(author=author))
    assert "author" in caught.value.errors


@pytest.mark.parametrize("type", ["AccessGates", "accessgate", "all", " AccessGate"])
def test_a_type_that_is_not_one_of_the_six_is_unsupported(type: str) -> None:
    with pytest.raises(UnsupportedPluginType, match=r"plugins\[0\]\.pluginType.*AccessGate"):
        read_feature(plugin(pluginType=type))
    with pytest.raises(UnsupportedPluginType):
        parse_type(type)


def test_a_type_that_is_no_text_is_wrong() -> None:
    with pytest.raises(WrongParameter):
        read_feature(plugin(pluginType=5))


def test_a_feature_has_at_most_one_plugin_of_a_type() -> None:
    raw = feature()
    raw["plugins"] *= 2
    with pytest.raises(WrongParameter, match=r"plugins\[1\]\.pluginType: .*at most one.*AccessGate"):
        read_feature(raw)


@pytest.mark.parametrize(
    "address",
    [
        "quota:8080",
        "/gate",
        "ftp://quota/gate",
        "http://",
        "http://a b/",
        "http://user:word@quota/",
        5,
        "http://x:99999/",
        "http://169.254.169.254/latest",
        "http://[fe80::1]/",
        "http://0xA9FEA9FE/",
        "http://quota/\x00",
    ],
)
def test_a_forbidden_call_address_is_refused(address: Any) -> None:
    with pytest.raises(WrongParameter, match=r"plugins\[0\]\.callAddress"):
        read_feature(plugin(callAddress=address))


def test_an_address_outside_the_allowed_networks_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "settings", lambda: SimpleNamespace(plugin_networks=[ip_network("10.0.0.0/8")]))
    assert read_feature(plugin(callAddress="http://10.1.2.3/"))
    with pytest.raises(WrongParameter, match="none of the networks"):
        read_feature(plugin(callAddress="http://192.0.2.1/"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timeoutSeconds", 0),
        ("timeoutSeconds", 301),
        ("timeoutSeconds", "30"),
        ("maxAttempts", 0),
        ("maxAttempts", 11),
        ("maxAttempts", True),
        ("patienceSeconds", -1),
        ("patienceSeconds", 86_401),
        ("patienceSeconds", 0.5),
        ("failurePolicy", "fail"),
        ("failurePolicy", ""),
        ("failurePolicy", 1),
        ("description", 1),
        ("callAdress", "http://quota/"),
        ("jobSelector", ""),
        ("jobSelector", []),
        ("jobSelector", {"states": ["*"]}),
        ("jobSelector", {"expression": "undeclared"}),
        ("jobSelector", {"conditions": [{"name": "a", "key": "b"}], "expression": "a"}),
        ("jobSelector", {"conditions": [{"name": "a", "key": "b", "expect": "c"}]}),
    ],
)
def test_a_bad_field_of_a_plugin_is_wrong(field: str, value: Any) -> None:
    with pytest.raises(WrongParameter, match=rf"plugins\[0\]\.{field}"):
        read_feature(plugin(**{field: value}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("enabled", "true"),
        ("enabled", 1),
        ("description", []),
        ("authorization", "a\r\nHost: b"),
        ("authorization", " Bearer"),
        ("authorization", 1),
        ("signingSecret", "secret"),
        ("signingSecret", "whsec_c2hvcnQ="),
        ("jobSelector", "*"),
        ("jobSelector", {"expression": "a &&"}),
        ("jobSelector", {"states": ["*"]}),
        ("jobSelector", {"expresion": "*"}),
        ("plugins", {"a": 1}),
        ("plugins", "x"),
        ("plugin", []),
    ],
)
def test_a_bad_field_of_a_feature_is_wrong(field: str, value: Any) -> None:
    with pytest.raises(WrongParameter, match=field):
        read_feature(feature(**{field: value}))


def test_an_element_of_plugins_that_is_no_object_is_wrong() -> None:
    with pytest.raises(WrongParameter, match=r"plugins\[0\]: must be an object"):
        read_feature(feature(plugins=[None]))


def test_a_translator_cannot_be_ignored() -> None:
    with pytest.raises(WrongParameter, match="failurePolicy"):
        read_feature(plugin(pluginType="TemplateTranslator", failurePolicy="Ignore"))
    assert read_feature(plugin(failurePolicy="Ignore"))


@pytest.mark.parametrize("states", [[], ["gone"], "*", ["*", "running"], [None]])
def test_bad_states_of_a_life_hook_are_wrong(states: Any) -> None:
    with pytest.raises(WrongParameter, match="states"):
        read_feature(plugin(pluginType="LifeHook", jobSelector={"states": states}))


def test_secrets_are_in_no_error() -> None:
    with pytest.raises(WrongParameter) as caught:
        read_feature(feature(authorization="Bearer tell-no-one\n", signingSecret="whsec_tell-no-one"))
    assert set(caught.value.errors) == {"authorization", "signingSecret"}
    assert "tell-no-one" not in f"{caught.value.errors}{caught.value.message}"


def test_one_bad_plugin_rejects_all_and_is_named() -> None:
    raw = feature()
    raw["plugins"].append({"pluginType": "LifeHook", "callAddress": "nowhere"})
    with pytest.raises(WrongParameter, match=r'plugins\[1\]\.callAddress.*"nowhere"'):
        read_feature(raw)


def test_a_plugin_is_not_blamed_for_its_features_selector() -> None:
    raw = plugin(jobSelector={"expression": "t"})
    raw["jobSelector"] = {"conditions": [{"name": "t", "key": "k", "expect": "/(/"}], "expression": "t"}
    with pytest.raises(WrongParameter) as caught:
        read_feature(raw)
    assert list(caught.value.errors) == ["jobSelector.conditions[0].expect"]


def test_what_answers_show_may_be_sent_back() -> None:
    raw = plugin(
        key="AccessGate.quota.platform",
        feature="quota",
        sequence=2,
        enabled=True,
        effectiveJobSelector={"anything": 1},
        jobSelector=None,
        failurePolicy="Fail",
    )
    raw.update(owner="alice", createdAt="…", updatedAt=None, jobSelector=None, authorization="set", enabled=True)
    assert read_feature(raw).authorization == "set"


FIELDS = [
    "name",
    "author",
    "plugins",
    "pluginType",
    "callAddress",
    "jobSelector",
    "conditions",
    "expression",
    "enabled",
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text("aZ9*!(/ \x00", max_size=8)
    | st.sampled_from(list(PluginType)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)


def errors(raw: Any) -> dict[str, list[str]]:
    try:
        read_feature(raw)
    except PipelineError as error:
        return error.errors
    return {}


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_json_is_parsed_or_refused_with_an_error_text(raw: Any) -> None:
    assert errors(raw)
    errors(feature(**raw))
    errors(plugin(**raw))
