"""Jobs with one plugin in each stage, each of 5 ms; against the same five calls made straight, per worker process."""

from __future__ import annotations

from pipeline_core.stages.names import PLUGIN_TYPE
from scripts.benchmarks.calls import rounds_per_second
from scripts.benchmarks.drain import drain_jobs, jobs_per_second
from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import TRANSLATED, plugin_server, register, standing

NAME = "plugin_jobs_per_second"
GOAL = 0.6
PLUGIN_MILLISECONDS = 5
PACKET = {"factors": {}, "header": TRANSLATED["header"], "job": TRANSLATED["job"]}


def measure(scale: Scale) -> Result:
    """Drain the queues and make the calls in turn."""
    with standing() as stand, plugin_server(stand, PLUGIN_MILLISECONDS) as url:
        urls = [f"{url}/{type}" for type in PLUGIN_TYPE.values()]
        register(*({"pluginType": type, "callAddress": f"{url}/{type}"} for type in PLUGIN_TYPE.values()))
        stand.start_service(*stand.stage_workers, "housekeeping", "beat")
        jobs_per_second(stand, scale.jobs // 4, TRANSLATED)
        processes = stand.plan.stage_workers
        pairs = [
            (drain_jobs(stand, scale.jobs, TRANSLATED), rounds_per_second(urls, PACKET, scale.jobs, processes))
            for _ in range(scale.rounds)
        ]
        rounds = [(drained.jobs_per_second, straight) for drained, straight in pairs]
    return Result.of_rounds(
        NAME,
        "jobs/s",
        rounds,
        goal=GOAL,
        samples=scale.jobs,
        worker_processes=processes,
        plugin_ms=PLUGIN_MILLISECONDS,
        cpu_ms_per_job=pairs[-1][0].cpu_ms_per_job,
    )
