"""Choosing plugins: which plugins a stage calls for a job of a given kind and header, and which stage is the job's next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_core.features.snapshot import RegisteredPlugin, Snapshot
from pipeline_core.stages.names import PLUGIN_TYPE, Stage
from pipeline_core.taskset import document as taskset


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Which plugins a stage calls for a job, in sequence order. `reason` says why there are none; if `fails`, it is also why
    the job fails here.
    """

    plugins: tuple[RegisteredPlugin, ...] = ()
    reason: str = ""
    fails: bool = False

    @property
    def skipped(self) -> bool:
        """The job passes the stage: there is nothing to call, and nothing that fails it."""
        return not self.plugins and not self.fails


def next_of(stages: Sequence[Stage], plugins: Snapshot, kind: str, header: Mapping[str, Any]) -> Stage:
    """The first of these stages that is not skipped for the job; the launch never is."""
    return next(stage for stage in stages if stage is Stage.LAUNCH or not choose(stage, plugins, kind, header).skipped)


def choose(stage: Stage, plugins: Snapshot, kind: str, header: Mapping[str, Any]) -> Choice:
    """Which plugins this stage calls for a job of this kind with this header. The launch calls none."""
    if stage not in PLUGIN_TYPE:
        return Choice(reason=f"The stage {stage} asks no plugin.")
    if stage is Stage.TRANSLATE and kind == taskset.KIND:
        return Choice(reason="The job is a TaskSet already.")
    type = PLUGIN_TYPE[stage]
    found = plugins.matching(type, header)
    several = ", ".join(plugin.key for plugin in found)
    if stage is Stage.TRANSLATE and len(found) != 1:
        matches = f"several match: {several}" if found else "none matches"
        return Choice(reason=f'A job of kind "{kind}" needs exactly one {type}; {matches}.', fails=True)
    if type.exclusive and len(found) > 1:
        return Choice(reason=f"A job takes at most one {type}; several match: {several}.", fails=True)
    return Choice(plugins=found, reason="" if found else f"No {type} matches.")
