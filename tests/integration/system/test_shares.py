"""Slow plugins and users with many jobs do not hold up the others."""

from __future__ import annotations

import threading
from typing import Any

from tests.builders import taskset
from tests.installation import Installation
from tests.plugin_server import PluginServer
from tests.waiting import HANG_SECONDS, wait_for

GATES = 4
JOBS_OF_EACH = 40
"""Together more than the threads of both workers, and of each gate fewer than may be called at a time."""


def test_jobs_that_no_slow_gate_matches_go_on_while_slow_gates_hold_up_all_others(
    service: Installation, plugins: PluginServer
) -> None:
    answer = threading.Event()
    held: list[str] = []

    def slow(packet: dict[str, Any]) -> dict[str, str]:
        held.append(packet["header"]["jobID"])
        answer.wait(HANG_SECONDS)
        return {"decision": "stop"}

    def gate(address: str, kind: str) -> dict[str, Any]:
        selector = {"conditions": [{"name": "type", "key": "type", "expect": kind}], "expression": "type"}
        return {"pluginType": "AccessGate", "callAddress": address, "timeoutSeconds": 300, "jobSelector": selector}

    for number in range(GATES):
        service.register(f"slow-{number}", gate(plugins.plugin(f"/slow-{number}", slow), f"slow-{number}"))
    service.register("quick", gate(plugins.plugin("/quick", lambda packet: {"decision": "pass"}), "quick"))
    try:
        waiting = [
            service.submit(taskset(), header={"type": f"slow-{number}"})
            for _ in range(JOBS_OF_EACH)
            for number in range(GATES)
        ]
        wait_for(lambda: len(held) > len(waiting) // 2, "the workers to be full", progress=lambda: len(held))
        for kind in ("quick", "none", "quick", "none"):
            service.wait_state(service.submit(taskset(), header={"type": kind}), "succeeded")
        assert len(held) < len(waiting), "there were more than the workers have places for"
    finally:
        answer.set()
    for job_id in waiting:
        service.wait_state(job_id, "stopped")
    assert sorted(held) == sorted(waiting), "each was asked about once: waiting for a place is no failed attempt"
