"""The part of an operator's configuration that the fields of flows depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline_core.settings import Settings

GPU = "gpu"
"""The vendor of GPUs where a task names none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """Projects, what may be mounted, and resource names by vendor."""

    projects: tuple[str, ...] = ("public",)
    host_paths: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    gpu_resources: Mapping[str, str] = field(default_factory=lambda: {GPU: "nvidia.com/gpu"})
    vgpu_resource: Mapping[str, str] = field(default_factory=dict)
    rdma_resource: str = ""
    cluster_name: str = "local"

    @classmethod
    def of(cls, settings: Settings) -> Site:
        """The site of these settings."""
        return cls(
            projects=settings.projects,
            host_paths=settings.host_paths,
            secrets=settings.mount_secrets,
            gpu_resources={vendor.lower(): resource for vendor, resource in settings.gpu_resources},
            vgpu_resource=dict(settings.vgpu_resource),
            rdma_resource=settings.rdma_resource,
            cluster_name=settings.cluster_name,
        )
