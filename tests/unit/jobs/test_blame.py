"""Blame: patches that are replayed make the TaskSet that the stages made."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jsonpatch
from hypothesis import HealthCheck, given
from hypothesis import settings as tried
from hypothesis import strategies as st

from pipeline_core.common.clock import now
from pipeline_core.jobs import blame
from pipeline_core.stages import bind, decorate
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, TrailEntry, TrailOutcome
from pipeline_core.taskset.comparison import patch_between
from pipeline_core.taskset.values import equal
from tests.unit.stages.conftest import Plugins, claim, plugin, plugins
from tests.unit.taskset.documents import BASE, additions

__all__ = ["claim", "plugins"]

Make = Callable[..., ClaimedStep]
POSITIONS = {"a": 1, "b": 2, "c": 3, "binder": 4}


def replayed(first: Any, versions: list[blame.Version]) -> Any:
    document = copy.deepcopy(first)
    before = first
    for version in versions:
        document = jsonpatch.apply_patch(document, patch_between(before, version.document))
        before = version.document
    return document


def launched(
    plugins: Plugins, claim: Make, answers: Mapping[str, Any]
) -> tuple[Any, dict[Stage, list[TrailEntry]]] | None:
    """The TaskSet after decorators and a binder, and the trail; None where the stages do not go on."""

    def bound(packet: dict[str, Any]) -> Any:
        document = packet["job"]
        document["spec"]["roles"][0]["template"]["spec"]["schedulerName"] = "volcano"
        return document

    plugins.answers = {**answers, "binder": bound}
    chosen = [plugin(Stage.DECORATE, name, POSITIONS[name]) for name in answers]
    after_decorators = decorate.run(claim(Stage.DECORATE, chosen, job=BASE))
    if not isinstance(after_decorators, Advance):
        return None
    done = bind.run(claim(Stage.BIND, [plugin(Stage.BIND, "binder", 4)], job=after_decorators.taskset))
    assert isinstance(done, Advance)
    return done.taskset, {Stage.DECORATE: [*after_decorators.trail], Stage.BIND: [*done.trail]}


@tried(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(additions(), max_size=3), st.randoms())
def test_patches_that_are_replayed_make_the_taskset_that_was_launched(
    plugins: Plugins, claim: Make, answers: list[Any], random: Any
) -> None:
    found = launched(plugins, claim, dict(zip("abc", answers, strict=False)))
    if found is None:
        return
    taskset, trail = found
    # A decorator that answered before the stage was interrupted stands before the others in the trail.
    random.shuffle(trail[Stage.DECORATE])
    versions = blame.versions(BASE, trail, taskset, POSITIONS)
    assert equal(replayed(BASE, versions), taskset)
    keys = [version.entry.plugin_key for version in versions if version.entry]
    assert keys == sorted(keys, key=lambda key: POSITIONS[key])
    assert all(version.entry for version in versions), "each change is somebody's"


def test_what_cannot_be_merged_again_is_a_change_of_nobody(plugins: Plugins, claim: Make) -> None:
    def labelled(packet: dict[str, Any]) -> Any:
        packet["job"]["metadata"]["labels"]["team"] = "vision"
        return packet["job"]

    found = launched(plugins, claim, {"a": labelled})
    assert found is not None
    taskset, trail = found
    (entry,) = trail[Stage.DECORATE]
    broken = replace(entry, patch=[{"op": "remove", "path": "/kind"}])
    versions = blame.versions(BASE, {**trail, Stage.DECORATE: [broken]}, taskset, POSITIONS)
    assert [version.entry for version in versions] == [None]
    assert equal(replayed(BASE, versions), taskset)


def test_a_job_that_is_not_translated_yet_has_no_versions() -> None:
    assert blame.versions(None, {}, None, {}) == []


def test_the_first_version_of_a_translated_job_is_the_translator_s() -> None:
    patch = [{"op": "replace", "path": "", "value": BASE}]
    entry = TrailEntry(plugin_key="t", outcome=TrailOutcome.ANSWERED, started_at=now(), patch=patch)
    (version,) = blame.versions(None, {Stage.TRANSLATE: [entry]}, BASE, {})
    assert version.entry is entry
    assert replayed({}, [version]) == BASE
