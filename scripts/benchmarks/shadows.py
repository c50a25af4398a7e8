"""From the submission to the launch of jobs that pass a gate which five shadows are to replace; against the same without them."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy import func, select

from api.schemas.features import FeatureBody
from pipeline_core.auth.actor import SYSTEM
from pipeline_core.database import transaction
from pipeline_core.database.models import ShadowAnswer
from pipeline_core.features import registry
from pipeline_core.plugins.types import PluginType
from scripts.benchmarks import cpu
from scripts.benchmarks.launches import WARM_UP, launching
from scripts.benchmarks.results import Result, spread
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import plugin_server, register, standing, wait_for

NAME = "shadows"
SHADOWS = 5
GOAL = 1.05
PLUGIN_MILLISECONDS = 5
SETTLE_SECONDS = 2.0
"""After so long the shadows have answered about the last job: what they take does not count for what comes next."""
GATE = PluginType.ACCESS_GATE


def measure(scale: Scale) -> Result:
    """Launch jobs one after the other, in turn with the shadows off and on."""
    with (
        standing() as stand,
        plugin_server(stand, PLUGIN_MILLISECONDS) as url,
        # It would be on another machine.
        plugin_server(stand, PLUGIN_MILLISECONDS, name="shadows-plugins", nice=19) as shadows_url,
    ):
        register({"pluginType": GATE, "callAddress": f"{url}/{GATE}"})
        names = [f"shadow-{number}" for number in range(SHADOWS)]
        for name in names:
            _register_shadow(name, f"{shadows_url}/{GATE}")
        stand.start_service()
        with launching(stand) as launch:
            _switch(names, True)
            Phase(launch).go_on(WARM_UP)
            # The process that asks shadows is started for the first of them.
            wait_for(_answers, "the first answer of a shadow")
            without, with_shadows = Phase(launch), Phase(launch)
            each = max(scale.samples // scale.rounds, 1)
            for _ in range(scale.rounds):
                _switch(names, False)
                without.go_on(each)
                _switch(names, True)
                with_shadows.go_on(each)
        answers = _answers()
    value, baseline = statistics.median(with_shadows.latencies), statistics.median(without.latencies)
    return Result(
        name=NAME,
        value=value,
        unit="ms",
        baseline=baseline,
        goal=f"ratio at most {GOAL:g}",
        met=value / baseline <= GOAL,
        samples=len(with_shadows.latencies),
        more={
            "shadows": SHADOWS,
            "answers": answers,
            "latency_ms": spread(with_shadows.latencies),
            "baseline_latency_ms": spread(without.latencies),
            "cpu_ms_per_job": with_shadows.cpu_ms(),
            "baseline_cpu_ms_per_job": without.cpu_ms(),
        },
    )


@dataclass
class Phase:
    """Launches with the shadows on, or off: how long each took in ms, and the CPU seconds of all processes meanwhile."""

    launch: Callable[[], float]
    latencies: list[float] = field(default_factory=list)
    spent: Counter[str] = field(default_factory=Counter)

    def go_on(self, number: int) -> None:
        """Launch so many more jobs."""
        # Each change of the registry is compiled again by each process, and shadows are asked a moment after their jobs.
        for _ in range(WARM_UP):
            self.launch()
        before = cpu.seconds()
        self.latencies += [self.launch() for _ in range(number)]
        time.sleep(SETTLE_SECONDS)
        self.spent.update({name: used - before.get(name, 0.0) for name, used in cpu.seconds().items()})

    def cpu_ms(self) -> dict[str, float]:
        """The CPU time of a launch, by process."""
        return cpu.milliseconds_each({}, self.spent, len(self.latencies))


def _answers() -> int | None:
    with transaction() as session:
        return session.scalar(select(func.count()).select_from(ShadowAnswer))


def _register_shadow(name: str, address: str) -> None:
    plugin = {"pluginType": GATE, "callAddress": address, "mode": "shadow", "shadowOf": f"{GATE}.bench.bench"}
    feature = {"name": name, "author": "bench", "plugins": [plugin]}
    with transaction() as session:
        registry.register(session, FeatureBody().read(feature), SYSTEM)


def _switch(names: list[str], enabled: bool) -> None:
    with transaction() as session:
        for name in names:
            registry.switch(session, name, enabled, SYSTEM)
