"""Settings that contradict each other, or that mean nothing as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from pipeline_core.settings import AlertSettings, KubernetesSettings, LocalSettings, Settings, variable

HOOK_PLACES = 32
"""How many calls a hook worker makes at a time."""
OTHER_VARIABLES = frozenset(
    {
        "PIPELINE_URL",
        "PIPELINE_TOKEN",
        "PIPELINE_REVISION",
        "PIPELINE_RUN",
        "PIPELINE_COMPLETE",
        "PIPELINE_FAILPOINT",
        "PIPELINE_FAILPOINT_DIR",
    }
)
"""Variables of the name that are no settings of the service's."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Settings that do not go together: which, what is wrong, what to do."""

    variables: str
    wrong: str
    advice: str


def contradictions(chosen: Settings) -> Iterator[Contradiction]:
    """The settings that contradict each other."""
    yield from _of_retention(chosen)
    yield from _of_hooks(chosen)
    yield from _of_the_cluster(chosen)


def unknown(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that look like settings of the service and are none."""
    known = {variable(setting) for setting in fields(Settings)} | OTHER_VARIABLES
    return tuple(
        sorted(
            name
            for name in environment
            # Kubernetes sets variables for a Service that is called `pipeline`.
            if name.startswith("PIPELINE_")
            and name not in known
            and not name.startswith(("PIPELINE_TEST_", "PIPELINE_SERVICE_", "PIPELINE_PORT"))
        )
    )


def similar(name: str) -> str:
    """The setting whose variable is most like this name, or empty."""
    return next(
        iter(get_close_matches(name, [variable(setting) for setting in fields(Settings)], n=1, cutoff=0.75)), ""
    )


def _of_retention(chosen: Settings) -> Iterator[Contradiction]:
    if chosen.retention_days and chosen.log_days > chosen.retention_days:
        yield Contradiction(
            "PIPELINE_LOG_DAYS, PIPELINE_RETENTION_DAYS",
            f"logs are to be kept for {chosen.log_days:g} days, but their jobs are deleted with them after "
            f"{chosen.retention_days:g}",
            "lower PIPELINE_LOG_DAYS, or raise PIPELINE_RETENTION_DAYS",
        )


def _of_hooks(chosen: Settings) -> Iterator[Contradiction]:
    if chosen.hook_concurrency >= HOOK_PLACES:
        yield Contradiction(
            "PIPELINE_HOOK_CONCURRENCY",
            f"one LifeHook may be called {chosen.hook_concurrency} times at a time, and so take all {HOOK_PLACES} places of a "
            "hook worker",
            f"set it to less than {HOOK_PLACES}",
        )
    if chosen.hook_retry_max_seconds > chosen.hook_give_up_seconds:
        yield Contradiction(
            "PIPELINE_HOOK_RETRY_MAX_SECONDS, PIPELINE_HOOK_GIVE_UP_SECONDS",
            f"a delivery is given up after {chosen.hook_give_up_seconds:g} s, before the longest pause between two attempts "
            f"({chosen.hook_retry_max_seconds:g} s) is over",
            "raise PIPELINE_HOOK_GIVE_UP_SECONDS, or lower PIPELINE_HOOK_RETRY_MAX_SECONDS",
        )
    for name in ("alert_authorization", "alert_signing_secret"):
        if getattr(chosen, name) and not chosen.alert_url:
            yield Contradiction(
                f"{_variable(AlertSettings, name)}, PIPELINE_ALERT_URL",
                f"{_variable(AlertSettings, name)} is set, but alerts are sent nowhere",
                "set PIPELINE_ALERT_URL, or neither",
            )


def _of_the_cluster(chosen: Settings) -> Iterator[Contradiction]:
    for driver, group in (("kubernetes", KubernetesSettings), ("local", LocalSettings)):
        changed = [variable(setting) for setting in fields(group) if getattr(chosen, setting.name) != setting.default]
        if changed and chosen.cluster_driver != driver:
            yield Contradiction(
                ", ".join(["PIPELINE_CLUSTER_DRIVER", *changed]),
                f"{', '.join(changed)} {'is' if len(changed) == 1 else 'are'} set, but count with the driver {driver} alone, and "
                f"PIPELINE_CLUSTER_DRIVER is {chosen.cluster_driver}",
                f"set PIPELINE_CLUSTER_DRIVER to {driver}, or do not set the others",
            )
    if chosen.cluster_driver == "kubernetes" and chosen.kube_context and not chosen.kubeconfig:
        yield Contradiction(
            "PIPELINE_KUBE_CONTEXT, PIPELINE_KUBECONFIG",
            "a context is named, but no kubeconfig file that would have it",
            "set PIPELINE_KUBECONFIG, or do not set PIPELINE_KUBE_CONTEXT",
        )


def _variable(group: Any, name: str) -> str:
    return next(variable(setting) for setting in fields(group) if setting.name == name)
