"""The stages' names and order, and which type of plugin each asks."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from pipeline_core.plugins.types import PluginType


class Stage(StrEnum):
    """Where a job stands. `cluster` is not worked on by a stage task: the watcher tells how the job fares there."""

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
