"""All settings: read once, from the environment, and documented only here.

Each field of `Settings` is one variable: `PIPELINE_` and the field's name in capitals. Settings that belong together are a
group: a class of their own, in the module of its subject (`service`, `jobs`, `flows`, `clusters`), which `Settings` inherits;
`declaration` is how one is declared, `sentinel` a form of the URL of Redis. `docs/configuration.md` is generated from
this package.
"""

from __future__ import annotations

import os
from dataclasses import Field, dataclass, fields
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from environs import Env, EnvError

from pipeline_core.errors import ConfigurationError
from pipeline_core.runtime import part
from pipeline_core.settings.clusters import ClusterSettings, KubernetesSettings, LocalSettings
from pipeline_core.settings.declaration import NUMBERS, Network, accepted, most, variable
from pipeline_core.settings.flows import AlertSettings, FlowSettings
from pipeline_core.settings.jobs import HookSettings, PluginSettings, PodPolicySettings, StageSettings
from pipeline_core.settings.service import (
    ApiSettings,
    DatabaseSettings,
    OperationSettings,
    RedisSettings,
    ServiceSettings,
)

__all__ = [
    "GROUPS",
    "AlertSettings",
    "ApiSettings",
    "ClusterSettings",
    "DatabaseSettings",
    "FlowSettings",
    "HookSettings",
    "KubernetesSettings",
    "LocalSettings",
    "Network",
    "OperationSettings",
    "PluginSettings",
    "PodPolicySettings",
    "RedisSettings",
    "ServiceSettings",
    "Settings",
    "StageSettings",
    "accepted",
    "settings",
    "variable",
]


OPENTELEMETRY = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
"""What PIPELINE_OTEL needs."""


def _is_installed(package: str) -> bool:
    """Whether the distribution is there. Its modules may be hidden while a process imports its own (`lean_imports`)."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class Settings(
    ServiceSettings,
    DatabaseSettings,
    RedisSettings,
    ApiSettings,
    StageSettings,
    PluginSettings,
    PodPolicySettings,
    HookSettings,
    AlertSettings,
    FlowSettings,
    ClusterSettings,
    KubernetesSettings,
    LocalSettings,
    OperationSettings,
):
    """All settings. A function that needs those of one group takes the group: `def connect(settings: RedisSettings)`."""

    def __post_init__(self) -> None:
        problems = [text for holds, text in self._rules() if not holds]
        if problems:
            raise ConfigurationError("; ".join(problems))

    def _rules(self) -> list[tuple[bool, str]]:
        return [
            (bool(self.namespaces), "PIPELINE_NAMESPACES names no namespace"),
            (
                not self.otel or all(map(_is_installed, OPENTELEMETRY)),
                "PIPELINE_OTEL is set and OpenTelemetry is not installed: pip install 'pipeline-service[otel]'",
            ),
            (
                self.hook_retry_min_seconds <= self.hook_retry_max_seconds,
                f"PIPELINE_HOOK_RETRY_MIN_SECONDS ({self.hook_retry_min_seconds:g}) must be at most"
                f" PIPELINE_HOOK_RETRY_MAX_SECONDS ({self.hook_retry_max_seconds:g})",
            ),
            (
                bool(self.smtp_url and self.alert_sender)
                or not any(to.startswith("mailto:") for _, to in self.alert_url),
                "PIPELINE_ALERT_URL has a receiver `mailto:`, which takes PIPELINE_SMTP_URL and PIPELINE_ALERT_SENDER too",
            ),
            *(
                rule
                for setting in fields(self)
                if setting.metadata["parse"] in NUMBERS
                for rule in self._bounds(setting)
            ),
        ]

    def _bounds(self, setting: Field[Any]) -> list[tuple[bool, str]]:
        value, least = getattr(self, setting.name), setting.metadata["least"]
        shown = f"{variable(setting)} ({value:g})"
        return [
            (value >= least, f"{shown} must be at least {least}"),
            (value <= most(setting), f"{shown} must be at most {most(setting)}"),
        ]

    @property
    def port_range(self) -> range:
        """The ports that are leased to tasks."""
        first, last = map(int, self.host_ports.split("-"))
        return range(first, last + 1)

    @property
    def soft_limit_seconds(self) -> float:
        """A plugin's `timeoutSeconds` may be 300, so no stage's budget is above the larger of that and the setting."""
        return max(self.stage_budget_seconds, 300.0) + 30

    @property
    def hard_limit_seconds(self) -> float:
        return self.soft_limit_seconds + 30


GROUPS: tuple[type, ...] = Settings.__bases__
"""The groups in the order of the documentation."""


@part
def settings() -> Settings:
    """The settings of this process, from its environment; an empty variable counts as not set.

    Raises ConfigurationError, naming each invalid variable, its value and what would be right.
    """
    env = Env()
    values: dict[str, Any] = {}
    errors = []
    for setting in fields(Settings):
        name = variable(setting)
        if not os.environ.get(name):
            continue
        try:
            values[setting.name] = setting.metadata["parse"](env, name)
        except (EnvError, ValueError) as error:
            errors.append(f"{name}: {error}")
    if errors:
        raise ConfigurationError("; ".join(errors))
    return Settings(**values)
