"""Settings of jobs: their stages, the plugins that these call, and the deliveries of their events."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline_core.settings.declaration import Network, choice, integer, networks, number, setting, words


@dataclass(frozen=True, kw_only=True)
class StageSettings:
    """The stages of jobs."""

    stage_budget_seconds: float = setting(
        number, 120.0, "How long all plugin calls of a stage together may take, with all attempts.", unit="s"
    )
    stage_threads: int = setting(
        integer,
        64,
        "Threads of each process of a stage worker. It runs seven eighths as many steps at a time; the other threads look for "
        "steps that it can run.",
        unit="threads",
        least=1,
    )
    lease_seconds: float = setting(
        number,
        10.0,
        "How long a worker holds a step without renewing its lease. It renews the lease three times in that time.",
        unit="s",
        least=1,
    )
    max_claims: int = setting(
        integer,
        5,
        "The job fails when so many workers have died at one stage of it, one after the other, or when the stage has ended with "
        "so many unexpected exceptions. After two deaths, and in any case the last time, the stage is tried alone, in a process "
        "of its own.",
        unit="claims",
        least=2,
    )
    reconcile_seconds: float = setting(
        number, 30.0, "A launched job whose last observation is older than this is observed again.", unit="s"
    )


@dataclass(frozen=True, kw_only=True)
class PluginSettings:
    """Calls of plugins."""

    plugin_networks: tuple[Network, ...] = setting(
        networks,
        (),
        "Networks (CIDR, comma-separated) that plugins may be in. Empty: all. Link-local and cloud metadata addresses are "
        "always refused.",
    )
    plugin_concurrency: int = setting(
        integer, 128, "How many calls of one plugin all workers together may make at a time.", unit="calls"
    )
    breaker_failures: int = setting(
        integer,
        5,
        "After so many attempts in a row that found a plugin unavailable, over all jobs, its circuit opens.",
        unit="attempts",
    )
    breaker_open_seconds: float = setting(
        number, 10.0, "How long a circuit stays open before one call probes the plugin.", unit="s"
    )


@dataclass(frozen=True, kw_only=True)
class PodPolicySettings:
    """What pods may contain."""

    pod_policy: str = setting(
        choice("baseline", "none"),
        "baseline",
        "What decorators and binders add to pods must conform to this level of the Pod Security Standards.",
    )
    pod_policy_submitted: str = setting(
        choice("none", "baseline"), "none", "The same for pods as they are submitted or translated."
    )
    host_paths: tuple[str, ...] = setting(
        words, (), "Directories of the nodes, comma-separated, in which the pod policy allows hostPath volumes."
    )


@dataclass(frozen=True, kw_only=True)
class HookSettings:
    """Deliveries to LifeHooks."""

    hook_concurrency: int = setting(
        integer,
        8,
        "How many calls of one LifeHook all workers together may make at a time: fewer than the 32 places of a hook worker, "
        "so that a LifeHook that hangs does not hold up the others.",
        unit="calls",
    )
    hook_retry_min_seconds: float = setting(
        number, 2.0, "The first pause between two attempts of a delivery.", unit="s"
    )
    hook_retry_max_seconds: float = setting(
        number, 300.0, "The longest pause between two attempts of a delivery.", unit="s"
    )
    hook_give_up_seconds: float = setting(
        number,
        86400.0,
        "A delivery whose event is older than this gets no more attempts and is `exhausted`.",
        unit="s",
    )
