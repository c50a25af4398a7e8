"""Who put what into a job's TaskSet: its first version, and the change of each plugin, one after the other.

The trail has the changes of decorators as each of them made it, to the same TaskSet. What each adds to those before it is found
again as the stage found it, by merging one more of them each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonpatch
from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import rfc3339
from pipeline_core.database.models import Job, JobDocument, Plugin
from pipeline_core.errors import PipelineError
from pipeline_core.jobs import trail_rows
from pipeline_core.jobs.queries import visible
from pipeline_core.plugins.errors import BadAnswer
from pipeline_core.stages.decorate import recorded_change
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import TrailEntry, TrailOutcome
from pipeline_core.taskset import document as taskset
from pipeline_core.taskset.change import TaskSetChange
from pipeline_core.taskset.comparison import patch_between
from pipeline_core.taskset.merge import decorated

Document = Mapping[str, Any]

_ORDER = tuple(Stage)
_CHANGING = (Stage.TRANSLATE, Stage.DECORATE, Stage.BIND)
"""The stages that change the TaskSet."""


@dataclass(frozen=True, slots=True)
class Version:
    """The TaskSet after the change of a plugin; of none where it is not known whose change it is."""

    document: Document
    stage: Stage | None = None
    entry: TrailEntry | None = None


def blame(session: Session, job_id: str, actor: Actor) -> dict[str, Any]:
    """The first TaskSet of a job (null if it was translated), the changes since as JSON Patches, and the TaskSet as it is now,
    which is what the patches make of the first one. Raises NotFound."""
    job = visible(session, job_id, actor, Job.kind, Job.namespace, Job.stage)
    stored = session.execute(select(JobDocument).where(JobDocument.job_id == job_id)).scalar_one()
    first = taskset.named(stored.submitted, job_id, job.namespace) if job.kind == taskset.KIND else None
    passed = _ORDER[: _ORDER.index(Stage(job.stage))]
    calls = {stage: trail_rows.read(session, job_id, stage) for stage in passed if stage in _CHANGING}
    found = versions(first, calls, stored.taskset, positions(session))
    changes = []
    before: Document | None = first
    for version in found:
        entry = version.entry
        changes.append(
            {
                "stage": version.stage,
                "plugin": entry.plugin_key if entry else "",
                "at": rfc3339(entry.started_at) if entry else None,
                "patch": patch_between(before, version.document),
            }
        )
        before = version.document
    return {"first": first, "changes": changes, "taskset": stored.taskset}


def positions(session: Session) -> dict[str, int]:
    """Where each plugin that is registered stands in the order of its type, by key."""
    return {row.key: row.position for row in session.execute(select(Plugin.key, Plugin.position))}


def versions(
    first: Document | None,
    calls: Mapping[Stage, Sequence[TrailEntry]],
    now: Document | None,
    order: Mapping[str, int],
) -> list[Version]:
    """The versions of a TaskSet after the first one. `calls` are the plugin calls of the stages that the job has passed,
    `order` the `positions` of plugins. The last version is the TaskSet as it is `now`."""
    if now is None:
        return []
    found: list[Version] = []
    present = first
    for stage in _CHANGING:
        made = answers(calls.get(stage, ()), order)
        try:
            if stage is Stage.DECORATE and present is not None:
                added = additions(present, made)
                found += (Version(decorated(present, added[: n + 1]), stage, one) for n, one in enumerate(made))
            else:
                found += (Version(jsonpatch.apply_patch(present or {}, one.patch or []), stage, one) for one in made)
        except (PipelineError, BadAnswer, jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
            # It was made by another configuration than is in force now.
            break
        present = found[-1].document if found else first
    if present is None or patch_between(present, now):
        found.append(Version(now))
    return found


def answers(calls: Sequence[TrailEntry], order: Mapping[str, int]) -> list[TrailEntry]:
    """The last answer of each plugin that changed something, in the order of the plugins if all are still registered."""
    latest = {entry.plugin_key: entry for entry in calls if entry.outcome is TrailOutcome.ANSWERED and entry.patch}
    if latest.keys() <= order.keys():
        return sorted(latest.values(), key=lambda entry: order[entry.plugin_key])
    return list(latest.values())


def additions(base: Document, made: Sequence[TrailEntry]) -> list[tuple[str, TaskSetChange]]:
    """What each decorator added to the TaskSet `base`, by its key: `taskset.merge.decorated` merges them."""
    return [(entry.plugin_key, recorded_change(base, entry)) for entry in made]
