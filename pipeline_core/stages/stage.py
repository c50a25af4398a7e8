"""The stages: their names and order, which type of plugin each calls, and which plugins it calls for a given job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pipeline_core.plugins.types import PluginType
from pipeline_core.taskset import document as taskset

if TYPE_CHECKING:
    # Whoever needs the names of stages alone, as the commands that start workers do, should not load the database.
    from pipeline_core.features.snapshot import RegisteredPlugin, Snapshot


class Stage(StrEnum):
    """Where a job stands. No stage task works on `cluster`: there the watcher observes the job."""

    TRANSLATE = "translate"
    FACTORS = "factors"
    GATES = "gates"
    DECORATE = "decorate"
    BIND = "bind"
    LAUNCH = "launch"
    CLUSTER = "cluster"


STAGES: tuple[Stage, ...] = tuple(stage for stage in Stage if stage is not Stage.CLUSTER)
"""The stages that a chain is made of, in order."""

PLUGIN_TYPE: Mapping[Stage, PluginType] = MappingProxyType(
    {
        Stage.TRANSLATE: PluginType.TEMPLATE_TRANSLATOR,
        Stage.FACTORS: PluginType.FACTOR_GENERATOR,
        Stage.GATES: PluginType.ACCESS_GATE,
        Stage.DECORATE: PluginType.TEMPLATE_DECORATOR,
        Stage.BIND: PluginType.SCHEDULER_BINDER,
    }
)


def after(stage: Stage) -> tuple[Stage, ...]:
    """The stages of a chain that follow this one."""
    return STAGES[STAGES.index(stage) + 1 :]


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """`plugins` are those that the stage calls, in sequence order. `reason` says why there are none.

    With `fails` that is also why the job fails here.
    """

    plugins: tuple[RegisteredPlugin, ...] = ()
    reason: str = ""
    fails: bool = False

    @property
    def skipped(self) -> bool:
        """The job passes the stage: there is nothing to call, and nothing that fails it."""
        return not self.plugins and not self.fails


def next_of(stages: Sequence[Stage], plugins: Snapshot, kind: str, header: Mapping[str, Any]) -> Stage:
    """The first of these stages that has anything to do for the job; the launch always has."""
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
