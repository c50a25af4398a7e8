"""The cluster that this process uses.

A driver's module is imported when it is chosen: importing the Kubernetes client takes a second and 50 MB, which
installations without Kubernetes are spared.
"""

from __future__ import annotations

from importlib import import_module

from pipeline_core.clusters.base import Cluster, ClusterUnavailable
from pipeline_core.errors import ConfigurationError
from pipeline_core.runtime import part
from pipeline_core.settings import settings

DRIVERS = {
    "local": "pipeline_core.clusters.local.driver",
    "kubernetes": "pipeline_core.clusters.kubernetes.driver",
    "null": "pipeline_core.clusters.null",
}
"""Values of PIPELINE_CLUSTER_DRIVER, each with its module, whose `from_settings` makes the driver."""


@part
def cluster() -> Cluster:
    """The driver that PIPELINE_CLUSTER_DRIVER names.

    Raises ClusterUnavailable when the settings do not suffice for it now: a file that they name may be there later.
    """
    try:
        return make()
    except ConfigurationError as error:
        raise ClusterUnavailable(error.message) from error


def make() -> Cluster:
    """A new driver by the settings. Raises ConfigurationError when there is no such driver, or they do not suffice for it."""
    driver = settings().cluster_driver
    if driver not in DRIVERS:
        raise ConfigurationError(f'PIPELINE_CLUSTER_DRIVER is "{driver}": use local, kubernetes or null')
    made: Cluster = import_module(DRIVERS[driver]).from_settings(settings())
    return made
