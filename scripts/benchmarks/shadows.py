"""From the submission to the launch of jobs that pass a gate which five shadows are to replace; against the same without them."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from sqlalchemy import func, select

from api.schemas.features import FeatureBody
from pipeline_core.auth.actor import SYSTEM
from pipeline_core.database import transaction
from pipeline_core.database.models import ShadowAnswer
from pipeline_core.features import registry
from pipeline_core.plugins.types import PluginType
from scripts.benchmarks.launches import WARM_UP, launching
from scripts.benchmarks.results import Result, spread
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import plugin_server, register, standing

NAME = "shadows"
SHADOWS = 5
GOAL = 1.05
PLUGIN_MILLISECONDS = 5
GATE = PluginType.ACCESS_GATE


def measure(scale: Scale) -> Result:
    """Launch jobs one after the other, in turn with the shadows off and on."""
    with (
        standing() as stand,
        plugin_server(stand, PLUGIN_MILLISECONDS) as url,
        plugin_server(stand, PLUGIN_MILLISECONDS, name="shadows-plugins") as shadows_url,
    ):
        register({"pluginType": GATE, "callAddress": f"{url}/{GATE}"})
        names = [f"shadow-{number}" for number in range(SHADOWS)]
        for name in names:
            _register_shadow(name, f"{shadows_url}/{GATE}")
        stand.start_service()
        with launching(stand) as launch:
            _switch(names, True)
            _launches(launch, WARM_UP)
            without, with_shadows = [], []
            each = max(scale.samples // scale.rounds, 1)
            for _ in range(scale.rounds):
                _switch(names, False)
                without += _launches(launch, each)
                _switch(names, True)
                with_shadows += _launches(launch, each)
        with transaction() as session:
            answers = session.scalar(select(func.count()).select_from(ShadowAnswer))
    value, baseline = statistics.median(with_shadows), statistics.median(without)
    return Result(
        name=NAME,
        value=value,
        unit="ms",
        baseline=baseline,
        goal=f"ratio at most {GOAL:g}",
        met=value / baseline <= GOAL,
        samples=len(with_shadows),
        more={
            "shadows": SHADOWS,
            "answers": answers,
            "latency_ms": spread(with_shadows),
            "baseline_latency_ms": spread(without),
        },
    )


def _launches(launch: Callable[[], float], number: int) -> list[float]:
    # Each change of the registry is compiled again by each process.
    launch()
    return [launch() for _ in range(number)]


def _register_shadow(name: str, address: str) -> None:
    plugin = {"pluginType": GATE, "callAddress": address, "mode": "shadow", "shadowOf": f"{GATE}.bench.bench"}
    feature = {"name": name, "author": "bench", "plugins": [plugin]}
    with transaction() as session:
        registry.register(session, FeatureBody().read(feature), SYSTEM)


def _switch(names: list[str], enabled: bool) -> None:
    with transaction() as session:
        for name in names:
            registry.switch(session, name, enabled, SYSTEM)
