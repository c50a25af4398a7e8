"""Stages with plugins that answer from a table instead of over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from pipeline_core.features.snapshot import RegisteredPlugin, Snapshot
from pipeline_core.plugins.client import Reply
from pipeline_core.plugins.errors import CallFailed
from pipeline_core.plugins.types import FailurePolicy
from pipeline_core.selectors import Selector, compile
from pipeline_core.stages import calls
from pipeline_core.stages.names import PLUGIN_TYPE, Stage
from pipeline_core.stages.outcomes import ClaimedStep
from tests.builders import taskset

HEADER = {"userID": "u1", "jobName": "train", "jobKind": "TaskSet", "jobID": "j0"}


class Plugins:
    """What each plugin answers: JSON, or the failure that its call ends with. Records the calls."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, str]] = []

    def call(self, endpoint: Any, body: bytes, *, idempotency_key: str, **_: Any) -> Reply:
        self.asked.append((endpoint.key, idempotency_key))
        answer = self.answers[endpoint.key]
        if isinstance(answer, CallFailed):
            raise answer
        if callable(answer):
            answer = answer(json.loads(body))
        return Reply(json.dumps(answer).encode(), 1, 0.01)


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Plugins:
    table = Plugins()
    monkeypatch.setattr(calls, "client", lambda: table)
    return table


def plugin(stage: Stage, name: str, position: int = 1, **fields: Any) -> RegisteredPlugin:
    """A plugin that matches every job. Its key is the name."""
    selector = Selector()
    values: dict[str, Any] = {
        "timeout_seconds": 30,
        "max_attempts": 1,
        "patience_seconds": 60,
        "failure_policy": FailurePolicy.FAIL,
        **fields,
    }
    return RegisteredPlugin(
        key=name,
        feature=name,
        owner="admin",
        type=PLUGIN_TYPE[stage],
        address="http://127.0.0.1:1/",
        selector=selector,
        matcher=compile(selector),
        states=frozenset(),
        position=position,
        **values,
    )


@pytest.fixture
def claim() -> Callable[..., ClaimedStep]:
    def make(
        stage: Stage,
        registered: Sequence[RegisteredPlugin],
        job: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> ClaimedStep:
        values: dict[str, Any] = {"kind": "TaskSet", "header": HEADER, "factors": {}, **fields}
        return ClaimedStep(
            job_id="j0",
            epoch=0,
            stage=stage,
            owner="w1",
            claim_count=1,
            user_id="u1",
            namespace="default",
            attempt=0,
            request_id="",
            submitted=job if stage is Stage.TRANSLATE else None,
            taskset=None if stage is Stage.TRANSLATE else taskset() if job is None else job,
            plugins=Snapshot(1, registered),
            **values,
        )

    return make
