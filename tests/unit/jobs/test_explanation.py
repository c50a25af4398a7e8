"""The explanation of a job against the stages themselves: what it says is what they do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as tried
from hypothesis import strategies as st

from api.schemas.jobs import Submit
from pipeline_core.features.snapshot import RegisteredPlugin, Snapshot
from pipeline_core.jobs.explanation import STAND_IN_ID, JobExplanation, explanation
from pipeline_core.jobs.submission import Submission
from pipeline_core.plugins.client import Reply
from pipeline_core.plugins.types import FailurePolicy, PluginType
from pipeline_core.selectors import Selector, compile, parse_selector
from pipeline_core.stages import bind, calls, decorate, factors, gates, translate
from pipeline_core.stages.choice import next_of
from pipeline_core.stages.names import STAGES, Stage, after
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Outcome, TrailEntry
from pipeline_core.states import FINAL, JobState
from tests.builders import taskset

DEBUG = {"conditions": [{"name": "debug", "key": "type", "expect": "debug"}], "expression": "debug"}
TEAM = {"conditions": [{"name": "team", "key": "user.team", "expect": "/^ml/i"}], "expression": "team"}
NOT_TFJOB = {"conditions": [{"name": "tf", "key": "jobKind", "expect": "TFJob"}], "expression": "!tf"}


@pytest.fixture(autouse=True)
def defaults(monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]) -> None:
    monkeypatch.setattr(calls, "client", lambda: Agreeable())


class Agreeable:
    """Every plugin answers, and lets the job continue."""

    def call(self, endpoint: Any, body: bytes, **_: Any) -> Reply:
        answer: Any = {
            PluginType.TEMPLATE_TRANSLATOR: taskset(),
            PluginType.FACTOR_GENERATOR: [],
            PluginType.ACCESS_GATE: {"decision": "pass"},
        }.get(endpoint.type, json.loads(body)["job"])
        return Reply(json.dumps(answer).encode(), 1, 0.0)


def plugin(type: PluginType, feature: str, selector: Any = None, position: int = 1) -> RegisteredPlugin:
    parsed = parse_selector(selector, "jobSelector", with_states=type is PluginType.LIFE_HOOK) or Selector()
    return RegisteredPlugin(
        key=f"{type}.{feature}.tests",
        feature=feature,
        owner="tests",
        type=type,
        address="http://127.0.0.1:1",
        selector=parsed,
        matcher=compile(parsed),
        states=parsed.job_states,
        position=position,
        timeout_seconds=1,
        max_attempts=1,
        patience_seconds=0,
        failure_policy=FailurePolicy.FAIL,
    )


def submission(kind: str = "TFJob", header: Any = None) -> Submission:
    job = taskset() if kind == "TaskSet" else {"kind": kind}
    raw = {"userID": "ada", "jobName": "train", "jobKind": kind, "job": job, "header": header or {}}
    return Submit().read(raw)


def planned(
    submitted: Submission, plugins: Sequence[RegisteredPlugin] = (), off: Sequence[RegisteredPlugin] = ()
) -> JobExplanation:
    return explanation(submitted, Snapshot(1, plugins), Snapshot(1, off))


def stage_of(made: JobExplanation, stage: Stage) -> Any:
    return next(planned for planned in made.stages if planned.stage is stage)


@dataclass
class Way:
    """What the stages did: which plugins each called, in order, and where the job failed."""

    asked: dict[Stage, list[str]]
    failed: Stage | None


def run_stages(submitted: Submission, plugins: Snapshot) -> Way:
    """Run the real stages as a chain does, skipping those that the cursor skips."""
    header = submitted.header_of("j01kb5gqz5sk4q7r3f0m7h2k9xz")
    taskset: Any = submitted.job if submitted.is_taskset else None
    asked: dict[Stage, list[str]] = {}
    stage = Stage.TRANSLATE
    while stage is not Stage.LAUNCH:
        claim = ClaimedStep(
            job_id="j01kb5gqz5sk4q7r3f0m7h2k9xz",
            epoch=0,
            stage=stage,
            owner="w",
            claim_count=1,
            kind=submitted.kind,
            user_id="ada",
            namespace="default",
            attempt=0,
            request_id="",
            header=header,
            submitted=submitted.job,
            taskset=taskset,
            factors={},
            plugins=plugins,
        )
        outcome, entries = _run(claim)
        asked[stage] = [entry.plugin_key for entry in entries]
        if not isinstance(outcome, Advance):
            return Way(asked, stage)
        taskset = outcome.taskset or taskset
        stage = next_of(after(stage), plugins, submitted.kind, header)
    return Way(asked, None)


def _run(claim: ClaimedStep) -> tuple[Outcome, list[TrailEntry]]:
    renewed: list[TrailEntry] = []
    if claim.stage is Stage.GATES:
        outcome: Outcome = gates.run(claim, renewed.extend)
    else:
        stages = {Stage.TRANSLATE: translate, Stage.FACTORS: factors, Stage.DECORATE: decorate, Stage.BIND: bind}
        outcome = stages[claim.stage].run(claim)  # type: ignore[attr-defined]
    return outcome, [*renewed, *getattr(outcome, "trail", ())]


features = st.lists(
    st.tuples(
        st.lists(st.sampled_from(list(PluginType)), min_size=1, max_size=6, unique=True),
        st.sampled_from([None, DEBUG, TEAM, NOT_TFJOB]),
        st.booleans(),
    ),
    max_size=5,
)
headers = st.fixed_dictionaries(
    {}, optional={"type": st.sampled_from(["debug", "batch", 1]), "user": st.sampled_from([{"team": "MLops"}, "ml"])}
)


@tried(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(features, headers, st.sampled_from(["TFJob", "TaskSet", "Any"]), st.randoms())
def test_the_plan_names_exactly_the_plugins_that_the_stages_call(
    chosen: Any, header: Any, kind: str, random: Any
) -> None:
    made = [
        (enabled, plugin(type, f"f{number}", selector))
        for number, (types, selector, enabled) in enumerate(chosen)
        for type in types
    ]
    random.shuffle(made)
    placed = [(enabled, replace(one, position=position)) for position, (enabled, one) in enumerate(made)]
    on, off = ([one for enabled, one in placed if enabled is which] for which in (True, False))
    submitted = submission(kind, header)
    explained = planned(submitted, on, off)
    way = run_stages(submitted, Snapshot(1, on))

    assert {stage.stage: stage.asked for stage in explained.stages if stage.asked} == {
        stage: keys for stage, keys in way.asked.items() if keys
    }
    assert [stage.stage for stage in explained.stages if stage.fails] == ([way.failed] if way.failed else [])
    reached = STAGES[: STAGES.index(way.failed) + 1] if way.failed else STAGES
    assert [stage.stage for stage in explained.stages if stage.reached] == list(reached)

    every = [one for stage in explained.stages for one in stage.plugins] + list(explained.hooks)
    assert sorted(one.key for one in every) == sorted(one.key for _, one in made)
    for one in every:
        assert bool(one.reason) != one.runs
        assert not one.runs or (one.enabled and one.selector.matched)
        assert one.enabled == (one.key in {plugin.key for plugin in on})
    states_by_hook = {hook.key: hook.states for hook in explained.hooks if hook.runs}
    for state in JobState:
        subscribers = Snapshot(1, on).subscribers(submitted.header_of(STAND_IN_ID), state)
        assert [hook.key for hook in subscribers] == [key for key, states in states_by_hook.items() if state in states]


def test_a_plugin_that_does_not_match_says_what_each_condition_found() -> None:
    made = planned(submission(header={"type": "batch"}), [plugin(PluginType.ACCESS_GATE, "quota", DEBUG)])
    (gate,) = made.to_json()["stages"][STAGES.index(Stage.GATES)]["plugins"]
    assert gate["selector"] == {
        "expression": "debug",
        "conditions": [{"name": "debug", "key": "type", "expect": "debug", "found": "batch", "matched": False}],
        "matched": False,
    }
    made = planned(submission("TaskSet", {"type": "batch"}), [plugin(PluginType.ACCESS_GATE, "quota", DEBUG)])
    (gate_of_taskset,) = stage_of(made, Stage.GATES).plugins
    assert gate_of_taskset.reason == "The selector does not match."


def test_a_job_that_nothing_translates_would_fail_and_no_later_stage_be_reached() -> None:
    made = planned(submission(), [plugin(PluginType.ACCESS_GATE, "quota")])
    first, *later = made.stages
    assert first.outcome == ('The job fails: A job of kind "TFJob" needs exactly one TemplateTranslator; none matches.')
    assert not any(stage.reached or stage.asked for stage in later)
    assert later[1].plugins[0].reason == "The job would have failed before."


def test_several_translators_are_named() -> None:
    translators = [plugin(PluginType.TEMPLATE_TRANSLATOR, name, position=n) for n, name in enumerate("ab")]
    stage = stage_of(planned(submission(), translators), Stage.TRANSLATE)
    assert stage.fails
    assert "several match: TemplateTranslator.a.tests, TemplateTranslator.b.tests" in stage.outcome
    assert all(one.reason == stage.outcome.removeprefix("The job fails: ") for one in stage.plugins)


def test_a_taskset_calls_no_translator_and_has_passed_its_check() -> None:
    made = planned(submission("TaskSet"), [plugin(PluginType.TEMPLATE_TRANSLATOR, "a")])
    assert made.to_json()["tasksetCheck"] == "passed"
    stage = stage_of(made, Stage.TRANSLATE)
    assert stage.outcome == "Nobody is asked. The job is a TaskSet already."
    assert stage.plugins[0].reason == "The job is a TaskSet already."


def test_without_a_binder_the_clusters_default_schedules() -> None:
    stage = stage_of(planned(submission("TaskSet")), Stage.BIND)
    assert stage.outcome == "No SchedulerBinder matches. The cluster's default scheduler places the pods."


def test_plugins_of_a_feature_that_is_off_are_listed_in_their_place() -> None:
    gates_on = [plugin(PluginType.ACCESS_GATE, name, position=n) for name, n in (("first", 1), ("third", 3))]
    off = [plugin(PluginType.ACCESS_GATE, "second", DEBUG, position=2)]
    stage = stage_of(planned(submission("TaskSet"), gates_on, off), Stage.GATES)
    assert [(one.feature, one.sequence, one.runs) for one in stage.plugins] == [
        ("first", 1, True),
        ("second", 2, False),
        ("third", 3, True),
    ]
    assert stage.plugins[1].reason == "The feature second is off. The selector does not match."
    assert "one after the other" in stage.outcome


def test_a_hook_is_listed_with_the_states_whose_events_it_would_get() -> None:
    hooks = [
        plugin(PluginType.LIFE_HOOK, "ends", {"conditions": [], "expression": "*", "states": ["completed"]}),
        plugin(PluginType.LIFE_HOOK, "debug", DEBUG, position=2),
    ]
    ends, debug = planned(submission("TaskSet"), hooks).hooks
    assert (ends.runs, set(ends.states)) == (True, FINAL)
    assert (debug.runs, debug.states, debug.reason) == (False, (), "The selector does not match.")


def test_the_header_has_the_presets_and_says_that_the_id_is_a_stand_in() -> None:
    shown = planned(submission(header={"jobID": "mine", "type": "debug"})).to_json()
    assert shown["header"] == {
        "jobID": STAND_IN_ID,
        "type": "debug",
        "userID": "ada",
        "jobName": "train",
        "jobKind": "TFJob",
    }
    assert shown["standIn"]["jobID"] == STAND_IN_ID
    assert "ID of its own" in shown["standIn"]["note"]


def test_the_launch_names_the_namespace_and_that_a_translator_may_choose_another() -> None:
    assert 'into the namespace "default".' in planned(submission("TaskSet")).stages[-1].outcome
    translator = plugin(PluginType.TEMPLATE_TRANSLATOR, "a")
    assert "unless its translator names another" in planned(submission(), [translator]).stages[-1].outcome
