"""Where TaskSets run. `base` has the interface and the values that cross it; each driver is a module or package.

From outside: `cluster()` and what `base` defines. Kept free of imports, because the local driver's supervisors load
this package too and ought to stay small.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pipeline_core.clusters.base import Cluster

_drivers: dict[str, Cluster] = {}


def cluster() -> Cluster:
    """This process's cluster: the driver that PIPELINE_CLUSTER_DRIVER names.

    Raises ConfigurationError when this build has no such driver.
    """
    from pipeline_core.settings import settings

    driver = settings().cluster_driver
    if driver not in _drivers:
        _drivers[driver] = _make(driver)
    return _drivers[driver]


def _make(driver: str) -> Cluster:
    from pipeline_core.errors import ConfigurationError
    from pipeline_core.settings import settings

    chosen = settings()
    if driver == "local":
        from pipeline_core.clusters.local.driver import LocalCluster

        return LocalCluster(
            chosen.cluster_name,
            chosen.data_dir / "cluster",
            slots=chosen.local_slots,
            grace_seconds=chosen.stop_grace_seconds,
        )
    if driver == "null":
        from pipeline_core.clusters.null import NullCluster

        return NullCluster(chosen.cluster_name)
    raise ConfigurationError(
        f'PIPELINE_CLUSTER_DRIVER is "{driver}"; this build has no such driver yet: use local or null'
    )
