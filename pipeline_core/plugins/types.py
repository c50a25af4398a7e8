"""The types of plugins, their modes and failure policies, and who resumes jobs."""

from __future__ import annotations

from enum import StrEnum


class PluginType(StrEnum):
    """What a plugin does for a job. The first five are in the order of their stages."""

    TEMPLATE_TRANSLATOR = "TemplateTranslator"
    FACTOR_GENERATOR = "FactorGenerator"
    ACCESS_GATE = "AccessGate"
    TEMPLATE_DECORATOR = "TemplateDecorator"
    SCHEDULER_BINDER = "SchedulerBinder"
    LIFE_HOOK = "LifeHook"

    @property
    def with_article(self) -> str:
        """As in a sentence: `an AccessGate`."""
        return f"{'an' if self[0] in 'AEIOU' else 'a'} {self}"

    @property
    def exclusive(self) -> bool:
        """At most one plugin of this type may take part in a job."""
        return self in (PluginType.TEMPLATE_TRANSLATOR, PluginType.SCHEDULER_BINDER)


class Mode(StrEnum):
    """Whether a plugin takes part in jobs, or is only asked what it would have done."""

    ACTIVE = "active"
    SHADOW = "shadow"


class FailurePolicy(StrEnum):
    """What happens to a job when a plugin stays unavailable or answers badly."""

    FAIL = "Fail"
    IGNORE = "Ignore"
    SUSPEND = "Suspend"


class Resumer(StrEnum):
    """Who resumes a job that a gate has suspended."""

    WRITER = "writer"
    """Whoever may write the job, its own user included."""

    APPROVER = "approver"
    """Somebody else than the job's user, with the privilege `approve_job`."""
