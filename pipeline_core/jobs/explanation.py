"""Explain a job: which plugins would be called if it were submitted now, and why; of a job that exists also which were. No plugin
is called, nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.database.models import Job, JobDocument, TrailRow
from pipeline_core.features import snapshot
from pipeline_core.features.snapshot import RegisteredPlugin, Snapshot
from pipeline_core.jobs import views
from pipeline_core.jobs.queries import visible
from pipeline_core.jobs.submission import Submission
from pipeline_core.plugins.types import PluginType
from pipeline_core.selectors import SelectorExplanation
from pipeline_core.settings import settings
from pipeline_core.stages.choice import Choice, choose
from pipeline_core.stages.names import PLUGIN_TYPE, STAGES, Stage
from pipeline_core.states import JobState

STAND_IN_ID = f"j{'0' * 26}"
"""Has the form of a job ID, but no job ever gets it: the placeholder for the ID in the header that selectors read."""

_NOTE = "A submission gets an ID of its own; a selector with a condition on jobID may decide differently for it."

_SEVERAL: Mapping[Stage, str] = {
    Stage.FACTORS: "asked side by side; what they say is joined in this order",
    Stage.GATES: "asked one after the other in this order, as long as each lets the job pass",
    Stage.DECORATE: "asked side by side about the same TaskSet; what they add is merged in this order",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedPlugin:
    """A plugin, and whether it would be called (a LifeHook: for events of `states`); `reason` says why not.

    `sequence` counts the plugins of its type from 1, those of disabled features too.
    """

    key: str
    feature: str
    enabled: bool
    sequence: int
    runs: bool
    reason: str
    selector: SelectorExplanation
    states: tuple[JobState, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "feature": self.feature,
            "enabled": self.enabled,
            "sequence": self.sequence,
            "runs": self.runs,
            "reason": self.reason,
            "selector": self.selector.to_json(),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedStage:
    """A stage, with all plugins of its type in sequence order.

    `reached` says whether the job gets to it if all gates let it pass; `fails`, whether the job fails here.
    """

    stage: Stage
    reached: bool
    fails: bool
    outcome: str
    plugins: tuple[ExplainedPlugin, ...]

    @property
    def asked(self) -> list[str]:
        """The keys of the plugins that would be called, in their order."""
        return [plugin.key for plugin in self.plugins if plugin.runs]

    def to_json(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "pluginType": PLUGIN_TYPE.get(self.stage),
            "reached": self.reached,
            "fails": self.fails,
            "outcome": self.outcome,
            "plugins": [plugin.to_json() for plugin in self.plugins],
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class JobExplanation:
    """The stages that a job would pass, and the LifeHooks that would get its events."""

    submission: Submission
    stages: tuple[ExplainedStage, ...]
    hooks: tuple[ExplainedPlugin, ...]
    job_id: str = STAND_IN_ID

    def to_json(self) -> dict[str, Any]:
        return {
            "namespace": self.submission.namespace,
            "tasksetCheck": "passed" if self.submission.is_taskset else None,
            "header": self.submission.header_of(self.job_id),
            "standIn": {"jobID": STAND_IN_ID, "note": _NOTE} if self.job_id == STAND_IN_ID else None,
            "stages": [stage.to_json() for stage in self.stages],
            "lifeHooks": [{**hook.to_json(), "states": list(hook.states)} for hook in self.hooks],
        }


def explain(session: Session, submission: Submission, actor: Actor) -> JobExplanation:
    """The explanation by the current registry. Raises Forbidden when the actor may not submit for this user."""
    actor.require_may_submit_for(submission.user_id)
    return explanation(submission, *snapshot.with_disabled(session))


def explain_stored(session: Session, job_id: str, actor: Actor) -> dict[str, Any]:
    """The explanation of a job that exists by the current registry, each stage with the `calls` that were made of it. Raises
    NotFound."""
    job = visible(session, job_id, actor, Job.name, Job.kind, Job.namespace, Job.state, Job.stage)
    stored = session.execute(
        select(JobDocument.header, JobDocument.submitted).where(JobDocument.job_id == job_id)
    ).one()
    submission = Submission(
        user_id=job.user_id,
        name=job.name,
        kind=job.kind,
        header=stored.header,
        job=stored.submitted,
        namespace=job.namespace,
    )
    plan = explanation(submission, *snapshot.with_disabled(session), job_id=job_id).to_json()
    entries = session.scalars(select(TrailRow).where(TrailRow.job_id == job_id).order_by(TrailRow.id))
    calls = [views.trail_entry(entry) for entry in entries]
    stages = [
        {**stage, "calls": [_brief(call) for call in calls if call["stage"] == stage["stage"]]}
        for stage in plan["stages"]
    ]
    return {"jobID": job_id, "state": job.state, "stage": job.stage, **plan, "stages": stages}


def _brief(call: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in call.items() if name not in ("stage", "factors", "patch")}


def explanation(
    submission: Submission, plugins: Snapshot, disabled: Snapshot, *, job_id: str = STAND_IN_ID
) -> JobExplanation:
    """The explanation of a job. Which plugins a stage would call is decided as for the stage itself (`stages.choice.choose`)."""
    header = submission.header_of(job_id)
    stages: list[ExplainedStage] = []
    failed = Choice()
    for stage in STAGES:
        choice = choose(stage, plugins, submission.kind, header)
        if failed.fails:
            choice = Choice(reason="The job would have failed before.")
        stages.append(
            ExplainedStage(
                stage=stage,
                reached=not failed.fails,
                fails=choice.fails,
                outcome=choice.reason if failed.fails else _outcome(stage, choice, submission),
                plugins=_candidates(stage, choice, header, plugins, disabled),
            )
        )
        failed = failed if failed.fails else choice
    return JobExplanation(
        submission=submission, stages=tuple(stages), hooks=_hooks(header, plugins, disabled), job_id=job_id
    )


def _outcome(stage: Stage, choice: Choice, submission: Submission) -> str:
    if stage is Stage.LAUNCH:
        unless = "" if submission.is_taskset else ", unless its translator names another"
        place = f'into the namespace "{submission.namespace}"{unless}'
        return f"The TaskSet goes to the cluster {settings().cluster_name}, {place}."
    if choice.fails:
        return f"The job fails: {choice.reason}"
    if len(choice.plugins) == 1:
        return f"{choice.plugins[0].key} is asked."
    if choice.plugins:
        return f"{len(choice.plugins)} plugins are {_SEVERAL[stage]}."
    if stage is Stage.BIND:
        return f"{choice.reason} The cluster's default scheduler places the pods."
    return f"Nobody is asked. {choice.reason}"


def _candidates(
    stage: Stage, choice: Choice, header: Mapping[str, Any], plugins: Snapshot, disabled: Snapshot
) -> tuple[ExplainedPlugin, ...]:
    if stage not in PLUGIN_TYPE:
        return ()
    asked = {plugin.key for plugin in choice.plugins}
    return tuple(
        replace(plugin, runs=plugin.key in asked, reason="" if plugin.key in asked else plugin.reason or choice.reason)
        for plugin in _all(PLUGIN_TYPE[stage], header, plugins, disabled)
    )


def _hooks(header: Mapping[str, Any], plugins: Snapshot, disabled: Snapshot) -> tuple[ExplainedPlugin, ...]:
    states: dict[str, list[JobState]] = {}
    for state in JobState:
        for hook in plugins.subscribers(header, state):
            states.setdefault(hook.key, []).append(state)
    return tuple(
        replace(hook, runs=hook.key in states, states=tuple(states.get(hook.key, ())))
        for hook in _all(PluginType.LIFE_HOOK, header, plugins, disabled)
    )


def _all(type: PluginType, header: Mapping[str, Any], plugins: Snapshot, disabled: Snapshot) -> list[ExplainedPlugin]:
    """The plugins of a type in sequence order, each with its own reasons against being called."""
    ordered = sorted([*plugins.of(type), *disabled.of(type)], key=lambda plugin: plugin.position)
    return [
        _candidate(plugin, sequence, header, enabled=plugins.get(plugin.key) is not None)
        for sequence, plugin in enumerate(ordered, 1)
    ]


def _candidate(plugin: RegisteredPlugin, sequence: int, header: Mapping[str, Any], *, enabled: bool) -> ExplainedPlugin:
    selector = plugin.matcher.explain(header)
    off = "" if enabled else f"The feature {plugin.feature} is off."
    unmatched = "" if selector.matched else "The selector does not match."
    return ExplainedPlugin(
        key=plugin.key,
        feature=plugin.feature,
        enabled=enabled,
        sequence=sequence,
        runs=False,
        reason=" ".join(filter(None, (off, unmatched))),
        selector=selector,
    )
