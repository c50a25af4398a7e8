from __future__ import annotations

import json
from typing import Any

from cryptography.fernet import Fernet

WELL: dict[str, Any] = {
    "problems": [],
    "jobs": {"waiting": 2, "suspended": 0, "running": 0},
    "live": [{"state": "waiting", "stage": "gates", "count": 2}],
    "steps": [
        {"stage": "gates", "condition": "held", "worker": "stages1@here", "count": 1, "oldestSeconds": 1.0},
        {"stage": "gates", "condition": "waiting", "worker": "", "count": 1, "oldestSeconds": 1.0},
    ],
    "stepLagSeconds": 0.0,
    "deliveries": [{"plugin": "LifeHook.bell.ops", "count": 3, "oldestSeconds": 9.0}],
    "runs": {"running": 1, "failed": 0},
    "endedAgeSeconds": 34.0,
    "failedJobs": [],
    "failingSchedules": 0,
    "cleanups": 0,
    "observationAgeSeconds": 0.0,
    "queues": {"stages.gates": 1, "hooks": 0},
    "plugins": [
        {"plugin": "LifeHook.bell.ops", "circuit": "open", "calls": 0, "failures": 5, "cause": "no\x1b[2J route"}
    ],
    "workers": [{"worker": "stages1@here", "heartbeatAgeSeconds": 3.2}],
    "beatHeartbeatAgeSeconds": 1.0,
    "queueProbes": [],
    "cluster": {
        "name": "gpu-1",
        "usable": False,
        "problem": "the service lacks rights",
        "since": "2026-03-01T12:00:00Z",
        "reportAgeSeconds": 2.0,
        "lagSeconds": 0.0,
    },
}


def test_the_status_shows_problems_first(stub, pipeline) -> None:
    stub.answer("GET", "/v1/status", {**WELL, "problems": ["Beat has sent no heartbeat yet."]})
    result = pipeline("status")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "! Beat has sent no heartbeat yet."
    for text in (
        "2 waiting",
        "1 gates held, 1 gates waiting",
        "1 stages.gates",
        "ended counted  34 s ago",
        "1 s ago",
        "never",
        "gpu-1 cannot be used: the service lacks rights",
    ):
        assert text in result.stdout
    assert next(line for line in lines if line.startswith("stages1@here")).split() == [
        "stages1@here",
        "3",
        "s",
        "ago",
        "1",
    ]
    assert "gpu-1 cannot be used: the service lacks rights" in result.stdout
    assert "\x1b" not in result.stdout


def test_the_status_can_be_checked_by_a_program(stub, pipeline) -> None:
    stub.answer("GET", "/v1/status", WELL)
    stub.answer("GET", "/v1/status", {**WELL, "queues": None, "problems": ["Redis is away."]})
    assert pipeline("status", "--check").exit_code == 0
    result = pipeline("status", "--check", "-o", "json")
    assert (result.exit_code, json.loads(result.stdout)["problems"]) == (1, ["Redis is away."])


def test_secrets_are_rotated_by_the_service(stub, pipeline) -> None:
    stub.answer("PUT", "/v1/secrets/rotate", {"count": 2})
    assert pipeline("secrets", "rotate").stdout == "2 secrets are encrypted with the first key\n"


def test_a_new_key_is_a_key_and_another_each_time(stub, pipeline) -> None:
    keys = {pipeline("secrets", "key").stdout.strip() for _ in range(2)}
    assert len(keys) == 2
    assert all(Fernet(key) for key in keys)
